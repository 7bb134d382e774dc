"""Guarded pointer sets: which object, and where in it, every access means.

Postconditions: ``cases`` of an access lists the objects its address may point into, with the byte offset in each; it
is empty when a pointer loaded from memory or made from an integer takes part, or more than 8 objects do. Guards are
exact: where a pointer variable may point into several objects, a companion variable (``p@``) is assigned with it and
holds the number of the object. ``space`` is set where all cases agree on it.

An offset is written out in terms of other variables where the definition of the pointer dominates the access and
nothing it reads is assigned twice; else it is ``PtrOffset(pointer)``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from prelaunch.analysis.frontends.cuda.passes import rewrite
from prelaunch.analysis.frontends.cuda.passes.constants import binary
from prelaunch.analysis.kernel import (
    BOOL,
    I32,
    I64,
    Address,
    Assign,
    Async,
    Atomic,
    Binary,
    Block,
    Call,
    Case,
    Const,
    Expr,
    If,
    Kernel,
    Load,
    Loop,
    Mma,
    Pointer,
    PtrAdd,
    PtrOffset,
    Return,
    Select,
    Space,
    Stmt,
    Store,
    Unary,
    Var,
)  # fmt: skip
from prelaunch.analysis.walk import defined, operands, walk, walk_expr

MAX_CASES = 8


def resolve(kernel: Kernel) -> Kernel:
    return _Resolver(kernel).run()


class _Resolver:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.numbers = {o.id: i for i, o in enumerate(kernel.objects)}
        self.spaces: dict[str, Space] = {o.id: o.space for o in kernel.objects}
        self.assigned: Counter[int] = Counter()
        self.sources: dict[int, list[Expr | None]] = {}
        self.targets: dict[int, frozenset[str] | None] = {}
        self.companions: dict[int, Var] = {}
        self.loaded: set[int] = set()  # pointers that come out of memory
        self.available: dict[int, Expr] = {}  # pointers whose definition dominates this point
        self._collect()
        self._solve()

    # --- points-to

    def _collect(self) -> None:
        last = 0
        for param in self.kernel.params:
            self.assigned[param.var.id] += 1
            last = max(last, param.var.id)
            if isinstance(param.var.type, Pointer):
                target = Address(param.object) if param.object is not None else None
                self.sources.setdefault(param.var.id, []).append(target)
        kept = _KeptPointers(self.kernel)
        for stmt in walk(self.kernel.body):
            for var in defined(stmt):
                last = max(last, var.id)
                self.assigned[var.id] += 1
                if isinstance(var.type, Pointer):
                    found: list[Expr] | None = [stmt.expr] if isinstance(stmt, Assign) else kept.read(stmt)
                    self.sources.setdefault(var.id, []).extend(found if found else [None])
                    if not isinstance(stmt, Assign):
                        self.loaded.add(var.id)
        self.last = last

    def _solve(self) -> None:
        self.targets = {ident: frozenset() for ident in self.sources}
        users: dict[int, list[int]] = {}
        for ident, exprs in self.sources.items():
            for expr in exprs:
                for item in walk_expr(expr) if expr is not None else ():
                    if isinstance(item, Var) and isinstance(item.type, Pointer):
                        users.setdefault(item.id, []).append(ident)
        pending = list(self.sources)
        while pending:
            ident = pending.pop()
            found: frozenset[str] | None = frozenset()
            for expr in self.sources[ident]:
                part = self._objects(expr) if expr is not None else None
                found = None if part is None or found is None else found | part
            if found is not None and len(found) > (1 if ident in self.loaded else MAX_CASES):
                found = None
            if found != self.targets[ident]:
                self.targets[ident] = found
                pending.extend(users.get(ident, ()))

    def _objects(self, expr: Expr) -> frozenset[str] | None:
        """Objects a pointer may point into, None when that is not known."""
        found: set[str] = set()
        stack = [expr]
        while stack:
            item = stack.pop()
            match item:
                case Address(object=name):
                    found.add(name)
                case PtrAdd(pointer=base):
                    stack.append(base)
                case Select(then=a, orelse=b):
                    stack.extend((a, b))
                case Var(id=ident) if isinstance(item.type, Pointer):
                    known = self.targets.get(ident)
                    if known is None:
                        return None
                    found.update(known)
                case Const():
                    continue
                case _:
                    return None
        return frozenset(found)

    # --- cases

    def cases(self, address: Expr) -> tuple[Case, ...]:
        objects = self._objects(address)
        if not objects or len(objects) > MAX_CASES:
            return ()
        found: list[Case] = []
        self._split(address, Const(0, I64, span=address.span), None, found, 0)
        if not found or len(found) > MAX_CASES:
            return ()
        return tuple(found)

    def _split(self, pointer: Expr, moved: Expr, guard: Expr | None, found: list[Case], depth: int) -> None:
        span = pointer.span
        if depth > 64 or len(found) > MAX_CASES:
            return
        match pointer:
            case Address(object=name):
                found.append(Case(name, moved, guard))
            case PtrAdd(pointer=base, offset=by):
                self._split(base, binary("add", by, moved, I64, span), guard, found, depth + 1)
            case Select(cond=cond, then=a, orelse=b):
                self._split(a, moved, _both(guard, cond), found, depth + 1)
                self._split(b, moved, _both(guard, Unary("lnot", cond, BOOL, span=span)), found, depth + 1)
            case Var(id=ident):
                if ident in self.available:
                    self._split(self.available[ident], moved, guard, found, depth + 1)
                    return
                known = sorted(self.targets.get(ident) or (), key=lambda name: self.numbers.get(name, 0))
                start: Expr = PtrOffset(pointer, span=span)
                if self._pristine(ident):
                    start = Const(0, I64, span=span)
                place = binary("add", start, moved, I64, span)
                for name in known:
                    mine = self._is_number(pointer, name) if len(known) > 1 else None
                    found.append(Case(name, place, _both(guard, mine) if mine is not None else guard))

    def _pristine(self, ident: int) -> bool:
        """A parameter never assigned: it points to byte 0 of its object."""
        return self.assigned[ident] == 1 and any(p.var.id == ident for p in self.kernel.params)

    def _is_number(self, pointer: Var, name: str) -> Expr:
        number = Const(self.numbers[name], I32, span=pointer.span)
        return Binary("eq", self._companion(pointer), number, BOOL, span=pointer.span)

    def _companion(self, pointer: Var) -> Var:
        made = self.companions.get(pointer.id)
        if made is None:
            self.last += 1
            made = Var(self.last, f"{pointer.name}@", I32, span=pointer.span)
            self.companions[pointer.id] = made
        return made

    def _number_of(self, expr: Expr) -> Expr:
        """The number of the object ``expr`` points into (-1: none)."""
        match expr:
            case Address(object=name):
                return Const(self.numbers[name], I32, span=expr.span)
            case PtrAdd(pointer=base):
                return self._number_of(base)
            case Select(cond=cond, then=a, orelse=b):
                return Select(cond, self._number_of(a), self._number_of(b), I32, span=expr.span)
            case Var(id=ident):
                known = self.targets.get(ident) or frozenset()
                if len(known) == 1:
                    return Const(self.numbers[next(iter(known))], I32, span=expr.span)
                if len(known) > 1:
                    return self._companion(expr)
        return Const(-1, I32, span=expr.span)

    # --- rewriting

    def run(self) -> Kernel:
        self._demand_companions()
        body = self._block(self.kernel.body)
        if self.companions:
            body = self._with_companions(body)
        return replace(self.kernel, body=body)

    def _demand_companions(self) -> None:
        """Every pointer that may mean several objects gets its companion, in order of appearance."""
        for stmt in walk(self.kernel.body):
            for var in defined(stmt):
                known = self.targets.get(var.id)
                if isinstance(var.type, Pointer) and known is not None and len(known) > 1:
                    self._companion(var)

    def _with_companions(self, body: Block) -> Block:
        def one(stmt: Stmt) -> list[Stmt]:
            if isinstance(stmt, Assign) and stmt.var.id in self.companions:
                number = self._number_of(stmt.expr)
                return [Assign(self.companions[stmt.var.id], number, span=stmt.span), stmt]
            return [stmt]

        made = rewrite.statements(body, one)
        first: list[Stmt] = []
        for param in self.kernel.params:
            if param.var.id in self.companions and param.object is not None:
                number = Const(self.numbers[param.object], I32, span=param.var.span)
                first.append(Assign(self.companions[param.var.id], number, span=param.var.span))
        return Block((*first, *made.stmts), made.label, span=made.span)

    def _call(self, stmt: Call) -> Call:
        """What a function without early return defines holds after the call as well."""
        early = any(isinstance(s, Return) and s.label == stmt.label for s in walk(stmt.body))
        return Call(stmt.label, stmt.callee, self._block(stmt.body, keep=not early), span=stmt.span)

    def _block(self, block: Block, keep: bool = False) -> Block:
        kept = dict(self.available)
        made: list[Stmt] = []
        for stmt in block.stmts:
            made.append(self._stmt(stmt))
            if isinstance(stmt, Assign) and self._steady(stmt):
                self.available[stmt.var.id] = stmt.expr
        if not keep:
            self.available = kept
        return Block(tuple(made), block.label, span=block.span)

    def _steady(self, stmt: Assign) -> bool:
        """A pointer assigned once, from values that are assigned once: they still hold wherever this dominates."""
        if not isinstance(stmt.var.type, Pointer) or self.assigned[stmt.var.id] != 1:
            return False
        return all(self.assigned[item.id] == 1 for item in walk_expr(stmt.expr) if isinstance(item, Var))

    def _stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Block():
                return self._block(stmt)
            case If():
                return If(stmt.cond, self._block(stmt.then), self._block(stmt.orelse), span=stmt.span)
            case Loop():
                test = self._block(stmt.test)
                return replace(stmt, test=test, body=self._block(stmt.body), step=self._block(stmt.step))
            case Call():
                return self._call(stmt)
            case Load() | Store() | Atomic():
                found = self.cases(stmt.address)
                spaces = {self.spaces[c.object] for c in found}
                space = next(iter(spaces)) if len(spaces) == 1 else stmt.space
                return replace(stmt, cases=found, space=space)
            case Async():
                dst = self.cases(stmt.dst) if stmt.dst is not None else ()
                src = self.cases(stmt.src) if stmt.src is not None else ()
                return replace(stmt, dst_cases=dst, src_cases=src)
            case Mma():
                return replace(stmt, cases=self.cases(stmt.address)) if stmt.address is not None else stmt
        return stmt


class _KeptPointers:
    """Pointers stored in local objects: what a load from one may give.

    Only objects whose address is used for nothing but accesses take part.
    """

    def __init__(self, kernel: Kernel) -> None:
        names = {o.id for o in kernel.objects if o.space == "local"}
        self.stored: dict[str, dict[int | None, list[Expr]]] = {name: {} for name in names}
        lost: set[str] = set()
        if not names:
            return
        for stmt in walk(kernel.body):
            place = _local_place(stmt, names)
            exprs = operands(stmt)
            if place is not None:
                assert isinstance(stmt, Load | Store)
                exprs = stmt.exprs if isinstance(stmt, Store) else ()
                if isinstance(stmt, Store) and isinstance(stmt.type, Pointer):
                    self.stored[place[0]].setdefault(place[1], []).extend(stmt.exprs)
            for expr in exprs:
                lost.update(e.object for e in walk_expr(expr) if isinstance(e, Address))
        for name in lost & names:
            del self.stored[name]

    def read(self, stmt: Stmt) -> list[Expr] | None:
        """All pointers the load ``stmt`` may give, None when that is not known."""
        place = _local_place(stmt, set(self.stored))
        if place is None:
            return None
        slots = self.stored[place[0]]
        if place[1] is None:
            return [e for found in slots.values() for e in found]
        return [*slots.get(place[1], ()), *slots.get(None, ())]


def _local_place(stmt: Stmt, names: set[str]) -> tuple[str, int | None] | None:
    """Object and offset (None: not constant) of a load or store of a local object."""
    if not isinstance(stmt, Load | Store):
        return None
    address, at = stmt.address, 0
    if isinstance(address, PtrAdd):
        if any(isinstance(e, Address) for e in walk_expr(address.offset)):
            return None
        if not isinstance(address.offset, Const):
            base = address.pointer
            return (base.object, None) if isinstance(base, Address) and base.object in names else None
        at = int(address.offset.value)
        address = address.pointer
    return (address.object, at) if isinstance(address, Address) and address.object in names else None


def _both(a: Expr | None, b: Expr) -> Expr:
    return b if a is None else binary("land", a, b, BOOL, b.span)
