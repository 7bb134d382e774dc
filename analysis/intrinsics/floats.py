"""Floating point functions, and those that serve both kinds (min, max, abs, conversions with named rounding).

Each takes the result dtype and its arguments. bfloat16 arguments arrive as float32; the caller rounds the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from prelaunch.analysis.intrinsics.special import SPECIAL

Array = Any  # NDArray or NumPy scalar
Rounding = Literal["rn", "rz", "ru", "rd"]


def round_bfloat(x: Array) -> Array:
    """Round float values to bfloat16 (nearest even), carried as float32; NaN stays NaN."""
    wide = np.asarray(x)
    single = _round_to_odd(wide.astype(np.float64)) if wide.dtype != np.float32 else wide
    bits = np.array(single, order="C").view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(single), single, rounded.view(np.float32)).astype(np.float32)


def _round_to_odd(x: Array) -> Array:
    """float64 to float32 with an odd last bit when inexact, so that a second rounding is as if there was one."""
    single = x.astype(np.float32)
    error = x - single.astype(np.float64)
    bits = single.view(np.uint32) if single.ndim else np.asarray(single).view(np.uint32)
    even = (bits & np.uint32(1)) == 0
    toward = np.where(error > 0, np.float32(np.inf), np.float32(-np.inf)).astype(np.float32)
    return np.where((error != 0) & even & np.isfinite(x), np.nextafter(single, toward), single)


def fma(result: Any, a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once."""
    if result == np.float64:
        return np.frompyfunc(_fma64, 3, 1)(np.asarray(a), np.asarray(b), np.asarray(c))
    x, y, z = (np.asarray(v).astype(np.float64) for v in (a, b, c))
    product = x * y  # exact: 24 + 24 bits
    total = product + z
    back = total - product
    error = (product - (total - back)) + (z - back)
    toward = np.where(error > 0, np.inf, -np.inf)
    even = (np.asarray(total).view(np.uint64) & np.uint64(1)) == 0
    odd = np.where((error != 0) & even & np.isfinite(total), np.nextafter(total, toward), total)
    return odd.astype(result)


