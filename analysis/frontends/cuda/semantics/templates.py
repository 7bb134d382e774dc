"""Template parameters: explicit arguments, defaults, deduction from call arguments, matching of specialisations.

A value parameter nothing binds becomes an unknown value, a type parameter ``float``; both are noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import evaluate, names, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Binding, Scope, Template, TypeName
from prelaunch.analysis.frontends.cuda.semantics.types import (
    Array,
    CType,
    Enum,
    Fragment,
    Function,
    Group,
    Handle,
    Ptr,
    Record,
    Ref,
    TemplateArgument,
    Void,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, ParsedFile, RecordDecl
from prelaunch.analysis.frontends.cuda.text.project import Project
from prelaunch.analysis.kernel import F32, Scalar

_TYPE_PARAMETERS = (
    "type_parameter_declaration", "optional_type_parameter_declaration", "variadic_type_parameter_declaration",
    "template_template_parameter_declaration",
)  # fmt: skip


class Parameter:
    """One template parameter of a ``template_parameter_list``."""

    __slots__ = ("default", "is_type", "name", "node", "pack")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_type = node.type in _TYPE_PARAMETERS
        self.pack = node.type.startswith("variadic")
        self.default = node.child_by_field_name("default_type") or node.child_by_field_name("default_value")
        self.name = _parameter_name(node)


def _parameter_name(node: Node) -> str:
    found: Node | None = node.child_by_field_name("name") or node.child_by_field_name("declarator")
    while found is not None and not found.type.endswith("identifier"):
        named = [c for c in found.named_children if c.type.endswith(("identifier", "declarator"))]
        found = named[-1] if named else None
    if found is None and node.type in _TYPE_PARAMETERS:
        found = next((c for c in node.named_children if c.type == "type_identifier"), None)
    return found.text.decode("utf-8", "replace") if found is not None and found.text is not None else ""


def parameters(template: Node) -> list[Parameter]:
    listed = template.child_by_field_name("parameters")
    if listed is None:
        return []
    return [Parameter(c) for c in listed.named_children if "parameter" in c.type]


def arguments(ctx: Context, listed: Node) -> tuple[TemplateArgument, ...]:
    """Template arguments as written at a use: types and constant values; packs are spread."""
    found: list[TemplateArgument] = []
    for child in listed.named_children:
        if child.type == "comment":
            continue
        if child.type == "parameter_pack_expansion":
            pattern = child.child_by_field_name("pattern")
            bound = ctx.scope.find(ctx.text(pattern)) if pattern is not None else None
            if isinstance(bound, Template) and isinstance(bound.value, tuple):
                found.extend(bound.value)
            continue
        found.append(argument(ctx, child))
    return tuple(found)


def argument(ctx: Context, node: Node) -> TemplateArgument:
    """One template argument: a type where it names one, else its value, else a function, else its text."""
    inner = node
    if node.type == "type_descriptor":
        kind = node.child_by_field_name("type")
        if node.child_by_field_name("declarator") is not None or kind is None or kind.type not in _NAMES:
            return typenames.descriptor(ctx, node)
        inner = kind
    if inner.type in _NAMES or inner.type in ("primitive_type", "sized_type_specifier"):
        found = typenames.lookup_type(ctx, inner)
        if found is not None:
            return found
        bound = ctx.scope.find(ctx.text(inner))
        if isinstance(bound, Template):
            return bound.value
    value = _value(ctx, inner)
    if value is not None:
        return value
    if inner.type in _NAMES or inner.type == "pointer_expression":
        label = ctx.text(inner).lstrip("& ")
        qualifier, _, simple = label.partition("<")[0].rpartition("::")
        overloads = names.functions(ctx, simple, qualifier)
        if overloads:
            return Function(simple, tuple(overloads))
        if node.type == "type_descriptor":
            return typenames.unknown_type(ctx, inner)
    return ctx.text(node)


_NAMES = frozenset({
    "identifier", "type_identifier", "qualified_identifier", "template_type", "template_function", "dependent_type",
})  # fmt: skip


def _value(ctx: Context, node: Node) -> int | float | None:
    return evaluate.constant(ctx, node)


def parse_argument(ctx: Context, text: str) -> TemplateArgument:
    """An argument given as text (``256``, ``float``, ``ns::Op<4>``), resolved in the current scope."""
    from prelaunch.analysis.frontends.cuda.text.macros import parse_fragment

    _, node = parse_fragment(f"T<{text}>", "type")
    found = next((n for n in _nodes(node) if n.type == "template_argument_list"), None)
    if found is None or not found.named_children:
        return text
    return argument(ctx, found.named_children[0])


def _nodes(root: Node) -> list[Node]:
    stack, found = [root], []
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(reversed(node.named_children))
    return found


def bind(ctx: Context, template: Node, args: Sequence[TemplateArgument], scope: Scope) -> None:
    """Bind the parameters of ``template`` in ``scope`` to ``args``, then to defaults, then to the fallback."""
    found = parameters(template)
    position = 0
    for index, parameter in enumerate(found):
        if parameter.pack:
            rest = tuple(args[position : len(args) - (len(found) - index - 1)])
            if len(rest) == 1 and isinstance(rest[0], tuple):
                rest = rest[0]
            bind_one(scope, parameter, rest)
            position += len(rest)
            continue
        if position < len(args):
            bind_one(scope, parameter, _coerced(ctx, parameter, args[position]))
            position += 1
            continue
        bind_default(ctx, parameter, scope)


def _coerced(ctx: Context, parameter: Parameter, value: TemplateArgument) -> TemplateArgument:
    if parameter.is_type or not isinstance(value, int):
        return value
    kind = parameter.node.child_by_field_name("type")
    if kind is not None and ctx.text(kind) == "bool":
        return bool(value)
    return value


def bind_default(ctx: Context, parameter: Parameter, scope: Scope) -> None:
    if not parameter.name:
        return
    if parameter.default is not None:
        with ctx.nested(scope):
            if parameter.is_type:
                bind_one(scope, parameter, typenames.lookup_type(ctx, parameter.default) or F32)
                return
            value = evaluate.constant(ctx, parameter.default)
            if value is not None:
                bind_one(scope, parameter, value)
                return
    if parameter.is_type:
        ctx.note(f"template parameter {parameter.name} not bound: taken as float")
        bind_one(scope, parameter, F32)
    else:
        ctx.note(f"template parameter {parameter.name} not bound: any value")
        scope.names[parameter.name] = Template(f"?{parameter.name}")


def bind_one(scope: Scope, parameter: Parameter, value: TemplateArgument) -> None:
    if not parameter.name:
        return
    if parameter.is_type and not isinstance(value, int | float | str | tuple):
        scope.names[parameter.name] = TypeName(value)
    else:
        scope.names[parameter.name] = Template(value)


def complete(
    ctx: Context, template: Node, file: ParsedFile, args: tuple[TemplateArgument, ...], outer: Scope | None,
    qualified: str,
) -> tuple[TemplateArgument, ...]:  # fmt: skip
    """``args`` filled up with the template's defaults."""
    found = parameters(template)
    if len(args) >= len(found) or any(p.pack for p in found):
        return args
    scope = Scope(outer if outer is not None else names.namespace_scope(qualified))
    with names.inside(ctx, file, scope):
        bind(ctx, template, args, scope)
    more: list[TemplateArgument] = list(args)
    for parameter in found[len(args) :]:
        bound = scope.names.get(parameter.name)
        if isinstance(bound, TypeName):
            more.append(bound.type)
        elif isinstance(bound, Template):
            more.append(bound.value)
        elif parameter.default is not None:
            more.append(argument(ctx, parameter.default))
    return tuple(more)


