"""What analyses say: verdicts on obligations, and findings, which are frozen and flow to every surface."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import LaunchConfig

Severity = Literal["error", "warning", "performance", "note"]
Evidence = Literal["proved", "confirmed", "confirmed-twice", "possible", "compiled", "measured", "modelled"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "performance", "note")


@dataclass(frozen=True, slots=True)
class Assumption:
    """``text`` is a condition; ``source`` says where it comes from (launch site, allocation, assert, default)."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Witness:
    """Concrete numbers that make a defect happen: launch, scalar arguments, named threads (block, thread in x,y,z)."""

    config: LaunchConfig | None = None
    arguments: tuple[tuple[str, int | float | str], ...] = ()
    threads: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Proved:
    evidence: Evidence = "proved"
    assumptions: tuple[Assumption, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuted:
    """The obligation fails; ``finding`` says how. ``evidence`` lies in the finding."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class Conditional:
    """Holds exactly when ``contract`` does, and the launches seen do not decide it."""

    contract: str
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    reason: str


Verdict = Proved | Refuted | Conditional | Unknown


@dataclass(frozen=True, slots=True)
class Related:
    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause. ``key`` is what tells two causes of one rule in one kernel apart, free of line numbers (the source
    text of the sites, usually); it feeds the fingerprint. ``effect``: what happens at run time; ``fix``: what to do."""

    rule: str
    severity: Severity
    evidence: Evidence
    message: str
    span: Span
    kernel: str = ""
    key: str = ""
    hazard: str | None = None
    related: tuple[Related, ...] = ()
    launch: str = ""
    assumptions: tuple[Assumption, ...] = ()
    witness: Witness | None = None
    effect: str = ""
    fix: str = ""
    also: tuple[str, ...] = ()  # further instances, launches or copies of the same cause
    count: int = 1

    @property
    def fingerprint(self) -> str:
        """Stable under moved lines and reformatting: rule, file, kernel and key."""
        text = "\0".join((self.rule, self.span.file, self.kernel, " ".join(self.key.split())))
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one obligation: rule x kernel x launch."""

    rule: str
    kernel: str
    launch: str
    verdict: Verdict


def verdict_name(verdict: Verdict) -> str:
    return type(verdict).__name__.lower()


Json = dict[str, Any]
