"""Parts of uniformity that look at single statements: what a kernel writes, and what a warp exchange returns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prelaunch.analysis.kernel import (
    Async,
    Atomic,
    Barrier,
    Collective,
    Kernel,
    Load,
    Loop,
    Mma,
    Opaque,
    Space,
    Stmt,
    Store,
)
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.uniformity.lanes import spread
from prelaunch.analysis.uniformity.levels import WARP_SIZE, Dims, Key, Level, Value, Why, evaluate
from prelaunch.analysis.uniformity.points_to import PointsTo
from prelaunch.analysis.walk import operands, walk


class Written:
    """Which objects a kernel may write, plainly or by atomics, through known and unknown pointers."""

    def __init__(self, kernel: Kernel, launch: Launch | None) -> None:
        self.plain: set[str] = set()
        self.atomic: set[str] = set()
        self.unknown: set[Space] = set()
        self.objects = {item.id: item for item in kernel.objects}
        self.points = PointsTo(kernel)
        for stmt in walk(kernel.body):
            if isinstance(stmt, (Store, Atomic)):
                self._note(stmt, stmt.space, isinstance(stmt, Atomic) or stmt.order != "weak")
            elif isinstance(stmt, Async) and stmt.dst is not None:
                self._note(stmt, "generic", True)
            elif isinstance(stmt, Mma) and stmt.op == "store":
                self._note(stmt, "generic", False)
            elif isinstance(stmt, Opaque) and "memory" in stmt.touches:
                self.unknown.add("generic")
        self._alias(kernel, launch)
        self._settle(kernel)

    def _note(self, stmt: Stmt, space: Space, unordered: bool) -> None:
        names = self.points.access(stmt)
        if names is None:
            self.unknown.add(space)
        else:
            (self.atomic if unordered else self.plain).update(names)

    def _alias(self, kernel: Kernel, launch: Launch | None) -> None:
        for relation in launch.relations if launch is not None else ():
            if relation.kind == "overlaps" and relation.other is not None:
                both = {relation.argument, relation.other}
                names = {p.object for p in kernel.params if p.formal in both and p.object is not None}
                if names & (self.plain | self.atomic):
                    self.atomic |= names

    def by(self, name: str) -> str:
        """ "" (never), "plain" (by plain stores only), "mixed" (atomics, copies, unknown pointers too), "volatile"."""
        item = self.objects.get(name)
        if item is None or item.volatile:
            return "volatile"
        if name in self.atomic:
            return "mixed"
        if "generic" in self.unknown or item.space in self.unknown:
            return "" if item.space in ("constant", "param") else "mixed"
        return "plain" if name in self.plain else ""

    def settled(self, load: Load, name: str) -> bool:
        """Does a barrier stand, in the text, between ``load`` and the last atomic or unknown write before it?"""
        return name not in self._dirty.get(id(load), frozenset({name}))

    def _settle(self, kernel: Kernel) -> None:
        everything = frozenset(self.objects)
        dirty: frozenset[str] = frozenset()
        self._dirty: dict[int, frozenset[str]] = {}
        for stmt in walk(kernel.body):
            if isinstance(stmt, Barrier) and stmt.scope in ("block", "cluster", "grid"):
                dirty = frozenset()
            elif isinstance(stmt, Load):
                self._dirty[id(stmt)] = dirty
            elif isinstance(stmt, (Atomic, Async)) or (isinstance(stmt, Opaque) and "memory" in stmt.touches):
                names = None if isinstance(stmt, Opaque) else self.points.access(stmt)
                dirty |= everything if names is None else names


def exchanged(stmt: Collective, found: list[Value], dims: Dims) -> Value:
    """Level of a warp-wide exchange's result."""
    index = {id(expr): value for expr, value in zip(operands(stmt), found, strict=True)}
    args = [index[id(arg)] for arg in stmt.args]
    why = Why("result of a warp exchange", stmt.span, args[0].why if args else None)
    level = Level.THREAD
    if stmt.op.startswith("shfl"):
        value, lane = args
        width = index[id(stmt.width)].const if stmt.width is not None else 32
        if value.level <= Level.WARP:
            level = value.level
        elif stmt.op == "shfl.idx" and lane.level <= Level.WARP and width == 32:
            level = Level.WARP
    elif stmt.op in ("vote.any", "vote.all"):
        level = min(args[0].level, Level.WARP)
    elif stmt.op in ("vote.ballot", "match.all") or stmt.op.startswith("reduce"):
        level = Level.WARP
    return Value(dims.collapse(level), why)


def rounds(loop: Loop, env: Mapping[Key, Value], dims: Dims) -> Level:
    """How far apart the numbers of rounds of a counted loop are, where they are numbers in every thread of a block.

    ``env`` holds before the loop. Breaks are not looked at.
    """
    info, threads = loop.info, dims.threads
    if info is None or info.kind != "affine" or info.cmp == "ne" or threads is None:
        return Level.THREAD
    first, bound, step = (evaluate(expr, env, dims, {}) for expr in (info.init, info.bound, info.step))
    size = step.const
    ends = [v.lanes if v.lanes is not None else spread(v.const, threads) for v in (first, bound)]
    if size is None or ends[0] is None or ends[1] is None or (size > 0) != (info.cmp in ("lt", "le")) or size == 0:
        return Level.THREAD
    if min(int(ends[0].min()), int(ends[1].min())) < 0:
        return Level.THREAD  # a comparison of another signedness would see other numbers
    distance = (ends[1] - ends[0]) * (1 if size > 0 else -1) + (info.cmp in ("le", "ge"))
    trips = np.maximum(0, -(-distance // abs(size)))
    if (trips == trips[0]).all():
        return Level.GRID
    whole = all((trips[i : i + WARP_SIZE] == trips[i]).all() for i in range(0, threads, WARP_SIZE))
    return dims.collapse(Level.WARP if whole else Level.THREAD)
