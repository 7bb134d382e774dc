"""Shifts, bit fields and byte permutations (PTX ISA, chapters 9.7.1 and 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx.memory import UNSIGNED
from prelaunch.analysis.ptx.module import Imm, Instruction, Pair
from prelaunch.analysis.ptx.shapes import Value, binary, bits_of, ternary, unary
from prelaunch.analysis.ptx.values import Step, Unsupported, dtype_of, getter, setter


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


TABLE: dict[str, Callable[[Instruction, str], Step]] = {
    "popc": _popc, "clz": _clz, "brev": _brev, "bfind": _bfind, "bfe": _bfe, "bfi": _bfi, "bmsk": _bmsk,
    "prmt": _prmt, "lop3": _lop3, "shl": _shift, "shr": _shift, "shf": _funnel,
}  # fmt: skip
