"""Values of host expressions in a state. Assignments and calls inside them change the state and record launches.

Guarantees: a ``Const`` result is what every execution that reaches the expression in this state computes, short of
undefined behaviour; anything else is symbolic. Both sides of ``&&``, ``||`` and ``?:`` are evaluated.
"""

from __future__ import annotations

from prelaunch.analysis.hostir import calls, ctypes, fold, ir, lookup
from prelaunch.analysis.hostir.fold import TooLarge
from prelaunch.analysis.hostir.machine import MAX_RECURSION, Frame, Machine, read, write
from prelaunch.analysis.hostir.values import (
    FALSE,
    NUMBERS,
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
    dim3,
    merge,
    number,
)
from prelaunch.analysis.kernel import BOOL, I8, I32, I64, U32, U64, Const, Expr, Scalar

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
            return convert(machine, frame, value(machine, frame, state, operand), kind)
        case ir.SizeOf():
            return _sizeof(machine, frame, state, expr)
        case ir.Construct():
            return construct(machine, frame, state, expr)
        case ir.New(type=kind, count=count):
            size = lookup.size_of(machine, frame, kind)
            number_of = number(value(machine, frame, state, count)) if count is not None else Const(1, U64)
            extent = fold.binary("mul", fold.cast(number_of, U64), Const(size, U64)) if size else None
            where = f"{frame.function.file}:{expr.span.start}"
            return Memory(where, "new", element=size or 0, extent=extent, space="host", made=expr.span)
        case ir.Assign():
            return assign(machine, frame, state, expr)
        case ir.Lambda(function=function):
            return Closure(function, frame.id)
        case ir.Call():
            return calls.call(machine, frame, state, expr)
        case ir.Launch():
            return calls.launch(machine, frame, state, expr)
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


# --- names and places ------------------------------------------------------------------------------------------------


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


def place(machine: Machine, frame: Frame, state: State, expr: ir.Expr) -> Place | None:
    """The variable an expression designates; None when that is not known."""
    match expr:
        case ir.Name(slot=slot, name=name):
            if slot:
                return frame.aliases.get(slot, Place((frame.id, slot)))
            if frame.this is not None and frame.function.record and ("", name) not in state.vars:
                return frame.this.inside(name)
            return Place(("", name))
        case ir.Member(base=base, field=field, arrow=arrow):
            if arrow:
                pointer = value(machine, frame, state, base)
                return pointer.place.inside(field) if isinstance(pointer, Ref) else _through(machine, pointer, field)
            inner = place(machine, frame, state, base)
            return inner.inside(field) if inner is not None else None
        case ir.Index(base=base, index=index):
            at = number(value(machine, frame, state, index))
            held = value(machine, frame, state, base)
            if isinstance(held, Ref) and isinstance(at, Const):
                return held.place if at.value == 0 else None
            inner = place(machine, frame, state, base)
            return inner.inside(int(at.value)) if inner is not None and isinstance(at, Const) else None
        case ir.Unary(op="*", operand=operand):
            pointer = value(machine, frame, state, operand)
            return pointer.place if isinstance(pointer, Ref) else None
        case ir.Cast(operand=operand):
            return place(machine, frame, state, operand)
    return None


def _through(machine: Machine, pointer: Value, field: str) -> Place | None:
    """A member behind a pointer to an object that is not a known variable: an object of its own by name."""
    if isinstance(pointer, Memory):
        return Place(("", f"*{pointer.allocation}"), (field,))
    if isinstance(pointer, Symbol):
        return Place(("", f"*{pointer.id:x}"), (field,))
    return None


