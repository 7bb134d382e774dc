"""Overload resolution, simplified: arity, deduction, then the smallest total conversion cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import names, records, templates, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Binding, Lowered, Scope
from prelaunch.analysis.frontends.cuda.semantics.types import (
    Array,
    Braces,
    Closure,
    CType,
    Enum,
    Function,
    Group,
    Handle,
    Ptr,
    Record,
    Ref,
    TemplateArgument,
    Void,
    arithmetic,
    promote,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl

Candidate = tuple[FunctionDecl, Record | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """An overload and the bindings of its own template parameters."""

    decl: FunctionDecl
    record: Record | None
    bindings: dict[str, Binding] = field(default_factory=dict)


def choose(
    ctx: Context, candidates: Sequence[Candidate], args: list[Lowered], targs: tuple[TemplateArgument, ...],
    exact: bool = False,
) -> Choice | None:  # fmt: skip
    """The overload a call with ``args`` takes; None when none fits (or none exactly, with ``exact``)."""
    defined = [c for c in candidates if c[0].body is not None] or []
    viable: list[tuple[float, int, Choice]] = []
    seen: set[tuple[str, int]] = set()
    for position, (decl, record) in enumerate(defined):
        key = (decl.file.source.path, decl.node.start_byte)
        if key in seen or not _arity(decl, len(args)):
            continue
        seen.add(key)
        bindings = deduce(ctx, decl, record, args, targs)
        if bindings is None:
            continue
        cost = _cost(ctx, decl, record, bindings, args)
        if cost is None or (exact and cost >= 1):
            continue
        cost += (
            0.25
            if decl.template is not None and not decl.specialisation and templates.parameters(decl.template)
            else 0.0
        )
        cost += 8 if decl.target == "host" and "constexpr" not in decl.specifiers else 0
        cost += 0 if names.visible(ctx, decl.file.source.path) else 4
        viable.append((cost, position, Choice(decl, record, bindings)))
    if not viable:
        return None
    viable.sort(key=lambda entry: entry[:2])
    return viable[0][2]


def _arity(decl: FunctionDecl, count: int) -> bool:
    required = sum(1 for p in decl.parameters if p.type == "parameter_declaration" and not _void(p))
    packs = any(p.type.startswith("variadic") for p in decl.parameters)
    most = sum(1 for p in decl.parameters if not _void(p))
    return count >= required and (packs or count <= most)


def _void(parameter: object) -> bool:
    text = getattr(parameter, "text", b"")
    return bool(text == b"void")


def deduce(
    ctx: Context, decl: FunctionDecl, record: Record | None, args: list[Lowered], targs: tuple[TemplateArgument, ...]
) -> dict[str, Binding] | None:
    """Bindings of the function's own template parameters; None when deduction fails."""
    if decl.specialisation:
        if targs:
            return templates.match_specialisation(ctx, decl, targs)
        return {}
    if decl.template is None or _class_template(decl, record):
        return {} if not targs or record is not None else None
    parameters = templates.parameters(decl.template)
    free = {p.name: p for p in parameters if p.name}
    found: dict[str, TemplateArgument] = {}
    scope = Scope(record.scope if record is not None else names.namespace_scope(decl.qualified))
    for index, parameter in enumerate(parameters):
        if parameter.pack:
            if len(targs) > index:
                found[parameter.name] = tuple(targs[index:])
            break
        if index < len(targs):
            found[parameter.name] = targs[index]
    with names.inside(ctx, decl.file, scope):
        for name, value in found.items():
            templates.bind_one(scope, free[name], value)
        if not _from_arguments(ctx, decl, free, args, found):
            return None
        for name, value in found.items():
            if name in free:
                templates.bind_one(scope, free[name], value)
        for parameter in parameters:
            if parameter.name and parameter.name not in found:
                if parameter.pack:
                    templates.bind_one(scope, parameter, ())
                elif parameter.default is None and (parameter.is_type or not args):
                    return None
                else:
                    templates.bind_default(ctx, parameter, scope)
    return scope.names


