"""sync.named-barrier-id: barriers are numbered 0 to 15, and count whole warps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Assumption, Finding, Judgement, Proved, Refuted, Unknown, Verdict
from prelaunch.analysis.kernel import Barrier, Const, Expr
from prelaunch.analysis.replay import Case, Observation, cases, key_text, readable
from prelaunch.analysis.rules._sites import related
from prelaunch.analysis.rules._words import unmet
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.sync.barriers import whole_block
from prelaunch.analysis.uniformity.levels import Value
from prelaunch.analysis.walk import walk

NUMBERS = range(16)
WARP = 32


@dataclass(frozen=True, slots=True)
class Operand:
    """The number or the thread count of one barrier, and whether a value is right for it."""

    barrier: Barrier
    expr: Expr
    what: str
    wanted: str

    def right(self, value: int) -> bool:
        return value in NUMBERS if self.what == "number" else value > 0 and value % WARP == 0


def check(facts: Facts) -> Iterator[Judgement]:
    operands = list(_operands(facts))
    for case in cases(facts) if operands else ():
        for operand in operands:
            if case.uniform.reached(operand.barrier):
                yield Judgement(RULE.id, facts.kernel.label, case.name, _verdict(case, operand))


def _operands(facts: Facts) -> Iterator[Operand]:
    for stmt in walk(facts.kernel.body):
        if isinstance(stmt, Barrier) and stmt.scope == "block" and not whole_block(stmt):
            if stmt.id is not None:
                yield Operand(stmt, stmt.id, "number", "0 to 15")
            if stmt.count is not None:
                yield Operand(stmt, stmt.count, "thread count", f"a positive multiple of {WARP}")


def _verdict(case: Case, operand: Operand) -> Verdict:
    value = case.uniform.value(operand.expr)
    text = _text(case.facts, operand)
    wrong = _wrong(operand, value)
    if wrong is None:
        source = f"launch {case.name}" if case.launch is not None else "any launch"
        return Proved("proved", (Assumption(f"{operand.what} {text} is {operand.wanted}", source),))
    if wrong == "?":
        return Unknown(f"{operand.what} {text} depends on values that no launch here states")

    def grade(seen: Observation) -> int | None:
        problem = seen.problem
        counted = "whole warps" in problem.message
        ours = problem.kind == "named-barrier-id" and operand.barrier.span in problem.spans
        return 0 if ours and counted == (operand.what != "number") else None

    seen = case.replay.find(grade)
    if unmet(case) and not isinstance(operand.expr, Const):
        return Unknown(f"{operand.what} {text} would be {wrong}; {unmet(case)}")
    return Refuted(_finding(case, operand, wrong, seen))


def _text(facts: Facts, operand: Operand) -> str:
    """The operand as written; where its place is the whole instruction's, as lowered."""
    text = facts.text(operand.expr.span)
    return text if text and text != facts.text(operand.barrier.span) else readable(operand.expr)


def _wrong(operand: Operand, value: Value) -> str | None:
    """A wrong value the operand takes, in words; None when it takes none, "?" when that is not known."""
    if value.lanes is not None:
        wrong = [int(v) for v in value.lanes if not operand.right(int(v))]
        return str(wrong[0]) if wrong else None
    if value.const is not None:
        return None if operand.right(value.const) else str(value.const)
    if operand.what == "number" and value.low is not None and value.high is not None:
        return None if operand.right(value.low) and operand.right(value.high) else "?"
    return "?"


def _finding(case: Case, operand: Operand, wrong: str, seen: Observation | None) -> Finding:
    facts, span = case.facts, operand.barrier.span
    text = _text(facts, operand)
    value = f"`{text}` = {wrong}" if text and text != wrong else wrong
    fixed = isinstance(operand.expr, Const)
    shown = seen is not None and seen.run.trial.evidenced
    return Finding(
        rule=RULE.id,
        severity="error" if fixed or shown else "warning",
        evidence="proved" if fixed else "confirmed" if shown else "possible",
        message=f"barrier {operand.what} is {value}; it must be {operand.wanted}",
        span=span,
        kernel=facts.kernel.label,
        key=key_text(facts, span, *span.call_path()),
        related=related(span),
        launch=case.name,
        witness=seen.witness(seen.threads()[:1]) if seen is not None else None,
        effect="undefined: an illegal instruction, or a barrier of others; an immediate does not even assemble",
        fix="number barriers 1 to 15, helpers' offsets included"
        if operand.what == "number"
        else "give a count of whole warps: round up to a multiple of 32",
    )


RULE = Rule(
    id="sync.named-barrier-id",
    severity="error",
    summary="named barrier outside 0 to 15, or a thread count that is no multiple of 32",
    check=check,
)
