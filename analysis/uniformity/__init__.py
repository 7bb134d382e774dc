"""Uniformity: which values and which control are shared by the grid, a block, a warp, or nobody.

``uniformity(kernel, launch)`` walks the structured body until levels stand still (flow-sensitive, control dependence
included: values merged after a divergent branch, values that leave a loop in different iterations). Guarantees, under
the assumptions it lists: ``level(expr)`` bounds how far apart the values of two threads that evaluate ``expr`` at one
dynamic instance can be, and ``control(stmt)`` names every branch, loop and jump by which some threads that have not
exited may miss an instance of ``stmt`` that others execute.

Memory: what a kernel does not write keeps the level of its address. A plain load of shared memory at an address the
block shares, under control the block shares, is the block's value: were it not, a write would have to lie between two
threads' reads without a barrier, which is a data race; that no such race exists is listed as an assumption.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prelaunch.analysis.kernel import Block, Expr, Kernel, Loop, Stmt
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.uniformity.env import Cause, Control
from prelaunch.analysis.uniformity.levels import (
    Dims,
    Key,
    Level,
    Value,
    Why,
)
from prelaunch.analysis.uniformity.walk import UniformityWalk
from prelaunch.analysis.walk import children

__all__ = ["Cause", "Control", "Level", "Uniformity", "Value", "Why", "uniformity"]

MAX_DEPTH = 240
MAX_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class Uniformity:
    """Answers for one kernel under what ``dims`` knows of the launch; nodes are asked for by identity.

    ``gave_up`` is a reason when the walk met a cap: every answer is then "thread".
    """

    kernel: Kernel
    dims: Dims
    assumptions: tuple[str, ...] = ()
    gave_up: str = ""
    _values: dict[int, Value] = field(default_factory=dict, repr=False)
    _controls: dict[int, Control] = field(default_factory=dict, repr=False)
    _exits: dict[int, Cause] = field(default_factory=dict, repr=False)
    _variables: dict[Key, Value] = field(default_factory=dict, repr=False)

    def value(self, expr: Expr) -> Value:
        """What is known of an expression (or any part of one) of the kernel, at its statement."""
        return self._values.get(id(expr)) or Value(Level.THREAD)

    def level(self, expr: Expr) -> Level:
        return Level.THREAD if self.gave_up else self.value(expr).level

    def reached(self, stmt: Stmt) -> bool:
        """False when no thread can get there under the launch (a branch on a constant)."""
        return bool(self.gave_up) or id(stmt) in self._controls

    def control(self, stmt: Stmt) -> Control:
        if self.gave_up:
            return Control((Cause(stmt, Level.THREAD, Why(self.gave_up, stmt.span)),))
        return self._controls.get(id(stmt), Control())

    def loop(self, loop: Loop) -> Cause | None:
        """Why threads leave ``loop`` after different numbers of iterations; None when the grid agrees."""
        return self._exits.get(id(loop))

    def variable(self, key: Key) -> Level:
        """The worst level variable ``key`` (or local object) has anywhere."""
        return self._variables[key].level if key in self._variables else Level.THREAD


def uniformity(kernel: Kernel, launch: Launch | None = None, *, params: dict[int, int] | None = None) -> Uniformity:
    """Uniformity of ``kernel`` under ``launch`` (its known dimensions, constant arguments and overlaps).

    ``params`` gives further parameter values by variable id.
    """
    if _depth(kernel.body) > MAX_DEPTH:
        return Uniformity(kernel, Dims(), gave_up=f"nested deeper than {MAX_DEPTH}")
    walk_ = UniformityWalk(kernel, launch, params or {})
    for _ in range(MAX_ROUNDS):
        if not walk_.round():
            break
    else:
        return Uniformity(kernel, Dims(), gave_up=f"levels still moved after {MAX_ROUNDS} rounds")
    exits = {key: cause for key, cause in walk_.exits.items() if cause.level > Level.GRID}
    return Uniformity(
        kernel, walk_.dims, tuple(sorted(walk_.assumed)), "", walk_.values, walk_.controls, exits, walk_.worst
    )


def _depth(body: Block) -> int:
    deepest = 0
    stack: list[tuple[Stmt, int]] = [(body, 0)]
    while stack:
        stmt, depth = stack.pop()
        deepest = max(deepest, depth)
        below = stmt.stmts if isinstance(stmt, Block) else children(stmt)
        stack.extend((item, depth + 1) for item in below)
    return deepest
