"""Integer arithmetic and logic (PTX ISA, chapters 9.7.1, 9.7.2 and 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx import bits, moves
from prelaunch.analysis.ptx.memory import UNSIGNED
from prelaunch.analysis.ptx.module import SIZES, Instruction
from prelaunch.analysis.ptx.shapes import Value, binary, bits_of, ternary, unary
from prelaunch.analysis.ptx.values import Step, Unsupported, dtype_of, getter, per_lane, setter


def _wide_type(kind: str) -> np.dtype[Any]:
    return dtype_of(f"{kind[0]}{bits_of(kind) * 2}")


def mul_high(a: Value, b: Value, kind: str) -> Value:
    """High half of the double-width product."""
    bits = bits_of(kind)
    if bits < 64:
        wide = _wide_type(kind)
        return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(dtype_of(kind))
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = ua & low, ua >> shift, ub & low, ub >> shift
    middle = (a0 * b0 >> shift) + (a1 * b0 & low) + (a0 * b1 & low)
    high = a1 * b1 + (a1 * b0 >> shift) + (a0 * b1 >> shift) + (middle >> shift)
    if kind[0] == "s":
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
        return high.view(np.int64)
    return high


def multiply(mode: str, kind: str) -> Callable[[Value, Value], Value]:
    if mode == "wide":
        wide = _wide_type(kind)
        return lambda a, b: a.astype(wide) * b.astype(wide)
    if mode == "hi":
        return lambda a, b: mul_high(a, b, kind)
    return lambda a, b: a * b


def _mul(ins: Instruction, kind: str) -> Step:
    return binary(ins, kind, multiply(ins.parts[1], kind))


def _mad(ins: Instruction, kind: str) -> Step:
    product = multiply(ins.parts[1], kind)
    third = f"{kind[0]}{bits_of(kind) * 2}" if ins.parts[1] == "wide" else kind
    if "sat" in ins.parts:
        raise Unsupported(ins.opcode)
    return ternary(ins, (kind, kind, third), lambda a, b, c: product(a, b) + c)


def _mul24(ins: Instruction, kind: str) -> Step:
    if ins.parts[1] != "lo":
        raise Unsupported(ins.opcode)
    cut = dtype_of(kind).type(8)
    narrow: Callable[[Value], Value] = lambda a: (a << cut) >> cut  # noqa: E731
    if ins.parts[0] == "mad24":
        return ternary(ins, (kind, kind, kind), lambda a, b, c: narrow(a) * narrow(b) + c)
    return binary(ins, kind, lambda a, b: narrow(a) * narrow(b))


def _add_sub(ins: Instruction, kind: str) -> Step:
    sign = 1 if ins.parts[0] == "add" else -1
    if "sat" in ins.parts:
        low, high = -(1 << 31), (1 << 31) - 1

        def saturating(a: Value, b: Value) -> Value:
            return np.clip(a.astype(np.int64) + sign * b.astype(np.int64), low, high).astype(np.int32)

        return binary(ins, kind, saturating)
    if sign > 0:
        return binary(ins, kind, lambda a, b: a + b)
    return binary(ins, kind, lambda a, b: a - b)


def _divide(ins: Instruction, kind: str) -> Step:
    """Truncating division; division by zero is reported and yields all ones (the remainder: the dividend)."""
    remainder = ins.parts[0] == "rem"
    put, get_a, get_b = setter(ins.operands[0]), getter(ins.operands[1], kind), getter(ins.operands[2], kind)
    dtype = dtype_of(kind)
    signed, loc = kind[0] == "s", ins.loc

    def step(m: Any, f: Any, at: Any) -> None:
        a, b = get_a(m, f, at), get_b(m, f, at)
        zero = b == 0
        if np.any(zero):
            where = np.broadcast_to(zero, (m.count(at),))
            place = loc if m.record.is_own(loc[0]) else f.site
            m.record.problem("division-by-zero", "integer division by zero", m.lane_ids[at][where], place)
        safe = np.where(zero, dtype.type(1), b)
        if signed:
            minus = safe == -1
            quotient = np.where(minus, -a, _truncated(a, np.where(minus, dtype.type(1), safe)))
        else:
            quotient = a // safe
        result = a - quotient * safe if remainder else np.where(zero, ~dtype.type(0), quotient)
        put(m, f, at, np.where(zero, a, result).astype(dtype) if remainder else result.astype(dtype))

    return step


def _truncated(a: Value, b: Value) -> Value:
    quotient = a // b
    return quotient + ((quotient < 0) & (quotient * b != a)).astype(quotient.dtype)


def _min_max(ins: Instruction, kind: str) -> Step:
    if kind not in ("u16", "u32", "u64", "s16", "s32", "s64") or "relu" in ins.parts:
        raise Unsupported(ins.opcode)
    return binary(ins, kind, np.minimum if ins.parts[0] == "min" else np.maximum)


def _dot(ins: Instruction, kind: str) -> Step:
    """dp4a: four byte products; dp2a: two products of 16-bit halves of ``a`` with bytes of ``b``."""
    ka, kb = ins.parts[-2], ins.parts[-1]
    four = ins.parts[0] == "dp4a"
    high = "hi" in ins.parts

    def piece(value: Value, index: int, width: int, signed: bool) -> Value:
        raw = (value >> np.uint32(index * width)) & np.uint32((1 << width) - 1)
        wide = raw.astype(np.int64)
        return np.where(wide >= 1 << (width - 1), wide - (1 << width), wide) if signed else wide

    def apply(a: Value, b: Value, c: Value) -> Value:
        total: Value = c.astype(np.int64)
        for i in range(4 if four else 2):
            left = piece(a, i, 8 if four else 16, ka[0] == "s")
            right = piece(b, i if four else i + 2 * high, 8, kb[0] == "s")
            total = total + left * right
        return total.astype(np.uint32)

    return ternary(ins, ("b32", "b32", "s32" if "s32" in (ka, kb) else "u32"), apply)


def _logic(ins: Instruction, kind: str) -> Step:
    match ins.parts[0]:
        case "and":
            return binary(ins, kind, lambda a, b: a & b)
        case "or":
            return binary(ins, kind, lambda a, b: a | b)
        case "xor":
            return binary(ins, kind, lambda a, b: a ^ b)
        case "not":
            return unary(ins, kind, lambda a: ~a)
    dtype = dtype_of(kind)
    return unary(ins, kind, lambda a: (a == 0).astype(dtype))


def _carry(ins: Instruction, kind: str) -> Step:
    """add/sub/mad with carry: ``cc`` writes the lane's carry flag, ``addc``, ``subc`` and ``madc`` read it."""
    name = ins.parts[0]
    reads, writes = name in ("addc", "subc", "madc"), "cc" in ins.parts
    unsigned = UNSIGNED[SIZES[kind]]
    put = setter(ins.operands[0])
    sources = [getter(o, f"u{bits_of(kind)}") for o in ins.operands[1:]]
    product = multiply(ins.parts[1], f"u{bits_of(kind)}") if name.startswith("mad") else None
    if product is not None and kind[0] == "s" and ins.parts[1] == "hi":
        raise Unsupported(ins.opcode)

    def step(m: Any, f: Any, at: Any) -> None:
        values = [get(m, f, at) for get in sources]
        a, b = (product(values[0], values[1]), values[2]) if product else (values[0], values[1])
        a, b = per_lane(a, m, at), per_lane(b, m, at)
        flag = m.carry[at].astype(unsigned) if reads else unsigned.type(0)
        if name.startswith("sub"):
            result = a - b - flag
            out = (a < b) | ((a == b) & (flag != 0))
        else:
            partial = a + b
            result = partial + flag
            out = (partial < a) | (result < partial)
        put(m, f, at, result)
        if writes:
            m.carry[at] = out

    return step