# --- matching --------------------------------------------------------------------------------------------------------


def match_specialisation(
    ctx: Context, decl: RecordDecl | FunctionDecl, args: Sequence[TemplateArgument]
) -> dict[str, Binding] | None:
    """Bindings under which the explicit arguments of a specialisation equal ``args``; None when it does not fit."""
    node = decl.declarator if isinstance(decl, FunctionDecl) else decl.node
    name = node.child_by_field_name("declarator" if isinstance(decl, FunctionDecl) else "name")
    while name is not None and name.type == "qualified_identifier":
        name = name.child_by_field_name("name")
    listed = name.child_by_field_name("arguments") if name is not None else None
    if listed is None:
        return None
    patterns = [c for c in listed.named_children if c.type != "comment"]
    free = {p.name: p for p in parameters(decl.template)} if decl.template is not None else {}
    found: dict[str, TemplateArgument] = {}
    if len(patterns) != len(args) and not any(p.type == "parameter_pack_expansion" for p in patterns):
        return None
    with names.inside(ctx, decl.file, Scope(names.namespace_scope(decl.qualified))):
        for pattern, value in zip(patterns, args, strict=False):
            if not unify(ctx, free, pattern, value, found):
                return None
    scope = Scope()
    for label, parameter in free.items():
        if label in found:
            bind_one(scope, parameter, found[label])
    return scope.names


