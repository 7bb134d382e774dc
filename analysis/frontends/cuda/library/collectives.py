"""Exchanges between the threads of a tile or coalesced group: shuffles, votes, reductions, scans."""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.library import groups
from prelaunch.analysis.frontends.cuda.lower import calls, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import EVERYTHING, Context
from prelaunch.analysis.frontends.cuda.passes.constants import binary, cast, select
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import CType, Group, arithmetic, ir_type, leaves, spell
from prelaunch.analysis.kernel import BOOL, I32, U32, U64, Collective, Const, Expr, Pure, Scalar, Special
from prelaunch.analysis.source import Span

_REDUCTIONS = {
    "plus": "add", "less": "min", "greater": "max", "bit_and": "and", "bit_or": "or", "bit_xor": "xor",
}  # fmt: skip


def method(ctx: Context, group: Val, name: str, args: list[Lowered], span: Span) -> Lowered | None:
    """``shfl*``, ``any``, ``all``, ``ballot``, ``match_*`` of a group inside one warp."""
    mask = groups.mask_of(group, span)
    if mask is None:
        return None
    if name in ("shfl", "shfl_up", "shfl_down", "shfl_xor") and len(args) == 2:
        return shuffle(ctx, group, name, args[0], operators.as_scalar(ctx, args[1], span).expr, span)
    if name in ("any", "all", "ballot") and args:
        pred = cast(operators.condition(ctx, args[0], span), I32, span)
        made = ctx.var(U32 if name == "ballot" else I32, "", span)
        ctx.emit(Collective((made,), f"vote.{name}", mask, (pred,), span=span))
        if name != "ballot":
            return Val(I32, (made,))
        return Val(U32, (_packed(ctx, group, mask, made, span),))
    if name == "match_any" and args:
        value = operators.as_scalar(ctx, args[0], span)
        made = ctx.var(U32, "", span)
        ctx.emit(Collective((made,), "match.any", mask, (value.expr,), span=span))
        return Val(U32, (_packed(ctx, group, mask, made, span),))
    return None


def _packed(ctx: Context, group: Val, mask: Expr, lanes: Expr, span: Span) -> Expr:
    """A set of lanes as a set of ranks in the group."""
    kind = group.type
    assert isinstance(kind, Group)
    if kind.kind == "coalesced":
        return ctx.unknown("ranks of a coalesced group", span, U32).expr
    if kind.size == 32:
        return lanes
    size = kind.size or 32
    first = binary("and", Special("laneid", span=span), groups.unsigned(0xFFFFFFFF ^ (size - 1), span), U32, span)
    return binary("shr", lanes, first, U32, span)


def shuffle(ctx: Context, group: Val, name: str, value: Lowered, by: Expr, span: Span) -> Lowered:
    """Each register of ``value`` exchanged; ranks are lanes modulo the tile size."""
    loaded = memory.load(ctx, value, span)
    parts = leaves(loaded.type)
    mask = groups.mask_of(group, span)
    kind = group.type
    assert isinstance(kind, Group)
    if not isinstance(loaded, Val) or not parts or mask is None:
        return ctx.unknown(f"shuffle of {spell(loaded.type)}", span, loaded.type, touches=EVERYTHING)
    op = {"shfl": "shfl.idx", "shfl_up": "shfl.up", "shfl_down": "shfl.down", "shfl_xor": "shfl.xor"}[name]
    step = cast(by, I32, span)
    width: Expr = Const(kind.size or 32, I32, span=span)
    if kind.kind == "coalesced":
        op, step, width = "shfl.idx", _lane(group.expr, name, step, span), Const(32, I32, span=span)
    exprs: list[Expr] = []
    for leaf, expr in zip(parts, loaded.exprs, strict=True):
        of = ir_type(leaf.type)
        plain = of if isinstance(of, Scalar) else U64
        wide = plain if plain.bits >= 16 else I32
        made = ctx.var(wide, "", span)
        ctx.emit(Collective((made,), op, mask, (cast(expr, wide, span), step), width, span=span))
        exprs.append(cast(made, of, span))
    return Val(loaded.type, tuple(exprs))


