"""Moving values between expressions, registers and memory; addresses, members, elements.

An access moves what the hardware moves at once: a type whose leaves are alike, gapless and aligned as a whole
(``float4``, ``int2``, ``uchar4``) in pieces of up to 16 bytes, everything else leaf by leaf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from prelaunch.analysis.frontends.cuda.lower.context import Context, pointer_to
from prelaunch.analysis.frontends.cuda.passes.constants import binary, fit, offset
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Val, leaf_range
from prelaunch.analysis.frontends.cuda.semantics.types import (
    Array,
    CType,
    Leaf,
    Ptr,
    Record,
    Void,
    alignof,
    ir_type,
    leaves,
    sizeof,
    spell,
)  # fmt: skip
from prelaunch.analysis.kernel import (
    BOOL,
    I64,
    U8,
    U32,
    Address,
    Assign,
    Block,
    Const,
    Expr,
    Load,
    Loop,
    LoopInfo,
    Object,
    Pointer,
    PtrAdd,
    Scalar,
    Space,
    Store,
    Var,
)  # fmt: skip
from prelaunch.analysis.source import Span
from prelaunch.analysis.walk import walk_expr

VECTOR_BYTES = 16


def space_of(ctx: Context, address: Expr) -> Space:
    while isinstance(address, PtrAdd):
        address = address.pointer
    if isinstance(address, Address) and address.object in ctx.objects:
        return ctx.objects[address.object].space
    return "generic"


def groups(ctype: CType) -> list[tuple[int, int]]:
    """How an access to ``ctype`` splits: (first leaf, leaf count) of each piece. ``ctype`` has leaves."""
    found = leaves(ctype) or ()
    if len(found) > 1 and not isinstance(ctype, Array) and _uniform(found, sizeof(ctype)):
        width = min(VECTOR_BYTES, alignof(ctype)) // sizeof(found[0].type)
        if width > 1 and len(found) % width == 0:
            return [(i, width) for i in range(0, len(found), width)]
    if isinstance(ctype, Record):
        pieces: list[tuple[int, int]] = []
        for item in ctype.fields:
            start = leaf_range(ctype, item.type, item.offset)
            if start is not None and start[1] > start[0]:
                pieces.extend((start[0] + first, count) for first, count in groups(item.type))
        return pieces
    if isinstance(ctype, Array) and ctype.count:
        inner, step = groups(ctype.of), len(found) // ctype.count
        return [(i * step + first, count) for i in range(ctype.count) for first, count in inner]
    return [(i, 1) for i in range(len(found))]


def _uniform(found: tuple[Leaf, ...], size: int) -> bool:
    first = found[0].type
    if not isinstance(first, Scalar) or len(found) * first.size != size:
        return False
    return all(leaf.type == first and leaf.offset == i * first.size for i, leaf in enumerate(found))


def load(ctx: Context, place: Lowered, span: Span) -> Val | Mem:
    """The value in ``place``. Arrays decay to pointers; a type without leaves stays where it is."""
    if isinstance(place.type, Array):
        return decay(ctx, place, span)
    if isinstance(place, Val):
        return place
    if isinstance(place, Reg):
        return Val(place.type, place.vars)
    if place.bits is not None:
        return _load_bits(ctx, place, span)
    found = leaves(place.type)
    if found is None:
        return place
    address = place.address
    pieces = groups(place.type)
    if len(pieces) > 1:
        address = ctx.frozen(address, span)
    space = space_of(ctx, address)
    exprs: list[Expr] = []
    for first, count in pieces:
        leaf = found[first]
        of = ir_type(leaf.type)
        made = tuple(ctx.var(of, "", span) for _ in range(count))
        volatile = place.volatile or leaf.volatile
        where = offset(address, leaf.offset, 1, pointer_to(leaf.type), span)
        ctx.emit(
            Load(
                made, retype(where, pointer_to(leaf.type)), of, space,
                "volatile" if volatile else "weak", "system" if volatile else "thread", span=span,
            )
        )  # fmt: skip
        exprs.extend(made)
    return Val(place.type, tuple(exprs))


def _load_bits(ctx: Context, place: Mem, span: Span) -> Val:
    unit = place.type
    assert isinstance(unit, Scalar)
    assert place.bits is not None
    whole = load(ctx, replace(place, bits=None), span)
    assert isinstance(whole, Val)
    left = unit.bits - place.shift - place.bits
    shifted = binary("shl", whole.expr, Const(left, unit, span=span), unit, span)
    return Val(unit, (binary("shr", shifted, Const(unit.bits - place.bits, unit, span=span), unit, span),))


def store(ctx: Context, place: Lowered, value: Lowered, span: Span) -> None:
    """Write ``value``, already of the place's type, to ``place``."""
    if isinstance(value, Mem | Reg):
        loaded = (
            load(ctx, value, span) if leaves(value.type) is not None and not isinstance(value.type, Array) else value
        )
        if isinstance(loaded, Mem):
            if isinstance(place, Mem):
                copy_bytes(ctx, place.address, loaded.address, sizeof(place.type), alignof(place.type), span)
            else:
                ctx.opaque(f"{spell(loaded.type)} assigned to {spell(place.type)}", span)
            return
        value = loaded
    if isinstance(place, Reg):
        for var, expr in zip(place.vars, settled(ctx, place, value, span), strict=False):
            ctx.assign(var, expr, span)
        return
    if isinstance(place, Val):  # a place that was not understood: it may lie in memory
        if leaves(place.type) != ():
            ctx.opaque("assignment to a place that was not understood", span, ("value", "memory"))
        return
    _written(ctx, place.address)
    if place.bits is not None:
        _store_bits(ctx, place, value, span)
        return
    found = leaves(place.type)
    if found is None or isinstance(value, Reg) or len(value.exprs) != len(found):
        ctx.opaque(f"store of {spell(place.type)}", span, ("value", "memory"))
        return
    address = place.address
    pieces = groups(place.type)
    if len(pieces) > 1:
        address = ctx.frozen(address, span)
    space = space_of(ctx, address)
    for first, count in pieces:
        leaf = found[first]
        volatile = place.volatile or leaf.volatile
        where = offset(address, leaf.offset, 1, pointer_to(leaf.type), span)
        ctx.emit(
            Store(
                retype(where, pointer_to(leaf.type)), value.exprs[first : first + count], ir_type(leaf.type), space,
                "volatile" if volatile else "weak", "system" if volatile else "thread", span=span,
            )
        )  # fmt: skip


