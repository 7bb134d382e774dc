"""Calls: macros, closures, methods, constructors, CUDA builtins, device functions (inlined)."""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library import builtins, groups, objects, wmma
from prelaunch.analysis.frontends.cuda.lower import (
    binaries,
    classes,
    expand,
    expressions,
    initialise,
    inline,
    lambdas,
    memory,
    symbols,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.lower.context import EVERYTHING, Context
from prelaunch.analysis.frontends.cuda.semantics import names, overloads, records, templates, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Template, TypeName, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    Closure,
    CType,
    Function,
    Group,
    Ptr,
    Record,
    TemplateArgument,
    Void,
    scalar,
    spell,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl
from prelaunch.analysis.kernel import F32, Var
from prelaunch.analysis.source import Span

_TYPES = ("primitive_type", "sized_type_specifier", "template_type", "dependent_type", "decltype", "auto")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})


def call(ctx: Context, node: Node) -> Lowered:
    """A ``call_expression``."""
    target, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    span = ctx.span(node)
    if target is None or listed is None:
        return ctx.unknown("syntax not understood", span, touches=EVERYTHING)
    if any(c.type == "kernel_call_syntax" for c in node.children):
        return ctx.unknown("kernel launched from the device", span, VOID, touches=EVERYTHING)
    if target.type in _TYPES:
        return construct_named(ctx, typenames.type_of(ctx, target), listed, span)
    if target.type in ("identifier", "type_identifier"):
        return _identifier(ctx, node, target, listed, span)
    if target.type == "template_function":
        return _template(ctx, target, listed, span)
    if target.type == "qualified_identifier":
        return _qualified(ctx, node, target, listed, span)
    if target.type == "field_expression":
        return _method(ctx, target, listed, span)
    named = binaries.parenthesized_type(ctx, target)
    if named is not None:
        inner = [c for c in listed.named_children if c.type != "comment"]
        for item in inner[:-1]:
            expressions.effect(ctx, item)
        if inner:
            return expressions.cast_to(ctx, named, inner[-1], span)
    found = expressions.lower(ctx, target)
    return call_value(ctx, found, arguments(ctx, listed), (), span)


def arguments(ctx: Context, listed: Node) -> list[Lowered]:
    """Arguments in order, packs spread; scalars in registers keep the value they have now."""
    found: list[Lowered] = []
    marks: list[tuple[int, int]] = []
    for node in listed.named_children:
        if node.type == "comment":
            continue
        if node.type == "parameter_pack_expansion":
            for item in lambdas.spread(ctx, node):
                found.append(item)
                marks.append(ctx.mark())
            continue
        listed_only = node.type == "initializer_list"
        found.append(initialise.deferred(ctx, node) if listed_only else expressions.lower(ctx, node))
        marks.append(ctx.mark())
    if marks and marks[-1][1] > marks[0][1]:
        for i in range(len(found) - 2, -1, -1):
            found[i] = _as_it_was(ctx, found[i], marks[i])
    return found


def _as_it_was(ctx: Context, value: Lowered, mark: tuple[int, int]) -> Lowered:
    """An argument as it was before later arguments were evaluated."""
    if isinstance(value, Reg):
        exprs = ctx.protect(value.vars, mark)
        return value if exprs == value.vars else Val(value.type, exprs)
    return ctx.protect_place(value, mark)


def _identifier(ctx: Context, node: Node, target: Node, listed: Node, span: Span) -> Lowered:
    name = ctx.text(target)
    bound = symbols.local(ctx, name, span)
    if isinstance(bound, TypeName):
        return construct_named(ctx, bound.type, listed, span)
    if isinstance(bound, Function):
        return call_value(ctx, Val(bound), arguments(ctx, listed), (), span)
    if isinstance(bound, Reg | Mem | Val):
        return call_value(ctx, bound, arguments(ctx, listed), (), span)
    if isinstance(bound, Template):
        value = symbols.template_value(ctx, name, bound.value, span)
        if value is not None:
            return call_value(ctx, value, arguments(ctx, listed), (), span)
    macro = names.macro(ctx, name)
    if macro is not None:
        if macro.params is not None:
            return expand.expression(ctx, node, macro)
        renamed = expand.expression_name(ctx, macro)
        if renamed is not None:
            return call_named(ctx, renamed, "", listed, (), span)
    return call_named(ctx, name, "", listed, (), span)