def _lane(mask: Expr, name: str, by: Expr, span: Span) -> Expr:
    """The lane a coalesced shuffle reads: the n-th of the mask, the caller's own beyond the ends."""
    rank = cast(groups.lanes_below(mask, span), I32, span)
    wanted = by
    if name == "shfl_up":
        wanted = binary("sub", rank, by, I32, span)
    elif name == "shfl_down":
        wanted = binary("add", rank, by, I32, span)
    size = Pure("popc", (mask,), I32, span=span)
    zero, one = Const(0, I32, span=span), Const(1, I32, span=span)
    inside = binary("land", binary("ge", wanted, zero, BOOL, span), binary("lt", wanted, size, BOOL, span), BOOL, span)
    nth = Pure("fns", (mask, groups.unsigned(0, span), binary("add", wanted, one, I32, span)), U32, span=span)
    return cast(select(inside, nth, Special("laneid", span=span), U32, span), I32, span)


def reduce(ctx: Context, group: Val, value: Lowered, op: Lowered, span: Span) -> Lowered:
    """``cg::reduce``: one collective for the library's operators, a butterfly for others."""
    loaded = memory.load(ctx, value, span)
    mask = groups.mask_of(group, span)
    kind, operator = group.type, op.type
    assert isinstance(kind, Group)
    of = arithmetic(loaded.type)
    if isinstance(loaded, Val) and mask is not None and of is not None and isinstance(operator, Group):
        name = _REDUCTIONS.get(operator.kind)
        if name is not None:
            made = ctx.var(of, "", span)
            ctx.emit(Collective((made,), f"reduce.{name}", mask, (loaded.expr,), span=span))
            return Val(loaded.type, (made,))
    if not isinstance(loaded, Val) or kind.kind != "tile" or kind.size is None or kind.size > 32:
        return ctx.unknown(f"reduce over {spell(kind)}", span, loaded.type, touches=EVERYTHING)
    current: Lowered = loaded
    step = kind.size // 2
    while step:
        other = shuffle(ctx, group, "shfl_xor", current, Const(step, I32, span=span), span)
        current = combine(ctx, op, current, other, span)
        step //= 2
    return current


def combine(ctx: Context, op: Lowered, a: Lowered, b: Lowered, span: Span) -> Lowered:
    """``op(a, b)``."""
    kind = op.type
    if isinstance(kind, Group) and kind.kind in _REDUCTIONS:
        symbol = {"plus": "+", "bit_and": "&", "bit_or": "|", "bit_xor": "^"}.get(kind.kind)
        if symbol is not None:
            return operators.apply(ctx, symbol, a, b, span)
        found = calls.call_free(ctx, "min" if kind.kind == "less" else "max", "", [a, b], (), span)
        return found if found is not None else a
    return calls.call_value(ctx, op, [a, b], (), span)


def scan(ctx: Context, group: Val, value: Lowered, op: Lowered | None, name: str, span: Span) -> Lowered:
    """``inclusive_scan`` and ``exclusive_scan`` of a tile: shuffles up with growing distance."""
    loaded = memory.load(ctx, value, span)
    kind = group.type
    assert isinstance(kind, Group)
    operator: Lowered = op if op is not None else Val(Group("plus"))
    if not isinstance(loaded, Val) or kind.kind != "tile" or kind.size is None or kind.size > 32 or not loaded.exprs:
        return ctx.unknown(f"{name} over {spell(kind)}", span, loaded.type, touches=EVERYTHING)
    rank = cast(Special("laneid", span=span), I32, span)
    rank = binary("and", rank, Const(kind.size - 1, I32, span=span), I32, span)
    current: Val = loaded
    step = 1
    while step < kind.size:
        distance = Const(step, I32, span=span)
        other = shuffle(ctx, group, "shfl_up", current, distance, span)
        joined = memory.load(ctx, combine(ctx, operator, other, current, span), span)
        if not isinstance(joined, Val):
            return ctx.unknown(f"{name} over {spell(kind)}", span, loaded.type)
        enough = binary("ge", rank, distance, BOOL, span)
        current = _choose(ctx, enough, joined, current, loaded.type, span)
        step *= 2
    if name == "inclusive_scan":
        return current
    shifted = memory.load(ctx, shuffle(ctx, group, "shfl_up", current, Const(1, I32, span=span), span), span)
    first = binary("eq", rank, Const(0, I32, span=span), BOOL, span)
    zero = memory.zero(loaded.type, span)
    assert isinstance(shifted, Val)
    assert zero is not None
    return _choose(ctx, first, zero, shifted, loaded.type, span)


def _choose(ctx: Context, cond: Expr, a: Val, b: Val, of: CType, span: Span) -> Val:
    pairs = zip(a.exprs, b.exprs, strict=True)
    return Val(of, tuple(ctx.temporary(select(cond, x, cast(y, x.type, span), x.type, span), span) for x, y in pairs))
