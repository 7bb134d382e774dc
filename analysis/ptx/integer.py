"""Integer, logic, shift, comparison and data movement instructions (PTX ISA, chapter 9.7.1, .5 to .9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx.parse import SIZES, Imm, Instruction, Operand, Pair, Reg, Sink, Vec
from prelaunch.analysis.ptx.values import (
    UNSIGNED,
    Getter,
    Step,
    Unsupported,
    dtype_of,
    getter,
    per_lane,
    register_dtype,
    setter,
)

Value = Any
ROUNDINGS = frozenset({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"})


def unary(ins: Instruction, kind: str, apply: Callable[[Value], Value]) -> Step:
    put, a = setter(ins.operands[0]), getter(ins.operands[1], kind)
    return lambda m, f, at: put(m, f, at, apply(a(m, f, at)))


def binary(ins: Instruction, kind: str, apply: Callable[[Value, Value], Value], second: str = "") -> Step:
    put, a, b = setter(ins.operands[0]), getter(ins.operands[1], kind), getter(ins.operands[2], second or kind)
    return lambda m, f, at: put(m, f, at, apply(a(m, f, at), b(m, f, at)))


def ternary(ins: Instruction, kinds: tuple[str, str, str], apply: Callable[[Value, Value, Value], Value]) -> Step:
    put = setter(ins.operands[0])
    a, b, c = (getter(o, k) for o, k in zip(ins.operands[1:4], kinds, strict=True))
    return lambda m, f, at: put(m, f, at, apply(a(m, f, at), b(m, f, at), c(m, f, at)))


def bits_of(kind: str) -> int:
    return SIZES[kind] * 8


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


def _shift(ins: Instruction, kind: str) -> Step:
    """Amounts at or above the width shift everything out."""
    bits, dtype = bits_of(kind), dtype_of(kind)
    left = ins.parts[0] == "shl"

    def apply(a: Value, amount: Value) -> Value:
        big = amount >= bits
        n = np.where(big, np.uint32(0), amount).astype(dtype)
        if left:
            return np.where(big, dtype.type(0), a << n)
        return np.where(big, np.where(a < 0, ~dtype.type(0), dtype.type(0)), a >> n)

    return binary(ins, kind, apply, "u32")


def _funnel(ins: Instruction, kind: str) -> Step:
    left, clamp = ins.parts[1] == "l", ins.parts[2] == "clamp"

    def apply(a: Value, b: Value, c: Value) -> Value:
        n = np.minimum(c, np.uint32(32)) if clamp else c & np.uint32(31)
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        n = n.astype(np.uint64)
        return ((both << n) >> np.uint64(32) if left else both >> n).astype(np.uint32)

    return ternary(ins, ("b32", "b32", "u32"), apply)


def count_ones(a: Value) -> Value:
    return np.bitwise_count(a).astype(np.uint32)


def reverse_bits(a: Value, bits: int) -> Value:
    """Bits in opposite order."""
    dtype = UNSIGNED[bits // 8]
    a = a.view(dtype) if a.dtype != dtype else a
    step = 1
    full = (1 << bits) - 1
    while step < bits:
        mask = full // ((1 << step) + 1)
        a = ((a & dtype.type(mask)) << dtype.type(step)) | ((a >> dtype.type(step)) & dtype.type(mask))
        step *= 2
    return a


def highest_bit(a: Value, bits: int) -> Value:
    """Number of the highest one bit, 0xffffffff when there is none."""
    dtype = a.dtype
    filled = a
    step = 1
    while step < bits:
        filled = filled | (filled >> dtype.type(step))
        step *= 2
    return count_ones(filled) - np.uint32(1)


def _bfind(ins: Instruction, kind: str) -> Step:
    bits, shift_amount = bits_of(kind), "shiftamt" in ins.parts
    unsigned = UNSIGNED[bits // 8]

    def apply(a: Value) -> Value:
        raw = (np.where(a < 0, ~a, a) if kind[0] == "s" else a).astype(unsigned)
        found = highest_bit(raw, bits)
        if shift_amount:
            return np.where(found == np.uint32(0xFFFFFFFF), found, np.uint32(bits - 1) - found)
        return found

    return unary(ins, kind, apply)


def _bfe(ins: Instruction, kind: str) -> Step:
    """Field of ``len`` bits from ``pos``; signed kinds repeat the field's top bit (the word's top bit when past it)."""
    bits = bits_of(kind)
    unsigned = UNSIGNED[bits // 8]

    def apply(a: Value, b: Value, c: Value) -> Value:
        pos, length = (b & np.uint32(255)).astype(np.uint64), (c & np.uint32(255)).astype(np.uint64)
        raw = a.astype(unsigned).astype(np.uint64)
        shifted = np.where(pos >= 64, np.uint64(0), raw >> np.minimum(pos, np.uint64(63)))
        keep = np.where(length >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(length, np.uint64(63))) - np.uint64(1))
        field = shifted & keep
        if kind[0] == "s":
            top = np.minimum(pos + length - np.uint64(1), np.uint64(bits - 1))
            negative = ((raw >> top) & np.uint64(1)).astype(np.bool_) & (length > 0)
            inside = np.where(length >= 64, np.uint64(0), ~keep)
            past = np.where(pos >= bits, ~np.uint64(0), ~(np.uint64((1 << bits) - 1) >> np.minimum(pos, np.uint64(63))))
            field = np.where(negative, field | inside | past, field)
        return field.astype(unsigned).view(dtype_of(kind))

    return ternary(ins, (kind, "u32", "u32"), apply)


def _bfi(ins: Instruction, kind: str) -> Step:
    bits = bits_of(kind)
    unsigned = UNSIGNED[bits // 8]
    put = setter(ins.operands[0])
    a, b = getter(ins.operands[1], kind), getter(ins.operands[2], kind)
    c, d = getter(ins.operands[3], "u32"), getter(ins.operands[4], "u32")

    def step(m: Any, f: Any, at: Any) -> None:
        pos = (c(m, f, at) & np.uint32(255)).astype(np.uint64)
        length = np.minimum((d(m, f, at) & np.uint32(255)).astype(np.uint64), np.uint64(bits))
        ones = np.where(length >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(length, np.uint64(63))) - np.uint64(1))
        mask = np.where(pos >= 64, np.uint64(0), ones << np.minimum(pos, np.uint64(63)))
        low = np.minimum(pos, np.uint64(63))
        inserted = (a(m, f, at).astype(np.uint64) << low) & mask
        put(m, f, at, ((b(m, f, at).astype(np.uint64) & ~mask) | inserted).astype(unsigned))

    return step


def _prmt(ins: Instruction, kind: str) -> Step:
    mode = ins.parts[2] if len(ins.parts) > 2 else ""

    def selectors(c: Value) -> list[Value]:
        if not mode:
            return [(c >> np.uint32(4 * i)) & np.uint32(15) for i in range(4)]
        table = {
            "f4e": [[i + s for i in range(4)] for s in range(4)],
            "b4e": [[(s - i) % 8 for i in range(4)] for s in range(4)],
            "rc8": [[s] * 4 for s in range(4)],
            "ecl": [[max(i, s) for i in range(4)] for s in range(4)],
            "ecr": [[min(i, s) for i in range(4)] for s in range(4)],
            "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
        }[mode]
        return [np.array([row[i] for row in table], np.uint32)[c & np.uint32(3)] for i in range(4)]

    def apply(a: Value, b: Value, c: Value) -> Value:
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        result: Value = np.uint32(0)
        for i, select in enumerate(selectors(c)):
            byte = (both >> ((select & np.uint32(7)).astype(np.uint64) * np.uint64(8))).astype(np.uint32)
            byte = byte & np.uint32(255)
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            byte = np.where(select & np.uint32(8), sign, byte)
            result = result | (byte << np.uint32(8 * i))
        return result.astype(np.uint32)

    return ternary(ins, ("b32", "b32", "b32"), apply)


def _lop3(ins: Instruction, kind: str) -> Step:
    table = ins.operands[4]
    if not isinstance(table, Imm) or isinstance(ins.operands[0], Pair):
        raise Unsupported(ins.opcode)
    lut = table.value

    def apply(a: Value, b: Value, c: Value) -> Value:
        result: Value = a & np.uint32(0)
        for row in range(8):
            if lut >> row & 1:
                term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                result = result | term
        return result

    return ternary(ins, ("b32", "b32", "b32"), apply)


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


COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b, "hs": lambda a, b: a >= b,
    "equ": lambda a, b: (a == b) | _nan(a, b), "neu": lambda a, b: (a != b) | _nan(a, b),
    "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b), "num": lambda a, b: ~_nan(a, b), "nan": lambda a, b: _nan(a, b),
}  # fmt: skip


def _nan(a: Value, b: Value) -> Value:
    return np.isnan(a) | np.isnan(b)


def comparison(name: str, kind: str) -> Callable[[Value, Value], Value]:
    """The comparison of operands of type ``kind``. ``ne`` of floats is false for NaN."""
    if name not in COMPARE:
        raise Unsupported(f"comparison .{name}")
    if kind[0] in "us" and name in ("lo", "ls", "hi", "hs") and kind[0] == "s":
        raise Unsupported(f"comparison .{name}.{kind}")
    if kind[0] == "f" and name == "ne":
        return lambda a, b: (a != b) & ~_nan(a, b)
    return COMPARE[name]


def compare_getter(ins: Instruction, kind: str, cmp: str, boolean: str) -> Callable[..., tuple[Value, Value]]:
    """Both results of ``setp``: the comparison and its opposite, each combined with the third operand."""
    first = len(ins.operands) - (3 if boolean else 2)
    a, b = getter(ins.operands[first], kind), getter(ins.operands[first + 1], kind)
    apply = comparison(cmp, kind)
    c: Getter | None = getter(ins.operands[first + 2], "pred") if boolean else None
    combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.get(boolean)

    def both(m: Any, f: Any, at: Any) -> tuple[Value, Value]:
        result = apply(a(m, f, at), b(m, f, at))
        opposite = ~result
        if c is not None and combine is not None:
            third = c(m, f, at)
            return combine(result, third), combine(opposite, third)
        return result, opposite

    return both


def _modifiers(ins: Instruction) -> tuple[str, str]:
    boolean = next((p for p in ins.parts[2:] if p in ("and", "or", "xor")), "")
    return ins.parts[1], boolean


def _setp(ins: Instruction, kind: str) -> Step:
    cmp, boolean = _modifiers(ins)
    both = compare_getter(ins, kind, cmp, boolean)
    first = ins.operands[0]
    put = setter(first.first if isinstance(first, Pair) else first)
    also = setter(first.second) if isinstance(first, Pair) else None

    def step(m: Any, f: Any, at: Any) -> None:
        result, opposite = both(m, f, at)
        put(m, f, at, result)
        if also is not None:
            also(m, f, at, opposite)

    return step


def _set(ins: Instruction, kind: str) -> Step:
    """``set.cmp.dtype.stype``: all ones or 1.0 where the comparison holds."""
    cmp, boolean = _modifiers(ins)
    both = compare_getter(ins, kind, cmp, boolean)
    to = dtype_of(ins.parts[-2])
    one = to.type(1) if ins.parts[-2][0] == "f" else ~UNSIGNED[to.itemsize].type(0)
    zero = one * one.dtype.type(0)
    put = setter(ins.operands[0])
    return lambda m, f, at: put(m, f, at, np.where(both(m, f, at)[0], one, zero))


def _selp(ins: Instruction, kind: str) -> Step:
    return ternary(ins, (kind, kind, "pred"), lambda a, b, c: np.where(c, a, b))


def _slct(ins: Instruction, kind: str) -> Step:
    test = ins.parts[-1]
    return ternary(ins, (ins.parts[-2], ins.parts[-2], test), lambda a, b, c: np.where(c >= 0, a, b))


def _mov(ins: Instruction, kind: str) -> Step:
    to, source = ins.operands
    if isinstance(source, Vec):
        return _pack(to, source, kind)
    if isinstance(to, Vec):
        return _unpack(to, source, kind)
    return unary(ins, kind, lambda a: a)


def _piece_kind(kind: str, count: int) -> str:
    size = SIZES[kind] // count
    if size not in (1, 2, 4, 8):
        raise Unsupported(f"vector move of {count} pieces of .{kind}")
    return f"b{size * 8}"


def _pack(to: Operand, source: Vec, kind: str) -> Step:
    piece = _piece_kind(kind, len(source.items))
    sources = [getter(item, piece) for item in source.items]
    put, dtype, width = setter(to), UNSIGNED[SIZES[kind]], bits_of(piece)

    def step(m: Any, f: Any, at: Any) -> None:
        result: Value = dtype.type(0)
        for i, get in enumerate(sources):
            result = result | (get(m, f, at).astype(dtype) << dtype.type(i * width))
        put(m, f, at, result)

    return step


def _unpack(to: Vec, source: Operand, kind: str) -> Step:
    piece = _piece_kind(kind, len(to.items))
    get = getter(source, f"b{bits_of(kind)}")
    puts = [(i, setter(item)) for i, item in enumerate(to.items) if not isinstance(item, Sink)]
    dtype, narrow, width = UNSIGNED[SIZES[kind]], UNSIGNED[SIZES[piece]], bits_of(piece)

    def step(m: Any, f: Any, at: Any) -> None:
        value = get(m, f, at)
        for i, put in puts:
            put(m, f, at, (value >> dtype.type(i * width)).astype(narrow))

    return step


def _cvta(ins: Instruction, kind: str) -> Step:
    """All spaces share one range of addresses, so conversion is a copy."""
    return unary(ins, kind, lambda a: a)


def _abs_neg(ins: Instruction, kind: str) -> Step:
    return unary(ins, kind, np.abs if ins.parts[0] == "abs" else lambda a: -a)


def _sad(ins: Instruction, kind: str) -> Step:
    return ternary(ins, (kind, kind, kind), lambda a, b, c: c + np.where(a > b, a - b, b - a))


def _popc(ins: Instruction, kind: str) -> Step:
    return unary(ins, kind, count_ones)


def _clz(ins: Instruction, kind: str) -> Step:
    bits = bits_of(kind)
    return unary(ins, kind, lambda a: np.uint32(bits - 1) - highest_bit(a, bits))


def _brev(ins: Instruction, kind: str) -> Step:
    bits = bits_of(kind)
    return unary(ins, kind, lambda a: reverse_bits(a, bits))


def _bmsk(ins: Instruction, kind: str) -> Step:
    wrap = ins.parts[1] == "wrap"

    def apply(a: Value, b: Value) -> Value:
        pos, width = a.astype(np.uint64), b.astype(np.uint64)
        if wrap:
            pos, width = pos & np.uint64(31), width & np.uint64(31)
        else:
            pos, width = np.minimum(pos, np.uint64(32)), np.minimum(width, np.uint64(32))
        return (((np.uint64(1) << width) - np.uint64(1)) << pos).astype(np.uint32)

    return binary(ins, "b32", apply)


_INTEGER_KINDS = frozenset({"u16", "u32", "u64", "s16", "s32", "s64", "b16", "b32", "b64", "pred"})

TABLE: dict[str, Callable[[Instruction, str], Step]] = {
    "add": _add_sub, "sub": _add_sub, "mul": _mul, "mad": _mad, "mul24": _mul24, "mad24": _mul24, "sad": _sad,
    "div": _divide, "rem": _divide, "abs": _abs_neg, "neg": _abs_neg, "min": _min_max, "max": _min_max,
    "popc": _popc, "clz": _clz, "brev": _brev, "bfind": _bfind, "bfe": _bfe, "bfi": _bfi, "bmsk": _bmsk,
    "prmt": _prmt, "dp4a": _dot, "dp2a": _dot, "lop3": _lop3, "shl": _shift, "shr": _shift, "shf": _funnel,
    "and": _logic, "or": _logic, "xor": _logic, "not": _logic, "cnot": _logic,
    "setp": _setp, "set": _set, "selp": _selp, "slct": _slct, "mov": _mov, "cvta": _cvta,
    "addc": _carry, "subc": _carry, "madc": _carry,
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


def is_register(operand: Operand, kind: str) -> bool:
    return isinstance(operand, Reg) and register_dtype(operand.kind) == dtype_of(kind)
