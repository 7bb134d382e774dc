"""From host code to launches: every root function is executed abstractly, what was launched becomes ``Launch``.

Guarantees: every launch that the text of a host function, kernel, lambda or used macro contains yields at least one
``Launch``; a number in it is what host code passes on every execution of that path of callers; the result is ordered
by file and offset and does not depend on anything but the project.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project
from prelaunch.analysis.hostir import api, bindings, calls, evaluate, execute, fold, ir, linkage, reach
from prelaunch.analysis.hostir.checks import Checks
from prelaunch.analysis.hostir.machine import MAX_CONTEXTS, Exhausted, Frame, Machine, Seen
from prelaunch.analysis.hostir.values import NUMBERS, Memory, Place, Record, State, Value, conditions, identity, number
from prelaunch.analysis.kernel import BOOL, I64, U64, Const, Expr, Pointer, PtrAdd, Select, Var
from prelaunch.analysis.launch import COMBINED, Launch, Relation
from prelaunch.analysis.walk import walk_expr

MAX_VARIANTS = 4


def find_launches(project: Project) -> tuple[Launch, ...]:
    """All launches of the project."""
    machine = Machine(project)
    machine.words = reach.words(project)
    graph = reach.graph(project)
    machine.reaching = graph.reaching
    for root in graph.roots:
        execute_root(machine, root)
    for function in graph.direct:
        if machine.host_function(function).span not in machine.executed:
            execute_root(machine, function)
    _explore(machine, graph.direct)
    checks = Checks(project, reach.querying(project, machine.words))
    return _collect(machine, checks)


def _explore(machine: Machine, functions: tuple[FunctionDecl, ...]) -> None:
    """Launches nothing has reached so far: both sides of decided branches run; what is left is read as text."""
    machine.exploring = True
    for decl in functions:
        function = machine.host_function(decl)
        seen = {s.span for s in machine.seen}
        if all(e.span in seen for e in _sites(function)):
            continue
        execute_root(machine, decl)
        seen = {s.span for s in machine.seen}
        machine.steps = 0
        for site in _sites(function):
            if site.span in seen:
                continue
            with suppress(Exhausted, calls.Ended):  # an argument may leave the program before the launch
                evaluate.value(machine, Frame(machine.frame_id(), function), State(), site)
    machine.exploring = False


def _sites(function: ir.HostFunction) -> list[ir.Expr]:
    """Launches in a function's text, those in its lambdas included."""
    found: list[ir.Expr] = []
    bodies = [function.body]
    while bodies:
        for stmt in ir.walk(bodies.pop()):
            for expr in ir.expressions(stmt):
                for item in ir.walk_expr(expr):
                    if isinstance(item, ir.Launch) or (isinstance(item, ir.Call) and item.name in api.LAUNCHES):
                        found.append(item)
                    elif isinstance(item, ir.Lambda):
                        bodies.append(item.function.body)
    return found


def execute_root(machine: Machine, decl: FunctionDecl) -> None:
    """Executes ``decl`` with parameters nothing is known of."""
    function = machine.host_function(decl)
    this = Place(("", f"*{function.record}")) if function.record else None
    frame = Frame(machine.frame_id(), function, this=this)
    state = State()
    machine.steps, machine.depth = 0, 0
    try:
        bindings.bind_templates(machine, state, frame, ())
        for parameter in function.parameters:
            frame.declared[parameter.slot] = parameter
            state.vars[(frame.id, parameter.slot)] = bindings.parameter_unknown(machine, frame, parameter)
        execute.body(machine, frame, state)
    except (Exhausted, calls.Ended):
        pass
    finally:
        machine.executed.add(function.span)
        machine.frames.clear()


# --- from what was seen to launches --------------------------------------------------------------------------------


def _collect(machine: Machine, checks: Checks) -> tuple[Launch, ...]:
    found: dict[tuple[object, ...], Launch] = {}
    per_site: dict[tuple[str, int, int], int] = {}
    for seen in machine.seen:
        used = checks.used(seen.function, seen.span)
        for variant in _variants(replace(seen, used=used and seen.form != "<<<>>>")):
            launch = _launch(machine, checks, variant)
            key = _key(launch)
            old = found.get(key)
            if old is not None:
                if launch.checked and not old.checked:
                    found[key] = replace(old, checked=True)
                continue
            site = (launch.span.file, launch.span.start, launch.span.end)
            per_site[site] = per_site.get(site, 0) + 1
            if per_site[site] <= MAX_CONTEXTS:
                found[key] = launch
    return tuple(sorted(found.values(), key=lambda x: (x.span.file, x.span.start, x.span.end)))


def _key(launch: Launch) -> tuple[object, ...]:
    """What tells two launches of one site apart: kernel instance and the numbers that are known."""
    numbers = (*launch.grid, *launch.block, launch.dynamic_smem, *launch.args, *(v for _, v in launch.attributes))
    known = tuple(e.value if isinstance(e, Const) else None for e in numbers)
    return (launch.span.file, launch.span.start, launch.span.end, launch.kernel, launch.template_args, known)


def _variants(seen: Seen) -> list[Seen]:
    """One launch per way through the branches its numbers depend on, ``MAX_VARIANTS`` at most, else ``seen`` itself.

    Ways that decide several independent conditions are noted: the code may never take them together.
    """
    leaves: list[Seen] = []
    pending = [(seen, 0)]
    while pending:
        item, decided = pending.pop()
        open_ = _conditions(item)
        if not open_:
            leaves.append(replace(item, notes=(*item.notes, COMBINED)) if decided > 1 else item)
        elif len(leaves) + len(pending) + 2 > MAX_VARIANTS:
            return [seen]
        else:
            sides = [_decide(item, open_[0], value) for value in (0, 1)]
            nested = any(not _conditions(side) for side in sides)
            pending += [(side, decided + (not nested or not _conditions(side))) for side in sides]
    return leaves


