"""Conversions, construction of values of class type, and what a declaration gives its variable."""

from __future__ import annotations

from prelaunch.analysis.hostir import ctypes, evaluate, fold, ir, lookup
from prelaunch.analysis.hostir.lower_expr import number as literal
from prelaunch.analysis.hostir.machine import Frame, Machine
from prelaunch.analysis.hostir.values import (
    NUMBERS,
    Array,
    Closure,
    Function,
    Functions,
    Memory,
    Record,
    Ref,
    State,
    Symbol,
    Value,
    dim3,
    named,
    number,
)  # fmt: skip
from prelaunch.analysis.kernel import BOOL, I32, U32, U64, Const, Expr

MAX_ITEMS = 256


def convert(machine: Machine, frame: Frame, held: Value, spelling: str) -> Value:
    """``(spelling)held``."""
    kind = lookup.resolve_type(machine, frame, spelling)
    if kind.endswith("*"):
        if isinstance(held, Memory):
            element = ctypes.size_of(kind[:-1].strip()) or 0
            return Memory(held.allocation, held.name, held.offset, element, held.extent, held.space, held.made)
        return held
    scalar = ctypes.scalar(kind)
    if scalar is not None and isinstance(held, Record) and held.type == "integral_constant":
        held = held.get("value") or held
    if scalar is not None and not isinstance(held, Function | Functions | Memory | Ref | Array | Record | Closure):
        return fold.cast(number(held), scalar)
    if kind == "dim3":
        return dim3(held)
    if _is_enum(machine, frame, kind) and isinstance(held, NUMBERS):
        return fold.cast(held, I32)
    return held


def _is_enum(machine: Machine, frame: Frame, kind: str) -> bool:
    found = machine.project.lookup_records(kind, frame.function.file) if kind.replace("::", "").isidentifier() else []
    return bool(found) and found[0].kind.startswith("enum")


def construct(machine: Machine, frame: Frame, state: State, expr: ir.Construct) -> Value:
    """``T(args)``, ``T{args}``, ``{args}``."""
    args = tuple(evaluate.value(machine, frame, state, a) for a in expr.args)
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
        return fold.cast(number(args[0]), scalar) if args else Const(0, scalar)
    if kind.endswith("*") and len(args) == 1:
        return convert(machine, frame, args[0], kind)
    if not expr.braced and len(args) == 1 and isinstance(args[0], Closure | Function | Functions):
        return args[0]
    if named:
        return Record(kind, tuple(zip(expr.names, args, strict=True)))
    return object_of(machine, frame, state, expr, kind, args)


def _dims(expr: ir.Construct, args: tuple[Value, ...]) -> Value:
    if len(args) == 1 and isinstance(args[0], Record | Symbol):
        return dim3(args[0])
    axes = dict(zip("xyz", args, strict=False)) if not any(expr.names) else dict(zip(expr.names, args, strict=True))
    one = Const(1, U32)
    return Record("dim3", tuple((a, fold.cast(number(axes[a]), U32) if a in axes else one) for a in "xyz"))


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
            return object_of(machine, frame, state, stmt.init, kind, ())
        return machine.unknown(kind, stmt.pointers, stmt.name, "not initialised", *origin)
    return converted(machine, frame, stmt, evaluate.value(machine, frame, state, stmt.init))


def converted(machine: Machine, frame: Frame, stmt: ir.Declare, held: Value) -> Value:
    """``held`` as the variable that ``stmt`` declares holds it."""
    kind = lookup.resolve_type(machine, frame, stmt.type)
    held = named(held, stmt.name)
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
    extent = number(evaluate.value(machine, frame, state, first)) if first is not None else None
    held = evaluate.value(machine, frame, state, stmt.init) if stmt.init is not None else None
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


def object_of(
    machine: Machine, frame: Frame, state: State, expr: ir.Expr | None, kind: str, args: tuple[Value, ...]
) -> Value:
    """A value of class type: containers are memory, aggregates records; other classes are symbols."""
    start = expr.span.start if expr is not None else 0
    plain = kind.partition("<")[0].rpartition("::")[2]
    if plain in ("vector", "device_vector", "host_vector", "array", "unique_ptr"):
        spelled = kind.partition("<")[2].rpartition(">")[0].split(",")[0].strip()
        listed = isinstance(expr, ir.Construct) and expr.braced and plain in ("vector", "array")
        if listed and 0 < len(args) <= MAX_ITEMS and ctypes.scalar(lookup.resolve_type(machine, frame, spelled)):
            return Array(tuple(convert(machine, frame, a, spelled) for a in args), spelled)
        element = lookup.size_of(machine, frame, spelled)
        extent: Expr | None = None
        if args and isinstance(args[0], NUMBERS) and element:
            extent = fold.binary("mul", fold.cast(args[0], U64), Const(element, U64))
        where = f"{frame.function.file}:{start}@{len(frame.stack)}"
        space = "device" if plain == "device_vector" else "host"
        return Memory(where, plain, element=element or 0, extent=extent, space=space)
    constant = _integral_constant(machine, frame, state, kind)
    if constant is not None:
        return Record("integral_constant", (("value", constant),))
    found = machine.project.lookup_records(kind, frame.function.file) if kind.replace("::", "").isidentifier() else []
    if found and found[0].template is None and not found[0].kind.startswith("enum"):
        simple = kind.rpartition("::")[2]
        if len(args) == 1 and isinstance(args[0], Record) and args[0].type in (kind, simple):
            return args[0]
        constructors = [f for f in machine.project.functions.get(simple, []) if f.record == found[0].qualified]
        if not constructors:
            outside, empty = lookup.empty_frame(machine, found[0].file.source.path, found[0].qualified)
            fields: list[tuple[str, Value]] = []
            for index, (name, _, _, extents, default) in enumerate(lookup.members(machine, found[0])):
                if index < len(args):
                    fields.append((name, args[index]))
                elif default is not None and not extents:
                    fields.append((name, evaluate.value(machine, outside, empty, default)))
            return Record(simple, tuple(fields))
    if kind.startswith(("cudaLaunch", "CUlaunch")):
        return Record(kind)
    return machine.symbol(plain, f"object of type {plain}", *frame.origin(start, kind))


def _integral_constant(machine: Machine, frame: Frame, state: State, kind: str) -> Value | None:
    """The value of ``std::integral_constant<T, v>`` and its kin, where ``v`` is known."""
    known = ctypes.integral_constant(kind)
    if known is None:
        return None
    type_, text = known
    if text in ("true", "false"):
        return convert(machine, frame, Const(int(text == "true"), BOOL), type_)
    written = literal(text)
    if written is not None and isinstance(written.value, int):
        return convert(machine, frame, Const(written.value, I32), type_)
    slot = next((p.slot for p in frame.function.template if p.name == text), None)
    held = state.vars.get((frame.id, slot)) if slot is not None else lookup.constant(machine, frame, text)
    return convert(machine, frame, held, type_) if held is not None else None
