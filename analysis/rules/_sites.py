"""Places of a finding: at most five lines, and what stands at each."""

from __future__ import annotations

from collections.abc import Iterable

from prelaunch.analysis.finding import Related
from prelaunch.analysis.source import Span

MAX_LINES = 5


def related(span: Span, others: Iterable[tuple[Span, str]] = ()) -> tuple[Related, ...]:
    """``others``, then the calls ``span`` was inlined through, each line once, MAX_LINES with ``span``'s own."""
    lines = {(span.file, span.line)}
    found: list[Related] = []
    for place, message in (*((site, "called here") for site in span.call_path()), *others):
        if len(lines) < MAX_LINES and (place.file, place.line) not in lines and place.file:
            lines.add((place.file, place.line))
            found.append(Related(place, message))
    return tuple(found)
