"""What the barriers of a trace order: per-thread epochs and, for each, what the thread knows of the others.

A thread's epoch is the number of barrier events before. An access of thread t in epoch e is ordered before one of
thread u when u's row at that time holds, for t, a number above e. Rows are made at barriers; participants share them.
Exiting counts as arriving at every later barrier of the whole block.
"""

from __future__ import annotations

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
    last = np.full(threads, -1, np.int64)
    for position, event in enumerate(events):
        last[event.thread] = position
    builder = _Builder(threads, last)
    epochs = np.zeros(len(events), np.int64)
    rows = np.zeros(len(events), np.int64)
    position = 0
    while position < len(events):
        event = events[position]
        if event.mode != "barrier":
            epochs[position], rows[position] = builder.epoch[event.thread], builder.current[event.thread]
            position += 1
            continue
        meeting = [event.thread]
        end = position + 1
        while end < len(events) and _same_meeting(event, events[end]):
            meeting.append(events[end].thread)
            end += 1
        builder.meet(event, meeting, end)
        position = end
    return Clocks(epochs, rows, np.stack(builder.rows), builder.whole)


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
