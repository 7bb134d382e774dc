"""Values of host expressions in a state. Assignments and calls inside them change the state and record launches.

Guarantees: a ``Const`` result is what every execution that reaches the expression in this state computes, short of
undefined behaviour; anything else is symbolic. Both sides of ``&&``, ``||`` and ``?:`` are evaluated.
"""

from __future__ import annotations

from prelaunch.analysis.hostir import calls, ctypes, fold, ir, launching, lookup, objects, places
from prelaunch.analysis.hostir.fold import TooLarge
from prelaunch.analysis.hostir.machine import MAX_RECURSION, Frame, Machine, read
from prelaunch.analysis.hostir.values import (
    FALSE,
    TRUE,
    Array,
    Closure,
    Function,
    Functions,
    Memory,
    Place,
    Record,
    Ref,
    State,
    Symbol,
    Text,
    Value,
    merge,
    number,
    token,
)
from prelaunch.analysis.kernel import I32, I64, U32, U64, Const, Expr, UnaryOp, Var

MAX_ITEMS = 256


def value(machine: Machine, frame: Frame, state: State, expr: ir.Expr) -> Value:
    """The value of ``expr``; its effects are applied to ``state``."""
    machine.step()
    if machine.depth > MAX_RECURSION:
        return machine.symbol("", "nesting", *frame.origin(expr.span.start))
    machine.depth += 1
    try:
        return _value(machine, frame, state, expr)
    except TooLarge:
        return machine.number(I64, "", "expression too large", *frame.origin(expr.span.start, expr.span.end))
    finally:
        machine.depth -= 1


def _value(machine: Machine, frame: Frame, state: State, expr: ir.Expr) -> Value:
    match expr:
        case ir.Literal():
            return _literal(expr)
        case ir.Name():
            return name_value(machine, frame, state, expr)
        case ir.Member() | ir.Index():
            return _inside(machine, frame, state, expr)
        case ir.Unary():
            return _unary(machine, frame, state, expr)
        case ir.Binary():
            return _binary(machine, frame, state, expr)
        case ir.Ternary(cond=cond, then=then, orelse=orelse):
            test = fold.truth(number(value(machine, frame, state, cond)))
            if isinstance(test, Const):
                return value(machine, frame, state, then if test.value else orelse)
            sides = value(machine, frame, state, then), value(machine, frame, state, orelse)
            return sides[0] if sides[0] == sides[1] else merge(test, *sides, frame.origin(expr.span.start))
        case ir.Cast(type=kind, operand=operand):
            return objects.convert(machine, frame, value(machine, frame, state, operand), kind)
        case ir.SizeOf():
            return _sizeof(machine, frame, state, expr)
        case ir.Construct():
            return objects.construct(machine, frame, state, expr)
        case ir.New(type=kind, count=count):
            size = lookup.size_of(machine, frame, kind)
            number_of = number(value(machine, frame, state, count)) if count is not None else Const(1, U64)
            extent = fold.binary("mul", fold.cast(number_of, U64), Const(size, U64)) if size else None
            where = f"{frame.function.file}:{expr.span.start}"
            return Memory(where, "new", element=size or 0, extent=extent, space="host", made=expr.span)
        case ir.Assign():
            return places.assign(machine, frame, state, expr)
        case ir.Lambda(function=function):
            return Closure(function, frame.id)
        case ir.Call():
            return calls.call(machine, frame, state, expr)
        case ir.Launch():
            return launching.launch(machine, frame, state, expr)
        case ir.Unknown(parts=parts, reason=reason):
            for part in parts:
                value(machine, frame, state, part)
            return machine.symbol("", reason, *frame.origin(expr.span.start, expr.span.end))


def _literal(expr: ir.Literal) -> Value:
    if isinstance(expr.value, str):
        return Text(expr.value)
    if expr.value is None:
        return Const(0, U64)
    return Const(expr.value, ctypes.scalar(expr.type) or I32)


# --- names and places ----------------------------------------------------------------------------------------------


def name_value(machine: Machine, frame: Frame, state: State, expr: ir.Name) -> Value:
    if expr.slot:
        place = frame.aliases.get(expr.slot, Place((frame.id, expr.slot)))
        found = read(state.vars.get(place.key), place.path)
        if found is not None:
            return found
        declared = frame.declared.get(expr.slot)
        if declared is None:
            return machine.symbol(expr.name, "not assigned", *frame.origin(expr.slot))
        kind = lookup.resolve_type(machine, frame, declared.type)
        return machine.unknown(kind, declared.pointers, expr.name, "not assigned", *frame.origin(expr.slot))
    if expr.name == "this":
        return Ref(frame.this) if frame.this is not None else machine.symbol("this", "object", frame.function.record)
    return _global_value(machine, frame, state, expr)


