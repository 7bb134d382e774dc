"""Functions of the C++ standard library that are templates: ``std::min``, ``std::swap``, ``std::bit_cast``."""

from __future__ import annotations

from collections.abc import Callable

from prelaunch.analysis.frontends.cuda.library import builtins
from prelaunch.analysis.frontends.cuda.lower import memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.passes.constants import cast
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import VOID, Ptr, TemplateArgument, arithmetic, common, spell
from prelaunch.analysis.kernel import Bitcast, Scalar
from prelaunch.analysis.source import Span


def _min_max(name: str) -> Callable[[Context, list[Lowered], tuple[TemplateArgument, ...], Span], Lowered]:
    def handler(ctx: Context, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span) -> Lowered:
        if len(args) < 2:
            return ctx.unknown(f"{name}: arguments do not fit", span)
        a, b = (operators.as_scalar(ctx, v, span) for v in args[:2])
        x, y = arithmetic(a.type), arithmetic(b.type)
        if x is None or y is None:
            return ctx.unknown(f"{name} of {spell(a.type)}", span, a.type)
        of = common(x, y) if x != y else x
        pair = (cast(a.expr, of, span), cast(b.expr, of, span))
        return Val(of, (builtins.apply_pure(name, pair, of, span),))

    return handler


def _swap(ctx: Context, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span) -> Lowered:
    first = memory.load(ctx, args[0], span)
    second = memory.load(ctx, args[1], span)
    if isinstance(first, Val) and isinstance(second, Val):
        kept = Val(first.type, tuple(ctx.temporary(e, span) for e in first.exprs))
        memory.store(ctx, args[0], second, span)
        memory.store(ctx, args[1], kept, span)
        return Val(VOID)
    return ctx.unknown("swap not modelled", span, VOID, touches=("memory",))


def _same(ctx: Context, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span) -> Lowered:
    return args[0] if args else Val(VOID)


def _bit_cast(ctx: Context, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span) -> Lowered:
    to = targs[0] if targs and not isinstance(targs[0], int | float | str | tuple) else None
    value = memory.load(ctx, args[0], span) if args else None
    if to is None or not isinstance(value, Val):
        return ctx.unknown("bit_cast not modelled", span)
    if isinstance(to, Scalar) and isinstance(value.type, Scalar) and to.size == value.type.size:
        return Val(to, (value.expr if value.type == to else Bitcast(value.expr, to, span=span),))
    held = memory.in_memory(ctx, value, "temporary", span)
    return memory.load(ctx, memory.dereference(ctx, Val(Ptr(to), (held.address,)), span), span)


FUNCTIONS: dict[str, Callable[[Context, list[Lowered], tuple[TemplateArgument, ...], Span], Lowered]] = {
    "min": _min_max("min"), "max": _min_max("max"), "swap": _swap, "move": _same, "forward": _same, "launder": _same,
    "bit_cast": _bit_cast, "__float_to_tf32": _same, "as_const": _same,
}  # fmt: skip
