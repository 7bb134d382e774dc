"""Launches as found in host code: expressions where numbers are known, symbols where they are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prelaunch.analysis.kernel import Const, Expr
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Dim3, LaunchConfig

LaunchForm = Literal[
    "<<<>>>", "cudaLaunchKernel", "cudaLaunchKernelEx", "cudaLaunchCooperativeKernel", "cuLaunchKernel"
]

UNREACHED = "no execution found in the code reaches this launch"
"""Note of a launch in a branch that constants of the code rule out, or behind a return or an exit."""
COMBINED = "its numbers combine branches that the code may not take together"
"""Note of a launch whose numbers rest on several independent conditions, each of which can go either way."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact about a launch argument that host code states.

    "extent": argument ``argument`` (index of the formal) points to ``value`` bytes (cudaMalloc, array, tensor);
    "equal"/"multiple"/"at-most"/"at-least": the integer argument against ``value``; "overlaps": arguments ``argument``
    and ``other`` may share memory (same variable, or offsets from one allocation).
    """

    kind: Literal["extent", "equal", "multiple", "at-most", "at-least", "overlaps"]
    argument: int
    value: Expr | None = None
    other: int | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of ``kernel`` on one path of callers.

    ``grid``/``block`` are (x, y, z) expressions (Const when known); ``dims_span`` the places that decide them (the
    ``dim3`` declaration, the launch). ``args`` line up with the kernel's formals, None when not understood.
    ``attributes``: facts set before it, such as ("max_dynamic_smem", expr). ``via`` are the host call sites that lead
    from a caller with known values to the launching function, outermost first. ``checked``: an error query follows.
    """

    kernel: str
    template_args: tuple[str, ...]
    form: LaunchForm
    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    dynamic_smem: Expr
    args: tuple[Expr | None, ...]
    span: Span
    function: str = ""
    dims_span: tuple[Span, ...] = ()
    attributes: tuple[tuple[str, Expr], ...] = ()
    relations: tuple[Relation, ...] = ()
    via: tuple[Span, ...] = ()
    checked: bool = True
    cooperative: bool = False
    notes: tuple[str, ...] = ()
    grid_spans: tuple[Span, ...] = ()  # declarations of the variables in the grid, of those in the block
    block_spans: tuple[Span, ...] = ()

    def config(self) -> LaunchConfig | None:
        """The launch in numbers, when grid, block and shared memory are all known."""
        grid, block = _numbers(self.grid), _numbers(self.block)
        if grid is None or block is None or not isinstance(self.dynamic_smem, Const):
            return None
        return LaunchConfig(grid, block, int(self.dynamic_smem.value), cooperative=self.cooperative)

    def known_block(self) -> Dim3 | None:
        return _numbers(self.block)

    def known_grid(self) -> Dim3 | None:
        return _numbers(self.grid)


def _numbers(dims: tuple[Expr, Expr, Expr]) -> Dim3 | None:
    x, y, z = dims
    if isinstance(x, Const) and isinstance(y, Const) and isinstance(z, Const):
        return int(x.value), int(y.value), int(z.value)
    return None
