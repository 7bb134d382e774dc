"""Data races in a trace: conflicting accesses of different threads that nothing orders.

Conflict: common bytes, one of the two writes, not both atomic. Order comes from barriers (see ``clocks``) inside a
block and from grid and cluster barriers between blocks. Fences and flags are not followed: accesses of two blocks that
a flag orders are reported. Two volatile accesses are reported too, and named as such: volatile orders nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.interpreter.clocks import Clocks, block_clocks, meeting_key
from prelaunch.analysis.kernel import Kernel
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Event, Problem, Trace

CHUNK = 1 << 20
STRONG = frozenset({"relaxed", "acquire", "release", "acq_rel", "seq_cst"})
Key = tuple[object, object, str]


def find_races(trace: Trace, kernel: Kernel) -> tuple[Problem, ...]:
    """One problem per (place, place, hazard), in order of first appearance, with the two events of the first pair.

    Hazards, by the order in which the two happened in this execution: raw (write, then read), war, waw; "rmw" when one
    is atomic. ``message`` says when both stores wrote the same bytes. Two places are equal when their spans are (or
    file and line, where a producer has no spans).
    """
    return _Search(trace, kernel).run()


class _Search:
    def __init__(self, trace: Trace, kernel: Kernel) -> None:
        self.spaces = {o.id: o.space for o in kernel.objects}
        self.names = {o.id: o.name or o.id for o in kernel.objects}
        self.events = trace.events
        self.accesses = [
            i for i, e in enumerate(trace.events) if e.mode != "barrier" and self.spaces.get(e.object) != "local"
        ]
        self.found: dict[Key, tuple[int, int]] = {}

    def run(self) -> tuple[Problem, ...]:
        if not self.accesses:
            return ()
        self._columns()
        self._order()
        for group in self._groups():
            self._pairs(group)
        pairs = sorted(self.found.items(), key=lambda item: item[1])
        return tuple(self._problem(key, first, second) for key, (first, second) in pairs)

    # --- tables --------------------------------------------------------------------------------------------------

    def _columns(self) -> None:
        some = [self.events[i] for i in self.accesses]
        objects = {id: i for i, id in enumerate(dict.fromkeys(e.object for e in some))}
        sites: dict[tuple[object, str, bool, bool], int] = {}
        self.object = np.array([objects[e.object] for e in some], np.int64)
        self.shared = np.array([self.spaces.get(e.object) == "shared" for e in some])
        self.block = np.array([e.block for e in some], np.int64)
        self.thread = np.array([e.thread for e in some], np.int64)
        self.offset = np.array([e.offset for e in some], np.int64)
        self.size = np.array([e.size for e in some], np.int64)
        self.phase = np.array([e.phase for e in some], np.int64)
        self.writes = np.array([e.mode != "read" for e in some])
        self.atomic = np.array([e.mode == "atomic" or e.order in STRONG for e in some])
        self.site = np.array([sites.setdefault((_place(e), e.mode, False, False), len(sites)) for e in some], np.int64)

    def _order(self) -> None:
        """Clocks per block; between blocks, how many grid or cluster barriers the thread has passed."""
        threads = max(e.thread for e in self.events) + 1
        by_block: dict[int, list[int]] = defaultdict(list)
        for i, event in enumerate(self.events):
            by_block[event.block].append(i)
        self.clocks: dict[int, Clocks] = {}
        self.local = np.zeros(len(self.events), np.int64)
        self.wide = np.zeros(len(self.events), np.int64)
        for block, positions in by_block.items():
            self.clocks[block] = block_clocks([self.events[i] for i in positions], threads)
            self.local[positions] = np.arange(len(positions))
            self._count_wide(positions, threads)
        self.local, self.wide = self.local[self.accesses], self.wide[self.accesses]
        self.cluster = self._clusters()

    def _count_wide(self, positions: list[int], threads: int) -> None:
        passed = [0] * threads
        for i in positions:
            event = self.events[i]
            if event.mode == "barrier" and event.scope in ("grid", "cluster"):
                passed[event.thread] += 1
            self.wide[i] = passed[event.thread]

    def _clusters(self) -> dict[int, int]:
        """A number per block, equal for blocks that met at a grid or cluster barrier."""
        parent = {block: block for block in self.clocks}
        first: dict[tuple[str, object], int] = {}
        for event in self.events:
            if event.mode == "barrier" and event.scope in ("grid", "cluster"):
                other = first.setdefault(meeting_key(event), event.block)
                root, mine = _root(parent, other), _root(parent, event.block)
                parent[max(root, mine)] = min(root, mine)
        return {block: _root(parent, block) for block in parent}

    # --- cells ---------------------------------------------------------------------------------------------------

    def _groups(self) -> list[npt.NDArray[np.int64]]:
        """Accesses to one cell that may conflict: by object (and block and phase, where those separate), and unit."""
        whole = {block: clocks.whole for block, clocks in self.clocks.items()}
        separate = self.shared & np.array([whole[int(b)] for b in self.block])
        owner = np.where(self.shared, self.block, -1)
        phase = np.where(separate, self.phase, -1)
        unit = int(np.gcd.reduce(np.concatenate([self.offset, self.size])))
        units = self.size // max(unit, 1)
        rows = np.repeat(np.arange(len(units)), units)
        starts = np.repeat(np.cumsum(units) - units, units)
        cell = self.offset[rows] // max(unit, 1) + np.arange(len(rows)) - starts
        order = np.lexsort((rows, cell, phase[rows], owner[rows], self.object[rows]))
        rows, cell = rows[order], cell[order]
        keys = np.stack([self.object[rows], owner[rows], phase[rows], cell])
        new = np.ones(len(rows), bool)
        new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        begins = np.nonzero(new)[0]
        ends = np.append(begins[1:], len(rows))
        worth = self._worth(rows, begins)
        return [rows[b:e] for b, e in zip(begins[worth].tolist(), ends[worth].tolist(), strict=True)]

    def _worth(self, rows: npt.NDArray[np.int64], begins: npt.NDArray[np.int64]) -> Any:
        """Cells with two threads, a write, and not atomics alone."""
        who = self.block[rows] * (int(self.thread.max()) + 1) + self.thread[rows]
        two = np.minimum.reduceat(who, begins) != np.maximum.reduceat(who, begins)
        written = np.logical_or.reduceat(self.writes[rows], begins)
        plain = ~np.logical_and.reduceat(self.atomic[rows], begins)
        return two & written & plain

    def _pairs(self, group: npt.NDArray[np.int64]) -> None:
        """All conflicting, unordered pairs of a cell, a chunk at a time; accesses that differ in nothing are one."""
        group = self._distinct(group)
        size = len(group)
        step = max(1, CHUNK // size)
        for start in range(0, size, step):
            part = group[start : start + step]
            left = np.repeat(part, size)
            right = np.tile(group, len(part))
            keep = (left < right) & (self.writes[left] | self.writes[right]) & ~(self.atomic[left] & self.atomic[right])
            keep &= (self.thread[left] != self.thread[right]) | (self.block[left] != self.block[right])
            left, right = left[keep], right[keep]
            if len(left):
                keep = self._unordered(left, right)
                self._note(left[keep], right[keep])

    def _distinct(self, group: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        epoch = np.array([self.clocks[int(self.block[i])].epoch[self.local[i]] for i in group])
        keys = np.stack([self.block[group], self.thread[group], epoch, self.site[group]])
        _, first = np.unique(keys, axis=1, return_index=True)
        return group[np.sort(first)]

    def _unordered(self, left: Any, right: Any) -> Any:
        result = np.zeros(len(left), bool)
        same = self.block[left] == self.block[right]
        for block in np.unique(self.block[left[same]]):
            where = np.nonzero(same & (self.block[left] == block))[0]
            a, b = left[where], right[where]
            clocks = self.clocks[int(block)]
            result[where] = clocks.unordered(self.local[a], self.local[b], self.thread[a], self.thread[b])
        across = np.nonzero(~same)[0]
        if len(across):
            a, b = left[across], right[across]
            lookup = self.cluster
            met = np.array(
                [lookup[int(x)] == lookup[int(y)] for x, y in zip(self.block[a], self.block[b], strict=True)]
            )
            result[across] = ~met | (self.wide[a] == self.wide[b])
        return result

    # --- results -------------------------------------------------------------------------------------------------

    def _note(self, left: Any, right: Any) -> None:
        if not len(left):
            return
        code = self.site[left] * (int(self.site.max()) + 1) + self.site[right]
        for i in np.unique(code, return_index=True)[1]:
            first, second = self.accesses[int(left[i])], self.accesses[int(right[i])]
            a, b = self.events[first], self.events[second]
            places = sorted([(repr(_place(a)), _place(a)), (repr(_place(b)), _place(b))], key=lambda p: p[0])
            key = (places[0][1], places[1][1], hazard(a, b))
            if key not in self.found or (first, second) < self.found[key]:
                self.found[key] = (first, second)

    def _problem(self, key: Key, first: int, second: int) -> Problem:
        a, b = self.events[first], self.events[second]
        name = self.names.get(a.object, a.object)
        byte = max(a.offset, b.offset)
        message = (
            f"{key[2]} race on byte {byte} of {name}: {a.mode} at line {a.line} by thread {a.thread} of block "
            f"{a.block}, "
            f"{b.mode} at line {b.line} by thread {b.thread} of block {b.block}, nothing orders them"
        )
        if a.mode == b.mode == "write" and a.value is not None and (a.offset, a.value) == (b.offset, b.value):
            message += "; both write the same value"
        if a.order == b.order == "volatile":
            message += "; both are volatile, which orders nothing"
        spans = tuple(span for span in (a.span, b.span) if span is not None)
        return Problem("race", message, ((a.block, a.thread), (b.block, b.thread)), spans, (a, b))


def hazard(first: Event, second: Event) -> str:
    """Kind of conflict of two accesses in the order they happened."""
    if "atomic" in (first.mode, second.mode):
        return "rmw"
    if first.mode == "write":
        return "raw" if second.mode == "read" else "waw"
    return "war"


def _place(event: Event) -> Span | tuple[str, int]:
    return event.span if event.span is not None and event.span.file else (event.file, event.line)


def _root(parent: dict[int, int], block: int) -> int:
    while parent[block] != block:
        block = parent[block]
    return block
