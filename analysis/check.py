"""``check(kernel)``: does a lowered kernel keep the rules that the docstring of ``kernel.py`` states?

Postcondition of an empty answer: operand types agree, conditions are scalar, every variable read is a parameter or is
written somewhere, variables have one type, labels are unique and jumps name an enclosing construct of the right sort,
every object and case exists, accesses move the number of elements they say, spans are well formed, the kernel is
within the node budget. Order of evaluation and dominance are not checked. Iterative: nesting is no limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prelaunch.analysis.kernel import (
    BOOL,
    COMPARISONS,
    I64,
    LOGICAL,
    SPECIALS,
    Address,
    Assign,
    Assume,
    Async,
    Atomic,
    Barrier,
    Binary,
    Bitcast,
    Block,
    Break,
    Call,
    Case,
    Cast,
    Collective,
    Const,
    Continue,
    Expr,
    If,
    Intrinsic,
    Kernel,
    Load,
    Loop,
    Mma,
    Opaque,
    Pointer,
    PtrAdd,
    PtrOffset,
    Pure,
    Return,
    Scalar,
    Select,
    Special,
    Stmt,
    Store,
    Type,
    Unary,
    Var,
)
from prelaunch.analysis.source import Span
from prelaunch.analysis.walk import defined, operands, postorder, walk

NODE_BUDGET = 20_000
"""Statements a kernel may have; lowering stops inlining (with an Opaque) before it gets there."""
MESSAGES = 100
"""More complaints than this are counted, not listed."""
MAX_CASES = 8
MAX_ELEMENTS = 16
_SHFL = frozenset({"shfl.idx", "shfl.up", "shfl.down", "shfl.xor"})
_VOTE = frozenset({"vote.any", "vote.all", "vote.ballot"})
_REDUCE = frozenset(f"reduce.{op}" for op in ("add", "min", "max", "and", "or", "xor"))
_MATCH = frozenset({"match.any", "match.all"})
_TOUCHES = frozenset({"value", "memory", "control"})


def check(kernel: Kernel, sizes: Mapping[str, int] | None = None) -> list[str]:
    """Broken rules, in text order, each with its place; empty when the kernel is well formed.

    ``sizes`` maps files to their length in bytes; spans must then lie inside (files not listed are not checked).
    """
    found: list[str] = []
    extra = 0
    for message in _Check(kernel, sizes or {}).run():
        if len(found) < MESSAGES:
            found.append(message)
        else:
            extra += 1
    if extra:
        found.append(f"{extra} more")
    return found


def same_type(a: Type, b: Type) -> bool:
    """Equal; pointers agree whatever they point to."""
    return a == b or (isinstance(a, Pointer) and isinstance(b, Pointer))


class _Check:
    def __init__(self, kernel: Kernel, sizes: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.sizes = sizes
        self.objects = {item.id for item in kernel.objects}
        self.types: dict[int, Type] = {}
        self.written: set[int] = {param.var.id for param in kernel.params}
        for stmt in walk(kernel.body):
            self.written.update(var.id for var in defined(stmt))

    def run(self) -> Iterator[str]:
        yield from self.declarations()
        yield from self.labels()
        count = 0
        for stmt in walk(self.kernel.body):
            count += not isinstance(stmt, Block)
            yield from self.statement(stmt)
        if count > NODE_BUDGET:
            yield f"{self.kernel.label}: {count} statements, the budget is {NODE_BUDGET}"

    # --- declarations, spans, labels --------------------------------------------------------------------------------

    def declarations(self) -> Iterator[str]:
        kernel = self.kernel
        if len(self.objects) != len(kernel.objects):
            yield f"{kernel.label}: object ids are not unique"
        for item in kernel.objects:
            yield from self.place(item.span, f"object {item.id}")
            if item.size is not None and item.size < 0:
                yield f"object {item.id}: size {item.size}"
            if item.init is not None and item.size is not None and len(item.init) > item.size:
                yield f"object {item.id}: {len(item.init)} bytes of content for {item.size}"
        seen: set[int] = set()
        for param in kernel.params:
            name = f"parameter {param.var.name}"
            if not 0 <= param.formal < len(kernel.formals):
                yield f"{name}: no formal {param.formal}"
            elif not 0 <= param.offset <= kernel.formals[param.formal].size - param.var.type.size:
                yield f"{name}: leaf at {param.offset} lies outside its formal"
            if param.object is not None and param.object not in self.objects:
                yield f"{name}: unknown object {param.object}"
            if param.object is not None and not isinstance(param.var.type, Pointer):
                yield f"{name}: has an object but is no pointer"
            if param.var.id in seen:
                yield f"{name}: variable bound twice"
            seen.add(param.var.id)
            yield from self.variable(param.var)

    def place(self, span: Span, what: str) -> Iterator[str]:
        parts = (span, span.spelling, *span.call_path())
        for part in parts:
            if part is None:
                continue
            if not (0 <= part.start <= part.end and 0 <= part.line <= part.end_line):
                yield f"{what}: span {part.start}..{part.end} of {part.file or 'no file'} is not a range"
            elif part.end > self.sizes.get(part.file, part.end):
                yield f"{what}: span ends at {part.end}, after the end of {part.file}"

    def labels(self) -> Iterator[str]:
        """Labels are unique; a jump's label encloses it, is of its sort, and no loop jump leaves a call."""
        seen: set[int] = set()
        stack: list[tuple[Stmt, dict[int, str]]] = [(self.kernel.body, {})]
        while stack:
            stmt, scope = stack.pop()
            label = getattr(stmt, "label", None)
            if isinstance(stmt, (Break, Continue, Return)):
                sort = scope.get(stmt.label)
                right = {Break: ("loop", "block"), Continue: ("loop",), Return: ("call",)}[type(stmt)]
                if sort not in right:
                    name = type(stmt).__name__
                    yield f"{stmt.span}: {name}({stmt.label}) is not inside a {' or '.join(right)} of that label"
                continue
            if isinstance(label, int):
                if label in seen:
                    yield f"{stmt.span}: label {label} used twice"
                seen.add(label)
            inner = scope
            if isinstance(stmt, Call):
                inner = {n: sort for n, sort in scope.items() if sort == "call"} | {stmt.label: "call"}
            elif isinstance(stmt, Loop):
                inner = scope | {stmt.label: "loop"}
            elif isinstance(stmt, Block) and stmt.label is not None:
                inner = scope | {stmt.label: "block"}
            if isinstance(stmt, Block):
                stack.extend((below, inner) for below in reversed(stmt.stmts))
            elif isinstance(stmt, Loop):
                stack.extend((below, inner) for below in (stmt.step, stmt.body, stmt.test))
            elif isinstance(stmt, If):
                stack.extend(((stmt.orelse, inner), (stmt.then, inner)))
            elif isinstance(stmt, Call):
                stack.append((stmt.body, inner))

    # --- statements -------------------------------------------------------------------------------------------------

    def statement(self, stmt: Stmt) -> Iterator[str]:
        where = f"{stmt.span}: {type(stmt).__name__}"
        yield from self.place(stmt.span, where)
        for var in defined(stmt):
            yield from self.variable(var)
        for expr in operands(stmt):
            yield from self.expression(expr)
        for case in cases_of(stmt):
            yield from self.case(case, where)
        for message in self.shape(stmt):
            yield f"{where}: {message}"

    def case(self, case: Case, where: str) -> Iterator[str]:
        if case.object not in self.objects:
            yield f"{where}: unknown object {case.object}"
        yield from self.expression(case.offset, in_case=True)
        if case.offset.type != I64:
            yield f"{where}: case offset has type {case.offset.type}, not i64"
        if case.guard is not None:
            yield from self.expression(case.guard, in_case=True)
            if not isinstance(case.guard.type, Scalar):
                yield f"{where}: case guard is not scalar"

    def shape(self, stmt: Stmt) -> Iterator[str]:
        match stmt:
            case Assign(var=var, expr=expr):
                if not same_type(var.type, expr.type):
                    yield f"{expr.type} assigned to {var.type} {_name(var)}"
            case Load() | Store() | Atomic():
                yield from self.access(stmt)
            case Barrier():
                yield from self.barrier(stmt)
            case Collective():
                yield from self.collective(stmt)
            case Async():
                if max(len(stmt.dst_cases), len(stmt.src_cases)) > MAX_CASES:
                    yield f"more than {MAX_CASES} cases"
                if stmt.op == "copy" and (stmt.dst is None or stmt.src is None or not stmt.bytes):
                    yield "copy without destination, source or size"
            case Mma():
                if stmt.op in ("load", "store") and stmt.address is None:
                    yield f"{stmt.op} without address"
                if len(stmt.cases) > MAX_CASES:
                    yield f"more than {MAX_CASES} cases"
            case Loop(info=info):
                if info is not None:
                    for expr in (info.var, info.init, info.bound, info.step):
                        yield from self.expression(expr)
            case Intrinsic(name=""):
                yield "no name"
            case Opaque():
                if not stmt.reason:
                    yield "no reason"
                if not stmt.touches or not stmt.touches <= _TOUCHES:
                    yield f"touches {sorted(stmt.touches)}"
        if isinstance(stmt, (If, Loop, Assume)) and not isinstance(stmt.cond.type, Scalar):
            yield f"condition has type {stmt.cond.type}"

    def access(self, stmt: Load | Store | Atomic) -> Iterator[str]:
        if not isinstance(stmt.address.type, Pointer):
            yield f"address has type {stmt.address.type}"
        if len(stmt.cases) > MAX_CASES:
            yield f"{len(stmt.cases)} cases, at most {MAX_CASES}"
        if isinstance(stmt, Atomic):
            wanted = 2 if stmt.op == "cas" else 1
            if len(stmt.exprs) != wanted:
                yield f"{stmt.op} takes {wanted} values, has {len(stmt.exprs)}"
            moved: tuple[Expr, ...] = (*stmt.exprs, *((stmt.var,) if stmt.var is not None else ()))
        else:
            moved = stmt.vars if isinstance(stmt, Load) else stmt.exprs
            if not 1 <= len(moved) <= MAX_ELEMENTS:
                yield f"moves {len(moved)} elements"
        for expr in moved:
            if not same_type(expr.type, stmt.type):
                yield f"element of type {stmt.type}, value of type {expr.type}"

    def barrier(self, stmt: Barrier) -> Iterator[str]:
        if (stmt.reduce is None) != (stmt.var is None) or (stmt.reduce is None) != (stmt.pred is None):
            yield "reduction, predicate and result go together"
        for name, expr in (("id", stmt.id), ("count", stmt.count), ("mask", stmt.mask)):
            if expr is not None and not _integer(expr.type):
                yield f"{name} has type {expr.type}"
        if stmt.scope != "block" and (stmt.id is not None or stmt.count is not None):
            yield f"a {stmt.scope} barrier has no id or count"

    def collective(self, stmt: Collective) -> Iterator[str]:
        limits = (
            (2, 1, 2) if stmt.op in _SHFL
            else (1, 1, 1) if stmt.op in _VOTE | _REDUCE or stmt.op == "match.any"
            else (1, 1, 2) if stmt.op in _MATCH
            else (0, 1, 1) if stmt.op == "activemask"
            else (0, 1, 2) if stmt.op == "elect"
            else None
        )  # fmt: skip
        if limits is None:
            yield f"unknown operation {stmt.op}"
            return
        args, low, high = limits
        if len(stmt.args) != args:
            yield f"{stmt.op} takes {args} arguments, has {len(stmt.args)}"
        if not low <= len(stmt.vars) <= high and stmt.vars:
            yield f"{stmt.op} has {len(stmt.vars)} results"
        if stmt.mask is not None and not _integer(stmt.mask.type):
            yield f"mask has type {stmt.mask.type}"

    # --- expressions ------------------------------------------------------------------------------------------------

    def variable(self, var: Var) -> Iterator[str]:
        known = self.types.setdefault(var.id, var.type)
        if not same_type(known, var.type):
            yield f"{var.span}: variable {_name(var)} is {known} and {var.type}"

    def expression(self, root: Expr, in_case: bool = False) -> Iterator[str]:
        for expr in postorder(root):
            for message in self.typing(expr, in_case):
                yield f"{expr.span}: {type(expr).__name__}: {message}"

    def typing(self, expr: Expr, in_case: bool) -> Iterator[str]:
        match expr:
            case Const(value=value, type=kind):
                if not _fits(value, kind):
                    yield f"{value!r} is no {kind}"
            case Var():
                yield from self.variable(expr)
                if expr.id not in self.written:
                    yield f"{_name(expr)} is never assigned"
            case PtrOffset(var=var):
                if not in_case:
                    yield "outside a case"
                if not isinstance(var.type, Pointer):
                    yield f"{_name(var)} is no pointer"
            case Special(name=name):
                if name not in SPECIALS:
                    yield f"unknown name {name}"
            case Address(object=name):
                if name not in self.objects:
                    yield f"unknown object {name}"
            case Unary(op=op, operand=a):
                wanted: Type = BOOL if op == "lnot" else a.type
                if expr.type != wanted or not isinstance(a.type, Scalar):
                    yield f"{op} of {a.type} gives {expr.type}"
                elif op == "not" and not a.type.is_integer:
                    yield f"bit complement of {a.type}"
            case Binary():
                yield from _binary(expr)
            case Cast(operand=a):
                one, other = isinstance(a.type, Pointer), isinstance(expr.type, Pointer)
                if one != other and not (_integer(a.type) or _integer(expr.type)):
                    yield f"{a.type} to {expr.type}"
            case Bitcast(operand=a):
                if a.type.size != expr.type.size:
                    yield f"{a.type} and {expr.type} differ in width"
            case Select(cond=cond, then=a, orelse=b):
                if not isinstance(cond.type, Scalar):
                    yield f"condition has type {cond.type}"
                if not (same_type(a.type, b.type) and same_type(a.type, expr.type)):
                    yield f"{a.type} or {b.type} gives {expr.type}"
            case PtrAdd(pointer=pointer, offset=offset):
                if not isinstance(pointer.type, Pointer) or offset.type != I64:
                    yield f"{pointer.type} plus {offset.type}"
            case Pure(name=name):
                if not name:
                    yield "no name"


