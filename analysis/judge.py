"""Steps 3, 5, 6 and 7 of a review, for one kernel definition: what a worker process does.

``judge`` lowers every instance, lets equal lowered bodies share one set of facts, and asks every rule. It never
raises for what a rule or the lowering does: that becomes an Unknown verdict with the reason, which is not cached.
Replay is the rules' own duty; ``stated`` holds them to it: a finding that claims a replay must carry its witness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from prelaunch.analysis import serial
from prelaunch.analysis.check import check
from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Conditional, Finding, Judgement, Refuted, Unknown
from prelaunch.analysis.frontends.cuda import lower_kernel
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project
from prelaunch.analysis.instances import Group, Instance
from prelaunch.analysis.jobs import describe
from prelaunch.analysis.kernel import Block, Kernel, Opaque
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.store import Store, facts_digest, key
from prelaunch.analysis.walk import walk

_REPLAYED = ("confirmed", "confirmed-twice")


@dataclass(frozen=True)
class State:
    """What all jobs of a review share; inherited by the workers, never sent."""

    project: Project
    rules: tuple[Rule, ...]
    store: Store | None = None

    def facts(self, kernel: Kernel, launches: tuple[Launch, ...]) -> Facts:
        return Facts(kernel, launches, {path: file.source for path, file in self.project.files.items()})


@dataclass(frozen=True, slots=True)
class Gap:
    """Something about a kernel that was not decided: by one rule, or, with ``rule`` None, by any."""

    kernel: str
    file: str
    line: int
    reason: str
    rule: str | None = None
    launch: str = ""


@dataclass(frozen=True, slots=True)
class Lowered:
    """One distinct lowered body: ``labels`` are the instances that share it, ``header`` the kernel without its body."""

    labels: tuple[str, ...]
    header: Kernel
    statements: int


@dataclass(frozen=True, slots=True)
class Outcome:
    bodies: tuple[Lowered, ...]
    judgements: tuple[Judgement, ...]
    gaps: tuple[Gap, ...]
    damaged: int = 0


def judge(state: State, group: Group) -> Outcome:
    """All verdicts of all kernel rules on one kernel definition."""
    declaration = state.project.kernels()[group.index]
    damaged = state.store.damaged if state.store else 0
    gaps: list[Gap] = []
    bodies: list[Lowered] = []
    judgements: list[Judgement] = []
    if group.dropped:
        gaps.append(_gap(declaration, f"{group.dropped} more template instances than are analysed"))
    for facts, labels in distinct(state, group, declaration, gaps):
        kernel = facts.kernel
        statements = sum(1 for _ in walk(kernel.body))
        bodies.append(Lowered(labels, replace(kernel, body=Block()), statements))
        gaps.extend(opaque_gaps(kernel))
        judgements.extend(_ask(state, facts, labels))
    gaps.extend(
        Gap(j.kernel, declaration.file.source.path, declaration.span.line, j.verdict.reason, j.rule, j.launch)
        for j in judgements
        if isinstance(j.verdict, Unknown)
    )
    damaged = state.store.damaged - damaged if state.store else 0
    return Outcome(tuple(bodies), tuple(judgements), tuple(gaps), damaged)


def distinct(
    state: State, group: Group, declaration: FunctionDecl, gaps: list[Gap]
) -> Iterable[tuple[Facts, tuple[str, ...]]]:
    """Facts per distinct lowered body, launches of equal ones joined, in order of first appearance."""
    found: dict[str, tuple[Kernel, dict[Launch, None], list[str]]] = {}
    for instance in group.instances:
        kernel = _lower(state.project, declaration, instance, gaps)
        if kernel is None:
            continue
        alone = len(group.instances) == 1
        text = "" if alone else serial.canonical(serial.dump(replace(kernel, template_args=())))
        _, launches, labels = found.setdefault(text, (kernel, {}, []))
        launches.update(dict.fromkeys(instance.launches))
        labels.append(kernel.label)
    for kernel, launches, labels in found.values():
        yield state.facts(kernel, tuple(launches)), tuple(labels)


def opaque_gaps(kernel: Kernel) -> list[Gap]:
    """What was not modelled where it matters: constructs that may touch memory or control, and damaged text."""
    gaps = [
        Gap(kernel.label, stmt.span.file, stmt.span.line, f"not modelled: {stmt.reason}")
        for stmt in walk(kernel.body)
        if isinstance(stmt, Opaque) and stmt.touches & {"memory", "control"}
    ]
    if kernel.confidence != "clean":
        gaps.append(Gap(kernel.label, kernel.span.file, kernel.span.line, kernel.confidence))
    return list(dict.fromkeys(gaps))


def _lower(project: Project, declaration: FunctionDecl, instance: Instance, gaps: list[Gap]) -> Kernel | None:
    try:
        kernel = lower_kernel(project, declaration, instance.template_args)
        faults = check(kernel)
    except Exception as error:
        gaps.append(_gap(declaration, describe(error)))
        return None
    if faults:
        gaps.append(_gap(declaration, f"internal error: ill-formed lowering: {faults[0]}"))
        return None
    return kernel


def _gap(declaration: FunctionDecl, reason: str) -> Gap:
    return Gap(declaration.qualified, declaration.file.source.path, declaration.span.line, reason)


def _ask(state: State, facts: Facts, labels: tuple[str, ...]) -> Iterable[Judgement]:
    digest = facts_digest(facts) if state.store else ""
    for rule in state.rules:
        if rule.check is None:
            continue
        entry = key(digest, rule) if state.store else ""
        judgements = state.store.get(entry) if state.store else None
        if judgements is None:
            judgements, cacheable = _check(rule, facts)
            if state.store and cacheable:
                state.store.put(entry, judgements)
        yield from (_shared(judgement, labels) for judgement in judgements)


def _check(rule: Rule, facts: Facts) -> tuple[tuple[Judgement, ...], bool]:
    """The rule's judgements and whether they may be kept; an exception is an Unknown that may not."""
    assert rule.check is not None
    try:
        return tuple(stated(judgement) for judgement in rule.check(facts)), True
    except Exception as error:
        return (Judgement(rule.id, facts.kernel.label, "", Unknown(describe(error))),), False


def stated(judgement: Judgement) -> Judgement:
    """Step 7: evidence that says "replayed" needs the numbers that were replayed; without them it is "possible"."""
    verdict = judgement.verdict
    if not isinstance(verdict, Refuted | Conditional) or verdict.finding is None:
        return judgement
    finding = verdict.finding
    if finding.evidence not in _REPLAYED or (finding.witness and finding.witness.config):
        return judgement
    return replace(judgement, verdict=replace(verdict, finding=replace(finding, evidence="possible")))


def _shared(judgement: Judgement, labels: tuple[str, ...]) -> Judgement:
    """Names the other instances a verdict holds for, in the finding."""
    verdict, others = judgement.verdict, labels[1:]
    if not others or not isinstance(verdict, Refuted | Conditional) or verdict.finding is None:
        return judgement
    finding: Finding = verdict.finding
    also = (*finding.also, *(f"instance {label}" for label in others))
    return replace(judgement, verdict=replace(verdict, finding=replace(finding, also=also)))
