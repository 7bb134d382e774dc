"""How far the value of an expression is shared: by the grid, a block, a warp, or not at all.

``evaluate`` folds an expression over the levels of its variables. Guarantee: an expression of level L has one value
for all threads of one L that evaluate it at the same dynamic instance (same iterations, same path). Besides the level
it tracks what makes ``threadIdx.x / 32`` a warp's value: trailing zero bits, ranges, lane alignment, and, where block
dimensions are known and the value depends on nothing but thread indices, the value of every thread of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from prelaunch.analysis.kernel import (
    Binary,
    Cast,
    Const,
    Expr,
    Kernel,
    PtrOffset,
    Pure,
    Scalar,
    Select,
    Special,
    Type,
    Unary,
    Var,
)
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.source import NOWHERE, Span
from prelaunch.analysis.uniformity.lanes import Lanes, lanes_of, spread
from prelaunch.analysis.walk import postorder, subexpressions

WARP_SIZE = 32
LAST_THREAD = (1 << 31) - 1 - 1024
"""Assumed of every launch: global thread ids along an axis do not go beyond."""
Key = int | str
"""A variable by id, or a local memory object by name."""


class Level(IntEnum):
    """Ordered from most to least shared; ``max`` joins."""

    GRID = 0
    BLOCK = 1
    WARP = 2
    THREAD = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class Why:
    """What made a value differ between threads: ``text`` at ``span``, in turn because of ``cause``."""

    text: str
    span: Span
    cause: Why | None = None

    def chain(self) -> tuple[Why, ...]:
        """This reason and those behind it, the root (``threadIdx.x``) last."""
        links: list[Why] = []
        link: Why | None = self
        while link is not None:
            links.append(link)
            link = link.cause
        return tuple(links)


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """``low``..``high`` bound an integer (None: unknown); ``zeros`` low bits are known zero; ``lane``: the value is
    the lane id plus a multiple of 32 that the warp shares; ``lanes``: the value in each thread of a block.
    Two values are the same object only when they stem from the same assignment."""

    level: Level
    why: Why | None = None
    low: int | None = None
    high: int | None = None
    zeros: int = 0
    lane: bool = False
    lanes: Lanes | None = None

    @property
    def const(self) -> int | None:
        return self.low if self.low is not None and self.low == self.high else None


GRID_VALUE = Value(Level.GRID)


@dataclass(frozen=True, slots=True)
class Dims:
    """What is known of a launch: block and grid components (None: unknown)."""

    block: tuple[int | None, int | None, int | None] = (None, None, None)
    grid: tuple[int | None, int | None, int | None] = (None, None, None)

    @classmethod
    def of(cls, kernel: Kernel, launch: Launch | None) -> Dims:
        if launch is None:
            return cls()
        block, grid = (tuple(_number(e) for e in dims) for dims in (launch.block, launch.grid))
        return cls((block[0], block[1], block[2]), (grid[0], grid[1], grid[2]))

    @property
    def threads(self) -> int | None:
        x, y, z = self.block
        return x * y * z if x is not None and y is not None and z is not None else None

    def collapse(self, level: Level) -> Level:
        """A block of one warp shares what its warp shares; a block of one thread shares everything."""
        threads = self.threads
        if threads is not None and (threads == 1 or (threads <= WARP_SIZE and level is Level.WARP)):
            return min(level, Level.BLOCK)
        return level


def _number(expr: Expr) -> int | None:
    return int(expr.value) if isinstance(expr, Const) and expr.value > 0 else None


def join(a: Value, b: Value, level: Level = Level.GRID, why: Why | None = None) -> Value:
    """What holds of a variable that is ``a`` or ``b``, chosen by a condition of ``level`` because of ``why``."""
    if a is b or (a.const is not None and a.const == b.const):
        return a
    top = max(a.level, b.level, level)
    reason = a.why if a.level == top and a.why else b.why if b.level == top and b.why else why
    known = a.low is not None and b.low is not None and a.high is not None and b.high is not None
    return Value(
        top,
        reason,
        min(a.low or 0, b.low or 0) if known else None,
        max(a.high or 0, b.high or 0) if known else None,
        min(a.zeros, b.zeros),
        a.lane and b.lane and level <= Level.WARP,
    )


def raised(value: Value, level: Level, why: Why | None) -> Value:
    """``value`` as seen after threads may have kept different instances of it."""
    if level == Level.GRID or value.const is not None:
        return value
    return Value(
        max(value.level, level),
        value.why if value.level >= level and value.why else why,
        value.low,
        value.high,
        value.zeros,
        value.lane and level <= Level.WARP,
    )


# --- folding -------------------------------------------------------------------------------------------------------


Steps = tuple[tuple[Expr, tuple[Expr, ...]], ...]
"""An expression's nodes with their operands, operands first: what ``evaluate`` goes through."""