def _global_value(machine: Machine, frame: Frame, state: State, expr: ir.Name) -> Value:
    if frame.this is not None and frame.function.record:
        member = read(state.vars.get(frame.this.key), (*frame.this.path, expr.name))
        if member is not None and not isinstance(member, Symbol):
            return member
    written = state.vars.get(("", expr.name))
    if written is not None:
        return written
    constant = lookup.constant(machine, frame, expr.name)
    if constant is not None:
        return constant
    if machine.project.lookup_functions(expr.name, frame.function.file):
        return Function(expr.name, calls.print_arguments(machine, frame, state, expr), frame.function.file)
    if expr.name in _LIMITS:
        return _LIMITS[expr.name]
    for variable in machine.project.lookup_variables(expr.name, frame.function.file):
        kind, pointers = lookup.variable_type(variable)
        resolved = lookup.resolve_type(machine, frame, kind)
        return machine.unknown(resolved, pointers, expr.name, "global variable", "global", expr.name)
    return machine.symbol(expr.name, "name not found", "global", expr.name)


_LIMITS: dict[str, Value] = {
    "INT_MAX": Const(2**31 - 1, I32), "UINT_MAX": Const(2**32 - 1, U32), "INT_MIN": Const(-(2**31), I32),
    "SIZE_MAX": Const(2**64 - 1, U64), "LONG_MAX": Const(2**63 - 1, I64), "warpSize": Const(32, I32),
    "NULL": Const(0, U64), "cudaSuccess": Const(0, I32), "CUDA_SUCCESS": Const(0, I32), "CHAR_BIT": Const(8, I32),
    "cudaStreamDefault": Const(0, I32),
}  # fmt: skip


def _inside(machine: Machine, frame: Frame, state: State, expr: ir.Member | ir.Index) -> Value:
    where = places.place(machine, frame, state, expr)
    if where is not None:
        found = read(state.vars.get(where.key), where.path)
        if found is not None and not isinstance(found, Symbol):
            return found
    outer = places.place(machine, frame, state, expr.base)
    held = read(state.vars.get(outer.key), outer.path) if outer is not None else None
    base = held if held is not None else value(machine, frame, state, expr.base)
    if isinstance(expr, ir.Index):
        at = number(value(machine, frame, state, expr.index))
        if isinstance(base, Array) and isinstance(at, Const) and 0 <= at.value < len(base.items):
            return base.items[int(at.value)]
        name = getattr(base, "name", "")
        index = int(at.value) if isinstance(at, Const) else at.name if isinstance(at, Var) else ""
        return machine.symbol(f"{name}[{index}]", "array element", *frame.origin(token(base), token(at)))
    if isinstance(base, Record | Symbol):
        found = read(base, (expr.name,))
        if found is not None:
            if isinstance(found, Symbol):
                return machine.symbol(f"{getattr(base, 'name', '')}.{expr.name}", "member", token(base), expr.name)
            return found
    name = getattr(base, "name", "") or (expr.base.name if isinstance(expr.base, ir.Name) else "")
    return machine.symbol(f"{name}.{expr.name}".lstrip("."), "member", token(base), expr.name)


# --- operators -----------------------------------------------------------------------------------------------------


def _unary(machine: Machine, frame: Frame, state: State, expr: ir.Unary) -> Value:
    if expr.op == "&":
        where = places.place(machine, frame, state, expr.operand)
        inner = expr.operand
        if isinstance(inner, ir.Index):
            base = value(machine, frame, state, inner.base)
            if isinstance(base, Memory):
                return moved(base, number(value(machine, frame, state, inner.index)), 1)
        if isinstance(inner, ir.Name) and where is not None and where.key not in state.vars:
            held = value(machine, frame, state, inner)
            if isinstance(held, Function | Functions):
                return held
        return Ref(where) if where is not None else machine.symbol("&", "address", *frame.origin(expr.span.start))
    held = value(machine, frame, state, expr.operand)
    if expr.op == "*":
        if isinstance(held, Ref):
            found = read(state.vars.get(held.place.key), held.place.path)
            return found if found is not None else machine.symbol("*", "not assigned", *frame.origin(expr.span.start))
        if isinstance(held, Function | Functions):
            return held
        name = f"*{getattr(held, 'name', '')}"
        return machine.symbol(name, "memory", *frame.origin(expr.span.start))
    if "x" in expr.op:
        return _update(machine, frame, state, expr, held)
    if expr.op == "+":
        return held
    op = _PREFIX.get(expr.op)
    if op is None:
        return machine.symbol("", "operator", *frame.origin(expr.span.start))
    return fold.unary(op, number(held))


_PREFIX: dict[str, UnaryOp] = {"-": "neg", "~": "not", "!": "lnot"}


def _update(machine: Machine, frame: Frame, state: State, expr: ir.Unary, held: Value) -> Value:
    where = places.place(machine, frame, state, expr.operand)
    sign = 1 if "++" in expr.op else -1
    new = shifted(held, Const(sign, I32))
    if where is not None:
        places.store(state, where, new)
    return new if expr.op.endswith("x") else held


