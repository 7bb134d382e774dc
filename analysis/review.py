"""The pipe, top to bottom. ``review`` runs it; ``prelaunch.analysis.stages`` prints any of its stages.

Guarantees: the same files give the same Review, byte for byte in JSON, whatever the number of jobs, the load, the
hash seed or what the cache holds; every kernel under review is in ``kernels``, and what was not decided about it is in
``gaps`` with the reason. Nothing of the repository is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from prelaunch.analysis import jobs
from prelaunch.analysis.discover import Discovery, Skipped, discover
from prelaunch.analysis.facts import Facts, RepositoryFacts
from prelaunch.analysis.finding import SEVERITIES, Conditional, Finding, Judgement, Refuted, Unknown
from prelaunch.analysis.frontends.cuda import load_project
from prelaunch.analysis.frontends.cuda.text.declarations import Project
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.instances import Pairing, pair
from prelaunch.analysis.jobs import Done, Failed
from prelaunch.analysis.judge import Gap, Lowered, Outcome, State, judge, stated
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.lost import lost_kernels
from prelaunch.analysis.replay import launch_name
from prelaunch.analysis.rules import rules as all_rules
from prelaunch.analysis.rules import select
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.source import Source
from prelaunch.analysis.store import Store
from prelaunch.analysis.suppress import Note, Suppressed, suppress

Progress = Callable[[str, int, int], None]
"""Called with a stage's name, how many of its units are done, and how many there are."""

_EVIDENCE = ("confirmed-twice", "confirmed", "proved", "compiled", "measured", "modelled", "possible")
_SECONDS_BASE, _SECONDS_INSTANCE, _SECONDS_FILE = 60.0, 15.0, 1.0
LOST = "the text says __global__, but no kernel could be read here"


