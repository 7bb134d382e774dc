"""Lanes of a warp that wait for each other at ``__syncwarp`` and warp-wide exchanges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from prelaunch.analysis.interpreter.collectives import exchange
from prelaunch.analysis.interpreter.expressions import as_array
from prelaunch.analysis.interpreter.lanes import Lanes, count, index, narrow
from prelaunch.analysis.kernel import Barrier, Collective
from prelaunch.analysis.source import Span

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.groups import Group
    from prelaunch.analysis.interpreter.machine import Machine
    from prelaunch.analysis.interpreter.program import Code
    from prelaunch.analysis.interpreter.synchronise import Synchroniser, Waiting

FULL = 0xFFFFFFFF
Key = tuple[int, str, int]  # warp, operation, mask


@dataclass(slots=True, eq=False)
class Arrival:
    """Lanes at a warp-wide statement. All but ``code`` and ``operation`` are per lane."""

    group: Group
    code: Code
    operation: str
    lanes: Lanes
    mask: Any  # uint32
    args: list[Any]
    width: Any

    @property
    def span(self) -> Span:
        return self.code.node.span

    def part(self, group: Group, positions: Any) -> Arrival:
        lanes = narrow(index(self.lanes)[positions])
        assert lanes is not None
        args = [a[positions] for a in self.args]
        return Arrival(group, self.code, self.operation, lanes, self.mask[positions], args, self.width[positions])


class WarpPool:
    """What waits at warp-wide statements, by (warp, operation, mask)."""

    def __init__(self, machine: Machine, owner: Synchroniser) -> None:
        self.m = machine
        self.owner = owner
        self.waits: dict[Key, list[Arrival]] = {}

    def arrive(self, group: Group, code: Code) -> bool:
        arrival = self._arrival(group, code)
        node = code.node
        if isinstance(node, Collective) and node.mask is None:
            self._finish([arrival])
            return True
        m, lanes = self.m, arrival.lanes
        self._check_own_bit(arrival)
        whole = not self.waits and count(lanes) == self.owner.live == m.size and m.size % 32 == 0
        if whole and bool((arrival.mask == FULL).all()):
            self._finish([arrival])
            return True
        keys = (m.warp[lanes].astype(np.uint64) << np.uint64(32)) | arrival.mask
        unique, inverse = np.unique(keys, return_inverse=True)
        present = np.bincount(inverse, weights=m.bit[lanes]).astype(np.uint64).astype(np.uint32)
        warps, masks = (unique >> np.uint64(32)).astype(np.intp), unique.astype(np.uint32)
        if not isinstance(node, Barrier):
            self._check_missing(arrival, warps, masks, inverse)
        wanted = masks & self.owner.live_bits[warps]
        complete = (present & wanted) == wanted
        if complete.all():
            self._finish([arrival])
            return True
        self._suspend(arrival, warps, masks, inverse, complete)
        return False

    def _arrival(self, group: Group, code: Code) -> Arrival:
        m, lanes, node = self.m, group.lanes, code.node
        mask = as_array(code.values[0](m, lanes), lanes).astype(np.uint32) if node_mask(node) else None
        if mask is None:
            mask = np.full(count(lanes), FULL, np.uint32)
        if isinstance(node, Barrier):
            return Arrival(group, code, "syncwarp", lanes, mask, [], mask)
        assert isinstance(node, Collective)
        args = [as_array(value(m, lanes), lanes) for value in code.values[2:]]
        width = code.values[1](m, lanes) if node.width is not None else np.int32(32)
        return Arrival(group, code, node.op, lanes, mask, args, as_array(width, lanes))

    def _suspend(self, arrival: Arrival, warps: Any, masks: Any, inverse: Any, complete: Any) -> None:
        """Complete warps go on; the others wait, one group per (warp, mask)."""
        m, group = self.m, arrival.group
        ready = np.nonzero(complete[inverse])[0]
        if len(ready):
            positions = ready
            part = arrival.part(group, positions)
            other = m.branch_off(group, part.lanes)
            self._finish([part])
            m.resume(other)
        for i in np.nonzero(~complete)[0]:
            part = arrival.part(group, np.nonzero(inverse == i)[0])
            part.group = m.branch_off(group, part.lanes)
            m.remove(part.group)
            key = (int(warps[i]), arrival.operation, int(masks[i]))
            self.waits.setdefault(key, []).append(part)
            self._try(key)
        m.remove(group)

    def _try(self, key: Key) -> bool:
        warp, _, mask = key
        arrivals = self.waits[key]
        present = 0
        for arrival in arrivals:
            present |= int(np.bitwise_or.reduce(self.m.bit[arrival.lanes]))
        wanted = mask & int(self.owner.live_bits[warp])
        if present & wanted != wanted:
            return False
        self._check_ended(warp, mask & ~present, arrivals)
        del self.waits[key]
        self._finish(arrivals)
        self.m.release([a.group for a in arrivals])
        return True

    def resolve(self) -> bool:
        return any(self._try(key) for key in sorted(self.waits))

    def force(self) -> None:
        """Let everyone go on with who is there."""
        for key in sorted(self.waits):
            arrivals = self.waits.pop(key)
            self._finish(arrivals)
            self.m.release([a.group for a in arrivals])

    def by_warp(self) -> dict[int, list[Arrival]]:
        found: dict[int, list[Arrival]] = {}
        for (warp, _, _), arrivals in sorted(self.waits.items(), key=lambda item: item[0]):
            found.setdefault(warp, []).extend(arrivals)
        return found

    def all_waits(self) -> list[Waiting]:
        from prelaunch.analysis.interpreter.synchronise import Waiting

        return [Waiting(a.group, a.code) for _, arrivals in sorted(self.waits.items()) for a in arrivals]

    # --- results -------------------------------------------------------------------------------------------------

    def _finish(self, arrivals: list[Arrival]) -> None:
        """Everyone needed is there: order them (barrier) or exchange values."""
        m = self.m
        if arrivals[0].operation == "syncwarp":
            self._order(arrivals)
            return
        slots = np.concatenate([index(a.lanes) for a in arrivals])
        mask = np.concatenate([a.mask for a in arrivals])
        node = arrivals[0].code.node
        keys = m.warp[slots].astype(np.uint64) << np.uint64(32)
        if node_mask(node):
            keys = keys | mask
        _, row = np.unique(keys, return_inverse=True)
        args = [np.concatenate(parts) for parts in zip(*(a.args for a in arrivals), strict=True)]
        width = np.concatenate([a.width for a in arrivals])
        results, missing = exchange(arrivals[0].operation, row, m.lane[slots], mask, args, width)
        if missing is not None and (missing >= 0).any():
            self._report_source(arrivals[0], slots, missing)
        start = 0
        for arrival in arrivals:
            end = start + count(arrival.lanes)
            for register, values in zip(arrival.code.registers, results, strict=False):
                m.registers[register][arrival.lanes] = values[start:end]
            start = end

    def _order(self, arrivals: list[Arrival]) -> None:
        """A warp barrier's participants, one instance per (warp, mask)."""
        m = self.m
        if not m.recorder.recording:
            return
        instances: dict[int, int] = {}
        for arrival in arrivals:
            keys = (m.warp[arrival.lanes].astype(np.uint64) << np.uint64(32)) | arrival.mask
            slots = index(arrival.lanes)
            for key in np.unique(keys):
                if int(key) not in instances:
                    instances[int(key)] = m.recorder.instances
                    m.recorder.instances += 1
                part = narrow(slots[keys == key])
                assert part is not None
                self.owner.log(arrival.code, part, 0, instances[int(key)])

    # --- checks --------------------------------------------------------------------------------------------------

    def _check_own_bit(self, arrival: Arrival) -> None:
        """A lane outside its own mask is undefined behaviour; it goes on alone."""
        m = self.m
        bits = m.bit[arrival.lanes]
        wrong = (arrival.mask & bits) == 0
        if not wrong.any():
            return
        slots = index(arrival.lanes)[wrong]
        mask = int(arrival.mask[wrong][0])
        message = f"lane {int(m.lane[slots[0]])} executes it, but the mask {mask:#010x} does not name it"
        m.problem("bad-mask", message, slots, arrival.span, id(arrival.code.node))
        arrival.mask = np.where(wrong, bits, arrival.mask)

    def _check_missing(self, arrival: Arrival, warps: Any, masks: Any, inverse: Any) -> None:
        """Lanes named in the mask that have exited or never existed."""
        gone = masks & ~self.owner.live_bits[warps]
        if not gone.any():
            return
        m = self.m
        first = int(np.nonzero(gone)[0][0])
        lanes = [i for i in range(32) if int(gone[first]) >> i & 1]
        absent = [i for i in lanes if int(warps[first]) * 32 + i >= m.size]
        why = "do not exist in this block" if absent else "have exited"
        who = f"lanes {ranges(absent or lanes)} of warp {int(warps[first])}"
        message = f"the mask {int(masks[first]):#010x} names {who}, which {why}"
        slots = index(arrival.lanes)[gone[inverse] != 0]
        m.problem("bad-mask", message, slots, arrival.span, id(arrival.code.node))

    def _check_ended(self, warp: int, absent: int, arrivals: list[Arrival]) -> None:
        """Lanes waited for that went another way and came to their end."""
        m, node = self.m, arrivals[0].code.node
        lanes = [i for i in range(32) if absent >> i & 1 and warp * 32 + i < m.size]
        if lanes and not isinstance(node, Barrier):
            who = f"lanes {ranges(lanes)} of warp {warp}"
            message = f"the mask {arrivals[0].mask[0]:#010x} names {who}, which end without executing it"
            slots = np.concatenate([index(a.lanes) for a in arrivals])
            m.problem("bad-mask", message, slots, arrivals[0].span, id(node))

    def _report_source(self, arrival: Arrival, slots: Any, missing: Any) -> None:
        m = self.m
        wrong = missing >= 0
        reader, source = int(m.lane[slots[wrong][0]]), int(missing[wrong][0])
        message = f"lane {reader} reads lane {source}, which does not take part"
        m.problem("bad-mask", message, slots[wrong], arrival.span, id(arrival.code.node))


def node_mask(node: Any) -> bool:
    return isinstance(node, (Barrier, Collective)) and node.mask is not None


MAX_PARTS = 8


def ranges(numbers: list[int]) -> str:
    """``1-3, 7``; ``1, 3, 5, … 127 (64 in all)`` for many with one distance, and where there are too many parts."""
    numbers = sorted(numbers)
    steps = {b - a for a, b in pairwise(numbers)}
    parts = _parts(numbers)
    if len(parts) <= MAX_PARTS:
        return ", ".join(parts)
    shown = parts[:3] if len(steps) == 1 else parts[: MAX_PARTS - 2]
    return f"{', '.join(shown)}, … {parts[-1]} ({len(numbers)} in all)"


def _parts(numbers: list[int]) -> list[str]:
    parts: list[str] = []
    start = previous = None
    for number in [*numbers, None]:
        if start is not None and previous is not None and (number is None or number != previous + 1):
            parts.append(str(start) if start == previous else f"{start}-{previous}")
            start = None
        if start is None:
            start = number
        previous = number
    return parts
