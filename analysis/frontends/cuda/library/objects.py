"""Library types and functions with a meaning of their own: ``cuda::atomic``, ``cuda::barrier``, pipelines, textures,
cuRAND, ``numeric_limits``."""

from __future__ import annotations

import re

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library import accesses, atomics
from prelaunch.analysis.frontends.cuda.lower import memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context, pointer_to
from prelaunch.analysis.frontends.cuda.passes.constants import offset
from prelaunch.analysis.frontends.cuda.semantics import templates, traits
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import VECTORS
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    CType,
    Group,
    Handle,
    Ptr,
    Record,
    TemplateArgument,
    Void,
)
from prelaunch.analysis.kernel import F32, F64, U32, U64, Async, Const, Expr, Load, Opaque, Store
from prelaunch.analysis.source import Span

_TEXTURE = re.compile(r"^(tex(1D|2D|3D|Cubemap|2Dgather|1DLayered|2DLayered)\w*|surf\w+|surface\w+)$")
_BARRIER = Handle("cuda::barrier", 8, 8)
_PIPELINE = Group("pipeline")


def library_type(name: str, args: tuple[TemplateArgument, ...] | None) -> CType | None:
    """``barrier``, ``pipeline``, ``atomic<T>``, ``atomic_ref<T>`` where the project declares none."""
    if name == "barrier" and args is not None:
        return _BARRIER
    if name in ("pipeline", "pipeline_shared_state"):
        return _PIPELINE
    if name in ("atomic", "atomic_ref") and args:
        return atomics.atomic_type(name, args)
    return None


def numeric_limit(ctx: Context, parts: list[Node], name: str, span: Span) -> Lowered | None:
    """``std::numeric_limits<T>::max()``."""
    last = parts[-2] if len(parts) > 1 else None
    if last is None or last.type not in ("template_type", "template_function"):
        return None
    label, inner = last.child_by_field_name("name"), last.child_by_field_name("arguments")
    if label is None or inner is None or ctx.text(label) != "numeric_limits":
        return None
    return traits.limit(templates.arguments(ctx, inner), name, span)


