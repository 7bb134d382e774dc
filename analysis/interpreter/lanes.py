"""Sets of lanes of one block, as indices of the register arrays ("slots").

A set is a slice when contiguous (register reads are then views) and a sorted index array otherwise; it is never empty:
functions that may find nothing return None.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.intp]
Lanes = slice | Index

_RANGE: Index = np.arange(4096, dtype=np.intp)
_RANGE.setflags(write=False)


def count(lanes: Lanes) -> int:
    return int(lanes.stop - lanes.start) if isinstance(lanes, slice) else len(lanes)


def index(lanes: Lanes) -> Index:
    """The slots as an index array (read-only when it stands for a slice)."""
    if not isinstance(lanes, slice):
        return lanes
    return _RANGE[lanes] if lanes.stop <= len(_RANGE) else np.arange(lanes.start, lanes.stop, dtype=np.intp)


def narrow(slots: Index) -> Lanes | None:
    """The set of some sorted slots, in its cheapest form."""
    size = len(slots)
    if size == 0:
        return None
    first, last = int(slots[0]), int(slots[-1])
    return slice(first, last + 1) if last - first + 1 == size else slots


def split(lanes: Lanes, mask: Any) -> tuple[Lanes | None, Lanes | None]:
    """Lanes where a condition (array over the lanes, or one value for all) is not 0, and where it is."""
    if np.ndim(mask) == 0:
        return (lanes, None) if mask else (None, lanes)
    if mask.dtype != np.bool_:
        mask = mask != 0
    true = np.count_nonzero(mask)
    if true == len(mask):
        return lanes, None
    if true == 0:
        return None, lanes
    slots = index(lanes)
    return narrow(slots[mask]), narrow(slots[~mask])


def union(parts: Iterable[Lanes | None]) -> Lanes | None:
    """The union of disjoint sets."""
    some = [part for part in parts if part is not None]
    if len(some) <= 1:
        return some[0] if some else None
    return narrow(np.sort(np.concatenate([index(part) for part in some])))
