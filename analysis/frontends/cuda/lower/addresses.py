"""Addresses that pass through integers.

PTX code takes shared-memory addresses as 32-bit integers. An integer variable that is made from a pointer gets a
companion pointer variable (``x*``), assigned whenever it is, so that an access through it still knows its object; the
integer itself keeps its own, truncated value.
"""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.passes.constants import cast
from prelaunch.analysis.kernel import I64, U64, Assign, Binary, Cast, Const, Expr, Pointer, PtrAdd, Scalar, Select, Var
from prelaunch.analysis.source import Span

_VOID = Pointer()


def carried(ctx: Context, expr: Expr) -> bool:
    """Whether an integer expression is an address plus something."""
    for _ in range(64):
        if isinstance(expr.type, Pointer):
            return True
        if isinstance(expr, Cast) and isinstance(expr.type, Scalar) and expr.type.bits >= 32:
            expr = expr.operand
        elif isinstance(expr, Binary) and expr.op in ("add", "sub") and expr.type.bits >= 32:
            if expr.op == "add" and carried(ctx, expr.right):
                return True
            expr = expr.left
        elif isinstance(expr, Select):
            return carried(ctx, expr.then) and carried(ctx, expr.orelse)
        else:
            return isinstance(expr, Var) and expr.id in ctx.pointers
    return False


def pointer(ctx: Context, expr: Expr, to: Pointer = _VOID) -> Expr:
    """``expr`` as a pointer: through the address it was made from where it carries one."""
    if isinstance(expr.type, Pointer):
        return expr
    if isinstance(expr, Var) and expr.id in ctx.pointers:
        return ctx.pointers[expr.id]
    if carried(ctx, expr):
        if isinstance(expr, Cast):
            return pointer(ctx, expr.operand, to)
        if isinstance(expr, Select):
            return Select(expr.cond, pointer(ctx, expr.then, to), pointer(ctx, expr.orelse, to), to, span=expr.span)
        if isinstance(expr, Binary):
            if carried(ctx, expr.left):
                by = cast(expr.right, I64, expr.span)
                if expr.op == "sub":
                    by = Binary("sub", Const(0, I64, span=expr.span), by, I64, span=expr.span)
                return PtrAdd(pointer(ctx, expr.left, to), by, to, span=expr.span)
            return PtrAdd(pointer(ctx, expr.right, to), cast(expr.left, I64, expr.span), to, span=expr.span)
    return cast(cast(expr, U64, expr.span), to, expr.span)


def follow(ctx: Context, var: Var, expr: Expr, span: Span) -> None:
    """Keep the companion of ``var`` in step with an assignment of ``expr``."""
    kind = var.type
    if not isinstance(kind, Scalar) or not kind.is_integer or kind.bits < 32:
        return
    known = ctx.pointers.get(var.id)
    if known is None and not carried(ctx, expr):
        return
    made = pointer(ctx, expr)
    if known is None:
        known = ctx.var(Pointer(), f"{var.name}*" if var.name else "", span)
        ctx.pointers[var.id] = known
    ctx.emit(Assign(known, made, span=span))
