"""Memory of an execution: disjoint objects far apart in a 64-bit address space.

Addresses are generic: every space lies in one range of it, shared memory below 4 GiB because compilers keep shared
addresses in 32 bits. Between two objects lies more room than any object takes, so an address outside every object is
told apart by the nearest one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SHARED_BASE = 1 << 24
SHARED_GAP = 1 << 22
SHARED_LIMIT = 1 << 31
LOCAL_BASE = 1 << 44
LOCAL_GAP = 1 << 26
CONST_BASE = 1 << 52
GLOBAL_BASE = 1 << 54
GLOBAL_GAP = 1 << 36
CODE_BASE = 1 << 60

MAX_OBJECT = 1 << 28
MAX_LOCAL = 1 << 28

UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


class TooLarge(Exception):
    """An object or stack beyond what is modelled."""


@dataclass(slots=True)
class Region:
    """One object. ``data`` is padded to a multiple of 16 bytes; ``views`` read it as words of 1, 2, 4, 8 bytes.

    ``written`` marks initialised bytes of shared objects. ``recorded`` is false for the compiler's own tables.
    """

    name: str
    space: str
    base: int
    size: int
    data: npt.NDArray[np.uint8]
    recorded: bool = True
    written: npt.NDArray[np.bool_] | None = None
    views: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.views = {size: self.data.view(dtype) for size, dtype in UNSIGNED.items()}


class Memory:
    """All objects of a launch. Shared ones are cleared when a block starts."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.bases = np.zeros(0, np.uint64)
        self.ends = np.zeros(0, np.uint64)
        self._next = {"shared": SHARED_BASE, "const": CONST_BASE, "global": GLOBAL_BASE}

    def add(self, name: str, space: str, size: int, initial: bytes = b"", recorded: bool = True) -> Region:
        """A new object of ``size`` bytes starting with ``initial``, the rest zero. Raises ``TooLarge``."""
        base = self._next[space]
        gap = SHARED_GAP if space == "shared" else GLOBAL_GAP
        if size > MAX_OBJECT or (space == "shared" and (size > SHARED_GAP // 4 or base > SHARED_LIMIT)):
            raise TooLarge(f"{name} of {size} bytes")
        self._next[space] = base + gap
        data = np.zeros((max(size, 1) + 31) // 16 * 16, np.uint8)
        data[: min(len(initial), size)] = np.frombuffer(initial[:size], np.uint8)
        written = np.zeros(len(data), np.bool_) if space == "shared" else None
        region = Region(name, space, base, size, data, recorded, written)
        self.regions.append(region)
        self.regions.sort(key=lambda r: r.base)
        self.bases = np.array([r.base for r in self.regions], np.uint64)
        self.ends = np.array([r.base + r.size for r in self.regions], np.uint64)
        return region

    def clear_shared(self) -> None:
        for region in self.regions:
            if region.written is not None:
                region.data[:] = 0
                region.written[:] = False

    def locate(self, addresses: Array) -> Array:
        """Index into ``regions`` of the object nearest to each address (-1 when there is none at all)."""
        index = np.searchsorted(self.bases, addresses, "right").astype(np.int64) - 1
        if not len(self.regions):
            return index
        above = np.minimum(index + 1, len(self.regions) - 1)
        end = self.ends[np.maximum(index, 0)]
        after = np.where(addresses < end, np.uint64(0), addresses - end)
        after = np.where(index < 0, ~np.uint64(0), after)
        before = self.bases[above] - addresses
        return np.where((above > index) & (before < after), above, index)

    def is_wild(self, region: Region, address: int) -> bool:
        """Whether an address is too far from its nearest object to come from a pointer to it."""
        gap = SHARED_GAP if region.space == "shared" else GLOBAL_GAP
        return not region.base - gap // 2 <= address < region.base + gap


def space_of(address: int) -> str:
    """The state space an address lies in."""
    if address < LOCAL_BASE:
        return "shared" if SHARED_BASE - SHARED_GAP // 2 <= address < 1 << 32 else "none"
    if address < CONST_BASE:
        return "local"
    if address < GLOBAL_BASE:
        return "const"
    return "global"
