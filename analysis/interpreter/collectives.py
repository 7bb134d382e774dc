"""Values of warp-wide exchanges, over many warps at once.

Lanes that exchange with each other share a ``row``; a row has 32 places, those of lanes that take part are present.
Semantics: PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
_LANES = np.arange(32)


def exchange(
    op: str, row: Array, lane: Array, mask: Array, args: list[Array], width: Array
) -> tuple[list[Array], Array | None]:
    """Results, one array per result variable, and for shuffles the lane each one reads that does not take part (-1:
    none); such a lane gets its own value back, where hardware leaves it undefined.

    ``row``, ``lane``, ``mask`` and every argument have one entry per taking part lane; rows are 0..n-1.
    """
    rows = int(row.max()) + 1
    present = np.zeros((rows, 32), bool)
    present[row, lane] = True
    if op.startswith("shfl."):
        return _shuffle(op[5:], row, lane, args, width, present)
    if op == "activemask":
        return [_bits(present)[row]], None
    if op == "elect":
        first = present.argmax(axis=1)
        return [first[row] == lane, first[row].astype(np.uint32)], None
    value = args[0]
    table = np.zeros((rows, 32), value.dtype)
    table[row, lane] = value
    if op.startswith("vote."):
        return [_vote(op[5:], table != 0, present)[row]], None
    if op == "match.any":
        equal = _same(table)[row, lane] & present[row]
        return [equal @ (np.uint64(1) << _LANES.astype(np.uint64))], None
    if op == "match.all":
        first = present.argmax(axis=1)
        agree = (_same(table)[np.arange(rows), first] | ~present).all(axis=1)
        return [np.where(agree[row], mask, 0), agree[row]], None
    return [_reduce(op.removeprefix("reduce."), table, present)[row]], None


def _shuffle(
    op: str, row: Array, lane: Array, args: list[Array], width: Array, present: Array
) -> tuple[list[Array], Array]:
    value, operand = args[0], args[1].astype(np.int64) & 31
    # mask of the bits that name the segment, as CUDA's headers make it; a width that is no power of two is undefined
    segment = (32 - width.astype(np.int64)) & 31
    start = lane & segment
    end = start | (31 & ~segment)
    if op == "idx":
        source = start | (operand & ~segment)
        inside = source <= end
    elif op == "up":
        source = lane - operand
        inside = source >= start
    elif op == "down":
        source = lane + operand
        inside = source <= end
    else:
        source = lane ^ operand
        inside = source <= end
    source = np.where(inside, source, lane)
    table = np.zeros(present.shape, value.dtype)
    table[row, lane] = value
    known = present[row, source]
    return [np.where(known, table[row, source], value), inside], np.where(known, -1, source)


def _bits(present: Array) -> Array:
    return (present @ (np.uint64(1) << _LANES.astype(np.uint64))).astype(np.uint32)


def _vote(op: str, yes: Array, present: Array) -> Array:
    if op == "ballot":
        return _bits(yes & present)
    return (yes & present).any(axis=1) if op == "any" else (yes | ~present).all(axis=1)


def _same(table: Array) -> Array:
    """(rows, 32, 32): which places hold the same bits."""
    bits = table if table.dtype.kind != "f" else table.view(f"u{table.dtype.itemsize}")
    return np.asarray(bits[:, :, None] == bits[:, None, :])


def _reduce(op: str, table: Array, present: Array) -> Array:
    """Over the present places of each row. Floats (cooperative groups reduce) add in a tree of halves."""
    if table.dtype.kind == "b":
        return _reduce(op, table.view(np.uint8), present) != 0
    if op in ("min", "max"):
        if table.dtype.kind == "f":
            neutral = np.inf if op == "min" else -np.inf
        else:
            neutral = np.iinfo(table.dtype).max if op == "min" else np.iinfo(table.dtype).min
        filled = np.where(present, table, table.dtype.type(neutral))
        return (np.fmin if op == "min" else np.fmax).reduce(filled, axis=1)
    if op == "and":
        return np.bitwise_and.reduce(np.where(present, table, ~table.dtype.type(0)), axis=1)
    filled = np.where(present, table, table.dtype.type(0))
    if op == "add":
        while filled.shape[1] > 1:
            half = filled.shape[1] // 2
            filled = filled[:, :half] + filled[:, half:]
        return filled[:, 0]
    return np.bitwise_or.reduce(filled, axis=1) if op == "or" else np.bitwise_xor.reduce(filled, axis=1)
