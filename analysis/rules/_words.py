"""Words that findings and verdicts share: what decides, why it differs, what is assumed, who waits."""

from __future__ import annotations

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Assumption
from prelaunch.analysis.interpreter.record import NAMED_THREADS
from prelaunch.analysis.replay import Case, Observation, spread
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Dim3
from prelaunch.analysis.uniformity import Cause


def assumptions(case: Case) -> tuple[Assumption, ...]:
    given = (Assumption(f"launched as {case.name.split(' at ')[0]}", case.name.split(" at ")[1]),) if case.name else ()
    return (*given, *(Assumption(text, "default") for text in case.uniform.assumptions))


def rests_on_made_up(seen: Observation, cause: Cause | None) -> bool:
    """Did the run meet something not modelled, so that the decision may have read a value made up for it?

    A decision rooted in thread indices does not read such values.
    """
    root = cause.why.chain()[-1].text if cause is not None and cause.why is not None else "threadIdx"
    return not seen.run.modelled and not root.startswith(("threadIdx", "laneid"))


def unevidenced() -> tuple[Assumption, ...]:
    """What an observation rests on when no launch in the code decides the block."""
    return (Assumption("the block has the size tried; no launch in the code decides it", "default"),)


def decided(cause: Cause) -> Span:
    """Where the decision is written: the condition."""
    return cause.why.span if cause.why is not None else cause.stmt.span


def decision(facts: Facts, cause: Cause) -> str:
    """The condition and what makes it differ: ``warp < 4` depends on threadIdx.x``."""
    text = _quoted(facts, decided(cause)) or "the condition"
    return f"{text} {why_text(facts, cause)}"


def why_text(facts: Facts, cause: Cause) -> str:
    """``depends on threadIdx.x``."""
    root = cause.why.chain()[-1] if cause.why is not None else None
    if root is None or root.text in ("branch", "loop condition"):
        return "may differ between threads"
    if root.text.startswith(("threadIdx", "laneid", "clock", "blockIdx", "warpid")):
        return f"depends on {root.text}"
    text = _quoted(facts, root.span)
    if root.text.startswith("not modelled"):
        return f"depends on {text or 'something'} ({root.text})"
    return f"depends on {text}, a {root.text}" if text else f"depends on a {root.text}"


def _quoted(facts: Facts, span: Span) -> str:
    text = facts.text(span)
    return f"`{text if len(text) <= 60 else text[:59] + '…'}`" if text else ""


def waiting_thread(seen: Observation) -> tuple[Dim3, Dim3] | None:
    """The first thread that surely had not exited, where the list of exited ones may have been cut."""
    block = seen.problem.threads[0][0]
    gone = {thread for number, thread in seen.problem.threads if number == block}
    limit = max(gone) if len(seen.problem.threads) >= NAMED_THREADS else seen.config.threads
    waiter = next((thread for thread in range(limit) if thread not in gone), None)
    if waiter is None:
        return None
    return spread(block, seen.config.grid), spread(waiter, seen.config.block)
