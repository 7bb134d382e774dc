"""The recorder: accesses kept as columns while a launch runs, turned into the trace's events at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Event, Mode, Problem, ProblemKind

Array = npt.NDArray[Any]
Place = tuple[int, int]
MAX_PROBLEMS = 200
PROBLEM_KINDS = frozenset(get_args(ProblemKind))


@dataclass(slots=True)
class Chunk:
    """One access instruction of a group of lanes in one object."""

    block: int
    lanes: Array
    phase: Array
    mode: Mode
    object: str
    offsets: Array
    size: int
    place: Place
    order: str
    scope: str


class TooManyEvents(Exception):
    """The event budget is spent."""


class Recorder:
    """``files`` maps PTX file numbers to repository paths; other numbers are headers of the toolkit."""

    def __init__(self, files: dict[int, str], max_events: int) -> None:
        self.files = files
        self.events_left = max_events
        self.chunks: list[Chunk] = []
        self.problems: list[Problem] = []
        self._seen: set[tuple[str, Place, int]] = set()
        self.block = 0

    def start_block(self, index: int) -> None:
        self.block = index

    def is_own(self, file: int) -> bool:
        return file in self.files

    def access(
        self, mode: Mode, name: str, offsets: Array, size: int, lanes: Array, phase: Array, place: Place, order: str,
        scope: str,
    ) -> None:  # fmt: skip
        self.events_left -= len(lanes)
        if self.events_left < 0:
            raise TooManyEvents
        self.chunks.append(
            Chunk(self.block, lanes.copy(), phase.copy(), mode, name, offsets, size, place, order, scope)
        )

    def problem(self, kind: str, message: str, lanes: Array, place: Place) -> None:
        """One problem for each kind, place and block; ``lanes`` are all threads it happened to."""
        assert kind in PROBLEM_KINDS
        key = (kind, place, self.block)
        if key in self._seen or len(self.problems) >= MAX_PROBLEMS:
            return
        self._seen.add(key)
        threads = tuple((self.block, int(lane)) for lane in lanes)
        self.problems.append(Problem(cast(ProblemKind, kind), message, threads, (self.span(place),)))

    def span(self, place: Place) -> Span:
        file, line = place
        return Span(self.files.get(file, ""), 0, 0, line, 0, line, 0)

    def events(self) -> tuple[Event, ...]:
        """All events, by block, then in the order in which they happened."""
        found: list[Event] = []
        counts: dict[tuple[int, int], int] = {}
        for chunk in self.chunks:
            file, line = self.files.get(chunk.place[0], ""), chunk.place[1]
            rows = zip(chunk.lanes.tolist(), chunk.phase.tolist(), chunk.offsets.tolist(), strict=True)
            for lane, phase, offset in rows:
                key = (chunk.block, lane)
                sequence = counts.get(key, 0)
                counts[key] = sequence + 1
                found.append(
                    Event(
                        chunk.block, lane, phase, chunk.mode, chunk.object, offset, chunk.size, file, line, sequence,
                        None, chunk.order, chunk.scope,
                    )
                )  # fmt: skip
        return tuple(found)


def empty_lanes() -> Array:
    return np.zeros(0, np.int64)
