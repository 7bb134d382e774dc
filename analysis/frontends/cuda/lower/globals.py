"""Variables outside functions: ``__device__``, ``__constant__``, ``constexpr``, static members."""

from __future__ import annotations

import struct

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import initialise
from prelaunch.analysis.frontends.cuda.lower.context import Context, pointer_to
from prelaunch.analysis.frontends.cuda.lower.memory import element_type
from prelaunch.analysis.frontends.cuda.semantics import evaluate, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem
from prelaunch.analysis.frontends.cuda.semantics.types import (
    Array,
    CType,
    Record,
    Ref,
    TemplateArgument,
    alignof,
    scalar,
    sizeof,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import VariableDecl
from prelaunch.analysis.kernel import Address, Object, Scalar, Space
from prelaunch.analysis.source import Span


def variable(
    ctx: Context, decl: VariableDecl, span: Span, owner: Record | None, args: tuple[TemplateArgument, ...] = ()
) -> Lowered | None:
    """The place or constant a variable declared outside functions stands for; the scope is that of ``decl``."""
    key = ("global", decl.file.source.path, decl.declarator.start_byte, args, id(owner) if owner is not None else 0)
    known = ctx.statics.get(key)
    if known is not None:
        return known
    if key in ctx.resolving:
        return None
    ctx.resolving.append(key)
    try:
        made = _make(ctx, decl, span)
    finally:
        ctx.resolving.pop()
    if made is not None:
        ctx.statics[key] = made
    return made


def _make(ctx: Context, decl: VariableDecl, span: Span) -> Lowered | None:
    spec = typenames.specifiers(ctx, decl.node)
    value = initial(decl.node, decl.declarator)
    if spec.type is None:
        return evaluate.scratch(ctx, value) if value is not None else None
    _, ctype = typenames.declared(ctx, spec.type, decl.declarator, spec.volatile, spec.const)
    if isinstance(ctype, Ref):
        ctype = ctype.to
    constant = spec.const or bool(spec.words & {"constexpr", "const"})
    if constant and value is not None and scalar(ctype) and not spec.words & {"__constant__", "__device__"}:
        found = evaluate.scratch_to(ctx, value, ctype)
        if found is not None:
            return found
    if constant and "constexpr" in spec.words and value is not None and not isinstance(ctype, Array):
        found = evaluate.scratch_to(ctx, value, ctype)
        if found is not None and found.exprs:
            return found
    if isinstance(ctype, Array) and ctype.count is None and value is not None:
        ctype = Array(ctype.of, initialise.list_length(value))
    space: Space = "constant" if "__constant__" in spec.words or constant else "global"
    if "__shared__" in spec.words:
        space = "shared"
    return _object(ctx, decl, ctype, value, space, spec.align, span)


def _object(
    ctx: Context, decl: VariableDecl, ctype: CType, value: Node | None, space: Space, align: int, span: Span
) -> Mem:
    ident = decl.qualified
    number = 2
    while ident in ctx.objects:
        ident = f"{decl.qualified}#{number}"
        number += 1
    shape: list[int] = []
    inner = ctype
    while isinstance(inner, Array):
        shape.append(inner.count or 0)
        inner = inner.of
    volatile = "volatile" in typenames.specifiers(ctx, decl.node).words
    element = element_type(inner)
    dynamic = space == "shared" and isinstance(ctype, Array) and not ctype.count
    size = None if dynamic else sizeof(ctype)
    if dynamic and ctx.dynamic is not None:
        return Mem(ctype, Address(ctx.dynamic, pointer_to(ctype), span=span), volatile, space)
    made = Object(
        ident, decl.name, space, element, size, max(alignof(ctype), align), dynamic, "variable", tuple(shape), volatile,
        initial_bytes(ctx, ctype, value), span=decl.file.span(decl.node),
    )  # fmt: skip
    ctx.add_object(made)
    if dynamic:
        ctx.dynamic = ident
    return Mem(ctype, Address(ident, pointer_to(ctype), span=span), volatile, space)


def initial(node: Node, declarator: Node) -> Node | None:
    """The initialiser of ``declarator`` in declaration ``node``."""
    value = declarator.child_by_field_name("value")
    return value if value is not None else node.child_by_field_name("default_value")


def initial_bytes(ctx: Context, ctype: CType, value: Node | None) -> bytes | None:
    """The bytes of a constant initialiser, None when there is none or it is not constant."""
    if value is None or sizeof(ctype) > 1 << 16:
        return None
    data = bytearray(sizeof(ctype))
    with ctx.discarded():
        try:
            parts = list(initialise.constant_parts(ctx, ctype, value, 0))
        except initialise.NotConstantError:
            return None
    for offset, of, number in parts:
        raw = encode(number, of)
        if raw is None or offset + len(raw) > len(data):
            return None
        data[offset : offset + len(raw)] = raw
    return bytes(data)


def encode(value: int | float, of: Scalar) -> bytes | None:
    """Little-endian bytes of a number as stored."""
    if of.is_integer:
        return (int(value) & ((1 << of.bits) - 1)).to_bytes(of.size, "little")
    try:
        if of.kind == "bfloat":
            return struct.pack("<f", value)[2:]
        return struct.pack({16: "<e", 32: "<f", 64: "<d"}[of.bits], value)
    except OverflowError:
        return None