def _fma64(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    return _round(exact, np.dtype(np.float64), "rn")


def _round(exact: Fraction, kind: np.dtype[Any], mode: Rounding) -> float:
    """A non-zero rational as the nearest value of ``kind`` in the rounding mode, infinities as IEEE 754 says."""
    info = np.finfo(kind)
    precision, smallest = info.nmant + 1, int(info.minexp) - info.nmant
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - precision + 1, smallest)
    quotient = magnitude / unit
    whole = quotient.numerator // quotient.denominator
    rest = quotient - whole
    up = {"rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1 == 1), "rz": False}
    up |= {"ru": rest > 0 and exact > 0, "rd": rest > 0 and exact < 0}
    rounded = (whole + up[mode]) * unit
    largest = Fraction(float(info.max))
    if rounded > largest:
        outward = mode == "rn" or (mode == "ru" and exact > 0) or (mode == "rd" and exact < 0)
        rounded_float = math.inf if outward else float(info.max)
    else:
        rounded_float = float(rounded)
    return math.copysign(rounded_float, exact)


def _directed(operation: Callable[..., Fraction], plain: Callable[..., Array], mode: Rounding) -> Callable[..., Array]:
    """``operation`` on exact rationals, rounded once in ``mode``; special values as ``plain`` gives them."""

    def apply(result: Any, *args: Array) -> Array:
        kind = np.dtype(result)

        def one(*values: float) -> float:
            usual = plain(*(np.float64(v) for v in values))
            if not (np.isfinite(usual) and all(math.isfinite(v) for v in values)):
                return float(usual)
            exact = operation(*(Fraction(float(v)) for v in values))
            if exact == 0:
                return -0.0 if mode == "rd" and not all(v == 0 for v in values) else float(usual)
            return _round(exact, kind, mode)

        return np.frompyfunc(one, len(args), 1)(*(np.asarray(a).astype(np.float64) for a in args))

    return apply


def _sqrt(mode: Rounding) -> Callable[..., Array]:
    def apply(result: Any, x: Array) -> Array:
        kind = np.dtype(result)

        def one(value: float) -> float:
            if not (math.isfinite(value) and value > 0):
                return float(np.sqrt(np.float64(value)))
            exact = Fraction(value)
            scale = 1 << 200
            root = math.isqrt(exact.numerator * exact.denominator * scale * scale)
            low = Fraction(root, exact.denominator * scale)
            sticky = Fraction(0) if low * low == exact else Fraction(1, exact.denominator * scale * 2)
            return _round(low + sticky, kind, mode)

        return np.frompyfunc(one, 1, 1)(np.asarray(x).astype(np.float64))

    return apply


def convert(mode: Rounding | Literal["round"]) -> Callable[..., Array]:
    """Conversion with a named rounding. To an integer it saturates and NaN gives 0 (PTX ISA, cvt)."""

    def apply(result: Any, x: Array) -> Array:
        kind, value = np.dtype(result), np.asarray(x)
        if kind.kind in "iu" and value.dtype.kind == "f":
            wide = value.astype(np.float64)
            steps: dict[str, Callable[..., Array]] = {
                "rn": np.rint,
                "rz": np.trunc,
                "ru": np.ceil,
                "rd": np.floor,
                "round": _round_half_away,
            }
            return saturate_to_integer(steps[mode](wide), kind)
        if kind.kind == "f" and mode in ("rz", "ru", "rd"):
            exactly = np.frompyfunc(lambda v: _convert_one(v, kind, mode), 1, 1)
            return exactly(value)
        return value.astype(kind)

    return apply


def _convert_one(value: Any, kind: np.dtype[Any], mode: Any) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    return _round(Fraction(value), kind, mode) if value != 0 else float(value)


def saturate_to_integer(x: Array, kind: np.dtype[Any]) -> Array:
    """Integral float64 values to integers: clamped to the range, NaN to 0 (PTX ISA, cvt)."""
    info = np.iinfo(kind)
    result = np.zeros(np.shape(x), kind)
    high, low = x >= float(info.max) + 1.0, x <= float(info.min)
    inside = ~(high | low | np.isnan(x))
    np.copyto(result, np.where(inside, x, 0).astype(kind), where=inside)
    np.copyto(result, kind.type(info.max), where=high)
    np.copyto(result, kind.type(info.min), where=low)
    return result


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _in_double(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in double precision, round once."""

    def apply(result: Any, *args: Array) -> Array:
        return function(*(np.asarray(a).astype(np.float64) for a in args)).astype(result)

    return apply


def _minimum(pick: Any) -> Callable[..., Array]:
    """min/max: C's on integers; on floats NaN loses (CUDA Math API, fmin)."""

    def apply(result: Any, a: Array, b: Array) -> Array:
        return pick[0](a, b) if np.dtype(result).kind == "f" else pick[1](a, b)

    return apply


def _saturate(x: Array) -> Array:
    return np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0)).astype(np.asarray(x).dtype)


def _norm(*args: Array) -> Array:
    return np.sqrt(sum(a * a for a in args))


def _ldexp(_: Any, x: Array, n: Array) -> Array:
    return np.ldexp(x, np.clip(n, -4000, 4000).astype(np.int32))


def _frexp_exponent(_: Any, x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[1], 0)


def _ilogb(_: Any, x: Array) -> Array:
    """Exponent of x; CUDA's values for 0 and NaN (INT_MIN) and infinity (INT_MAX)."""
    usual = np.where(np.isinf(x), 2**31 - 1, np.frexp(np.asarray(x).astype(np.float64))[1].astype(np.int64) - 1)
    return np.where((x == 0) | np.isnan(x), -(2**31), usual)


def _logb(_: Any, x: Array) -> Array:
    exponent = np.frexp(x)[1].astype(np.float64) - 1
    return np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.where(np.isnan(x), np.nan, exponent)))


def _remquo(_: Any, a: Array, b: Array) -> Array:
    """Low three bits of the rounded quotient, with its sign."""
    quotient = np.rint(np.asarray(a).astype(np.float64) / np.asarray(b).astype(np.float64))
    low = np.fmod(np.abs(quotient), 8)
    return np.where(np.isfinite(quotient), np.copysign(low, quotient), 0).astype(np.int64)


def _remainder(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    return math.remainder(a, b)


def _bits64(x: Array) -> Array:
    return np.asarray(x).astype(np.float64).view(np.uint64)


def _hilo(_: Any, high: Array, low: Array) -> Array:
    h, lo = (np.asarray(v).astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF) for v in (high, low))
    return np.asarray((h << np.uint64(32)) | lo).view(np.float64)


def _unordered(test: Callable[..., Array]) -> Callable[..., Array]:
    return lambda _, a, b: test(a, b) | np.isnan(a) | np.isnan(b)


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda _, *args: function(*args)


