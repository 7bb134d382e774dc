"""Launches during host execution: each form's grid, block, shared memory and arguments as values."""

from __future__ import annotations

from dataclasses import replace

from prelaunch.analysis.hostir import api, calls, deduction, evaluate, fold, ir
from prelaunch.analysis.hostir.machine import Frame, Machine, Seen, read
from prelaunch.analysis.hostir.values import (
    Array,
    Function,
    Record,
    Ref,
    State,
    Symbol,
    Value,
    dim3,
    functions,
    number,
)
from prelaunch.analysis.kernel import I32, U32, U64, Const, Expr
from prelaunch.analysis.launch import UNREACHED
from prelaunch.analysis.source import Span


def launch(machine: Machine, frame: Frame, state: State, expr: ir.Launch) -> Value:
    """``kernel<<<grid, block, smem, stream>>>(args)``."""
    config = calls.arguments(machine, frame, state, expr.config)
    args = calls.arguments(machine, frame, state, expr.args)
    one = Const(1, U32)
    grid, block = (dim3(config[i]) if i < len(config) else dim3(one) for i in (0, 1))
    smem = fold.cast(number(config[2]), U64) if len(config) > 2 else Const(0, U64)
    spans = tuple(tuple(_declared_at(frame, e)) for e in expr.config[:2])
    for named in _kernels(machine, frame, state, expr.callee):
        kernel = deduction.complete(machine, frame, named, expr.args)
        record(machine, frame, state, Seen(
            "<<<>>>", kernel, grid, block, smem, tuple(args), expr.span, frame.function, frame.stack, dims=spans,
        ))  # fmt: skip
    return machine.symbol("void", "launch", *frame.origin(expr.span.start))


def _declared_at(frame: Frame, expr: ir.Expr) -> list[Span]:
    """Where the variables in a launch dimension are declared."""
    found = [
        frame.declared[e.slot].span for e in ir.walk_expr(expr) if isinstance(e, ir.Name) and e.slot in frame.declared
    ]
    return list(dict.fromkeys(found))


def _kernels(machine: Machine, frame: Frame, state: State, callee: ir.Expr) -> tuple[Function, ...]:
    """The kernels a launch can start; a name nothing is known of stands for itself."""
    if isinstance(callee, ir.Name) and not callee.slot:
        held = state.vars.get(("", callee.name))
        if held is None or not functions(held):
            return (Function(callee.name, calls.print_arguments(machine, frame, state, callee), frame.function.file),)
    found = functions(evaluate.value(machine, frame, state, callee))
    if found:
        return found
    name = callee.name if isinstance(callee, ir.Name) else callee.name if isinstance(callee, ir.Member) else "?"
    return (Function(name, (), frame.function.file),)


def record(machine: Machine, frame: Frame, state: State, seen: Seen) -> None:
    name = seen.kernel.name.rpartition("::")[2]
    wanted = ", ".join(seen.kernel.template_args)
    found = [(k, v) for k, v in state.attributes.items() if k[0] == name and (k[1] == wanted or not k[1] or not wanted)]
    attributes = tuple(("max_dynamic_smem", amount, span) for _, (amount, span) in found[-1:])
    notes = (UNREACHED,) if machine.exploring else ()
    machine.seen.append(replace(seen, attributes=attributes + seen.attributes, notes=notes))


def launch_call(
    machine: Machine, frame: Frame, state: State, expr: ir.Call, row: api.LaunchCall, args: list[Value]
) -> Value:
    def at(index: int | None) -> Value | None:
        return args[index] if index is not None and index < len(args) else None

    kernels = functions(at(row.kernel) or Const(0, I32))
    if not kernels and row.kernel < len(expr.args):
        inner = expr.args[row.kernel]
        while isinstance(inner, ir.Cast | ir.Unary):
            inner = inner.operand
        name = inner.name if isinstance(inner, ir.Name) else inner.name if isinstance(inner, ir.Member) else "?"
        kernels = (Function(name, (), frame.function.file),)
    grid, block, smem, cooperative, extra = _configuration(machine, frame, state, expr, row, args)
    passed = tuple(args[2:]) if row.variadic else _pointed(state, at(row.args))
    spans = tuple(
        tuple(s for i in side if i < len(expr.args) for s in _declared_at(frame, expr.args[i]))
        for side in (row.grid, row.block)
    )
    for kernel in kernels:
        record(machine, frame, state, Seen(
            row.form, kernel, grid, block, smem, passed, expr.span, frame.function, frame.stack, extra, spans,
            cooperative or row.cooperative,
        ))  # fmt: skip
    return calls.result(machine, frame, expr)