def shifted(held: Value, by: Expr) -> Value:
    """``held + by`` for a number or a pointer."""
    if isinstance(held, Memory):
        return moved(held, by, 1)
    if isinstance(held, Ref | Array | Text | Record):
        return Symbol(hash_free_identity(held, by), "")
    result = number(held)
    return fold.cast(fold.binary("add", result, by), result.type)


def hash_free_identity(*words: object) -> int:
    from prelaunch.analysis.hostir.values import identity

    return identity(*(repr(w) for w in words))


def moved(pointer: Memory, by: Expr, sign: int) -> Value:
    """``pointer + sign * by`` elements."""
    if pointer.element == 0:
        return Memory(pointer.allocation, pointer.name, fold.cast(by, I64), 0, None, pointer.space)
    step = fold.binary("mul", fold.cast(by, I64), Const(pointer.element * sign, I64))
    offset = fold.binary("add", pointer.offset, step)
    return Memory(
        pointer.allocation, pointer.name, offset, pointer.element, pointer.extent, pointer.space, pointer.made
    )


def _binary(machine: Machine, frame: Frame, state: State, expr: ir.Binary) -> Value:
    left = value(machine, frame, state, expr.left)
    if expr.op in ("&&", "||"):
        test = fold.truth(number(left))
        if isinstance(test, Const) and bool(test.value) == (expr.op == "||"):
            return TRUE if expr.op == "||" else FALSE
    right = value(machine, frame, state, expr.right)
    if expr.op == ",":
        return right
    op = fold.OPERATORS.get(expr.op)
    if op is None:
        return machine.symbol("", "operator", *frame.origin(expr.span.start))
    if expr.op == ">>" and isinstance(left, Symbol):
        where = places.place(machine, frame, state, expr.right)
        if where is not None:
            places.forget(machine, frame, state, where, "read from a stream")
        return left
    if expr.op in ("+", "-"):
        sign = 1 if expr.op == "+" else -1
        if isinstance(left, Memory) and not isinstance(right, Memory):
            return moved(left, number(right), sign)
        if isinstance(right, Memory) and sign > 0 and not isinstance(left, Memory):
            return moved(right, number(left), 1)
    if isinstance(left, Text) or isinstance(right, Text):
        return machine.symbol("", "text", *frame.origin(expr.span.start))
    return fold.binary(op, number(left), number(right))


def _sizeof(machine: Machine, frame: Frame, state: State, expr: ir.SizeOf) -> Value:
    operand = expr.operand
    if operand is not None and not (expr.type and not _is_value(machine, frame, state, expr)):
        size = _size_of_operand(machine, frame, state, operand)
    else:
        size = lookup.size_of(machine, frame, expr.type)
    if size is not None:
        return Const(size, U64)
    return machine.number(U64, f"sizeof({expr.type})", "sizeof", *frame.origin(expr.type, expr.span.start))


def _is_value(machine: Machine, frame: Frame, state: State, expr: ir.SizeOf) -> bool:
    """Whether the bare name in ``sizeof(name)`` is an object rather than a type."""
    if expr.type in frame.types or ctypes.size_of(expr.type) is not None:
        return False
    file = frame.function.file
    project = machine.project
    return not (project.lookup_aliases(expr.type, file) or project.lookup_records(expr.type, file))


def _size_of_operand(machine: Machine, frame: Frame, state: State, operand: ir.Expr) -> int | None:
    if isinstance(operand, ir.Name) and operand.slot:
        declared = frame.declared.get(operand.slot)
        held = name_value(machine, frame, state, operand)
        if operand.name in frame.types:
            return lookup.size_of(machine, frame, operand.name)
        if declared is None:
            return None
        if isinstance(held, Array):
            element = lookup.size_of(machine, frame, held.element)
            return element * len(held.items) if element is not None else None
        if getattr(declared, "extents", ()):
            return None
        return lookup.size_of(machine, frame, declared.type + "*" * declared.pointers)
    if isinstance(operand, ir.Index) and isinstance(operand.base, ir.Name):
        declared = frame.declared.get(operand.base.slot)
        if declared is not None:
            stars = declared.pointers if getattr(declared, "extents", ()) else declared.pointers - 1
            return lookup.size_of(machine, frame, declared.type + "*" * max(stars, 0))
    if isinstance(operand, ir.Unary) and operand.op == "*" and isinstance(operand.operand, ir.Name):
        declared = frame.declared.get(operand.operand.slot)
        if declared is not None and declared.pointers:
            return lookup.size_of(machine, frame, declared.type + "*" * (declared.pointers - 1))
    if isinstance(operand, ir.Literal):
        return lookup.size_of(machine, frame, operand.type)
    return None
