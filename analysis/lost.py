"""Kernels the parser did not find: text says ``__global__`` where no function was recognised.

A file that is damaged, truncated or nested beyond every cap may lose whole functions; what is lost must be told.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable

from prelaunch.analysis.frontends.cuda.text.declarations import Project
from prelaunch.analysis.frontends.cuda.text.lexing import directives, mask

_GLOBAL = re.compile(rb"\b__global__\b")


def lost_kernels(project: Project, reviewed: Callable[[str], bool]) -> list[tuple[str, int]]:
    """(file, line) of each ``__global__`` outside comments, literals, directives and every function found."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for group in project.functions.values():
        for function in group:
            if function.is_kernel:
                node = function.node
                ranges.setdefault(function.file.source.path, []).append((node.start_byte, node.end_byte))
    found: list[tuple[str, int]] = []
    for path, file in project.files.items():
        if not reviewed(path) or b"__global__" not in file.source.data:
            continue
        masked = mask(file.source.data)
        covered = sorted([*ranges.get(path, []), *((d.start, d.end) for d in directives(masked))])
        starts = [start for start, _ in covered]
        for match in _GLOBAL.finditer(masked):
            index = bisect.bisect_right(starts, match.start()) - 1
            if index < 0 or match.start() >= covered[index][1]:
                found.append((path, file.source.position(match.start())[0]))
    return found
