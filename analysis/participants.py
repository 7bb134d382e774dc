"""Which lanes of a warp may execute a warp exchange, and whether its mask is known to say so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from prelaunch.analysis.kernel import (
    BOOL,
    Assign,
    Cast,
    Collective,
    Exit,
    Expr,
    If,
    Kernel,
    Stmt,
    Var,
    defined,
    walk,
    walk_expr,
)
from prelaunch.analysis.lanes import Lanes
from prelaunch.analysis.levels import WARP_SIZE
from prelaunch.analysis.places import Places
from prelaunch.analysis.uniformity import Cause, Level, Uniformity

FULL = 0xFFFFFFFF


@dataclass(frozen=True)
class Participants:
    """Answers about the warp exchanges of one kernel under one launch's uniformity."""

    kernel: Kernel
    uniform: Uniformity

    def doubt(self, stmt: Collective) -> str | None:
        """Why the mask may not fit, or None: it names exactly the lanes of the warp that execute ``stmt``.

        Proved forms: a full mask where no lane of a warp can be missing; a mask from ``__activemask()``; a mask that
        ``__ballot_sync`` made, under full participation, from the very condition the exchange stands under; any mask
        where mask and conditions are numbers in every thread of a block of known size.
        """
        assert stmt.mask is not None
        if self._fits_exactly(stmt, stmt.mask):
            return None
        apart = self.divides(stmt)
        value = self.uniform.value(stmt.mask).const
        if value is not None:
            if value & FULL != FULL:
                return f"mask {value & FULL:#x} names some lanes only"
            return None if apart is None else "all lanes are named, but some may not come here"
        source = self.source(stmt.mask)
        if source is None:
            return "the mask is computed"
        if source.op == "activemask" or (source.op == "vote.ballot" and self._is_ballot_of(source, stmt)):
            return None
        return f"the mask comes from {source.op}"

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
            lanes = np.flatnonzero(active[start : start + WARP_SIZE])
            there = sum(1 << int(lane) for lane in lanes)
            existing = (1 << min(WARP_SIZE, threads - start)) - 1
            if any(int(named[start + lane]) & existing != there for lane in lanes):
                return False
        return True

    def _taken(self, cause: Cause, stmt: Stmt) -> Lanes | None:
        """Which threads of a block take the branch that ``stmt`` is in; None where that is not a matter of numbers."""
        if not isinstance(cause.stmt, If):
            return None
        lanes = self.uniform.value(cause.stmt.cond).lanes
        if lanes is None:
            return None
        inside = any(item is stmt for item in walk(cause.stmt.then))
        return np.asarray((lanes != 0) == inside)

    def _exits_before(self, stmt: Stmt) -> bool:
        return any(self._places.may_precede(exit_, stmt) for exit_ in self._exits)

    def divides(self, stmt: Stmt) -> Cause | None:
        """The outermost decision, or return, by which lanes of one warp may miss ``stmt``."""
        for cause in self.uniform.control(stmt).causes:
            if cause.level > Level.WARP:
                return cause
        for exit_ in self._exits:
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

    def _is_ballot_of(self, ballot: Collective, stmt: Collective) -> bool:
        """Was the mask voted by whole warps from the only condition that parts the lanes at ``stmt``?"""
        if self.divides(ballot) is not None or ballot.mask is None:
            return False
        if (self.uniform.value(ballot.mask).const or 0) & FULL != FULL:
            return False
        parts = [cause for cause in self.uniform.control(stmt).causes if cause.level > Level.WARP]
        if len(parts) != 1 or not isinstance(parts[0].stmt, If):
            return False
        branch = parts[0].stmt
        inside = any(item is stmt for item in walk(branch.then))
        return inside and self._settled(branch.cond) and _bare(branch.cond) == _bare(ballot.args[0])

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
    def _places(self) -> Places:
        return Places(self.kernel)


def _bare(expr: Expr) -> Expr:
    """Without conversions that keep whether the value is zero: to bool, and to wider types."""
    while isinstance(expr, Cast) and (expr.type == BOOL or expr.type.size >= expr.operand.type.size):
        expr = expr.operand
    return expr
