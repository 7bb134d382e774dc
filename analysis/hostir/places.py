"""Variables as targets: which one an expression designates, writing it, and forgetting it."""

from __future__ import annotations

from prelaunch.analysis.hostir import evaluate, fold, ir, lookup, objects
from prelaunch.analysis.hostir.machine import Frame, Machine, read, write
from prelaunch.analysis.hostir.values import (
    NUMBERS,
    Array,
    Memory,
    Place,
    Record,
    Ref,
    State,
    Symbol,
    Value,
    dim3,
    named,
    number,
)  # fmt: skip
from prelaunch.analysis.kernel import U32, Const, Scalar


def place(machine: Machine, frame: Frame, state: State, expr: ir.Expr) -> Place | None:
    """The variable an expression designates; None when that is not known."""
    match expr:
        case ir.Name(slot=slot, name=name):
            if slot:
                return frame.aliases.get(slot, Place((frame.id, slot)))
            if frame.this is not None and frame.function.record and ("", name) not in state.vars:
                return frame.this.inside(name)
            return Place(("", name))
        case ir.Member(base=base, name=field, arrow=arrow):
            if arrow:
                pointer = evaluate.value(machine, frame, state, base)
                return pointer.place.inside(field) if isinstance(pointer, Ref) else _through(machine, pointer, field)
            inner = place(machine, frame, state, base)
            return inner.inside(field) if inner is not None else None
        case ir.Index(base=base, index=index):
            at = number(evaluate.value(machine, frame, state, index))
            inner = place(machine, frame, state, base)
            if inner is None:
                return None
            held = read(state.vars.get(inner.key), inner.path)
            if isinstance(held, Ref) and isinstance(at, Const):
                return held.place if at.value == 0 else None
            return inner.inside(int(at.value)) if isinstance(at, Const) else None
        case ir.Unary(op="*", operand=operand):
            pointer = evaluate.value(machine, frame, state, operand)
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


def assign(machine: Machine, frame: Frame, state: State, expr: ir.Assign) -> Value:
    new = evaluate.value(machine, frame, state, expr.value)
    where = place(machine, frame, state, expr.target)
    if expr.op:
        old = evaluate.value(machine, frame, state, expr.target)
        op = fold.OPERATORS.get(expr.op)
        if isinstance(old, Memory) and expr.op in "+-":
            new = evaluate.moved(old, number(new), 1 if expr.op == "+" else -1)
        elif op is not None:
            kind = number(old).type
            new = fold.cast(fold.binary(op, number(old), number(new)), kind)
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
        new = named(new, target.name)
        kind = lookup.resolve_type(machine, frame, declared.type)
        if kind not in ("auto", "") and not getattr(declared, "extents", ()):
            return objects.convert(machine, frame, new, kind + "*" * declared.pointers)
    old = read(state.vars.get(where.key), where.path)
    if isinstance(old, NUMBERS) and isinstance(new, NUMBERS) and isinstance(old.type, Scalar):
        return fold.cast(new, old.type)
    if isinstance(old, Record) and old.type == "dim3":
        return dim3(new)
    if where.path and where.path[-1] in ("x", "y", "z") and isinstance(new, NUMBERS):
        holder = read(state.vars.get(where.key), where.path[:-1])
        if isinstance(holder, Record) and holder.type == "dim3":
            return fold.cast(new, U32)
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
