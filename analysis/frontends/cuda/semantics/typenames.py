"""Type specifiers and declarators of the syntax tree to C++ types."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library.groups import OPERATIONS, group_type
from prelaunch.analysis.frontends.cuda.library.objects import library_type
from prelaunch.analysis.frontends.cuda.library.wmma import fragment_type
from prelaunch.analysis.frontends.cuda.lower import expressions
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import enums, evaluate, names, records, templates
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import builtin_type, words_type
from prelaunch.analysis.frontends.cuda.semantics.scope import Scope, Template, TypeName
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    Array,
    CType,
    Enum,
    Function,
    Group,
    Handle,
    Ptr,
    Record,
    Ref,
    TemplateArgument,
)
from prelaunch.analysis.frontends.cuda.text.declarations import AliasDecl
from prelaunch.analysis.kernel import F32, Scalar

_RECORDS = ("struct_specifier", "class_specifier", "union_specifier")


@dataclass(frozen=True, slots=True)
class Specifiers:
    """The part of a declaration before its declarators. ``type`` None: ``auto``."""

    type: CType | None
    volatile: bool = False
    const: bool = False
    words: frozenset[str] = frozenset()
    align: int = 0


def specifiers(ctx: Context, node: Node) -> Specifiers:
    """Of a declaration, parameter, field, type descriptor or range-for header."""
    words: set[str] = set()
    align = 0
    for child in node.children:
        if child.type in ("type_qualifier", "storage_class_specifier"):
            inner = child.named_children[0] if child.named_children else None
            if inner is not None and inner.type == "alignas_qualifier":
                align = max(align, _alignment(ctx, inner))
            else:
                words.add(ctx.text(child))
        elif child.type == "alignas_qualifier":
            align = max(align, _alignment(ctx, child))
        elif child.type in ("attribute_specifier", "attribute_declaration", "ms_declspec_modifier"):
            continue
    kind = node.child_by_field_name("type")
    if kind is None:
        return Specifiers(None, words=frozenset(words), align=align)
    resolved = None if kind.type == "placeholder_type_specifier" else type_of(ctx, kind)
    return Specifiers(resolved, "volatile" in words, bool(words & {"const", "constexpr"}), frozenset(words), align)


def _alignment(ctx: Context, node: Node) -> int:
    if not node.named_children:
        return 0
    inner = node.named_children[0]
    if inner.type == "type_descriptor":
        from prelaunch.analysis.frontends.cuda.semantics.types import alignof

        return alignof(descriptor(ctx, inner))
    return evaluate.integer(ctx, inner) or 0


def declared(
    ctx: Context, base: CType, node: Node | None, volatile: bool = False, const: bool = False
) -> tuple[Node | None, CType]:
    """The name node a declarator declares, and its type."""
    ctype = base
    current = node
    for _ in range(64):
        if current is None:
            return None, ctype
        kind = current.type
        if kind in ("pointer_declarator", "abstract_pointer_declarator"):
            restrict = any("restrict" in ctx.text(c) for c in current.children if c.type == "type_qualifier")
            ctype = Ptr(ctype, volatile, const, restrict)
            inner_words = {ctx.text(c) for c in current.children if c.type == "type_qualifier"}
            volatile, const = "volatile" in inner_words, "const" in inner_words
        elif kind in ("reference_declarator", "abstract_reference_declarator"):
            ctype = Ref(ctype, volatile, const)
        elif kind in ("array_declarator", "abstract_array_declarator"):
            size = current.child_by_field_name("size")
            ctype = Array(ctype, evaluate.integer(ctx, size) if size is not None else None)
        elif kind in ("function_declarator", "abstract_function_declarator"):
            inner = current.child_by_field_name("declarator")
            ctype = Function("function", ())
            if inner is not None and inner.type == "parenthesized_declarator":
                found = _innermost(inner)
                return found, ctype
        elif kind in ("init_declarator", "parenthesized_declarator", "variadic_declarator", "attributed_declarator"):
            pass
        else:
            return current, ctype
        below = current.child_by_field_name("declarator")
        if below is None:
            candidates = [
                c for c in current.named_children if c.type.endswith("declarator") or c.type.endswith("identifier")
            ]
            below = candidates[-1] if candidates else None
        current = below
    return None, ctype


def _innermost(node: Node) -> Node | None:
    current: Node | None = node
    while current is not None and not current.type.endswith("identifier"):
        below = current.child_by_field_name("declarator")
        if below is None:
            below = next((c for c in current.named_children if "declarator" in c.type or "identifier" in c.type), None)
        current = below
    return current


def descriptor(ctx: Context, node: Node) -> CType:
    """A ``type_descriptor``: what casts, ``sizeof`` and template arguments hold."""
    spec = specifiers(ctx, node)
    base = spec.type if spec.type is not None else F32
    _, ctype = declared(ctx, base, node.child_by_field_name("declarator"), spec.volatile, spec.const)
    return ctype


def type_of(ctx: Context, node: Node) -> CType:
    """The type a specifier names; a ``Handle`` of its spelling when nothing is known of it."""
    found = lookup_type(ctx, node)
    return found if found is not None else unknown_type(ctx, node)


def unknown_type(ctx: Context, node: Node) -> CType:
    """What stands for a type nothing is known of."""
    name = " ".join(ctx.text(node).split())
    if ctx.is_unbound(name):
        return F32
    return Handle(name)


def lookup_type(ctx: Context, node: Node) -> CType | None:
    """The type a specifier names, None when it names none or nests too deep."""
    try:
        return _lookup(ctx, node) if ctx.enter() else None
    finally:
        ctx.leave()


def _lookup(ctx: Context, node: Node) -> CType | None:
    kind = node.type
    if kind == "primitive_type":
        return builtin_type(ctx.text(node))
    if kind == "sized_type_specifier":
        return words_type(ctx.text(node).split())
    if kind in ("type_identifier", "identifier", "namespace_identifier", "field_identifier"):
        return named(ctx, ctx.text(node), None)
    if kind == "template_type" or kind == "template_function":
        name, listed = node.child_by_field_name("name"), node.child_by_field_name("arguments")
        if name is None or listed is None:
            return None
        return named(ctx, ctx.text(name), templates.arguments(ctx, listed), listed)
    if kind == "qualified_identifier":
        return qualified_type(ctx, node)
    if kind == "dependent_type":
        return lookup_type(ctx, node.named_children[0]) if node.named_children else None
    if kind == "type_descriptor":
        return descriptor(ctx, node)
    if kind == "decltype":
        return expressions.type_of_expression(ctx, node.named_children[0]) if node.named_children else None
    if kind == "enum_specifier":
        return enums.local_enum(ctx, node)
    if kind in _RECORDS:
        return records.local_record(ctx, node)
    return None


def named(
    ctx: Context, name: str, args: tuple[TemplateArgument, ...] | None, listed: Node | None = None
) -> CType | None:
    bound = ctx.scope.find(name)
    own = args is not None and isinstance(bound, TypeName) and isinstance(bound.type, Record) and bound.type.args
    if isinstance(bound, TypeName) and not own:  # a class's own name with arguments may be another instance of it
        return bound.type
    if isinstance(bound, Template):
        value = bound.value
        return value if not isinstance(value, int | float | str | tuple) else None
    library = group_type(name, args) or fragment_type(name, args, ctx, listed)
    if library is not None:
        return library
    scope: Scope | None = ctx.scope
    while scope is not None:
        if scope.record is not None:
            if scope.record.name == name and args is None:
                return scope.record
            found = names.member_type(ctx, scope.record, name, args)
            if found is not None:
                return found
        scope = scope.parent
    expansion = names.macro(ctx, name)
    if expansion is not None and expansion.params is None:
        found = expressions.macro_type(ctx, expansion)
        if found is not None:
            return found
    found = names.find_type(ctx, name, args)
    if found is not None:
        return found
    if name in OPERATIONS and args is not None:
        return Group(name)
    return library_type(name, args) or trait(name, args)


def qualified_type(ctx: Context, node: Node) -> CType | None:
    parts = expressions.qualified_parts(node)
    owner: CType | None = None
    for part in parts[:-1]:
        if part.type == "template_type" or part.type == "template_function":
            if owner is None:
                owner = lookup_type(ctx, part)
        elif owner is None:
            bound = ctx.scope.find(ctx.text(part))
            if isinstance(bound, TypeName | Template):
                owner = named(ctx, ctx.text(part), None)
            else:
                spelled = ctx.text(part)
                if any(not r.kind.startswith("enum") for r in ctx.project.records.get(spelled, ())) or any(
                    True for _ in ctx.project.aliases.get(spelled, ())
                ):
                    owner = named(ctx, spelled, None)
        elif isinstance(owner, Record):
            owner = names.member_type(ctx, owner, ctx.text(part), None)
    last = parts[-1]
    listed = last.child_by_field_name("arguments") if last.type.startswith("template_") else None
    label = last.child_by_field_name("name") if listed is not None else last
    if label is None:
        return None
    args = templates.arguments(ctx, listed) if listed is not None else None
    if isinstance(owner, Record):
        found = names.member_type(ctx, owner, ctx.text(label), args)
        if found is not None:
            return found
    if owner is not None:
        return owner if ctx.text(label) == "type" else None
    return named(ctx, ctx.text(label), args, listed)


def alias_type(ctx: Context, alias: AliasDecl, args: tuple[TemplateArgument, ...]) -> CType | None:
    """The type an alias names, resolved where it is declared; the same object each time it is asked for."""
    owner = names.owner_record(ctx, alias.qualified)
    key = ("alias", alias.file.source.path, alias.node.start_byte, alias.name, args, id(owner) if owner else 0)
    if key in ctx.aliases:
        return ctx.aliases[key]
    if len(ctx.resolving) > 32 or key in ctx.resolving:
        return None
    outer = owner.scope if owner is not None and owner.scope is not None else names.namespace_scope(alias.qualified)
    scope = Scope(outer, namespace=outer.namespace)
    ctx.resolving.append(key)
    try:
        with names.inside(ctx, alias.file, scope):
            if alias.template is not None:
                templates.bind(ctx, alias.template, args, scope)
            found = alias_node_type(ctx, alias.node, alias.name)
    finally:
        ctx.resolving.pop()
    if found is not None:
        ctx.aliases[key] = found
    return found


def alias_node_type(ctx: Context, node: Node, name: str) -> CType | None:
    """Of an ``alias_declaration`` or the declarator ``name`` of a ``type_definition``."""
    if node.type == "alias_declaration":
        kind = node.child_by_field_name("type")
        return descriptor(ctx, kind) if kind is not None else None
    spec = specifiers(ctx, node)
    if spec.type is None:
        return None
    for declarator in node.children_by_field_name("declarator"):
        found, ctype = declared(ctx, spec.type, declarator, spec.volatile, spec.const)
        if found is not None and ctx.text(found) == name:
            return _aligned(ctx, ctype, spec.align)
    return None


def _aligned(ctx: Context, ctype: CType, align: int) -> CType:
    if align and isinstance(ctype, Record) and align > ctype.align:
        size = -(-ctype.size // align) * align
        return replace(ctype, align=align, size=size)
    return ctype


# --- type traits -----------------------------------------------------------------------------------------------------


_SAME = frozenset({
    "remove_cv_t", "remove_const_t", "remove_volatile_t", "decay_t", "remove_cvref_t", "remove_reference_t",
    "type_identity_t", "add_const_t",
})  # fmt: skip


def trait(name: str, args: tuple[TemplateArgument, ...] | None) -> CType | None:
    """Types that standard traits name, where their meaning is plain; ``trait<...>::type`` and ``trait_t`` alike."""
    if not args:
        return None
    first = args[0]
    if name in _SAME or name.removesuffix("_t") + "_t" in _SAME:
        return _bare(first)
    if name in ("conditional_t", "conditional") and len(args) == 3:
        chosen = args[1] if first else args[2]
        return _bare(chosen)
    if name in ("make_unsigned_t", "make_unsigned", "make_signed_t", "make_signed") and isinstance(first, Scalar):
        return Scalar("uint" if "unsigned" in name else "int", first.bits) if first.is_integer else None
    if name in ("enable_if_t", "enable_if"):
        return _bare(args[1]) if len(args) > 1 else VOID
    if name in ("underlying_type_t", "underlying_type") and isinstance(first, Enum):
        return first.underlying
    if name in ("remove_pointer_t", "remove_pointer"):
        return first.to if isinstance(first, Ptr) else _bare(first)
    if name in ("array",) and len(args) == 2 and isinstance(args[1], int):
        element = _bare(args[0])
        return Array(element, args[1]) if element is not None else None
    return None


def _bare(of: TemplateArgument) -> CType | None:
    if isinstance(of, int | float | str | tuple):
        return None
    return of.to if isinstance(of, Ref) else of
