"""Values of an expression in every thread of one block, where it depends on thread indices and constants only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prelaunch.analysis.kernel import Binary, Cast, Expr, Scalar, Select, Unary

Lanes = NDArray[np.int64]
"""One value a thread, x fastest."""


def spread(value: int | None, threads: int) -> Lanes | None:
    return np.full(threads, value, np.int64) if value is not None and abs(value) < 1 << 62 else None


def lanes_of(expr: Expr, arrays: list[Lanes]) -> Lanes | None:
    """Per-thread result in the expression's type; None where 64-bit arithmetic might be left."""
    if not isinstance(expr, (Binary, Cast, Unary, Select)) or not isinstance(expr.type, Scalar):
        return None
    wide = expr.type.bits == 64 and not isinstance(expr, Cast)
    if any(int(np.abs(a).max()) >= 1 << (31 if wide else 32) for a in arrays):
        return None
    if isinstance(expr, Binary):
        result: Lanes | None = _binary_lanes(expr.op, arrays[0], arrays[1])
    elif isinstance(expr, Select):
        result = np.where(arrays[0] != 0, arrays[1], arrays[2])
    elif isinstance(expr, Unary):
        result = {"neg": -arrays[0], "not": ~arrays[0], "lnot": (arrays[0] == 0).astype(np.int64)}[expr.op]
    else:
        result = (arrays[0] != 0).astype(np.int64) if expr.type.kind == "bool" else arrays[0]
    if result is None or expr.type.kind == "bool":
        return result
    bits = expr.type.bits
    if bits == 64:
        return result if expr.type.signed or int(result.min()) >= 0 else None
    if expr.type.signed:
        return (result << 64 - bits) >> 64 - bits
    masked: Lanes = np.bitwise_and(result, (1 << bits) - 1)
    return masked


def _binary_lanes(op: str, a: Lanes, b: Lanes) -> Lanes | None:
    if op in ("div", "rem"):
        if (b == 0).any():
            return None
        quotient: Lanes = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
        return quotient if op == "div" else a - quotient * b
    if op in ("shl", "shr"):
        if (b < 0).any() or (b > 31).any() or (op == "shl" and int(b.max()) > 30):
            return None
        return a << b if op == "shl" else a >> b
    table: dict[str, Callable[[Lanes, Lanes], NDArray[np.generic]]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
        "gt": np.greater, "ge": np.greater_equal, "land": np.logical_and, "lor": np.logical_or,
    }  # fmt: skip
    result: Lanes = table[op](a, b).astype(np.int64)
    return result