def unify(
    ctx: Context, free: dict[str, Parameter], pattern: Node, value: TemplateArgument, found: dict[str, TemplateArgument]
) -> bool:
    """Match a type or value pattern against an argument, binding free names; what is not understood fails."""
    text = ctx.text(pattern)
    if text in free:
        if text in found:
            return same(found[text], value)
        found[text] = value
        return True
    if pattern.type == "type_descriptor":
        kind = pattern.child_by_field_name("type")
        if kind is None:
            return False
        return unify_declared(ctx, free, kind, pattern.child_by_field_name("declarator"), value, found)
    if pattern.type in ("template_type", "template_function"):
        return _unify_template(ctx, free, pattern, value, found)
    if pattern.type == "qualified_identifier":
        name = pattern.child_by_field_name("name")
        if name is not None and name.type == "template_type":
            return _unify_template(ctx, free, name, value, found)
    mine = argument(ctx, pattern)
    return same(mine, value)


def _unify_template(
    ctx: Context, free: dict[str, Parameter], pattern: Node, value: TemplateArgument, found: dict[str, TemplateArgument]
) -> bool:
    name, listed = pattern.child_by_field_name("name"), pattern.child_by_field_name("arguments")
    if name is None or listed is None:
        return False
    if isinstance(value, Record):
        if value.name != ctx.text(name):
            return any(_unify_template(ctx, free, pattern, base, found) for base in value.bases)
        inner = [c for c in listed.named_children if c.type != "comment"]
        if len(inner) == 1 and inner[0].type == "parameter_pack_expansion":
            label = ctx.text(inner[0]).rstrip(".").strip()
            found[label] = value.args
            return True
        return all(unify(ctx, free, p, v, found) for p, v in zip(inner, value.args, strict=False))
    if isinstance(value, Group) and value.kind == "tile" and ctx.text(name) == "thread_block_tile":
        first = next((c for c in listed.named_children if c.type != "comment"), None)
        return first is not None and value.size is not None and unify(ctx, free, first, value.size, found)
    mine = typenames.lookup_type(ctx, pattern)
    return mine is not None and same(mine, value)


def unify_declared(
    ctx: Context, free: dict[str, Parameter], kind: Node, declarator: Node | None, value: TemplateArgument,
    found: dict[str, TemplateArgument],
) -> bool:  # fmt: skip
    """Match ``kind declarator`` (a parameter declaration or type descriptor) against the type ``value``."""
    if isinstance(value, int | float | str | tuple):
        if declarator is not None:
            return False
        return unify(ctx, free, kind, value, found)
    ctype: CType = value
    current = declarator
    layers: list[Node] = []
    for _ in range(16):
        if current is None:
            break
        layers.append(current)
        below = current.child_by_field_name("declarator")
        if below is None:
            below = next((c for c in current.named_children if c.type.endswith("declarator")), None)
        current = below
    for layer in reversed(layers):
        if layer.type in ("array_declarator", "abstract_array_declarator"):
            if isinstance(ctype, Array):
                size = layer.child_by_field_name("size")
                if size is not None and ctx.text(size) in free and ctype.count is not None:
                    found[ctx.text(size)] = ctype.count
                ctype = ctype.of
            elif isinstance(ctype, Ptr):
                ctype = ctype.to
            else:
                return False
        elif layer.type in ("pointer_declarator", "abstract_pointer_declarator"):
            if isinstance(ctype, Ptr):
                ctype = ctype.to
            elif isinstance(ctype, Array):
                ctype = ctype.of
            else:
                return False
        elif layer.type in ("reference_declarator", "abstract_reference_declarator") and isinstance(ctype, Ref):
            ctype = ctype.to
    if isinstance(ctype, Array) and not layers:
        ctype = Ptr(ctype.of)
    return unify(ctx, free, kind, ctype, found)


def same(a: TemplateArgument, b: TemplateArgument) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b
    if isinstance(a, Handle) and isinstance(b, Handle):
        return a.name == b.name
    if isinstance(a, Enum) and isinstance(b, Enum):
        return a.name == b.name
    if isinstance(a, Scalar | Void | Fragment) or isinstance(b, Scalar | Void | Fragment):
        return a == b
    return a == b


def methods_of(project: Project, qualified: str) -> list[FunctionDecl]:
    """All member functions declared with ``qualified`` as their class, in order of (file, offset)."""
    table = project.cache.get("methods")
    if table is None:
        made: dict[str, list[FunctionDecl]] = {}
        for group in project.functions.values():
            for decl in group:
                if decl.record is not None:
                    made.setdefault(decl.record, []).append(decl)
        project.cache["methods"] = table = made
    return cast("dict[str, list[FunctionDecl]]", table).get(qualified, [])
