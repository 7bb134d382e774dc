"""Execution of host statements in an abstract state: branches join, loops forget or unroll, returns collect.

Guarantees: a value that is a ``Const`` after a statement is so on every execution that passes it; a loop whose trips
are not known, or are more than ``MAX_UNROLL``, leaves everything it assigns unknown.
"""

from __future__ import annotations

from prelaunch.analysis.hostir import calls, evaluate, fold, ir, objects, places
from prelaunch.analysis.hostir.fold import TooLarge
from prelaunch.analysis.hostir.machine import MAX_RECURSION, Frame, Machine
from prelaunch.analysis.hostir.values import (
    Array,
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

MAX_UNROLL = 16
MAX_NESTED_UNROLL = 2
MAX_SHORT = 6


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
            return _loop(machine, frame, state, stmt)
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
    return _join_all(machine, frame, state, ends, stmt.span.start)


def _join_all(machine: Machine, frame: Frame, state: State, ends: list[State], *origin: object) -> bool:
    if not ends:
        return False
    merged = ends[0]
    for index, other in enumerate(ends[1:]):
        cond = machine.number(BOOL, "", "branch", *frame.origin("join", index, *origin))
        merged = join(cond, merged, other)
    state.become(merged)
    return True


# --- loops ---------------------------------------------------------------------------------------------------------


def _loop(machine: Machine, frame: Frame, state: State, stmt: ir.Loop) -> bool:
    if not block(machine, frame, state, stmt.init) and stmt.kind != "each":
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
            test = condition(machine, frame, trial, stmt.cond)
            if not isinstance(test, Const):
                break
            if not test.value:
                return _join_all(machine, frame, state, [trial, *exits], stmt.span.start)
        if trip == MAX_UNROLL:
            break
        alive = block(machine, frame, trial, stmt.body)
        exits += frame.breaks
        pending = ([trial] if alive else []) + frame.continues
        frame.breaks, frame.continues = [], []
        if not _join_all(machine, frame, trial, pending, stmt.span.start, trip):
            return _join_all(machine, frame, state, exits, stmt.span.start)
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
            state.vars[(frame.id, element.slot)] = item
            alive = block(machine, frame, state, stmt.body)
            exits += frame.breaks
            pending = ([state.copy()] if alive else []) + frame.continues
            frame.breaks, frame.continues = [], []
            if not _join_all(machine, frame, state, pending, stmt.span.start):
                break
        return _join_all(machine, frame, state, [state.copy(), *exits], stmt.span.start)
    return _summarise(machine, frame, state, stmt)


def _summarise(machine: Machine, frame: Frame, state: State, stmt: ir.Loop) -> bool:
    """Any number of trips: what the loop assigns is unknown before, during and after."""
    if stmt.kind == "while" and stmt.cond is not None:
        test = condition(machine, frame, state, stmt.cond)
        if isinstance(test, Const) and not test.value and not machine.exploring:
            return True
    changed = assigned(machine, frame, state, stmt)
    before = state.copy()
    _forget_all(machine, frame, state, changed, "changes in a loop", stmt.span.start)
    inner = state.copy()
    if stmt.kind == "while" and stmt.cond is not None:
        condition(machine, frame, inner, stmt.cond)
    alive = block(machine, frame, inner, stmt.body)
    ends = ([inner] if alive else []) + frame.breaks + frame.continues
    frame.breaks, frame.continues = [], []
    if stmt.kind != "do":
        ends.append(before)
    if not ends:
        return False
    _join_all(machine, frame, state, ends, stmt.span.start)
    _forget_all(machine, frame, state, changed, "changes in a loop", stmt.span.end)
    return True


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
