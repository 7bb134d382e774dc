"""Declarations inside functions: variables of every storage, aliases, local types."""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda import (
    assign,
    enums,
    evaluate,
    expand,
    globals,
    initialise,
    inline,
    lower_expr,
    lower_record,
    memory,
    names,
    operators,
    records,
    templates,
    typenames,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.context import EVERYTHING, Context, pointer_to
from prelaunch.analysis.frontends.cuda.scope import Lowered, Mem, Reg, TypeName, Val, register_leaves
from prelaunch.analysis.frontends.cuda.types import (
    Array,
    Closure,
    CType,
    Enum,
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
    spell,
)  # fmt: skip
from prelaunch.analysis.kernel import Address, Const, Object, Pointer, Space
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
        if not _vexing(ctx, spec, inner, span):
            return
        return
    base = spec.type
    found: Lowered | None = None
    if base is None:
        if value is None:
            ctx.opaque("auto without initialiser", span)
            return
        found = lower_expr.lower(ctx, value)
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
    place = _place(ctx, spec, ctype, label, name, span)
    scope_place = place
    ctx.scope.names[label] = scope_place
    if found is not None:
        assign.store(ctx, place, operators.convert(ctx, found, ctype, span), span)
    elif value is not None:
        initialise.initialise_place(ctx, place, value)
    elif isinstance(ctype, Record):
        lower_record.default_initialise(ctx, place, span)
    elif isinstance(ctype, Array) and isinstance(ctype.of, Record) and lower_record._has_defaults(ctype.of):
        for index in range(min(ctype.count or 0, 64)):
            part = memory.member(ctx, place, ctype.of, index * sizeof(ctype.of), span)
            lower_record.default_initialise(ctx, part, span)
    return place


def _place(ctx: Context, spec: typenames.Specifiers, ctype: CType, label: str, name: Node, span: Span) -> Lowered:
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
        found = lower_expr.lower(ctx, items[0]) if items else None
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
        found = lower_expr.lower(ctx, items[0])
    ctx.scope.names[label] = inline.bind_reference(ctx, label, ctype, found, ctx.key(name), span)


def _structured(ctx: Context, node: Node, value: Node | None, span: Span) -> None:
    """``auto [a, b] = record``."""
    if value is None:
        return
    found = lower_expr.lower(ctx, value)
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


def _vexing(ctx: Context, spec: typenames.Specifiers, inner: Node, span: Span) -> bool:
    """``T x(a);`` that the grammar reads as a function: a variable when ``a`` is a value."""
    listed, name = inner.child_by_field_name("parameters"), inner.child_by_field_name("declarator")
    if listed is None or name is None or spec.type is None:
        return False
    kinds = [p.child_by_field_name("type") for p in listed.named_children if p.type == "parameter_declaration"]
    values = [k for k in kinds if k is not None and k.type in ("type_identifier", "qualified_identifier")]
    if not values or len(values) != len(kinds):
        return False
    if any(typenames.lookup_type(ctx, v) is not None for v in values):
        return False
    label = ctx.text(name)
    args = [expand.reread(ctx, p, ctx.text(p)) for p in listed.named_children if p.type == "parameter_declaration"]
    made = lower_record.construct(ctx, spec.type, args, span)
    if leaves(spec.type) == () and not isinstance(spec.type, Record):
        ctx.scope.names[label] = memory.load(ctx, args[0], span)
        return True
    place = _place(ctx, spec, spec.type, label, name, span)
    memory.store(ctx, place, operators.convert(ctx, made, spec.type, span), span)
    ctx.scope.names[label] = place
    return True


def condition_declaration(ctx: Context, node: Node) -> Lowered:
    """``if (T x = e)``: gives ``x``."""
    spec = typenames.specifiers(ctx, node)
    declarator, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
    found = lower_expr.lower(ctx, value) if value is not None else None
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


# --- declarations the grammar reads as something else ----------------------------------------------------------------


def split_declaration(ctx: Context, nodes: Sequence[Node], position: int) -> int:
    """Nodes used when several make one declaration (``__align__(8) T x;`` reads as a call and a declaration)."""
    return 0


def disguised(ctx: Context, node: Node) -> bool:
    """``A<n> x = v;`` read as comparisons: declared when ``A`` names a type."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = node.child_by_field_name("operator")
    if left is None or right is None or sign is None or ctx.text(sign) != ">" or left.type != "binary_expression":
        return False
    head, size = left.child_by_field_name("left"), left.child_by_field_name("right")
    inner = left.child_by_field_name("operator")
    if head is None or size is None or inner is None or ctx.text(inner) != "<":
        return False
    if head.type not in ("identifier", "qualified_identifier"):
        return False
    label = lower_expr.qualified_parts(head)[-1] if head.type == "qualified_identifier" else head
    if isinstance(ctx.scope.find(ctx.text(label)), Reg | Mem | Val):
        return False
    ctype = typenames.named(ctx, ctx.text(label), (templates.argument(ctx, size),))
    if ctype is None:
        return False
    value = right.child_by_field_name("right") if right.type == "assignment_expression" else None
    name = right.child_by_field_name("left") if right.type == "assignment_expression" else right
    if name is not None and name.type == "call_expression":
        value, name = name.child_by_field_name("arguments"), name.child_by_field_name("function")
    if name is None or name.type != "identifier":
        return False
    spec = typenames.Specifiers(ctype)
    ctx.scope.names[ctx.text(name)] = variable(ctx, spec, ctype, ctx.text(name), name, value, None, ctx.span(node))
    return True


def disguised_reference(ctx: Context, node: Node) -> bool:
    """``T (&r)[n] = a;`` and ``T (*p)[n] = a;`` read as assignments to a subscripted call."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return False
    sizes: list[Node] = []
    current: Node = left
    while current.type == "subscript_expression":
        base, listed = current.child_by_field_name("argument"), current.child_by_field_name("indices")
        if base is None or listed is None or len(listed.named_children) != 1:
            return False
        sizes.append(listed.named_children[0])
        current = base
    if current.type != "call_expression" or not sizes:
        return False
    target, listed = current.child_by_field_name("function"), current.child_by_field_name("arguments")
    inner = listed.named_children[0] if listed is not None and len(listed.named_children) == 1 else None
    if target is None or inner is None or inner.type != "pointer_expression":
        return False
    of = typenames.lookup_type(ctx, target)
    name, sign = inner.child_by_field_name("argument"), inner.child_by_field_name("operator")
    if of is None or name is None or sign is None or name.type != "identifier":
        return False
    for size in sizes:
        of = Array(of, evaluate.integer(ctx, size))
    found = lower_expr.lower(ctx, right)
    span = ctx.span(node)
    if ctx.text(sign) == "&":
        ctx.scope.names[ctx.text(name)] = inline.bind_reference(
            ctx, ctx.text(name), Ref(of), found, ctx.key(name), span
        )
    else:
        bound = inline.bind_value(ctx, ctx.text(name), Ptr(of), found, ctx.key(name), span)
        ctx.scope.names[ctx.text(name)] = bound
    return True


__all__ = ["Const", "Enum", "Pointer", "declaration", "names", "spell"]
