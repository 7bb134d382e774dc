"""Literals, and constant folding at construction.

The builders here (``binary``, ``unary``, ``cast``, ``select``, ``offset``) return a ``Const`` when all operands are
constants, apply identities that never change a value (``x + 0``, ``x * 1``, nested constant pointer offsets), and
build the node otherwise. Division by zero and out-of-range shifts are left as written.
"""

from __future__ import annotations

import math
import re
import struct

from prelaunch.analysis.kernel import (
    BOOL,
    COMPARISONS,
    F32,
    F64,
    I32,
    I64,
    LOGICAL,
    U32,
    U64,
    Address,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Pointer,
    PtrAdd,
    Scalar,
    Select,
    Type,
    Unary,
    UnaryOp,
)  # fmt: skip
from prelaunch.analysis.source import NOWHERE, Span

_NUMBER = re.compile(r"(?i)^([+-]?)(0x[0-9a-f.]+(?:p[+-]?\d+)?|0b[01]+|\d*\.?\d*(?:e[+-]?\d+)?)([a-z0-9_]*)$")
_ESCAPES = {
    "n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63,
}  # fmt: skip


def number(text: str) -> Const | None:
    """A C++ numeric literal with its type [lex.icon], [lex.fcon]; None when it is not one."""
    text = text.replace("'", "")
    match = _NUMBER.match(text)
    if match is None or not match[2]:
        return None
    sign, digits, suffix = match[1], match[2].lower(), match[3].lower()
    negative = sign == "-"
    hexadecimal = digits.startswith("0x")
    if digits.startswith("0x") and digits.endswith("f") and not suffix:
        pass  # 0xff: the f is a digit
    floating = ("p" in digits or "." in digits) if hexadecimal else bool(set(digits) & {".", "e"} - {"b"})
    if digits.startswith("0b"):
        floating = False
    if floating or (suffix in ("f", "h") and not hexadecimal):
        try:
            real = float.fromhex(digits) if hexadecimal else float(digits)
        except (ValueError, OverflowError):
            return None
        of = F32 if suffix.startswith("f") else F64
        return Const(fit(-real if negative else real, of), of)
    try:
        whole = int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
    except ValueError:
        return None
    of = _integer_type(whole, suffix, decimal=not digits.startswith("0") or whole == 0)
    return Const(fit(-whole if negative else whole, of), of)


def _integer_type(value: int, suffix: str, decimal: bool) -> Scalar:
    unsigned, long = "u" in suffix, "l" in suffix or "z" in suffix
    for of in (I32, U32, I64, U64):
        if (unsigned and of.signed) or (long and of.bits < 64):
            continue
        if not unsigned and not of.signed and decimal and of.bits < 64:
            continue
        if value < 1 << (of.bits - (1 if of.signed else 0)):
            return of
    return U64


def unescape(text: str) -> list[int]:
    """Character codes of the inside of a character or string literal."""
    codes: list[int] = []
    data = text.encode("utf-8", "replace")
    i = 0
    while i < len(data):
        if data[i] != 92 or i + 1 >= len(data):
            codes.append(data[i])
            i += 1
            continue
        rest = data[i + 1 :].decode("latin-1")
        match = re.match(r"x([0-9a-fA-F]+)|([0-7]{1,3})|(.)", rest, re.S)
        if match is None:
            break
        if match[1]:
            codes.append(int(match[1], 16) & 0xFF)
        elif match[2]:
            codes.append(int(match[2], 8) & 0xFF)
        else:
            codes.append(_ESCAPES.get(match[3], ord(match[3])))
        i += 1 + match.end()
    return codes


def fit(value: int | float, of: Type) -> int | float:
    """``value`` converted to type ``of`` as C does."""
    if isinstance(of, Pointer):
        return int(value) & 0xFFFFFFFFFFFFFFFF
    if of.kind == "bool":
        return int(value != 0)
    if of.is_integer:
        if isinstance(value, float):
            if not math.isfinite(value):
                return 0
            value = int(value)
        value &= (1 << of.bits) - 1
        return value - (1 << of.bits) if of.signed and value >> (of.bits - 1) else value
    real = _real(value)
    if of.bits == 64 or not math.isfinite(real):
        return real
    if of.kind == "bfloat":
        word = int(struct.unpack("<I", struct.pack("<f", _single(real)))[0])
        word = (word + 0x7FFF + ((word >> 16) & 1)) & 0xFFFF0000
        return float(struct.unpack("<f", struct.pack("<I", word & 0xFFFFFFFF))[0])
    if of.bits == 16:
        try:
            return float(struct.unpack("<e", struct.pack("<e", real))[0])
        except OverflowError:
            return math.copysign(math.inf, real)
    return _single(real)