def _inside(machine: Machine, frame: Frame, state: State, expr: ir.Member | ir.Index) -> Value:
    where = place(machine, frame, state, expr)
    if where is not None:
        found = read(state.vars.get(where.key), where.path)
        if found is not None and not isinstance(found, Symbol):
            return found
    base = value(machine, frame, state, expr.base)
    if isinstance(expr, ir.Index):
        at = number(value(machine, frame, state, expr.index))
        if isinstance(base, Array) and isinstance(at, Const) and 0 <= at.value < len(base.items):
            return base.items[int(at.value)]
        name = getattr(base, "name", "")
        return machine.symbol(f"{name}[]", "array element", *frame.origin(repr(base), repr(at)))
    if isinstance(base, Record | Symbol):
        found = read(base, (expr.field,))
        if found is not None:
            if isinstance(found, Symbol):
                return machine.symbol(f"{getattr(base, 'name', '')}.{expr.field}", "member", repr(base), expr.field)
            return found
    name = getattr(base, "name", "") or (expr.base.name if isinstance(expr.base, ir.Name) else "")
    return machine.symbol(f"{name}.{expr.field}".lstrip("."), "member", repr(base), expr.field)


# --- operators -------------------------------------------------------------------------------------------------------


def _unary(machine: Machine, frame: Frame, state: State, expr: ir.Unary) -> Value:
    if expr.op == "&":
        where = place(machine, frame, state, expr.operand)
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
    op = {"-": "neg", "~": "not", "!": "lnot"}.get(expr.op)
    if op is None:
        return machine.symbol("", "operator", *frame.origin(expr.span.start))
    return fold.unary(op, number(held))  # type: ignore[arg-type,return-value]  # one of three operators; a number


def _update(machine: Machine, frame: Frame, state: State, expr: ir.Unary, held: Value) -> Value:
    where = place(machine, frame, state, expr.operand)
    sign = 1 if "++" in expr.op else -1
    new = shifted(held, Const(sign, I32))
    if where is not None:
        store(state, where, new)
    return new if expr.op.endswith("x") else held


def shifted(held: Value, by: Expr) -> Value:
    """``held + by`` for a number or a pointer."""
    if isinstance(held, Memory):
        return moved(held, by, 1)
    if isinstance(held, Ref | Array | Text | Record):
        return Symbol(hash_free_identity(held, by), "")
    result = number(held)
    return fold.cast(fold.binary("add", result, by), result.type)  # type: ignore[return-value]  # a number


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
        where = place(machine, frame, state, expr.right)
        if where is not None:
            forget(machine, frame, state, where, "read from a stream")
        return left
    if expr.op in ("+", "-"):
        sign = 1 if expr.op == "+" else -1
        if isinstance(left, Memory) and not isinstance(right, Memory):
            return moved(left, number(right), sign)
        if isinstance(right, Memory) and sign > 0 and not isinstance(left, Memory):
            return moved(right, number(left), 1)
    if isinstance(left, Text) or isinstance(right, Text):
        return machine.symbol("", "text", *frame.origin(expr.span.start))
    return fold.binary(op, number(left), number(right))  # type: ignore[return-value]  # a number


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


# --- conversions and construction --------------------------------------------------------------------------------------


def convert(machine: Machine, frame: Frame, held: Value, spelling: str) -> Value:
    """``(spelling)held``."""
    kind = lookup.resolve_type(machine, frame, spelling)
    if kind.endswith("*"):
        if isinstance(held, Memory):
            element = ctypes.size_of(kind[:-1].strip()) or 0
            return Memory(held.allocation, held.name, held.offset, element, held.extent, held.space, held.made)
        return held
    scalar = ctypes.scalar(kind)
    if scalar is not None and not isinstance(held, Function | Functions | Memory | Ref | Array | Record | Closure):
        return fold.cast(number(held), scalar)  # type: ignore[return-value]  # a number
    if kind == "dim3":
        return dim3(held)
    if _is_enum(machine, frame, kind) and isinstance(held, NUMBERS):
        return fold.cast(held, I32)  # type: ignore[return-value]  # a number
    return held


def _is_enum(machine: Machine, frame: Frame, kind: str) -> bool:
    found = machine.project.lookup_records(kind, frame.function.file) if kind.replace("::", "").isidentifier() else []
    return bool(found) and found[0].kind.startswith("enum")


