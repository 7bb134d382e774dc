"""Parameters of a function about to be executed: values, references to the caller's variables, template arguments."""

from __future__ import annotations

from prelaunch.analysis.hostir import deduction, evaluate, ir, lookup, objects, places
from prelaunch.analysis.hostir.lower_expr import number as literal
from prelaunch.analysis.hostir.machine import Frame, Machine
from prelaunch.analysis.hostir.values import Array, Function, Memory, Ref, State, Value, named
from prelaunch.analysis.kernel import BOOL, I32, Const


def bind(
    machine: Machine,
    caller: Frame,
    state: State,
    inner: Frame,
    expr: ir.Call,
    args: list[Value],
    template_args: tuple[str, ...],
) -> None:
    """Binds everything ``inner.function`` declares before its body."""
    deduction.types(machine, caller, inner, expr)
    bind_templates(machine, state, inner, template_args)
    for index, parameter in enumerate(inner.function.parameters):
        inner.declared[parameter.slot] = parameter
        key = (inner.id, parameter.slot)
        if parameter.pack:
            state.vars[key] = Array(tuple(args[index:]))
            break
        if index >= len(args):
            if parameter.default is not None:
                held = evaluate.value(machine, inner, state, parameter.default)
                state.vars[key] = _converted(machine, inner, parameter, held)
            continue
        if parameter.reference and index < len(expr.args):
            where = places.place(machine, caller, state, expr.args[index])
            if where is not None and (where.key in state.vars or "const" not in parameter.type.split()):
                inner.aliases[parameter.slot] = where
                continue
        state.vars[key] = _converted(machine, inner, parameter, args[index])


def _converted(machine: Machine, inner: Frame, parameter: ir.Parameter, held: Value) -> Value:
    held = named(held, parameter.name)
    kind = lookup.resolve_type(machine, inner, parameter.type)
    if kind in ("auto", ""):
        return held
    if parameter.pointers and isinstance(held, Ref | Array):
        return held
    return objects.convert(machine, inner, held, kind + "*" * parameter.pointers)


def bind_templates(machine: Machine, state: State, inner: Frame, template_args: tuple[str, ...]) -> None:
    """Explicit arguments first, then defaults; a value parameter that stays open is unknown."""
    for index, parameter in enumerate(inner.function.template):
        given = template_args[index] if index < len(template_args) else None
        if parameter.pack:
            break
        if not parameter.type:
            if given is not None:
                inner.types[parameter.name] = given
            elif parameter.name not in inner.types and parameter.default is not None:
                inner.types[parameter.name] = parameter.default.text
            continue
        state.vars[(inner.id, parameter.slot)] = _template_value(machine, state, inner, parameter, given)


def _template_value(
    machine: Machine, state: State, inner: Frame, parameter: ir.TemplateParameter, given: str | None
) -> Value:
    kind, file = lookup.resolve_type(machine, inner, parameter.type), inner.function.file
    if given in ("true", "false"):
        return objects.convert(machine, inner, Const(int(given == "true"), BOOL), kind)
    number = literal(given.lstrip("-")) if given is not None else None
    if number is not None and isinstance(number.value, int) and given is not None:
        value = Const(-number.value if given.startswith("-") else number.value, I32)
        return objects.convert(machine, inner, value, kind)
    if given is not None and any(f.is_kernel or f.body for f in machine.project.lookup_functions(given, file)):
        return Function(given, (), file)
    if given is None and parameter.default is not None and parameter.default.expr is not None:
        return evaluate.value(machine, inner, state, parameter.default.expr)
    origin = inner.origin(parameter.slot)
    return machine.unknown(kind, 0, parameter.name, f"template parameter {parameter.name}", *origin)


def bind_closure(machine: Machine, state: State, inner: Frame, args: list[Value] | None) -> None:
    """Binds a lambda's parameters; None: all unknown."""
    for index, parameter in enumerate(inner.function.parameters):
        inner.declared[parameter.slot] = parameter
        if args is not None and parameter.pack:
            state.vars[(inner.id, parameter.slot)] = Array(tuple(args[index:]))
            break
        if args is not None and index < len(args):
            state.vars[(inner.id, parameter.slot)] = _converted(machine, inner, parameter, args[index])
        else:
            state.vars[(inner.id, parameter.slot)] = parameter_unknown(machine, inner, parameter)


def parameter_unknown(machine: Machine, inner: Frame, parameter: ir.Parameter) -> Value:
    """What is known of a parameter nobody passes: its type."""
    kind = lookup.resolve_type(machine, inner, parameter.type)
    reason = f"parameter {parameter.name} of {inner.function.name}()"
    held = machine.unknown(kind, parameter.pointers, parameter.name, reason, *inner.origin(parameter.slot))
    if isinstance(held, Memory):
        return Memory(held.allocation, parameter.name, element=held.element)
    return held
