"""Names in expressions: locals, members, globals, constants, CUDA's built-in variables."""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library import groups
from prelaunch.analysis.frontends.cuda.lower import calls, classes, expand, expressions, globals, memory
from prelaunch.analysis.frontends.cuda.lower.context import Context, pointer_to
from prelaunch.analysis.frontends.cuda.semantics import enums, names, records, templates, traits, typenames
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import VECTORS
from prelaunch.analysis.frontends.cuda.semantics.header_constants import CONSTANTS
from prelaunch.analysis.frontends.cuda.semantics.scope import (
    Binding,
    Lowered,
    Mem,
    Parameters,
    Reg,
    Scope,
    Template,
    TypeName,
    Val,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.semantics.types import (
    CType,
    Function,
    Group,
    Ptr,
    Record,
    Ref,
    TemplateArgument,
    Void,
    spell,
)
from prelaunch.analysis.frontends.cuda.text.declarations import VariableDecl
from prelaunch.analysis.kernel import (
    BOOL,
    F64,
    I32,
    I64,
    U8,
    U32,
    U64,
    Address,
    Const,
    Pointer,
    Special,
)  # fmt: skip
from prelaunch.analysis.source import Span

_SPECIALS = {"threadIdx": "uint3", "blockIdx": "uint3", "blockDim": "dim3", "gridDim": "dim3"}


def address(ctx: Context, ident: str, of: CType, span: Span) -> Address:
    return Address(ident, pointer_to(of), span=span)


def identifier(ctx: Context, node: Node) -> Lowered:
    name = ctx.text(node)
    found = by_name(ctx, name, node)
    if found is not None:
        return found
    return ctx.unknown(f"{name} not declared", ctx.span(node), touches=("value",), name=name)


def by_name(ctx: Context, name: str, node: Node) -> Lowered | None:
    """What ``name`` stands for in an expression, None when nothing is known of it."""
    span = ctx.span(node)
    bound = local(ctx, name, span)
    if bound is not None:
        return from_binding(ctx, name, bound, span)
    macro = names.macro(ctx, name)
    if macro is not None:
        if macro.params is None:
            return expand.expression(ctx, node, macro)
        return Val(Function(name, ()))
    if name in _SPECIALS:
        of = VECTORS[_SPECIALS[name]]
        return Val(of, tuple(Special(f"{name}.{axis}", span=span) for axis in "xyz"))
    found = global_name(ctx, name, span)
    if found is not None:
        return found
    if name in CONSTANTS:
        value, kind = CONSTANTS[name]
        return Val(kind, (Const(value, kind, span=span),))
    if name in ("NULL", "nullptr"):
        return Val(Ptr(Void()), (Const(0, Pointer(), span=span),))
    if name in ("__func__", "__FUNCTION__", "__PRETTY_FUNCTION__", "__FILE__"):
        return Val(Ptr(U8), (Const(0, Pointer(1, "char"), span=span),))
    return traits.named_constant(ctx, name, span)


def local(ctx: Context, name: str, span: Span) -> Binding | Lowered | None:
    """A binding of the scopes around, members of enclosing classes included."""
    scope: Scope | None = ctx.scope
    this: Lowered | None = None
    while scope is not None:
        found = scope.names.get(name)
        if found is not None:
            return found
        if scope.this is not None:
            this = scope.this
        if scope.record is not None:
            if this is not None and isinstance(this.type, Record):
                found_member = member_of(ctx, this, name, span)
                if found_member is not None:
                    return found_member
            found_static = static_member(ctx, scope.record, name, span)
            if found_static is not None:
                return found_static
        scope = scope.parent
    return None


def from_binding(ctx: Context, name: str, bound: Binding | Lowered, span: Span) -> Lowered | None:
    match bound:
        case Mem():
            return replace(bound, address=_at(bound.address, span))
        case Reg():
            return Reg(bound.type, tuple(replace(v, span=span) for v in bound.vars), bound.key)
        case Val():
            return bound
        case Template(value=value):
            return template_value(ctx, name, value, span)
        case Function():
            return Val(bound)
        case TypeName(type=ctype):
            return Val(ctype) if isinstance(ctype, Record) else None
        case Parameters(items=items):
            return items[0] if len(items) == 1 else None
    return None


def _at(expr: object, span: Span) -> Address:
    if isinstance(expr, Address):
        return replace(expr, span=span)
    return expr  # type: ignore[return-value]  # any other pointer expression keeps the span of its declaration


def template_value(ctx: Context, name: str, value: TemplateArgument, span: Span) -> Lowered | None:
    if isinstance(value, bool):
        return Val(BOOL, (Const(int(value), BOOL, span=span),))
    if isinstance(value, int):
        of = I32 if -(2**31) <= value < 2**31 else (I64 if value < 2**63 else U64)
        return Val(of, (Const(value, of, span=span),))
    if isinstance(value, float):
        return Val(F64, (Const(value, F64, span=span),))
    if isinstance(value, str) and value.startswith("?"):
        return ctx.unknown(f"template parameter {value[1:]} not bound", span, I32, name=value[1:])
    if isinstance(value, str):
        return _named_argument(ctx, value, span)
    if isinstance(value, Function):
        return Val(value)
    return None


def _named_argument(ctx: Context, text: str, span: Span) -> Lowered | None:
    """A template argument that stayed text: an enumerator, a function, an object."""
    qualifier, _, simple = text.rpartition("::")
    found = enums.enumerator(ctx, simple.strip(), qualifier)
    if found is not None:
        return found
    overloads = names.functions(ctx, simple.strip("& "), qualifier)
    return Val(Function(simple.strip("& "), tuple(overloads))) if overloads else None


def member_of(ctx: Context, this: Lowered, name: str, span: Span) -> Lowered | None:
    """Data member ``name`` of ``this``, a record."""
    assert isinstance(this.type, Record)
    found = records.path_to(this.type, name)
    if found is None:
        return None
    field, at = found
    ctype = field.type
    if field.bits is not None:
        place = memory.member(ctx, this, ctype, at, span)
        mem = place if isinstance(place, Mem) else memory.in_memory_wanted(ctx, place, span)
        return replace(mem, bits=field.bits, shift=field.shift)
    if isinstance(ctype, Ref):
        pointer = memory.load(ctx, memory.member(ctx, this, Ptr(ctype.to, ctype.volatile), at, span), span)
        return memory.dereference(ctx, pointer, span) if isinstance(pointer, Val) else None
    return memory.member(ctx, this, ctype, at, span, field.volatile)


def static_member(ctx: Context, record: Record, name: str, span: Span) -> Lowered | None:
    """A static data member, enumerator or member function of ``record``, its bases included."""
    if record.file is None or record.scope is None:
        return None
    path = record.file.source.path
    wanted = f"{record.qualified}::{name}"
    for decl in ctx.project.lookup_variables(name, path):
        if decl.qualified == wanted and names.within(record.body, decl.node):
            with names.inside(ctx, decl.file, record.scope):
                return globals.variable(ctx, decl, span, record)
    bound = record.scope.names.get(name)
    if isinstance(bound, Val):
        return bound
    if record.methods.get(name):
        return Val(Function(name, tuple(d for d, _ in records.methods(record, name)), record=record))
    for base in record.bases:
        found = static_member(ctx, base, name, span)
        if found is not None:
            return found
    return enums.enumerator(ctx, name, record.name) if record.body is not None and _declares(record, name) else None


def _declares(record: Record, name: str) -> bool:
    body = record.body
    text = body.text if body is not None else None
    return text is not None and name.encode() in text


def global_name(ctx: Context, name: str, span: Span, qualifier: str = "") -> Lowered | None:
    """Variable, enumerator or function at namespace scope."""
    path = ctx.file.source.path
    full = f"{qualifier}::{name}" if qualifier else name
    variables = ctx.project.lookup_variables(full, path)
    if not qualifier:
        variables = names.ranked(ctx, variables)
    variables = _readable(ctx, variables)
    if variables:
        decl = variables[0]
        owner = names.owner_record(ctx, decl.qualified)
        scope = owner.scope if owner is not None and owner.scope is not None else names.namespace_scope(decl.qualified)
        with names.inside(ctx, decl.file, scope):
            return globals.variable(ctx, decl, span, owner)
    found = enums.enumerator(ctx, name, qualifier)
    if found is not None:
        return found
    overloads = names.functions(ctx, name, qualifier)
    return Val(Function(name, tuple(overloads))) if overloads else None


def _readable(ctx: Context, found: list[VariableDecl]) -> list[VariableDecl]:
    """Definitions before ``extern`` declarations, what the file sees before the rest."""
    own = [v for v in found if names.visible(ctx, v.file.source.path)] or found
    return sorted(own, key=lambda v: (v.file.text(v.node).startswith("extern"),))


def qualified(ctx: Context, node: Node) -> Lowered:
    """``a::b``: static members, enumerators, namespace members, values of traits."""
    span = ctx.span(node)
    found = qualified_value(ctx, node, span)
    if found is not None:
        return found
    return ctx.unknown(f"{' '.join(ctx.text(node).split())} not declared", span)


def qualified_value(ctx: Context, node: Node, span: Span) -> Lowered | None:
    parts = expressions.qualified_parts(node)
    last = parts[-1]
    listed = last.child_by_field_name("arguments")
    label = last.child_by_field_name("name") if listed is not None else last
    name = ctx.text(label) if label is not None else ""
    owner = owner_of(ctx, parts[:-1])
    if isinstance(owner, Record):
        found = static_member(ctx, owner, name, span)
        if found is not None:
            return with_arguments(ctx, found, listed)
    qualifier = "::".join(ctx.text(p) for p in parts[:-1])
    bound = ctx.scope.find(f"{qualifier}::{name}")
    if isinstance(bound, Val):
        return bound
    special = traits.qualified_constant(ctx, parts, owner, name, listed, span)
    if special is not None:
        return special
    found = global_name(ctx, name, span, qualifier) or (by_name(ctx, name, label) if label is not None else None)
    return with_arguments(ctx, found, listed) if found is not None else None


def owner_of(ctx: Context, parts: list[Node]) -> CType | None:
    """The class or enum that ``parts`` name, None for namespaces."""
    if not parts or len(parts) > 16:
        return None
    if len(parts) == 1:
        return typenames.lookup_type(ctx, parts[0])
    owner = owner_of(ctx, parts[:-1])
    if isinstance(owner, Record):
        return names.member_type(ctx, owner, ctx.text(parts[-1]), None)
    return typenames.lookup_type(ctx, parts[-1])


def with_arguments(ctx: Context, found: Lowered, listed: Node | None) -> Lowered:
    if listed is not None and isinstance(found.type, Function):
        return Val(replace(found.type, args=templates.arguments(ctx, listed)))
    return found


def template_function(ctx: Context, node: Node) -> Lowered:
    """``f<args>`` not called: a variable template or a function given as a value."""
    name, listed = node.child_by_field_name("name"), node.child_by_field_name("arguments")
    span = ctx.span(node)
    if name is None or listed is None:
        return ctx.unknown("syntax not understood", span)
    args = templates.arguments(ctx, listed)
    trait = traits.variable_template(ctx, ctx.text(name), args, span)
    if trait is not None:
        return trait
    for decl in ctx.project.lookup_variables(ctx.text(name), ctx.file.source.path):
        if decl.template is not None:
            scope = Scope(names.namespace_scope(decl.qualified))
            with names.inside(ctx, decl.file, scope):
                templates.bind(ctx, decl.template, args, scope)
                value = globals.variable(ctx, decl, span, None, args)
            if value is not None:
                return value
    found = by_name(ctx, ctx.text(name), name)
    if found is not None:
        return with_arguments(ctx, found, listed)
    return ctx.unknown(f"{ctx.text(node)[:60]} not declared", span)


def this_pointer(ctx: Context, node: Node) -> Lowered:
    this = ctx.scope.enclosing_this()
    span = ctx.span(node)
    if this is None:
        return ctx.unknown("this outside a member function", span)
    return memory.address_of(ctx, this, span)


def field(ctx: Context, node: Node) -> Lowered:
    """``a.b`` and ``a->b`` that is not called."""
    base, name = node.child_by_field_name("argument"), node.child_by_field_name("field")
    span = ctx.span(node)
    if base is None or name is None:
        return ctx.unknown("syntax not understood", span)
    label = ctx.text(name)
    axes = base.type == "identifier" and ctx.text(base) in _SPECIALS and label in ("x", "y", "z")
    if axes and ctx.scope.find(ctx.text(base)) is None:
        return Val(U32, (Special(f"{ctx.text(base)}.{label}", span=span),))
    place = object_of(ctx, node, base)
    if isinstance(place.type, Record):
        found = member_of(ctx, place, label, span) or static_member(ctx, place.type, label, span)
        if found is not None:
            return found
        return ctx.unknown(f"{spell(place.type)} has no member {label}", span)
    if isinstance(place.type, Group):
        return groups.member(ctx, place, label, span)
    special = classes.library_member(ctx, place, label, span)
    return special if special is not None else ctx.unknown(f"member {label} of {spell(place.type)}", span)


def object_of(ctx: Context, node: Node, base: Node) -> Lowered:
    """What ``.`` or ``->`` in ``node`` reaches into."""
    arrow = any(c.type == "->" for c in node.children)
    span = ctx.span(base)
    if base.type == "this":
        this = ctx.scope.enclosing_this()
        if this is not None:
            return this
    found = expressions.lower(ctx, base)
    if not arrow:
        return found
    for _ in range(8):
        if not isinstance(found.type, Record):
            break
        overloaded = calls.call_method(ctx, found, "operator->", [], (), span, quiet=True)
        if overloaded is None:
            return found
        found = overloaded
    pointer = memory.decay(ctx, found, span)
    if not isinstance(pointer.type, Ptr):
        return found
    return memory.dereference(ctx, pointer, span)