def construct(machine: Machine, frame: Frame, state: State, expr: ir.Construct) -> Value:
    """``T(args)``, ``T{args}``, ``{args}``."""
    args = tuple(value(machine, frame, state, a) for a in expr.args)
    kind = lookup.resolve_type(machine, frame, expr.type) if expr.type else ""
    named = [n for n in expr.names if n]
    if not kind:
        if named:
            return Record("", tuple(zip(expr.names, args, strict=True)))
        return Array(args[:MAX_ITEMS])
    if kind == "dim3":
        return _dims(expr, args)
    scalar = ctypes.scalar(kind)
    if scalar is not None and len(args) <= 1:
        return fold.cast(number(args[0]), scalar) if args else Const(0, scalar)  # type: ignore[return-value]
    if kind.endswith("*") and len(args) == 1:
        return convert(machine, frame, args[0], kind)
    if not expr.braced and len(args) == 1 and isinstance(args[0], Closure | Function | Functions):
        return args[0]
    if named:
        return Record(kind, tuple(zip(expr.names, args, strict=True)))
    return calls.object_of(machine, frame, state, expr, kind, args)


def _dims(expr: ir.Construct, args: tuple[Value, ...]) -> Value:
    if len(args) == 1 and isinstance(args[0], Record | Symbol):
        return dim3(args[0])
    axes = dict(zip("xyz", args, strict=False)) if not any(expr.names) else dict(zip(expr.names, args, strict=True))
    one = Const(1, U32)
    return Record("dim3", tuple((a, fold.cast(number(axes[a]), U32) if a in axes else one) for a in "xyz"))  # type: ignore[misc]


def declared_value(machine: Machine, frame: Frame, state: State, stmt: ir.Declare) -> Value:
    """The value a declaration gives its variable."""
    kind = lookup.resolve_type(machine, frame, stmt.type)
    origin = frame.origin(stmt.slot, stmt.span.start)
    if stmt.extents:
        return _array(machine, frame, state, stmt, kind)
    if stmt.init is None:
        if kind == "dim3" and not stmt.pointers:
            return dim3(Record("dim3"))
        if not stmt.pointers and ctypes.scalar(kind) is None and kind != "auto":
            return calls.object_of(machine, frame, state, stmt.init, kind, ())
        return machine.unknown(kind, stmt.pointers, stmt.name, "not initialised", *origin)
    held = value(machine, frame, state, stmt.init)
    if kind in ("auto", ""):
        return held
    if stmt.pointers:
        return convert(machine, frame, held, kind + "*" * stmt.pointers)
    if isinstance(held, Symbol):
        if ctypes.scalar(kind) is not None or kind == "dim3":
            return convert(machine, frame, held, kind)
        return Symbol(held.id, stmt.name)
    if isinstance(held, Array) and len(held.items) == 1 and ctypes.scalar(kind) is not None:
        return convert(machine, frame, held.items[0], kind)
    return convert(machine, frame, held, kind)


def _array(machine: Machine, frame: Frame, state: State, stmt: ir.Declare, kind: str) -> Value:
    element = kind + "*" * stmt.pointers
    first = stmt.extents[0]
    extent = number(value(machine, frame, state, first)) if first is not None else None
    held = value(machine, frame, state, stmt.init) if stmt.init is not None else None
    items = held.items if isinstance(held, Array) else ()
    if len(stmt.extents) == 1 and isinstance(held, Array):
        count = int(extent.value) if isinstance(extent, Const) else len(items)
        if count <= MAX_ITEMS:
            zero: Value = Const(0, ctypes.scalar(element) or I32)
            filled = (*items, *(zero for _ in range(count - len(items))))
            return Array(tuple(convert(machine, frame, v, element) for v in filled[:count]), element)
    if len(stmt.extents) == 1 and isinstance(extent, Const) and 0 < extent.value <= MAX_ITEMS and stmt.init is None:
        origin = frame.origin(stmt.slot, stmt.span.start)
        made = (
            machine.unknown(kind, stmt.pointers, f"{stmt.name}[{i}]", "not initialised", *origin, i)
            for i in range(int(extent.value))
        )
        return Array(tuple(made), element)
    size: Expr | None = None
    unit = lookup.size_of(machine, frame, element)
    if extent is not None and unit is not None and len(stmt.extents) == 1:
        size = fold.binary("mul", fold.cast(extent, U64), Const(unit, U64))
    where = f"{frame.function.file}:{stmt.span.start}"
    return Memory(where, stmt.name, element=unit or 0, extent=size, space="host", made=stmt.span)


