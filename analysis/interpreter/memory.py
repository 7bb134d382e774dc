"""Memory of a launch: one byte buffer per object, each in an address window of its own.

Addresses are integers, so pointers survive memory, unions and casts. Object ``i`` of the kernel owns the window
``[(i + 1) << 36, (i + 2) << 36)`` and starts in its middle: an address says which object it was made from, and every
overrun of less than 32 GiB, either way, is told as an overrun of that object. Objects start at multiples of 16 or more,
whatever their declared alignment. Local objects repeat per thread, ``stride`` bytes apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import Scalar, Type

WINDOW = 36
NULL_ZONE = 1 << 16
"""Addresses below this are null pointers (with an offset)."""


def base_of(index: int) -> int:
    """Address of byte 0 of the kernel's object ``index``."""
    return ((index + 1) << WINDOW) + (1 << (WINDOW - 1))


@dataclass(slots=True)
class Region:
    """One object's bytes. ``size`` is what may be accessed (per thread when ``stride`` is not 0); ``data`` is padded.

    ``valid`` has one byte per byte of ``data``, 1 where written, or is None where that is not tracked.
    """

    index: int
    id: str
    name: str
    space: str
    size: int
    data: npt.NDArray[np.uint8]
    stride: int = 0
    valid: npt.NDArray[np.uint8] | None = None
    base: Any = field(init=False)
    recorded: bool = field(init=False)
    _views: dict[np.dtype[Any], Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.base = np.uint64(base_of(self.index))
        self.recorded = self.space != "local"

    def view(self, kind: np.dtype[Any]) -> Any:
        found = self._views.get(kind)
        if found is None:
            found = self._views[kind] = self.data.view(kind)
        return found

    def valid_view(self, size: int) -> Any:
        assert self.valid is not None
        return self.valid.view(f"u{size}")


def padded(size: int) -> int:
    return -(-size // 16) * 16 + 16


def make_region(
    index: int, id: str, name: str, space: str, size: int, init: bytes | None, threads: int = 0, tracked: bool = False
) -> Region:
    """A zeroed region, its start filled with ``init``; ``threads`` copies of it when that is not 0."""
    stride = padded(size) if threads else 0
    data = np.zeros(stride * threads if threads else padded(size), np.uint8)
    if init:
        content = np.frombuffer(init[:size], np.uint8)
        for start in range(0, len(data), stride) if threads else (0,):
            data[start : start + len(content)] = content
    valid = np.zeros(len(data), np.uint8) if tracked else None
    return Region(index, id, name, space, size, data, stride, valid)


# --- elements in memory --------------------------------------------------------------------------------------------


def stored_dtype(type: Type) -> np.dtype[Any]:
    """How an element of this type lies in memory."""
    if isinstance(type, Scalar) and type.kind == "bool":
        return np.dtype(np.uint8)
    if isinstance(type, Scalar) and type.kind == "bfloat":
        return np.dtype(np.uint16)
    return dtype(type)


def decode(type: Type, raw: Any) -> Any:
    """Memory elements to register values."""
    if isinstance(type, Scalar) and type.kind == "bool":
        return raw != 0
    if isinstance(type, Scalar) and type.kind == "bfloat":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw


def encode(type: Type, value: Any) -> Any:
    """Register values to memory elements."""
    if isinstance(type, Scalar) and type.kind == "bfloat":
        return (np.asarray(value, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.asarray(value).astype(stored_dtype(type), copy=False)


def gather(region: Region, offsets: Any, kind: np.dtype[Any], aligned: bool) -> Any:
    """Elements at byte offsets that are known to lie inside."""
    size = kind.itemsize
    if aligned:
        return region.view(kind)[offsets >> _SHIFT[size]]
    raw = region.data[np.asarray(offsets)[:, None] + np.arange(size)]
    return np.ascontiguousarray(raw).view(kind)[:, 0]


def scatter(region: Region, offsets: Any, values: Any, kind: np.dtype[Any], aligned: bool) -> None:
    """Store elements in lane order: of two to one place, the later lane's stays."""
    size = kind.itemsize
    if aligned:
        region.view(kind)[offsets >> _SHIFT[size]] = values
        if region.valid is not None:
            region.valid_view(size)[offsets >> _SHIFT[size]] = _FULL[size]
        return
    raw = np.broadcast_to(np.asarray(values, kind), np.shape(offsets)).copy().view(np.uint8).reshape(-1, size)
    for i in range(size):
        region.data[offsets + i] = raw[:, i]
    if region.valid is not None:
        region.valid[np.asarray(offsets)[:, None] + np.arange(size)] = 1


def all_written(region: Region, offsets: Any, size: int) -> Any:
    """For each offset, whether all of ``size`` bytes were written before."""
    assert region.valid is not None
    return region.valid[np.asarray(offsets)[:, None] + np.arange(size)].all(axis=1)


_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}
_FULL = {1: np.uint8(1), 2: np.uint16(0x0101), 4: np.uint32(0x01010101), 8: np.uint64(0x0101010101010101)}
