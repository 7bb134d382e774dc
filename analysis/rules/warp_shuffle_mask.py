"""warp.shuffle-mask: the mask of a warp exchange names the lanes that execute it, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import (
    Assumption,
    Conditional,
    Finding,
    Judgement,
    Proved,
    Refuted,
    Unknown,
    Verdict,
)
from prelaunch.analysis.kernel import Collective, Expr
from prelaunch.analysis.replay import Case, Observation, cases, key_text
from prelaunch.analysis.rules._sites import related
from prelaunch.analysis.rules._words import assumptions, decision, rests_on_made_up, unevidenced, unmet
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.source import Span
from prelaunch.analysis.sync.participants import Participants
from prelaunch.analysis.trace import Problem
from prelaunch.analysis.walk import walk

MAX_DOUBTS = 64
"""Doubtful exchanges of a kernel and launch that are looked for in runs."""
Fault = Literal["own", "missing", "exited"]
_FAULTS: tuple[tuple[str, Fault], ...] = (
    ("does not name it", "own"), ("never arrive", "missing"), ("end without", "missing"),
    ("different masks", "missing"), ("have exited", "exited"),
)  # fmt: skip
_EFFECTS: dict[Fault, str] = {
    "own": "undefined result for every lane outside the mask",
    "missing": "the lanes that are there wait for lanes that never come, or read registers nobody set",
    "exited": "what is read from a lane that has exited is undefined",
}


def check(facts: Facts) -> Iterator[Judgement]:
    exchanges = [stmt for stmt in walk(facts.kernel.body) if isinstance(stmt, Collective) and stmt.mask is not None]
    for case in cases(facts) if exchanges else ():
        participants = Participants(case.kernel, case.uniform)
        causes: dict[tuple[int, str], list[tuple[Collective, Verdict]]] = {}
        doubts = 0
        for stmt in exchanges:
            if case.uniform.reached(stmt):
                cause = participants.divides(stmt)
                key = (id(cause.stmt) if cause is not None else 0, _mask_text(facts, stmt))
                doubt = participants.doubt(stmt)
                doubts += doubt is not None
                verdict = _verdict(case, participants, stmt, doubt) if doubts <= MAX_DOUBTS else _TOO_MANY
                causes.setdefault(key, []).append((stmt, verdict))
        for posed in causes.values():
            yield from (Judgement(RULE.id, facts.kernel.label, case.name, verdict) for verdict in _gathered(posed))


def _gathered(posed: list[tuple[Collective, Verdict]]) -> Iterator[Verdict]:
    """Verdicts on exchanges under one decision and one mask; the findings among them are one, at the first."""
    wrong = [(stmt, verdict) for stmt, verdict in posed if isinstance(verdict, Refuted | Conditional)]
    leader = wrong[0][1].finding if wrong else None
    if leader is not None:
        others = [(stmt.span, "and here") for stmt, _ in wrong[1:]]
        named = [(item.span, item.message) for item in leader.related]
        leader = replace(leader, related=related(leader.span, [*named, *others]))
    for _, verdict in posed:
        if leader is not None and isinstance(verdict, Refuted | Conditional):
            yield replace(verdict, finding=leader)
        else:
            yield verdict


def _mask_text(facts: Facts, stmt: Collective) -> str:
    return facts.text(stmt.mask.span) if stmt.mask is not None else ""


_TOO_MANY = Unknown(f"more than {MAX_DOUBTS} doubtful exchanges in one kernel")


def _verdict(case: Case, participants: Participants, stmt: Collective, doubt: str | None) -> Verdict:
    assert stmt.mask is not None
    if doubt is None:
        whole = Assumption("blocks are whole warps", "warp.partial-warp")
        return Proved("proved", (*assumptions(case), whole))

    def grade(seen: Observation) -> int | None:
        problem = seen.problem
        fault = _fault(problem) if problem.kind == "bad-mask" and stmt.span in problem.spans else None
        return None if fault is None else int(fault == "exited")

    seen = case.replay.find(grade)
    if seen is None:
        return Unknown(f"{doubt}; not seen to go wrong in {case.replay.summary()}")
    if unmet(case):
        return Unknown(f"{doubt}; {unmet(case)}")
    computed = case.uniform.value(stmt.mask).const is None
    if rests_on_made_up(seen, participants.divides(stmt)) or (computed and not seen.run.modelled):
        return Unknown(f"{doubt}; a run that goes wrong rests on values not modelled")
    finding = _finding(case, participants, stmt, stmt.mask, seen)
    if seen.run.trial.evidenced:
        return Refuted(finding)
    return Conditional("the lanes named are those that execute it", finding)


def _fault(problem: Problem) -> Fault | None:
    """What is wrong with the mask; None when it is not this rule's business (lanes that the block does not have)."""
    return next((fault for words, fault in _FAULTS if words in problem.message), None)


def _finding(case: Case, participants: Participants, stmt: Collective, mask: Expr, seen: Observation) -> Finding:
    facts = case.facts
    fault = _fault(seen.problem) or "missing"
    name = facts.text(mask.span)
    said = f"mask `{name}`" if name and name != facts.text(stmt.span) else "the mask"
    places: list[tuple[Span, str]] = []
    reason = ""
    cause = participants.divides(stmt)
    evidenced = seen.run.trial.evidenced
    if fault != "own" and cause is not None:
        places.append((cause.stmt.span if cause.why is None else cause.why.span, "lanes part here"))
        reason = f"; {decision(facts, cause)}"
    return Finding(
        rule=RULE.id,
        severity="error" if evidenced and fault != "exited" else "warning",
        evidence="confirmed" if evidenced else "possible",
        message=f"{said} does not fit the lanes that execute this: {seen.problem.message}{reason}",
        span=stmt.span,
        kernel=facts.kernel.label,
        key=key_text(facts, stmt.span, *stmt.span.call_path()),
        related=related(stmt.span, places),
        launch=case.name,
        assumptions=() if evidenced else unevidenced(),
        witness=seen.witness(seen.threads()[:2]),
        effect=_EFFECTS[fault],
        fix="execute it with all 32 lanes under 0xffffffff and guard the result, or name the lanes with "
        "__ballot_sync where they still are together",
    )


RULE = Rule(
    id="warp.shuffle-mask",
    severity="error",
    summary="the mask of a warp exchange does not say which lanes execute it",
    check=check,
)
