"""What devices can do, per compute capability: data with its sources in ``capabilities.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DEFAULT_TARGETS = ("8.0", "9.0")
"""Assumed where the build names no architecture."""


@dataclass(frozen=True, slots=True)
class Capability:
    """Launch limits of one compute capability. Dims are (x, y, z); shared memory in bytes, static plus dynamic.

    ``shared_per_block`` holds without opt-in, ``shared_per_block_optin`` after raising
    ``cudaFuncAttributeMaxDynamicSharedMemorySize``.
    """

    name: str
    warp_size: int
    max_threads_per_block: int
    max_block_dim: tuple[int, int, int]
    max_grid_dim: tuple[int, int, int]
    shared_per_block: int
    shared_per_block_optin: int

    @property
    def target(self) -> str:
        """``sm_90``."""
        return "sm_" + self.name.replace(".", "")


@cache
def capabilities() -> tuple[Capability, ...]:
    """All capabilities in the table, oldest first."""
    table = tomllib.loads((files(__name__) / "capabilities.toml").read_text("utf-8"))
    common = table["common"]
    block, grid = tuple(common["max_block_dim"]), tuple(common["max_grid_dim"])
    found = [
        Capability(
            name,
            common["warp_size"],
            common["max_threads_per_block"],
            (block[0], block[1], block[2]),
            (grid[0], grid[1], grid[2]),
            common["shared_per_block"],
            optin,
        )
        for name, optin in table["shared_per_block_optin"].items()
    ]
    return tuple(sorted(found, key=lambda c: tuple(int(part) for part in c.name.split("."))))


def capability(name: str) -> Capability:
    """The capability called ``9.0`` or ``sm_90`` (a suffix as in ``sm_90a`` is ignored). KeyError names known ones."""
    plain = name.removeprefix("sm_").rstrip("af")
    if "." not in plain and len(plain) > 1:
        plain = f"{plain[:-1]}.{plain[-1]}"
    for item in capabilities():
        if item.name == plain:
            return item
    raise KeyError(f"no compute capability {name}; known are {', '.join(c.name for c in capabilities())}")


__all__ = ["DEFAULT_TARGETS", "Capability", "capabilities", "capability"]
