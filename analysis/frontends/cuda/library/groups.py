"""Cooperative groups [CUDA C++ Programming Guide, Cooperative Groups].

A group has no run-time content but for the lane mask of coalesced groups; its kind and tile size are types. Tiles are
runs of consecutive threads of the block in order of linear thread index, so a tile of at most 32 threads is a run of
lanes of one warp.
"""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.library import accesses, collectives
from prelaunch.analysis.frontends.cuda.lower import memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import EVERYTHING, Context
from prelaunch.analysis.frontends.cuda.passes.constants import binary, cast
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import VECTORS
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import VOID, Group, TemplateArgument, spell
from prelaunch.analysis.kernel import (
    BOOL,
    I32,
    U32,
    U64,
    Async,
    Barrier,
    Collective,
    Const,
    Expr,
    Pure,
    Scalar,
    Special,
)  # fmt: skip
from prelaunch.analysis.source import Span

_TYPES = {
    "thread_block": "block", "grid_group": "grid", "cluster_group": "cluster", "coalesced_group": "coalesced",
    "thread_group": "group", "multi_grid_group": "grid",
}  # fmt: skip
_MAKERS = {
    "this_thread_block": "block", "this_grid": "grid", "this_cluster": "cluster", "this_thread": "thread",
    "this_multi_grid": "grid",
}  # fmt: skip
OPERATIONS = frozenset({"plus", "less", "greater", "bit_and", "bit_or", "bit_xor"})


def group_type(name: str, args: tuple[TemplateArgument, ...] | None) -> Group | None:
    """The type a name of the library stands for."""
    if name == "thread_block_tile":
        size = args[0] if args and isinstance(args[0], int) else None
        return Group("tile", size)
    return Group(_TYPES[name]) if name in _TYPES else None


def unsigned(value: int, span: Span) -> Const:
    return Const(value, U32, span=span)


def linear_thread(span: Span) -> Expr:
    """``threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)``."""
    x, y, z = (Special(f"threadIdx.{a}", span=span) for a in "xyz")
    rows = binary("add", y, binary("mul", Special("blockDim.y", span=span), z, U32, span), U32, span)
    return binary("add", x, binary("mul", Special("blockDim.x", span=span), rows, U32, span), U32, span)


def product(name: str, span: Span, of: Scalar = U32) -> Expr:
    x, y, z = (cast(Special(f"{name}.{a}", span=span), of, span) for a in "xyz")
    return binary("mul", binary("mul", x, y, of, span), z, of, span)


def linear_block(span: Span, of: Scalar = U32) -> Expr:
    x, y, z = (cast(Special(f"blockIdx.{a}", span=span), of, span) for a in "xyz")
    wide, high = (cast(Special(f"gridDim.{a}", span=span), of, span) for a in "xy")
    rows = binary("add", y, binary("mul", high, z, of, span), of, span)
    return binary("add", x, binary("mul", wide, rows, of, span), of, span)


def mask_of(group: Lowered, span: Span) -> Expr | None:
    """The lanes of a group inside one warp; None for larger groups."""
    kind = group.type
    assert isinstance(kind, Group)
    if kind.kind == "coalesced" and isinstance(group, Val) and group.exprs:
        return group.expr
    if kind.kind != "tile" or kind.size is None or kind.size > 32:
        return None
    if kind.size == 32:
        return unsigned(0xFFFFFFFF, span)
    first = binary("and", Special("laneid", span=span), unsigned(0xFFFFFFFF ^ (kind.size - 1), span), U32, span)
    return binary("shl", unsigned((1 << kind.size) - 1, span), first, U32, span)


# --- free functions --------------------------------------------------------------------------------------------------