def _class_template(decl: FunctionDecl, record: Record | None) -> bool:
    """True when the template head of a member defined outside its class is the class's own."""
    if record is None or record.body is None or (names.within(record.body, decl.node) and decl.file is record.file):
        return False
    parent = decl.template.parent if decl.template is not None else None
    return bool(record.args) and (parent is None or parent.type != "template_declaration")


def _from_arguments(
    ctx: Context, decl: FunctionDecl, free: dict[str, templates.Parameter], args: list[Lowered],
    found: dict[str, TemplateArgument],
) -> bool:  # fmt: skip
    for index, node in enumerate(decl.parameters):
        kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        if kind is None:
            continue
        if node.type.startswith("variadic"):
            name = ctx.text(kind)
            if name in free and free[name].pack:
                found[name] = tuple(_argument_type(a) for a in args[index:])
            break
        if index >= len(args):
            break
        trial = dict(found)
        if isinstance(args[index].type, Braces):
            continue
        fits = templates.unify_declared(ctx, free, kind, declarator, _argument_type(args[index]), trial)
        if fits:
            found.update(trial)
        elif ctx.text(kind) in free and ctx.text(kind) not in found:
            return False
    return True


def _argument_type(value: Lowered) -> CType:
    return value.type


def _cost(
    ctx: Context, decl: FunctionDecl, record: Record | None, bindings: dict[str, Binding], args: list[Lowered]
) -> float | None:
    scope = Scope(record.scope if record is not None else names.namespace_scope(decl.qualified), dict(bindings))
    total = 0.0
    with names.inside(ctx, decl.file, scope), ctx.discarded():
        for node, value in zip(decl.parameters, args, strict=False):
            if node.type.startswith("variadic"):
                break
            spec = typenames.specifiers(ctx, node)
            if spec.type is None:
                total += 0.25
                continue
            _, to = typenames.declared(ctx, spec.type, node.child_by_field_name("declarator"), spec.volatile)
            cost = conversion_cost(value.type, to)
            if cost is None:
                return None
            total += cost
    return total


def conversion_cost(have: CType, want: CType) -> float | None:
    """0 for the same type, more for promotions and conversions, None where there is none."""
    if isinstance(want, Ref):
        want = want.to
        if isinstance(want, Array) and isinstance(have, Array):
            return 0 if want.count in (None, have.count) and want.of == have.of else None
    if isinstance(have, Array):
        have = Ptr(have.of)
    if isinstance(want, Array):
        want = Ptr(want.of)
    if have is want or have == want:
        return 0
    if isinstance(have, Braces):
        return 1 if isinstance(want, Record) else 2
    if isinstance(have, Ptr) and isinstance(want, Ptr):
        if isinstance(want.to, Void | Handle):
            return 1
        if isinstance(have.to, Record) and isinstance(want.to, Record):
            return 1 if records.base_offset(have.to, want.to) is not None else None
        return 6 if isinstance(have.to, Void) else None
    if isinstance(have, Group) and isinstance(want, Group):
        return 1 if want.kind == "group" or (want.kind == have.kind and want.size is None) else None
    a, b = arithmetic(have), arithmetic(want)
    if a is not None and b is not None:
        if isinstance(want, Enum):
            return None
        if promote(a) == b or (a.kind == b.kind == "float" and b.bits > a.bits):
            return 1
        return 2
    if isinstance(have, Record) and isinstance(want, Record):
        return 1 if records.base_offset(have, want) is not None else (4 if records.methods(want, want.name) else None)
    if isinstance(want, Handle) or isinstance(have, Handle):
        return 3
    if isinstance(have, Record) and (b is not None or isinstance(want, Ptr)):
        return 4
    if isinstance(want, Record) and not isinstance(have, Ptr):
        return 4 if records.methods(want, want.name) else None
    if isinstance(have, Closure | Function):
        return 1 if isinstance(want, Function | Ptr) else None
    if isinstance(want, Ptr) and a is not None:
        return 5
    return None