def _binary(expr: Binary) -> Iterator[str]:
    op, a, b, kind = expr.op, expr.left.type, expr.right.type, expr.type
    text = f"{a} {op} {b} gives {kind}"
    if not isinstance(a, Scalar) or not isinstance(b, Scalar):
        yield text
    elif op in LOGICAL:
        if kind != BOOL:
            yield text
    elif op in COMPARISONS:
        if kind != BOOL or a != b:
            yield text
    elif op in ("shl", "shr"):
        if kind != a or not (a.is_integer and b.is_integer):
            yield text
    elif not (a == b == kind) or (op in ("and", "or", "xor") and not a.is_integer):
        yield text


def _fits(value: int | float, kind: Scalar | Pointer) -> bool:
    if isinstance(kind, Pointer):
        return isinstance(value, int) and 0 <= value < 1 << 64
    if kind.kind == "bool":
        return value in (0, 1)
    if not kind.is_integer:
        return True
    if not isinstance(value, int):
        return False
    low, high = (-(1 << kind.bits - 1), 1 << kind.bits - 1) if kind.signed else (0, 1 << kind.bits)
    return low <= value < high


def _integer(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.is_integer


def _name(var: Var) -> str:
    return f"{var.name or 'temporary'}#{var.id}"


def cases_of(stmt: Stmt) -> tuple[Case, ...]:
    """The guarded pointer sets of an access, destination before source."""
    match stmt:
        case Load(cases=cases) | Store(cases=cases) | Atomic(cases=cases) | Mma(cases=cases):
            return cases
        case Async(dst_cases=dst, src_cases=src):
            return dst + src
    return ()
