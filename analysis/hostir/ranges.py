"""Bounds of symbolic host values by interval arithmetic."""

from __future__ import annotations

from prelaunch.analysis.kernel import Binary, Cast, Const, Expr, Pointer, Pure, Scalar, Select, Special, postorder

Interval = tuple[int, int]
MAX = 2**64


def bounds(expr: Expr) -> Interval:
    """``(lowest, highest)`` value of an integer expression when every unknown in it is non-negative and nothing
    overflows; the range of its type where that says nothing."""
    found: dict[int, Interval] = {}
    for item in postorder(expr):
        found[id(item)] = _one(item, found)
    return found[id(expr)]


def _one(item: Expr, found: dict[int, Interval]) -> Interval:
    whole = _type_range(item.type)
    match item:
        case Const(value=value):
            return (int(value), int(value)) if abs(value) < MAX else whole
        case Cast(operand=a):
            low, high = found[id(a)]
            return (low, high) if whole[0] <= low and high <= whole[1] else whole
        case Select(then=a, orelse=b):
            return min(found[id(a)][0], found[id(b)][0]), max(found[id(a)][1], found[id(b)][1])
        case Pure(name="min", args=(a, b)):
            return min(found[id(a)][0], found[id(b)][0]), min(found[id(a)][1], found[id(b)][1])
        case Pure(name="max", args=(a, b)):
            return max(found[id(a)][0], found[id(b)][0]), max(found[id(a)][1], found[id(b)][1])
        case Binary(op=op, left=a, right=b):
            return _clip(_binary(op, found[id(a)], found[id(b)]), whole)
        case Special():
            return whole
    return max(whole[0], 0), whole[1]


def _type_range(kind: object) -> Interval:
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


def _binary(op: str, a: Interval, b: Interval) -> Interval | None:
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case "div" if b[0] > 0:
            ends = [abs(x) // y * (1 if x >= 0 else -1) for x in a for y in b]
            return min(ends), max(ends)
        case "rem" if b[0] > 0 and a[0] >= 0:
            return 0, min(a[1], b[1] - 1)
        case "and" if a[0] >= 0 and b[0] >= 0:
            return 0, min(a[1], b[1])
        case "shr" if a[0] >= 0 and 0 <= b[0] <= b[1] < 64:
            return a[0] >> b[1], a[1] >> b[0]
        case "shl" if a[0] >= 0 and 0 <= b[0] <= b[1] < 64:
            return a[0] << b[0], a[1] << b[1]
        case "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "land" | "lor":
            return 0, 1
    return None
