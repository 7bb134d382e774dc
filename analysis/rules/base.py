"""The shape of a rule module: ``X.py`` defines ``RULE``; ``X.md`` beside it is its page and its test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prelaunch.analysis.facts import Facts, RepositoryFacts
from prelaunch.analysis.finding import Judgement, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """``check`` poses the rule's obligations on one kernel with its launches, or ``check_repository`` on all at once.

    Every obligation posed comes back as a Judgement; a rule that does not apply to a kernel yields nothing.
    ``severity`` is the default, a finding may carry a lower one.
    """

    id: str
    severity: Severity
    summary: str
    check: Callable[[Facts], Iterable[Judgement]] | None = None
    check_repository: Callable[[RepositoryFacts], Iterable[Judgement]] | None = None
    version: int = 1
