"""Atomics and asynchronous copies (PTX ISA, chapters 9.7.9.25 and 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx.access import Accessor, address_getter
from prelaunch.analysis.ptx.memory import UNSIGNED
from prelaunch.analysis.ptx.module import SIZES, Instruction, Vec
from prelaunch.analysis.ptx.values import Array, Step, Unsupported, Value, dtype_of, getter, per_lane, setter

ATOMIC_OPS = frozenset({"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"})


def _combine(op: str) -> Callable[[Value, Value], Value]:
    table: dict[str, Callable[[Value, Value], Value]] = {
        "add": lambda old, v: old + v, "min": np.minimum, "max": np.maximum, "and": lambda old, v: old & v,
        "or": lambda old, v: old | v, "xor": lambda old, v: old ^ v, "exch": lambda old, v: v,
        "inc": lambda old, v: np.where(old >= v, old.dtype.type(0), old + old.dtype.type(1)),
        "dec": lambda old, v: np.where((old == 0) | (old > v), v, old - old.dtype.type(1)),
    }  # fmt: skip
    return table[op]


def atomic(ins: Instruction) -> Step:
    """Lanes at one address take their turns in the order of thread numbers."""
    returns = ins.parts[0] == "atom"
    kind = ins.parts[-1]
    op = next((p for p in ins.parts[1:-1] if p in ATOMIC_OPS), "")
    if not op or SIZES.get(kind, 16) > 8 or kind in ("f16x2", "bf16x2", "bf16") or isinstance(ins.operands[-1], Vec):
        raise Unsupported(ins.opcode)
    operands = ins.operands[1:] if returns else ins.operands
    put = setter(ins.operands[0]) if returns else None
    gets = [getter(o, kind) for o in operands[1:]]
    get = address_getter(operands[0], "shared" in ins.parts)
    access = Accessor(ins, "atomic", SIZES[kind], 1)
    if access.order == "weak":
        access.order = "relaxed"
    if access.scope == "thread":
        access.scope = "device"
    dtype, raw = dtype_of(kind), UNSIGNED[SIZES[kind]]

    def step(m: Any, f: Any, at: Any) -> None:
        addresses = per_lane(get(m, f, at), m, at)
        values = [per_lane(g(m, f, at), m, at) for g in gets]
        old = np.zeros(len(addresses), raw)
        for part in access.split(m, f, at, addresses):
            mine = [v[part[3]] for v in values]
            for turn in turns(part[2], part[0] is None, part[1]):
                some = (part[0], part[1][turn], part[2][turn], part[3][turn])
                before = access.read(m, some, 0).view(dtype)
                old[some[3]] = before.view(raw)
                access.write(m, some, 0, _after(op, before, [v[turn] for v in mine]).astype(dtype).view(raw))
        if put is not None:
            put(m, f, at, old)

    return step


def _after(op: str, before: Array, values: list[Array]) -> Array:
    if op == "cas":
        return np.where(before == values[0], values[1], before)
    result: Array = np.asarray(_combine(op)(before, values[0]))
    return result


def turns(offsets: Array, local: bool, lanes: Array) -> list[Array]:
    """Positions split so that no turn has one address twice, earlier positions in earlier turns."""
    key = offsets + lanes * (1 << 30) if local else offsets
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(first) == len(order):
        return [np.arange(len(order))]
    rank_sorted = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    rank = np.empty(len(order), np.int64)
    rank[order] = rank_sorted
    return [np.flatnonzero(rank == turn) for turn in range(int(rank.max()) + 1)]


# --- asynchronous copies ---


def copy_async(ins: Instruction) -> Step:
    """``cp.async.{ca,cg}.shared.global [dst], [src], size {, source size}``: copied when issued."""
    rest = list(ins.operands[2:])
    size_operand = rest[0] if rest else None
    size = getattr(size_operand, "value", None)
    if size not in (4, 8, 16) or len(rest) > 2:
        raise Unsupported(ins.opcode)
    assert size is not None
    partial = getter(rest[1], "u32") if len(rest) == 2 else None
    get_to, get_from = address_getter(ins.operands[0], True), address_getter(ins.operands[1], False)
    width = min(size, 8)
    reader, writer = Accessor(ins, "read", width, size // width), Accessor(ins, "write", width, size // width)

    def step(m: Any, f: Any, at: Any) -> None:
        to, source = per_lane(get_to(m, f, at), m, at), per_lane(get_from(m, f, at), m, at)
        taken = None if partial is None else per_lane(partial(m, f, at), m, at)
        words = np.zeros((size // width, len(to)), UNSIGNED[width])
        live = at if taken is None else m.subset(at, taken > 0)
        if live is not None:
            kept = source if taken is None else source[taken > 0]
            positions = np.arange(len(to)) if taken is None else np.flatnonzero(taken > 0)
            for part in reader.split(m, f, live, kept):
                for word in range(size // width):
                    words[word][positions[part[3]]] = reader.read(m, part, word)
        if taken is not None:
            _clear_tail(words, taken, width)
        for part in writer.split(m, f, at, to):
            for word in range(size // width):
                writer.write(m, part, word, words[word][part[3]])

    return step


def _clear_tail(words: Array, taken: Array, width: int) -> None:
    """Bytes past the source size are zero."""
    bytes_ = words.view(np.uint8).reshape(words.shape[0], words.shape[1], width)
    for word in range(words.shape[0]):
        for byte in range(width):
            bytes_[word, taken <= word * width + byte, byte] = 0
