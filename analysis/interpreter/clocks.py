"""What the barriers of a trace order: per-thread epochs and, for each, what the thread knows of the others.

A thread's epoch is the number of barrier events before. An access of thread t in epoch e is ordered before one of
thread u when u's row at that time holds, for t, a number above e. Rows are made at barriers; participants share them.
Exiting counts as arriving at every later barrier of the whole block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.trace import Event

FOREVER = np.iinfo(np.int32).max


@dataclass(slots=True)
class Clocks:
    """``epoch`` and ``row`` per access of one block, in trace order; ``rows[row][thread]``; ``whole``: every barrier of
    the block had all its threads, so that accesses of different phases are ordered."""

    epoch: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    whole: bool


def block_clocks(events: Sequence[Event], threads: int) -> Clocks:
    """Clocks of one block's events, in trace order; barrier events get entries too (unused)."""
    order = _by_phase(events)
    last = np.full(threads, -1, np.int64)
    for place, position in enumerate(order):
        last[events[position].thread] = place
    builder = _Builder(threads, last)
    epochs = np.zeros(len(events), np.int64)
    rows = np.zeros(len(events), np.int64)
    place = 0
    while place < len(order):
        event = events[order[place]]
        if event.mode != "barrier":
            epochs[order[place]], rows[order[place]] = builder.epoch[event.thread], builder.current[event.thread]
            place += 1
            continue
        meeting = [event.thread]
        end = place + 1
        while end < len(order) and _same_meeting(event, events[order[end]]):
            meeting.append(events[order[end]].thread)
            end += 1
        builder.meet(event, meeting, end)
        place = end
    return Clocks(epochs, rows, np.stack(builder.rows), builder.whole)


def _by_phase(events: Sequence[Event]) -> Sequence[int]:
    """An order in which the events of each meeting are together: that of the trace where the producer numbers
    meetings, else by phase and by how many warp barriers the thread has passed in it."""
    if all(e.value is not None for e in events if e.mode == "barrier"):
        return range(len(events))
    passed: dict[tuple[int, int], int] = {}
    keys: list[tuple[int, float, bool, str]] = []
    for event in events:
        before: float = passed.get((event.thread, event.phase), 0)
        met = event.mode == "barrier"
        if met and event.scope == "warp":
            passed[event.thread, event.phase] = int(before) + 1
        elif met:
            before = math.inf
        keys.append((event.phase, before, met, repr(meeting_key(event)) if met else ""))
    return sorted(range(len(events)), key=lambda i: keys[i])


def meeting_key(event: Event) -> tuple[str, object]:
    """Which meeting a barrier event belongs to: the producer's number, else the phase (or warp and phase)."""
    if event.value is not None:
        return event.scope, event.value
    return event.scope, (event.phase, event.offset, event.thread // 32 if event.scope == "warp" else -1)


def _same_meeting(first: Event, other: Event) -> bool:
    return other.mode == "barrier" and other.order == first.order and meeting_key(other) == meeting_key(first)


class _Builder:
    def __init__(self, threads: int, last: npt.NDArray[np.int64]) -> None:
        self.epoch = np.zeros(threads, np.int64)
        self.rows: list[npt.NDArray[np.int32]] = [np.zeros(threads, np.int32)]
        self.current = np.zeros(threads, np.int64)
        self.last = last
        self.arrived: dict[tuple[str, object], npt.NDArray[np.int32]] = {}
        self.whole = True

    def meet(self, event: Event, meeting: list[int], end: int) -> None:
        """Threads pass one barrier together (or arrive at, or wait for, a split one)."""
        there = np.array(sorted(set(meeting)), np.intp)
        key = meeting_key(event)
        known = np.max([self.rows[i] for i in np.unique(self.current[there])], axis=0)
        np.maximum(known[there], (self.epoch[there] + 1).astype(np.int32), out=known[there])
        known[there] = np.maximum(known[there], self.epoch[there] + 1)
        gone = self.last < end - 1
        gone[there] = False
        if event.scope != "warp":
            if len(there) + int(gone.sum()) == len(self.epoch) and event.order == "acq_rel":
                known[gone] = FOREVER
            else:
                self.whole = False
        if event.order == "release":
            before = self.arrived.get(key)
            self.arrived[key] = known if before is None else np.maximum(before, known)
        else:
            earlier = self.arrived.get(key)
            if earlier is not None:
                known = np.maximum(known, earlier)
            self.rows.append(known)
            self.current[there] = len(self.rows) - 1
        self.epoch[there] += 1
