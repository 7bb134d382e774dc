"""sync.barrier-early-exit: threads return while others of their block still wait at barriers."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Conditional, Finding, Judgement, Refuted, Unknown, Verdict
from prelaunch.analysis.kernel import Barrier, Exit
from prelaunch.analysis.replay import Case, Observation, cases, key_text
from prelaunch.analysis.rules._barriers import aligned
from prelaunch.analysis.rules._sites import related
from prelaunch.analysis.rules._words import (
    decision,
    detail,
    exited_and_waiting,
    rests_on_made_up,
    thread_name,
    unevidenced,
    unmet,
)
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.sync.barriers import Barriers
from prelaunch.analysis.uniformity import Cause
from prelaunch.analysis.walk import walk

MAX_EXITS = 16
"""Returns whose barriers are looked for in runs; the first in the text have the most behind them."""


def check(facts: Facts) -> Iterator[Judgement]:
    for case in cases(facts):
        barriers = Barriers(case.kernel, case.uniform)
        if barriers.all and any(isinstance(s, Exit) and not s.trap for s in walk(facts.kernel.body)):
            yield Judgement(RULE.id, facts.kernel.label, case.name, _verdict(case, barriers))


def _verdict(case: Case, barriers: Barriers) -> Verdict:
    if not barriers.partial_exits:
        return aligned(case, barriers)
    after = {barrier.span for exit_, _ in barriers.partial_exits[:MAX_EXITS] for barrier in barriers.after(exit_)}

    def grade(seen: Observation) -> int | None:
        problem = seen.problem
        return 0 if problem.kind == "exited-barrier" and not after.isdisjoint(problem.spans) else None

    seen = case.replay.find(grade)
    if seen is None:
        _, cause = barriers.partial_exits[0]
        return Unknown(f"{decision(case.facts, cause)}; not seen to part a block in {case.replay.summary()}")
    exits = _taken(barriers, seen)
    _, cause = exits[0]
    if unmet(case):
        return Unknown(f"{decision(case.facts, cause)}; {unmet(case)}")
    if rests_on_made_up(seen, cause):
        return Unknown(f"{decision(case.facts, cause)}; a run that parts a block rests on values not modelled")
    finding = _finding(case, barriers, exits, seen)
    if seen.run.trial.evidenced:
        return Refuted(finding)
    return Conditional("no thread returns before its block's last barrier", finding)


def _taken(barriers: Barriers, seen: Observation) -> list[tuple[Exit, Cause]]:
    """Returns that the barrier observed may come after, in text order."""
    met = [barrier for barrier in barriers.all if barrier.span in seen.problem.spans]
    return [(e, cause) for e, cause in barriers.partial_exits if any(barriers.may_precede(e, b) for b in met)]


def _finding(case: Case, barriers: Barriers, exits: list[tuple[Exit, Cause]], seen: Observation) -> Finding:
    facts = case.facts
    returns = [exit_ for exit_, _ in exits]
    exit_, cause = exits[0]
    evidenced = seen.run.trial.evidenced
    missed = _missed(barriers.after(exit_), seen)
    gone, waiter = exited_and_waiting(seen)
    who = thread_name(waiter, seen.config.block) if waiter is not None else "another thread"
    places = [(barrier.span, "others wait here") for barrier in missed[:3]]
    places += [(other.span, "and return here") for other in returns[1:2]]
    return Finding(
        rule=RULE.id,
        severity="warning",
        evidence="confirmed" if evidenced else "possible",
        message=f"threads return before a barrier of their block: {decision(facts, cause)}; "
        f"{thread_name(gone, seen.config.block)} has left when {who} waits at line {missed[0].span.line}",
        span=exit_.span,
        kernel=facts.kernel.label,
        key=key_text(facts, *(item.span for item in returns)),
        related=related(exit_.span, places),
        launch=case.name,
        assumptions=() if evidenced else unevidenced(),
        witness=seen.witness([waiter, gone] if waiter is not None else [gone], detail(seen)),
        effect="runs on NVIDIA devices, which do not wait for exited threads; hangs on others",
        fix="keep the threads to the end: guard loads and stores instead of returning",
    )


def _missed(after: tuple[Barrier, ...], seen: Observation) -> list[Barrier]:
    """Barriers behind the return, the observed one first."""
    return sorted(after, key=lambda barrier: barrier.span not in seen.problem.spans)


RULE = Rule(
    id="sync.barrier-early-exit",
    severity="warning",
    summary="threads return while others of their block still wait at barriers",
    check=check,
)
