"""Arithmetic of the interpreter is C's: wrap-around, truncating division, clamped shifts, saturating conversions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    Load,
    Scalar,
    Select,
    Stmt,
    Store,
    Type,
    Unary,
    Var,
)  # fmt: skip
from tests.interpret_ir import T, at, go, kernel, pointer

SEED = 99


def _evaluate(expr_of: Callable[..., Expr], types: Sequence[Scalar], result: Scalar, columns: Sequence[Any]) -> Any:
    """Run ``out[t] = expr(in0[t], in1[t], ...)`` over one block."""
    buffers: dict[str, Type] = {"out": result, **{f"in{i}": t for i, t in enumerate(types)}}
    loaded = [Var(i + 1, f"x{i}", t) for i, t in enumerate(types)]
    body: list[Stmt] = [
        Load((v,), at(pointer(buffers, f"in{i}"), T, v.type.size), v.type) for i, v in enumerate(loaded)
    ]
    body.append(Store(at(pointer(buffers, "out"), T, result.size), (expr_of(*loaded),), result))
    arrays = {f"in{i}": np.array(c, dtype=_stored(t)) for i, (c, t) in enumerate(zip(columns, types, strict=True))}
    out = np.zeros(len(columns[0]), _stored(result))
    trace = go(kernel(body, buffers), len(columns[0]), data=arrays, out=out)
    assert trace.status == "done"
    return np.frombuffer(trace.memory["out"], _stored(result))


def _stored(type: Scalar) -> np.dtype[Any]:
    return np.dtype(np.uint16) if type.kind == "bfloat" else np.dtype(np.uint8) if type == BOOL else dtype(type)


def _wrap(x: int, type: Scalar) -> int:
    x &= (1 << type.bits) - 1
    return x - (1 << type.bits) if type.signed and x >> (type.bits - 1) else x


def _values(random_: random.Random, type: Scalar, count: int) -> list[int]:
    edges = [0, 1, -1, 1 << (type.bits - 1), (1 << (type.bits - 1)) - 1, type.bits, 7]
    return [
        _wrap(random_.choice(edges) if random_.random() < 0.4 else random_.getrandbits(type.bits), type)
        for _ in range(count)
    ]


def _shift(a: int, b: int, type: Scalar, left: bool) -> int:
    amount = min(b % (1 << type.bits), type.bits)  # the amount is unsigned, clamped to the width
    if left:
        return a << amount
    return a >> min(amount, type.bits - 1) if type.signed else a >> amount


INTEGER_OPS: dict[str, Callable[[int, int, Scalar], int]] = {
    "add": lambda a, b, t: a + b, "sub": lambda a, b, t: a - b, "mul": lambda a, b, t: a * b,
    "div": lambda a, b, t: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0,
    "rem": lambda a, b, t: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0,
    "and": lambda a, b, t: a & b, "or": lambda a, b, t: a | b, "xor": lambda a, b, t: a ^ b,
    "shl": lambda a, b, t: _shift(a, b, t, True), "shr": lambda a, b, t: _shift(a, b, t, False),
    "eq": lambda a, b, t: a == b, "ne": lambda a, b, t: a != b, "lt": lambda a, b, t: a < b,
    "le": lambda a, b, t: a <= b, "gt": lambda a, b, t: a > b, "ge": lambda a, b, t: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("type", [I8, U8, I16, U16, I32, U32, I64, U64], ids=str)
@pytest.mark.parametrize("op", list(INTEGER_OPS))
def test_integer_arithmetic(op: Any, type: Scalar) -> None:
    """Wrap-around, truncating division, clamped shifts; the result of dividing by zero is not asserted."""
    random_ = random.Random(f"{SEED} {op} {type}")
    a, b = _values(random_, type, 300), _values(random_, type, 300)
    result = BOOL if op in ("eq", "ne", "lt", "le", "gt", "ge") else type
    got = _evaluate(lambda x, y: Binary(op, x, y, result), [type, type], result, [a, b])
    for x, y, value in zip(a, b, got.tolist(), strict=True):
        if op not in ("div", "rem") or y:
            assert value == _wrap(int(INTEGER_OPS[op](x, y, type)), result), (x, y)


@pytest.mark.parametrize("target", [I8, U8, I16, U16, I32, U32, I64, U64, BOOL, F32, F64], ids=str)
@pytest.mark.parametrize("source", [I8, U16, I32, U32, I64, U64], ids=str)
def test_conversions_from_integers(source: Scalar, target: Scalar) -> None:
    values = _values(random.Random(f"{SEED} {source}"), source, 200)
    got = _evaluate(lambda x: Cast(x, target), [source], target, [values]).tolist()
    if target == BOOL:
        assert got == [int(v != 0) for v in values]
    elif target.is_integer:
        assert got == [_wrap(v, target) for v in values]
    else:
        assert got == [float(dtype(target).type(v)) for v in values]


def test_conversions_from_floats_saturate() -> None:
    values = [1e30, -1e30, float("nan"), -3.99, 300.5, 0.0]
    assert _evaluate(lambda x: Cast(x, I32), [F32], I32, [values]).tolist() == [2**31 - 1, -(2**31), 0, -3, 300, 0]
    assert _evaluate(lambda x: Cast(x, U8), [F64], U8, [values]).tolist() == [255, 0, 0, 0, 255, 0]
    assert _evaluate(lambda x: Cast(x, BOOL), [F32], BOOL, [values]).tolist() == [1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("type", [F16, F32, F64], ids=str)
def test_floats_are_computed_in_their_own_type(type: Scalar) -> None:
    random_ = random.Random(f"{SEED} {type}")
    a = np.array([random_.uniform(-100, 100) for _ in range(200)], dtype(type))
    b = np.array([random_.uniform(-1, 1) for _ in range(200)], dtype(type))
    for op, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
        got = _evaluate(lambda x, y, o=op: Binary(o, x, y, type), [type, type], type, [a, b])
        with np.errstate(all="ignore"):
            assert got.tolist() == function(a, b).tolist()


def test_bfloat_rounds_each_result() -> None:
    one, tiny = 0x3F80, 0x3B80  # 1 and 2^-8: their sum is half way between two bfloats and rounds to even
    got = _evaluate(lambda x, y: Binary("add", x, y, BF16), [BF16, BF16], BF16, [[one], [tiny]])
    assert got.tolist() == [one]
    assert _evaluate(lambda x: Cast(x, F32), [BF16], F32, [[0xC000]]).tolist() == [-2.0]
    assert _evaluate(lambda x: Cast(x, BF16), [F32], BF16, [[3.0]]).tolist() == [0x4040]
    assert _evaluate(lambda x: Bitcast(x, U16), [BF16], U16, [[0xC000]]).tolist() == [0xC000]


def test_bit_casts_unary_and_select() -> None:
    x = [1.5, -0.0, 3e38]
    assert _evaluate(lambda v: Bitcast(v, U32), [F32], U32, [x]).tolist() == np.array(x, np.float32).view("u4").tolist()
    assert _evaluate(lambda v: Unary("neg", v, U32), [U32], U32, [[1, 0]]).tolist() == [2**32 - 1, 0]
    assert _evaluate(lambda v: Unary("not", v, I16), [I16], I16, [[5, -1]]).tolist() == [-6, 0]
    assert _evaluate(lambda v: Unary("lnot", v, BOOL), [I32], BOOL, [[5, 0]]).tolist() == [0, 1]
    pick = _evaluate(
        lambda v: Select(Binary("lt", v, Const(0, I32), BOOL), Const(7, I64), v, I64), [I32], I64, [[-3, 4]]
    )
    assert pick.tolist() == [7, 4]
