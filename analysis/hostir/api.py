"""The CUDA runtime and driver as host code calls them: one row per function, by role.

Source: CUDA Runtime API and Driver API reference, 13.0 (argument orders, what is written through pointers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prelaunch.analysis.launch import LaunchForm


@dataclass(frozen=True, slots=True)
class Allocate:
    """``pointer``: index of the argument the address is stored through, -1 when it is returned; ``sizes`` multiply."""

    pointer: int
    sizes: tuple[int, ...]
    space: Literal["device", "managed", "host"]


ALLOCATIONS: dict[str, Allocate] = {
    "cudaMalloc": Allocate(0, (1,), "device"),
    "cudaMallocAsync": Allocate(0, (1,), "device"),
    "cudaMallocFromPoolAsync": Allocate(0, (1,), "device"),
    "cudaMallocManaged": Allocate(0, (1,), "managed"),
    "cudaMallocHost": Allocate(0, (1,), "host"),
    "cudaHostAlloc": Allocate(0, (1,), "host"),
    "cudaMallocPitch": Allocate(0, (), "device"),
    "cuMemAlloc": Allocate(0, (1,), "device"),
    "cuMemAllocAsync": Allocate(0, (1,), "device"),
    "cuMemAllocManaged": Allocate(0, (1,), "managed"),
    "cuMemAllocHost": Allocate(0, (1,), "host"),
    "cuMemHostAlloc": Allocate(0, (1,), "host"),
    "malloc": Allocate(-1, (0,), "host"),
    "calloc": Allocate(-1, (0, 1), "host"),
    "realloc": Allocate(-1, (1,), "host"),
    "aligned_alloc": Allocate(-1, (1,), "host"),
}


@dataclass(frozen=True, slots=True)
class LaunchCall:
    """Argument indices of a launch function; ``config`` is a pointer to a configuration record instead."""

    form: LaunchForm
    kernel: int
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    smem: int | None = None
    args: int | None = None
    config: int | None = None
    variadic: bool = False
    cooperative: bool = False


LAUNCHES: dict[str, LaunchCall] = {
    "cudaLaunchKernel": LaunchCall("cudaLaunchKernel", 0, (1,), (2,), 4, 3),
    "cudaLaunchCooperativeKernel": LaunchCall("cudaLaunchCooperativeKernel", 0, (1,), (2,), 4, 3, cooperative=True),
    "cudaLaunchKernelEx": LaunchCall("cudaLaunchKernelEx", 1, config=0, variadic=True),
    "cudaLaunchKernelExC": LaunchCall("cudaLaunchKernelEx", 1, args=2, config=0),
    "cuLaunchKernel": LaunchCall("cuLaunchKernel", 0, (1, 2, 3), (4, 5, 6), 7, 9),
    "cuLaunchCooperativeKernel": LaunchCall("cuLaunchKernel", 0, (1, 2, 3), (4, 5, 6), 7, 9, cooperative=True),
    "cuLaunchKernelEx": LaunchCall("cuLaunchKernel", 1, args=2, config=0),
}

CONFIG_FIELDS = {
    "grid": ("gridDim",), "block": ("blockDim",), "smem": ("dynamicSmemBytes", "sharedMemBytes"),
}  # fmt: skip
"""Members of cudaLaunchConfig_t; CUlaunchConfig spells the dims ``gridDimX`` and so on."""

MAX_DYNAMIC_SMEM = frozenset(
    {"cudaFuncAttributeMaxDynamicSharedMemorySize", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"}
)
SET_ATTRIBUTE = frozenset({"cudaFuncSetAttribute", "cuFuncSetAttribute", "cudaFuncSetAttributeEx"})

NO_RETURN = frozenset({"exit", "abort", "_exit", "_Exit", "quick_exit", "terminate", "longjmp", "__builtin_trap"})

LAST_ERROR = frozenset({"cudaGetLastError", "cudaPeekAtLastError"})
"""Calls that return the error of a launch before them, a bad configuration included."""

REPORTS_EARLIER = LAST_ERROR | {
    "cudaDeviceSynchronize", "cudaThreadSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
    "cudaStreamQuery", "cudaEventQuery", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpy2D", "cudaMemcpyFromSymbol",
    "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuMemcpyDtoH", "cuMemcpyDtoHAsync",
}  # fmt: skip
"""Calls whose result may be the error of an earlier launch (Runtime API, "Note that this function may also return
error codes from previous, asynchronous launches")."""


def plain(name: str) -> str:
    """A driver function without its version suffix (``cuMemAlloc_v2``)."""
    return name[:-3] if name.startswith("cu") and name[-3:] in ("_v2", "_v3") else name
