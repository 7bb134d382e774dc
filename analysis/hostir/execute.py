"""Execution of host statements in an abstract state: branches join, loops forget or unroll, returns collect.

Guarantees: a value that is a ``Const`` after a statement is so on every execution that passes it.
"""

from __future__ import annotations

from prelaunch.analysis.hostir import calls, evaluate, fold, ir, loops, objects, places
from prelaunch.analysis.hostir.fold import TooLarge
from prelaunch.analysis.hostir.machine import MAX_RECURSION, Frame, Machine
from prelaunch.analysis.hostir.values import (
    Closure,
    Place,
    State,
    Symbol,
    Value,
    join,
    merge,
    number,
)
from prelaunch.analysis.kernel import BOOL, Const, Expr


def body(machine: Machine, frame: Frame, state: State, keep: bool = False) -> Value | None:
    """Executes the frame's function; ``state`` becomes the state after it. The returned value, None for none.

    Raises calls.Ended when no execution returns. ``keep``: the frame's variables live on (a lambda in its function).
    """
    machine.frames[frame.id] = frame
    alive = block(machine, frame, state, frame.function.body)
    if alive:
        frame.exits.append((state.copy(), None))
    machine.executed.add(frame.function.span)
    if not frame.exits:
        raise calls.Ended
    merged, value = frame.exits[0]
    for other, result in frame.exits[1:]:
        cond = machine.number(BOOL, "", "branch", *frame.origin("exit", repr(result)))
        merged = join(cond, merged, other)
        if value is None or result is None:
            value = value if result is None else result
        elif value != result:
            value = merge(cond, value, result, frame.origin("return"))
    if not keep:
        _pending_closures(machine, frame, merged)
        for key in [k for k in merged.vars if k[0] == frame.id]:
            del merged.vars[key]
    state.become(merged)
    if value is not None and frame.function.returns not in ("auto", ""):
        value = objects.convert(machine, frame, value, frame.function.returns)
    return value


def _pending_closures(machine: Machine, frame: Frame, state: State) -> None:
    """Lambdas of the frame that nothing called are executed once with unknown arguments, for their launches."""
    for key, held in list(state.vars.items()):
        if key[0] == frame.id and isinstance(held, Closure) and held.function.span not in machine.executed:
            try:
                calls.run_closure(machine, frame, state.copy(), held, None, held.function.span)
            except calls.Ended:
                continue


def block(machine: Machine, frame: Frame, state: State, stmts: ir.Block) -> bool:
    """Executes statements in order; False when no execution reaches the end."""
    alive = True
    for stmt in stmts.stmts:
        alive = statement(machine, frame, state, stmt) and alive
        if not alive and not machine.exploring:
            break
    return alive


def statement(machine: Machine, frame: Frame, state: State, stmt: ir.Stmt) -> bool:
    machine.step()
    if machine.depth > MAX_RECURSION:
        return True
    machine.depth += 1
    try:
        return _statement(machine, frame, state, stmt)
    except calls.Ended:
        return False
    except TooLarge:
        return True
    finally:
        machine.depth -= 1


def _statement(machine: Machine, frame: Frame, state: State, stmt: ir.Stmt) -> bool:
    match stmt:
        case ir.Block():
            return block(machine, frame, state, stmt)
        case ir.Declare():
            _declare(machine, frame, state, stmt)
            return True
        case ir.Evaluate(expr=ir.Call() as call):
            calls.call(machine, frame, state, call, used=False)
            return True
        case ir.Evaluate(expr=expr):
            evaluate.value(machine, frame, state, expr)
            return True
        case ir.If():
            return _if(machine, frame, state, stmt)
        case ir.Loop():
            return loops.loop(machine, frame, state, stmt)
        case ir.Switch():
            return _switch(machine, frame, state, stmt)
        case ir.Return(expr=expr):
            held = evaluate.value(machine, frame, state, expr) if expr is not None else None
            frame.exits.append((state.copy(), held))
            return False
        case ir.Jump(kind=kind):
            if kind == "break":
                frame.breaks.append(state.copy())
            elif kind == "continue":
                frame.continues.append(state.copy())
            return False


def _declare(machine: Machine, frame: Frame, state: State, stmt: ir.Declare) -> None:
    frame.declared[stmt.slot] = stmt
    frame.aliases.pop(stmt.slot, None)
    if stmt.reference and stmt.init is not None:
        where = places.place(machine, frame, state, stmt.init)
        if where is not None and where.key in state.vars:
            frame.aliases[stmt.slot] = where
            return
    held = objects.declared_value(machine, frame, state, stmt)
    if stmt.static and not stmt.const:
        state.vars[(frame.id, stmt.slot)] = held
        places.forget(machine, frame, state, Place((frame.id, stmt.slot)), "static variable")
        return
    state.vars[(frame.id, stmt.slot)] = held


# --- branches ------------------------------------------------------------------------------------------------------