def steps(expr: Expr) -> Steps:
    return tuple((item, subexpressions(item)) for item in postorder(expr))


def evaluate(
    expr: Expr, env: Mapping[Key, Value], dims: Dims, values: dict[int, Value], order: Steps | None = None
) -> Value:
    """Level of ``expr``; ``values`` gets that of every node under it, by ``id``. A variable unknown to ``env`` was
    never assigned on the way: level thread. ``order`` is ``steps(expr)``, for callers that keep it."""
    for item, below in steps(expr) if order is None else order:
        if isinstance(item, (Var, PtrOffset)):
            key = item.id if isinstance(item, Var) else item.var.id
            value = env.get(key) or Value(Level.THREAD, Why("a variable that is not assigned on this path", item.span))
        else:
            value = _fold(item, [values[id(operand)] for operand in below], dims)
        values[id(item)] = value
    return values[id(expr)]


def _fold(expr: Expr, operands: list[Value], dims: Dims) -> Value:
    if isinstance(expr, Const):
        return constant(expr.value)
    if isinstance(expr, Special):
        return special(expr.name, dims, expr.span)
    if not operands:
        return GRID_VALUE
    top = max(operands, key=lambda v: v.level)
    value = Value(top.level, top.why)
    if isinstance(expr, Cast):
        value = replace(operands[0])
    elif isinstance(expr, Binary):
        value = _low_bits(expr, operands[0], operands[1], dims) or _binary(expr, operands[0], operands[1], value)
    elif isinstance(expr, Select):
        known = operands[0].const
        value = operands[1 if known else 2] if known is not None else _selected(*operands)
    elif isinstance(expr, Pure) and expr.name in ("min", "max"):
        value = _extreme(expr.name, operands[0], operands[1], value)
    elif isinstance(expr, Unary) and expr.op == "lnot" and operands[0].const is not None:
        return constant(int(not operands[0].const))
    value = _from_lanes(expr, operands, value, dims)
    return _wrapped(value, expr.type)


def _selected(cond: Value, then: Value, orelse: Value) -> Value:
    return join(then, orelse, cond.level, cond.why)


def _low_bits(expr: Binary, a: Value, b: Value, dims: Dims) -> Value | None:
    """``v % 2^k`` and ``v & (2^k - 1)`` of a lane-aligned value: the low bits of the lane id, whatever the block."""
    size = b.const if expr.op == "rem" else b.const + 1 if expr.op == "and" and b.const is not None else None
    if not a.lane or size not in (1, 2, 4, 8, 16, 32) or a.lanes is not None:
        return None
    if expr.op == "rem" and (a.low is None or a.low < 0):
        return None
    lane = _in_warp("laneid", dims, a.why or Why("laneid", expr.span))
    lanes = lane.lanes % size if lane.lanes is not None else None
    return replace(lane, high=size - 1, lane=size == WARP_SIZE, lanes=lanes)


def _extreme(name: str, a: Value, b: Value, value: Value) -> Value:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return value
    pick = min if name == "min" else max
    return Value(value.level, value.why, pick(a.low, b.low), pick(a.high, b.high))


def constant(value: int | float) -> Value:
    if not isinstance(value, int):
        return GRID_VALUE
    zeros = (value & -value).bit_length() - 1 if value else 64
    return Value(Level.GRID, None, value, value, zeros)