def free_call(
    ctx: Context, name: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered | None:
    """A function of the library, None when ``name`` with these arguments is none."""
    if name in _MAKERS and (not args or name == "this_thread_block"):  # may be given memory for its tiles
        return Val(Group(_MAKERS[name]))
    if name == "coalesced_threads" and not args:
        made = ctx.var(U32, "", span)
        ctx.emit(Collective((made,), "activemask", None, span=span))
        return Val(Group("coalesced"), (made,))
    if not args or not isinstance(args[0].type, Group):
        return None
    group = memory.load(ctx, args[0], span)
    if not isinstance(group, Val):
        return None
    if name == "tiled_partition":
        return _tiled(ctx, group, args, targs, span)
    if name in ("binary_partition", "labeled_partition"):
        return _partition(ctx, group, args[1], name == "binary_partition", span)
    if name == "reduce" and len(args) >= 3:
        return collectives.reduce(ctx, group, args[1], args[2], span)
    if name in ("inclusive_scan", "exclusive_scan") and len(args) >= 2:
        return collectives.scan(ctx, group, args[1], args[2] if len(args) > 2 else None, name, span)
    if name == "memcpy_async" and len(args) >= 4:
        return _copy(ctx, group, args, span)
    if name in ("wait", "wait_prior"):
        pending = unsigned(int(targs[0]), span) if targs and isinstance(targs[0], int) else None
        ctx.emit(Async("wait", pending=pending if name == "wait_prior" else None, span=span))
        return sync(ctx, group, span)
    if name in ("sync", "thread_rank", "group_size", "barrier_arrive", "barrier_wait"):
        return method(ctx, group, {"group_size": "size"}.get(name, name), args[1:], targs, span)
    return None


def _tiled(ctx: Context, group: Val, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span) -> Lowered:
    size: int | None = int(targs[0]) if targs and isinstance(targs[0], int) else None
    if size is None and len(args) > 1:
        given = operators.as_scalar(ctx, args[1], span)
        size = int(given.expr.value) if isinstance(given.expr, Const) else None
    if size is None or size <= 0 or size & (size - 1):
        ctx.opaque("size of a tile not known", span, EVERYTHING)
        return Val(Group("tile"))
    return Val(Group("tile", size))


def _partition(ctx: Context, group: Val, label: Lowered, predicate: bool, span: Span) -> Lowered:
    """The lanes of ``group`` whose label is the caller's."""
    mask = mask_of(group, span)
    if mask is None:
        ctx.opaque("partition of a group larger than a warp", span, EVERYTHING)
        return Val(Group("coalesced"), (ctx.unknown("lanes of a group", span, U32).expr,))
    value = operators.as_scalar(ctx, label, span)
    key = cast(value.expr, BOOL, span) if predicate else value.expr
    made = ctx.var(U32, "", span)
    kind = key.type if isinstance(key.type, Scalar) and key.type.bits >= 32 else I32
    ctx.emit(Collective((made,), "match.any", mask, (cast(key, kind, span),), span=span))
    return Val(Group("coalesced"), (made,))


def _copy(ctx: Context, group: Val, args: list[Lowered], span: Span) -> Lowered:
    """The group copies together: every thread takes part; what each one moves is not specified."""
    dst, src = accesses.pointer_of(ctx, args[1], span), accesses.pointer_of(ctx, args[2], span)
    size = operators.as_scalar(ctx, args[3], span)
    count = int(size.expr.value) if isinstance(size.expr, Const) else None
    more = () if count is not None else (size.expr,)
    ctx.emit(Async("group.copy", dst.expr, src.expr, count, args=more, span=span))
    ctx.emit(Async("commit", span=span))
    return Val(VOID)


# --- members ---------------------------------------------------------------------------------------------------------


def member(ctx: Context, place: Lowered, name: str, span: Span) -> Lowered:
    return ctx.unknown(f"group member {name}", span)


def method(
    ctx: Context, place: Lowered, name: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    """A member function of a group."""
    group = memory.load(ctx, place, span)
    assert isinstance(group, Val)
    assert isinstance(group.type, Group)
    kind = group.type.kind
    if name in ("sync", "barrier_arrive", "barrier_wait"):
        action = {"sync": "sync", "barrier_arrive": "arrive", "barrier_wait": "wait"}[name]
        return sync(ctx, group, span, action)
    if name in ("num_threads", "size", "thread_rank", "meta_group_size", "meta_group_rank", "group_index"):
        found = _query(group, name, span)
        if found is not None:
            return found
    special = _block_query(kind, name, span)
    if special is not None:
        return special
    if kind in ("tile", "coalesced"):
        found = collectives.method(ctx, group, name, args, span)
        if found is not None:
            return found
    if name == "map_shared_rank" and args:
        pointer = memory.load(ctx, args[0], span)
        return ctx.unknown("shared memory of another block of the cluster", span, pointer.type)
    return ctx.unknown(f"{name} of {spell(group.type)} not modelled", span, touches=EVERYTHING)


def sync(ctx: Context, group: Val, span: Span, action: str = "sync") -> Lowered:
    kind = group.type
    assert isinstance(kind, Group)
    if kind.kind == "thread" or (kind.kind == "tile" and kind.size == 1):
        return Val(VOID)
    if kind.kind in ("block", "grid", "cluster"):
        ident = unsigned(0, span) if kind.kind == "block" else None
        ctx.emit(Barrier(kind.kind, None, ident, None, action, span=span))  # type: ignore[arg-type]  # words of Barrier
        return Val(VOID)
    mask = mask_of(group, span)
    if mask is None:
        return ctx.unknown(f"sync of {spell(kind)} not modelled", span, VOID, touches=EVERYTHING)
    ctx.emit(Barrier("warp", mask=mask, span=span))
    return Val(VOID)


def _query(group: Val, name: str, span: Span) -> Lowered | None:
    kind = group.type
    assert isinstance(kind, Group)
    size_wanted = name in ("num_threads", "size")
    if kind.kind == "thread":
        return Val(U32, (unsigned(1 if size_wanted else 0, span),))
    if kind.kind == "block":
        if size_wanted:
            return Val(U32, (product("blockDim", span),))
        return Val(U32, (linear_thread(span),)) if name == "thread_rank" else None
    if kind.kind == "grid" and name in ("num_threads", "size", "thread_rank"):
        block = product("blockDim", span, U64)
        if size_wanted:
            return Val(U64, (binary("mul", product("gridDim", span, U64), block, U64, span),))
        first = binary("mul", linear_block(span, U64), block, U64, span)
        return Val(U64, (binary("add", first, cast(linear_thread(span), U64, span), U64, span),))
    if kind.kind == "cluster" and name in ("num_threads", "size", "thread_rank"):
        block = product("blockDim", span)
        if size_wanted:
            return Val(U32, (binary("mul", product("clusterDim", span), block, U32, span),))
        first = binary("mul", Special("cluster_ctarank", span=span), block, U32, span)
        return Val(U32, (binary("add", first, linear_thread(span), U32, span),))
    if kind.kind == "tile" and kind.size is not None:
        return Val(U32, (_tile_query(kind.size, name, size_wanted, span),))
    if kind.kind == "coalesced":
        return Val(U32, (_coalesced_query(group, name, size_wanted, span),))
    return None


def _tile_query(size: int, name: str, size_wanted: bool, span: Span) -> Expr:
    count = unsigned(size, span)
    if size_wanted:
        return count
    if name == "thread_rank":
        return binary("rem", linear_thread(span), count, U32, span)
    if name == "meta_group_rank":
        return binary("div", linear_thread(span), count, U32, span)
    padded = binary("add", product("blockDim", span), unsigned(size - 1, span), U32, span)
    return binary("div", padded, count, U32, span)


def _coalesced_query(group: Val, name: str, size_wanted: bool, span: Span) -> Expr:
    if size_wanted:
        return cast(Pure("popc", (group.expr,), I32, span=span), U32, span)
    if name == "thread_rank":
        return lanes_below(group.expr, span)
    return unsigned(1 if name == "meta_group_size" else 0, span)


def lanes_below(mask: Expr, span: Span) -> Expr:
    """How many lanes of ``mask`` come before the caller's."""
    one = unsigned(1, span)
    lower = binary("sub", binary("shl", one, Special("laneid", span=span), U32, span), one, U32, span)
    return cast(Pure("popc", (binary("and", mask, lower, U32, span),), I32, span=span), U32, span)


_DIMENSIONS = {
    ("block", "group_index"): "blockIdx", ("block", "thread_index"): "threadIdx", ("block", "group_dim"): "blockDim",
    ("block", "dim_threads"): "blockDim", ("grid", "group_dim"): "gridDim", ("grid", "dim_blocks"): "gridDim",
    ("grid", "block_index"): "blockIdx", ("cluster", "block_index"): "clusterBlockIdx",
    ("cluster", "dim_blocks"): "clusterDim", ("grid", "cluster_index"): "clusterIdx",
}  # fmt: skip


def _block_query(kind: str, name: str, span: Span) -> Lowered | None:
    axes = _DIMENSIONS.get((kind, name))
    if axes is not None:
        return Val(VECTORS["dim3"], tuple(Special(f"{axes}.{a}", span=span) for a in "xyz"))
    if name == "is_valid":
        return Val(BOOL, (Const(1, BOOL, span=span),))
    if name in ("num_blocks", "block_rank"):
        if kind == "cluster":
            rank: Expr = Special("cluster_ctarank", span=span)
            return Val(U32, (rank if name == "block_rank" else product("clusterDim", span),))
        if kind == "grid":
            return Val(U64, (linear_block(span, U64) if name == "block_rank" else product("gridDim", span, U64),))
    return None
