"""What the rules on missed block barriers share: obligations from uniformity, verdicts from replay, words for both.

A barrier that threads miss is an error when threads meet at different barriers, or when lanes of one warp miss it
(``bar.sync`` must be executed by all threads of a warp); when whole warps go round it and end, NVIDIA devices release
the others, and it is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import (
    Conditional,
    Finding,
    Judgement,
    Proved,
    Refuted,
    Severity,
    Unknown,
    Verdict,
)
from prelaunch.analysis.replay import Case, Observation, cases, key_text
from prelaunch.analysis.rules._sites import related
from prelaunch.analysis.rules._words import (
    assumptions,
    decided,
    decision,
    detail,
    exited_and_waiting,
    rests_on_made_up,
    splits_warp,
    thread_name,
    unevidenced,
    unmet,
    why_text,
)
from prelaunch.analysis.source import Span
from prelaunch.analysis.sync.barriers import Barriers, Suspect
from prelaunch.analysis.trace import Dim3

MAX_SUSPECTS = 64
"""Decisions above barriers of a kernel and launch that are looked for in runs."""
EFFECT = "the threads that wait are released by the others' next barrier, or never: wrong data or a hang"


def judgements(facts: Facts, rule: str, kind: Literal["branch", "loop"], fix: str) -> Iterator[Judgement]:
    """One verdict per decision of ``kind`` that threads of a block take differently above a barrier, or Proved."""
    for case in cases(facts):
        barriers = Barriers(case.kernel, case.uniform)
        posed = [suspect for suspect in barriers.suspects if suspect.kind == kind]
        if barriers.all and not posed and not barriers.suspects:
            yield Judgement(rule, facts.kernel.label, case.name, aligned(case, barriers))
        for suspect in posed[:MAX_SUSPECTS]:
            yield Judgement(rule, facts.kernel.label, case.name, _verdict(case, barriers, suspect, rule, fix))
        if len(posed) > MAX_SUSPECTS:
            reason = Unknown(f"more than {MAX_SUSPECTS} decisions above barriers in one kernel")
            yield Judgement(rule, facts.kernel.label, case.name, reason)


def aligned(case: Case, barriers: Barriers) -> Verdict:
    """The verdict where uniformity found nothing."""
    opaque = barriers.opaque_control
    if opaque is not None:
        return Unknown(f"not modelled: {opaque.reason} (line {opaque.span.line})")
    return Proved("proved", assumptions(case))


def _verdict(case: Case, barriers: Barriers, suspect: Suspect, rule: str, fix: str) -> Verdict:
    spans = {barrier.span for barrier in suspect.barriers}
    # Where threads may have returned before, that others have exited is the business of sync.barrier-early-exit.
    alone = {barrier.span for barrier in suspect.barriers if not barriers.returned_before(barrier)}

    def grade(seen: Observation) -> int | None:
        problem = seen.problem
        if problem.kind == "divergent-barrier":
            return None if spans.isdisjoint(problem.spans) else 0
        if problem.kind != "exited-barrier" or alone.isdisjoint(problem.spans):
            return None
        return 0 if splits_warp(seen) else 1

    seen = case.replay.find(grade)
    if seen is None:
        return Unknown(f"{decision(case.facts, suspect.cause)}; not seen to go wrong in {case.replay.summary()}")
    if unmet(case):
        return Unknown(f"{decision(case.facts, suspect.cause)}; {unmet(case)}")
    if rests_on_made_up(seen, suspect.cause):
        return Unknown(f"{decision(case.facts, suspect.cause)}; a run that goes wrong rests on values not modelled")
    finding = _finding(case, suspect, seen, rule, fix)
    if seen.run.trial.evidenced:
        return Refuted(finding)
    return Conditional("all threads of the block decide alike", finding)


def _finding(case: Case, suspect: Suspect, seen: Observation, rule: str, fix: str) -> Finding:
    facts = case.facts
    barrier = next(b for b in suspect.barriers if b.span in seen.problem.spans)
    evidenced = seen.run.trial.evidenced
    threads, story = _story(seen, barrier.span)
    deadly = seen.problem.kind == "divergent-barrier" or splits_warp(seen)
    severity: Severity = "error" if deadly and evidenced else "warning"
    others = [(span, "others wait here") for span in seen.problem.spans if span != barrier.span]
    places = [(decided(suspect.cause), why_text(facts, suspect.cause)), *others[:2]]
    return Finding(
        rule=rule,
        severity=severity,
        evidence="confirmed" if evidenced else "possible",
        message=f"not all threads of the block reach this barrier: {decision(facts, suspect.cause)}; {story}",
        span=barrier.span,
        kernel=facts.kernel.label,
        key=key_text(facts, decided(suspect.cause), *_sites(suspect)),
        related=related(barrier.span, places),
        launch=case.name,
        assumptions=() if evidenced else unevidenced(),
        witness=seen.witness(threads, detail(seen)),
        effect=EFFECT if deadly else "released on NVIDIA devices because the others end; other devices hang",
        fix=fix,
    )


def _sites(suspect: Suspect) -> Iterator[Span]:
    for barrier in suspect.barriers:
        yield barrier.span
        yield from barrier.span.call_path()


def _story(seen: Observation, place: Span) -> tuple[list[tuple[Dim3, Dim3]], str]:
    """Two threads, one that waits at ``place`` and one that does not, and what happens to them."""
    block = seen.config.block
    if seen.problem.kind == "divergent-barrier":
        named, spans = seen.threads(), seen.problem.spans
        here = spans.index(place)
        there = 1 if here == 0 else 0
        threads = [named[here], named[there]]
        other = f"{thread_name(threads[1], block)} waits at line {spans[there].line}"
        return threads, f"{thread_name(threads[0], block)} waits here while {other}"
    gone, waiter = exited_and_waiting(seen)
    if waiter is None:
        return [gone], f"{thread_name(gone, block)} has ended when others wait here"
    text = f"{thread_name(waiter, block)} waits here while {thread_name(gone, block)} runs on to the end"
    return [waiter, gone], text