def free_call(
    ctx: Context, name: str, qualifier: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered | None:
    """A library function, None when ``name`` is none."""
    if _TEXTURE.match(name):
        return _texture(ctx, name, targs, args, span)
    if name.startswith("curand"):
        return _random(ctx, name, args, span)
    if name == "init" and len(args) == 2 and _is(args[0].type, _BARRIER):
        count = operators.as_scalar(ctx, args[1], span).expr
        ctx.emit(Async("mbarrier.init", args=(accesses.pointer_of(ctx, args[0], span).expr, count), span=span))
        return Val(VOID)
    if name == "aligned_size_t" and args:
        return operators.convert(ctx, args[-1], U64, span)
    if name == "make_pipeline":
        return Val(_PIPELINE)
    if name == "pipeline_consumer_wait_prior":
        pending = Const(int(targs[0]), U32, span=span) if targs and isinstance(targs[0], int) else None
        ctx.emit(Async("wait", pending=pending, span=span))
        return Val(VOID)
    if name == "memcpy_async" and len(args) >= 4:
        return _copy(ctx, args, span)
    if name in ("atomic_thread_fence",):
        return atomics.fence(ctx, args, span)
    return None


def _is(ctype: CType, handle: Handle) -> bool:
    while isinstance(ctype, Ptr):
        ctype = ctype.to
    return isinstance(ctype, Handle) and ctype.name.split("<")[0] == handle.name


def _texture(ctx: Context, name: str, targs: tuple[TemplateArgument, ...], args: list[Lowered], span: Span) -> Lowered:
    """Texture and surface memory is none of the kernel's objects: only the value fetched is unknown."""
    for value in args:
        if not isinstance(value.type, Handle | Void):
            memory.load(ctx, value, span)
    writes = "write" in name
    result: CType = VOID if writes else F32
    if targs and not writes and not isinstance(targs[0], int | float | str | tuple):
        result = targs[0]
    elif args and isinstance(args[0].type, Handle):
        inner = re.search(r"<\s*([\w ]+)", args[0].type.name)
        result = VECTORS.get(inner[1].strip(), F32) if inner is not None and not writes else result
        if inner is not None and inner[1].strip() == "double":
            result = F64
    return ctx.unknown("texture or surface access", span, result)


def _random(ctx: Context, name: str, args: list[Lowered], span: Span) -> Lowered:
    """cuRAND's device functions read and write the state they are given; the number is unknown."""
    state = next((a for a in args if isinstance(a.type, Ptr) and isinstance(a.type.to, Handle)), None)
    for value in args:
        if value is not state:
            memory.load(ctx, value, span)
    result: CType = U32
    if "init" in name:
        result = VOID
    elif "double" in name:
        result = VECTORS["double2"] if "2" in name else F64
    elif any(w in name for w in ("uniform", "normal")):
        result = VECTORS["float4"] if "4" in name else VECTORS["float2"] if "2" in name else F32
    elif name.endswith("4"):
        result = VECTORS["uint4"]
    if state is None:
        return ctx.unknown("random number", span, result)
    pointer = memory.load(ctx, state, span)
    assert isinstance(pointer, Val)
    assert isinstance(state.type, Ptr)
    assert isinstance(state.type.to, Handle)
    base = ctx.frozen(pointer.expr, span)
    fresh: list[Expr] = []
    words = state.type.to.size // 4 if state.type.to.size <= 256 else 4
    for start in range(0, words, 4):
        count = min(4, words - start)
        where = memory.retype(offset(base, start * 4, 1, pointer_to(U32), span), pointer_to(U32))
        if "init" not in name:
            made = tuple(ctx.var(U32, "", span) for _ in range(count))
            ctx.emit(Load(made, where, U32, memory.space_of(ctx, base), span=span))
        new = tuple(ctx.var(U32, "", span) for _ in range(count))
        ctx.emit(Opaque("random number generator state", frozenset({"value"}), new, span=span))
        ctx.emit(Store(where, new, U32, memory.space_of(ctx, base), span=span))
        fresh.extend(new)
    return ctx.unknown("random number", span, result)


def _copy(ctx: Context, args: list[Lowered], span: Span) -> Lowered | None:
    """``cuda::memcpy_async([group,] dst, src, size, barrier or pipeline)``."""
    rest = args[1:] if isinstance(args[0].type, Group) else args
    if len(rest) < 3:
        return None
    dst, src = accesses.pointer_of(ctx, rest[0], span), accesses.pointer_of(ctx, rest[1], span)
    size = operators.as_scalar(ctx, rest[2], span)
    if not isinstance(dst.type, Ptr) or not isinstance(src.type, Ptr):
        return None
    count = int(size.expr.value) if isinstance(size.expr, Const) else None
    more: list[Expr] = [] if count is not None else [size.expr]
    if len(rest) > 3 and isinstance(rest[3], Mem) and _is(rest[3].type, _BARRIER):
        more.append(rest[3].address)
    op = "copy" if rest is args else "group.copy"
    ctx.emit(Async(op, dst.expr, src.expr, count, args=tuple(more), span=span))
    return Val(VOID)


def method(
    ctx: Context, place: Lowered, name: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered | None:
    """A member function of a library type."""
    kind = place.type
    if isinstance(kind, Record) and atomics.is_atomic(kind):
        return atomics.method(ctx, place, name, args, span)
    if _is(kind, _BARRIER) and isinstance(place, Mem):
        return _barrier(ctx, place, name, args, span)
    if kind == _PIPELINE:
        op = {"producer_commit": "commit"}.get(name, f"pipeline.{name}")
        ctx.emit(Async(op, span=span))
        return Val(VOID)
    return None


def _barrier(ctx: Context, place: Mem, name: str, args: list[Lowered], span: Span) -> Lowered | None:
    address = place.address
    if name in ("arrive_and_wait", "arrive", "arrive_and_drop"):
        ctx.emit(Async("mbarrier.arrive", args=(address,), span=span))
        if name != "arrive_and_wait":
            return ctx.unknown("token of a barrier", span, U64)
    if name in ("arrive_and_wait", "wait", "wait_parity", "try_wait"):
        ctx.emit(Async("mbarrier.wait", args=(address,), span=span))
        return Val(VOID)
    return None
