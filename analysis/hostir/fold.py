"""C arithmetic on ``kernel.Expr`` in host code: promotions, wrapping, constant folding, bounded size.

Guarantees: a result that is a ``Const`` is the value C gives on every execution where the operands have the values
they stand for and no behaviour is undefined; expressions never grow beyond ``MAX_NODES`` (``TooLarge`` instead).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from prelaunch.analysis.kernel import (
    BOOL,
    COMPARISONS,
    F32,
    F64,
    I32,
    I64,
    LOGICAL,
    U64,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Pointer,
    Pure,
    Scalar,
    Select,
    Type,
    Unary,
    UnaryOp,
)
from prelaunch.analysis.walk import walk_expr

MAX_NODES = 64

OPERATORS: dict[str, BinaryOp] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor", "<<": "shl",
    ">>": "shr", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "&&": "land", "||": "lor",
}  # fmt: skip


class TooLarge(Exception):
    """The expression would exceed ``MAX_NODES``."""


def type_of(expr: Expr) -> Scalar:
    """The scalar type of a value; pointers read as U64."""
    kind = expr.type
    return U64 if isinstance(kind, Pointer) else kind


def wrap(value: int | float, kind: Type) -> int | float:
    """``value`` converted to ``kind`` as C does; floats out of an integer's range wrap (undefined in C)."""
    if isinstance(kind, Pointer):
        return int(value) & (2**64 - 1)
    if kind.kind in ("float", "bfloat"):
        return _round(float(value), kind)
    if kind.kind == "bool":
        return int(value != 0)
    number = int(value)
    number &= (1 << kind.bits) - 1
    if kind.kind == "int" and number >> (kind.bits - 1):
        number -= 1 << kind.bits
    return number


def _round(value: float, kind: Scalar) -> float:
    if kind.bits == 32:
        try:
            return float(struct.unpack("f", struct.pack("f", value))[0])
        except OverflowError:
            return math.copysign(math.inf, value)
    return value


def cast(expr: Expr, kind: Type) -> Expr:
    """``(kind)expr``, folded; a conversion to the type it has is nothing."""
    if expr.type == kind:
        return expr
    if isinstance(expr, Const):
        if isinstance(expr.value, float) and not math.isfinite(expr.value):
            return Cast(expr, kind)
        return Const(wrap(expr.value, kind), kind)
    if isinstance(expr, Select) and _constant_leaf(expr):
        return Select(expr.cond, cast(expr.then, kind), cast(expr.orelse, kind), kind)
    return _sized(Cast(expr, kind))


def _promote(kind: Scalar) -> Scalar:
    return I32 if kind.is_integer and kind.bits < 32 else kind


def common(left: Scalar, right: Scalar) -> Scalar:
    """C's usual arithmetic conversions."""
    if not (left.is_integer and right.is_integer):
        floats = [k for k in (left, right) if not k.is_integer]
        return F64 if any(k.bits == 64 for k in floats) else F32
    left, right = _promote(left), _promote(right)
    if left == right:
        return left
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return left if left.kind == "uint" else right


