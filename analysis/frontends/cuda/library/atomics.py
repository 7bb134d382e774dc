"""``cuda::atomic``, ``cuda::atomic_ref`` and fences [libcu++ reference]."""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.lower import memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context, pointer_to
from prelaunch.analysis.frontends.cuda.passes.constants import cast
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    Field,
    Ptr,
    Record,
    TemplateArgument,
    alignof,
    arithmetic,
    sizeof,
)  # fmt: skip
from prelaunch.analysis.kernel import (
    BOOL,
    Atomic,
    AtomicOp,
    Binary,
    Const,
    Expr,
    Fence,
    Load,
    Order,
    Scalar,
    Scope,
    Store,
    Unary,
)  # fmt: skip
from prelaunch.analysis.source import Span

_OPS: dict[str, AtomicOp] = {
    "fetch_add": "add", "fetch_sub": "sub", "fetch_and": "and", "fetch_or": "or", "fetch_xor": "xor",
    "fetch_min": "min", "fetch_max": "max", "exchange": "exch",
}  # fmt: skip
_SYMBOLS = {
    "operator++": ("add", "+"),
    "operator--": ("sub", "-"),
    "operator+=": ("add", "+"),
    "operator-=": ("sub", "-"),
}
_ORDERS: tuple[Order, ...] = ("relaxed", "acquire", "acquire", "release", "acq_rel", "seq_cst")
_SCOPES: tuple[Scope, ...] = ("system", "device", "block", "thread")
_known: dict[tuple[object, ...], Record] = {}


def atomic_type(name: str, args: tuple[TemplateArgument, ...]) -> Record | None:
    """The class as device memory holds it: the value itself, or a pointer to it for ``atomic_ref``."""
    of = args[0]
    if isinstance(of, int | float | str | tuple):
        return None
    key = (name, args)
    if key not in _known:
        inner = Ptr(of) if name == "atomic_ref" else of
        made = Record(
            name, "struct", (Field("value", inner, 0),), sizeof(inner), alignof(inner), args=args, qualified=name
        )
        _known[key] = made
    return _known[key]


def is_atomic(record: Record) -> bool:
    return record.file is None and record.name in ("atomic", "atomic_ref")


def _target(ctx: Context, place: Lowered, span: Span) -> tuple[Expr, Scalar] | None:
    kind = place.type
    assert isinstance(kind, Record)
    of = arithmetic(kind.args[0])  # type: ignore[arg-type]  # atomic_type admits types only
    if of is None:
        return None
    if kind.name == "atomic_ref":
        loaded = memory.load(ctx, place, span)
        return (loaded.expr, of) if isinstance(loaded, Val) and loaded.exprs else None
    mem = place if isinstance(place, Mem) else memory.in_memory_wanted(ctx, place, span)
    return memory.retype(mem.address, pointer_to(of)), of


def _scope(kind: Record) -> Scope:
    given = kind.args[1] if len(kind.args) > 1 else 0
    return _SCOPES[given % 4] if isinstance(given, int) else "system"


def _order(ctx: Context, args: list[Lowered], span: Span) -> Order:
    for value in args:
        loaded = memory.load(ctx, value, span)
        if isinstance(loaded, Val) and loaded.exprs and isinstance(loaded.expr, Const):
            return _ORDERS[int(loaded.expr.value) % len(_ORDERS)]
    return "seq_cst"


def method(ctx: Context, place: Lowered, name: str, args: list[Lowered], span: Span) -> Lowered | None:
    found = _target(ctx, place, span)
    kind = place.type
    assert isinstance(kind, Record)
    if found is None:
        return None
    address, of = found
    scope, space = _scope(kind), memory.space_of(ctx, address)
    if name == "load" or name.startswith("operator "):
        made = ctx.var(of, "", span)
        ctx.emit(Load((made,), address, of, space, _order(ctx, args, span), scope, span=span))
        return Val(of, (made,))
    if name in ("store", "operator=") and args:
        value = cast(operators.as_scalar(ctx, args[0], span).expr, of, span)
        ctx.emit(Store(address, (value,), of, space, _order(ctx, args[1:], span), scope, span=span))
        return Val(VOID)
    if name in ("compare_exchange_strong", "compare_exchange_weak") and len(args) >= 2:
        return _exchange(ctx, address, of, args, scope, span)
    if name in _OPS and args:
        value = cast(operators.as_scalar(ctx, args[0], span).expr, of, span)
        return _modify(ctx, address, of, _OPS[name], value, _order(ctx, args[1:], span), scope, span)
    if name in _SYMBOLS:
        op, symbol = _SYMBOLS[name]
        step: Expr = Const(1, of, span=span)
        if name.endswith("="):
            step = cast(operators.as_scalar(ctx, args[0], span).expr, of, span)
        old = _modify(ctx, address, of, op, step, "seq_cst", scope, span)  # type: ignore[arg-type]  # words of _SYMBOLS
        postfix = bool(args) and not name.endswith("=")
        return old if postfix else operators.apply(ctx, symbol, old, Val(of, (step,)), span)
    if name in ("wait", "notify_one", "notify_all"):
        return ctx.unknown(f"{name} of an atomic", span, VOID, touches=("control",))
    return None


def _modify(
    ctx: Context, address: Expr, of: Scalar, op: AtomicOp, value: Expr, order: Order, scope: Scope, span: Span
) -> Val:
    made = ctx.var(of, "", span)
    ctx.emit(Atomic(made, op, address, (value,), of, memory.space_of(ctx, address), order, scope, span=span))
    return Val(of, (made,))


def _exchange(ctx: Context, address: Expr, of: Scalar, args: list[Lowered], scope: Scope, span: Span) -> Lowered:
    """Compare and exchange: ``expected`` gets the old value when they differ."""
    expected = operators.as_scalar(ctx, args[0], span)
    wanted = cast(operators.as_scalar(ctx, args[1], span).expr, of, span)
    before = ctx.temporary(cast(expected.expr, of, span), span)
    made = ctx.var(of, "", span)
    order = _order(ctx, args[2:], span)
    ctx.emit(Atomic(made, "cas", address, (before, wanted), of, memory.space_of(ctx, address), order, scope, span=span))
    memory.store(ctx, args[0], operators.convert(ctx, Val(of, (made,)), args[0].type, span), span)
    return Val(BOOL, (Unary("lnot", Binary("ne", made, before, BOOL, span=span), BOOL, span=span),))


def fence(ctx: Context, args: list[Lowered], span: Span) -> Lowered:
    order = _order(ctx, args[:1], span)
    scope: Scope = "system"
    if len(args) > 1:
        loaded = memory.load(ctx, args[1], span)
        if isinstance(loaded, Val) and isinstance(loaded.expr, Const):
            scope = _SCOPES[int(loaded.expr.value) % 4]
    ctx.emit(Fence(scope, order, span=span))
    return Val(VOID)
