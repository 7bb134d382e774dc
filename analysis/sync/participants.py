"""Which lanes of a warp may execute a warp exchange, and whether its mask is known to say so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from prelaunch.analysis.kernel import BOOL, Assign, Cast, Collective, Exit, Expr, If, Kernel, Stmt, Var
from prelaunch.analysis.sync.places import Group, Places
from prelaunch.analysis.uniformity import Cause, Level, Uniformity
from prelaunch.analysis.uniformity.lanes import Lanes
from prelaunch.analysis.uniformity.levels import WARP_SIZE
from prelaunch.analysis.walk import defined, walk, walk_expr

FULL = 0xFFFFFFFF
MAX_CHAIN = 8
"""Masks made by exchanges under masks made by exchanges are followed so far."""


@dataclass(frozen=True)
class Participants:
    """Answers about the warp exchanges of one kernel under one launch's uniformity."""

    kernel: Kernel
    uniform: Uniformity

    def doubt(self, stmt: Collective, depth: int = 0) -> str | None:
        """Why the mask may not fit, or None: it names exactly the lanes of the warp that execute ``stmt``.

        Proved forms: a full mask where no lane of a warp can be missing; what ``__activemask()`` or
        ``__match_any_sync`` gave the same company of lanes; a mask that ``__ballot_sync`` made from the condition that
        alone parts its company from this one; any mask where mask and conditions are numbers in every thread of a
        block of known size.
        """
        assert stmt.mask is not None
        if self._fits_exactly(stmt, stmt.mask):
            return None
        value = self.uniform.value(stmt.mask).const
        if value is not None:
            if value & FULL != FULL:
                return f"mask {value & FULL:#x} names some lanes only"
            cause = self.divides(stmt)
            return None if cause is None else "all lanes are named, but some may not come here"
        source = self.source(stmt.mask)
        if source is None or depth > MAX_CHAIN:
            return "the mask is computed"
        apart = self._company(source, stmt)
        if source.op == "activemask" and _together(apart):
            return None
        if source.mask is None or self.doubt(source, depth + 1) is not None:
            return f"the mask comes from {source.op}"
        if source.op == "match.any" and _together(apart):
            return None
        if source.op == "vote.ballot" and apart is not None and self._is_vote_for(source, apart, stmt):
            return None
        return f"the mask comes from {source.op}"

    def _company(self, source: Stmt, stmt: Stmt) -> tuple[Cause, ...] | None:
        """Decisions that ``stmt`` stands under beyond those of ``source``; None when it is not so simple: ``source``
        stands under others that part lanes of a warp, or lanes may return in between."""
        first, second = (self.uniform.control(item).causes for item in (source, stmt))
        shared = {id(cause.stmt) for cause in second}
        if any(cause.level > Level.WARP and id(cause.stmt) not in shared for cause in first):
            return None
        if self._places.any_between(source, self._exit_group, stmt):
            return None
        known = {id(cause.stmt) for cause in first}
        return tuple(cause for cause in second if id(cause.stmt) not in known)

    def _fits_exactly(self, stmt: Collective, mask: Expr) -> bool:
        """Lane by lane over one block: does the mask of each executing lane name those that execute?"""
        threads = self.uniform.dims.threads
        value = self.uniform.value(mask)
        if threads is None or (value.const is None and value.lanes is None) or self._exits_before(stmt):
            return False
        named = value.lanes if value.lanes is not None else np.full(threads, value.const, np.int64)
        active = np.ones(threads, bool)
        for cause in self.uniform.control(stmt).causes:
            if cause.level > Level.WARP:
                taken = self._taken(cause, stmt)
                if taken is None:
                    return False
                active &= taken
        for start in range(0, threads, WARP_SIZE):
            lanes = [int(lane) for lane in np.flatnonzero(active[start : start + WARP_SIZE])]
            existing = (1 << min(WARP_SIZE, threads - start)) - 1
            masks = {lane: int(named[start + lane]) & existing for lane in lanes}
            for lane, own in masks.items():
                mates = [mate for mate in range(WARP_SIZE) if own >> mate & 1]
                if not own >> lane & 1 or any(masks.get(mate) != own for mate in mates):
                    return False
        return True

    def _taken(self, cause: Cause, stmt: Stmt) -> Lanes | None:
        """Which threads of a block take the branch that ``stmt`` is in; None where that is not a matter of numbers."""
        if not isinstance(cause.stmt, If):
            return None
        lanes = self.uniform.value(cause.stmt.cond).lanes
        if lanes is None:
            return None
        return np.asarray((lanes != 0) == self._in_then(cause.stmt, stmt))

    def _in_then(self, branch: If, stmt: Stmt) -> bool:
        if id(branch) not in self._arms:
            self._arms[id(branch)] = frozenset(id(item) for item in walk(branch.then))
        return id(stmt) in self._arms[id(branch)]

    def _exits_before(self, stmt: Stmt) -> bool:
        return self._places.any_precedes(self._exit_group, stmt)

    def divides(self, stmt: Stmt) -> Cause | None:
        """The outermost decision, or return, by which lanes of one warp may miss ``stmt``."""
        for cause in self.uniform.control(stmt).causes:
            if cause.level > Level.WARP:
                return cause
        for exit_ in self._exits if self._exits_before(stmt) else ():
            if self._places.may_precede(exit_, stmt):
                return next(c for c in self.uniform.control(exit_).causes if c.level > Level.WARP)
        return None

    def source(self, mask: Expr) -> Collective | None:
        """The exchange whose result the mask is, when it is nothing else."""
        seen: set[int] = set()
        expr = mask
        while True:
            while isinstance(expr, Cast):
                expr = expr.operand
            if not isinstance(expr, Var) or expr.id in seen:
                return None
            seen.add(expr.id)
            writers = self._writers.get(expr.id, [])
            if len(writers) != 1:
                return None
            writer = writers[0]
            if isinstance(writer, Collective):
                return writer
            if not isinstance(writer, Assign):
                return None
            expr = writer.expr

    def _is_vote_for(self, ballot: Collective, apart: tuple[Cause, ...], stmt: Collective) -> bool:
        """Is ``stmt`` inside a branch on what was voted, and parted from the vote by no other decision in a warp?"""
        wanted = _bare(ballot.args[0])
        branches = [
            cause.stmt
            for cause in apart
            if isinstance(cause.stmt, If) and _bare(cause.stmt.cond) == wanted and self._settled(cause.stmt.cond)
        ]
        inside = [branch for branch in branches if self._in_then(branch, stmt)]
        return bool(inside) and _together(tuple(cause for cause in apart if cause.stmt is not inside[0]))

    def _settled(self, expr: Expr) -> bool:
        """Is every variable in ``expr`` written once only, so that it means the same in both places?"""
        return all(len(self._writers.get(v.id, [])) <= 1 for v in walk_expr(expr) if isinstance(v, Var))

    @cached_property
    def _writers(self) -> dict[int, list[Stmt]]:
        writers: dict[int, list[Stmt]] = {}
        for stmt in walk(self.kernel.body):
            for var in defined(stmt):
                writers.setdefault(var.id, []).append(stmt)
        return writers

    @cached_property
    def _exits(self) -> tuple[Exit, ...]:
        """Returns that some lanes of a warp may take without the others."""
        found = (s for s in walk(self.kernel.body) if isinstance(s, Exit) and not s.trap and self.uniform.reached(s))
        return tuple(s for s in found if self.uniform.control(s).level > Level.WARP)

    @cached_property
    def _exit_group(self) -> Group:
        return self._places.group(self._exits)

    @cached_property
    def _arms(self) -> dict[int, frozenset[int]]:
        """Statements in the first arm of a branch, by identity; filled as asked."""
        return {}

    @cached_property
    def _places(self) -> Places:
        return Places(self.kernel)


def _together(apart: tuple[Cause, ...] | None) -> bool:
    """Do these decisions leave lanes of a warp together?"""
    return apart is not None and all(cause.level <= Level.WARP for cause in apart)


def _bare(expr: Expr) -> Expr:
    """Without conversions that keep whether the value is zero: to bool, and to wider types."""
    while isinstance(expr, Cast) and (expr.type == BOOL or expr.type.size >= expr.operand.type.size):
        expr = expr.operand
    return expr
