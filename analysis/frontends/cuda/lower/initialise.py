"""Initialisers: braced lists for arrays, aggregates and classes, with C++'s rules for what is left out."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import classes, expressions, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.passes import constants
from prelaunch.analysis.frontends.cuda.semantics import evaluate, records
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    Array,
    Braces,
    CType,
    Field,
    Record,
    ir_type,
    leaves,
    scalar,
    sizeof,
    spell,
)  # fmt: skip
from prelaunch.analysis.kernel import I8, Const, Scalar
from prelaunch.analysis.source import Span

MAX_ELEMENTS = 4096


class NotConstantError(Exception):
    """An initialiser is not a constant expression."""


def items_of(node: Node) -> list[Node]:
    return [c for c in node.named_children if c.type != "comment"]


def list_length(value: Node) -> int | None:
    """Elements of an array declared with ``[]`` and this initialiser."""
    if value.type == "initializer_list":
        return len(items_of(value))
    if value.type in ("string_literal", "concatenated_string"):
        text = value.text or b""
        return len(constants.unescape(text.decode("utf-8", "replace").strip('"'))) + 1
    return None


def from_list(ctx: Context, node: Node, to: CType) -> Lowered:
    """``to{...}`` as a value or a local object."""
    span = ctx.span(node)
    items = items_of(node)
    if scalar(to):
        while len(items) == 1 and items[0].type == "initializer_list":
            items = items_of(items[0])
        if not items:
            return memory.zero(to, span) or ctx.unknown(f"{spell(to)} initialised", span, to)
        return expressions.converted(ctx, items[0], to)
    if isinstance(to, Record):
        built = classes.construct_from_list(ctx, to, items, span)
        if built is not None:
            return built
        place = ctx.registers(to, "", span)
        target: Lowered = place if place is not None else memory.local_object(ctx, to, "temporary", span)
        aggregate(ctx, target, items, span)
        return target
    if isinstance(to, Array):
        place_array = memory.local_object(ctx, to, "temporary", span)
        aggregate(ctx, place_array, items, span)
        return place_array
    if leaves(to) == ():
        return Val(to)
    return ctx.unknown(f"braced list for {spell(to)}", span, to)


def deferred(ctx: Context, node: Node) -> Val:
    """A braced list whose type is not known yet."""
    return Val(Braces(node, ctx.scope, ctx.file, ctx.macro_site, ctx.inlined_at))


def settle(ctx: Context, value: Braces, to: CType) -> Lowered:
    """A deferred list as a value of type ``to``, evaluated where it was written."""
    kept = ctx.scope, ctx.file, ctx.macro_site, ctx.inlined_at
    ctx.scope, ctx.file, ctx.macro_site, ctx.inlined_at = value.scope, value.file, value.macro_site, value.inlined_at
    try:
        return from_list(ctx, value.node, to)
    finally:
        ctx.scope, ctx.file, ctx.macro_site, ctx.inlined_at = kept


def aggregate(ctx: Context, place: Lowered, items: list[Node], span: Span) -> None:
    """Aggregate initialisation [dcl.init.aggr] of ``place``: elements in order, brace elision, the rest zero."""
    consumed = _fill(ctx, place, items, 0, span)
    if consumed < len(items) and not ctx.stopped:
        ctx.opaque("too many initialisers", span)


def _fill(ctx: Context, place: Lowered, items: list[Node], start: int, span: Span) -> int:
    """Initialise ``place`` from ``items[start:]`` without braces of its own; gives the index after the last used."""
    ctype = place.type
    position = start
    if isinstance(ctype, Array):
        count = ctype.count or 0
        if count > MAX_ELEMENTS and position >= len(items):
            _clear(ctx, place, span)
            return position
        size = sizeof(ctype.of)
        if position >= len(items) and count * max(1, len(leaves(ctype.of) or ())) > 64:
            _clear(ctx, place, span)
            return position
        for index in range(min(count, MAX_ELEMENTS)):
            part = memory.member(ctx, place, ctype.of, index * size, span)
            position = _one(ctx, part, items, position, None, span)
        return position
    if isinstance(ctype, Record):
        if any(i.type == "initializer_pair" for i in items[start:]):
            return _designated(ctx, place, items, start, span)
        fields = ctype.fields[:1] if ctype.kind == "union" else ctype.fields
        for item in fields:
            if item.bits is not None:
                value = expressions.number(ctx, items[position]) if position < len(items) else None
                position += 1 if value is not None else 0
                part = records_member(ctx, place, item, span)
                memory.store(ctx, part, operators.convert(ctx, value, item.type, span), span) if value else None
                continue
            part = memory.member(ctx, place, item.type, item.offset, span)
            position = _one(ctx, part, items, position, item, span)
        return position
    return _one(ctx, place, items, position, None, span)


def records_member(ctx: Context, place: Lowered, item: Field, span: Span) -> Lowered:
    from prelaunch.analysis.frontends.cuda.lower import symbols

    found = symbols.member_of(ctx, place, item.name, span)
    return found if found is not None else place


def _one(ctx: Context, part: Lowered, items: list[Node], position: int, field: Field | None, span: Span) -> int:
    """Initialise one element or member from ``items[position]``, its default, or zero."""
    ctype = part.type
    if position >= len(items):
        _default(ctx, part, field, span)
        return position
    item = items[position]
    if item.type == "initializer_list":
        initialise_from_list(ctx, part, item)
        return position + 1
    if isinstance(ctype, Array) and item.type in ("string_literal", "concatenated_string") and sizeof(ctype.of) == 1:
        store_string(ctx, part, item)
        return position + 1
    if isinstance(ctype, Array):
        return _fill(ctx, part, items, position, span)
    if isinstance(ctype, Record):
        with ctx.discarded():
            given = expressions.lower(ctx, item).type
        elided = given is not ctype and not isinstance(given, Record) and not classes.constructors(ctype)
        if elided:
            return _fill(ctx, part, items, position, span)
    memory.store(ctx, part, expressions.converted(ctx, item, ctype), ctx.span(item))
    return position + 1


def _default(ctx: Context, part: Lowered, field: Field | None, span: Span) -> None:
    if field is not None and field.default is not None:
        initialise_place(ctx, part, field.default)
        return
    if isinstance(part.type, Record) and classes.default_initialise(ctx, part, span):
        return
    _clear(ctx, part, span)


def _clear(ctx: Context, place: Lowered, span: Span) -> None:
    """Zero ``place``."""
    value = memory.zero(place.type, span)
    if value is not None:
        memory.store(ctx, place, value, span)
        return
    if not isinstance(place, Mem):
        ctx.opaque(f"{spell(place.type)} cleared", span)
        return
    memory.fill_bytes(ctx, place.address, sizeof(place.type), span)


def _designated(ctx: Context, place: Lowered, items: list[Node], start: int, span: Span) -> int:
    assert isinstance(place.type, Record)
    _clear(ctx, place, span)
    for item in items[start:]:
        designator, value = item.child_by_field_name("designator"), item.child_by_field_name("value")
        if designator is None or value is None:
            continue
        found = records.path_to(place.type, ctx.text(designator).lstrip("."))
        if found is None:
            ctx.opaque("designator not understood", ctx.span(item))
            continue
        field, at = found
        initialise_place(ctx, memory.member(ctx, place, field.type, at, span), value)
    return len(items)


def initialise_place(ctx: Context, place: Lowered, value: Node) -> None:
    """``place`` initialised by ``= value``, ``{...}`` or ``(...)``."""
    span = ctx.span(value)
    if value.type == "initializer_list":
        initialise_from_list(ctx, place, value)
    elif value.type == "argument_list":
        _from_arguments(ctx, place, items_of(value), span)
    elif isinstance(place.type, Array) and value.type in ("string_literal", "concatenated_string"):
        store_string(ctx, place, value)
    else:
        from prelaunch.analysis.frontends.cuda.lower import assign

        assign.store(ctx, place, expressions.converted(ctx, value, place.type), span)


def initialise_from_list(ctx: Context, place: Lowered, node: Node) -> None:
    span = ctx.span(node)
    items = items_of(node)
    ctype = place.type
    if isinstance(ctype, Record):
        built = classes.construct_into(ctx, place, items, span, braces=True)
        if not built:
            _whole_or_parts(ctx, place, items, span)
    elif isinstance(ctype, Array):
        if len(items) == 1 and items[0].type == "string_literal":
            store_string(ctx, place, items[0])
        else:
            aggregate(ctx, place, items, span)
    else:
        value = from_list(ctx, node, ctype)
        memory.store(ctx, place, value, span)


def _whole_or_parts(ctx: Context, place: Lowered, items: list[Node], span: Span) -> None:
    """``T x{y}`` copies when ``y`` is a ``T``; else aggregate initialisation."""
    if len(items) == 1 and items[0].type not in ("initializer_list", "initializer_pair"):
        with ctx.discarded():
            same = expressions.lower(ctx, items[0]).type is place.type
        if same:
            memory.store(ctx, place, expressions.converted(ctx, items[0], place.type), span)
            return
    if isinstance(place, Reg) and items:
        _registers(ctx, place, items, span)
        return
    aggregate(ctx, place, items, span)


def _registers(ctx: Context, place: Reg, items: list[Node], span: Span) -> None:
    """Through fresh variables: the initialisers may read what they initialise."""
    made = ctx.registers(place.type, "", span)
    assert made is not None
    aggregate(ctx, made, items, span)
    memory.store(ctx, place, made, span)


def _from_arguments(ctx: Context, place: Lowered, items: list[Node], span: Span) -> None:
    if isinstance(place.type, Record):
        if not classes.construct_into(ctx, place, items, span, braces=False):
            _whole_or_parts(ctx, place, items, span)
        return
    if not items:
        _clear(ctx, place, span)
        return
    memory.store(ctx, place, expressions.converted(ctx, items[0], place.type), span)


def store_string(ctx: Context, place: Lowered, node: Node) -> None:
    text = ctx.text(node)
    codes = [*constants.unescape(text[text.find('"') + 1 : text.rfind('"')]), 0]
    span = ctx.span(node)
    assert isinstance(place.type, Array)
    for index in range(place.type.count or len(codes)):
        code = codes[index] if index < len(codes) else 0
        part = memory.member(ctx, place, I8, index, span)
        memory.store(ctx, part, Val(I8, (Const(constants.fit(code, I8), I8, span=span),)), span)


def constant_parts(ctx: Context, ctype: CType, value: Node, at: int) -> Iterator[tuple[int, Scalar, int | float]]:
    """Scalars of a constant initialiser: (offset, type, value). Raises NotConstantError."""
    while value.type == "initializer_list" and not isinstance(ctype, Array | Record) and len(items_of(value)) == 1:
        value = items_of(value)[0]
    if value.type == "initializer_list":
        items = items_of(value)
        if isinstance(ctype, Array):
            for index, item in enumerate(items[:MAX_ELEMENTS]):
                yield from constant_parts(ctx, ctype.of, item, at + index * sizeof(ctype.of))
            return
        if isinstance(ctype, Record) and not classes.constructors(ctype):
            for field, item in zip(ctype.fields, items, strict=False):
                yield from constant_parts(ctx, field.type, item, at + field.offset)
            return
        if not items:
            return
        raise NotConstantError
    found = evaluate.scratch_to(ctx, value, ctype)
    known = leaves(ctype)
    if found is None or known is None:
        raise NotConstantError
    for leaf, expr in zip(known, found.exprs, strict=True):
        of = ir_type(leaf.type)
        if not isinstance(expr, Const) or not isinstance(of, Scalar):
            raise NotConstantError
        yield at + leaf.offset, of, expr.value
