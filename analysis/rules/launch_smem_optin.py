"""launch.smem-optin: more shared memory than a block gets without asking, or than a device has."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis import hardware
from prelaunch.analysis.facts import RepositoryFacts
from prelaunch.analysis.finding import Assumption, Conditional, Judgement, Proved, Unknown, Verdict
from prelaunch.analysis.kernel import Expr
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay import launch_name
from prelaunch.analysis.rules._contracts import bare, host_text, range_of, understood
from prelaunch.analysis.rules._launches import POSITIVE, kernel_facts, label, lost, number, refuted
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
            f"({_targets()})",
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
    """The verdict on a size that is a number with which nothing is wrong."""
    if total <= DEFAULT:
        return Proved()
    parts: list[str] = []
    if allowed is not None and limit is None:
        if not understood(allowed):
            return Unknown(f"the value {ATTRIBUTE} is set to is not understood")
        parts.append(f"{host_text(bare(allowed), ATTRIBUTE)} >= {dynamic}")
    if any(target.shared_per_block_optin < total for target in TARGETS):
        parts.append(f"target is {_fitting(total)}")
    if parts:
        return Conditional(" and ".join(parts))
    return Proved(
        assumptions=tuple(Assumption(note, "host code") for note in launch.notes if "not on this path" in note)
    )


def _fitting(total: int) -> str:
    """The targets a block of ``total`` bytes fits: ``sm_90 or newer`` where that is true of the whole table."""
    table = hardware.capabilities()
    names = [c.target for c in table if c.shared_per_block_optin >= total]
    if names == [c.target for c in table[-len(names) :]]:
        return f"{names[0]} or newer"
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _symbolic(launch: Launch, static: int) -> Verdict:
    """The verdict on a size that is not a number: what it may be at most, with the attribute as it is set."""
    expr = bare(launch.dynamic_smem)
    reason = lost(launch, [("shared memory.x", launch.dynamic_smem)]).replace("memory.x", "memory")
    if reason:
        return Unknown(reason)
    most = range_of(expr)[1]
    if static + most <= DEFAULT:
        return Proved(assumptions=(POSITIVE,))
    size = host_text(expr, "bytes of dynamic shared memory")
    allowed = dict(launch.attributes).get("max_dynamic_smem")
    if allowed is None:
        return Conditional(f"{size} <= {DEFAULT - static}")
    ceiling = min(target.shared_per_block_optin for target in TARGETS) - static
    limit = number(allowed)
    if limit is not None:
        return Conditional(f"{size} <= {max(min(limit, ceiling), DEFAULT - static)}")
    parts = [f"{size} <= {ceiling}"]
    if bare(allowed) != expr:
        if not understood(allowed):
            return Unknown(f"the value {ATTRIBUTE} is set to is not understood")
        parts.append(f"{size} <= {host_text(bare(allowed), ATTRIBUTE)}")
    return Conditional(" and ".join(parts))


def _size(static: int, dynamic: int) -> str:
    if not static:
        return f"{dynamic} bytes of dynamic shared memory"
    return f"{static + dynamic} bytes of shared memory ({dynamic} dynamic + {static} static)"


def _targets() -> str:
    return ", ".join(f"{t.target} has {t.shared_per_block_optin}" for t in TARGETS)


RULE = Rule(
    id="launch.smem-optin",
    severity="error",
    summary="more shared memory than a block gets without opting in, or than the device has",
    check_repository=check,
)
