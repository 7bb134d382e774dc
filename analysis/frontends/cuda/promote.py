"""Local objects to variables."""

from __future__ import annotations

from prelaunch.analysis.kernel import Kernel


def promote(kernel: Kernel) -> Kernel:
    return kernel
