"""Comparison, selection and data movement between registers (PTX ISA, chapters 9.7.5, 9.7.6 and 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx.memory import UNSIGNED
from prelaunch.analysis.ptx.module import SIZES, Instruction, Operand, Pair, Sink, Vec
from prelaunch.analysis.ptx.shapes import Value, bits_of, ternary, unary
from prelaunch.analysis.ptx.values import Getter, Step, Unsupported, dtype_of, getter, setter

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


TABLE: dict[str, Callable[[Instruction, str], Step]] = {
    "setp": _setp,
    "set": _set,
    "selp": _selp,
    "slct": _slct,
    "mov": _mov,
    "cvta": _cvta,
}
