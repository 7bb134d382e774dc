"""Code frames: the source lines of a finding's places with carets under them.

Everything shown is passed through ``render_untrusted``; a line wider than the frame is cut around its caret; carets
stand under the right column with tabs, wide characters and bytes that are no UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from prelaunch.analysis.reports.untrusted import render_untrusted
from prelaunch.analysis.source import Source, Span

_NEAR = 3
"""Places at most this many lines apart are shown with the lines between them."""
MAX_SITES = 8


@dataclass(frozen=True, slots=True)
class Site:
    span: Span
    message: str
    primary: bool


def frame(sites: Sequence[Site], sources: Mapping[str, Source], width: int) -> Iterator[Text]:
    """Lines of the frame, at most ``width`` cells each; one header a file, the primary's file first."""
    shown = sorted(sites, key=lambda site: not site.primary)[:MAX_SITES]
    files = dict.fromkeys(site.span.file for site in shown)
    gutter = max(len(str(site.span.line)) for site in shown)
    for file in files:
        here = sorted((s for s in shown if s.span.file == file), key=lambda s: (s.span.line, s.span.column))
        first = next((s for s in here if s.primary), here[0])
        place = f"{render_untrusted(file)}:{first.span.line}:{first.span.column}"
        yield Text(f"{' ' * gutter} ┌─ {place}", style="dim")
        yield from _file(here, sources.get(file), gutter, width)
    if len(sites) > MAX_SITES:
        yield Text(f"{' ' * gutter} and {len(sites) - MAX_SITES} more places", style="dim")


def _file(sites: list[Site], source: Source | None, gutter: int, width: int) -> Iterator[Text]:
    bar = Text(f"{' ' * gutter} │ ", style="dim")
    last = 0
    for number in sorted({site.span.line for site in sites}):
        if last and number - last > _NEAR:
            yield Text(f"{'·' * gutter} │", style="dim")
        elif last:
            for between in range(last + 1, number):
                yield _code(source, between, None, gutter, width)[0]
        here = [site for site in sites if site.span.line == number]
        line, shift = _code(source, number, here[0].span, gutter, width)
        yield line
        for site in here:
            yield from _caret(site, source, shift, bar, width)
        last = number


def _code(source: Source | None, number: int, span: Span | None, gutter: int, width: int) -> tuple[Text, int]:
    """A numbered source line and how many cells were cut off its left end."""
    text = render_untrusted(source.line(number)) if source else ""
    room = max(20, width - gutter - 3)
    shift = 0
    if cell_len(text) > room:
        start = _columns(source, span)[0] if span else 0
        shift = max(0, start - room // 3) if start > room * 2 // 3 else 0
        text = _window(text, shift, room)
    line = Text(f"{number:>{gutter}} │ ", style="dim")
    line.append(text, style="not dim")
    return line, shift


def _window(text: str, start: int, room: int) -> str:
    """Cells ``start`` to ``start + room`` of ``text``; … stands at either end where something is left out."""
    kept: list[str] = []
    position = 0
    for char in text:
        size = cell_len(char)
        if position >= start and position + size <= start + room:
            kept.append(char)
        elif position < start < position + size:
            kept.append(" " * (position + size - start))
        position += size
    if start and kept:
        kept[0] = "…" + " " * (cell_len(kept[0]) - 1)
    if position > start + room and kept:
        kept[-1] = "…"
    return "".join(kept)


def _columns(source: Source | None, span: Span) -> tuple[int, int]:
    """Cells before the span on its first line, and cells it covers there (at least 1)."""
    if source is None:
        return 0, 1
    start = span.start - span.column + 1
    end = min(max(span.end, span.start), start + len(source.line(span.line).encode("utf-8", "replace")))
    first_line = source.data[start:].split(b"\n", 1)[0].rstrip(b"\r") if span.end_line > span.line else None
    if first_line is not None:
        end = start + len(first_line)
    before = cell_len(render_untrusted(source.data[start : span.start].decode("utf-8", "replace")))
    covered = cell_len(render_untrusted(source.data[span.start : end].decode("utf-8", "replace")))
    return before, max(1, covered)


def _caret(site: Site, source: Source | None, shift: int, bar: Text, width: int) -> Iterator[Text]:
    start, size = _columns(source, site.span)
    room = width - bar.cell_len
    start = min(max(0, start - shift), max(0, room - 2))
    size = max(1, min(size, room - start))
    style = "bold red" if site.primary else "bold blue"
    line = bar.copy()
    line.append(" " * start)
    line.append(("^" if site.primary else "-") * size, style=style)
    words = wrap(render_untrusted(site.message), max(20, room - start - size - 1))
    if len(words) == 1 and words[0] and start + size + 1 + cell_len(words[0]) <= room:
        line.append(f" {words[0]}", style=style)
        yield line
        return
    yield line
    indent = min(start, room // 2)
    for part in wrap(render_untrusted(site.message), room - indent) if site.message else ():
        below = bar.copy()
        below.append(" " * indent + part, style=style)
        yield below


def wrap(text: str, width: int) -> list[str]:
    """``text`` broken at blanks into lines of at most ``width`` cells; a longer word is broken where it must."""
    lines: list[str] = []
    line = ""
    for word in _pieces(text.split(), max(1, width)):
        if line and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def _pieces(words: Iterable[str], width: int) -> Iterator[str]:
    for word in words:
        piece = ""
        for char in word:
            if cell_len(piece) + cell_len(char) > width:
                yield piece
                piece = ""
            piece += char
        yield piece
