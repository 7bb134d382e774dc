"""Text of a file for a compiler: what is kept, everything else blank, as long as the file.

No directive is left but ``#define``, ``#undef`` and a few pragmas that the scan found at its place; every other ``#``
of the text is blanked, whatever it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from prelaunch.analysis.frontends.cuda.text.lexing import Directive, blank

Range = tuple[int, int]


def kept_text(
    data: bytes, directives: Iterable[Directive], keep: Sequence[Range], drop: Sequence[Range], skipped: Sequence[Range]
) -> bytes:
    """``keep`` without ``drop``; ``skipped`` are ``#if`` branches not taken, whose directives go too."""
    out = bytearray(blank(data))
    for start, end in _merged(keep):
        out[start:end] = data[start:end]
    for start, end in (*drop, *skipped):
        out[start:end] = blank(data[start:end])
    _neutralise(out)
    for directive in directives:
        text = data[directive.start : directive.end]
        taken = not any(start <= directive.start < end for start, end in skipped)
        allowed = taken and _allowed(directive, data, keep)
        out[directive.start : directive.end] = _directive_text(text) if allowed else blank(text)
    return bytes(out)


def _neutralise(out: bytearray) -> None:
    """Takes every ``#`` and its digraph out of the text: no directive is left that was not put there on purpose."""
    for index, byte in enumerate(out):
        if byte == 35 or (byte == 37 and out[index + 1 : index + 2] == b":"):
            out[index] = 32


def _allowed(directive: Directive, data: bytes, keep: Iterable[tuple[int, int]]) -> bool:
    if directive.name in ("define", "undef"):
        return True
    if directive.name != "pragma":
        return False
    text = data[directive.argument : directive.end].split()
    return bool(text) and text[0] in (b"unroll", b"nounroll", b"pack") and any(
        start <= directive.start < end for start, end in keep
    )  # fmt: skip


def _directive_text(text: bytes) -> bytes:
    """A kept directive; a ``#`` that begins one of its continued lines is blanked."""
    return re.sub(
        rb"(?<=[\r\n])([ \t\f\v]*)(?:#|%:)", lambda m: m.group(1) + b" " * (len(m.group()) - len(m.group(1))), text
    )


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