def condition(machine: Machine, frame: Frame, state: State, expr: ir.Expr) -> Expr:
    """The truth of ``expr``: constant, or a symbol that names it."""
    held = evaluate.value(machine, frame, state, expr)
    try:
        return fold.truth(number(held))
    except TooLarge:
        return machine.number(BOOL, "", "branch", *frame.origin(expr.span.start))


def _if(machine: Machine, frame: Frame, state: State, stmt: ir.If) -> bool:
    test = condition(machine, frame, state, stmt.cond)
    if isinstance(test, Const):
        if machine.exploring:
            block(machine, frame, state.copy(), stmt.orelse if test.value else stmt.then)
        return block(machine, frame, state, stmt.then if test.value else stmt.orelse)
    sides = []
    for branch, holds in ((stmt.then, True), (stmt.orelse, False)):
        inner = state.copy()
        restored = _assume(machine, frame, inner, stmt.cond, holds)
        alive = block(machine, frame, inner, branch)
        for place, before, assumed in restored:
            if inner.vars.get(place.key) == assumed:
                inner.vars[place.key] = before
        sides.append(inner if alive else None)
    return _merge_sides(state, test, sides[0], sides[1])


def _merge_sides(state: State, test: Expr, then: State | None, orelse: State | None) -> bool:
    if then is None and orelse is None:
        return False
    if then is None or orelse is None:
        state.become(then or orelse or state)
        return True
    state.become(join(test, then, orelse))
    return True


def _assume(
    machine: Machine, frame: Frame, state: State, cond: ir.Expr, holds: bool
) -> list[tuple[Place, Value, Value]]:
    """``x == 256`` (and conjunctions of such) makes ``x`` known in the branch: (variable, before, inside)."""
    found: list[tuple[Place, Value, Value]] = []
    pending = [cond]
    while pending:
        test = pending.pop()
        if isinstance(test, ir.Binary) and test.op == ("&&" if holds else "||"):
            pending += [test.left, test.right]
            continue
        if not isinstance(test, ir.Binary) or test.op != ("==" if holds else "!="):
            continue
        for side, other in ((test.left, test.right), (test.right, test.left)):
            made = equate(machine, frame, state, side, other)
            if made is not None:
                found.append(made)
                break
    return found


def equate(
    machine: Machine, frame: Frame, state: State, side: ir.Expr, other: ir.Expr
) -> tuple[Place, Value, Value] | None:
    """Gives the plain variable ``side`` the constant ``other`` evaluates to."""
    if not isinstance(side, ir.Name) or not side.slot:
        return None
    where = places.place(machine, frame, state, side)
    if where is None or where.path:
        return None
    before = state.vars.get(where.key)
    value = evaluate.value(machine, frame, state, other)
    if before is None or not isinstance(value, Const) or isinstance(before, Const):
        return None
    kept = value
    if not isinstance(before, Symbol):
        converted = fold.cast(value, number(before).type)
        if not isinstance(converted, Const):
            return None
        kept = converted
    state.vars[where.key] = kept
    return where, before, kept


def _switch(machine: Machine, frame: Frame, state: State, stmt: ir.Switch) -> bool:
    """Each label's path runs to its ``break``; unknown selectors join all of them."""
    selector = number(evaluate.value(machine, frame, state, stmt.cond))
    labels = [number(evaluate.value(machine, frame, state, v)) if v is not None else None for v, _ in stmt.cases]
    default = next((i for i, (v, _) in enumerate(stmt.cases) if v is None), None)
    entries: list[int | None] = [*range(len(stmt.cases))]
    if default is None:
        entries.append(None)
    if isinstance(selector, Const):
        matching = [i for i, v in enumerate(labels) if isinstance(v, Const) and v.value == selector.value]
        if matching or all(isinstance(v, Const) for v in labels if v is not None):
            entries = [*entries] if machine.exploring else [matching[0] if matching else default]
    outer, frame.breaks = frame.breaks, []
    ends: list[State] = []
    for entry in entries:
        inner = state.copy()
        if entry is None:
            ends.append(inner)
            continue
        value = stmt.cases[entry][0]
        restored = equate(machine, frame, inner, stmt.cond, value) if value is not None else None
        alive = True
        for _, part in stmt.cases[entry:]:
            alive = block(machine, frame, inner, part)
            if not alive:
                break
        after = [inner] if alive else []
        after += frame.breaks
        frame.breaks = []
        for end in after:
            if restored is not None and end.vars.get(restored[0].key) == restored[2]:
                end.vars[restored[0].key] = restored[1]
        ends += after
    frame.breaks = outer
    return join_all(machine, frame, state, ends, stmt.span.start)


def join_all(machine: Machine, frame: Frame, state: State, ends: list[State], *origin: object) -> bool:
    if not ends:
        return False
    merged = ends[0]
    for index, other in enumerate(ends[1:]):
        cond = machine.number(BOOL, "", "branch", *frame.origin("join", index, *origin))
        merged = join(cond, merged, other)
    state.become(merged)
    return True
