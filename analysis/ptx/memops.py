"""The table of memory instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prelaunch.analysis.ptx.access import load, store
from prelaunch.analysis.ptx.atomics import atomic, copy_async
from prelaunch.analysis.ptx.memory import space_of
from prelaunch.analysis.ptx.module import Instruction
from prelaunch.analysis.ptx.values import Step, getter, per_lane, setter


def space_test(ins: Instruction) -> Step:
    """``isspacep.space``"""
    put, get = setter(ins.operands[0]), getter(ins.operands[1], "u64")
    wanted = ins.parts[1].split("::")[0]

    def step(m: Any, f: Any, at: Any) -> None:
        addresses = per_lane(get(m, f, at), m, at)
        spaces = np.array([space_of(int(a)) == wanted for a in addresses])
        put(m, f, at, spaces)

    return step


TABLE: dict[str, Callable[[Instruction], Step]] = {
    "ld": load, "ldu": load, "st": store, "atom": atomic, "red": atomic, "isspacep": space_test,
}  # fmt: skip


def build(ins: Instruction) -> Step | None:
    """The step of a memory instruction; None when it is none."""
    if ins.parts[0] == "cp":
        if ins.parts[1] == "async" and len(ins.parts) > 2 and ins.parts[2] in ("ca", "cg"):
            return copy_async(ins)
        return None
    maker = TABLE.get(ins.parts[0])
    return None if maker is None else maker(ins)
