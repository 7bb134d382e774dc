"""Special registers (PTX ISA, chapter 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prelaunch.analysis.ptx.values import Array, Unsupported

if TYPE_CHECKING:
    from prelaunch.analysis.ptx.machine import Machine


def special_register(m: Machine, name: str) -> Array:
    """The register of all lanes, or one value for all. Raises ``Unsupported``."""
    head, _, axis = name.partition(".")
    lane = (m.lane_ids % 32).astype(np.uint64)
    one = np.uint64(1)
    if head.startswith("%reserved_smem_offset"):
        return np.asarray(np.uint32(m.reserved_shared()))
    if axis in ("x", "y", "z"):
        which = "xyz".index(axis)
        bx, by, _ = m.config.block
        if head == "%tid":
            strides = (1, bx, bx * by)
            return (m.lane_ids // strides[which] % m.config.block[which]).astype(np.uint32)
        table = {"%ntid": m.config.block, "%ctaid": m.block, "%nctaid": m.config.grid}
        if head in table:
            return np.asarray(np.uint32(table[head][which]))
        raise Unsupported(f"special register {name}")
    match head:
        case "%laneid":
            return lane.astype(np.uint32)
        case "%warpid":
            return (m.lane_ids // 32).astype(np.uint32)
        case "%nwarpid":
            return np.asarray(np.uint32(m.warps))
        case "%smid" | "%gridid":
            return np.asarray(np.uint32(0))
        case "%nsmid":
            return np.asarray(np.uint32(1))
        case "%clock" | "%clock64" | "%clock_hi" | "%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi":
            return np.asarray(np.uint64(0 if head.endswith("hi") else m.turn))
        case "%lanemask_eq":
            return (one << lane).astype(np.uint32)
        case "%lanemask_lt":
            return ((one << lane) - one).astype(np.uint32)
        case "%lanemask_le":
            return ((one << (lane + one)) - one).astype(np.uint32)
        case "%lanemask_gt":
            return (~((one << (lane + one)) - one)).astype(np.uint32)
        case "%lanemask_ge":
            return (~((one << lane) - one)).astype(np.uint32)
        case "%dynamic_smem_size":
            return np.asarray(np.uint32(m.config.dynamic_smem))
        case "%total_smem_size":
            static = sum(r.size for r in m.memory.regions if r.space == "shared")
            return np.asarray(np.uint32(static))
    raise Unsupported(f"special register {name}")
