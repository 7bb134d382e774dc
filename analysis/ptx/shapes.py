"""Steps by the shape of their operands: what the instruction tables are written with."""

from __future__ import annotations

from collections.abc import Callable

from prelaunch.analysis.ptx.module import SIZES, Instruction
from prelaunch.analysis.ptx.values import Step, Value, getter, setter

__all__ = ["Value", "binary", "bits_of", "ternary", "unary"]


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