def _real(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _single(real: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", real))[0])
    except OverflowError:
        return math.copysign(math.inf, real)


def cast(operand: Expr, to: Type, span: Span = NOWHERE) -> Expr:
    if operand.type == to or (isinstance(to, Pointer) and isinstance(operand.type, Pointer)):
        return operand
    if isinstance(operand, Const):
        return Const(fit(operand.value, to), to, span=span)
    return Cast(operand, to, span=span)


def unary(op: UnaryOp, operand: Expr, of: Scalar, span: Span = NOWHERE) -> Expr:
    if isinstance(operand, Const):
        value = operand.value
        if op == "lnot":
            return Const(int(not value), BOOL, span=span)
        if op == "neg":
            return Const(fit(-value, of), of, span=span)
        if isinstance(value, int):
            return Const(fit(~value, of), of, span=span)
    if op == "lnot" and isinstance(operand, Unary) and operand.op == "lnot":
        return operand.operand
    return Unary(op, operand, of, span=span)


def binary(op: BinaryOp, left: Expr, right: Expr, of: Scalar, span: Span = NOWHERE) -> Expr:
    """``of`` is the type of the result; operands already have their common type."""
    if isinstance(left, Const) and isinstance(right, Const):
        value = _fold(op, left.value, right.value, of)
        if value is not None:
            return Const(value, of, span=span)
    elif isinstance(right, Const) and of.is_integer:
        simple = _right_identity(op, left, right.value)
        if simple is not None:
            return simple
    elif isinstance(left, Const) and of.is_integer and op in ("add", "mul", "or", "and", "land", "lor"):
        simple = _right_identity(op, right, left.value)
        if simple is not None:
            return simple
    return Binary(op, left, right, of, span=span)


def _right_identity(op: BinaryOp, left: Expr, right: int | float) -> Expr | None:
    """``left`` where ``left op right`` is always ``left``, a constant where it always is that constant."""
    if right == 0 and op in ("add", "sub", "or", "xor", "shl", "shr"):
        return left
    if right == 1 and op in ("mul", "div"):
        return left
    if right == 0 and op in ("mul", "and") and isinstance(left.type, Scalar):
        return Const(0, left.type, span=left.span)
    if op == "land":
        return left if right else Const(0, BOOL, span=left.span)
    if op == "lor":
        return Const(1, BOOL, span=left.span) if right else left
    return None


def _fold(op: BinaryOp, a: int | float, b: int | float, of: Scalar) -> int | float | None:
    if op in COMPARISONS:
        return int({"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[op])
    if op in LOGICAL:
        return int(bool(a) and bool(b)) if op == "land" else int(bool(a) or bool(b))
    if isinstance(a, int) and isinstance(b, int):
        value = _fold_integer(op, a, b, of)
        return None if value is None else fit(value, of)
    if not of.is_integer:
        x, y = float(a), float(b)
        try:
            match op:
                case "add":
                    return fit(x + y, of)
                case "sub":
                    return fit(x - y, of)
                case "mul":
                    return fit(x * y, of)
                case "div":
                    return fit(x / y, of)
        except (ZeroDivisionError, OverflowError):
            return None
    return None


def _fold_integer(op: BinaryOp, a: int, b: int, of: Scalar) -> int | None:
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
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if op == "div" else a - b * quotient
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case "shl":
            return a << b if 0 <= b < of.bits else None
        case "shr":
            return a >> b if 0 <= b < of.bits else None
    return None


def select(cond: Expr, then: Expr, orelse: Expr, of: Type, span: Span = NOWHERE) -> Expr:
    if isinstance(cond, Const):
        return then if cond.value else orelse
    return Select(cond, then, orelse, of, span=span)


def truth(operand: Expr, span: Span = NOWHERE) -> Expr:
    """Contextual conversion to bool."""
    if operand.type == BOOL:
        return operand
    if isinstance(operand, Address):
        return Const(1, BOOL, span=span)
    return cast(operand, BOOL, span)


def offset(pointer: Expr, count: Expr | int, size: int, to: Pointer, span: Span = NOWHERE) -> Expr:
    """``pointer`` moved by ``count`` elements of ``size`` bytes, as a pointer of type ``to``.

    The count is converted to 64 bits before it is scaled, as pointer arithmetic demands.
    """
    steps = Const(count, I64, span=span) if isinstance(count, int) else cast(count, I64, span)
    moved = binary("mul", steps, Const(size, I64, span=span), I64, span)
    if isinstance(moved, Const):
        if moved.value == 0 and pointer.type == to:
            return pointer
        if isinstance(pointer, PtrAdd) and isinstance(pointer.offset, Const):
            total = Const(fit(pointer.offset.value + moved.value, I64), I64, span=span)
            return PtrAdd(pointer.pointer, total, to, span=span)
        if isinstance(pointer, PtrAdd) and isinstance(pointer.offset, Binary) and pointer.offset.op == "add":
            inner = pointer.offset
            if isinstance(inner.right, Const):
                total = Const(fit(inner.right.value + moved.value, I64), I64, span=span)
                return PtrAdd(pointer.pointer, binary("add", inner.left, total, I64, span), to, span=span)
    if isinstance(pointer, PtrAdd):
        return PtrAdd(pointer.pointer, binary("add", pointer.offset, moved, I64, span), to, span=span)
    return PtrAdd(pointer, moved, to, span=span)
