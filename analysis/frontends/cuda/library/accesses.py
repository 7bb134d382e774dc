"""Builtins that touch memory: atomics, hinted loads and stores, asynchronous copies, ``memcpy``."""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.lower import memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context, pointer_to
from prelaunch.analysis.frontends.cuda.passes.constants import cast, offset
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    CType,
    Ptr,
    TemplateArgument,
    Void,
    alignof,
    arithmetic,
    ir_type,
    leaves,
)  # fmt: skip
from prelaunch.analysis.intrinsics import Row
from prelaunch.analysis.kernel import (
    U64,
    Async,
    Atomic,
    AtomicOp,
    Const,
    Expr,
    Load,
    Order,
    Scalar,
    Scope,
    Store,
)  # fmt: skip
from prelaunch.analysis.source import Span

KINDS = frozenset({"atomic", "load", "store", "async", "copy"})
_ORDERS: tuple[Order, ...] = ("relaxed", "acquire", "acquire", "release", "acq_rel", "seq_cst")
_SCOPES: tuple[Scope, ...] = ("system", "device", "block", "thread")


def lower_access(
    ctx: Context, row: Row, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    if row.kind == "atomic":
        return _atomic(ctx, row, args, span)
    if row.kind == "load":
        return _load(ctx, row, args, span)
    if row.kind == "store":
        return _store(ctx, row, args, span)
    if row.kind == "copy":
        return _copy(ctx, row, args, span)
    return _async(ctx, row, args, span)


def order_of(row: Row, args: list[Expr]) -> tuple[Order, Scope]:
    """Order and scope of an access, read from the last operands where the row says so."""
    order: Order = row.order if row.order != "argument" else "relaxed"  # type: ignore[assignment]  # the table holds the IR's words
    scope: Scope = row.scope if row.scope != "argument" else "device"  # type: ignore[assignment]  # the table holds the IR's words
    named = [a for a in args if isinstance(a, Const)]
    if row.order == "argument" and len(named) >= 2:
        order = _ORDERS[int(named[-2].value) % len(_ORDERS)]
    if row.scope == "argument" and named:
        scope = {0: "thread", 1: "block", 2: "cluster", 3: "device", 4: "system"}.get(int(named[-1].value), "device")  # type: ignore[assignment]  # literals of Scope
    return order, scope


def pointer_of(ctx: Context, value: Lowered, span: Span) -> Val:
    return operators.as_scalar(ctx, value, span)


def _atomic(ctx: Context, row: Row, args: list[Lowered], span: Span) -> Lowered:
    pointer = pointer_of(ctx, args[0], span) if args else None
    if pointer is None or not isinstance(pointer.type, Ptr) or len(args) < 2:
        return ctx.unknown(f"{row.name}: arguments do not fit", span, touches=("value", "memory"))
    values: list[Expr] = []
    of = arithmetic(pointer.type.to)
    count = 2 if row.function == "cas" else 1
    if of is None:
        return _atomic_parts(ctx, row, pointer, args[1:], span)
    for value in args[1 : 1 + count]:
        values.append(cast(operators.as_scalar(ctx, value, span).expr, of, span))
    more = [operators.as_scalar(ctx, a, span).expr for a in args[1 + count :]]
    order, scope = order_of(row, more)
    result = ctx.var(of, "", span)
    op: AtomicOp = row.function  # type: ignore[assignment]  # the table holds the IR's words
    ctx.emit(
        Atomic(
            result, op, memory.retype(pointer.expr, pointer_to(of)), tuple(values), of,
            memory.space_of(ctx, pointer.expr), order, scope, span=span,
        )
    )  # fmt: skip
    return Val(pointer.type.to, (result,))


def _atomic_parts(ctx: Context, row: Row, pointer: Val, args: list[Lowered], span: Span) -> Lowered:
    """Atomics on ``half2`` and ``float4``: one per element, as the hardware guarantees no more."""
    kind = pointer.type
    assert isinstance(kind, Ptr)
    value = memory.load(ctx, args[0], span)
    parts = leaves(kind.to)
    if parts is None or not isinstance(value, Val) or len(value.exprs) != len(parts) or row.function == "cas":
        return ctx.unknown(f"{row.name} of this type", span, touches=("value", "memory"))
    base = ctx.frozen(pointer.expr, span)
    found = []
    for leaf, expr in zip(parts, value.exprs, strict=True):
        of = ir_type(leaf.type)
        if not isinstance(of, Scalar):
            return ctx.unknown(f"{row.name} of this type", span, touches=("value", "memory"))
        where = memory.retype(offset(base, leaf.offset, 1, pointer_to(leaf.type), span), pointer_to(leaf.type))
        result = ctx.var(of, "", span)
        order, scope = order_of(row, [])
        op: AtomicOp = row.function  # type: ignore[assignment]  # the table holds the IR's words
        ctx.emit(Atomic(result, op, where, (expr,), of, memory.space_of(ctx, base), order, scope, span=span))
        found.append(result)
    return Val(kind.to, tuple(found))


def _load(ctx: Context, row: Row, args: list[Lowered], span: Span) -> Lowered:
    pointer = pointer_of(ctx, args[0], span) if args else None
    if pointer is None or not isinstance(pointer.type, Ptr):
        return ctx.unknown(f"{row.name}: arguments do not fit", span, touches=("value", "memory"))
    more = [operators.as_scalar(ctx, a, span).expr for a in args[1:]]
    order, scope = order_of(row, more)
    to = pointer.type.to
    parts = leaves(to)
    if parts is None:
        return ctx.unknown(f"{row.name} of this type", span, to, touches=("value", "memory"))
    address = ctx.frozen(pointer.expr, span) if len(parts) > 1 else pointer.expr
    space = memory.space_of(ctx, address)
    exprs: list[Expr] = []
    for first, count in memory.groups(to):
        leaf = parts[first]
        of = ir_type(leaf.type)
        where = memory.retype(offset(address, leaf.offset, 1, pointer_to(leaf.type), span), pointer_to(leaf.type))
        made = tuple(ctx.var(of, "", span) for _ in range(count))
        ctx.emit(Load(made, where, of, space, order, scope, span=span))
        exprs.extend(made)
    return Val(to, tuple(exprs))


def _store(ctx: Context, row: Row, args: list[Lowered], span: Span) -> Lowered:
    pointer = pointer_of(ctx, args[0], span) if args else None
    if pointer is None or not isinstance(pointer.type, Ptr) or len(args) < 2:
        return ctx.unknown(f"{row.name}: arguments do not fit", span, touches=("value", "memory"))
    value = operators.convert(ctx, args[1], pointer.type.to, span)
    more = [operators.as_scalar(ctx, a, span).expr for a in args[2:]]
    order, scope = order_of(row, more)
    parts = leaves(pointer.type.to)
    if parts is None or not isinstance(value, Val):
        return ctx.unknown(f"{row.name} of this type", span, touches=("value", "memory"))
    address = ctx.frozen(pointer.expr, span) if len(parts) > 1 else pointer.expr
    space = memory.space_of(ctx, address)
    for first, count in memory.groups(pointer.type.to):
        leaf = parts[first]
        where = memory.retype(offset(address, leaf.offset, 1, pointer_to(leaf.type), span), pointer_to(leaf.type))
        exprs = value.exprs[first : first + count]
        ctx.emit(Store(where, exprs, ir_type(leaf.type), space, order, scope, span=span))
    return Val(VOID)


def _copy(ctx: Context, row: Row, args: list[Lowered], span: Span) -> Lowered:
    """``memcpy(dst, src, n)`` and ``memset(dst, value, n)`` with a constant size."""
    if len(args) < 3:
        return ctx.unknown(f"{row.name}: arguments do not fit", span, touches=("value", "memory"))
    dst, size = pointer_of(ctx, args[0], span), operators.as_scalar(ctx, args[2], span)
    second = pointer_of(ctx, args[1], span)
    if not isinstance(size.expr, Const) or not isinstance(dst.type, Ptr):
        return ctx.unknown(f"{row.name} of a size known only at run time", span, dst.type, touches=("value", "memory"))
    count = int(size.expr.value)
    if row.function == "memset":
        if not isinstance(second.expr, Const):
            return ctx.unknown(
                "memset with a value known only at run time", span, dst.type, touches=("value", "memory")
            )
        memory.fill_bytes(ctx, dst.expr, count, span, int(second.expr.value))
        return dst
    align = _alignment(dst.type)
    if isinstance(second.type, Ptr):
        align = min(align, _alignment(second.type))
    memory.copy_bytes(ctx, dst.expr, second.expr, count, align, span)
    return dst


def _alignment(pointer: CType) -> int:
    to = pointer.to if isinstance(pointer, Ptr) else VOID
    return 1 if isinstance(to, Void) else alignof(to)


def _async(ctx: Context, row: Row, args: list[Lowered], span: Span) -> Lowered:
    op = row.function
    exprs = [operators.as_scalar(ctx, a, span).expr for a in args]
    if op == "copy" and len(exprs) >= 3:
        size = exprs[2]
        source: Expr | None = None
        if len(exprs) > 3:
            from prelaunch.analysis.frontends.cuda.passes.constants import binary

            source = binary("sub", cast(size, U64, span), cast(exprs[3], U64, span), U64, span)
        count = int(size.value) if isinstance(size, Const) else None
        ctx.emit(Async("copy", exprs[0], exprs[1], count, source, span=span))
        return Val(VOID)
    if op == "wait":
        pending = exprs[0] if exprs else None
        ctx.emit(Async("wait", pending=pending, span=span))
        return Val(VOID)
    ctx.emit(Async(op, args=tuple(exprs), span=span))
    return Val(VOID)
