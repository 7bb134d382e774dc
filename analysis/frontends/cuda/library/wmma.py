"""``nvcuda::wmma``: matrix fragments held by a warp [CUDA C++ Programming Guide, Warp Matrix Functions]."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import expressions, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import VOID, Array, Fragment, Handle, TemplateArgument, sizeof
from prelaunch.analysis.kernel import F32, U32, Mma, Scalar
from prelaunch.analysis.source import Span

_FUNCTIONS = frozenset({"load_matrix_sync", "store_matrix_sync", "mma_sync", "fill_fragment", "bmma_sync"})


def fragment_type(
    name: str, args: tuple[TemplateArgument, ...] | None, ctx: Context, listed: Node | None
) -> Fragment | None:
    """``fragment<use, m, n, k, T, layout>``."""
    if name != "fragment" or args is None or len(args) < 5:
        return None
    sizes = [a if isinstance(a, int) else 16 for a in args[1:4]]
    element = args[4] if isinstance(args[4], Scalar) else F32
    layout = "col" if len(args) > 5 and "col" in _word(args[5]) else "row"
    return Fragment(_word(args[0]), sizes[0], sizes[1], sizes[2], element, layout)


def _word(arg: TemplateArgument) -> str:
    text = arg if isinstance(arg, str) else arg.name if isinstance(arg, Handle) else ""
    return text.rpartition("::")[2]


def call(ctx: Context, name: str, qualifier: str, listed: Node, span: Span) -> Lowered | None:
    """A warp matrix function, None when ``name`` is none."""
    if name not in _FUNCTIONS or (qualifier and not qualifier.endswith("wmma") and "experimental" not in qualifier):
        return None
    nodes = [c for c in listed.named_children if c.type != "comment"]
    names = tuple(" ".join(ctx.text(n).split()) for n in nodes)
    if name == "fill_fragment":
        expressions.lower(ctx, nodes[-1])
        ctx.emit(Mma("fill", names[:1], span=span))
        return Val(VOID)
    if name in ("mma_sync", "bmma_sync"):
        ctx.emit(Mma("mma", names[:4], span=span))
        return Val(VOID)
    load = name == "load_matrix_sync"
    if len(nodes) < 3:
        return None
    fragment = expressions.lower(ctx, nodes[0 if load else 1]).type
    pointer = operators.as_scalar(ctx, expressions.lower(ctx, nodes[1 if load else 0]), span)
    stride = operators.convert(ctx, expressions.lower(ctx, nodes[2]), U32, span)
    if not isinstance(fragment, Fragment) or not isinstance(stride, Val):
        return ctx.unknown(f"{name} of this type", span, VOID, touches=("memory",))
    layout = fragment.layout
    if len(nodes) > 3:
        layout = "col" if "col" in names[3] else "row"
    rows, cols = shape(fragment)
    ctx.emit(
        Mma(
            "load" if load else "store", (names[0 if load else 1],), pointer.expr, stride.expr, rows, cols,
            fragment.element, layout, span=span,
        )
    )  # fmt: skip
    return Val(VOID)


def shape(fragment: Fragment) -> tuple[int, int]:
    """Rows and columns of the matrix a fragment holds."""
    if fragment.use == "matrix_a":
        return fragment.m, fragment.k
    if fragment.use == "matrix_b":
        return fragment.k, fragment.n
    return fragment.m, fragment.n


def elements(ctx: Context, fragment: Fragment, span: Span) -> Lowered:
    """``f.x``: which matrix elements a lane holds is unspecified, so a local array of unknown content stands for it."""
    ctx.opaque("fragment element", span, ("value",))
    count = max(1, sizeof(fragment) // fragment.element.size)
    return memory.local_object(ctx, Array(fragment.element, count), "fragment", span)
