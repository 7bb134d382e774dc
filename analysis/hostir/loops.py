"""Loops during host execution: run when their trips are decided and few, else summarised.

Guarantees: a loop whose trips are not known, or are more than ``MAX_UNROLL``, leaves everything it assigns unknown.
"""

from __future__ import annotations

from prelaunch.analysis.hostir import api, evaluate, execute, ir, objects, places
from prelaunch.analysis.hostir.machine import Frame, Machine
from prelaunch.analysis.hostir.values import Array, Closure, Place, Ref, State, Value
from prelaunch.analysis.kernel import Const

MAX_UNROLL = 16
MAX_NESTED_UNROLL = 2
MAX_SHORT = 6


def loop(machine: Machine, frame: Frame, state: State, stmt: ir.Loop) -> bool:
    if not execute.block(machine, frame, state, stmt.init) and stmt.kind != "each":
        return False
    outer = frame.breaks, frame.continues
    frame.breaks, frame.continues = [], []
    try:
        if stmt.kind == "each":
            return _each(machine, frame, state, stmt)
        machine.unrolling += 1
        try:
            unrolled = _unroll(machine, frame, state, stmt) if machine.unrolling <= MAX_NESTED_UNROLL else None
        finally:
            machine.unrolling -= 1
        return unrolled if unrolled is not None else _summarise(machine, frame, state, stmt)
    finally:
        frame.breaks, frame.continues = outer


def _unroll(machine: Machine, frame: Frame, state: State, stmt: ir.Loop) -> bool | None:
    """Runs a loop whose trips are decided, at most ``MAX_UNROLL``; None (nothing changed) when they are not."""
    if stmt.cond is None or not _worth_unrolling(machine, stmt):
        return None
    trial = state.copy()
    exits: list[State] = []
    mark = machine.mark()
    for trip in range(MAX_UNROLL + 1):
        if trip or stmt.kind == "while":
            test = execute.condition(machine, frame, trial, stmt.cond)
            if not isinstance(test, Const):
                break
            if not test.value:
                return execute.join_all(machine, frame, state, [trial, *exits], stmt.span.start)
        if trip == MAX_UNROLL:
            break
        alive = execute.block(machine, frame, trial, stmt.body)
        exits += frame.breaks
        pending = ([trial] if alive else []) + frame.continues
        frame.breaks, frame.continues = [], []
        if not execute.join_all(machine, frame, trial, pending, stmt.span.start, trip):
            return execute.join_all(machine, frame, state, exits, stmt.span.start)
        if stmt.step is not None:
            evaluate.value(machine, frame, trial, stmt.step)
    machine.rewind(mark)
    frame.breaks, frame.continues = [], []
    return None


def _worth_unrolling(machine: Machine, stmt: ir.Loop) -> bool:
    """Loops that may launch, and short ones without loops inside: the values of others do not reach launches."""
    known = machine.unrollable.get(stmt.span)
    if known is None:
        inside = [s for s in ir.walk(stmt.body) if not isinstance(s, ir.Block)]
        short = len(inside) <= MAX_SHORT and not any(isinstance(s, ir.Loop) for s in inside)
        exprs = (e for s in inside for x in ir.expressions(s) for e in ir.walk_expr(x))
        known = short or any(machine.may_launch(e, stmt.span.file) for e in exprs)
        machine.unrollable[stmt.span] = known
    return known


def _each(machine: Machine, frame: Frame, state: State, stmt: ir.Loop) -> bool:
    """A range loop: over the items of a known array, else over one unknown element."""
    element = stmt.init.stmts[0] if stmt.init.stmts else None
    over = evaluate.value(machine, frame, state, stmt.cond) if stmt.cond is not None else None
    if isinstance(over, Array) and len(over.items) <= MAX_UNROLL and isinstance(element, ir.Declare):
        exits: list[State] = []
        for item in over.items:
            frame.declared[element.slot] = element
            state.vars[(frame.id, element.slot)] = objects.converted(machine, frame, element, item)
            alive = execute.block(machine, frame, state, stmt.body)
            exits += frame.breaks
            pending = ([state.copy()] if alive else []) + frame.continues
            frame.breaks, frame.continues = [], []
            if not execute.join_all(machine, frame, state, pending, stmt.span.start):
                break
        return execute.join_all(machine, frame, state, [state.copy(), *exits], stmt.span.start)
    return _summarise(machine, frame, state, stmt)