def _conditions(seen: Seen) -> list[Expr]:
    dims = [number(v) for r in (seen.grid, seen.block) for _, v in r.fields]
    return conditions([*dims, seen.smem, *(v for _, v, _ in seen.attributes)])


def _decide(seen: Seen, cond: Expr, value: int) -> Seen:
    """``seen`` where ``cond`` has this truth value."""
    truth = Const(value, BOOL)

    def put(expr: Expr) -> Expr:
        return fold.substitute(expr, cond, truth) if any(isinstance(e, Select) for e in walk_expr(expr)) else expr

    def fields(record: Record) -> tuple[tuple[str, Value], ...]:
        return tuple((k, put(number(v))) for k, v in record.fields)

    return replace(
        seen,
        grid=replace(seen.grid, fields=fields(seen.grid)),
        block=replace(seen.block, fields=fields(seen.block)),
        smem=put(seen.smem),
        args=tuple(put(a) if isinstance(a, NUMBERS) else a for a in seen.args),
        attributes=tuple((k, put(v), s) for k, v, s in seen.attributes),
    )


def _launch(machine: Machine, checks: Checks, seen: Seen) -> Launch:
    grid, block = (tuple(number(r.get(a) or Const(1, U64)) for a in "xyz") for r in (seen.grid, seen.block))
    kernel = linkage.kernel_named(machine.project, seen.kernel.name, seen.span.file, len(seen.args))
    attributes, notes = _attributes(machine, seen)
    args = tuple(_argument(a) for a in seen.args)
    if kernel is not None and not args and kernel.parameters:
        args = (None,) * len(kernel.parameters)
    notes = (*seen.notes, *notes, *_reasons(machine, grid, block, seen))
    return Launch(
        kernel.qualified if kernel is not None else seen.kernel.name,
        seen.kernel.template_args,
        seen.form,
        (grid[0], grid[1], grid[2]),
        (block[0], block[1], block[2]),
        seen.smem,
        args,
        seen.span,
        seen.function.name,
        (*(s for side in seen.dims for s in side), seen.span),
        attributes,
        _relations(seen),
        tuple(s.span for s in seen.stack),
        checks.checked(seen),
        seen.cooperative,
        notes,
        *(tuple(dict.fromkeys(side)) for side in seen.dims),
    )


def _attributes(machine: Machine, seen: Seen) -> tuple[tuple[tuple[str, Expr], ...], tuple[str, ...]]:
    """Attributes on the path; else ones set for the kernel anywhere, with a note that says so."""
    found = tuple((name, value) for name, value, _ in seen.attributes)
    if any(name == "max_dynamic_smem" for name, _ in found):
        return found, ()
    simple = seen.kernel.name.rpartition("::")[2]
    wanted = ", ".join(seen.kernel.template_args)
    for name, args, amount, span, function in machine.attributes_set:
        if name == simple and (args == wanted or not args or not wanted):
            note = f"max_dynamic_smem is set in {function}() at {span.file}:{span.line}, not on this path"
            return (*found, ("max_dynamic_smem", amount)), (note,)
    return found, ()


def _reasons(machine: Machine, grid: tuple[Expr, ...], block: tuple[Expr, ...], seen: Seen) -> tuple[str, ...]:
    """Why a dimension is not a number."""
    found: list[str] = []
    for label, dims in (("grid", grid), ("block", block), ("shared memory", (seen.smem,))):
        for axis, expr in zip("xyz", dims, strict=False):
            reason = next((r for e in walk_expr(expr) if isinstance(e, Var) and (r := machine.reasons.get(e.id))), None)
            if reason is not None:
                found.append(f"{label}{'.' + axis if len(dims) > 1 else ''}: {reason}")
            elif not isinstance(expr, Const):
                found.append(f"{label}{'.' + axis if len(dims) > 1 else ''}: not decided")
    return tuple(found)


def _argument(value: Value | None) -> Expr | None:
    """An argument as an expression: numbers as they are, pointers as an offset from their allocation."""
    if isinstance(value, NUMBERS):
        return value
    if isinstance(value, Memory):
        kind = Pointer(value.element, value.name, "global" if value.space == "device" else "generic")
        base = Var(identity("allocation", value.allocation), value.name, kind)
        if isinstance(value.offset, Const) and value.offset.value == 0:
            return base
        return PtrAdd(base, value.offset, kind)
    return None


def _relations(seen: Seen) -> tuple[Relation, ...]:
    """Extents of pointer arguments, and which of them lie in one allocation."""
    found: list[Relation] = []
    pointers = [(i, a) for i, a in enumerate(seen.args) if isinstance(a, Memory)]
    for index, memory in pointers:
        if memory.extent is not None:
            left = _minus(memory.extent, memory.offset)
            if left is not None:
                found.append(Relation("extent", index, left, span=memory.made))
    for position, (index, memory) in enumerate(pointers):
        for other, second in pointers[position + 1 :]:
            if memory.allocation == second.allocation:
                found.append(Relation("overlaps", index, other=other, span=seen.span))
    return tuple(found)


def _minus(extent: Expr, offset: Expr) -> Expr | None:
    if isinstance(offset, Const) and offset.value == 0:
        return extent
    try:
        return fold.binary("sub", fold.cast(extent, I64), offset)
    except fold.TooLarge:
        return None


# --- which kernel --------------------------------------------------------------------------------------------------


def resolve_kernel(project: Project, launch: Launch) -> FunctionDecl | None:
    """The kernel a launch starts: the definition seen from the launch's file that takes this many arguments."""
    return linkage.kernel_named(project, launch.kernel, launch.span.file, len(launch.args))
