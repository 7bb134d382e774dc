"""What one file says before it is parsed: directives, ``#if`` groups, macros, includes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from prelaunch.analysis.frontends.cuda.text.conditions import Group, scan_groups
from prelaunch.analysis.frontends.cuda.text.declarations import Macro
from prelaunch.analysis.frontends.cuda.text.includes import scan_includes, scan_macros
from prelaunch.analysis.frontends.cuda.text.lexing import Directive, blank, directives, mask
from prelaunch.analysis.frontends.cuda.text.syntax import ParseLimit
from prelaunch.analysis.source import Source


@dataclass(frozen=True, slots=True)
class Scan:
    """``masked``: comments and the inside of literals blanked; as long as the file."""

    source: Source
    masked: bytes
    directives: list[Directive]
    groups: list[Group]
    macros: list[Macro]
    includes: tuple[tuple[str, bool, int], ...]

    def code_view(self) -> bytes:
        """``masked`` with directive lines blanked too: only code is left."""
        view = bytearray(self.masked)
        for directive in self.directives:
            view[directive.start : directive.end] = blank(self.masked[directive.start : directive.end])
        return bytes(view)


_DIRECTIVES = 50_000  # per file; the largest generated headers hold about 20,000


def scan(source: Source) -> Scan:
    """Raises ParseLimit."""
    masked = mask(source.data)
    found = list(itertools.islice(directives(masked), _DIRECTIVES + 1))
    if len(found) > _DIRECTIVES:
        raise ParseLimit(f"more than {_DIRECTIVES} directives")
    groups = scan_groups(len(source.data), found, masked)
    conditional = [(g.branches[0].start, g.branches[-1].end) for g in groups if not g.guard]
    macros = scan_macros(source, found, conditional)
    return Scan(source, masked, found, groups, macros, scan_includes(source, found))
