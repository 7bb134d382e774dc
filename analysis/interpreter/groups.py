"""Groups of lanes, their continuations, and copies they have postponed; values a thread reads of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prelaunch.analysis.interpreter.lanes import Index, Lanes
from prelaunch.analysis.source import NOWHERE, Span
from prelaunch.analysis.trace import LaunchConfig

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.access import Move
    from prelaunch.analysis.interpreter.program import Code


@dataclass(slots=True, eq=False)
class Frame:
    """What to do next, then ``next``. kind "sequence": ``items`` from ``position`` on; "loop": ``position`` is the
    stage (0 test, 1 condition, 2 step); "leave": the end of a call or labelled block; "join": the end of a branch."""

    kind: str
    code: Code | None
    items: tuple[Code, ...]
    position: int
    next: Frame | None
    after: Frame | None = None  # the frame behind the item at ``position``, once ``stepped``
    stepped: bool = False


@dataclass(slots=True, eq=False)
class Group:
    lanes: Lanes
    frame: Frame | None
    family: int
    spun: int = 0
    spins_at: Span = NOWHERE
    alive: bool = True

    @property
    def first(self) -> int:
        lanes = self.lanes
        return int(lanes.start) if isinstance(lanes, slice) else int(lanes[0])


@dataclass(slots=True)
class Postponed:
    """A copy whose bytes have not moved: commit group of each lane, and which lanes are still to do."""

    move: Move
    slots: Index
    group: Any
    waiting: Any


def special_value(name: str, config: LaunchConfig, block: int, thread: Index) -> Any:
    """Value of a ``Special`` in each slot, or one for the block. Raises KeyError for a name that is none."""
    x, y, _ = config.block
    gx, gy, _ = config.grid
    cx, cy, cz = config.cluster
    at = (block % gx, block // gx % gy, block // (gx * gy))
    inside = (at[0] % cx, at[1] % cy, at[2] % cz)
    values: dict[str, Any] = {
        "threadIdx.x": thread % x, "threadIdx.y": thread // x % y, "threadIdx.z": thread // (x * y),
        "laneid": thread % 32, "warpid": thread // 32, "smid": 0, "dynamic_smem_size": config.dynamic_smem,
        "cluster_ctarank": inside[0] + cx * (inside[1] + cy * inside[2]),
    }  # fmt: skip
    for i, axis in enumerate("xyz"):
        values[f"blockIdx.{axis}"], values[f"blockDim.{axis}"] = at[i], config.block[i]
        values[f"gridDim.{axis}"], values[f"clusterDim.{axis}"] = config.grid[i], config.cluster[i]
        values[f"clusterIdx.{axis}"] = at[i] // config.cluster[i]
        values[f"clusterBlockIdx.{axis}"] = inside[i]
    return values[name]
