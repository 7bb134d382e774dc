"""Bounds of symbolic host values by interval arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

from prelaunch.analysis.kernel import Binary, Cast, Const, Expr, Pointer, Pure, Scalar, Select, Special
from prelaunch.analysis.walk import postorder

Number = int | Fraction
Interval = tuple[Number, Number]
MAX = 2**64


def bounds(expr: Expr, least: int = 0) -> Interval:
    """``(lowest, highest)`` value of an expression when every unknown in it is at least ``least`` and nothing
    overflows; the range of its type where that says nothing. Fractions for floating-point values, taken as exact."""
    found: dict[int, Interval] = {}
    for item in postorder(expr):
        found[id(item)] = _one(item, found, least)
    return found[id(expr)]


def _one(item: Expr, found: dict[int, Interval], least: int) -> Interval:
    whole = _type_range(item.type)
    match item:
        case Const(value=value):
            if not abs(value) < MAX:  # infinities and NaN among them
                return whole
            return _plain(Fraction(value)), _plain(Fraction(value))
        case Cast(operand=a, type=kind):
            low, high = found[id(a)]
            if isinstance(kind, Scalar) and kind.is_integer:
                low, high = math.trunc(low), math.trunc(high)
            return (low, high) if whole[0] <= low and high <= whole[1] else whole
        case Pure(name="ceil" | "floor" as name, args=(a,)):
            turn = math.ceil if name == "ceil" else math.floor
            return turn(found[id(a)][0]), turn(found[id(a)][1])
        case Select(then=a, orelse=b):
            return min(found[id(a)][0], found[id(b)][0]), max(found[id(a)][1], found[id(b)][1])
        case Pure(name="min", args=(a, b)):
            return min(found[id(a)][0], found[id(b)][0]), min(found[id(a)][1], found[id(b)][1])
        case Pure(name="max", args=(a, b)):
            return max(found[id(a)][0], found[id(b)][0]), max(found[id(a)][1], found[id(b)][1])
        case Binary(op=op, left=a, right=b):
            exact = isinstance(item.type, Scalar) and not item.type.is_integer
            return _clip(_binary(op, found[id(a)], found[id(b)], exact), whole)
        case Special():
            return whole
    return max(whole[0], least), whole[1]


def _plain(value: Fraction) -> Number:
    return value.numerator if value.denominator == 1 else value


def _type_range(kind: object) -> tuple[int, int]:
    if isinstance(kind, Scalar) and kind.is_integer:
        if kind.kind == "bool":
            return 0, 1
        return (-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) if kind.signed else (0, (1 << kind.bits) - 1)
    return (0, MAX) if isinstance(kind, Pointer) else (-MAX, MAX)


def _clip(made: Interval | None, whole: Interval) -> Interval:
    """Results outside the type's range are overflow, which is assumed absent."""
    if made is None:
        return whole
    return max(made[0], whole[0]), max(min(made[1], whole[1]), whole[0])


def _binary(op: str, a: Interval, b: Interval, exact: bool) -> Interval | None:
    """``exact``: floating-point operands, whose division does not truncate."""
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            products = [x * y for x in a for y in b]
            return min(products), max(products)
        case "div" if b[0] > 0:
            quotients = [_plain(Fraction(x) / y) for x in a for y in b]
            ends = quotients if exact else [math.trunc(q) for q in quotients]
            return min(ends), max(ends)
        case "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "land" | "lor":
            return 0, 1
    if exact:
        return None
    return _bitwise(op, (int(a[0]), int(a[1])), (int(b[0]), int(b[1])))


def _bitwise(op: str, a: tuple[int, int], b: tuple[int, int]) -> Interval | None:
    match op:
        case "rem" if b[0] > 0 and a[0] >= 0:
            return 0, min(a[1], b[1] - 1)
        case "and" if a[0] >= 0 and b[0] >= 0:
            return 0, min(a[1], b[1])
        case "shr" if a[0] >= 0 and 0 <= b[0] <= b[1] < 64:
            return a[0] >> b[1], a[1] >> b[0]
        case "shl" if a[0] >= 0 and 0 <= b[0] <= b[1] < 64:
            return a[0] << b[0], a[1] << b[1]
    return None
