"""The event trace: what the interpreter and the second reader (compiler-made PTX) both yield.

Two independent executors agree when their traces do, so this file holds only the record, never how it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from prelaunch.analysis.source import Span

Mode = Literal["read", "write", "atomic", "barrier"]
Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Concrete numbers of one launch: grid and block in (x, y, z), dynamic shared memory in bytes."""

    grid: Dim3 = (1, 1, 1)
    block: Dim3 = (32, 1, 1)
    dynamic_smem: int = 0
    cluster: Dim3 = (1, 1, 1)
    cooperative: bool = False

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True, slots=True)
class Event:
    """One access or barrier of one thread.

    ``block`` and ``thread`` are linear ids (x fastest). ``phase`` counts the block barriers the thread has passed.
    ``object`` is the IR object id ("" for barriers), ``offset`` and ``size`` in bytes from its start.
    ``line`` is where the access is written (innermost inlined callee), ``file`` likewise; ``span`` is set when the
    producer knows it. ``sequence`` orders the events of one thread. ``value`` holds the bytes written. For barriers
    ``offset`` is the barrier's id, ``scope`` who takes part, ``order`` "release" or "acquire" for the halves of a split
    barrier, and ``value``, where the producer knows it, a number of 8 bytes that all threads which met there share.
    """

    block: int
    thread: int
    phase: int
    mode: Mode
    object: str
    offset: int
    size: int
    file: str
    line: int
    sequence: int = 0
    span: Span | None = field(default=None, compare=False, repr=False)
    order: str = field(default="weak", compare=False)
    scope: str = field(default="thread", compare=False)
    value: bytes | None = field(default=None, compare=False, repr=False)


ProblemKind = Literal[
    "out-of-bounds", "misaligned", "uninitialised-shared", "divergent-barrier", "exited-barrier", "deadlock",
    "bad-mask", "named-barrier-id", "trap", "assertion", "opaque", "race", "division-by-zero", "null-pointer",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """Something an execution did wrong, with the threads (linear block, linear thread) and places involved."""

    kind: ProblemKind
    message: str
    threads: tuple[tuple[int, int], ...]
    spans: tuple[Span, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """All events of an execution, how it ended, and what went wrong on the way.

    ``status``: "done"; "steps" when the step budget ran out; "stopped" when an Opaque, a trap or a deadlock ended it.
    ``steps`` is what the execution cost, in the unit of its budget.
    Only shared, global, constant and generic-space accesses are recorded; local memory is a thread's own.
    """

    events: tuple[Event, ...]
    problems: tuple[Problem, ...]
    status: Literal["done", "steps", "stopped"]
    reason: str = ""
    memory: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    steps: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Argument:
    """What is passed for one leaf parameter: ``value`` for scalars, initial ``data`` for what a pointer points to.

    A pointer starts ``value`` bytes into its data, or into the data of object ``alias``; with neither it is null.
    """

    value: int | float = 0
    data: bytes | None = None
    alias: str | None = None