def binary(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """``left op right`` with C's conversions, folded. Raises TooLarge."""
    if op in LOGICAL:
        return _logical(op, truth(left), truth(right))
    if op in ("shl", "shr"):
        operand = _promote(type_of(left))
        left, right = cast(left, operand), cast(right, _promote(type_of(right)))
    else:
        operand = common(type_of(left), type_of(right))
        left, right = cast(left, operand), cast(right, operand)
    result = BOOL if op in COMPARISONS else operand
    if isinstance(left, Const) and isinstance(right, Const):
        value = _compute(op, left.value, right.value, operand)
        if value is not None:
            return Const(wrap(value, result), result)
    for chosen, other, first in ((left, right, True), (right, left, False)):
        if isinstance(chosen, Select) and _constant_leaf(chosen) and isinstance(other, Const):
            sides = [binary(op, s, other) if first else binary(op, other, s) for s in (chosen.then, chosen.orelse)]
            return select(chosen.cond, sides[0], sides[1])
    if isinstance(left, Select) and isinstance(right, Select) and left.cond == right.cond:
        then, orelse = binary(op, left.then, right.then), binary(op, left.orelse, right.orelse)
        if isinstance(then, Const) and isinstance(orelse, Const):
            return select(left.cond, then, orelse)
    return _neutral(op, left, right) or _sized(Binary(op, left, right, result))


def _neutral(op: BinaryOp, left: Expr, right: Expr) -> Expr | None:
    """x*1, x/1, x+0, x-0 and their mirrors are x."""
    if isinstance(right, Const):
        if op in ("mul", "div") and right.value == 1:
            return left
        if op in ("add", "sub", "shl", "shr") and right.value == 0:
            return left
    if isinstance(left, Const) and ((op == "mul" and left.value == 1) or (op == "add" and left.value == 0)):
        return right
    return None


def _compute(op: BinaryOp, a: int | float, b: int | float, kind: Scalar) -> int | float | bool | None:
    """The mathematical result, None where C leaves it undefined."""
    integer = kind.is_integer
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div" | "rem":
            if b == 0:
                return None
            if not integer:
                return a / b if op == "div" else None
            quotient = abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if op == "div" else int(a) - quotient * int(b)
        case "eq":
            return a == b
        case "ne":
            return a != b
        case "lt":
            return a < b
        case "le":
            return a <= b
        case "gt":
            return a > b
        case "ge":
            return a >= b
    if not integer:
        return None
    x, y = int(a), int(b)
    match op:
        case "and":
            return x & y
        case "or":
            return x | y
        case "xor":
            return x ^ y
        case "shl":
            return x << y if 0 <= y < kind.bits else None
        case "shr":
            return x >> y if 0 <= y < kind.bits else None
    return None


def _logical(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    for a, b in ((left, right), (right, left)):
        if isinstance(a, Const):
            decided = (not a.value) if op == "land" else bool(a.value)
            return Const(int(op == "lor"), BOOL) if decided else b
    return _sized(Binary(op, left, right, BOOL))


def truth(expr: Expr) -> Expr:
    """``expr != 0``."""
    return cast(expr, BOOL) if isinstance(expr, Const) or expr.type != BOOL else expr


def unary(op: UnaryOp, operand: Expr) -> Expr:
    """``-x``, ``~x``, ``!x``, folded. Raises TooLarge."""
    if op == "lnot":
        operand = truth(operand)
        return Const(int(not operand.value), BOOL) if isinstance(operand, Const) else _sized(Unary(op, operand, BOOL))
    kind = _promote(type_of(operand))
    operand = cast(operand, kind)
    if isinstance(operand, Const):
        if op == "neg":
            return Const(wrap(-operand.value, kind), kind)
        if kind.is_integer:
            return Const(wrap(~int(operand.value), kind), kind)
    return _sized(Unary(op, operand, kind))


def select(cond: Expr, then: Expr, orelse: Expr) -> Expr:
    """``cond ? then : orelse``. Raises TooLarge."""
    if isinstance(cond, Const):
        return then if cond.value else orelse
    if then == orelse:
        return then
    kind = then.type if then.type == orelse.type else common(type_of(then), type_of(orelse))
    return _sized(Select(cond, cast(then, kind), cast(orelse, kind), kind))


def pick(name: str, left: Expr, right: Expr) -> Expr:
    """``min``/``max`` of two values. Raises TooLarge."""
    kind = common(type_of(left), type_of(right))
    left, right = cast(left, kind), cast(right, kind)
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(min(left.value, right.value) if name == "min" else max(left.value, right.value), kind)
    if left == right:
        return left
    return _sized(Pure(name, (left, right), kind))


def call(name: str, args: tuple[Expr, ...], kind: Scalar) -> Expr:
    """A mathematical function of constants (``ceil``, ``sqrt``, ``pow``, ``log2``), else the symbolic call."""
    if all(isinstance(a, Const) for a in args):
        numbers = [float(a.value) for a in args if isinstance(a, Const)]
        try:
            value = _FUNCTIONS[name](*numbers)
        except (ValueError, OverflowError, ZeroDivisionError, TypeError):
            return _sized(Pure(name, args, kind))
        if math.isfinite(value):
            return Const(wrap(value, kind), kind)
    return _sized(Pure(name, args, kind))


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "ceil": math.ceil, "floor": math.floor, "round": lambda x: math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1),
    "sqrt": math.sqrt, "pow": math.pow, "log2": math.log2, "log": math.log, "fabs": abs, "exp2": lambda x: 2.0**x,
    "log10": math.log10, "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x), "trunc": math.trunc,
}  # fmt: skip
MATH_FUNCTIONS = frozenset(_FUNCTIONS)


def _constant_leaf(expr: Select) -> bool:
    """A nest of choices between constants."""
    return all(isinstance(s, Const) or (isinstance(s, Select) and _constant_leaf(s)) for s in (expr.then, expr.orelse))


def _sized(expr: Expr) -> Expr:
    if any(count > MAX_NODES for count, _ in enumerate(walk_expr(expr), 1)):
        raise TooLarge
    return expr


def substitute(expr: Expr, old: Expr, new: Expr) -> Expr:
    """``expr`` with every occurrence of ``old`` replaced and folded again."""
    if expr == old:
        return new
    match expr:
        case Unary(op=op, operand=a):
            return unary(op, substitute(a, old, new))
        case Binary(op=op, left=a, right=b):
            return binary(op, substitute(a, old, new), substitute(b, old, new))
        case Cast(operand=a, type=kind):
            return cast(substitute(a, old, new), kind)
        case Select(cond=c, then=a, orelse=b):
            return select(substitute(c, old, new), substitute(a, old, new), substitute(b, old, new))
        case Pure(name="min" | "max" as name, args=(a, b)):
            return pick(name, substitute(a, old, new), substitute(b, old, new))
        case Pure(name=name, args=args, type=kind):
            return call(name, tuple(substitute(a, old, new) for a in args), kind)
    return expr


def integer(value: int, kind: Scalar = I64) -> Const:
    return Const(value, kind)
