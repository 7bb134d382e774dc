"""Block barriers and what may keep threads from them: the obligations of the barrier rules, read off uniformity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from prelaunch.analysis.kernel import Barrier, Const, Exit, Kernel, Loop, Opaque
from prelaunch.analysis.sync.places import Group, Places
from prelaunch.analysis.uniformity import Cause, Level, Uniformity
from prelaunch.analysis.walk import walk


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """Barriers that threads of one block may miss because of one decision, in text order.

    ``kind`` is "loop" when the decision is a loop's trip count, else "branch" (an If, or a jump taken under one).
    """

    cause: Cause
    barriers: tuple[Barrier, ...]

    @property
    def kind(self) -> Literal["loop", "branch"]:
        return "loop" if isinstance(self.cause.stmt, Loop) else "branch"


@dataclass(frozen=True)
class Barriers:
    """The block barriers of a kernel that can be reached under ``uniform``'s launch."""

    kernel: Kernel
    uniform: Uniformity

    @cached_property
    def all(self) -> tuple[Barrier, ...]:
        """Barriers that every thread of the block takes part in, in text order."""
        found = (s for s in walk(self.kernel.body) if isinstance(s, Barrier) and whole_block(s))
        return tuple(barrier for barrier in found if self.uniform.reached(barrier))

    @cached_property
    def opaque_control(self) -> Opaque | None:
        """The first statement that may leave or synchronise in ways not modelled."""
        for stmt in walk(self.kernel.body):
            if isinstance(stmt, Opaque) and "control" in stmt.touches and self.uniform.reached(stmt):
                return stmt
        return None

    @cached_property
    def suspects(self) -> tuple[Suspect, ...]:
        """One per decision that threads of a block take differently and that a barrier depends on.

        A barrier below several such decisions belongs to the outermost.
        """
        groups: dict[int, tuple[Cause, list[Barrier]]] = {}
        for barrier in self.all:
            for cause in self.uniform.control(barrier).causes:
                if cause.level > Level.BLOCK:
                    groups.setdefault(id(cause.stmt), (cause, []))[1].append(barrier)
                    break
        return tuple(Suspect(cause, tuple(barriers)) for cause, barriers in groups.values())

    @cached_property
    def exits(self) -> tuple[Exit, ...]:
        """Every ``return`` of the kernel that can be reached, in text order; traps end the grid and are none."""
        found = (s for s in walk(self.kernel.body) if isinstance(s, Exit) and not s.trap)
        return tuple(exit_ for exit_ in found if self.uniform.reached(exit_))

    @cached_property
    def partial_exits(self) -> tuple[tuple[Exit, Cause], ...]:
        """Returns that some threads of a block may take while others go on to a barrier, each with its decision."""
        found: list[tuple[Exit, Cause]] = []
        for stmt in self.exits:
            causes = [cause for cause in self.uniform.control(stmt).causes if cause.level > Level.BLOCK]
            if causes and self._places.any_follows(self._group, stmt):
                found.append((stmt, causes[0]))
        return tuple(found)

    def returned_before(self, barrier: Barrier) -> bool:
        """May threads of the block have returned when others come to ``barrier``?"""
        return self._places.any_precedes(self._exit_group, barrier)

    @cached_property
    def _exit_group(self) -> Group:
        return self._places.group(exit_ for exit_, _ in self.partial_exits)

    def after(self, exit_: Exit) -> tuple[Barrier, ...]:
        """Barriers that may come after ``exit_`` was taken by others."""
        return tuple(barrier for barrier in self.all if self.may_precede(exit_, barrier))

    @cached_property
    def _group(self) -> Group:
        return self._places.group(self.all)

    @cached_property
    def _places(self) -> Places:
        return Places(self.kernel)

    def may_precede(self, exit_: Exit, barrier: Barrier) -> bool:
        """Can one thread take ``exit_`` before another, of the same block, waits at ``barrier``?"""
        return self._places.may_precede(exit_, barrier)


def whole_block(barrier: Barrier) -> bool:
    """Is it ``__syncthreads()`` or kin: barrier 0, all threads of the block, no split halves?

    Other numbers are left out: threads may meet at one of them from different statements (PTX ISA, barrier).
    """
    zero = barrier.id is None or (isinstance(barrier.id, Const) and barrier.id.value == 0)
    return barrier.scope == "block" and barrier.action == "sync" and barrier.count is None and zero
