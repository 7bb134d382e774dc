"""Atomics compiled to functions of (machine, lanes): lanes take turns in slot order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prelaunch.analysis.interpreter.access import Effect, check_written, converted, is_aligned, places, record
from prelaunch.analysis.interpreter.expressions import Code, cast_value
from prelaunch.analysis.interpreter.lanes import Lanes, count
from prelaunch.analysis.interpreter.memory import Region, decode, encode, gather, scatter, stored_dtype
from prelaunch.analysis.interpreter.record import Site
from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import F64, Atomic, Scalar

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.machine import Machine

_RUNNING = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def apply_atomic(op: str, type: Scalar, old: Any, operands: list[Any]) -> Any:
    """The new value of an atomic operation on register values (CUDA C++ Programming Guide, Atomic Functions)."""
    value = operands[-1]
    match op:
        case "add":
            return cast_value(old.astype(np.float64) + value, F64, type) if type.kind == "bfloat" else old + value
        case "sub":
            return old - value
        case "exch":
            return value
        case "min":
            return np.fmin(old, value) if type.kind in ("float", "bfloat") else np.minimum(old, value)
        case "max":
            return np.fmax(old, value) if type.kind in ("float", "bfloat") else np.maximum(old, value)
        case "inc":
            return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
        case "dec":
            return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
        case "cas":
            return np.where(old == operands[0], value, old)
        case "and":
            return old & value
        case "or":
            return old | value
        case _:
            return old ^ value


def compile_atomic(node: Atomic, site: Site, register: int | None, exprs: list[Code], address: Code) -> Effect:
    """``register`` gets the old values."""
    type = node.type
    kind = stored_dtype(type)
    size = kind.itemsize
    codes = [converted(code, expr.type, type) for code, expr in zip(exprs, node.exprs, strict=True)]

    def run(m: Machine, lanes: Lanes) -> None:
        total = count(lanes)
        operands = [np.broadcast_to(code(m, lanes), (total,)) for code in codes]
        olds = np.zeros(total, dtype(type))
        for place in places(m, lanes, address(m, lanes), site, size, size):
            region, positions, offsets = place
            some = operands if positions is None else [v[positions] for v in operands]
            check_written(m, lanes, site, place, size)
            old, new = _exchange(region, offsets, node.op, type, some)
            olds[slice(None) if positions is None else positions] = old
            m.recorder.changes += bool((old != new).any())
            written = np.ascontiguousarray(encode(type, new)).view(np.uint8).reshape(len(new), -1)
            record(m, lanes, site, place, size, written)
        if register is not None:
            m.registers[register][lanes] = olds

    return run


def _exchange(region: Region, offsets: Any, op: str, type: Scalar, operands: list[Any]) -> tuple[Any, Any]:
    """Old and new value of each lane's turn."""
    kind = stored_dtype(type)
    aligned = is_aligned(offsets, kind.itemsize)
    if len(offsets) > 1:
        _, place, times = np.unique(offsets, return_inverse=True, return_counts=True)
        if times.max() > 1:
            return _in_turn(
                region, offsets, op, type, operands, np.split(np.argsort(place, kind="stable"), times.cumsum()[:-1])
            )
    old = decode(type, gather(region, offsets, kind, aligned))
    new = np.asarray(apply_atomic(op, type, old, operands))
    scatter(region, offsets, encode(type, new), kind, aligned)
    return old, new


def _in_turn(
    region: Region, offsets: Any, op: str, type: Scalar, operands: list[Any], parts: list[Any]
) -> tuple[Any, Any]:
    """Lanes of one address (a part each) one after another."""
    kind = stored_dtype(type)
    olds, news = np.zeros(len(offsets), dtype(type)), np.zeros(len(offsets), dtype(type))
    for part in parts:
        where = offsets[part[:1]]
        aligned = is_aligned(where, kind.itemsize)
        first = decode(type, gather(region, where, kind, aligned))
        chain = _chain(op, type, first, [v[part] for v in operands])
        olds[part], news[part] = chain[:-1], chain[1:]
        scatter(region, where, encode(type, chain[-1:]), kind, aligned)
    return olds, news


def _chain(op: str, type: Scalar, first: Any, operands: list[Any]) -> Any:
    """Values of one memory element: the first, and after each turn."""
    if op == "exch":
        return np.concatenate([first, operands[0]])
    if op in _RUNNING and (type.is_integer or (op in ("add", "sub") and type.kind == "float")):
        return _RUNNING[op].accumulate(np.concatenate([first, operands[0]]), dtype=dtype(type))
    values = [first]
    for i in range(len(operands[0])):
        values.append(np.asarray(apply_atomic(op, type, values[-1], [v[i : i + 1] for v in operands])))
    return np.concatenate(values)