def _summarise(machine: Machine, frame: Frame, state: State, stmt: ir.Loop) -> bool:
    """Any number of trips: what the loop assigns is unknown before, during and after."""
    if stmt.kind == "while" and stmt.cond is not None:
        test = execute.condition(machine, frame, state, stmt.cond)
        if isinstance(test, Const) and not test.value and not machine.exploring:
            return True
    changed = assigned(machine, frame, state, stmt)
    if _inert(machine, frame, state, stmt):
        _forget_all(machine, frame, state, changed, "changes in a loop", stmt.span.end)
        return True
    before = state.copy()
    _forget_all(machine, frame, state, changed, "changes in a loop", stmt.span.start)
    inner = state.copy()
    if stmt.kind == "while" and stmt.cond is not None:
        execute.condition(machine, frame, inner, stmt.cond)
    alive = execute.block(machine, frame, inner, stmt.body)
    ends = ([inner] if alive else []) + frame.breaks + frame.continues
    frame.breaks, frame.continues = [], []
    if stmt.kind != "do":
        ends.append(before)
    if not ends:
        return False
    execute.join_all(machine, frame, state, ends, stmt.span.start)
    _forget_all(machine, frame, state, changed, "changes in a loop", stmt.span.end)
    return True


def _inert(machine: Machine, frame: Frame, state: State, stmt: ir.Loop) -> bool:
    """Whether all the loop does is change what ``assigned`` lists: it neither leaves the function, nor calls anything
    of the project, nor hands out what a callee could write."""
    calls = machine.inert.get(stmt.span, ())
    if stmt.span not in machine.inert:
        calls = _foreign_calls(machine, stmt)
        machine.inert[stmt.span] = calls
    if calls is None:
        return False
    given = (a for call in calls for a in call.args if isinstance(a, ir.Name))
    return not any(isinstance(_held(frame, state, a), Array | Ref | Closure) for a in given)


def _held(frame: Frame, state: State, name: ir.Name) -> Value | None:
    alias = frame.aliases.get(name.slot) if name.slot else None
    return state.vars.get(alias.key if alias is not None else (frame.id, name.slot) if name.slot else ("", name.name))


def _foreign_calls(machine: Machine, stmt: ir.Loop) -> tuple[ir.Call, ...] | None:
    """The calls of a loop when all are of plain functions the project does not define; None otherwise."""
    found: list[ir.Call] = []
    for inner in ir.walk(stmt):
        if isinstance(inner, ir.Return) or (isinstance(inner, ir.Jump) and inner.kind not in ("break", "continue")):
            return None
        for top in ir.expressions(inner):
            for item in ir.walk_expr(top):
                if isinstance(item, ir.Launch | ir.Lambda):
                    return None
                if not isinstance(item, ir.Call):
                    continue
                plain = isinstance(item.callee, ir.Name) and not item.callee.slot
                name = item.name.rpartition("::")[2]
                if not plain or name in machine.project.functions or name in machine.project.macros:
                    return None
                if api.plain(name) in _EFFECTS:
                    return None
                found.append(item)
    return tuple(found)


_EFFECTS = frozenset(api.LAUNCHES) | frozenset(api.ALLOCATIONS) | api.SET_ATTRIBUTE | {"cuModuleGetFunction", "swap"}


def _forget_all(
    machine: Machine, frame: Frame, state: State, changed: list[Place], reason: str, *words: object
) -> None:
    for where in changed:
        if where.key in state.vars:
            places.forget(machine, frame, state, where, reason, *words)


def assigned(machine: Machine, frame: Frame, state: State, loop: ir.Loop) -> list[Place]:
    """Variables (whole or members) that an execution of the loop may write, declared outside it."""
    found: dict[Place, None] = {}
    exprs = [e for stmt in ir.walk(loop) for e in ir.expressions(stmt)]
    while exprs:
        for item in ir.walk_expr(exprs.pop()):
            match item:
                case ir.Assign(target=target):
                    _add(machine, frame, found, target)
                case ir.Unary(op=op, operand=operand) if "x" in op or op == "&":
                    _add(machine, frame, found, operand)
                case ir.Binary(op=">>", right=right):
                    _add(machine, frame, found, right)
                case ir.Lambda(function=function):
                    exprs += [e for s in ir.walk(function.body) for e in ir.expressions(s)]
                case ir.Call(callee=callee, args=args):
                    for at in machine.reference_positions(item.name, len(args)):
                        _add(machine, frame, found, args[at])
                    if isinstance(callee, ir.Member):
                        _add(machine, frame, found, callee.base)
                    elif isinstance(callee, ir.Name) and callee.slot:
                        held = state.vars.get((frame.id, callee.slot))
                        if isinstance(held, Closure):
                            exprs += [e for s in ir.walk(held.function.body) for e in ir.expressions(s)]
    return list(found)


def _add(machine: Machine, frame: Frame, found: dict[Place, None], target: ir.Expr) -> None:
    path: list[str] = []
    while isinstance(target, ir.Member | ir.Index | ir.Cast):
        path = [target.name, *path] if isinstance(target, ir.Member) and not target.arrow else []
        target = target.operand if isinstance(target, ir.Cast) else target.base
    if isinstance(target, ir.Name):
        key = (frame.id, target.slot) if target.slot else ("", target.name)
        place = frame.aliases.get(target.slot, Place(key)) if target.slot else Place(key)
        found.setdefault(Place(place.key, (*place.path, *path)))
