"""``// prelaunch: allow(rule, ...) reason``: a finding that people have looked at and accept.

The comment stands on the line of the finding's main place or on the line above it. A reason is required. A comment
without one does nothing; it and one that allows nothing (any more) are reported, so that the list stays honest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prelaunch.analysis.finding import Finding
from prelaunch.analysis.source import Source

_ALLOW = re.compile(rb"(?://|/\*)[^\r\n]*?\bprelaunch:[ \t]*allow\b[ \t]*(?:\(([^()\r\n]*)\))?[ \t]*([^\r\n]*)")


@dataclass(frozen=True, slots=True)
class Allow:
    """One comment; ``rules`` as written, ``reason`` without comment ends."""

    file: str
    line: int
    rules: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Suppressed:
    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """Something about the review itself that its reader should know."""

    file: str
    line: int
    message: str


def allows(source: Source) -> list[Allow]:
    """The comments of one file, in order."""
    found = []
    for match in _ALLOW.finditer(source.data) if b"prelaunch:" in source.data else ():
        named = (match.group(1) or b"").decode("utf-8", "replace")
        reason = match.group(2).decode("utf-8", "replace").partition("*/")[0].strip(" \t-:")
        rules = tuple(word for word in re.split(r"[,\s]+", named) if word)
        found.append(Allow(source.path, source.position(match.start())[0], rules, reason))
    return found


def suppress(
    findings: Iterable[Finding],
    sources: Mapping[str, Source],
    *,
    known: frozenset[str],
    decided: Callable[[str, str], bool],
) -> tuple[list[Finding], list[Suppressed], list[Note]]:
    """Splits findings into shown and suppressed, and says what is wrong with the comments.

    ``known`` are all rule ids. An unused comment is reported only where ``decided(rule, file)``: the rule ran and left
    nothing unknown there, so the comment cannot be what a fuller review needs.
    """
    comments = [allow for path in sorted(sources) for allow in allows(sources[path])]
    valid = {(a.file, a.line + below, rule): a for a in comments if a.reason for rule in a.rules for below in (1, 0)}
    shown: list[Finding] = []
    hidden: list[Suppressed] = []
    used: set[tuple[Allow, str]] = set()
    for finding in findings:
        allow = valid.get((finding.span.file, finding.span.line, finding.rule))
        if allow is None:
            shown.append(finding)
        else:
            hidden.append(Suppressed(finding, allow.reason))
            used.add((allow, finding.rule))
    notes = [note for allow in comments for note in _complaints(allow, used, known, decided)]
    return shown, hidden, notes


def _complaints(
    allow: Allow, used: set[tuple[Allow, str]], known: frozenset[str], decided: Callable[[str, str], bool]
) -> Iterable[Note]:
    if not allow.rules:
        yield Note(allow.file, allow.line, "allow names no rule: write `prelaunch: allow(rule) reason`")
    elif not allow.reason:
        yield Note(allow.file, allow.line, f"allow({', '.join(allow.rules)}) has no reason and does nothing")
    else:
        for rule in allow.rules:
            if rule not in known:
                yield Note(allow.file, allow.line, f"allow({rule}): there is no such rule")
            elif (allow, rule) not in used and decided(rule, allow.file):
                yield Note(allow.file, allow.line, f"allow({rule}) allows nothing here; remove it")
