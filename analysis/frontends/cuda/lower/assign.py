"""Assignments, compound assignments, increments."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library import atomics
from prelaunch.analysis.frontends.cuda.lower import calls, expressions, initialise, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Val
from prelaunch.analysis.frontends.cuda.semantics.types import Fragment, Ptr, Record, arithmetic, scalar, spell
from prelaunch.analysis.kernel import BF16, F16, I32, Assign, Const, Load
from prelaunch.analysis.source import Span


def assignment(ctx: Context, node: Node) -> Lowered:
    """``left op right``: the right side first, as C++17 orders it. Gives the place assigned."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = node.child_by_field_name("operator")
    span = ctx.span(node)
    if left is None or right is None:
        return ctx.unknown("syntax not understood", span)
    symbol = ctx.text(sign) if sign is not None else "="
    if symbol == "=":
        return _plain(ctx, left, right, span)
    value = expressions.lower(ctx, right)
    if not isinstance(value.type, Record):
        value = operators.as_scalar(ctx, value, ctx.span(right))
    mark = ctx.mark()
    place = expressions.lower(ctx, left)
    value = ctx.protect_place(value, mark)
    return compound(ctx, place, symbol, value, span)


def _plain(ctx: Context, left: Node, right: Node, span: Span) -> Lowered:
    if right.type == "initializer_list":
        place = expressions.lower(ctx, left)
        store(ctx, place, initialise.from_list(ctx, right, place.type), span)
        return place
    value = expressions.lower(ctx, right)
    if isinstance(value, Mem) and scalar(value.type):
        value = memory.load(ctx, value, ctx.span(right))
    elif isinstance(value, Reg):
        value = Val(value.type, value.vars)
    mark = ctx.mark()
    place = expressions.lower(ctx, left)
    value = ctx.protect_place(value, mark)
    if isinstance(place.type, Record):
        if atomics.is_atomic(place.type) and value.type is not place.type:
            atomics.method(ctx, place, "store", [value], span)
            return place
        overloaded = calls.call_method(ctx, place, "operator=", [value], (), span, quiet=True)
        if overloaded is not None:
            return place
    if isinstance(place.type, Fragment):
        return place
    store(ctx, place, operators.convert(ctx, value, place.type, span), span)
    return place


def store(ctx: Context, place: Lowered, value: Lowered, span: Span) -> None:
    """Assign; a value that was just loaded for this is loaded straight into its variable."""
    if isinstance(place, Reg) and isinstance(value, Val) and absorb(ctx, place, value):
        return
    memory.store(ctx, place, value, span)


def absorb(ctx: Context, place: Reg, value: Val) -> bool:
    """Let the last statement define ``place`` itself when it is the load that made ``value``."""
    if not ctx.out or len(place.vars) != len(value.exprs):
        return False
    last = ctx.out[-1]
    if not isinstance(last, Load) or last.vars != value.exprs or any(v.name for v in last.vars):
        return False
    if any(a.type != b.type for a, b in zip(last.vars, place.vars, strict=True)):
        return False
    ctx.out[-1] = Load(
        place.vars, last.address, last.type, last.space, last.order, last.scope, last.cases, span=last.span
    )
    ctx.log.extend(v.id for v in place.vars if v.name)
    return True


def compound(ctx: Context, place: Lowered, symbol: str, value: Lowered, span: Span) -> Lowered:
    """``place symbol value`` with ``symbol`` one of ``+=`` and kin."""
    if isinstance(place.type, Record):
        found = operators.overloaded_operator(ctx, f"operator{symbol}", place, value, span)
        if found is not None:
            if isinstance(found, Val) and found.type is place.type and place.type.vector and not ctx.stopped:
                pairwise = place.type.fields[0].type in (F16, BF16)
                if pairwise:
                    store(ctx, place, found, span)
            return place
        ctx.opaque(f"{symbol} of {spell(place.type)}", span)
        return place
    if isinstance(place, Mem):
        place = Mem(place.type, ctx.frozen(place.address, span), place.volatile, place.space, place.bits, place.shift)
    result = operators.apply(ctx, symbol.removesuffix("="), place, value, span)
    memory.store(ctx, place, operators.convert(ctx, result, place.type, span), span)
    return place


def update(ctx: Context, node: Node, keep_old: bool = True) -> Lowered:
    """``++`` and ``--``; postfix gives the old value unless nobody wants it."""
    operand, sign = node.child_by_field_name("argument"), node.child_by_field_name("operator")
    span = ctx.span(node)
    if operand is None or sign is None:
        return ctx.unknown("syntax not understood", span)
    postfix = sign.start_byte > operand.start_byte
    place = expressions.lower(ctx, operand)
    symbol = ctx.text(sign)
    if isinstance(place.type, Record):
        if atomics.is_atomic(place.type):
            one: list[Lowered] = [Val(I32, (Const(0, I32, span=span),))] if postfix else []
            stepped = atomics.method(ctx, place, f"operator{symbol}", one, span)
            return stepped if stepped is not None else place
        dummy: list[Lowered] = [Val(I32, (Const(0, I32, span=span),))] if postfix else []
        found = calls.call_method(ctx, place, f"operator{symbol}", dummy, (), span, quiet=True)
        if found is None:
            found = calls.call_method(ctx, place, f"operator{symbol}", [], (), span, quiet=True)
        return found if found is not None else ctx.unknown(f"{symbol} of {place.type.name}", span)
    if isinstance(place, Mem):
        place = Mem(place.type, ctx.frozen(place.address, span), place.volatile, place.space, place.bits, place.shift)
    old = memory.load(ctx, place, span)
    if not isinstance(old, Val) or not old.exprs or not scalar(place.type):
        return ctx.unknown(f"{symbol} of a class", span)
    if postfix and keep_old and isinstance(place, Reg):
        kept = ctx.var(old.expr.type, "", span)
        ctx.emit(Assign(kept, old.expr, span=span))
        old = Val(old.type, (kept,))
    new = _stepped(ctx, old, symbol, span)
    memory.store(ctx, place, operators.convert(ctx, new, place.type, span), span)
    return old if postfix and keep_old else place


def _stepped(ctx: Context, old: Val, symbol: str, span: Span) -> Val | Mem:
    of = arithmetic(old.type)
    if isinstance(old.type, Ptr):
        one = Val(I32, (Const(1, I32, span=span),))
        return operators.advance(old, one, symbol == "--", span)
    kind = of if of is not None and not of.is_integer else I32
    one = Val(kind, (Const(1 if kind.is_integer else 1.0, kind, span=span),))
    return operators.apply(ctx, symbol[0], old, one, span)
