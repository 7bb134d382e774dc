"""launch.block-too-large: a block has more threads than a device or the kernel allows, or none."""

from __future__ import annotations

import math
from collections.abc import Iterator

from prelaunch.analysis import hardware
from prelaunch.analysis.facts import RepositoryFacts
from prelaunch.analysis.finding import Conditional, Judgement, Proved, Unknown, Verdict
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay import launch_name
from prelaunch.analysis.rules._contracts import at_most, beyond, product_at_most
from prelaunch.analysis.rules._launches import AXES, POSITIVE, kernel_facts, label, lost, number, origin, refuted
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
                fault + origin(facts, launch, launch.block_spans),
                what="block's dimensions",
                dims=launch.block_spans,
                assumptions=() if launch.known_block() else (POSITIVE,),
                effect="the launch fails with an invalid configuration; the kernel does not run",
                fix=f"choose a fixed block of at most {_bound(facts, launch)} threads "
                "and cover the problem with more blocks",
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
    for axis, expr, limit in zip(AXES, launch.block, LIMITS.max_block_dim, strict=True):
        always = beyond(expr, limit)
        if always:
            return f"block of {label(launch)}: {axis} = {always}, the limit is {limit}"
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


def _rest(launch: Launch, bound: int) -> Verdict:
    """The verdict on a block whose numbers show nothing wrong."""
    open_ = [(axis, expr) for axis, expr in zip(AXES, launch.block, strict=True) if number(expr) is None]
    if not open_:
        return Proved()
    reason = lost(launch, [(f"block.{axis}", expr) for axis, expr in open_])
    if reason:
        return Unknown(reason)
    known = math.prod(number(expr) or 1 for expr in launch.block)
    room = bound // known
    names = [f"blockDim.{axis}" for axis, _ in open_]
    parts = [product_at_most(names, [expr for _, expr in open_], room)]
    parts += [
        at_most("blockDim.z", expr, LIMITS.max_block_dim[2])
        for axis, expr in open_
        if axis == "z" and (len(open_) > 1 or room > LIMITS.max_block_dim[2])
    ]
    contract = " and ".join(dict.fromkeys(filter(None, parts)))
    return Conditional(contract) if contract else Proved(assumptions=(POSITIVE,))


RULE = Rule(
    id="launch.block-too-large",
    severity="error",
    summary="a block has more threads than the device or __launch_bounds__ allow, or none",
    check_repository=check,
)
