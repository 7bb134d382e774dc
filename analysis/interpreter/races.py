"""Data races in a trace: conflicting accesses of different threads that nothing orders.

Conflict: common bytes, one of the two writes, not both atomic. Order comes from barriers (see ``clocks``) inside a
block and from grid and cluster barriers between blocks. Fences and flags are not followed: accesses of two blocks that
a flag orders are reported. Two volatile accesses are reported too, and named as such: volatile orders nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.interpreter.clocks import block_clocks, meeting_key
from prelaunch.analysis.kernel import Kernel
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Event, Problem, Trace

CHUNK = 1 << 20
STRONG = frozenset({"relaxed", "acquire", "release", "acq_rel", "seq_cst"})
Key = tuple[object, object, str]


def find_races(trace: Trace, kernel: Kernel) -> tuple[Problem, ...]:
    """One problem per (place, place, hazard), with two events that show it, in order of these.

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
        sites: dict[tuple[object, str, bool], int] = {}
        self.object = np.array([objects[e.object] for e in some], np.int64)
        self.shared = np.array([self.spaces.get(e.object) == "shared" for e in some])
        self.block = np.array([e.block for e in some], np.int64)
        self.thread = np.array([e.thread for e in some], np.int64)
        self.offset = np.array([e.offset for e in some], np.int64)
        self.size = np.array([e.size for e in some], np.int64)
        self.phase = np.array([e.phase for e in some], np.int64)
        self.writes = np.array([e.mode != "read" for e in some])
        self.atomic = np.array([e.mode == "atomic" or e.order in STRONG for e in some])
        names = [(_place(e), e.mode, e.order in STRONG) for e in some]
        self.site = np.array([sites.setdefault(name, len(sites)) for name in names], np.int64)
        self.seen = np.zeros((len(sites), len(sites)), bool)  # races found: place of the first access, of the second
        self.threads = max(e.thread for e in self.events) + 1

    def _order(self) -> None:
        """Clocks of all blocks in one table; between blocks, how many grid or cluster barriers a thread has passed."""
        by_block: dict[int, list[int]] = defaultdict(list)
        for i, event in enumerate(self.events):
            by_block[event.block].append(i)
        epoch, row, wide = (np.zeros(len(self.events), np.int64) for _ in range(3))
        tables: list[npt.NDArray[np.int32]] = []
        self.whole = np.zeros(max(by_block) + 1, bool)
        used = 0
        for block, positions in by_block.items():
            clocks = block_clocks([self.events[i] for i in positions], self.threads)
            epoch[positions], row[positions] = clocks.epoch, clocks.row + used
            self.whole[block] = clocks.whole
            tables.append(clocks.rows)
            used += len(clocks.rows)
            self._count_wide(positions, wide)
        self.rows = np.concatenate(tables)
        self.epoch, self.row, self.wide = epoch[self.accesses], row[self.accesses], wide[self.accesses]
        self.cluster = self._clusters(by_block)

    def _count_wide(self, positions: list[int], wide: npt.NDArray[np.int64]) -> None:
        passed = [0] * self.threads
        for i in positions:
            event = self.events[i]
            if event.mode == "barrier" and event.scope in ("grid", "cluster"):
                passed[event.thread] += 1
            wide[i] = passed[event.thread]

    def _clusters(self, blocks: Iterable[int]) -> npt.NDArray[np.int64]:
        """A number per block, equal for blocks that met at a grid or cluster barrier."""
        parent = {block: block for block in blocks}
        first: dict[tuple[str, object], int] = {}
        for event in self.events:
            if event.mode == "barrier" and event.scope in ("grid", "cluster"):
                other = first.setdefault(meeting_key(event), event.block)
                root, mine = _root(parent, other), _root(parent, event.block)
                parent[max(root, mine)] = min(root, mine)
        result = np.zeros(max(parent) + 1, np.int64)
        for block in parent:
            result[block] = _root(parent, block)
        return result

    # --- cells ---------------------------------------------------------------------------------------------------

    def _groups(self) -> list[npt.NDArray[np.int64]]:
        """Accesses to one cell that may conflict, as matrices of groups of equal size, one row per group.

        A cell is a unit of an object (the greatest common divisor of offsets and sizes), of one block where memory is
        shared, of one phase where barriers of the whole block separate phases. Of accesses that differ only in when
        they happened (same thread, epoch, place) the first and the last stand for all.
        """
        owner = np.where(self.shared, self.block, -1)
        phase = np.where(self.shared & self.whole[self.block], self.phase, -1)
        unit = max(1, int(np.gcd.reduce(np.concatenate([self.offset, self.size]))))
        units = self.size // unit
        rows = np.repeat(np.arange(len(units)), units)
        starts = np.repeat(np.cumsum(units) - units, units)
        cell = self.offset[rows] // unit + np.arange(len(rows)) - starts
        who = self.block * self.threads + self.thread
        columns = [self.object[rows], owner[rows], phase[rows], cell]
        order = np.lexsort((rows, self.site[rows], self.epoch[rows], who[rows], *reversed(columns)))
        rows = rows[order]
        keys = np.stack([c[order] for c in columns])
        same = np.zeros(len(rows), bool)
        same[1:] = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
        for values in (who, self.epoch, self.site):
            same[1:] &= values[rows[1:]] == values[rows[:-1]]
        inside = same & np.append(same[1:], False)
        rows, keys = rows[~inside], keys[:, ~inside]
        new = np.ones(len(rows), bool)
        new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        begins = np.nonzero(new)[0]
        lengths = np.diff(np.append(begins, len(rows)))
        worth = self._worth(rows, begins, who)
        begins, lengths = begins[worth], lengths[worth]
        return [rows[begins[lengths == n][:, None] + np.arange(n)] for n in np.unique(lengths)]

    def _worth(self, rows: npt.NDArray[np.int64], begins: npt.NDArray[np.int64], who: Any) -> Any:
        """Cells with two threads, a write, and not atomics alone."""
        two = np.minimum.reduceat(who[rows], begins) != np.maximum.reduceat(who[rows], begins)
        written = np.logical_or.reduceat(self.writes[rows], begins)
        plain = ~np.logical_and.reduceat(self.atomic[rows], begins)
        return two & written & plain

    def _pairs(self, groups: npt.NDArray[np.int64]) -> None:
        """All conflicting, unordered pairs inside each row, a chunk at a time."""
        count, size = groups.shape
        for first in range(size - 1):
            rest = size - first - 1
            step = max(1, CHUNK // rest)
            for start in range(0, count, step):
                part = groups[start : start + step]
                self._compare(np.repeat(part[:, first], rest), part[:, first + 1 :].ravel())

    def _compare(self, a: Any, b: Any) -> None:
        keep = (self.writes[a] | self.writes[b]) & ~(self.atomic[a] & self.atomic[b])
        keep &= (self.thread[a] != self.thread[b]) | (self.block[a] != self.block[b])
        first, second = np.minimum(a, b)[keep], np.maximum(a, b)[keep]
        new = ~self.seen[self.site[first], self.site[second]]
        first, second = first[new], second[new]
        keep = self._unordered(first, second)
        self._note(first[keep], second[keep])

    def _unordered(self, a: Any, b: Any) -> Any:
        before = self.rows[self.row[b], self.thread[a]] > self.epoch[a]
        after = self.rows[self.row[a], self.thread[b]] > self.epoch[b]
        apart = (self.cluster[self.block[a]] != self.cluster[self.block[b]]) | (self.wide[a] == self.wide[b])
        return np.where(self.block[a] == self.block[b], ~(before | after), apart)

    # --- results -------------------------------------------------------------------------------------------------

    def _note(self, first: Any, second: Any) -> None:
        """Keep one pair of each (place, place, hazard): the one met first. Pairs are in trace order."""
        codes = self.site[first] * len(self.seen) + self.site[second]
        for i in np.unique(codes, return_index=True)[1]:
            self.seen[self.site[first[i]], self.site[second[i]]] = True
            one, two = self.accesses[int(first[i])], self.accesses[int(second[i])]
            a, b = self.events[one], self.events[two]
            places = sorted([(repr(_place(a)), _place(a)), (repr(_place(b)), _place(b))], key=lambda p: p[0])
            self.found.setdefault((places[0][1], places[1][1], hazard(a, b)), (one, two))

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
