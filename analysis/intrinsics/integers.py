"""Integer functions, exact at every width. Each takes the result dtype and its arguments as arrays of one shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # NDArray or NumPy scalar of an integer dtype
U32 = np.uint32


def _bits(x: Array) -> int:
    return int(np.asarray(x).dtype.itemsize * 8)


def _unsigned(x: Array) -> Array:
    array = np.asarray(x)
    return array.view(f"u{array.dtype.itemsize}")


def _u32(x: Array) -> Array:
    return np.asarray(x).astype(np.uint32)


def popc(_: Any, x: Array) -> Array:
    """Bits set."""
    v = _unsigned(x)
    return sum((v >> v.dtype.type(i)) & v.dtype.type(1) for i in range(_bits(v)))


def clz(_: Any, x: Array) -> Array:
    """Zero bits above the highest bit set; the width for 0."""
    v = _unsigned(x).copy()
    width = _bits(v)
    shift = 1
    while shift < width:
        v |= v >> v.dtype.type(shift)
        shift *= 2
    return width - popc(_, v).astype(np.int32)


def ffs(_: Any, x: Array) -> Array:
    """1-based position of the lowest bit set, 0 for 0 (CUDA Math API, __ffs)."""
    v = _unsigned(x)
    lowest = v & (~v + v.dtype.type(1))
    return np.where(v == 0, 0, _bits(v) - clz(_, lowest))


def brev(_: Any, x: Array) -> Array:
    v = _unsigned(x)
    width = _bits(v)
    result = np.zeros_like(v)
    for i in range(width):
        result |= ((v >> v.dtype.type(i)) & v.dtype.type(1)) << v.dtype.type(width - 1 - i)
    return result


def fns(_: Any, mask: Array, base: Array, offset: Array) -> Array:
    """Position of the n-th bit set from ``base`` (PTX ISA, fns): upwards for offset > 0, downwards for < 0, the base
    bit itself for 0; 0xffffffff when there is none."""

    def one(m: int, b: int, n: int) -> int:
        if n == 0:
            return b if b < 32 and m >> b & 1 else 0xFFFFFFFF
        positions = range(b, 32) if n > 0 else range(b, -1, -1)
        found = [p for p in positions if p < 32 and m >> p & 1]
        return found[abs(n) - 1] if len(found) >= abs(n) else 0xFFFFFFFF

    return np.frompyfunc(one, 3, 1)(np.asarray(mask), np.asarray(base), np.asarray(offset))


def mul24(result: Any, a: Array, b: Array) -> Array:
    """Low 32 bits of the product of the low 24 bits, sign-extended for int."""
    if result.kind == "i":
        a = (np.asarray(a).astype(np.int64) << 40) >> 40
        b = (np.asarray(b).astype(np.int64) << 40) >> 40
        return (a * b).astype(np.int32)
    return _u32((np.asarray(a).astype(np.uint64) & 0xFFFFFF) * (np.asarray(b).astype(np.uint64) & 0xFFFFFF))


def mulhi(result: Any, a: Array, b: Array) -> Array:
    """High half of the double-width product."""
    if result.itemsize == 4:
        wide = np.int64 if result.kind == "i" else np.uint64
        return (np.asarray(a).astype(wide) * np.asarray(b).astype(wide)) >> wide(32)
    return np.frompyfunc(lambda p, q: (int(p) * int(q)) >> 64, 2, 1)(np.asarray(a), np.asarray(b))


def byte_perm(_: Any, a: Array, b: Array, selector: Array) -> Array:
    """Four bytes picked from the eight of (a, b), low first, by the low 3 bits of each selector nibble."""
    both = np.asarray(a).astype(np.uint64) | (np.asarray(b).astype(np.uint64) << np.uint64(32))
    s = np.asarray(selector).astype(np.uint64)
    result = np.zeros(np.broadcast(both, s).shape, np.uint64)
    for i in range(4):
        pick = (s >> np.uint64(4 * i)) & np.uint64(7)
        result |= ((both >> (pick * np.uint64(8))) & np.uint64(255)) << np.uint64(8 * i)
    return _u32(result)


def sad(_: Any, a: Array, b: Array, c: Array) -> Array:
    """|a - b| + c, modulo 2^32."""
    difference = np.abs(np.asarray(a).astype(np.int64) - np.asarray(b).astype(np.int64))
    return _u32(difference + np.asarray(c).astype(np.int64))


def hadd(_: Any, a: Array, b: Array) -> Array:
    return (np.asarray(a).astype(np.int64) + np.asarray(b).astype(np.int64)) >> 1


def rhadd(_: Any, a: Array, b: Array) -> Array:
    return (np.asarray(a).astype(np.int64) + np.asarray(b).astype(np.int64) + 1) >> 1


def _funnel(left: bool, clamp: bool) -> Callable[..., Array]:
    def shift(_: Any, low: Array, high: Array, amount: Array) -> Array:
        both = np.asarray(low).astype(np.uint64) | (np.asarray(high).astype(np.uint64) << np.uint64(32))
        s = np.asarray(amount).astype(np.uint64)
        s = np.minimum(s, np.uint64(32)) if clamp else s & np.uint64(31)
        return _u32((both << s) >> np.uint64(32)) if left else _u32(both >> s)

    return shift


def _parts(x: Array, width: int, signed: bool) -> list[Array]:
    """The fields of a 32-bit word, low first, widened to int64."""
    v = _u32(x).astype(np.int64)
    fields = [(v >> (i * width)) & ((1 << width) - 1) for i in range(32 // width)]
    return [np.where(f >> (width - 1) & 1, f - (1 << width), f) for f in fields] if signed else fields


def dp4a(result: Any, a: Array, b: Array, c: Array) -> Array:
    """Dot product of four bytes, added to c."""
    signed = result.kind == "i"
    total = np.asarray(c).astype(np.int64)
    for x, y in zip(_parts(a, 8, signed), _parts(b, 8, signed), strict=True):
        total = total + x * y
    return total


def _dp2a(high: bool) -> Callable[..., Array]:
    def dot(result: Any, a: Array, b: Array, c: Array) -> Array:
        signed = result.kind == "i"
        halves, all_bytes = _parts(a, 16, signed), _parts(b, 8, signed)
        picked = all_bytes[2:] if high else all_bytes[:2]
        return np.asarray(c).astype(np.int64) + halves[0] * picked[0] + halves[1] * picked[1]

    return dot


def _simd(width: int, signed: bool, function: Callable[..., Array]) -> Callable[..., Array]:
    """A function applied field by field, results cut to the field."""

    def apply(_: Any, *words: Array) -> Array:
        fields = [_parts(word, width, signed) for word in words]
        result: Array = np.int64(0)
        for i in range(32 // width):
            value = np.asarray(function(*(f[i] for f in fields))).astype(np.int64)
            result = result | ((value & ((1 << width) - 1)) << (i * width))
        return _u32(result)

    return apply


def _simd_sum(width: int, signed: bool) -> Callable[..., Array]:
    def apply(_: Any, a: Array, b: Array) -> Array:
        pairs = zip(_parts(a, width, signed), _parts(b, width, signed), strict=True)
        return sum(np.abs(x - y) for x, y in pairs)

    return apply


def _clip(width: int, signed: bool) -> Callable[[Array], Array]:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return lambda x: np.clip(x, low, high)


def _simd_table() -> dict[str, Callable[..., Array]]:
    table: dict[str, Callable[..., Array]] = {}
    compare = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
    compare["ge"] = np.greater_equal
    for count, width in ((2, 16), (4, 8)):
        for name, op in (("add", np.add), ("sub", np.subtract)):
            table[f"v{name}{count}"] = _simd(width, False, op)
            for suffix, signed in (("ss", True), ("us", False)):
                clip = _clip(width, signed)
                table[f"v{name}{suffix}{count}"] = _simd(width, signed, lambda a, b, op=op, clip=clip: clip(op(a, b)))
        for suffix, signed in (("s", True), ("u", False)):
            table[f"vmax{suffix}{count}"] = _simd(width, signed, np.maximum)
            table[f"vmin{suffix}{count}"] = _simd(width, signed, np.minimum)
            table[f"vabsdiff{suffix}{count}"] = _simd(width, signed, lambda a, b: np.abs(a - b))
            table[f"vavg{suffix}{count}"] = _simd(width, signed, _average)
            table[f"vsad{suffix}{count}"] = _simd_sum(width, signed)
        table[f"vhaddu{count}"] = _simd(width, False, lambda a, b: (a + b) >> 1)
        table[f"vabs{count}"] = _simd(width, True, np.abs)
        table[f"vneg{count}"] = _simd(width, True, np.negative)
        for name, test in compare.items():
            for suffix, signed in (("", False),) if name in ("eq", "ne") else (("s", True), ("u", False)):
                table[f"vcmp{name}{suffix}{count}"] = _simd(
                    width, signed, lambda a, b, t=test: np.where(t(a, b), -1, 0)
                )
                table[f"vset{name}{suffix}{count}"] = _simd(width, signed, lambda a, b, t=test: t(a, b))
    return table


def _average(a: Array, b: Array) -> Array:
    """Rounded average: halves go up for unsigned and positive sums, away from zero below (CUDA Math API, __vavgs2)."""
    total = a + b
    return np.where(total >= 0, (total + 1) >> 1, -((-total + 1) >> 1))


INTEGERS: dict[str, Callable[..., Array]] = {
    "popc": popc, "clz": clz, "ffs": ffs, "brev": brev, "fns": fns, "mul24": mul24, "mulhi": mulhi,
    "byte_perm": byte_perm, "sad": sad, "hadd": hadd, "rhadd": rhadd,
    "funnelshift_l": _funnel(True, False), "funnelshift_lc": _funnel(True, True),
    "funnelshift_r": _funnel(False, False), "funnelshift_rc": _funnel(False, True),
    "dp4a": dp4a, "dp2a_lo": _dp2a(False), "dp2a_hi": _dp2a(True),
    **_simd_table(),
}  # fmt: skip
