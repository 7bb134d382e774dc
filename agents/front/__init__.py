"""Prelaunch: review of GPU code before it runs.

``prelaunch.review(paths)`` is the command's work as a function; everything else is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prelaunch.analysis.finding import Finding
    from prelaunch.analysis.review import Options, Review, review

__version__ = "0.1.0"
__all__ = ["Finding", "Options", "Review", "__version__", "review"]

_HOMES = {
    "Finding": "prelaunch.analysis.finding",
    "Options": "prelaunch.analysis.review",
    "Review": "prelaunch.analysis.review",
    "review": "prelaunch.analysis.review",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'prelaunch' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