def settled(ctx: Context, place: Reg, value: Val | Reg | Mem, span: Span) -> tuple[Expr, ...]:
    """Leaves of ``value``, copied first where assigning one would change another (``v = {v.y, v.x}``)."""
    exprs = value.exprs if isinstance(value, Val) else ()
    if len(exprs) < 2:
        return exprs
    written = {v.id for v in place.vars}
    clash = any(
        isinstance(e, Var) and e.id in written and e.id != place.vars[i].id
        for i, expr in enumerate(exprs[: len(place.vars)])
        for e in walk_expr(expr)
    )
    return tuple(ctx.temporary(e, span) for e in exprs) if clash else exprs


def _store_bits(ctx: Context, place: Mem, value: Val | Reg | Mem, span: Span) -> None:
    unit = place.type
    assert isinstance(unit, Scalar)
    assert place.bits is not None
    assert isinstance(value, Val)
    whole = replace(place, bits=None)
    old = load(ctx, whole, span)
    assert isinstance(old, Val)
    mask = ((1 << place.bits) - 1) << place.shift
    keep = binary("and", old.expr, Const(fit(~mask, unit), unit, span=span), unit, span)
    moved = binary("shl", value.expr, Const(place.shift, unit, span=span), unit, span)
    part = binary("and", moved, Const(fit(mask, unit), unit, span=span), unit, span)
    store(ctx, whole, Val(unit, (binary("or", keep, part, unit, span),)), span)


def copy_bytes(ctx: Context, dst: Expr, src: Expr, size: int, align: int, span: Span) -> None:
    """Copy ``size`` bytes, unit by unit of at most 4 bytes."""
    align = max(align, min(alignment_of(ctx, dst), alignment_of(ctx, src)))
    unit = next(u for u in (4, 2, 1) if align % u == 0 and size % u == 0)
    of = Scalar("uint", unit * 8)
    to = pointer_to(of)
    dst, src = ctx.frozen(dst, span), ctx.frozen(src, span)
    _each(
        ctx, size // unit, span,
        lambda at: _copy_unit(ctx, offset(dst, at, unit, to, span), offset(src, at, unit, to, span), of, span),
    )  # fmt: skip


