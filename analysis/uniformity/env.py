"""What the uniformity walk carries along: environments, and the constructs it is inside of."""

from __future__ import annotations

from dataclasses import dataclass, field

from prelaunch.analysis.kernel import Stmt
from prelaunch.analysis.uniformity.levels import Key, Level, Value, Why, join, raised

Env = dict[Key, Value]
ALL = ""
"""Key that is present once all local objects have level thread; contents only ever grow apart, so it stays true."""


@dataclass(frozen=True, slots=True, eq=False)
class Cause:
    """A construct that decides which threads execute a statement: ``stmt`` is an If, a Loop, or a jump that some take
    past the statement; ``level`` how far apart the decision is, ``why`` what makes it differ."""

    stmt: Stmt
    level: Level
    why: Why | None


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """Decisions above a statement that are not the grid's, outermost first; those of exited threads do not count."""

    causes: tuple[Cause, ...] = ()

    @property
    def level(self) -> Level:
        return max((cause.level for cause in self.causes), default=Level.GRID)

    def worst(self) -> Cause | None:
        """The outermost of the most divergent causes."""
        return next((cause for cause in self.causes if cause.level == self.level), None)


@dataclass(slots=True)
class Frame:
    """A construct being walked. ``jumps``: by which some threads have already left for its end."""

    stmt: Stmt
    level: Level = Level.GRID
    why: Why | None = None
    label: int | None = None
    jumps: list[Cause] = field(default_factory=list)
    arrivals: list[Env] = field(default_factory=list)
    breaks: list[Env] = field(default_factory=list)


def shape(value: Value) -> tuple[object, ...]:
    return value.level, value.low, value.high, value.zeros, value.lane


def renamed(value: Value, why: Why | None) -> Value:
    """A fresh value: its identity is that of an assignment."""
    return Value(value.level, why, value.low, value.high, value.zeros, value.lane, value.lanes)


def widened(value: Value) -> Value:
    """Ranges do not survive a loop's back edge unless nothing changed."""
    if value.low is None or value.const is not None:
        return value
    return Value(value.level, value.why, None, None, value.zeros, value.lane)


def merge(a: Env, b: Env, level: Level, why: Why | None) -> Env:
    """What holds after ``a`` or ``b``, chosen by a condition of ``level``; kept in ``a``.

    A variable that only one side has assigned is undefined on the other, so no longer a number.
    """
    for key in a.keys() - b.keys():
        a[key] = Value(max(a[key].level, level), a[key].why or why)
    for key, value in b.items():
        mine = a.get(key)
        if mine is None:
            a[key] = Value(max(value.level, level), value.why or why)
        elif mine is not value:
            a[key] = join(mine, value, level, why)
    return a


def meet(end: Env | None, frame: Frame) -> Env | None:
    """Join of the fall-through and the jumps to the end of ``frame``'s construct."""
    cause = max(frame.jumps, key=lambda c: c.level, default=None)
    for env in frame.arrivals:
        level, why = (cause.level, cause.why) if cause is not None else (Level.GRID, None)
        end = env if end is None else merge(end, env, level, why)
    frame.arrivals.clear()
    return end


def raise_levels(env: Env, keys: tuple[Key, ...], cause: Cause) -> None:
    for key in keys:
        if key in env:
            env[key] = raised(env[key], cause.level, cause.why)
