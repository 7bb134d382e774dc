"""Where statements stand in a kernel's text, loops included."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from prelaunch.analysis.kernel import Block, Kernel, Loop, Stmt
from prelaunch.analysis.walk import children


@dataclass(frozen=True, slots=True)
class Group:
    """Some statements of a kernel: their positions, ascending, and the loops that any of them stands in."""

    positions: tuple[int, ...]
    loops: frozenset[int]


class Places:
    """Position and enclosing loops of every statement; nodes are known by identity. Iterative."""

    def __init__(self, kernel: Kernel) -> None:
        self._places: dict[int, tuple[int, frozenset[int]]] = {}
        stack: list[tuple[Stmt, frozenset[int]]] = [(kernel.body, frozenset())]
        while stack:
            stmt, loops = stack.pop()
            self._places[id(stmt)] = (len(self._places), loops)
            inner = loops | {id(stmt)} if isinstance(stmt, Loop) else loops
            below = stmt.stmts if isinstance(stmt, Block) else children(stmt)
            stack.extend((item, inner) for item in reversed(below))

    def may_precede(self, first: Stmt, second: Stmt) -> bool:
        """Can ``first`` run, in some thread, before ``second`` does: earlier in the text, or in a common loop?"""
        return self.any_precedes(self.group([first]), second)

    def group(self, stmts: Iterable[Stmt]) -> Group:
        found = [self._places[id(stmt)] for stmt in stmts]
        loops: set[int] = set()
        for _, around in found:
            loops |= around
        return Group(tuple(sorted(position for position, _ in found)), frozenset(loops))

    def any_precedes(self, group: Group, stmt: Stmt) -> bool:
        """``may_precede`` for some statement of ``group``."""
        position, loops = self._places[id(stmt)]
        return bool(group.positions) and (group.positions[0] < position or not loops.isdisjoint(group.loops))

    def any_follows(self, group: Group, stmt: Stmt) -> bool:
        """Is there a statement in ``group`` that ``stmt`` may precede?"""
        position, loops = self._places[id(stmt)]
        return bool(group.positions) and (position < group.positions[-1] or not loops.isdisjoint(group.loops))

    def any_between(self, first: Stmt, group: Group, last: Stmt) -> bool:
        """Does a statement of ``group`` stand between the two in the text?"""
        low, high = self._places[id(first)][0], self._places[id(last)][0]
        return bisect.bisect_right(group.positions, low) < bisect.bisect_left(group.positions, high)
