"""Which lanes run together and in which order, where CUDA leaves it open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from prelaunch.analysis.interpreter.lanes import Index

Width = Literal["block", "warp", "thread"]
Order = Literal["ascending", "descending", "shuffled"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """One way to run a launch; every one is legal on hardware, so a correct kernel gives one result under all.

    ``width``: how many threads start as one group; a group runs until it must wait, before the next one does.
    ``order``: in which order groups run, lanes of a group write, and blocks run (``shuffled`` by ``seed``).
    ``copies``: asynchronous copies happen when issued, or not before the wait that covers them.
    """

    width: Width = "block"
    order: Order = "ascending"
    seed: int = 0
    copies: Literal["issue", "wait"] = "issue"

    def arrange(self, count: int, salt: int = 0) -> Index:
        """A permutation of ``range(count)``: position -> item."""
        items = np.arange(count, dtype=np.intp)
        if self.order == "descending":
            return items[::-1].copy()
        if self.order == "shuffled":
            return np.random.default_rng([self.seed, salt, count]).permutation(items)
        return items

    def threads(self, count: int, block: int) -> tuple[Index, tuple[slice, ...]]:
        """Slot -> linear thread, and the slots of each initial group; warps stay together unless lanes run alone."""
        if self.width == "warp":
            warps = self.arrange((count + 31) // 32, 1 + block)
            parts = [int(w) * 32 + self.arrange(min(32, count - int(w) * 32), 2 + block) for w in warps]
            ends = np.cumsum([len(part) for part in parts])
            groups = tuple(slice(int(e) - len(p), int(e)) for e, p in zip(ends, parts, strict=True))
            return np.concatenate(parts), groups
        order = self.arrange(count, 1 + block)
        if self.width == "thread":
            return order, tuple(slice(i, i + 1) for i in range(count))
        return order, (slice(0, count),)


SCHEDULES: tuple[Schedule, ...] = (
    Schedule("block", "ascending"),
    Schedule("warp", "descending", copies="wait"),
    Schedule("warp", "shuffled", 1),
    Schedule("thread", "descending", copies="wait"),
    Schedule("thread", "shuffled", 2),
)
"""Orders that pull apart what a missing barrier leaves unordered, cheapest first."""
