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
_MAX_BYTES = 4096


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
    room = max(20, width - gutter - 3)
    last = 0
    for number in sorted({site.span.line for site in sites}):
        if last and number - last > _NEAR:
            yield Text(f"{'·' * gutter} │", style="dim")
        elif last:
            for between in range(last + 1, number):
                yield _numbered(between, _look(source, between, None, room), gutter)
        here = [site for site in sites if site.span.line == number]
        line = _look(source, number, here[0].span, room)
        yield _numbered(number, line, gutter)
        for site in here:
            yield from _caret(site, line, bar)
        last = number


def _numbered(number: int, line: _Shown, gutter: int) -> Text:
    text = Text(f"{number:>{gutter}} │ ", style="dim")
    text.append(line.text(), style="not dim")
    return text


@dataclass(frozen=True, slots=True)
class _Shown:
    """The part of a source line looked at: ``data`` from byte ``base`` on, with the first ``shift`` cells cut off."""

    data: bytes
    base: int
    shift: int
    room: int

    def text(self) -> str:
        text = _cells(self.data)
        return _window(text, self.shift, self.room) if self.shift or cell_len(text) > self.room else text

    def place(self, span: Span) -> tuple[int, int]:
        """First cell under the span's text on this line, and how many cells it covers there (at least 1)."""
        start, end = (min(max(0, offset - self.base), len(self.data)) for offset in (span.start, span.end))
        first = cell_len(_cells(self.data[:start])) - self.shift
        size = cell_len(_cells(self.data[start:end]))
        first = min(max(0, first), self.room - 1)
        return first, max(1, min(size, self.room - first))


def _look(source: Source | None, number: int, span: Span | None, room: int) -> _Shown:
    """The line, moved left until ``span`` is in sight; of a very long one only the bytes around it."""
    if source is None:
        return _Shown(b"", 0, 0, room)
    base, end = source.line_range(number)
    target = span.start if span else base
    if end - base > _MAX_BYTES:
        base = max(base, target - _MAX_BYTES // 2)
        end = min(end, base + _MAX_BYTES)
    data = source.data[base:end]
    start = cell_len(_cells(data[: max(0, target - base)]))
    fits = cell_len(_cells(data)) <= room or start <= room * 2 // 3
    return _Shown(data, base, 0 if fits else start - room // 3, room)


def _cells(data: bytes) -> str:
    return render_untrusted(data.decode("utf-8", "replace"))


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


def _caret(site: Site, line: _Shown, bar: Text) -> Iterator[Text]:
    """The underline, with its message behind it where that fits and below where it does not."""
    start, size = line.place(site.span)
    style = "bold red" if site.primary else "bold blue"
    under = bar.copy()
    under.append(" " * start + ("^" if site.primary else "-") * size, style=style)
    message = " ".join(render_untrusted(site.message).split())
    if start + size + 1 + cell_len(message) <= line.room:
        if message:
            under.append(f" {message}", style=style)
        yield under
        return
    yield under
    indent = min(start, line.room // 2)
    for part in wrap(message, line.room - indent):
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
