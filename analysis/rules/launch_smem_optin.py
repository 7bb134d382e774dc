"""launch.smem-optin: more shared memory than a block gets without asking, or than a device has."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis import hardware
from prelaunch.analysis.facts import RepositoryFacts
from prelaunch.analysis.finding import Assumption, Judgement, Proved, Unknown, Verdict
from prelaunch.analysis.hostir.ranges import bounds
from prelaunch.analysis.kernel import Cast, Expr
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay import launch_name, readable
from prelaunch.analysis.rules._launches import kernel_facts, label, number, origin, refuted
from prelaunch.analysis.rules.base import Rule

TARGETS = tuple(hardware.capability(name) for name in hardware.DEFAULT_TARGETS)
DEFAULT = TARGETS[0].shared_per_block  # the same on every capability in the table
ATTRIBUTE = "cudaFuncAttributeMaxDynamicSharedMemorySize"


def check(facts: RepositoryFacts) -> Iterator[Judgement]:
    for launch in facts.launches:
        static = _static(facts, launch)
        dynamic = number(launch.dynamic_smem)
        if dynamic is None:
            yield Judgement(RULE.id, label(launch), launch_name(launch), _symbolic(launch, static))
        else:
            yield _decided(facts, launch, static, dynamic)


def _static(facts: RepositoryFacts, launch: Launch) -> int:
    """Bytes of static shared memory: the least of the instances a launch can start."""
    sizes = [
        sum(o.size or 0 for o in f.kernel.objects if o.space == "shared" and not o.dynamic)
        for f in kernel_facts(facts, launch)
    ]
    return min(sizes, default=0)


def _decided(facts: RepositoryFacts, launch: Launch, static: int, dynamic: int) -> Judgement:
    total = static + dynamic
    size = _size(static, dynamic)
    most = max(target.shared_per_block_optin for target in TARGETS)
    allowed = dict(launch.attributes).get("max_dynamic_smem")
    limit = number(allowed) if allowed is not None else None
    effect = "the launch fails with an invalid argument; the kernel does not run"
    if total > most:
        return refuted(
            facts, RULE.id, launch,
            f"{label(launch)} asks for {size}; no target has more than {most} bytes a block "
            f"({_targets(most)}){origin(facts, launch)}",
            effect=effect, fix="use smaller tiles, or keep part of the data in registers",
        )  # fmt: skip
    if total > DEFAULT and allowed is None:
        return refuted(
            facts, RULE.id, launch,
            f"{label(launch)} asks for {size}, {total - DEFAULT} more than the {DEFAULT} a block gets by default, "
            f"and {ATTRIBUTE} is not set for it",
            effect=effect,
            fix=f"call cudaFuncSetAttribute({launch.kernel}, {ATTRIBUTE}, {dynamic}) before the launch",
        )  # fmt: skip
    if total > DEFAULT and limit is not None and limit < dynamic:
        return refuted(
            facts, RULE.id, launch,
            f"{label(launch)} asks for {size}, but {ATTRIBUTE} is set to {limit} bytes for it",
            effect=effect, fix=f"set {ATTRIBUTE} to the {dynamic} bytes of the launch",
        )  # fmt: skip
    return Judgement(RULE.id, label(launch), launch_name(launch), _fits(launch, total, dynamic, allowed, limit))


def _fits(launch: Launch, total: int, dynamic: int, allowed: Expr | None, limit: int | None) -> Verdict:
    if total <= DEFAULT:
        return Proved()
    small = [target for target in TARGETS if target.shared_per_block_optin < total]
    if small:
        names = " and ".join(t.target for t in TARGETS if t not in small)
        return Unknown(f"{total} bytes fit {names} only; the code does not say where it runs")
    if allowed is not None and limit is None:
        return Unknown(f"{ATTRIBUTE} is set to {readable(allowed)}, which the code does not decide")
    return Proved(
        assumptions=tuple(Assumption(note, "host code") for note in launch.notes if "not on this path" in note)
    )


def _symbolic(launch: Launch, static: int) -> Verdict:
    """A size that is not a number: fine when its bound is, or when the attribute is set to the same expression."""
    assumed = (Assumption("sizes passed by host code are positive", "default"),)
    if static + bounds(launch.dynamic_smem)[1] <= DEFAULT:
        return Proved(assumptions=assumed)
    allowed = dict(launch.attributes).get("max_dynamic_smem")
    if allowed is not None and _bare(allowed) == _bare(launch.dynamic_smem):
        return Unknown(
            f"{readable(launch.dynamic_smem)} bytes are opted in to; whether a device has them is not decided"
        )
    return Unknown(f"dynamic shared memory = {readable(launch.dynamic_smem)} is not decided by the code")


def _bare(expr: Expr) -> Expr:
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr


def _size(static: int, dynamic: int) -> str:
    if not static:
        return f"{dynamic} bytes of dynamic shared memory"
    return f"{static + dynamic} bytes of shared memory ({dynamic} dynamic + {static} static)"


def _targets(most: int) -> str:
    return ", ".join(f"{t.target} has {t.shared_per_block_optin}" for t in TARGETS)


RULE = Rule(
    id="launch.smem-optin",
    severity="error",
    summary="more shared memory than a block gets without opting in, or than the device has",
    check_repository=check,
)