def _template(ctx: Context, target: Node, listed: Node, span: Span) -> Lowered:
    name, given = target.child_by_field_name("name"), target.child_by_field_name("arguments")
    if name is None or given is None:
        return ctx.unknown("syntax not understood", span, touches=EVERYTHING)
    label = ctx.text(name)
    if label in _CASTS:
        return _named_cast(ctx, given, listed, span)
    bound = symbols.local(ctx, label, span)
    if isinstance(bound, Reg | Mem) or (isinstance(bound, Val) and scalar(bound.type)):
        text = ctx.text(target) + ctx.text(listed)
        return expand.reread(ctx, target, f"({label})" + text[len(label) :])  # `a < b && c > (d)` read as a call
    args = templates.arguments(ctx, given)
    if isinstance(bound, Val) and isinstance(bound.type, Function | Closure):
        return call_value(ctx, bound, arguments(ctx, listed), args, span)
    return call_named(ctx, label, "", listed, args, span)


def _named_cast(ctx: Context, given: Node, listed: Node, span: Span) -> Lowered:
    types = [c for c in given.named_children if c.type != "comment"]
    values = [c for c in listed.named_children if c.type != "comment"]
    if len(types) != 1 or len(values) != 1:
        return ctx.unknown("syntax not understood", span)
    to = typenames.descriptor(ctx, types[0]) if types[0].type == "type_descriptor" else typenames.type_of(ctx, types[0])
    return expressions.cast_to(ctx, to, values[0], span)


def _qualified(ctx: Context, node: Node, target: Node, listed: Node, span: Span) -> Lowered:
    parts = expressions.qualified_parts(target)
    last = parts[-1]
    given = last.child_by_field_name("arguments") if last.type.startswith("template_") else None
    label = last.child_by_field_name("name") if given is not None else last
    if label is None:
        return ctx.unknown("syntax not understood", span, touches=EVERYTHING)
    name, qualifier = ctx.text(label), "::".join(ctx.text(p) for p in parts[:-1])
    args = templates.arguments(ctx, given) if given is not None else ()
    owner = symbols.owner_of(ctx, parts[:-1])
    special = objects.numeric_limit(ctx, parts, name, span)
    if special is not None:
        return special
    if isinstance(owner, Record):
        this = _base_this(ctx, owner, span)
        found = call_method(ctx, this or Val(owner), name, arguments(ctx, listed), args, span, quiet=True)
        if found is not None:
            return found
        nested = names.member_type(ctx, owner, name, args or None)
        if nested is not None:
            return construct_named(ctx, nested, listed, span)
    return call_named(ctx, name, qualifier, listed, args, span)


def _base_this(ctx: Context, owner: Record, span: Span) -> Lowered | None:
    """The subobject of class ``owner`` in ``*this``, for ``Base::f()`` inside a member function."""
    this = ctx.scope.enclosing_this()
    if this is None or not isinstance(this.type, Record):
        return None
    at = records.base_offset(this.type, owner)
    return memory.member(ctx, this, owner, at, span) if at is not None else None


