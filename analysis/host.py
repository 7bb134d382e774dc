"""Host functions and the launches in them: the door to ``hostir``."""

from __future__ import annotations

from prelaunch.analysis.hostir.launches import find_launches, resolve_kernel
from prelaunch.analysis.hostir.lower import lower_function

__all__ = ["find_launches", "lower_function", "resolve_kernel"]