@dataclass(frozen=True, slots=True)
class Options:
    """``rules``: ids or families, all when empty. ``workers``: processes, None for one per processor, 0 for none.

    ``cache``: folder of the content store; None for no store. ``vendored``: review third-party folders too.
    """

    rules: tuple[str, ...] = ()
    workers: int | None = None
    cache: Path | None = None
    vendored: bool = False


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel definition under review: bodies lowered, launches that reach it, verdicts, and what is left open."""

    name: str
    file: str
    line: int
    launches: tuple[Launch, ...]
    bodies: tuple[Lowered, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class Review:
    """What a review found and what it could not decide. ``sources`` are the files read, by path.

    ``judgements`` and ``gaps`` are those of no single kernel; ``remarks`` are about this run only (a damaged cache)
    and no part of the result.
    """

    discovery: Discovery
    rules: tuple[Rule, ...]
    kernels: tuple[KernelReport, ...]
    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    gaps: tuple[Gap, ...]
    suppressed: tuple[Suppressed, ...]
    notes: tuple[Note, ...]
    sources: Mapping[str, Source]
    remarks: tuple[str, ...] = ()

    @property
    def analysed(self) -> int:
        """Kernels about which nothing was left open."""
        return sum(not kernel.gaps for kernel in self.kernels)

    def all_gaps(self) -> tuple[Gap, ...]:
        return (*self.gaps, *(gap for kernel in self.kernels for gap in kernel.gaps))

    def all_judgements(self) -> tuple[Judgement, ...]:
        return (*(item for kernel in self.kernels for item in kernel.judgements), *self.judgements)


def review(paths: Sequence[str | Path], options: Options | None = None, progress: Progress | None = None) -> Review:
    """Reviews the CUDA code under ``paths``. Raises NothingToReview and RegistryError, nothing for what files hold."""
    options = options or Options()
    tell = progress or (lambda stage, done, total: None)
    rules = select(options.rules)
    # 1. discover
    discovery = discover([Path(path) for path in paths], vendored=options.vendored)
    # 2. parse
    tell("parse", 0, len(discovery.files) + len(discovery.included))
    state = prepare(discovery, rules, options.cache)
    workers = jobs.default_workers() if options.workers is None else options.workers
    # 4. launches found in host code, paired with kernels
    launches, gaps = _launches(state, discovery, options, workers)
    gaps += [Gap("", *place, LOST) for place in lost_kernels(state.project, discovery.reviews)]
    pairing = pair(state.project, launches, discovery.reviews)
    # 3, 5, 6, 7. lower, facts, rules, replay: one job a kernel
    outcomes = _judge_all(state, pairing, discovery, options, workers, tell)
    kernels = _collect(state.project, pairing, outcomes)
    judgements = _repository_rules(state, kernels, launches)
    kernels, more = _attach(kernels, judgements)
    gaps += more
    # 8. findings
    shown, hidden, notes = suppress(
        merge([*(item for kernel in kernels for item in kernel.judgements), *judgements]),
        _sources(state.project, discovery),
        known=frozenset(rule.id for rule in all_rules()),
        decided=_decided(rules, [*gaps, *(gap for kernel in kernels for gap in kernel.gaps)]),
    )
    # 9. the result, from which reports are made
    damaged = sum(outcome.value.damaged for outcome in outcomes if isinstance(outcome, Done))
    return Review(
        replace(discovery, skipped=tuple(sorted({*discovery.skipped, *_unread(state.project)}))),
        rules,
        tuple(kernels),
        tuple(shown),
        tuple(judgements),
        tuple(gaps),
        tuple(hidden),
        tuple(sorted({*notes, *_pairing_notes(pairing)})),
        {path: file.source for path, file in state.project.files.items()},
        (f"{damaged} damaged cache entries ignored",) if damaged else (),
    )


def prepare(discovery: Discovery, rules: tuple[Rule, ...], cache: Path | None) -> State:
    """Step 2: everything read and parsed."""
    paths = [Path(name) for name in sorted({*discovery.files, *discovery.included})]
    store = Store(cache) if cache else None
    if store:
        store.prepare()
    return State(load_project(discovery.root, paths), rules, store)


def _rebuild(discovery: Discovery, wanted: tuple[str, ...], cache: Path | None) -> State:
    return prepare(discovery, select(wanted), cache)


def _launches(
    state: State, discovery: Discovery, options: Options, workers: int
) -> tuple[tuple[Launch, ...], list[Gap]]:
    """Launches of the project; when finding them fails, none, and a gap that says so."""
    (outcome,) = jobs.run_jobs(
        _find_launches,
        [None],
        state,
        partial(_rebuild, discovery, options.rules, options.cache),
        workers=min(workers, 1),
        seconds=lambda _: 2 * _SECONDS_BASE + _SECONDS_FILE * len(state.project.files),
    )
    if isinstance(outcome, Failed):
        first = discovery.files[0]
        return (), [Gap("", first, 1, f"launches not found in host code: {outcome.reason}")]
    from prelaunch.analysis import serial

    return serial.load(outcome.value), []


def _find_launches(state: State, _: None) -> Any:
    """Launches in a form that travels at any depth of their expressions."""
    from prelaunch.analysis import serial

    return serial.dump(tuple(find_launches(state.project)))


def _judge_all(
    state: State, pairing: Pairing, discovery: Discovery, options: Options, workers: int, tell: Progress
) -> list[Done[Outcome] | Failed]:
    total = len(pairing.groups)
    tell("kernels", 0, total)
    return jobs.run_jobs(
        judge,
        pairing.groups,
        state,
        partial(_rebuild, discovery, options.rules, options.cache),
        workers=workers if total else 0,
        seconds=lambda group: _SECONDS_BASE + _SECONDS_INSTANCE * len(group.instances),
        on_outcome=lambda done: tell("kernels", done, total),
    )


def _collect(project: Project, pairing: Pairing, outcomes: list[Done[Outcome] | Failed]) -> list[KernelReport]:
    kernels: list[KernelReport] = []
    declarations = project.kernels()
    for group, outcome in zip(pairing.groups, outcomes, strict=True):
        declaration = declarations[group.index]
        launches = tuple(launch for instance in group.instances for launch in instance.launches)
        kernel = KernelReport(group.name, declaration.file.source.path, declaration.span.line, launches)
        if isinstance(outcome, Failed):
            gap = Gap(kernel.name, kernel.file, kernel.line, outcome.reason)
            kernels.append(replace(kernel, gaps=(gap,)))
        else:
            value = outcome.value
            kernels.append(replace(kernel, bodies=value.bodies, judgements=value.judgements, gaps=value.gaps))
    return kernels


def _repository_rules(state: State, kernels: list[KernelReport], launches: tuple[Launch, ...]) -> list[Judgement]:
    """Rules that speak once for all; they see kernels without bodies."""
    sources = {path: file.source for path, file in state.project.files.items()}
    facts = RepositoryFacts(
        tuple(Facts(body.header, kernel.launches, sources) for kernel in kernels for body in kernel.bodies),
        launches,
        sources,
    )
    judgements: list[Judgement] = []
    for rule in state.rules:
        if rule.check_repository is None:
            continue
        try:
            judgements.extend(stated(judgement) for judgement in rule.check_repository(facts))
        except Exception as error:
            judgements.append(Judgement(rule.id, "", "", Unknown(jobs.describe(error))))
    return judgements


def _attach(kernels: list[KernelReport], judgements: list[Judgement]) -> tuple[list[KernelReport], list[Gap]]:
    """Gives unknown verdicts of repository rules to the kernels they are about; those about none are returned."""
    owners = {
        (kernel.name, launch_name(launch)): number
        for number, kernel in enumerate(kernels)
        for launch in kernel.launches
    }
    attached: dict[int, list[Gap]] = {}
    rest: list[Gap] = []
    for item in judgements:
        if isinstance(item.verdict, Unknown):
            number = owners.get((item.kernel.partition("<")[0], item.launch))
            if number is None:
                rest.append(Gap(item.kernel, "", 0, item.verdict.reason, item.rule, item.launch))
            else:
                kernel = kernels[number]
                gap = Gap(item.kernel, kernel.file, kernel.line, item.verdict.reason, item.rule, item.launch)
                attached.setdefault(number, []).append(gap)
    made = [replace(k, gaps=(*k.gaps, *attached.get(number, ()))) for number, k in enumerate(kernels)]
    return made, rest


def merge(judgements: Iterable[Judgement]) -> list[Finding]:
    """One finding per cause (rule, place and key), the gravest first; further kernels and launches in ``also``."""
    causes: dict[tuple[str, str, int, int, str], list[Finding]] = {}
    for judgement in judgements:
        verdict = judgement.verdict
        if isinstance(verdict, Refuted | Conditional) and verdict.finding is not None:
            finding, span = verdict.finding, verdict.finding.span
            cause = (finding.rule, span.file, span.start, span.end, " ".join(finding.key.split()))
            causes.setdefault(cause, []).append(finding)
    merged = [_merge_cause(sorted(same, key=_gravity)) for same in causes.values()]
    return sorted(
        merged, key=lambda f: (SEVERITIES.index(f.severity), f.span.file, f.span.start, f.rule, f.kernel, f.key)
    )


def _gravity(finding: Finding) -> tuple[int, int]:
    return SEVERITIES.index(finding.severity), _EVIDENCE.index(finding.evidence)


def _merge_cause(same: list[Finding]) -> Finding:
    first, others = same[0], same[1:]
    also = dict.fromkeys(first.also)
    for other in others:
        if (other.kernel, other.launch) != (first.kernel, first.launch):
            also[f"{other.kernel} at {other.launch}" if other.launch else other.kernel] = None
        also.update(dict.fromkeys(other.also))
    return replace(first, also=tuple(also), count=max(f.count for f in same))


def _decided(rules: tuple[Rule, ...], gaps: list[Gap]) -> Callable[[str, str], bool]:
    ran = {rule.id for rule in rules}

    def decided(rule: str, file: str) -> bool:
        return rule in ran and not any(gap.file == file and gap.rule in (None, rule) for gap in gaps)

    return decided


def _sources(project: Project, discovery: Discovery) -> dict[str, Source]:
    return {path: file.source for path, file in project.files.items() if discovery.reviews(path)}


def _unread(project: Project) -> list[Skipped]:
    return [Skipped(path, reason) for path, reason in project.failures]


def _pairing_notes(pairing: Pairing) -> list[Note]:
    return [
        Note(launch.span.file, launch.span.line, f"launch of {launch.kernel}, whose text is not in the files read")
        for launch in pairing.unpaired
    ]