def _wrapped(value: Value, kind: Type) -> Value:
    """A number that does not fit the type wraps; a range that does not becomes the type's."""
    if not isinstance(kind, Scalar) or not kind.is_integer:
        return value if value.low is None else replace(value, low=None, high=None)
    bits = 1 if kind.kind == "bool" else kind.bits
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.signed else (0, (1 << bits) - 1)
    if value.low is not None and value.high is not None and low <= value.low and value.high <= high:
        return value
    if value.const is not None:
        return constant(int(value.const != 0) if bits == 1 else (value.const - low) % (1 << bits) + low)
    return replace(value, low=low, high=high)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << b if 0 <= b < 64 else 0,
    "shr": lambda a, b: a >> b if 0 <= b < 64 else 0,
    "div": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0,
}
_DECIDED: dict[str, Callable[[int, int, int, int], bool | None]] = {
    "lt": lambda a, b, c, d: True if b < c else False if a >= d else None,
    "le": lambda a, b, c, d: True if b <= c else False if a > d else None,
    "gt": lambda a, b, c, d: True if a > d else False if b <= c else None,
    "ge": lambda a, b, c, d: True if a >= d else False if b < c else None,
    "eq": lambda a, b, c, d: True if a == b == c == d else False if b < c or d < a else None,
    "ne": lambda a, b, c, d: False if a == b == c == d else True if b < c or d < a else None,
    "land": lambda a, b, c, d: False if a == b == 0 or c == d == 0 else True if (a > 0 and c > 0) else None,
    "lor": lambda a, b, c, d: False if a == b == c == d == 0 else True if a > 0 or c > 0 else None,
}


def _binary(expr: Binary, a: Value, b: Value, value: Value) -> Value:
    op = expr.op
    if op in _DECIDED:
        if a.low is not None and a.high is not None and b.low is not None and b.high is not None:
            decided = _DECIDED[op](a.low, a.high, b.low, b.high)
            if decided is not None:
                return constant(int(decided))
        return replace(value, level=Level.WARP) if _splits_at_warp(op, a, b) else value
    lane, level = _lane(op, a, b, value.level)
    low, high = _range(op, a, b)
    return Value(level, value.why, low, high, _zeros(op, a, b), lane)


def _zeros(op: str, a: Value, b: Value) -> int:
    if op in ("add", "sub", "or", "xor"):
        return min(a.zeros, b.zeros)
    if op == "and":
        return max(a.zeros, b.zeros)
    if op == "mul":
        return min(64, a.zeros + b.zeros)
    if op == "shl" and b.const is not None and b.const >= 0:
        return min(64, a.zeros + b.const)
    return 0


