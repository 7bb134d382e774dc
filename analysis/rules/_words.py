"""Words that findings and verdicts share: what decides, why it differs, what is assumed, who waits."""

from __future__ import annotations

import re
from collections.abc import Callable

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Assumption
from prelaunch.analysis.interpreter.warps import ranges
from prelaunch.analysis.launch import COMBINED, UNREACHED
from prelaunch.analysis.replay import Case, Observation, spread
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Dim3, Problem
from prelaunch.analysis.uniformity import Cause
from prelaunch.analysis.uniformity.levels import WARP_SIZE

MAX_QUOTE = 48


def assumptions(case: Case) -> tuple[Assumption, ...]:
    given = (Assumption(f"launched as {case.name.split(' at ')[0]}", case.name.split(" at ")[1]),) if case.name else ()
    return (*given, *(Assumption(text, "default") for text in case.uniform.assumptions))


def rests_on_made_up(seen: Observation, cause: Cause | None) -> bool:
    """Did the run meet something not modelled, so that the decision may have read a value made up for it?

    A decision rooted in thread indices does not read such values.
    """
    root = cause.why.chain()[-1].text if cause is not None and cause.why is not None else "threadIdx"
    return not seen.run.modelled and not root.startswith(("threadIdx", "laneid"))


def unmet(case: Case) -> str:
    """Why nothing seen under this launch counts: no execution of the code reaches it with these numbers. Else ""."""
    notes = case.launch.notes if case.launch is not None else ()
    return next((doubt for doubt in (UNREACHED, COMBINED) if doubt in notes), "")


def unevidenced() -> tuple[Assumption, ...]:
    """What an observation rests on when no launch in the code decides the block."""
    return (Assumption("the block has the size tried; no launch in the code decides it", "default"),)


def decided(cause: Cause) -> Span:
    """Where the decision is written: the condition."""
    return cause.why.span if cause.why is not None else cause.stmt.span


def decision(facts: Facts, cause: Cause) -> str:
    """The condition and what makes it differ: ``warp < 4` depends on threadIdx.x``."""
    text = _quoted(facts, decided(cause), _label) or "the condition"
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


def _label(text: str) -> str:
    """A branch of a switch is named by its label alone."""
    found = re.match(r"(case\b.+?|default *):(?!:)", text)
    return found[1].strip() if found else text


def _quoted(facts: Facts, span: Span, shorten: Callable[[str], str] = str) -> str:
    text = shorten(facts.text(span))
    return f"`{text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + '…'}`" if text else ""


def thread_name(thread: tuple[Dim3, Dim3], block: Dim3) -> str:
    """``thread 40``, or with as many coordinates as the block has dimensions: ``thread (8, 2)``."""
    x, y, z = thread[1]
    if block[1:] == (1, 1):
        return f"thread {x}"
    return f"thread ({x}, {y})" if block[2] == 1 else f"thread ({x}, {y}, {z})"


def splits_warp(seen: Observation) -> bool:
    """Had some lanes of a warp exited while others of it waited? The problem is an "exited-barrier", which names all
    that were gone when the barrier was released."""
    gone, _ = _gone(seen.problem)
    size = seen.config.threads
    starts = {thread - thread % WARP_SIZE for thread in gone}
    return any(not gone.issuperset(range(start, min(start + WARP_SIZE, size))) for start in starts)


def exited_and_waiting(seen: Observation) -> tuple[tuple[Dim3, Dim3], tuple[Dim3, Dim3] | None]:
    """A thread that had exited and one that waited, lanes of one warp where a warp is split."""
    gone, block = _gone(seen.problem)
    waiting = [thread for thread in range(seen.config.threads) if thread not in gone]
    warps = {thread // WARP_SIZE for thread in gone}
    waiter = next((thread for thread in waiting if thread // WARP_SIZE in warps), waiting[0] if waiting else None)
    mates = [thread for thread in sorted(gone) if waiter is not None and thread // WARP_SIZE == waiter // WARP_SIZE]
    other = mates[0] if mates else min(gone)
    where, dims = spread(block, seen.config.grid), seen.config.block
    return (where, spread(other, dims)), None if waiter is None else (where, spread(waiter, dims))


def detail(seen: Observation) -> str:
    """What a witness says beyond the two threads it names."""
    if seen.problem.kind == "divergent-barrier":
        return seen.problem.message if len(seen.problem.spans) > 2 else ""
    gone, _ = _gone(seen.problem)
    return f"by then {len(gone)} of {seen.config.threads} threads had ended: {ranges(sorted(gone))}"


def _gone(problem: Problem) -> tuple[set[int], int]:
    """Exited threads of the first block a problem names, and the block."""
    block = problem.threads[0][0]
    return {thread for number, thread in problem.threads if number == block}, block
