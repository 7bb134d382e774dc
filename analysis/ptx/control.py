"""Functions to basic blocks: branches, calls, exits, barriers; straight instructions come from the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx import floating, integer, memops, warp
from prelaunch.analysis.ptx.machine import Arrival, BasicBlock, Code, Frame, Machine, Stop
from prelaunch.analysis.ptx.memory import CODE_BASE
from prelaunch.analysis.ptx.module import Function, Imm, Instruction, Module, Not, Operand, Reg, Sym
from prelaunch.analysis.ptx.values import Getter, Lanes, Step, Unsupported, getter, per_lane, setter

End = Callable[[Machine, Frame, Lanes], None]
TERMINATORS = frozenset({"bra", "brx", "ret", "exit", "call", "trap", "bar", "barrier"})
NO_EFFECT = frozenset(
    {"membar", "fence", "prefetch", "prefetchu", "nanosleep", "pmevent", "discard", "applypriority", "brkpt",
     "griddepcontrol", "setmaxnreg"}
)  # fmt: skip
MAX_BLOCK = 4096


def compile_function(module: Module, function: Function) -> Code:
    """Blocks of ``function``. Raises ``Unsupported`` only for what cannot be delayed: an instruction that is not
    modelled becomes a step that stops the execution when it is reached."""
    code = Code(function)
    instructions = function.code
    leaders = {0, *function.labels.values()}
    for pc, ins in enumerate(instructions):
        if is_terminator(ins):
            leaders.add(pc + 1)
    starts = sorted(pc for pc in leaders if pc < len(instructions))
    for start, following in zip(starts, [*starts[1:], len(instructions)], strict=True):
        last = instructions[following - 1]
        body = instructions[start : following - 1] if is_terminator(last) else instructions[start:following]
        steps = [_guarded_step(ins) for ins in body if not _is_nothing(ins)]
        end = terminator(module, function, following - 1) if is_terminator(last) else _go_on(following)
        code.blocks[start] = BasicBlock(start, steps, end, following - start)
    code.blocks[len(instructions)] = BasicBlock(len(instructions), [], _return, 1)
    return code


def is_terminator(ins: Instruction) -> bool:
    return ins.parts[0] in TERMINATORS or warp.is_collective(ins)


def _is_nothing(ins: Instruction) -> bool:
    name = ins.parts[0]
    if name == "cp" and ins.parts[1] == "async" and len(ins.parts) > 2:
        return ins.parts[2] in ("commit_group", "wait_group", "wait_all")
    return name in NO_EFFECT


def _go_on(pc: int) -> End:
    return lambda m, f, at: m.push(f, pc, at)


def _guarded_step(ins: Instruction) -> Step:
    step = _plain_step(ins)
    guard = ins.guard
    if guard is None:
        return step
    index, negated = guard.index, ins.guard_negated

    def guarded(m: Machine, f: Frame, at: Lanes) -> None:
        holds = f.regs[index][at]
        some = m.subset(at, ~holds if negated else holds)
        if some is not None:
            step(m, f, some)

    return guarded


def _plain_step(ins: Instruction) -> Step:
    try:
        step = floating.build(ins) or memops.build(ins) or integer.build(ins) or warp.build(ins)
    except (Unsupported, KeyError, IndexError, ValueError):
        step = None
    if step is not None:
        return step
    opcode = ins.opcode[:80]

    def stop(m: Machine, f: Frame, at: Lanes) -> None:
        raise Stop("stopped", f"instruction {opcode} is not modelled")

    return stop


def terminator(module: Module, function: Function, pc: int) -> End:
    """What happens at the end of the block that instruction ``pc`` closes, its guard included."""
    ins = function.code[pc]
    end = _terminator(module, function, pc, ins)
    guard = ins.guard
    if guard is None:
        return end
    index, negated = guard.index, ins.guard_negated

    def guarded(m: Machine, f: Frame, at: Lanes) -> None:
        holds = f.regs[index][at]
        if negated:
            holds = ~holds
        taken, rest = m.subset(at, holds), m.subset(at, ~holds)
        if rest is not None:
            m.push(f, pc + 1, rest)
        if taken is not None:
            end(m, f, taken)

    return guarded


def _terminator(module: Module, function: Function, pc: int, ins: Instruction) -> End:
    try:
        match ins.parts[0]:
            case "bra":
                return _go_on(_label(function, ins.operands[0]))
            case "brx":
                return _indexed_branch(function, ins)
            case "ret":
                return _return
            case "exit":
                return lambda m, f, at: m.retire(at)
            case "trap":
                return lambda m, f, at: m.trap(at, place(m, f, ins), "trap", "a trap instruction was reached")
            case "call":
                return _call(module, pc, ins)
            case "bar" | "barrier" if not warp.is_collective(ins):
                return _barrier(pc, ins)
        return warp.terminator(pc, ins)
    except (Unsupported, KeyError, IndexError, ValueError):
        opcode = ins.opcode[:80]

    def stop(m: Machine, f: Frame, at: Lanes) -> None:
        raise Stop("stopped", f"instruction {opcode} is not modelled")

    return stop


def place(m: Machine, f: Frame, ins: Instruction) -> tuple[int, int]:
    """Where an instruction is written: its own line, or the call that led into a header."""
    return ins.loc if m.record.is_own(ins.loc[0]) else f.site


def _label(function: Function, operand: Operand) -> int:
    if not isinstance(operand, Sym) or operand.name not in function.labels:
        raise Unsupported("branch target")
    return function.labels[operand.name]


def _indexed_branch(function: Function, ins: Instruction) -> End:
    table = ins.operands[1]
    if not isinstance(table, Sym):
        raise Unsupported(ins.opcode)
    targets = [function.labels[name] for name in function.tables[table.name]]
    get = getter(ins.operands[0], "u32")

    def jump(m: Machine, f: Frame, at: Lanes) -> None:
        index = per_lane(get(m, f, at), m, at)
        for number in np.unique(index).tolist():
            some = m.subset(at, index == number)
            if number >= len(targets):
                raise Stop("stopped", "an indexed branch past its table")
            if some is not None:
                m.push(f, targets[number], some)

    return jump


def _return(m: Machine, f: Frame, at: Lanes) -> None:
    if f.parent is None:
        m.retire(at)
    else:
        m.push(f.parent, f.return_pc, at)


# --- calls ---


def _call(module: Module, pc: int, ins: Instruction) -> End:
    target = ins.operands[0]
    args = tuple(a.name for a in ins.args if isinstance(a, Sym))
    if len(args) != len(ins.args):
        raise Unsupported("call with arguments that are not parameters")
    if isinstance(target, Sym):
        function = module.functions.get(target.name)
        if function is not None and function.defined:
            return _enter(pc, ins, target.name, args)
        return _builtin(pc, ins, target.name, args)
    if isinstance(target, Reg):
        return _indirect(pc, ins, args)
    raise Unsupported(ins.opcode)


def _enter(pc: int, ins: Instruction, name: str, args: tuple[str, ...]) -> End:
    def enter(m: Machine, f: Frame, at: Lanes) -> None:
        code = m.codes(name)
        if code is None:
            raise Stop("stopped", f"call of {name[:60]}, which has no body")
        child = m.enter(f, pc, code, ins.returns, args, ins.loc)
        m.push(child, 0, at)

    return enter


def _indirect(pc: int, ins: Instruction, args: tuple[str, ...]) -> End:
    get = getter(ins.operands[0], "u64")

    def enter(m: Machine, f: Frame, at: Lanes) -> None:
        addresses = per_lane(get(m, f, at), m, at)
        targets = np.unique(addresses)
        if len(targets) > 1:
            raise Stop("stopped", "lanes call different functions through one pointer")
        number = (int(targets[0]) - CODE_BASE) // 16
        if not 0 <= number < len(m.function_names):
            raise Stop("stopped", "call through a pointer to no function")
        _enter(pc, ins, m.function_names[number], args)(m, f, at)

    return enter


def _builtin(pc: int, ins: Instruction, name: str, args: tuple[str, ...]) -> End:
    """Functions of the runtime without a body."""
    if name in ("__assertfail", "__assert_fail"):
        return lambda m, f, at: m.trap(at, place(m, f, ins), "assertion", "an assertion failed")
    if name == "vprintf":

        def printed(m: Machine, f: Frame, at: Lanes) -> None:
            if ins.returns:
                offset = f.bases[ins.returns[0]]
                m.local_views[4][at, offset // 4] = 0
            m.push(f, pc + 1, at)

        return printed
    raise Unsupported(f"call of {name}")


# --- block barriers ---


def _barrier(pc: int, ins: Instruction) -> End:
    """``bar``/``barrier`` ``.sync``, ``.arrive``, ``.red``; the thread count is a multiple of the warp size."""
    parts = [p for p in ins.parts if p not in ("cta", "aligned")]
    action = parts[1]
    if action not in ("sync", "arrive", "red"):
        raise Unsupported(ins.opcode)
    operands = list(ins.operands)
    put = predicate = None
    if action == "red":
        put = setter(operands.pop(0))
        last = operands.pop()
        if not isinstance(last, Reg | Not | Imm):
            raise Unsupported(ins.opcode)
        predicate = getter(last, "pred")
    number = getter(operands[0], "u32")
    count = getter(operands[1], "u32") if len(operands) > 1 else None
    return _barrier_end(pc, ins, action, number, count, put, predicate)


def _barrier_end(
    pc: int, ins: Instruction, action: str, number: Getter, count: Getter | None, put: Any, predicate: Getter | None
) -> End:
    reduce = ins.parts[2] if action == "red" and ins.parts[2] != "aligned" else ""
    if action == "red" and reduce not in ("popc", "and", "or"):
        reduce = next(p for p in ins.parts if p in ("popc", "and", "or"))

    def meet(m: Machine, f: Frame, at: Lanes) -> None:
        ids = per_lane(number(m, f, at), m, at)
        for identity in np.unique(ids).tolist():
            some = m.subset(at, ids == identity)
            if some is not None:
                one(m, f, some, identity)

    def one(m: Machine, f: Frame, at: Lanes, identity: int) -> None:
        here = place(m, f, ins)
        if identity > 15:
            m.record.problem("named-barrier-id", f"barrier {identity}: ids are 0 to 15", m.lane_ids[at], here)
            raise Stop("stopped", f"barrier id {identity} is out of range")
        expected = m.n if count is None else int(per_lane(count(m, f, at), m, at)[0])
        values = None if predicate is None else per_lane(predicate(m, f, at), m, at).copy()

        def resume(all_values: Any) -> None:
            if put is not None:
                put(m, f, at, _reduced(reduce, all_values))
            m.push(f, pc + 1, at)

        waits = action != "arrive"
        if not waits:
            m.push(f, pc + 1, at)
        arrival = Arrival(identity, m.lane_ids[at], expected, here, (f.serial, pc), resume if waits else None, values)
        m.arrive(arrival)

    return meet


def _reduced(reduce: str, values: Any) -> Any:
    if reduce == "popc":
        return np.uint32(np.count_nonzero(values))
    return np.bool_(values.all() if reduce == "and" else values.any())
