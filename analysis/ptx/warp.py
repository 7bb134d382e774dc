"""Warp-wide instructions: shuffles, votes, matches, reductions, warp barriers (PTX ISA, chapters 9.7.9.6 and 9.7.13).

Lanes wait until every lane of their mask that has not exited is at the same instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx.machine import Frame, Machine
from prelaunch.analysis.ptx.memory import UNSIGNED
from prelaunch.analysis.ptx.module import Imm, Instruction, Pair
from prelaunch.analysis.ptx.values import Array, Getter, Lanes, Step, Unsupported, getter, per_lane, setter

End = Callable[[Machine, Frame, Lanes], None]
Body = Callable[[Machine, Frame, Lanes, Array], None]
"""Runs the operation for lanes whose warps are complete; the last argument is each lane's mask."""


def is_collective(ins: Instruction) -> bool:
    """Instructions that wait for the lanes of a mask."""
    name = ins.parts[0]
    if name in ("shfl", "vote", "match", "redux", "elect"):
        return "sync" in ins.parts
    return name in ("bar", "barrier") and len(ins.parts) > 1 and ins.parts[1] == "warp"


def build(ins: Instruction) -> Step | None:
    """``activemask``: the lanes of the warp that happen to run together."""
    if ins.parts[0] != "activemask":
        return None
    put = setter(ins.operands[0])

    def step(m: Machine, f: Frame, at: Lanes) -> None:
        lanes = m.lane_ids[at]
        put(m, f, at, masks_of(m, lanes)[lanes // 32])

    return step


def masks_of(m: Machine, lanes: Array) -> Array:
    """For each warp the mask of ``lanes`` in it."""
    masks = np.zeros(m.warps, np.uint32)
    np.bitwise_or.at(masks, lanes // 32, np.uint32(1) << (lanes % 32).astype(np.uint32))
    return masks


def terminator(pc: int, ins: Instruction) -> End:
    """The end of a block closed by a warp operation."""
    body, mask = _operation(ins)
    where = ins.loc

    def run(m: Machine, f: Frame, at: Lanes) -> bool:
        lanes = m.lane_ids[at]
        if not len(lanes):
            return False
        here = where if m.record.is_own(where[0]) else f.site
        masks = per_lane(mask(m, f, at), m, at)
        alive = masks_of(m, m.lane_ids[m.alive])
        own = np.uint32(1) << (lanes % 32).astype(np.uint32)
        outside = (masks & own) == 0
        if outside.any():
            m.record.problem("bad-mask", "a lane runs a warp operation that its mask leaves out", lanes[outside], here)
            masks = masks | own
        present = masks_of(m, lanes)
        complete = (masks & alive[lanes // 32] & ~present[lanes // 32]) == 0
        if complete.any():
            named = masks[complete]
            ghosts = (named & ~alive[lanes[complete] // 32]) != 0
            if ghosts.any():
                text = "the mask names lanes that have exited or do not exist"
                m.record.problem("bad-mask", text, lanes[complete][ghosts], here)
        going, staying = m.subset(at, complete), m.subset(at, ~complete)
        if staying is not None:
            m.park(f, pc, staying, here, run)
        if going is None:
            return False
        body(m, f, going, masks[complete])
        m.push(f, pc + 1, going)
        return True

    def end(m: Machine, f: Frame, at: Lanes) -> None:
        run(m, f, m.unpark(f, pc, at))

    return end


def _operation(ins: Instruction) -> tuple[Body, Getter]:
    match ins.parts[0]:
        case "shfl":
            return _shuffle(ins), getter(ins.operands[4], "b32")
        case "vote":
            return _vote(ins), getter(ins.operands[2], "b32")
        case "match":
            return _match(ins), getter(ins.operands[2], "b32")
        case "redux":
            return _redux(ins), getter(ins.operands[2], "b32")
        case "elect":
            return _elect(ins), getter(ins.operands[1], "b32")
        case "bar" | "barrier":
            return (lambda m, f, at, masks: None), getter(ins.operands[0], "b32")
    raise Unsupported(ins.opcode)


def _spread(m: Machine, at: Lanes, values: Array, dtype: Any) -> Array:
    """Values of the lanes of ``at`` in an array over all lanes of all warps."""
    wide = np.zeros(m.warps * 32, dtype)
    wide[m.lane_ids[at]] = values
    return wide


def _shuffle(ins: Instruction) -> Body:
    """PTX ISA 9.7.9.6: ``c`` holds the clamp in bits 0-4 and the segment mask in bits 8-12."""
    mode = ins.parts[2]
    first = ins.operands[0]
    put = setter(first.first if isinstance(first, Pair) else first)
    also = setter(first.second) if isinstance(first, Pair) else None
    a, b, c = (getter(o, "b32") for o in ins.operands[1:4])
    if mode not in ("up", "down", "bfly", "idx"):
        raise Unsupported(ins.opcode)

    def body(m: Machine, f: Frame, at: Lanes, masks: Array) -> None:
        lanes = m.lane_ids[at]
        lane = lanes % 32
        values = per_lane(a(m, f, at), m, at)
        amount = (per_lane(b(m, f, at), m, at) & np.uint32(31)).astype(np.int64)
        control = per_lane(c(m, f, at), m, at).astype(np.int64)
        clamp, segment = control & 31, control >> 8 & 31
        highest = (lane & segment) | (clamp & ~segment)
        lowest = lane & segment
        if mode == "up":
            source = lane - amount
            valid = source >= highest
        elif mode == "down":
            source = lane + amount
            valid = source <= highest
        elif mode == "bfly":
            source = lane ^ amount
            valid = source <= highest
        else:
            source = lowest | (amount & ~segment)
            valid = source <= highest
        source = np.where(valid, source, lane)
        origin = lanes - lane + source
        wide = _spread(m, at, values, np.uint32)
        taking = _spread(m, at, np.ones(len(lanes), np.bool_), np.bool_)
        put(m, f, at, np.where(taking[origin], wide[origin], values))
        if also is not None:
            also(m, f, at, valid)

    return body


def _members(m: Machine, at: Lanes, flags: Array, masks: Array) -> tuple[Array, Array]:
    """(mask of members with the flag, mask of members taking part), one a lane."""
    lanes = m.lane_ids[at]
    present = masks_of(m, lanes)[lanes // 32] & masks
    yes = masks_of(m, lanes[flags])[lanes // 32] & masks
    return yes, present


def _vote(ins: Instruction) -> Body:
    mode = ins.parts[2]
    put, get = setter(ins.operands[0]), getter(ins.operands[1], "pred")
    if mode not in ("all", "any", "uni", "ballot"):
        raise Unsupported(ins.opcode)

    def body(m: Machine, f: Frame, at: Lanes, masks: Array) -> None:
        yes, present = _members(m, at, per_lane(get(m, f, at), m, at), masks)
        result = {"all": yes == present, "any": yes != 0, "uni": (yes == 0) | (yes == present), "ballot": yes}[mode]
        put(m, f, at, result)

    return body


def _match(ins: Instruction) -> Body:
    first = ins.operands[0]
    put = setter(first.first if isinstance(first, Pair) else first)
    also = setter(first.second) if isinstance(first, Pair) else None
    kind = ins.parts[-1]
    get, every = getter(ins.operands[1], kind), ins.parts[1] == "all"

    def body(m: Machine, f: Frame, at: Lanes, masks: Array) -> None:
        lanes = m.lane_ids[at]
        values = per_lane(get(m, f, at), m, at)
        result = np.zeros(len(lanes), np.uint32)
        for value in np.unique(values):
            same = values == value
            mine = masks_of(m, lanes[same])[lanes // 32] & masks
            result = np.where(same, mine, result)
        if every:
            agree = result == (masks_of(m, lanes)[lanes // 32] & masks)
            result = np.where(agree, result, np.uint32(0))
            if also is not None:
                also(m, f, at, agree)
        put(m, f, at, result)

    return body


def _redux(ins: Instruction) -> Body:
    """``redux.sync.op.type``"""
    op, kind = ins.parts[2], ins.parts[-1]
    put, get = setter(ins.operands[0]), getter(ins.operands[1], kind)
    table: dict[str, Callable[[Array], Any]] = {
        "add": np.sum, "min": np.min, "max": np.max, "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce,
        "xor": np.bitwise_xor.reduce,
    }  # fmt: skip
    if op not in table or kind not in ("u32", "s32", "b32"):
        raise Unsupported(ins.opcode)
    reduce = table[op]

    def body(m: Machine, f: Frame, at: Lanes, masks: Array) -> None:
        lanes = m.lane_ids[at]
        values = per_lane(get(m, f, at), m, at)
        result = np.zeros(len(lanes), np.uint32)
        groups = (lanes // 32).astype(np.uint64) << np.uint64(32) | masks.astype(np.uint64)
        for group in np.unique(groups):
            chosen = groups == group
            reduced = int(reduce(values[chosen])) & 0xFFFFFFFF
            result[chosen] = UNSIGNED[4].type(reduced)
        put(m, f, at, result)

    return body


def _elect(ins: Instruction) -> Body:
    """The lowest lane of the mask is elected."""
    first = ins.operands[0]
    if not isinstance(first, Pair) or (isinstance(ins.operands[1], Imm) and ins.operands[1].value == 0):
        raise Unsupported(ins.opcode)
    put, also = setter(first.first), setter(first.second)

    def body(m: Machine, f: Frame, at: Lanes, masks: Array) -> None:
        lanes = m.lane_ids[at]
        present = masks_of(m, lanes)[lanes // 32] & masks
        lowest = np.bitwise_count((present & (~present + np.uint32(1))) - np.uint32(1)).astype(np.int64)
        put(m, f, at, lowest.astype(np.uint32))
        also(m, f, at, lowest == lanes % 32)

    return body