def _each(ctx: Context, count: int, span: Span, one: Callable[[Expr | int], None]) -> None:
    """``one(i)`` for i in [0, count): written out up to 64 times, else a counted loop."""
    if count <= 64:
        for i in range(count):
            one(i)
        return
    counter = ctx.var(I64, "i", span)
    ctx.assign(counter, Const(0, I64, span=span), span)
    with ctx.block() as body:
        one(counter)
    first, step, bound = Const(0, I64, span=span), Const(1, I64, span=span), Const(count, I64, span=span)
    ctx.log.append(counter.id)
    ctx.emit(
        Loop(
            ctx.label(), Block(span=span), binary("lt", counter, bound, BOOL, span), Block(tuple(body), span=span),
            Block((Assign(counter, binary("add", counter, step, I64, span), span=span),), span=span), True,
            LoopInfo(counter, first, bound, "lt", step), span=span,
        )
    )  # fmt: skip


def alignment_of(ctx: Context, address: Expr) -> int:
    """Alignment of an address at a constant offset of a known object, else 1."""
    at = 0
    if isinstance(address, PtrAdd) and isinstance(address.offset, Const):
        at = int(address.offset.value)
        address = address.pointer
    if not isinstance(address, Address) or address.object not in ctx.objects:
        return 1
    return math.gcd(ctx.objects[address.object].align, at) if at else ctx.objects[address.object].align


