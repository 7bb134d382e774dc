"""Rewriting of a file's bytes before parsing. Every rewrite keeps the length and every line end.

Postconditions of ``rewrite``: specifier macros, attributes and alignment specifiers outside directives are blanked and
listed; ``and``/``or``/``not`` in conditions are written as operators; bytes that are no text (NUL, invalid UTF-8) are
blanks. Nothing here loses meaning: what was blanked stands in ``Rewritten.blanked``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from prelaunch.analysis.frontends.cuda.aliases import Aliases
from prelaunch.analysis.frontends.cuda.lexing import blank
from prelaunch.analysis.frontends.cuda.scan import Scan

_ATTRIBUTE = re.compile(
    rb"(?<!\w)(?:__(?:launch_bounds|cluster_dims|block_size|maxnreg|align|attribute)__|__attribute|__declspec|alignas)"
    rb"(?=\s*\()|(?<!\w)__(?:grid_constant|nv_pure|extension)__(?!\w)"
)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_OPERATOR = re.compile(rb"(?<!\w)(?:and|or|not)(?!\w)")
_SPELLED = {b"and": b"&& ", b"or": b"||", b"not": b"!  "}
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_STRAY = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


@dataclass(slots=True)
class Rewritten:
    """``code`` is what will be parsed; ``view`` the same with comments, literals' insides and directives blanked."""

    code: bytearray
    view: bytearray
    blanked: list[tuple[int, int]] = field(default_factory=list)

    def blank(self, start: int, end: int, record: bool = True) -> None:
        self.code[start:end] = blank(bytes(self.code[start:end]))
        self.view[start:end] = blank(bytes(self.view[start:end]))
        if record:
            self.blanked.append((start, end))

    def put(self, start: int, text: bytes) -> None:
        """Overwrites ``len(text)`` bytes; none of them may be a line end."""
        self.code[start : start + len(text)] = text
        self.view[start : start + len(text)] = text

    def copy(self) -> Rewritten:
        return Rewritten(bytearray(self.code), bytearray(self.view), list(self.blanked))


def rewrite(scan: Scan, aliases: Aliases) -> Rewritten:
    result = Rewritten(bytearray(_clean(scan.source.data)), bytearray(scan.code_view()))
    for directive in scan.directives:
        if directive.name in ("if", "elif"):
            line = bytes(scan.masked[directive.argument : directive.end])
            for match in _OPERATOR.finditer(line):
                at = directive.argument + match.start()
                result.code[at : at + len(match.group())] = _SPELLED[match.group()]
    view = bytes(result.view)
    for start, end, restrict in sorted((*_attributes(view), *_uses(view, aliases, scan.source.path))):
        if restrict and end - start >= 8:
            result.put(start, b"restrict".ljust(end - start))
        else:
            result.blank(start, end)
    return result


def _clean(data: bytes) -> bytes:
    if b"\r" in data:
        data = _LONE_RETURN.sub(b"\n", data)
    data = _STRAY.sub(b" ", data)
    if data.startswith(b"\xef\xbb\xbf"):
        data = b"   " + data[3:]
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        data = _NOT_ASCII.sub(b" ", data)
    return data


def _attributes(view: bytes) -> Iterator[tuple[int, int, bool]]:
    for match in _ATTRIBUTE.finditer(view):
        end = close(view, match.end())
        if end is not None:
            yield match.start(), end, False


def _uses(view: bytes, aliases: Aliases, file: str) -> Iterator[tuple[int, int, bool]]:
    """Uses of specifier macros: (start, end, is it restrict)."""
    present = {w for w in set(_WORD.findall(view)) if w.decode() in aliases.names}
    uses = {word: use for word in sorted(present) if (use := aliases.use(word.decode(), file)) is not None}
    rewritten = [word for word, use in uses.items() if use[0] != "type"]
    if not rewritten:
        return
    for match in re.finditer(rb"(?<!\w)(?:%s)(?!\w)" % b"|".join(rewritten), view):
        kind, called = uses[match.group()]
        end = close(view, match.end()) if called else match.end()
        if end is not None:
            yield match.start(), end, kind == "restrict"


def close(view: bytes | bytearray, position: int, limit: int = 20_000) -> int | None:
    """Offset after the parenthesis group that opens after blanks at ``position`` (``position`` when there is none).

    None when it does not close within ``limit`` bytes.
    """
    at = position
    size = min(len(view), position + limit)
    while at < size and view[at : at + 1].isspace():
        at += 1
    if view[at : at + 1] != b"(":
        return position
    depth = 0
    for match in _PAREN.finditer(view, at, size):
        depth += 1 if match.group() == b"(" else -1
        if depth == 0:
            return match.end()
    return None


_PAREN = re.compile(rb"[()]")


def spans_overlap(spans: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    return any(a < end and start < b for a, b in spans)
