"""launch.block-too-large: a block has more threads than a device or the kernel allows, or none."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis import hardware
from prelaunch.analysis.facts import RepositoryFacts
from prelaunch.analysis.finding import Assumption, Judgement, Proved, Unknown
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay import launch_name
from prelaunch.analysis.rules._launches import AXES, kernel_facts, label, number, origin, refuted, undecided
from prelaunch.analysis.rules.base import Rule

LIMITS = hardware.capability(hardware.DEFAULT_TARGETS[-1])  # the same on every capability in the table


def check(facts: RepositoryFacts) -> Iterator[Judgement]:
    for launch in facts.launches:
        fault = _fault(facts, launch)
        if fault:
            yield refuted(
                facts,
                RULE.id,
                launch,
                fault + origin(facts, launch),
                what="the block's dimensions",
                effect="the launch fails with an invalid configuration; the kernel does not run",
                fix="choose a fixed block of at most 1024 threads and cover the problem with more blocks",
            )
        else:
            yield Judgement(RULE.id, label(launch), launch_name(launch), _rest(launch, _bound(facts, launch)))


def _fault(facts: RepositoryFacts, launch: Launch) -> str:
    """What is wrong with the block, empty when its numbers show nothing wrong."""
    known = [number(expr) for expr in launch.block]
    size = "(" + ", ".join("?" if n is None else str(n) for n in known) + ")"
    for axis, count, limit in zip(AXES, known, LIMITS.max_block_dim, strict=True):
        if count == 0:
            return f"block {size} of {label(launch)} has no threads: {axis} is 0"
        if count is not None and count > limit:
            return f"block {size} of {label(launch)} has {count} threads in {axis}, the limit is {limit}"
    least = 1
    for count in known:
        least *= count if count is not None else 1
    words = f"block {size} of {label(launch)} has {'at least ' if None in known else ''}{least} threads"
    if least > LIMITS.max_threads_per_block:
        return f"{words}, the limit is {LIMITS.max_threads_per_block}"
    bound = _bound(facts, launch)
    if least > bound:
        return f"{words}, its __launch_bounds__ allow {bound}"
    return ""


def _bound(facts: RepositoryFacts, launch: Launch) -> int:
    """Threads per block that the device and every instance's ``__launch_bounds__`` allow."""
    stated = [f.kernel.launch_bounds[0] for f in kernel_facts(facts, launch)]
    if not stated or any(b is None or b <= 0 for b in stated):
        return LIMITS.max_threads_per_block
    return min(LIMITS.max_threads_per_block, max(b for b in stated if b is not None))


def _rest(launch: Launch, bound: int) -> Proved | Unknown:
    """The verdict on a block whose numbers show nothing wrong."""
    known = [number(expr) for expr in launch.block]
    least = 1
    for count in known:
        least *= count if count is not None else 1
    room = bound // max(least, 1)
    open_ = undecided("block", launch.block, (room, room, min(room, LIMITS.max_block_dim[2])))
    if None not in known:
        return Proved()
    if open_ or sum(n is None for n in known) > 1:
        return Unknown(open_ or "two dimensions of the block are not decided by the code")
    return Proved(assumptions=(Assumption("sizes passed by host code are positive", "default"),))


RULE = Rule(
    id="launch.block-too-large",
    severity="error",
    summary="a block has more threads than the device or __launch_bounds__ allow, or none",
    check_repository=check,
)
