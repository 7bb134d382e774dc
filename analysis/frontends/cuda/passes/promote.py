"""Local objects to variables (scalar replacement of aggregates).

Postconditions: a local object all of whose uses are weak accesses at constant offsets that agree on where elements
start and how wide they are has become one variable per element (``v.x``, ``a[2]``); what it held under another type of
the same width is read through ``Bitcast``. Pointers assigned once to such an address are replaced by it first, so
that an address passed to an inlined function does not keep its object in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from prelaunch.analysis.frontends.cuda.passes import rewrite
from prelaunch.analysis.frontends.cuda.passes.constants import offset
from prelaunch.analysis.kernel import (
    BOOL,
    Address,
    Assign,
    Bitcast,
    Const,
    Expr,
    Kernel,
    Load,
    Pointer,
    PtrAdd,
    Scalar,
    Stmt,
    Store,
    Type,
    Var,
)  # fmt: skip
from prelaunch.analysis.walk import defined, operands, walk, walk_expr

MAX_SLOTS = 64
ROUNDS = 4


def promote(kernel: Kernel, paths: Mapping[str, Mapping[int, str]]) -> Kernel:
    """``paths``: for local objects, the access path (``.x``) of the element at each offset."""
    for _ in range(ROUNDS):
        kernel = _forward(kernel)
        slots = _Slots(kernel)
        if not slots.objects:
            return kernel
        kernel = slots.replace(kernel, paths)
    return kernel


# --- pointers with one constant value --------------------------------------------------------------------------------


def _forward(kernel: Kernel) -> Kernel:
    """Replace pointer variables assigned once, to a constant offset from an object, by that address."""
    counts: Counter[int] = Counter()
    single: dict[int, Expr] = {}
    for stmt in walk(kernel.body):
        for var in defined(stmt):
            counts[var.id] += 1
        if isinstance(stmt, Assign) and isinstance(stmt.var.type, Pointer):
            single[stmt.var.id] = stmt.expr
    for param in kernel.params:
        counts[param.var.id] += 1
    known: dict[int, Expr] = {}
    for ident, expr in single.items():
        if counts[ident] == 1:
            address = _constant_address(expr, known)
            if address is not None:
                known[ident] = address
    if not known:
        return kernel

    def leaf(expr: Expr) -> Expr | None:
        if isinstance(expr, Var) and expr.id in known:
            return _typed(known[expr.id], expr)
        if isinstance(expr, PtrAdd):
            base = rewrite.expression(expr.pointer, leaf)
            moved = rewrite.expression(expr.offset, leaf)
            if isinstance(base, PtrAdd) and isinstance(base.offset, Const):
                return _joined(base, moved, expr)
            return rewrite.rebuild(expr, [base, moved])
        return None

    def one(stmt: Stmt) -> list[Stmt]:
        if isinstance(stmt, Assign) and stmt.var.id in known:
            return []
        return [rewrite.operands(stmt, lambda e: rewrite.expression(e, leaf))]

    return replace(kernel, body=rewrite.statements(kernel.body, one))


def _constant_address(expr: Expr, known: Mapping[int, Expr]) -> Expr | None:
    if isinstance(expr, Address):
        return expr
    if isinstance(expr, Var):
        return _typed(known[expr.id], expr) if expr.id in known else None
    if isinstance(expr, PtrAdd) and isinstance(expr.offset, Const):
        base = _constant_address(expr.pointer, known)
        if base is not None:
            return (
                offset(base, int(expr.offset.value), 1, expr.type, expr.span)
                if base.type != expr.type or expr.offset.value
                else base
            )
    return None


def _typed(address: Expr, like: Expr) -> Expr:
    if isinstance(address, Address | PtrAdd) and isinstance(like.type, Pointer):
        return replace(address, type=like.type, span=like.span)
    return address


def _joined(base: PtrAdd, moved: Expr, like: PtrAdd) -> Expr:
    from prelaunch.analysis.frontends.cuda.passes.constants import binary
    from prelaunch.analysis.kernel import I64

    return PtrAdd(base.pointer, binary("add", moved, base.offset, I64, like.span), like.type, span=like.span)


# --- slots -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Shape:
    """Elements of one object by offset, and their types in order of appearance."""

    types: dict[int, Type] = field(default_factory=dict)


class _Slots:
    """The local objects of a kernel that can become variables."""

    def __init__(self, kernel: Kernel) -> None:
        names = {o.id for o in kernel.objects if o.space == "local" and not o.volatile}
        self.objects: dict[str, _Shape] = {}
        self.next_var = _last_var(kernel) + 1
        if not names:
            return
        shapes = {name: _Shape() for name in names}
        lost: set[str] = set()
        self.stored: dict[str, set[int]] = {name: set() for name in names}
        for stmt in walk(kernel.body):
            place = _place(stmt)
            if place is not None and place[0] in names:
                self._access(shapes[place[0]], place[0], place[1], stmt, lost)
                rest = stmt.exprs if isinstance(stmt, Store) else ()
            else:
                rest = operands(stmt)
            for expr in rest:
                lost.update(e.object for e in walk_expr(expr) if isinstance(e, Address))
        self.objects = {
            n: s for n, s in shapes.items() if n not in lost and _disjoint(s) and self.stored[n] == set(s.types)
        }

    def _access(self, shape: _Shape, name: str, start: int, stmt: Stmt, lost: set[str]) -> None:
        assert isinstance(stmt, Load | Store)
        if stmt.order != "weak":
            lost.add(name)
        count = len(stmt.vars) if isinstance(stmt, Load) else len(stmt.exprs)
        for index in range(count):
            if isinstance(stmt, Store):
                self.stored[name].add(start + index * stmt.type.size)
            known = shape.types.setdefault(start + index * stmt.type.size, stmt.type)
            if known != stmt.type and not _punned(known, stmt.type):
                lost.add(name)

    def replace(self, kernel: Kernel, paths: Mapping[str, Mapping[int, str]]) -> Kernel:
        made: dict[tuple[str, int], Var] = {}
        by_id = {o.id: o for o in kernel.objects}
        for name, shape in self.objects.items():
            known = by_id[name]
            for start, of in sorted(shape.types.items()):
                path = paths.get(name, {}).get(start, "" if len(shape.types) == 1 else f"+{start}")
                made[name, start] = Var(self.next_var, known.name + path, of, span=known.span)
                self.next_var += 1

        def one(stmt: Stmt) -> list[Stmt]:
            place = _place(stmt)
            if place is None or place[0] not in self.objects:
                return [stmt]
            return _moves(stmt, place[0], place[1], made)

        body = rewrite.statements(kernel.body, one)
        objects = tuple(o for o in kernel.objects if o.id not in self.objects)
        return replace(kernel, body=body, objects=objects)


def _last_var(kernel: Kernel) -> int:
    last = max((p.var.id for p in kernel.params), default=0)
    for stmt in walk(kernel.body):
        for var in defined(stmt):
            last = max(last, var.id)
        for expr in operands(stmt):
            for item in walk_expr(expr):
                if isinstance(item, Var):
                    last = max(last, item.id)
    return last


def _place(stmt: Stmt) -> tuple[str, int] | None:
    """Object and constant offset of a load or store."""
    if not isinstance(stmt, Load | Store):
        return None
    address = stmt.address
    if isinstance(address, Address):
        return address.object, 0
    if isinstance(address, PtrAdd) and isinstance(address.pointer, Address) and isinstance(address.offset, Const):
        return address.pointer.object, int(address.offset.value)
    return None


def _punned(a: Type, b: Type) -> bool:
    return isinstance(a, Scalar) and isinstance(b, Scalar) and a.bits == b.bits and BOOL not in (a, b)


def _disjoint(shape: _Shape) -> bool:
    if not shape.types or len(shape.types) > MAX_SLOTS:
        return False
    end = -1
    for start, of in sorted(shape.types.items()):
        if start < end:
            return False
        end = start + of.size
    return True


def _moves(stmt: Stmt, name: str, start: int, made: Mapping[tuple[str, int], Var]) -> list[Stmt]:
    assert isinstance(stmt, Load | Store)
    size = stmt.type.size
    result: list[Stmt] = []
    if isinstance(stmt, Load):
        for index, var in enumerate(stmt.vars):
            slot = replace(made[name, start + index * size], span=stmt.span)
            result.append(Assign(var, _as(slot, stmt.type), span=stmt.span))
        return result
    for index, expr in enumerate(stmt.exprs):
        slot = made[name, start + index * size]
        result.append(Assign(slot, _as(expr, slot.type), span=stmt.span))
    return result


def _as(expr: Expr, of: Type) -> Expr:
    if expr.type == of or not isinstance(of, Scalar):
        return expr
    return Bitcast(expr, of, span=expr.span)
