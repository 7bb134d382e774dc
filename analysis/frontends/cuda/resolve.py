"""Guarded pointer sets."""

from __future__ import annotations

from prelaunch.analysis.kernel import Kernel


def resolve(kernel: Kernel) -> Kernel:
    return kernel
