"""launch.grid-dim-limit: a grid dimension is zero or beyond what devices take."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis import hardware
from prelaunch.analysis.facts import RepositoryFacts
from prelaunch.analysis.finding import Conditional, Judgement, Proved, Unknown, Verdict
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay import launch_name
from prelaunch.analysis.rules._contracts import at_most, beyond
from prelaunch.analysis.rules._launches import AXES, POSITIVE, label, lost, number, origin, refuted
from prelaunch.analysis.rules.base import Rule

LIMITS = hardware.capability(hardware.DEFAULT_TARGETS[-1])  # the same on every capability in the table


def check(facts: RepositoryFacts) -> Iterator[Judgement]:
    for launch in facts.launches:
        fault = _fault(launch)
        if fault:
            zero = 0 in [number(expr) for expr in launch.grid]
            yield refuted(
                facts,
                RULE.id,
                launch,
                fault + origin(facts, launch, launch.grid_spans),
                what="grid's dimensions",
                dims=launch.grid_spans,
                assumptions=() if launch.known_grid() else (POSITIVE,),
                effect="the launch fails with an invalid configuration; the kernel does not run",
                fix="round the number of blocks up, and launch nothing when there is nothing to do"
                if zero
                else "put the long dimension into x, or fold it into a loop over a smaller grid",
            )
        else:
            yield Judgement(RULE.id, label(launch), launch_name(launch), _rest(launch))


def _fault(launch: Launch) -> str:
    known = [number(expr) for expr in launch.grid]
    size = "(" + ", ".join("?" if n is None else str(n) for n in known) + ")"
    for axis, count, limit in zip(AXES, known, LIMITS.max_grid_dim, strict=True):
        if count == 0:
            return f"grid {size} of {label(launch)} has no blocks: {axis} is 0"
        if count is not None and count > limit:
            return f"grid {size} of {label(launch)}: {axis} = {count} exceeds {limit}"
    for axis, expr, limit in zip(AXES, launch.grid, LIMITS.max_grid_dim, strict=True):
        always = beyond(expr, limit)
        if always:
            return f"grid of {label(launch)}: {axis} = {always}, the limit is {limit}"
    return ""


def _rest(launch: Launch) -> Verdict:
    """The verdict on a grid whose numbers show nothing wrong."""
    if launch.known_grid() is not None:
        return Proved()
    sizes = [(f"grid.{axis}", expr) for axis, expr in zip(AXES, launch.grid, strict=True)]
    reason = lost(launch, sizes)
    if reason:
        return Unknown(reason)
    limits = zip(AXES, launch.grid, LIMITS.max_grid_dim, strict=True)
    parts = [at_most(f"gridDim.{axis}", expr, limit) for axis, expr, limit in limits if number(expr) is None]
    contract = " and ".join(dict.fromkeys(filter(None, parts)))
    return Conditional(contract) if contract else Proved(assumptions=(POSITIVE,))


RULE = Rule(
    id="launch.grid-dim-limit",
    severity="error",
    summary="a grid dimension is zero or exceeds the device's limit",
    check_repository=check,
)