def _range(op: str, a: Value, b: Value) -> tuple[int | None, int | None]:
    if op == "and":
        caps = [v.high for v in (a, b) if v.low is not None and v.low >= 0 and v.high is not None]
        return (0, min(caps)) if caps else (None, None)
    if op == "rem" and b.const is not None and b.const > 0 and a.low is not None and a.low >= 0:
        return (0, min(b.const - 1, a.high or 0))
    if op not in _ARITHMETIC or a.low is None or a.high is None or b.low is None or b.high is None:
        return None, None
    if op in ("div", "shl", "shr") and (b.const is None or b.const < 0 or (op == "div" and b.const == 0)):
        return None, None
    ends = [_ARITHMETIC[op](x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)


def _lane(op: str, a: Value, b: Value, level: Level) -> tuple[bool, Level]:
    """(is the result lane-aligned, its level) where one side is lane-aligned and the other a warp's value."""
    if not a.lane and b.lane and op in ("add", "or", "xor", "and"):
        a, b = b, a
    if not a.lane or b.level > Level.WARP:
        return False, level
    if op in ("add", "sub", "or", "xor") and b.zeros >= 5:
        return True, level
    if op == "and" and b.zeros >= 5:
        return False, Level.WARP
    if op == "shr" and b.const is not None and b.const >= 5:
        return False, Level.WARP
    if op == "div" and b.const is not None and b.const > 0 and b.zeros >= 5 and a.low is not None and a.low >= 0:
        return False, Level.WARP
    return False, level


def _splits_at_warp(op: str, a: Value, b: Value) -> bool:
    """Is ``a op b`` a cut between whole warps, such as ``threadIdx.x < 128``?"""
    if b.lane and not a.lane:
        flip = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
        return op in flip and _splits_at_warp(flip[op], b, a)
    if not a.lane or b.level > Level.WARP:
        return False
    last = b.const is not None and (b.const + 1) % WARP_SIZE == 0
    return (op in ("lt", "ge") and b.zeros >= 5) or (op in ("le", "gt") and last)


def special(name: str, dims: Dims, span: Span = NOWHERE) -> Value:
    """Level of a built-in variable under what is known of the launch."""
    base, _, axis = name.partition(".")
    index = "xyz".find(axis) if axis else -1
    if base in ("blockDim", "gridDim"):
        known = (dims.block if base == "blockDim" else dims.grid)[index]
        return (
            constant(known) if known is not None else Value(Level.GRID, None, 1, 1024 if base == "blockDim" else None)
        )
    if base == "threadIdx":
        return _thread_index(index, dims, Why(name, span))
    if base == "blockIdx":
        known = dims.grid[index]
        if known == 1:
            return constant(0)
        return Value(Level.BLOCK, Why(name, span), 0, (known or LAST_THREAD // (dims.block[index] or 1) + 1) - 1)
    if base in ("laneid", "warpid"):
        return _in_warp(base, dims, Why(name, span))
    if base in ("clock", "clock64", "globaltimer"):
        return Value(Level.THREAD, Why(name, span))
    if base in ("clusterDim", "dynamic_smem_size"):
        return GRID_VALUE
    return Value(Level.BLOCK, Why(name, span))


def _in_warp(base: str, dims: Dims, why: Why) -> Value:
    """``laneid`` and ``warpid``."""
    threads = dims.threads if dims.threads is not None and dims.threads <= 1024 else None
    index = np.arange(threads, dtype=np.int64) if threads is not None else None
    if base == "laneid":
        lanes = index % WARP_SIZE if index is not None else None
        return Value(dims.collapse(Level.THREAD), why, 0, WARP_SIZE - 1, lane=True, lanes=lanes)
    lanes = index // WARP_SIZE if index is not None else None
    return Value(dims.collapse(Level.WARP), why, 0, 31, lanes=lanes)


def _thread_index(index: int, dims: Dims, why: Why) -> Value:
    size = dims.block[index]
    if size == 1:
        return constant(0)
    below = 1
    for known in dims.block[:index]:
        below = below * known if below and known is not None else 0  # 0: not known
    lanes = None
    if dims.threads is not None and dims.threads <= 1024:
        lanes = (np.arange(dims.threads, dtype=np.int64) // below) % (size or 1)
    whole = index > 0 and below > 0 and below % WARP_SIZE == 0
    rows = dims.block[0] is not None and dims.block[0] % WARP_SIZE == 0
    lane = index == 0 and (rows or dims.block[1:] == (1, 1))
    limit = (size or (64 if index == 2 else 1024)) - 1
    level = Level.WARP if whole else Level.THREAD
    return Value(dims.collapse(level), why, 0, limit, lane=lane, lanes=lanes)


# --- whole blocks --------------------------------------------------------------------------------------------------


def _from_lanes(expr: Expr, operands: list[Value], value: Value, dims: Dims) -> Value:
    """Sharpen ``value`` with the value of every thread of a block, where all operands have them."""
    threads = dims.threads
    if threads is None or not isinstance(expr, (Binary, Cast, Unary, Select)) or not isinstance(expr.type, Scalar):
        return value
    if not expr.type.is_integer or all(v.lanes is None for v in operands):
        return value
    arrays = [v.lanes if v.lanes is not None else spread(v.const, threads) for v in operands]
    found = [a for a in arrays if a is not None]
    if len(found) != len(arrays):
        return value
    lanes = lanes_of(expr, found)
    if lanes is None:
        return value
    low, high = int(lanes.min()), int(lanes.max())
    if low == high:
        return constant(low)
    shared = all(np.all(lanes[i : i + WARP_SIZE] == lanes[i]) for i in range(0, threads, WARP_SIZE))
    level = dims.collapse(Level.WARP if shared else Level.THREAD)
    return replace(value, level=level, low=low, high=high, lanes=lanes)
