"""Lexical facts of C++ text that need no parser: what is comment or literal, and where directives stand.

Everything works on bytes and keeps offsets; nothing here can fail on any input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Comments end at an unspliced line end; an unterminated literal ends at its line, an unterminated comment at the file.
_SKIP = re.compile(
    rb"""//(?:[^\\\r\n]|\\(?:\r\n|.)|\\$)*"""
    rb"""|/\*(?:.*?\*/|.*\Z)"""
    rb"""|(?<![\w])(?:u8|[uUL])?R"([^()\\\s"]{0,16})\((?:.*?\)\1"|.*\Z)"""
    rb"""|"(?:[^"\\\r\n]|\\(?:\r\n|.|\Z))*(?:"|(?=[\r\n])|\Z)"""
    rb"""|(?<![0-9a-fA-F])'(?:[^'\\\r\n]|\\(?:\r\n|.|\Z))*(?:'|(?=[\r\n])|\Z)""",
    re.DOTALL,
)
_BLANK = bytes(c if c in b"\r\n" else 32 for c in range(256))
_DIRECTIVE = re.compile(rb"^[ \t\f\v]*#[ \t]*([A-Za-z_]\w*)?", re.MULTILINE)
_LINE_END = re.compile(rb"\r\n?|\n")


def blank(text: bytes) -> bytes:
    """As many blanks, line ends kept."""
    return text.translate(_BLANK)


def mask(data: bytes, literals: bool = True) -> bytes:
    """``data`` with comments (and the inside of string and character literals) blanked; same length, same lines."""

    def cover(match: re.Match[bytes]) -> bytes:
        text = match.group()
        if text[:1] == b"/":
            return blank(text)
        if not literals or len(text) < 2:
            return text
        return text[:1] + blank(text[1:-1]) + text[-1:]

    return _SKIP.sub(cover, data)


@dataclass(frozen=True, slots=True)
class Directive:
    """A preprocessor line: ``[start, end)`` from its ``#`` to before its line end, splices included.

    ``argument`` is the offset of the first byte after the name.
    """

    name: str
    start: int
    argument: int
    end: int


def directives(masked: bytes) -> Iterator[Directive]:
    """Directives of comment-masked text in order. Lone carriage returns count as line ends."""
    position = 0
    text = masked if b"\r" not in masked else re.sub(rb"\r(?!\n)", b"\n", masked)
    while match := _DIRECTIVE.search(text, position):
        name = (match.group(1) or b"").decode("ascii", "replace")
        end = _logical_end(text, match.end())
        start = text.index(b"#", match.start())
        yield Directive(name, start, match.end(), end)
        position = max(end, match.end())


def _logical_end(text: bytes, position: int) -> int:
    while True:
        match = _LINE_END.search(text, position)
        if match is None:
            return len(text)
        if not text[position : match.start()].endswith(b"\\"):
            return match.start()
        position = match.end()