def _configuration(
    machine: Machine, frame: Frame, state: State, expr: ir.Call, row: api.LaunchCall, args: list[Value]
) -> tuple[Record, Record, Expr, bool, tuple[tuple[str, Expr, Span], ...]]:
    """(grid, block, shared memory, cooperative, attributes) of a launch function."""
    if row.config is None:
        grid, block = (_dims([args[i] for i in side if i < len(args)]) for side in (row.grid, row.block))
        smem = args[row.smem] if row.smem is not None and row.smem < len(args) else Const(0, U64)
        return grid, block, fold.cast(number(smem), U64), False, ()
    held = args[row.config] if row.config < len(args) else Symbol(0, "config")
    config = read(state.vars.get(held.place.key), held.place.path) if isinstance(held, Ref) else held
    if not isinstance(config, Record):
        name = getattr(config, "name", "") or "config"
        symbols = [
            machine.symbol(f"{name}.{f}", "launch configuration", repr(config), f) for f in ("gridDim", "blockDim")
        ]
        smem = machine.number(U64, f"{name}.dynamicSmemBytes", "launch configuration", repr(config))
        return dim3(symbols[0]), dim3(symbols[1]), smem, False, ()
    dims = []
    for field in ("gridDim", "blockDim"):
        whole = config.get(field)
        axes = [config.get(f"{field}{a}") for a in "XYZ"]
        dims.append(_dims([a for a in axes if a is not None]) if whole is None else dim3(whole))
    shared = next((v for f in api.CONFIG_FIELDS["smem"] if (v := config.get(f)) is not None), Const(0, U64))
    cooperative, extra = _attributes(state, config, expr.span)
    return dims[0], dims[1], fold.cast(number(shared), U64), cooperative, extra


def _dims(values: list[Value]) -> Record:
    if len(values) == 1:
        return dim3(values[0])
    one = Const(1, U32)
    cast = [fold.cast(number(v), U32) for v in values] + [one] * 3
    return Record("dim3", tuple(zip("xyz", cast[:3], strict=True)))


def _attributes(state: State, config: Record, span: Span) -> tuple[bool, tuple[tuple[str, Expr, Span], ...]]:
    """Launch attributes of a configuration record: cooperative, and the cluster's dims."""
    held = config.get("attrs")
    if isinstance(held, Ref):
        held = read(state.vars.get(held.place.key), held.place.path)
    items = held.items if isinstance(held, Array) else (held,) if isinstance(held, Record) else ()
    cooperative = False
    found: list[tuple[str, Expr, Span]] = []
    for item in items:
        chosen = read(item, ("val",))
        if not isinstance(chosen, Record):
            continue
        flag, cluster = chosen.get("cooperative"), chosen.get("clusterDim")
        cooperative = cooperative or (isinstance(flag, Const) and bool(flag.value))
        if isinstance(cluster, Record):
            found += [(f"cluster.{a}", number(v), span) for a in "xyz" if (v := cluster.get(a)) is not None]
    return cooperative, tuple(found)


def _pointed(state: State, held: Value | None) -> tuple[Value | None, ...]:
    """Kernel arguments behind a ``void**``."""
    if isinstance(held, Ref):
        held = read(state.vars.get(held.place.key), held.place.path)
    if not isinstance(held, Array):
        return ()
    return tuple(read(state.vars.get(i.place.key), i.place.path) if isinstance(i, Ref) else None for i in held.items)
