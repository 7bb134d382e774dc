"""Floating-point instructions (PTX ISA, chapters 9.7.3 and 9.7.4) and conversions (9.7.9.21).

Values follow IEEE 754 with round to nearest; the hardware's approximations are replaced by NumPy's results, so values
agree to a few units in the last place. Directed rounding of arithmetic is done by one step to the neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx.module import SIZES, Instruction
from prelaunch.analysis.ptx.values import Getter, Step, Unsupported, dtype_of, getter, setter

Value = Any
FLOATS = frozenset({"f16", "f32", "f64", "bf16", "f16x2", "bf16x2"})
LIMITS = {"f32": np.float32(1.17549435e-38), "f16": np.float16(0)}


def widen_bf16(a: Value) -> Value:
    """bfloat16 bits as float32."""
    return (a.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow_bf16(a: Value) -> Value:
    """float32 to bfloat16 bits, round to nearest even."""
    a = np.asarray(a, np.float32)
    raw = a.view(np.uint32)
    rounded = ((raw + (np.uint32(0x7FFF) + ((raw >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(a), np.uint16(0x7FFF), rounded).astype(np.uint16)


def flush(a: Value) -> Value:
    """Subnormal float32 values to zero of the same sign."""
    return np.where(np.abs(a) < LIMITS["f32"], np.copysign(np.float32(0), a), a)


def saturate(a: Value) -> Value:
    """Into [0, 1], NaN to 0."""
    return np.where(np.isnan(a), a.dtype.type(0), np.clip(a, a.dtype.type(0), a.dtype.type(1)))


def lift(kind: str, arity: int, apply: Callable[..., Value]) -> Callable[..., Value]:
    """``apply`` on scalars of float type ``kind`` as a function of raw register values (packed halves included)."""
    if kind in ("f32", "f64"):
        return apply
    if kind == "f16":
        return lambda *args: np.asarray(apply(*(a.astype(np.float32) for a in args))).astype(np.float16)
    if kind == "bf16":
        return lambda *args: narrow_bf16(apply(*(widen_bf16(a) for a in args)))
    inner = lift(kind[:-2], arity, apply)
    half = np.dtype(np.float16) if kind == "f16x2" else np.dtype(np.uint16)

    def packed(*args: Value) -> Value:
        halves = []
        for shift in (0, 16):
            parts = ((a >> np.uint32(shift)).astype(np.uint16).view(half) for a in args)
            halves.append(np.asarray(inner(*parts)).view(np.uint16).astype(np.uint32))
        return halves[0] | (halves[1] << np.uint32(16))

    return packed


def _finish(ins: Instruction, kind: str, apply: Callable[..., Value]) -> Callable[..., Value]:
    """Flush and saturation as the opcode asks for."""
    ftz, sat, relu = "ftz" in ins.parts and kind == "f32", "sat" in ins.parts, "relu" in ins.parts
    if not (ftz or sat or relu):
        return apply

    def finished(*args: Value) -> Value:
        result = apply(*(flush(a) for a in args)) if ftz else apply(*args)
        result = np.asarray(result)
        if ftz:
            result = flush(result)
        if relu:
            result = np.where(np.isnan(result), result, np.maximum(result, result.dtype.type(0)))
        return saturate(result) if sat else result

    return finished


def arithmetic(ins: Instruction, kind: str, arity: int, apply: Callable[..., Value]) -> Step:
    """A step with ``arity`` float operands of one type."""
    put = setter(ins.operands[0])
    gets: list[Getter] = [getter(o, kind) for o in ins.operands[1 : 1 + arity]]
    call = lift(kind, arity, _finish(ins, kind, apply))
    dtype = dtype_of(kind)
    if arity == 1:
        (a,) = gets
        return lambda m, f, at: put(m, f, at, np.asarray(call(a(m, f, at))).astype(dtype, copy=False))
    if arity == 2:
        a, b = gets
        return lambda m, f, at: put(m, f, at, np.asarray(call(a(m, f, at), b(m, f, at))).astype(dtype, copy=False))
    a, b, c = gets
    return lambda m, f, at: put(
        m, f, at, np.asarray(call(a(m, f, at), b(m, f, at), c(m, f, at))).astype(dtype, copy=False)
    )


def fused(kind: str, rounding: str) -> Callable[[Value, Value, Value], Value]:
    """a*b+c rounded once. float64 uses the error-free product; float32 goes through float64."""
    if kind != "f64":

        def single(a: Value, b: Value, c: Value) -> Value:
            exact = a.astype(np.float64) * b.astype(np.float64)
            return _round_to(exact + c.astype(np.float64), np.dtype(np.float32), rounding)

        return single

    def double(a: Value, b: Value, c: Value) -> Value:
        high = a * b
        a1, b1 = _split(a), _split(b)
        a2, b2 = a - a1, b - b1
        low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2
        total = high + c
        back = total - high
        error = (high - (total - back)) + (c - back)
        result = total + (error + low)
        return np.where(np.isfinite(result), result, high + c)

    return double


def _split(a: Value) -> Value:
    scaled = a * np.float64(134217729.0)
    return scaled - (scaled - a)


def _round_to(value: Value, dtype: np.dtype[Any], rounding: str) -> Value:
    """float64 to a narrower float, in the given direction."""
    near = np.asarray(value).astype(dtype)
    if rounding in ("", "rn"):
        return near
    back = near.astype(np.float64)
    down, up = np.nextafter(near, dtype.type(-np.inf)), np.nextafter(near, dtype.type(np.inf))
    if rounding == "rm":
        return np.where(back > value, down, near)
    if rounding == "rp":
        return np.where(back < value, up, near)
    return np.where(np.abs(back) > np.abs(value), np.where(near > 0, down, up), near)


def _rounding(ins: Instruction) -> str:
    return next((p for p in ins.parts if p in ("rn", "rz", "rm", "rp")), "rn")


def _directed(kind: str, rounding: str, apply: Callable[..., Value]) -> Callable[..., Value]:
    """float32 arithmetic with another rounding, through float64; float64 is left at round to nearest."""
    if kind != "f32" or rounding == "rn":
        return apply
    dtype = np.dtype(np.float32)
    return lambda *args: _round_to(apply(*(a.astype(np.float64) for a in args)), dtype, rounding)


def minimum(a: Value, b: Value, nan: bool) -> Value:
    return np.minimum(a, b) if nan else np.fmin(a, b)


def maximum(a: Value, b: Value, nan: bool) -> Value:
    return np.maximum(a, b) if nan else np.fmax(a, b)


def _copysign(ins: Instruction, kind: str) -> Step:
    """Sign of the first operand, magnitude of the second."""
    return arithmetic(ins, kind, 2, lambda a, b: np.copysign(b, a))


UNARY: dict[str, Callable[[Value], Value]] = {
    "abs": np.abs, "neg": lambda a: -a, "sqrt": np.sqrt, "rcp": lambda a: a.dtype.type(1) / a,
    "rsqrt": lambda a: a.dtype.type(1) / np.sqrt(a), "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh,
}  # fmt: skip
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
}  # fmt: skip


def _testp(ins: Instruction, kind: str) -> Step:
    limit = np.finfo(dtype_of(kind)).tiny
    tests: dict[str, Callable[[Value], Value]] = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda a: ~np.isnan(a), "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= limit),
        "subnormal": lambda a: (np.abs(a) < limit) & (a != 0),
    }  # fmt: skip
    test = tests[ins.parts[1]]
    put, a = setter(ins.operands[0]), getter(ins.operands[1], kind)
    return lambda m, f, at: put(m, f, at, test(a(m, f, at)))


def build(ins: Instruction) -> Step | None:
    """The step of a float instruction or conversion; None when it is none."""
    name, kind = ins.parts[0], ins.parts[-1]
    if name == "cvt":
        return conversion(ins)
    if kind not in FLOATS:
        return None
    rounding = _rounding(ins)
    if name in UNARY:
        return arithmetic(ins, kind, 1, UNARY[name])
    if name in BINARY:
        return arithmetic(ins, kind, 2, _directed(kind, rounding, BINARY[name]))
    if name in ("fma", "mad"):
        inner = "f64" if kind == "f64" else "f32"
        return arithmetic(ins, kind, 3, fused(inner, rounding))
    if name in ("min", "max"):
        nan = "NaN" in ins.parts
        pick = minimum if name == "min" else maximum
        return arithmetic(ins, kind, 2, lambda a, b: pick(a, b, nan))
    if name == "copysign":
        return _copysign(ins, kind)
    if name == "testp":
        return _testp(ins, kind)
    return None


# --- conversions ---


def conversion(ins: Instruction) -> Step:
    """``cvt{.rnd}{.ftz}{.sat}.to.from``"""
    to, source = ins.parts[-2], ins.parts[-1]
    flags = frozenset(ins.parts[1:-2])
    if to in ("f16x2", "bf16x2") and source == "f32":
        return _pack_halves(ins, to)
    if not (_plain(to) and _plain(source)):
        raise Unsupported(ins.opcode)
    put, get = setter(ins.operands[0]), getter(ins.operands[1], source)
    convert = converter(to, source, flags)
    return lambda m, f, at: put(m, f, at, convert(get(m, f, at)))


def _plain(kind: str) -> bool:
    return kind in SIZES and SIZES[kind] <= 8 and (kind[0] in "us" or kind in ("f16", "bf16", "f32", "f64"))


def converter(to: str, source: str, flags: frozenset[str]) -> Callable[[Value], Value]:
    """The conversion of raw values of type ``source`` to raw values of type ``to``."""
    if to[0] in "us":
        if source[0] in "us":
            return _int_to_int(to, source, "sat" in flags)
        return _float_to_int(to, source, flags)
    if source[0] in "us":
        return _int_to_float(to, flags)
    return _float_to_float(to, source, flags)


def _int_to_int(to: str, source: str, sat: bool) -> Callable[[Value], Value]:
    dtype = dtype_of(to)
    if not sat:
        return lambda a: a.astype(dtype)
    info = np.iinfo(dtype)

    def clamp(a: Value) -> Value:
        limits = np.iinfo(a.dtype)
        low, high = max(info.min, limits.min), min(info.max, limits.max)
        return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(dtype)

    return clamp


def _wide(source: str) -> Callable[[Value], Value]:
    """A float of any type as float64."""
    if source == "bf16":
        return lambda a: widen_bf16(a).astype(np.float64)
    return lambda a: a.astype(np.float64)


ROUND_INTEGRAL: dict[str, Callable[[Value], Value]] = {
    "rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil,
}  # fmt: skip


def _float_to_int(to: str, source: str, flags: frozenset[str]) -> Callable[[Value], Value]:
    """Out of range clamps; NaN is 0, or the top bit alone for 64-bit types (PTX ISA, cvt)."""
    dtype, widen = dtype_of(to), _wide(source)
    info = np.iinfo(dtype)
    rounding = next((f for f in flags if f in ROUND_INTEGRAL), "rzi")
    integral = ROUND_INTEGRAL[rounding]
    ftz = "ftz" in flags
    top = dtype.type(info.min) if to[0] == "s" else dtype.type(1 << (info.bits - 1))
    nan = top if info.bits == 64 or source == "f64" else dtype.type(0)

    def convert(a: Value) -> Value:
        value = integral(widen(flush(a) if ftz and source == "f32" else a))
        low, high = float(info.min), float(info.max)
        inside = np.where(np.isnan(value) | (value < low) | (value >= high), 0.0, value).astype(dtype)
        result = np.where(value >= high, dtype.type(info.max), np.where(value < low, dtype.type(info.min), inside))
        return np.where(np.isnan(value), nan, result).astype(dtype)

    return convert


def _int_to_float(to: str, flags: frozenset[str]) -> Callable[[Value], Value]:
    rounding = next((f for f in flags if f in ("rn", "rz", "rm", "rp")), "rn")
    if to == "f64":
        return lambda a: a.astype(np.float64)
    if to == "bf16":
        return lambda a: narrow_bf16(a.astype(np.float32))
    dtype = dtype_of(to)

    def convert(a: Value) -> Value:
        if rounding == "rn":
            return np.asarray(a.astype(dtype))
        return _round_to(np.asarray(a).astype(np.float64), dtype, rounding)

    return convert


def _float_to_float(to: str, source: str, flags: frozenset[str]) -> Callable[[Value], Value]:
    widen, dtype = _wide(source), dtype_of(to)
    integral = next((ROUND_INTEGRAL[f] for f in ROUND_INTEGRAL if f in flags), None)
    rounding = next((f for f in ("rz", "rm", "rp") if f in flags), "rn")
    ftz, sat, relu = "ftz" in flags, "sat" in flags, "relu" in flags

    def convert(a: Value) -> Value:
        value = widen(flush(a) if ftz and source == "f32" else a)
        if integral is not None:
            value = integral(value)
        if sat:
            value = saturate(np.asarray(value))
        if relu:
            value = np.maximum(value, 0.0)
        if to == "bf16":
            return narrow_bf16(_round_to(value, np.dtype(np.float32), "rn"))
        result = _round_to(value, dtype, rounding if to != "f64" else "rn")
        return flush(result) if ftz and to == "f32" else np.asarray(result)

    return convert


def _pack_halves(ins: Instruction, to: str) -> Step:
    """``cvt.rn.f16x2.f32 d, a, b``: a in the upper half, b in the lower."""
    put, a, b = setter(ins.operands[0]), getter(ins.operands[1], "f32"), getter(ins.operands[2], "f32")
    convert = _float_to_float(to[:-2], "f32", frozenset(ins.parts[1:-2]))

    def half(value: Value) -> Value:
        return np.asarray(convert(value)).view(np.uint16).astype(np.uint32)

    return lambda m, f, at: put(m, f, at, (half(a(m, f, at)) << np.uint32(16)) | half(b(m, f, at)))