def _method(ctx: Context, target: Node, listed: Node, span: Span) -> Lowered:
    base, field = target.child_by_field_name("argument"), target.child_by_field_name("field")
    if base is None or field is None:
        return ctx.unknown("syntax not understood", span, touches=EVERYTHING)
    given: Node | None = None
    if field.type == "dependent_name" and field.named_children:
        field = field.named_children[0]
    if field.type in ("template_method", "template_function"):
        given = field.child_by_field_name("arguments")
        field = field.child_by_field_name("name") or field
    name = ctx.text(field)
    place = symbols.object_of(ctx, target, base)
    args = templates.arguments(ctx, given) if given is not None else ()
    if isinstance(place.type, Group) and place.type.kind != "pipeline":
        return groups.method(ctx, place, name, arguments(ctx, listed), args, span)
    mark = ctx.mark()
    values = arguments(ctx, listed)
    place = ctx.protect_place(place, mark)
    if isinstance(place.type, Closure) and name == "operator()":
        return lambdas.call_closure(ctx, place.type, values, args, span)
    if isinstance(place.type, Record) and place.type.file is None and not place.type.vector:
        special = objects.method(ctx, place, name, values, args, span)
        if special is not None:
            return special
    if isinstance(place.type, Record):
        found = call_method(ctx, place, name, values, args, span, quiet=True)
        if found is not None:
            return found
        held = symbols.member_of(ctx, place, name, span)
        if held is not None:
            return call_value(ctx, held, values, args, span)
    special = objects.method(ctx, place, name, values, args, span)
    if special is not None:
        return special
    return unknown_call(ctx, f"method {name} of {spell(place.type)} not known", values, span)


def call_method(
    ctx: Context, this: Lowered, name: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span,
    quiet: bool = False,
) -> Lowered | None:  # fmt: skip
    """A member function of the record ``this`` inlined; None (``quiet``) when no overload fits."""
    record = this.type
    assert isinstance(record, Record)
    candidates = records.methods(record, name)
    if not candidates:
        return None
    chosen = overloads.choose(ctx, candidates, args, targs)
    if chosen is None:
        return None if quiet else ctx.unknown(f"no overload of {name} fits", span, touches=EVERYTHING)
    owner = chosen.record or record
    if owner is not record:
        at = records.base_offset(record, owner)
        this = memory.member(ctx, this, owner, at or 0, span)
    if isinstance(this, Val) and this.exprs:
        this = _named_temporary(ctx, this, span)
    if isinstance(this, Mem):
        this = replace(this, address=ctx.frozen(this.address, span))
    return inline.inline(ctx, chosen.decl, chosen.bindings, this, owner, args, span)


def _named_temporary(ctx: Context, value: Val, span: Span) -> Lowered:
    made = ctx.registers(value.type, "", span, f"temporary:{span.file}:{span.start}:{span.end}:{len(ctx.frames)}")
    if made is None or made.key in ctx.addressed:
        return memory.in_memory(ctx, value, "temporary", span)
    memory.store(ctx, made, value, span)
    return made