def fill_bytes(ctx: Context, dst: Expr, size: int, span: Span, value: int = 0) -> None:
    """Set ``size`` bytes to ``value``, as ``copy_bytes`` moves them."""
    unit = next(u for u in (4, 2, 1) if size % u == 0)
    of = Scalar("uint", unit * 8)
    word = Const(int.from_bytes(bytes([value & 255] * unit), "little"), of, span=span)
    _each(ctx, size // unit, span, lambda at: _fill_unit(ctx, offset(dst, at, unit, pointer_to(of), span), word, span))


def _fill_unit(ctx: Context, dst: Expr, word: Const, span: Span) -> None:
    assert isinstance(word.type, Scalar)
    ctx.emit(Store(retype(dst, pointer_to(word.type)), (word,), word.type, space_of(ctx, dst), span=span))


def _copy_unit(ctx: Context, dst: Expr, src: Expr, of: Scalar, span: Span) -> None:
    made = ctx.var(of, "", span)
    to = pointer_to(of)
    ctx.emit(Load((made,), retype(src, to), of, space_of(ctx, src), span=span))
    ctx.emit(Store(retype(dst, to), (made,), of, space_of(ctx, dst), span=span))


def retype(pointer: Expr, to: Pointer) -> Expr:
    """The same address as a pointer of type ``to``."""
    if pointer.type == to:
        return pointer
    if isinstance(pointer, Address | PtrAdd | Const):
        return replace(pointer, type=to)
    return PtrAdd(pointer, Const(0, I64, span=pointer.span), to, span=pointer.span)


def address_of(ctx: Context, place: Lowered, span: Span) -> Val:
    """``&place``. A register is given a place in memory, which the next pass over the kernel then uses throughout."""
    if isinstance(place, Mem):
        _written(ctx, place.address)
        pointee = place.type
        return Val(Ptr(pointee, place.volatile), (retype(place.address, pointer_to(pointee)),))
    if isinstance(place, Reg):
        ctx.wanted.add(place.key)
    held = Val(place.type, place.vars) if isinstance(place, Reg) else place
    made = in_memory(ctx, held, "temporary", span)
    return Val(Ptr(place.type), (made.address,))


def in_memory(ctx: Context, value: Lowered, name: str, span: Span) -> Mem:
    """A local object holding ``value``."""
    if isinstance(value, Mem):
        return value
    place = local_object(ctx, value.type, name, span)
    if leaves(value.type):
        store(ctx, place, value, span)
    return place


def local_object(ctx: Context, ctype: CType, name: str, span: Span, volatile: bool = False) -> Mem:
    element: CType = ctype
    shape: list[int] = []
    while isinstance(element, Array):
        shape.append(element.count or 0)
        element = element.of
    made = ctx.add_object(
        Object(
            ctx.object_id(name), name, "local", element_type(element), sizeof(ctype), alignof(ctype),
            shape=tuple(shape), volatile=volatile, span=span,
        )
    )  # fmt: skip
    ctx.locals[made.id] = ctype
    return Mem(ctype, Address(made.id, pointer_to(ctype), span=span), volatile, "local")


def element_type(ctype: CType) -> Scalar | Pointer:
    """The register type that stands for an object's elements: the first leaf where all are alike, else bytes."""
    found = leaves(ctype)
    if found and all(ir_type(leaf.type) == ir_type(found[0].type) for leaf in found):
        return ir_type(found[0].type)
    if isinstance(ctype, Array):
        return element_type(ctype.of)
    return U32 if alignof(ctype) % 4 == 0 and sizeof(ctype) % 4 == 0 and sizeof(ctype) else U8


def decay(ctx: Context, value: Lowered, span: Span) -> Val:
    """An array as a pointer to its first element; other values unchanged."""
    if not isinstance(value.type, Array):
        loaded = load(ctx, value, span)
        return loaded if isinstance(loaded, Val) else Val(value.type)
    of = value.type.of
    place = value if isinstance(value, Mem) else None
    if place is None:
        pointer = address_of(ctx, value, span)
        return Val(Ptr(of), (retype(pointer.expr, pointer_to(of)),))
    return Val(Ptr(of, place.volatile), (retype(place.address, pointer_to(of)),))


def element(ctx: Context, pointer: Val, index: Val, span: Span) -> Mem:
    """``pointer[index]``."""
    kind = pointer.type
    assert isinstance(kind, Ptr)
    of = kind.to if not isinstance(kind.to, Void) else U8
    where = offset(pointer.expr, index.expr, sizeof(of), pointer_to(of), span)
    return Mem(of, where, kind.volatile)


def member(ctx: Context, base: Lowered, ctype: CType, at: int, span: Span, volatile: bool = False) -> Lowered:
    """The part of type ``ctype`` at byte ``at`` of ``base``."""
    if isinstance(base, Mem):
        where = retype(offset(base.address, at, 1, pointer_to(ctype), span), pointer_to(ctype))
        return Mem(ctype, where, base.volatile or volatile)
    found = leaf_range(base.type, ctype, at)
    if found is None:
        return member(ctx, in_memory_wanted(ctx, base, span), ctype, at, span, volatile)
    start, end = found
    if isinstance(base, Reg):
        return Reg(ctype, base.vars[start:end], base.key)
    return Val(ctype, base.exprs[start:end])


def in_memory_wanted(ctx: Context, base: Lowered, span: Span) -> Mem:
    if isinstance(base, Reg):
        ctx.wanted.add(base.key)
        return in_memory(ctx, Val(base.type, base.vars), "temporary", span)
    return in_memory(ctx, base, "temporary", span)


def indexable(ctx: Context, base: Lowered, span: Span) -> Mem:
    """An array held in registers as memory that can be indexed. Of a kernel parameter a copy will do, so that its
    other members stay in registers; a write to the copy takes that back for the next pass."""
    if isinstance(base, Reg) and base.key in ctx.formals:
        copy = in_memory(ctx, Val(base.type, base.vars), base.vars[0].name.partition("[")[0], span)
        assert isinstance(copy.address, Address)
        ctx.copies[copy.address.object] = base.key
        return copy
    return in_memory_wanted(ctx, base, span)


def _written(ctx: Context, address: Expr) -> None:
    """Note a write through, or an escape of, the address of a parameter's copy."""
    while isinstance(address, PtrAdd):
        address = address.pointer
    if isinstance(address, Address) and address.object in ctx.copies:
        ctx.wanted.add(ctx.copies[address.object])


def dereference(ctx: Context, pointer: Val, span: Span) -> Lowered:
    kind = pointer.type
    if not isinstance(kind, Ptr) or not pointer.exprs:
        return ctx.unknown(f"dereference of {spell(kind)}", span)
    to = kind.to if not isinstance(kind.to, Void) else U8
    return Mem(to, retype(pointer.expr, pointer_to(to)), kind.volatile)


def zero(ctype: CType, span: Span) -> Val | None:
    """``ctype{}``: all leaves zero."""
    found = leaves(ctype)
    if found is None:
        return None
    exprs: list[Expr] = []
    for leaf in found:
        of = ir_type(leaf.type)
        exprs.append(Const(0.0 if isinstance(of, Scalar) and not of.is_integer else 0, of, span=span))
    return Val(ctype, tuple(exprs))
