"""The host IR: what a host function does with numbers, dims, pointers, streams and kernels; the rest is ``Unknown``.

Grammar (frozen dataclasses; every node carries a ``span``, which equality ignores)::

    HostFunction = name, template parameters, parameters, body
    Expr = Literal(value) | Name(slot, name, template args) | Member(base, name) | Index(base, index)
         | Unary(op, a) | Binary(op, a, b) | Ternary(c, a, b) | Cast(type, a) | SizeOf(type or a)
         | Construct(type, args) | New(type, count) | Assign(target, op, value) | Lambda(function)
         | Call(callee, args) | Launch(callee, config, args) | Unknown(parts)
    Stmt = Block(stmts) | Declare(slot, type, init) | Evaluate(expr) | If(c, then, orelse)
         | Loop(kind, init, cond, step, body) | Switch(c, cases) | Return(expr?) | Jump(break|continue|end)

Meaning
- Operators keep their C spelling; ``Unary`` also has ``*`` (read through a pointer), ``&`` (address of), ``++x`` and
  ``x++`` kinds. Types are C spellings: the evaluator resolves aliases and template parameters.
- ``Name.slot`` is unique in its function (``threads#3``) and empty for what is not declared in it: constants, macros,
  functions, members of the enclosing class.
- Calls of the CUDA runtime are ``Call`` nodes; ``api.py`` says what each does: allocate, copy, launch, query,
  synchronise, set an attribute, record an event.
- ``Unknown`` is text the lowering does not understand; ``parts`` are the expressions inside it, still evaluated for
  their calls and launches. ``Jump("end")`` leaves the program (``throw``).
- Launches inside a macro body have the macro's use as ``span``; its ``spelling`` is the body in the ``#define``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as Choice

from prelaunch.analysis.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Literal:
    """``value`` None is a null pointer; ``type`` is the C spelling (``unsigned``, ``double``, ``char*``)."""

    value: int | float | str | None
    type: str = "int"
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TemplateArgument:
    """``text`` as written, white space collapsed; ``expr`` where it can be a value."""

    text: str
    expr: Expr | None = None


@dataclass(frozen=True, slots=True)
class Name:
    """``name`` as written, without its explicit template arguments."""

    slot: str
    name: str
    template_args: tuple[TemplateArgument, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    @property
    def simple(self) -> str:
        return self.name.rsplit("::", 1)[-1]


@dataclass(frozen=True, slots=True)
class Member:
    """``arrow`` says that ``base`` is a pointer."""

    base: Expr
    name: str
    arrow: bool = False
    template_args: tuple[TemplateArgument, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Index:
    base: Expr
    index: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Ternary:
    cond: Expr
    then: Expr
    orelse: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Cast:
    type: str
    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class SizeOf:
    """Of ``type`` when it is not empty, else of ``operand``; a bare name can be either, then both are set."""

    type: str
    operand: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Construct:
    """``T(args)``, ``T{args}`` or a braced list (``type`` empty); ``names`` are designators, empty where absent."""

    type: str
    args: tuple[Expr, ...]
    names: tuple[str, ...] = ()
    braced: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class New:
    type: str
    count: Expr | None
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Assign:
    """``op`` is empty for ``=`` and the operator for ``+=`` and kin."""

    target: Expr
    op: str
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Lambda:
    function: HostFunction
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Call:
    callee: Expr
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    @property
    def name(self) -> str:
        """Name of the callee without qualification; empty for a computed one."""
        match self.callee:
            case Name():
                return self.callee.simple
            case Member(name=name):
                return name
        return ""


@dataclass(frozen=True, slots=True)
class Launch:
    """``callee<<<config>>>(args)``; ``config`` is grid, block, shared memory, stream as far as given."""

    callee: Expr
    config: tuple[Expr, ...]
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Unknown:
    reason: str
    parts: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


Expr = (
    Literal | Name | Member | Index | Unary | Binary | Ternary | Cast | SizeOf | Construct | New | Assign
    | Lambda | Call | Launch | Unknown
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block:
    stmts: tuple[Stmt, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Declare:
    """``type`` without the declarator; ``pointers`` counts its stars; ``extents`` its array bounds (None: unsized).

    ``reference`` marks ``T&``. ``init`` None means default-initialised.
    """

    slot: str
    name: str
    type: str
    init: Expr | None = None
    pointers: int = 0
    extents: tuple[Expr | None, ...] = ()
    reference: bool = False
    const: bool = False
    static: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Evaluate:
    expr: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class If:
    cond: Expr
    then: Block
    orelse: Block = Block()
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Loop:
    """kind "while" tests first, "do" last; "each" is a range loop whose range is ``cond`` and element ``init``."""

    kind: Choice["while", "do", "each"]
    init: Block
    cond: Expr | None
    step: Expr | None
    body: Block
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Switch:
    """``cases`` in text order: (value, None for default; statements), falling through to the next."""

    cond: Expr
    cases: tuple[tuple[Expr | None, Block], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Return:
    expr: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Jump:
    kind: Choice["break", "continue", "end"]
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


Stmt = Block | Declare | Evaluate | If | Loop | Switch | Return | Jump


@dataclass(frozen=True, slots=True)
class Parameter:
    slot: str
    name: str
    type: str
    pointers: int = 0
    reference: bool = False
    default: Expr | None = None
    pack: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """``type`` is empty for a type parameter (``typename T``)."""

    slot: str
    name: str
    type: str = ""
    default: TemplateArgument | None = None
    pack: bool = False


@dataclass(frozen=True, slots=True)
class HostFunction:
    """``name`` is qualified; a lambda's is ``outer::lambda@line``."""

    name: str
    file: str
    template: tuple[TemplateParameter, ...]
    parameters: tuple[Parameter, ...]
    body: Block
    record: str = ""
    returns: str = "auto"  # C spelling of the result's type
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


