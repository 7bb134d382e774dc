"""What an execution leaves behind: a log of accesses, problems, the step budget.

A log row is one statement executed by some lanes; ``events`` spreads rows into the ``Event`` objects of a ``Trace``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.interpreter.lanes import Index
from prelaunch.analysis.kernel import Stmt
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Event, Mode, Problem, ProblemKind

MODES: tuple[Mode, ...] = ("read", "write", "atomic", "barrier")
QUIET_TURNS = 32
"""Turns each spinning group gets to see a change in memory before they count as waiting for ever."""
NAMED_THREADS = 32
"""At most so many threads are named in one problem, except where all of a block's are needed."""


class Stop(Exception):
    """Ends an execution: ``status`` as in ``Trace``."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Site:
    """A statement that accesses memory or synchronises, as events name it."""

    index: int
    node: Stmt
    mode: Mode
    size: int
    order: str
    scope: str

    @property
    def span(self) -> Span:
        return self.node.span


@dataclass(slots=True)
class Row:
    site: Site
    block: int
    threads: Index
    region: int  # object index, -1 for barriers
    offsets: Any  # bytes, per lane; the barrier id for barriers
    phase: Any
    size: int
    instance: int = -1  # which meeting of threads a barrier row belongs to
    values: npt.NDArray[np.uint8] | None = None  # (lanes, size) bytes written


@dataclass(slots=True)
class _Found:
    message: str
    spans: tuple[Span, ...]
    threads: dict[tuple[int, int], None]
    total: int = 0


@dataclass(slots=True)
class Recorder:
    """Shared by all blocks of one execution. ``left`` counts lane-statements down; below 0 the execution stops.

    A statement costs as many as lanes run it, but no fewer than ``least``.
    """

    left: int
    recording: bool
    max_events: int
    seed: int
    objects: tuple[str, ...] = ()
    least: int = 8
    sites: list[Site] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    logged: int = 0
    instances: int = 0
    groups: int = 0  # of all blocks, able to run
    changes: int = 0  # how often memory was written; atomics that leave it as it was do not count
    quiet: int = 0  # turns of spinning groups since the last change
    changes_seen: int = 0
    found: dict[tuple[str, tuple[Span, ...], int], _Found] = field(default_factory=dict)

    def charge(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise Stop("steps", "the step budget ran out")

    def spun(self) -> bool:
        """A spinning group has had a turn; whether all have had many since anything last changed."""
        if self.changes != self.changes_seen:
            self.changes_seen, self.quiet = self.changes, 0
        self.quiet += 1
        return self.quiet > QUIET_TURNS * (self.groups + 1)

    def log(self, row: Row) -> None:
        self.rows.append(row)
        self.logged += len(row.threads)
        if self.logged > self.max_events:
            raise Stop("steps", f"more than {self.max_events} events")

    def problem(
        self,
        kind: ProblemKind,
        message: str,
        block: int,
        threads: Index,
        spans: tuple[Span, ...],
        key: int = 0,
        named: int = NAMED_THREADS,
    ) -> None:
        """Record something wrong; later ones of the same kind at the same places only add threads.

        ``key`` tells statements without spans apart. At most ``named`` threads are kept.
        """
        found = self.found.get((kind, spans, key))
        if found is None:
            found = self.found[kind, spans, key] = _Found(message, spans, {})
        found.total += len(threads)
        for thread in threads if len(found.threads) < named else ():
            if len(found.threads) == named:
                break
            found.threads[block, int(thread)] = None

    def problems(self) -> tuple[Problem, ...]:
        return tuple(
            Problem(kind, found.message, tuple(found.threads), found.spans)  # type: ignore[arg-type]  # keys hold kinds
            for (kind, _, _), found in self.found.items()
        )

    def events(self) -> tuple[Event, ...]:
        """Every log row spread over its threads, in order of execution; ``sequence`` numbers each thread's from 0."""
        if not self.rows:
            return ()
        lengths = np.array([len(row.threads) for row in self.rows], np.int64)
        blocks = np.repeat(np.array([row.block for row in self.rows], np.int64), lengths)
        sequence = _numbered(blocks, np.concatenate([row.threads for row in self.rows]).astype(np.int64)).tolist()
        result: list[Event] = []
        for row in self.rows:
            result.extend(self._spread(row, sequence[len(result) : len(result) + len(row.threads)]))
        return tuple(result)

    def _spread(self, row: Row, sequence: list[int]) -> list[Event]:
        site, size, block = row.site, row.size, row.block
        mode, span, order, scope = site.mode, site.span, site.order, site.scope
        written = span.spelling or span
        file, line = written.file, written.line
        object = self.objects[row.region] if row.region >= 0 else ""
        values: list[bytes | None] = [None] * len(sequence)
        if row.instance >= 0:
            values = [row.instance.to_bytes(8, "little")] * len(sequence)
        elif row.values is not None:
            raw = row.values.tobytes()
            values = [raw[i : i + size] for i in range(0, len(raw), size)]
        cells = zip(row.threads.tolist(), row.phase.tolist(), row.offsets.tolist(), sequence, values, strict=True)
        return [
            Event(block, t, phase, mode, object, offset, size, file, line, number, span, order, scope, value)
            for t, phase, offset, number, value in cells
        ]


def _numbered(block: npt.NDArray[np.int64], thread: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each entry, how many entries of the same thread come before it."""
    key = block * (int(thread.max()) + 1 if len(thread) else 1) + thread
    order = np.argsort(key, kind="stable")
    sorted_key = key[order]
    new = np.ones(len(key), bool)
    new[1:] = sorted_key[1:] != sorted_key[:-1]
    positions = np.arange(len(key))
    first = np.maximum.accumulate(np.where(new, positions, 0))
    result = np.empty(len(key), np.int64)
    result[order] = positions - first
    return result
