"""Rewriting of a file's bytes before parsing. Every rewrite keeps the length and every line end.

Postconditions of ``rewrite``: specifier macros and attributes outside directives are blanked and listed, alignment is
spelled ``alignas``; ``and``/``or``/``not`` in conditions are written as operators; bytes that are no text (NUL, invalid
UTF-8) are blanks. What was blanked stands in ``Rewritten.blanked``; what that loses for good in ``Rewritten.lost``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from prelaunch.analysis.frontends.cuda.text.aliases import Aliases
from prelaunch.analysis.frontends.cuda.text.lexing import blank
from prelaunch.analysis.frontends.cuda.text.scan import Scan

_ATTRIBUTE = re.compile(
    rb"(?<!\w)(?:__(?:launch_bounds|cluster_dims|block_size|maxnreg|align|attribute)__|__attribute|__declspec|alignas)"
    rb"(?=\s*\()|(?<!\w)__(?:grid_constant|nv_pure|extension)__(?!\w)"
)
_ALIGNED = re.compile(
    rb"(?:__align__|__attribute(?:__)?\s*\(\s*\(\s*(?:__)?aligned(?:__)?|__declspec\s*\(\s*align)\s*(\([^()]{0,200}(?:\([^()]{0,200}\)[^()]{0,200}){0,4}\))[\s)]*"
)
_NEXT = re.compile(rb"\S")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_OPERATOR = re.compile(rb"(?<!\w)(?:and|or|not)(?!\w)")
_SPELLED = {b"and": b"&& ", b"or": b"||", b"not": b"!  "}
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_STRAY = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


@dataclass(slots=True)
class Rewritten:
    """``code`` is what will be parsed; ``view`` the same with comments, literals' insides and directives blanked.

    ``lost``: blanked text whose meaning no reader of the tree or of ``blanked`` can recover, with the reason.
    """

    code: bytearray
    view: bytearray
    blanked: list[tuple[int, int]] = field(default_factory=list)
    lost: list[tuple[int, int, str]] = field(default_factory=list)

    def blank(self, start: int, end: int, record: bool = True) -> None:
        self.code[start:end] = blank(bytes(self.code[start:end]))
        self.view[start:end] = blank(bytes(self.view[start:end]))
        if record:
            self.blanked.append((start, end))

    def put(self, start: int, text: bytes) -> None:
        """Overwrites ``len(text)`` bytes; none of them may be a line end."""
        self.code[start : start + len(text)] = text
        self.view[start : start + len(text)] = text

    def fit(self, start: int, end: int, word: bytes) -> bool:
        """Writes ``word`` over ``[start, end)`` and, if need be, the blanks before it; False when it is too long."""
        room = end - start
        while room < len(word) and start > 1 and self.view[start - 2] in b" \t\n" and self.code[start - 1] in b" \t":
            start -= 1
            room += 1
        if room < len(word) or b"\n" in self.code[start:end]:
            return False
        self.put(start, word.ljust(end - start))
        return True

    def copy(self) -> Rewritten:
        return Rewritten(bytearray(self.code), bytearray(self.view), list(self.blanked), list(self.lost))


def rewrite(scan: Scan, aliases: Aliases) -> Rewritten:
    result = Rewritten(bytearray(_clean(scan.source.data)), bytearray(scan.code_view()))
    for directive in scan.directives:
        if directive.name in ("if", "elif"):
            line = bytes(scan.masked[directive.argument : directive.end])
            for match in _OPERATOR.finditer(line):
                at = directive.argument + match.start()
                result.code[at : at + len(match.group())] = _SPELLED[match.group()]
    view = bytes(result.view)
    _attributes(result, view)
    _uses(result, view, aliases, scan.source.path)
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


def _attributes(result: Rewritten, view: bytes) -> None:
    """Alignment becomes ``alignas`` where the grammar takes it; every other attribute is blanked."""
    parens = Parens(view)
    for match in _ATTRIBUTE.finditer(view):
        end = parens.close(match.end())
        if end is None or match.group() == b"alignas":
            continue
        aligned = _ALIGNED.fullmatch(view, match.start(), end)
        if aligned is None:
            result.blank(match.start(), end)
        elif _after_declarator(view, match.start(), end):
            result.blank(match.start(), end)
            result.lost.append((match.start(), end, "alignment"))
        else:
            for start, stop in ((match.start(), aligned.start(1)), (aligned.end(1), end)):
                result.blank(start, stop, record=False)
            result.put(match.start(), b"alignas")


def _after_declarator(view: bytes, start: int, end: int) -> bool:
    """Whether an attribute stands behind what it is about, where ``alignas`` may not."""
    before = view[max(0, start - 200) : start].rstrip()[-1:]
    following = _NEXT.search(view, end)
    return (
        before in b"])"
        or (before == b"}" and following is not None and following.group() in b";,=")
        or (following is not None and following.group() in b";,=[")
    )


def _uses(result: Rewritten, view: bytes, aliases: Aliases, file: str) -> None:
    """Uses of specifier macros: what says where something lives stays in the tree if it fits, the rest is blanked."""
    present = {w for w in set(_WORD.findall(view)) if w.decode() in aliases.names}
    uses = {word: use for word in sorted(present) if (use := aliases.use(word.decode(), file)) is not None}
    rewritten = [word for word, use in uses.items() if use.kind != "type"]
    if not rewritten:
        return
    parens = Parens(view)
    for match in re.finditer(rb"(?<!\w)(?:%s)(?!\w)" % b"|".join(rewritten), view):
        use = uses[match.group()]
        end = parens.close(match.end()) if use.called else match.end()
        if end is None:
            continue
        if use.keep and result.fit(match.start(), end, use.keep):
            continue
        result.blank(match.start(), end)
        if use.loss:
            result.lost.append((match.start(), end, use.loss))


class Parens:
    """Where each parenthesis of a text closes; matched once, on first use."""

    def __init__(self, view: bytes) -> None:
        self._view = view
        self._pairs: dict[int, int] | None = None

    def close(self, position: int) -> int | None:
        """Offset after the group that opens after blanks at ``position``; ``position`` itself when none opens there.

        None when it does not close.
        """
        following = _NEXT.search(self._view, position)
        if following is None or following.group() != b"(":
            return position
        if self._pairs is None:
            self._pairs = {}
            stack: list[int] = []
            for match in _PAREN.finditer(self._view):
                if match.group() == b"(":
                    stack.append(match.start())
                elif stack:
                    self._pairs[stack.pop()] = match.end()
        return self._pairs.get(following.start())


_PAREN = re.compile(rb"[()]")
