"""sync.barrier-divergence: a block barrier that some threads of the block never reach."""

from __future__ import annotations

from collections.abc import Iterable

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Judgement
from prelaunch.analysis.rules._barriers import judgements
from prelaunch.analysis.rules.base import Rule

FIX = "move the barrier out of the branch; keep the work guarded, and let every thread wait"


def check(facts: Facts) -> Iterable[Judgement]:
    return judgements(facts, RULE.id, "branch", FIX)


RULE = Rule(
    id="sync.barrier-divergence",
    severity="error",
    summary="a block barrier that some threads of the block never reach",
    check=check,
)