def call_named(
    ctx: Context, name: str, qualifier: str, listed: Node, targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    """A call of ``qualifier::name<targs>(...)`` that no scope binds."""
    special = builtins.unevaluated(ctx, name, listed, span) or wmma.call(ctx, name, qualifier, listed, span)
    if special is not None:
        return special
    values = arguments(ctx, listed)
    found = call_free(ctx, name, qualifier, values, targs, span, quiet=True)
    if found is not None:
        return found
    ctype = _constructed(ctx, name, qualifier, targs)
    if ctype is not None:
        return classes.construct(ctx, ctype, values, span)
    return unknown_function(ctx, name, qualifier, values, span)


def unknown_function(ctx: Context, name: str, qualifier: str, args: list[Lowered], span: Span) -> Lowered:
    full = f"{qualifier}::{name}" if qualifier else name
    ctype: CType = F32
    declared = names.functions(ctx, name, qualifier)
    if declared:
        with names.inside(ctx, declared[0].file, names.namespace_scope(declared[0].qualified)):
            ctype = inline.return_type(ctx, declared[0]) or F32
    return unknown_call(
        ctx, f"call of {full}: no definition found", args, span, ctype, declared[0] if declared else None
    )


def unknown_call(
    ctx: Context, reason: str, args: list[Lowered], span: Span, ctype: CType = F32, decl: FunctionDecl | None = None
) -> Lowered:
    """A call that may do anything: to memory, and to variables it may have been given by reference.

    Without a declaration to tell, pointers are taken to be passed by value, all else by reference.
    """
    changed: list[Var] = []
    for index, value in enumerate(args):
        if not isinstance(value, Reg):
            continue
        if decl is not None and index < len(decl.parameters):
            text = ctx.text(decl.parameters[index])
            by_reference = "&" in text and "const" not in text
        else:
            by_reference = not isinstance(value.type, Ptr)
        changed.extend(value.vars if by_reference else ())
    result = ctx.registers(ctype, "", span) if not isinstance(ctype, Void) else None
    made = result.vars if result is not None else ()
    ctx.opaque(reason, span, EVERYTHING, tuple(dict.fromkeys((*made, *changed))))
    ctx.log.extend(v.id for v in changed)
    return Val(ctype, made)


def _constructed(ctx: Context, name: str, qualifier: str, targs: tuple[TemplateArgument, ...]) -> CType | None:
    if qualifier in ("std", "cuda::std") and name in ("move", "forward", "ref", "cref"):
        return None
    return typenames.named(ctx, name, targs or None)


def call_free(
    ctx: Context, name: str, qualifier: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span,
    quiet: bool = False,
) -> Lowered | None:  # fmt: skip
    """A function that is not a member: the project's where one fits better than CUDA's own."""
    candidates = [(f, None) for f in names.functions(ctx, name, qualifier) if not f.is_kernel]
    group = groups.free_call(ctx, name, args, targs, span)
    if group is not None:
        return group
    own = builtins.knows(name, qualifier)
    if own and (not candidates or builtins.reserved(name) or qualifier in ("std", "cuda", "cuda::std", "::")):
        return builtins.call(ctx, name, qualifier, args, targs, span)
    chosen = overloads.choose(ctx, candidates, args, targs, exact=own) if candidates else None
    if chosen is not None and (not own or names.visible(ctx, chosen.decl.file.source.path)):
        return inline.inline(ctx, chosen.decl, chosen.bindings, None, None, args, span)
    if own:
        return builtins.call(ctx, name, qualifier, args, targs, span)
    special = objects.free_call(ctx, name, qualifier, args, targs, span)
    if special is not None:
        return special
    return None if quiet else unknown_function(ctx, name, qualifier, args, span)


def call_value(
    ctx: Context, found: Lowered, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    """A call through a value: closure, function name, object with ``operator()``."""
    kind = found.type
    if isinstance(kind, Ptr) and isinstance(kind.to, Closure | Function | Record):
        found = memory.dereference(ctx, memory.decay(ctx, found, span), span)
        kind = found.type
    if isinstance(kind, Closure):
        return lambdas.call_closure(ctx, kind, args, targs, span)
    if isinstance(kind, Function):
        return _overloads(ctx, kind, args, targs or kind.args, span)
    if isinstance(kind, Record):
        result = call_method(ctx, found, "operator()", args, targs, span, quiet=True)
        if result is not None:
            return result
    return unknown_call(ctx, f"call through {spell(kind)} not modelled", args, span)


def _overloads(
    ctx: Context, kind: Function, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    record = kind.record
    if record is not None:
        this = ctx.scope.enclosing_this()
        if this is not None and isinstance(this.type, Record) and records.base_offset(this.type, record) is not None:
            found = call_method(ctx, this, kind.name, args, targs, span, quiet=True)
        else:
            found = call_method(ctx, Val(record), kind.name, args, targs, span, quiet=True)
        if found is not None:
            return found
    if kind.overloads:
        chosen = overloads.choose(ctx, [(d, None) for d in kind.overloads], args, targs)
        if chosen is not None:
            return inline.inline(ctx, chosen.decl, chosen.bindings, None, None, args, span)
    found = call_free(ctx, kind.name, "", args, targs, span)
    return found if found is not None else ctx.unknown(f"call of {kind.name}", span, touches=EVERYTHING)


def construct_named(ctx: Context, ctype: CType, listed: Node, span: Span) -> Lowered:
    """``T(args)`` and ``T{args}``."""
    values = arguments(ctx, listed)
    return classes.construct(ctx, ctype, values, span)