def _named_roundings() -> dict[str, Callable[..., Array]]:
    exact: Sequence[tuple[str, Callable[..., Fraction], Callable[..., Array]]] = (
        ("add", lambda a, b: a + b, np.add),
        ("sub", lambda a, b: a - b, np.subtract),
        ("mul", lambda a, b: a * b, np.multiply),
        ("div", lambda a, b: a / b, np.divide),
        ("fma", lambda a, b, c: a * b + c, lambda a, b, c: a * b + c),
        ("rcp", lambda a: 1 / a, np.reciprocal),
    )
    modes: tuple[Rounding, ...] = ("rz", "ru", "rd")
    table = {f"{name}_{mode}": _directed(op, plain, mode) for name, op, plain in exact for mode in modes}
    return table | {f"sqrt_{mode}": _sqrt(mode) for mode in modes}


_DOUBLE: dict[str, Callable[..., Array]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "cbrt": np.cbrt, "exp10": lambda x: np.power(10.0, x), "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot,
    "rhypot": lambda a, b: 1.0 / np.hypot(a, b), "norm": _norm, "rnorm": lambda *args: 1.0 / _norm(*args),
    "remainder": lambda a, b: np.asarray(np.frompyfunc(_remainder, 2, 1)(a, b)).astype(np.float64),
    **SPECIAL,
}  # fmt: skip

_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
_COMPARE["ge"] = np.greater_equal

FLOATS: dict[str, Callable[..., Array]] = {
    **{name: _in_double(function) for name, function in _DOUBLE.items()},
    **_named_roundings(),
    **{f"cvt_{mode}": convert(mode) for mode in ("rn", "rz", "ru", "rd", "round")},
    **{name: _plain(test) for name, test in _COMPARE.items()},
    **{name + "u": _unordered(test) for name, test in _COMPARE.items()},
    "add": _plain(np.add), "sub": _plain(np.subtract), "mul": _plain(np.multiply), "div": _plain(np.divide),
    "neg": _plain(np.negative), "abs": _plain(np.abs), "sqrt": _plain(np.sqrt), "fma": fma,
    "rcp": lambda result, x: np.divide(np.asarray(1, np.asarray(x).dtype), x),
    "add_sat": lambda _, a, b: _saturate(a + b), "sub_sat": lambda _, a, b: _saturate(a - b),
    "mul_sat": lambda _, a, b: _saturate(a * b), "fma_sat": lambda r, a, b, c: _saturate(fma(r, a, b, c)),
    "fma_relu": lambda r, a, b, c: np.maximum(fma(r, a, b, c), np.dtype(r).type(0)), "saturate": _plain(_saturate),
    "min": _minimum((np.fmin, np.minimum)), "max": _minimum((np.fmax, np.maximum)),
    "fmin": _plain(np.fmin), "fmax": _plain(np.fmax), "min_nan": _plain(np.minimum), "max_nan": _plain(np.maximum),
    "fdim": lambda _, a, b: np.where(a > b, a - b, np.where(np.isnan(a) | np.isnan(b), np.nan, 0)),
    "fmod": _plain(np.fmod), "copysign": _plain(np.copysign), "nextafter": _plain(np.nextafter),
    "lerp": lambda _, a, b, t: a + t * (b - a), "ceil": _plain(np.ceil), "floor": _plain(np.floor),
    "trunc": _plain(np.trunc), "rint": _plain(np.rint), "round": _plain(_round_half_away),
    "isnan": _plain(np.isnan), "isinf": _plain(np.isinf), "isfinite": _plain(np.isfinite),
    "signbit": _plain(np.signbit),
    "isnormal": lambda _, x: np.isfinite(x) & (np.abs(x) >= np.finfo(np.asarray(x).dtype).tiny),
    "ldexp": _ldexp, "frexp": lambda _, x: np.frexp(x)[0], "frexp_exponent": _frexp_exponent, "ilogb": _ilogb,
    "logb": _logb, "modf": lambda _, x: np.modf(x)[0], "remquo": _remquo,
    "nan": lambda result, _: np.dtype(result).type(np.nan),
    "hi32": lambda _, x: (_bits64(x) >> np.uint64(32)).astype(np.uint32),
    "lo32": lambda _, x: (_bits64(x) & np.uint64(0xFFFFFFFF)).astype(np.uint32), "hilo_f64": _hilo,
}  # fmt: skip