def _abs_neg(ins: Instruction, kind: str) -> Step:
    return unary(ins, kind, np.abs if ins.parts[0] == "abs" else lambda a: -a)


def _sad(ins: Instruction, kind: str) -> Step:
    return ternary(ins, (kind, kind, kind), lambda a, b, c: c + np.where(a > b, a - b, b - a))


TABLE: dict[str, Callable[[Instruction, str], Step]] = {
    "add": _add_sub, "sub": _add_sub, "mul": _mul, "mad": _mad, "mul24": _mul24, "mad24": _mul24, "sad": _sad,
    "div": _divide, "rem": _divide, "abs": _abs_neg, "neg": _abs_neg, "min": _min_max, "max": _min_max,
    "dp4a": _dot, "dp2a": _dot, "and": _logic, "or": _logic, "xor": _logic, "not": _logic, "cnot": _logic,
    "addc": _carry, "subc": _carry, "madc": _carry, **bits.TABLE, **moves.TABLE,
}  # fmt: skip
"""Opcode to its builder; the float tables are asked first for the types they own."""


def build(ins: Instruction) -> Step | None:
    """The step of an integer or movement instruction; None when it is none."""
    name, kind = ins.parts[0], ins.parts[-1]
    if name in ("add", "sub", "mad") and "cc" in ins.parts:
        return _carry(ins, kind)
    maker = TABLE.get(name)
    if maker is None:
        return None
    if kind not in SIZES and name not in ("prmt",):
        raise Unsupported(ins.opcode)
    return maker(ins, kind)
