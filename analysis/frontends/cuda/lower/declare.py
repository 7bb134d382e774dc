"""Declarations inside functions: variables of every storage, aliases, local types."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import (
    assign,
    classes,
    expressions,
    globals,
    initialise,
    inline,
    memory,
    misread,
    operators,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.lower.context import EVERYTHING, Context, pointer_to
from prelaunch.analysis.frontends.cuda.semantics import enums, evaluate, records, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, TypeName, Val, register_leaves
from prelaunch.analysis.frontends.cuda.semantics.types import (
    Array,
    Closure,
    CType,
    Fragment,
    Function,
    Group,
    Handle,
    Ptr,
    Record,
    Ref,
    alignof,
    leaves,
    scalar,
    sizeof,
)  # fmt: skip
from prelaunch.analysis.kernel import Address, Object, Space
from prelaunch.analysis.source import Span


def declaration(ctx: Context, node: Node) -> None:
    spec = typenames.specifiers(ctx, node)
    declarators = node.children_by_field_name("declarator")
    for declarator in declarators:
        if (
            declarator.type in ("init_declarator",)
            or "declarator" in declarator.type
            or declarator.type == "identifier"
        ):
            one(ctx, node, spec, declarator)
    if not declarators and node.has_error:
        ctx.opaque("syntax not understood", ctx.span(node), EVERYTHING)


def one(ctx: Context, node: Node, spec: typenames.Specifiers, declarator: Node) -> None:
    """One declarator of a declaration."""
    value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
    inner = declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
    span = ctx.span(declarator)
    if inner is not None and inner.type == "structured_binding_declarator":
        _structured(ctx, inner, value, span)
        return
    if inner is not None and inner.type == "function_declarator" and value is None:
        if not misread.vexing(ctx, spec, inner, span):
            return
        return
    base = spec.type
    found: Lowered | None = None
    if base is None:
        if value is None:
            ctx.opaque("auto without initialiser", span)
            return
        found = expressions.lower(ctx, value)
        base = inline.auto_type(found.type)
    name, ctype = typenames.declared(ctx, base, inner, spec.volatile, spec.const)
    if name is None:
        ctx.opaque("declarator not understood", span, EVERYTHING)
        return
    label = ctx.text(name)
    if spec.type is None and isinstance(ctype, Ref) and found is not None:
        ctype = Ref(found.type, ctype.volatile)
    if isinstance(ctype, Array) and ctype.count is None and value is not None:
        ctype = Array(ctype.of, initialise.list_length(value))
    if spec.words & {"__shared__"}:
        ctx.scope.names[label] = _shared(ctx, node, spec, name, label, ctype)
        return
    if spec.words & {"__constant__", "__device__"} or ("static" in spec.words and not _is_constant(spec)):
        ctx.scope.names[label] = _static(ctx, spec, name, label, ctype, value)
        return
    if isinstance(ctype, Ref):
        _reference(ctx, label, ctype, name, value, found, span)
        return
    ctx.scope.names[label] = variable(ctx, spec, ctype, label, name, value, found, span)


def _is_constant(spec: typenames.Specifiers) -> bool:
    return bool(spec.words & {"const", "constexpr"})


def variable(
    ctx: Context, spec: typenames.Specifiers, ctype: CType, label: str, name: Node, value: Node | None,
    found: Lowered | None, span: Span,
) -> Lowered:  # fmt: skip
    """An automatic variable with its initialiser run; constants and static meanings are bound, not stored."""
    if isinstance(ctype, Group | Closure | Function | Fragment) or (found is not None and leaves(found.type) == ()):
        return _static_meaning(ctx, ctype, name, value, found, span)
    if _is_constant(spec) and value is not None and scalar(ctype):
        known = evaluate.scratch_to(ctx, value, ctype)
        if known is not None:
            return known
        if "constexpr" in spec.words:
            ctx.note(f"constexpr {label} not evaluated")
    if _is_constant(spec) and isinstance(ctype, Array) and value is not None and "static" in spec.words | {"static"}:
        constant = _constant_array(ctx, spec, name, label, ctype, value)
        if constant is not None:
            return constant
    if isinstance(ctype, Handle) and (found is not None or value is None):
        return found if found is not None else memory.local_object(ctx, ctype, label, span)
    place = place_for(ctx, spec, ctype, label, name, span)
    scope_place = place
    ctx.scope.names[label] = scope_place
    if found is not None:
        assign.store(ctx, place, operators.convert(ctx, found, ctype, span), span)
    elif value is not None:
        initialise.initialise_place(ctx, place, value)
    elif isinstance(ctype, Record):
        classes.default_initialise(ctx, place, span)
    elif isinstance(ctype, Array) and isinstance(ctype.of, Record) and classes.has_defaults(ctype.of):
        for index in range(min(ctype.count or 0, 64)):
            part = memory.member(ctx, place, ctype.of, index * sizeof(ctype.of), span)
            classes.default_initialise(ctx, part, span)
    return place


def place_for(ctx: Context, spec: typenames.Specifiers, ctype: CType, label: str, name: Node, span: Span) -> Lowered:
    key = ctx.key(name)
    volatile = spec.volatile and not isinstance(ctype, Ptr)
    if register_leaves(ctype) is not None and key not in ctx.addressed and not volatile:
        made = ctx.registers(ctype, label, ctx.span(name), key)
        if made is not None:
            return made
    return memory.local_object(ctx, ctype, label, ctx.span(name), volatile)


def _static_meaning(
    ctx: Context, ctype: CType, name: Node, value: Node | None, found: Lowered | None, span: Span
) -> Lowered:
    if found is None and value is not None:
        items = initialise.items_of(value) if value.type in ("argument_list", "initializer_list") else [value]
        found = expressions.lower(ctx, items[0]) if items else None
    if found is not None and isinstance(found.type, Group | Closure | Function):
        if (
            isinstance(ctype, Group)
            and isinstance(found.type, Group)
            and ctype.size is not None
            and not found.type.size
        ):
            return Val(ctype, found.exprs if isinstance(found, Val) else ())
        return memory.load(ctx, found, span)
    return Val(ctype)


def _constant_array(
    ctx: Context, spec: typenames.Specifiers, name: Node, label: str, ctype: Array, value: Node
) -> Mem | None:
    data = globals.initial_bytes(ctx, ctype, value)
    if data is None or ("static" not in spec.words and "constexpr" not in spec.words):
        return None
    return _object(ctx, "constant", spec, name, label, ctype, data)


def _object(
    ctx: Context, space: Space, spec: typenames.Specifiers, name: Node, label: str, ctype: CType, data: bytes | None,
    dynamic: bool = False,
) -> Mem:  # fmt: skip
    """A variable with static storage: one object however often the function is inlined."""
    key = ("static", ctx.file.source.path, name.start_byte, sizeof(ctype), ctx.frame.instance)
    known = ctx.statics.get(key)
    if isinstance(known, Mem):
        return known
    shape: list[int] = []
    inner: CType = ctype
    while isinstance(inner, Array):
        shape.append(inner.count or 0)
        inner = inner.of
    volatile = spec.volatile and not isinstance(ctype, Ptr)
    made = Object(
        ctx.object_id(label), label, space, memory.element_type(inner), None if dynamic else sizeof(ctype),
        max(alignof(ctype), spec.align), dynamic, "variable", tuple(shape), volatile, data, span=ctx.span(name),
    )  # fmt: skip
    ctx.add_object(made)
    place = Mem(ctype, Address(made.id, pointer_to(ctype), span=ctx.span(name)), volatile, made.space)
    ctx.statics[key] = place
    return place


def _shared(ctx: Context, node: Node, spec: typenames.Specifiers, name: Node, label: str, ctype: CType) -> Lowered:
    dynamic = "extern" in spec.words or (isinstance(ctype, Array) and ctype.count is None and _extern(ctx, node))
    if isinstance(ctype, Array) and not dynamic and _unsized(ctype):
        ctx.opaque(f"size of shared array {label} not known", ctx.span(name), ("value",))
    volatile = spec.volatile and not isinstance(ctype, Ptr)
    if not dynamic:
        return _object(ctx, "shared", spec, name, label, ctype, None)
    if ctx.dynamic is None:
        place = _object(ctx, "shared", spec, name, label, ctype, None, dynamic=True)
        assert isinstance(place.address, Address)
        ctx.dynamic = place.address.object
        return place
    _raise_alignment(ctx, ctx.dynamic, max(alignof(ctype), spec.align))
    return Mem(ctype, Address(ctx.dynamic, pointer_to(ctype), span=ctx.span(name)), volatile, "shared")


def _raise_alignment(ctx: Context, ident: str, align: int) -> None:
    from dataclasses import replace

    known = ctx.objects[ident]
    if align > known.align:
        ctx.objects[ident] = replace(known, align=align)


def _extern(ctx: Context, node: Node) -> bool:
    return any(ctx.text(c) == "extern" for c in node.children)


def _unsized(ctype: CType) -> bool:
    while isinstance(ctype, Array):
        if ctype.count is None:
            return True
        ctype = ctype.of
    return False


def _static(
    ctx: Context, spec: typenames.Specifiers, name: Node, label: str, ctype: CType, value: Node | None
) -> Lowered:
    space: Space = "constant" if "__constant__" in spec.words else "global"
    if isinstance(ctype, Ref):
        ctype = ctype.to
    return _object(ctx, space, spec, name, label, ctype, globals.initial_bytes(ctx, ctype, value))


def _reference(
    ctx: Context, label: str, ctype: Ref, name: Node, value: Node | None, found: Lowered | None, span: Span
) -> None:
    if found is None:
        if value is None:
            ctx.opaque(f"reference {label} without initialiser", span)
            return
        items = initialise.items_of(value) if value.type in ("argument_list", "initializer_list") else [value]
        if len(items) != 1:
            ctx.opaque(f"reference {label} not understood", span)
            return
        found = expressions.lower(ctx, items[0])
    ctx.scope.names[label] = inline.bind_reference(ctx, label, ctype, found, ctx.key(name), span)


def _structured(ctx: Context, node: Node, value: Node | None, span: Span) -> None:
    """``auto [a, b] = record``."""
    if value is None:
        return
    found = expressions.lower(ctx, value)
    labels = [c for c in node.named_children if c.type == "identifier"]
    ctype = found.type
    if isinstance(ctype, Array):
        parts: list[tuple[CType, int]] = [(ctype.of, i * sizeof(ctype.of)) for i in range(ctype.count or 0)]
    elif isinstance(ctype, Record):
        parts = [(f.type, f.offset) for f in ctype.fields]
    else:
        parts = []
    if len(parts) < len(labels):
        for label in labels:
            ctx.scope.names[ctx.text(label)] = ctx.unknown("structured binding", ctx.span(label), name=ctx.text(label))
        return
    for label, (of, at) in zip(labels, parts, strict=False):
        part = memory.member(ctx, found, of, at, span)
        bound = part if _by_reference(node) else inline.bind_value(ctx, ctx.text(label), of, part, ctx.key(label), span)
        ctx.scope.names[ctx.text(label)] = bound


def _by_reference(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "reference_declarator"


def condition_declaration(ctx: Context, node: Node) -> Lowered:
    """``if (T x = e)``: gives ``x``."""
    spec = typenames.specifiers(ctx, node)
    declarator, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
    found = expressions.lower(ctx, value) if value is not None else None
    base = spec.type if spec.type is not None or found is None else inline.auto_type(found.type)
    if base is None or found is None:
        return ctx.unknown("declaration in a condition", ctx.span(node))
    name, ctype = typenames.declared(ctx, base, declarator, spec.volatile, spec.const)
    if name is None:
        return found
    label = ctx.text(name)
    bound = inline.bind_value(ctx, label, ctype, found, ctx.key(name), ctx.span(node))
    ctx.scope.names[label] = bound
    return bound


def alias(ctx: Context, node: Node) -> None:
    """``using N = T;`` and ``typedef T N;`` inside a function."""
    if node.type == "alias_declaration":
        name = node.child_by_field_name("name")
        if name is not None:
            found = typenames.alias_node_type(ctx, node, ctx.text(name))
            if found is not None:
                ctx.scope.names[ctx.text(name)] = TypeName(found)
        return
    spec = typenames.specifiers(ctx, node)
    for declarator in node.children_by_field_name("declarator"):
        if spec.type is not None:
            inner, ctype = typenames.declared(ctx, spec.type, declarator, spec.volatile, spec.const)
            if inner is not None:
                ctx.scope.names[ctx.text(inner)] = TypeName(ctype)


def local_type(ctx: Context, node: Node) -> None:
    if node.type == "enum_specifier":
        enums.local_enum(ctx, node)
    else:
        records.local_record(ctx, node)


def macro_block(ctx: Context, node: Node) -> None:
    """What the grammar takes for a function inside a function: a macro with a block, or a misread declaration."""
    ctx.opaque("syntax not understood", ctx.span(node), EVERYTHING)
