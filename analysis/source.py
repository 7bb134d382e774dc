"""Text of one file and places in it.

Guarantees: offsets are byte offsets into the bytes on disk; lines and columns are 1-based, columns count
bytes; line ends are ``\\n``, ``\\r\\n`` or ``\\r``. Nothing here decodes more than a single line.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open byte range ``[start, end)`` of ``file``, as written in the repository.

    ``file`` is relative to the repository root, with ``/``. ``spelling`` is set when the text comes from a macro:
    the span itself is then the use, ``spelling`` the place where the text is written. ``inlined_at`` is set on
    nodes of an inlined device function: the call site, which may itself be inlined.
    """

    file: str
    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int
    spelling: Span | None = None
    inlined_at: Span | None = None

    def call_path(self) -> tuple[Span, ...]:
        """Call sites this node was inlined through, innermost first; empty for text of the kernel itself."""
        path: list[Span] = []
        site = self.inlined_at
        while site is not None:
            path.append(site)
            site = site.inlined_at
        return tuple(path)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Span("", 0, 0, 0, 0, 0, 0)
"""Span of nodes that no text stands for (synthesised in tests)."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its repository-relative path and its bytes, exactly as on disk."""

    path: str
    data: bytes
    _starts: list[int] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self._starts:
            self._starts.extend(_line_starts(self.data))

    @classmethod
    def read(cls, root: Path, path: Path) -> Source:
        """Read ``path`` (absolute, or relative to ``root``). Raises OSError."""
        absolute = path if path.is_absolute() else root / path
        try:
            name = absolute.relative_to(root).as_posix()
        except ValueError:
            name = absolute.as_posix()
        return cls(name, absolute.read_bytes())

    def position(self, offset: int) -> tuple[int, int]:
        """1-based (line, byte column) of a byte offset."""
        index = bisect.bisect_right(self._starts, offset) - 1
        return index + 1, offset - self._starts[index] + 1

    def span(self, start: int, end: int, inlined_at: Span | None = None) -> Span:
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        return Span(self.path, start, end, line, column, end_line, end_column, None, inlined_at)

    def text(self, span: Span) -> str:
        return self.data[span.start : span.end].decode("utf-8", "replace")

    def line(self, number: int) -> str:
        """Text of a 1-based line without its line end; empty when there is no such line."""
        start, end = self.line_range(number)
        return self.data[start:end].decode("utf-8", "replace")

    def line_range(self, number: int) -> tuple[int, int]:
        """Offsets ``[start, end)`` of a 1-based line without its line end; (0, 0) when there is no such line."""
        if not 1 <= number <= len(self._starts):
            return 0, 0
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.data)
        while end > start and self.data[end - 1] in b"\r\n":
            end -= 1
        return start, end

    @property
    def line_count(self) -> int:
        return len(self._starts)


def _line_starts(data: bytes) -> Iterator[int]:
    yield 0
    position = 0
    size = len(data)
    while position < size:
        newline = data.find(b"\n", position)
        carriage = data.find(b"\r", position, newline if newline >= 0 else size)
        if carriage >= 0 and carriage + 1 != newline:
            position = carriage + 1
        elif newline >= 0:
            position = newline + 1
        else:
            return
        yield position
