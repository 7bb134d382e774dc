"""The intrinsics table is well formed, and its evaluators agree with definitions written independently."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest

from prelaunch.analysis.intrinsics import Kind, Row, Signature, Uniformity, lookup, parse_signature, table
from prelaunch.analysis.intrinsics.evaluate import EVALUATORS, dtype, evaluate
from prelaunch.analysis.intrinsics.floats import round_bfloat
from prelaunch.analysis.kernel import BF16, F16, F32, F64, I32, I64, U32, U64, Scalar

SEED = 20261201
print(f"seed {SEED}")


def test_rows_use_the_documented_vocabulary() -> None:
    for row in table().values():
        assert row.kind in get_args(Kind), row.name
        assert row.uniform in get_args(Uniformity), row.name
        assert row.source, row.name
        assert row.signatures, row.name
        assert row.scope in ("thread", "warp", "block", "cluster", "device", "system", "argument"), row.name


@pytest.mark.parametrize(
    ("name", "kind", "function"),
    [
        ("__expf", "pure", "exp"), ("::min", "pure", "min"), ("__fmaf_rn", "pure", "fma"), ("rsqrtf", "pure", "rsqrt"),
        ("__popcll", "pure", "popc"), ("__float_as_int", "bitcast", "bitcast"), ("__hfma2", "pure", "fma"),
        ("atomicCAS_system", "atomic", "cas"), ("__shfl_xor_sync", "collective", "shfl.xor"),
        ("__syncthreads_count", "barrier", "sync"), ("__threadfence_block", "fence", "fence"),
        ("__ldg", "load", "load"),
        ("__stcs", "store", "store"), ("__pipeline_wait_prior", "async", "wait"), ("clock64", "special", "clock64"),
        ("printf", "effect", "printf"), ("__trap", "trap", "trap"), ("sincosf", "outputs", ""),
    ],
)  # fmt: skip
def test_lookup(name: str, kind: str, function: str) -> None:
    row = lookup(name)
    assert row is not None
    assert (row.kind, row.function) == (kind, function)


def test_unknown_names_have_no_row() -> None:
    assert lookup("my_helper") is None


def test_scopes_masks_and_defaults() -> None:
    block, shuffle, old = lookup("atomicAdd_block"), lookup("__shfl_down_sync"), lookup("__shfl_down")
    assert block is not None
    assert shuffle is not None
    assert old is not None
    assert (block.scope, block.order) == ("block", "relaxed")
    assert (shuffle.mask, old.mask) == ("first", "none")
    assert shuffle.signatures[0].operands[3].default == 32
    assert shuffle.signatures[0].accepts(3)
    assert not shuffle.signatures[0].accepts(2)


def test_hadd_means_two_things() -> None:
    row = lookup("__hadd")
    assert row is not None
    assert [s.function for s in row.signatures] == ["add", "add", "hadd"]


@pytest.mark.parametrize("text", ["f33(f32)", "f32", "f32(float)", "f32(f32", "f32(f32 x)"])
def test_bad_signatures_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"signature|operand"):
        parse_signature(text)


def _pure() -> list[tuple[str, Row, Signature, str]]:
    return [
        (f"{row.name}{i}", row, signature, function)
        for row in table().values()
        if row.kind in ("pure", "outputs")
        for i, signature in enumerate(row.signatures)
        for function in dict.fromkeys((signature.function, *row.outputs))
        if function
    ]


def test_every_pure_row_has_an_evaluator_that_keeps_type_and_shape() -> None:
    rows = _pure()
    assert len(rows) > 900
    for name, row, signature, function in rows:
        assert function in EVALUATORS, name
        scalars = [o.element for o in signature.operands if not o.pointer and o.element is not None]
        args = [np.array([1, 2, 0, 3]).astype(dtype(s)) for s in scalars]
        result = signature.result.element or scalars[0]
        got = evaluate(function, result if function not in row.outputs else scalars[0], *args)
        assert got.dtype == dtype(result if function not in row.outputs else scalars[0]), name
        assert got.shape in ((4,), ()), name


# --- integers against plain Python ---------------------------------------------------------------------------------


def _s(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def _fields(x: int, width: int, signed: bool) -> list[int]:
    parts = [(x >> i) & ((1 << width) - 1) for i in range(0, 32, width)]
    return [_s(p, width) for p in parts] if signed else parts


def _join(values: list[int], width: int) -> int:
    return sum((v & ((1 << width) - 1)) << (i * width) for i, v in enumerate(values))


def _clamp(x: int, low: int, high: int) -> int:
    return max(low, min(high, x))


def _perm(a: int, b: int, s: int) -> int:
    source = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    return int.from_bytes(bytes(source[(s >> (4 * i)) & 7] for i in range(4)), "little")


def _dot(a: int, b: int, c: int, signed: bool) -> int:
    return c + sum(x * y for x, y in zip(_fields(a, 8, signed), _fields(b, 8, signed), strict=True))


def _dot2(a: int, b: int, c: int, signed: bool, start: int) -> int:
    x, y = _fields(a, 16, signed), _fields(b, 8, signed)[start : start + 2]
    return c + x[0] * y[0] + x[1] * y[1]


def _bits(x: int, bits: int) -> str:
    return format(x & ((1 << bits) - 1), f"0{bits}b")


INTEGER: dict[str, Callable[..., int]] = {
    "__popc": lambda x: _bits(x, 32).count("1"), "__popcll": lambda x: _bits(x, 64).count("1"),
    "__clz": lambda x: 32 - x.bit_length(), "__clzll": lambda x: 64 - x.bit_length(),
    "__ffs": lambda x: (x & -x).bit_length(), "__ffsll": lambda x: (x & -x).bit_length(),
    "__brev": lambda x: int(_bits(x, 32)[::-1], 2), "__brevll": lambda x: int(_bits(x, 64)[::-1], 2),
    "__mul24": lambda a, b: _s(a, 24) * _s(b, 24), "__umul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "__mulhi": lambda a, b: a * b >> 32, "__umulhi": lambda a, b: a * b >> 32,
    "__mul64hi": lambda a, b: a * b >> 64, "__umul64hi": lambda a, b: a * b >> 64,
    "__byte_perm": _perm, "__sad": lambda a, b, c: abs(a - b) + c, "__usad": lambda a, b, c: abs(a - b) + c,
    "__rhadd": lambda a, b: (a + b + 1) // 2, "__uhadd": lambda a, b: (a + b) // 2,
    "__urhadd": lambda a, b: (a + b + 1) // 2,
    "__funnelshift_l": lambda lo, hi, s: ((hi << 32 | lo) << (s & 31)) >> 32,
    "__funnelshift_lc": lambda lo, hi, s: ((hi << 32 | lo) << min(s, 32)) >> 32,
    "__funnelshift_r": lambda lo, hi, s: (hi << 32 | lo) >> (s & 31),
    "__funnelshift_rc": lambda lo, hi, s: (hi << 32 | lo) >> min(s, 32),
    "umin": min, "umax": max, "llmin": min, "llmax": max, "ullmin": min, "ullmax": max, "labs": abs,
    "__vadd4": lambda a, b: _join([x + y for x, y in zip(_fields(a, 8, False), _fields(b, 8, False), strict=True)], 8),
    "__vsubss2": lambda a, b: _join(
        [_clamp(x - y, -32768, 32767) for x, y in zip(_fields(a, 16, True), _fields(b, 16, True), strict=True)], 16
    ),
    "__vaddus4": lambda a, b: _join(
        [min(x + y, 255) for x, y in zip(_fields(a, 8, False), _fields(b, 8, False), strict=True)], 8
    ),
    "__vmaxs2": lambda a, b: _join(
        [max(p) for p in zip(_fields(a, 16, True), _fields(b, 16, True), strict=True)], 16
    ),
    "__vabsdiffu4": lambda a, b: _join(
        [abs(x - y) for x, y in zip(_fields(a, 8, False), _fields(b, 8, False), strict=True)], 8
    ),
    "__vcmpgts4": lambda a, b: _join(
        [-(x > y) for x, y in zip(_fields(a, 8, True), _fields(b, 8, True), strict=True)], 8
    ),
    "__vsetleu2": lambda a, b: _join(
        [int(x <= y) for x, y in zip(_fields(a, 16, False), _fields(b, 16, False), strict=True)], 16
    ),
    "__vsads4": lambda a, b: sum(
        abs(x - y) for x, y in zip(_fields(a, 8, True), _fields(b, 8, True), strict=True)
    ),
}  # fmt: skip


def _inputs(random_: random.Random, type: Scalar, count: int) -> list[int]:
    edges = [0, 1, 2, 31, 32, 33, (1 << type.bits) - 1, 1 << (type.bits - 1), (1 << (type.bits - 1)) - 1]
    values = [random_.choice(edges) if random_.random() < 0.3 else random_.getrandbits(type.bits) for _ in range(count)]
    return [_s(v, type.bits) if type.signed else v & ((1 << type.bits) - 1) for v in values]


def _check_integer(name: str, signature: Signature, expected: Callable[..., int]) -> None:
    random_ = random.Random(f"{SEED} {name}")
    types = [o.element for o in signature.operands]
    columns = [_inputs(random_, t, 400) for t in types if t is not None]
    result = signature.result.element
    assert result is not None
    arrays = [np.array(c, dtype=dtype(t)) for c, t in zip(columns, types, strict=True) if t is not None]
    got = evaluate(signature.function, result, *arrays).tolist()
    for inputs, value in zip(zip(*columns, strict=True), got, strict=True):
        exact = expected(*inputs)
        assert value == (_s(exact, result.bits) if result.signed else exact % (1 << result.bits)), (name, inputs)


@pytest.mark.parametrize("name", sorted(INTEGER))
def test_integer_function(name: str) -> None:
    row = lookup(name)
    assert row is not None
    _check_integer(name, row.signatures[0], INTEGER[name])


def test_integer_overloads() -> None:
    _check_integer("hadd", parse_signature("i32(i32, i32)", "hadd"), lambda a, b: (a + b) // 2)
    for name, expected in (("__dp4a", _dot), ("__dp2a_lo", _dot2), ("__dp2a_hi", _dot2)):
        row = lookup(name)
        assert row is not None
        for signature, signed in zip(row.signatures, (True, False), strict=True):
            extra = (2,) if name.endswith("hi") else (0,) if name.endswith("lo") else ()
            _check_integer(
                name,
                signature,
                lambda a, b, c, e=expected, s=signed, x=extra: e(a & (1 << 32) - 1, b & (1 << 32) - 1, c, s, *x),
            )


def test_find_nth_set() -> None:
    """PTX ISA, fns: upwards from the base, downwards, and the base itself."""
    got = evaluate(
        "fns", U32, np.uint32(0b10110), np.array([0, 4, 1, 3, 0], np.uint32), np.array([2, -2, 0, 0, 9], np.int32)
    )
    assert got.tolist() == [2, 2, 1, 0xFFFFFFFF, 0xFFFFFFFF]


# --- floats ---------------------------------------------------------------------------------------------------------


def _float32(random_: random.Random) -> float:
    pattern = random_.getrandbits(32)
    value = struct.unpack("<f", pattern.to_bytes(4, "little"))[0]
    return float(value) if math.isfinite(value) else 1.0


def _nearest(exact: Fraction, kind: np.dtype[Any], mode: str) -> float:
    """The rounded value by searching neighbours of an approximation, not by bit manipulation."""
    with np.errstate(over="ignore"):
        guess = kind.type(float(exact)) if abs(exact) < Fraction(10) ** 300 else kind.type(math.inf)
    if not np.isfinite(guess):
        guess = kind.type(math.copysign(float(np.finfo(kind).max), exact))
    around = [np.nextafter(guess, kind.type(-math.inf)), guess, np.nextafter(guess, kind.type(math.inf))]
    finite = [float(v) for v in around if np.isfinite(v)]
    below = max((v for v in finite if Fraction(v) <= exact), default=-math.inf)
    above = min((v for v in finite if Fraction(v) >= exact), default=math.inf)
    if mode == "rz":
        return below if exact > 0 else above
    if mode in ("rd", "ru"):
        return below if mode == "rd" else above
    candidates = sorted(
        {below, above}, key=lambda v: abs(Fraction(v) - exact) if math.isfinite(v) else Fraction(10) ** 400
    )
    return candidates[0]


@pytest.mark.parametrize("mode", ["rn", "rz", "ru", "rd"])
@pytest.mark.parametrize("op", ["add", "mul", "fma", "div"])
def test_named_rounding_in_single_precision(op: str, mode: str) -> None:
    random_ = random.Random(f"{SEED} {op} {mode}")
    operations: dict[str, Callable[..., Fraction]] = {
        "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
        "fma": lambda a, b, c: a * b + c,
    }  # fmt: skip
    exact = operations[op]
    name = op if mode == "rn" else f"{op}_{mode}"
    checked = 0
    for _ in range(200):
        args = [_float32(random_) for _ in range(3 if op == "fma" else 2)]
        if random_.random() < 0.5:  # comparable magnitudes, so that rounding matters
            args = [math.ldexp(math.frexp(a)[0], random_.randint(-12, 12)) for a in args]
        if args[1] == 0:
            continue
        value = exact(*(Fraction(a) for a in args))
        if value == 0 or abs(value) > Fraction(float(np.finfo(np.float32).max)):
            continue
        got = float(evaluate(name, F32, *(np.float32(a) for a in args)))
        want = _nearest(value, np.dtype(np.float32), mode)
        tie = mode == "rn" and abs(Fraction(got) - value) == abs(Fraction(want) - value)
        assert got == want or tie, (args, got, want)
        checked += 1
    assert checked > 100


def test_conversions_saturate_and_nan_is_zero() -> None:
    """PTX ISA, cvt: float to integer."""
    x = np.array([1e20, -1e20, math.nan, -1.5, 2.5, 3.5], np.float32)
    assert evaluate("cvt_rz", I32, x).tolist() == [2**31 - 1, -(2**31), 0, -1, 2, 3]
    assert evaluate("cvt_rn", I32, x).tolist() == [2**31 - 1, -(2**31), 0, -2, 2, 4]
    assert evaluate("cvt_rd", U32, x).tolist() == [2**32 - 1, 0, 0, 0, 2, 3]
    assert evaluate("cvt_ru", I64, x[3:]).tolist() == [-1, 3, 4]
    assert evaluate("cvt_round", I64, x[3:]).tolist() == [-2, 3, 4]
    assert evaluate("cvt_rz", U64, np.array([1.8e19], np.float64)).tolist() == [18_000_000_000_000_000_000]


def test_conversion_to_float_rounds_as_named() -> None:
    x = np.array([2**24 + 1, -(2**24) - 1], np.int32)
    assert evaluate("cvt_rn", F32, x).tolist() == [2.0**24, -(2.0**24)]
    assert evaluate("cvt_ru", F32, x).tolist() == [2.0**24 + 2, -(2.0**24)]
    assert evaluate("cvt_rd", F32, x).tolist() == [2.0**24, -(2.0**24) - 2]
    assert evaluate("cvt_rz", F16, np.array([2049.0, -2049.0], np.float32)).tolist() == [2048.0, -2048.0]


def test_bfloat_rounds_to_nearest_even() -> None:
    x = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7FC00000], np.uint32).view(np.float32)
    bits = round_bfloat(x).view(np.uint32) >> 16
    assert bits.tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x7FC0]
    assert evaluate("add", BF16, np.float32(256), np.float32(1)).tolist() == 256.0


def test_min_and_max_ignore_nan_unless_named_otherwise() -> None:
    assert evaluate("min", F32, np.float32(math.nan), np.float32(2)).tolist() == 2.0
    assert math.isnan(evaluate("max_nan", F32, np.float32(math.nan), np.float32(2)))


KNOWN = {
    "erf": (0.5, 0.5204998778130465), "erfc": (2.0, 0.004677734981047266), "erfcx": (30.0, 0.018795888861416751),
    "erfinv": (0.3, 0.27246271472675443), "erfcinv": (0.4, 0.5951160814499948), "tgamma": (4.5, 11.631728396567448),
    "lgamma": (-0.5, 1.2655121234846454), "normcdf": (1.0, 0.8413447460685429), "normcdfinv": (0.9, 1.2815515655446004),
    "j0": (5.0, -0.1775967713143383), "j1": (5.0, -0.3275791375914652), "y0": (5.0, -0.3085176252490338),
    "y1": (5.0, 0.1478631433912268), "cyl_bessel_i0": (2.0, 2.2795853023360673),
    "cyl_bessel_i1": (2.0, 1.5906368546373291), "sinpi": (0.25, math.sqrt(0.5)), "cospi": (1.0, -1.0),
    "rsqrt": (4.0, 0.5), "exp10": (3.0, 1000.0), "cbrt": (27.0, 3.0), "rcbrt": (8.0, 0.5), "log1p": (1.0, math.log(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_known_value(name: str) -> None:
    """Values from published tables (DLMF; Abramowitz and Stegun)."""
    x, want = KNOWN[name]
    assert float(evaluate(name, F64, np.float64(x))) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("jn", (2, 5.0), 0.04656511627775222), ("yn", (2, 5.0), 0.36766288260552453), ("ldexp", (3.0, 4), 48.0),
        ("fdim", (1.0, 3.0), 0.0), ("norm", (2.0, 3.0, 6.0), 7.0), ("remainder", (5.0, 3.0), -1.0),
        ("fmod", (-5.0, 3.0), -2.0),
        ("copysign", (2.0, -0.0), -2.0), ("modf", (-1.25,), -0.25), ("frexp", (8.0,), 0.5), ("logb", (8.5,), 3.0),
        ("saturate", (math.nan,), 0.0), ("lerp", (1.0, 3.0, 0.5), 2.0),
    ],
)  # fmt: skip
def test_other_values(name: str, args: tuple[Any, ...], want: float) -> None:
    values = [np.int32(a) if isinstance(a, int) else np.float64(a) for a in args]
    assert float(evaluate(name, F64, *values)) == pytest.approx(want, rel=1e-9, abs=1e-15)


def test_parts_of_a_double() -> None:
    x = np.array([math.pi, -0.0])
    high, low = evaluate("hi32", I32, x), evaluate("lo32", I32, x)
    assert high.tolist() == [0x400921FB, -(2**31)]
    assert evaluate("hilo_f64", F64, high, low).tolist() == [math.pi, 0.0]
