"""Directives of one file as declarations: includes, macro definitions; and where an include leads inside a repository.

Resolution never leaves the root: a target that, with symlinks resolved, lies outside is not found.
"""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from prelaunch.analysis.frontends.cuda.text.declarations import Macro
from prelaunch.analysis.frontends.cuda.text.lexing import Directive, directives, mask
from prelaunch.analysis.source import Source

_INCLUDE = re.compile(rb'[ \t]*(?:"([^"\r\n]+)"|<([^>\r\n]+)>)')
_DEFINE = re.compile(rb"[ \t]*([A-Za-z_]\w*)(\(([^)]*)\))?")
_SPLICE = re.compile(rb"\\\r?\n|\\\r")
_COMMON = ("include", "inc", "common", "Common", "common/inc", "src")


def scan_includes(source: Source, found: Iterable[Directive]) -> tuple[tuple[str, bool, int], ...]:
    """``(spelling, is <system>, offset)`` of each include with a literal target."""
    result = []
    for directive in found:
        if directive.name in ("include", "include_next", "import"):
            match = _INCLUDE.match(source.data, directive.argument)
            if match:
                spelling = (match.group(1) or match.group(2)).decode("utf-8", "replace")
                result.append((spelling, match.group(1) is None, directive.start))
    return tuple(result)


def scan_macros(source: Source, found: Iterable[Directive], conditional: Sequence[tuple[int, int]] = ()) -> list[Macro]:
    """``#define`` lines in order; those inside a ``conditional`` range are marked so."""
    spans = merge(conditional)
    starts = [start for start, _ in spans]
    result: list[Macro] = []
    for directive in found:
        if directive.name == "define":
            at = bisect.bisect_right(starts, directive.start) - 1
            macro = _macro(source, directive, at >= 0 and directive.start < spans[at][1])
            if macro is not None:
                result.append(macro)
    return result


def merge(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint ranges in order that cover the same offsets."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _macro(source: Source, directive: Directive, conditional: bool) -> Macro | None:
    line = mask(source.data[directive.argument : directive.end], literals=False)
    match = _DEFINE.match(line)
    if match is None:
        return None
    params: tuple[str, ...] | None = None
    if match.group(2) is not None:
        text = _SPLICE.sub(b"", match.group(3)).decode("utf-8", "replace")
        params = tuple(p.strip() for p in text.split(",")) if text.strip() else ()
    raw = line[match.end() :]
    start = match.end() + len(raw) - len(raw.lstrip())
    end = max(start, match.end() + len(raw.rstrip()))
    body = _SPLICE.sub(b"", line[start:end]).decode("utf-8", "replace").strip()
    span = source.span(directive.argument + start, directive.argument + end)
    return Macro(match.group(1).decode(), params, body, span, conditional)


def all_directives(data: bytes) -> tuple[bytes, list[Directive]]:
    """``data`` with comments blanked, and its directives."""
    masked = mask(data, literals=False)
    return masked, list(directives(mask(data)))


class Resolver:
    """Finds include targets among the files of the project (``real`` maps repository path to canonical path)."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._known: dict[tuple[str, bool, str], str | None] = {}
        self._paths = set(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_name.setdefault(posixpath.basename(path), []).append(path)

    def resolve(self, spelling: str, system: bool, origin: str) -> str | None:
        """The file meant by ``spelling`` in ``origin``: own folder, include roots above, then a unique suffix."""
        key = (spelling, system, posixpath.dirname(origin))
        if key not in self._known:
            self._known[key] = self._search(*key)
        return self._known[key]

    def _search(self, spelling: str, system: bool, folder: str) -> str | None:
        if spelling.startswith("/") or "\0" in spelling:
            return None
        candidates = [] if system else [posixpath.join(folder, spelling)]
        base = folder
        while True:
            candidates += [posixpath.join(base, spelling)]
            candidates += [posixpath.join(base, common, spelling) for common in _COMMON]
            if not base:
                break
            base = posixpath.dirname(base)
        for candidate in candidates:
            path = posixpath.normpath(candidate)
            if path in self._paths:
                return path
        tail = posixpath.normpath(spelling)
        while tail.startswith("../"):
            tail = tail[3:]
        near = [p for p in self._by_name.get(posixpath.basename(tail), ()) if p == tail or p.endswith("/" + tail)]
        return near[0] if len(near) == 1 else None


def reach(direct: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Every file reachable from each file, nearest first (breadth first); cycles are harmless."""
    result = {}
    for path in direct:
        order = dict.fromkeys(direct[path])
        queue = list(order)
        for item in queue:
            for following in direct.get(item, ()):
                if following not in order:
                    order[following] = None
                    queue.append(following)
        order.pop(path, None)
        result[path] = tuple(order)
    return result