# --- writing -----------------------------------------------------------------------------------------------------------


def assign(machine: Machine, frame: Frame, state: State, expr: ir.Assign) -> Value:
    new = value(machine, frame, state, expr.value)
    where = place(machine, frame, state, expr.target)
    if expr.op:
        old = value(machine, frame, state, expr.target)
        op = fold.OPERATORS.get(expr.op)
        if isinstance(old, Memory) and expr.op in "+-":
            new = moved(old, number(new), 1 if expr.op == "+" else -1)
        elif op is not None:
            kind = number(old).type
            new = fold.cast(fold.binary(op, number(old), number(new)), kind)  # type: ignore[assignment]  # a number
    if where is None:
        base = expr.target.base if isinstance(expr.target, ir.Index) else None
        root = place(machine, frame, state, base) if base is not None else None
        if root is not None and isinstance(read(state.vars.get(root.key), root.path), Array):
            forget(machine, frame, state, root, "element written at an unknown index")
        return new
    new = _as_declared(machine, frame, state, expr.target, where, new)
    store(state, where, new)
    return new


def _as_declared(machine: Machine, frame: Frame, state: State, target: ir.Expr, where: Place, new: Value) -> Value:
    """``new`` converted to the type of what it is stored in."""
    if isinstance(target, ir.Name) and target.slot in frame.declared:
        declared = frame.declared[target.slot]
        kind = lookup.resolve_type(machine, frame, declared.type)
        if kind not in ("auto", "") and not getattr(declared, "extents", ()):
            return convert(machine, frame, new, kind + "*" * declared.pointers)
    old = read(state.vars.get(where.key), where.path)
    if isinstance(old, NUMBERS) and isinstance(new, NUMBERS) and isinstance(old.type, Scalar):
        return fold.cast(new, old.type)  # type: ignore[return-value]  # a number
    if isinstance(old, Record) and old.type == "dim3":
        return dim3(new)
    if where.path and where.path[-1] in ("x", "y", "z") and isinstance(new, NUMBERS):
        holder = read(state.vars.get(where.key), where.path[:-1])
        if isinstance(holder, Record) and holder.type == "dim3":
            return fold.cast(new, U32)  # type: ignore[return-value]  # a number
    return new


def store(state: State, where: Place, new: Value) -> None:
    state.vars[where.key] = write(state.vars.get(where.key), where.path, new)


def forget(machine: Machine, frame: Frame, state: State, where: Place, reason: str, *words: object) -> None:
    """The variable gets an unknown value of the type it has."""
    old = read(state.vars.get(where.key), where.path)
    origin = frame.origin(where.key[1], *where.path, reason, *words)
    name = where.key[1].partition("#")[0] + "".join(f".{p}" for p in where.path)
    declared = frame.declared.get(where.key[1]) if not where.path else None
    if isinstance(old, NUMBERS):
        store(state, where, machine.number(old.type, name, reason, *origin))
    elif declared is not None and not getattr(declared, "extents", ()):
        kind = lookup.resolve_type(machine, frame, declared.type)
        store(state, where, machine.unknown(kind, declared.pointers, name, reason, *origin))
    elif isinstance(old, Record) and old.type == "dim3":
        store(state, where, machine.unknown("dim3", 0, name, reason, *origin))
    elif isinstance(old, Memory):
        fresh = machine.unknown("void", 1, name, reason, *origin)
        store(state, where, fresh)
    else:
        store(state, where, machine.symbol(name, reason, *origin))


__all__ = ["BOOL", "I8", "assign", "construct", "convert", "declared_value", "forget", "place", "store", "value"]
