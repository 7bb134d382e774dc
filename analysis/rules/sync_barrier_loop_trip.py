"""sync.barrier-loop-trip: a block barrier in a loop that threads leave after different numbers of rounds."""

from __future__ import annotations

from collections.abc import Iterable

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Judgement
from prelaunch.analysis.rules._barriers import judgements
from prelaunch.analysis.rules.base import Rule

FIX = "count rounds that all threads share, and guard the work inside: for (base = 0; base < n; base += blockDim.x)"


def check(facts: Facts) -> Iterable[Judgement]:
    return judgements(facts, RULE.id, "loop", FIX)


RULE = Rule(
    id="sync.barrier-loop-trip",
    severity="error",
    summary="a block barrier in a loop that threads leave after different numbers of rounds",
    check=check,
)