def blocks(stmt: Stmt) -> tuple[Block, ...]:
    """Blocks directly inside a statement; of an ``If``, a ``Switch``: its alternatives."""
    match stmt:
        case If(then=then, orelse=orelse):
            return (then, orelse)
        case Loop(init=init, body=body):
            return (init, body)
        case Switch(cases=cases):
            return tuple(body for _, body in cases)
    return ()


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Expressions a statement evaluates itself."""
    match stmt:
        case Declare(init=init, extents=extents):
            return tuple(e for e in (init, *extents) if e is not None)
        case Evaluate(expr=expr):
            return (expr,)
        case If(cond=cond):
            return (cond,)
        case Switch(cond=cond, cases=cases):
            return (cond, *(value for value, _ in cases if value is not None))
        case Loop(cond=cond, step=step):
            return tuple(e for e in (cond, step) if e is not None)
        case Return(expr=expr):
            return (expr,) if expr is not None else ()
    return ()


def parts(expr: Expr) -> tuple[Expr, ...]:
    """Expressions directly inside another (a lambda's body is not)."""
    match expr:
        case Member(base=a) | Unary(operand=a) | Cast(operand=a):
            return (a,)
        case Index(base=a, index=b) | Binary(left=a, right=b) | Assign(target=a, value=b):
            return (a, b)
        case Ternary(cond=c, then=a, orelse=b):
            return (c, a, b)
        case SizeOf(operand=operand) | New(count=operand):
            return (operand,) if operand is not None else ()
        case Construct(args=args):
            return args
        case Call(callee=callee, args=args):
            return (callee, *args)
        case Launch(callee=callee, config=config, args=args):
            return (callee, *config, *args)
        case Unknown(parts=inside):
            return inside
    return ()


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """``expr`` and all inside it, parents first, lambdas' bodies not entered; iterative."""
    stack = [expr]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(reversed(parts(item)))


def walk(root: Stmt) -> Iterator[Stmt]:
    """Every statement under ``root``, itself included, in text order, bodies of lambdas not entered; iterative."""
    stack: list[Stmt] = [root]
    while stack:
        stmt = stack.pop()
        yield stmt
        below: tuple[Stmt, ...] = stmt.stmts if isinstance(stmt, Block) else blocks(stmt)
        stack.extend(reversed(below))
