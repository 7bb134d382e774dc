"""The pipe: one finding per cause, the same bytes on any machine, nothing lost in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import prelaunch
from prelaunch.analysis import judge as judge_module
from prelaunch.analysis import review as pipe
from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Conditional, Finding, Judgement, Proved, Refuted, Unknown, Witness
from prelaunch.analysis.kernel import Barrier
from prelaunch.analysis.reports.json import render
from prelaunch.analysis.review import Options, Review, merge, review
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.source import Source
from prelaunch.analysis.trace import LaunchConfig
from prelaunch.analysis.walk import walk

TWO_KERNELS = """\
template <int N> __global__ void first(float *x) {
  __syncthreads();
  x[threadIdx.x] = N;
}
__global__ void second(float *x) {
  x[threadIdx.x] = 1;
  __syncthreads();
}
void run(float *x) {
  first<1><<<1, 64>>>(x);
  first<1><<<2, 64>>>(x);
  first<2><<<1, 32>>>(x);
  second<<<1, 64>>>(x);
}
"""


def barriers(facts: Facts) -> Iterator[Judgement]:
    """A rule for tests: every barrier is wrong, under every launch."""
    for stmt in walk(facts.kernel.body):
        if isinstance(stmt, Barrier):
            for launch in facts.launches:
                name = f"{launch.span.file}:{launch.span.line}"
                found = Finding(
                    "sync.test", "error", "proved", "a barrier", stmt.span, facts.kernel.label, "b", launch=name
                )
                yield Judgement("sync.test", facts.kernel.label, name, Refuted(found))


def raising(facts: Facts) -> Iterable[Judgement]:
    if facts.kernel.name == "first":
        raise KeyError("lost")
    return [Judgement("sync.raises", facts.kernel.label, "", Proved())]


def dying(facts: Facts) -> Iterable[Judgement]:
    if facts.kernel.name == "first":
        os._exit(9)
    return [Judgement("sync.dies", facts.kernel.label, "", Proved())]


def overstating(facts: Facts) -> Iterable[Judgement]:
    found = Finding("sync.over", "error", "confirmed", "said to be replayed", facts.kernel.span, facts.kernel.label)
    return [Judgement("sync.over", facts.kernel.label, "", Refuted(found))]


CHECKS = {"sync.test": barriers, "sync.raises": raising, "sync.dies": dying, "sync.over": overstating}


@pytest.fixture
def with_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """``Options.rules`` names rules of this file."""
    made = {name: Rule(name, "error", "s", check=check) for name, check in CHECKS.items()}
    monkeypatch.setattr(pipe, "select", lambda wanted: tuple(made[name] for name in wanted))
    monkeypatch.setattr(pipe, "all_rules", lambda: tuple(made.values()))


def project(folder: Path, text: str = TWO_KERNELS) -> Path:
    path = folder / "a.cu"
    path.write_text(text)
    return path


def reviewed(path: Path, *rules: str, workers: int = 0, cache: Path | None = None) -> Review:
    return review([path], Options(rules, workers, cache))


@pytest.mark.usefixtures("with_rules")
@pytest.mark.parametrize("workers", [0, 2])
def test_one_finding_per_cause(tmp_path: Path, workers: int) -> None:
    result = reviewed(project(tmp_path), "sync.test", workers=workers)
    assert [(f.span.line, f.kernel, f.launch) for f in result.findings] == [
        (2, "first<1>", "a.cu:10"),
        (7, "second", "a.cu:13"),
    ]
    assert result.findings[0].also == ("first<1> at a.cu:11", "first<2> at a.cu:12")
    assert len(result.all_judgements()) == 4
    assert (len(result.kernels), result.analysed) == (2, 2)


@pytest.mark.usefixtures("with_rules")
def test_a_rule_that_raises_costs_its_own_verdict_only(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for _ in range(2):  # the second time from the cache, into which the failure must not have gone
        result = reviewed(project(tmp_path), "sync.raises", "sync.test", cache=cache)
        verdicts = {(j.rule, j.kernel): j.verdict for j in result.all_judgements()}
        reason = "internal error: KeyError in test_review.py:raising: 'lost'"
        assert verdicts["sync.raises", "first<1>"] == Unknown(reason)
        assert verdicts["sync.raises", "second"] == Proved()
        assert len(result.findings) == 2
        assert {(gap.kernel, gap.rule, gap.reason) for gap in result.all_gaps()} == {
            ("first<1>", "sync.raises", reason),
            ("first<2>", "sync.raises", reason),
        }
        assert result.analysed == 1


@pytest.mark.usefixtures("with_rules")
def test_a_worker_that_dies_costs_its_own_kernel_only(tmp_path: Path) -> None:
    result = reviewed(project(tmp_path), "sync.dies", workers=2)
    assert [(g.kernel, g.line, g.reason) for g in result.all_gaps()] == [
        ("first", 1, "guard: the worker died (exit status 9)")
    ]
    assert [(j.kernel, j.verdict) for j in result.all_judgements()] == [("second", Proved())]


@pytest.mark.usefixtures("with_rules")
def test_confirmed_needs_the_numbers_that_were_replayed(tmp_path: Path) -> None:
    result = reviewed(project(tmp_path), "sync.over")
    assert {finding.evidence for finding in result.findings} == {"possible"}


@pytest.mark.usefixtures("with_rules")
def test_suppressed_findings_are_kept_apart(tmp_path: Path) -> None:
    text = TWO_KERNELS.replace("1;\n  __sync", "1;\n  // prelaunch: allow(sync.test) known\n  __sync")
    text += "// prelaunch: allow(sync.test) long gone\n"
    result = reviewed(project(tmp_path, text), "sync.test")
    assert [f.kernel for f in result.findings] == ["first<1>"]
    assert [(s.finding.kernel, s.reason) for s in result.suppressed] == [("second", "known")]
    assert [(note.line, note.message) for note in result.notes] == [
        (16, "allow(sync.test) allows nothing here; remove it")
    ]


@pytest.mark.usefixtures("with_rules")
def test_the_cache_changes_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, path = tmp_path / "cache", project(tmp_path)
    cold = reviewed(path, "sync.test", cache=cache)

    def forbidden(rule: Rule, facts: Facts) -> tuple[tuple[Judgement, ...], bool]:
        raise AssertionError("every verdict was kept")

    monkeypatch.setattr(judge_module, "_check", forbidden)
    warm = reviewed(path, "sync.test", cache=cache)
    assert render(warm, "0") == render(cold, "0")


@pytest.mark.usefixtures("with_rules")
def test_damaged_cache_entries_are_ignored_and_told(tmp_path: Path) -> None:
    cache, path = tmp_path / "cache", project(tmp_path)
    cold = reviewed(path, "sync.test", cache=cache)
    for entry in cache.rglob("*.json"):
        entry.write_text("{}")
    again = reviewed(path, "sync.test", cache=cache)
    assert render(again, "0") == render(cold, "0")
    assert again.remarks == ("3 damaged cache entries ignored",)


def test_launches_of_kernels_elsewhere_are_noted(tmp_path: Path) -> None:
    result = reviewed(project(tmp_path, "__global__ void k();\nvoid f() { k<<<1, 1>>>(); }\n"))
    assert [(n.line, n.message) for n in result.notes] == [(2, "launch of k, whose text is not in the files read")]
    assert result.kernels == ()


def test_launches_pair_with_the_nearest_kernel(tmp_path: Path) -> None:
    for name, block in (("a", 32), ("b", 64)):
        (tmp_path / f"{name}.cu").write_text(
            f"static __global__ void k(int *x) {{ *x = {block}; }}\nvoid {name}(int *x) {{ k<<<1, {block}>>>(x); }}\n"
        )
    result = review([tmp_path], Options(workers=0))
    pairs = [(kernel.file, launch.known_block()) for kernel in result.kernels for launch in kernel.launches]
    assert pairs == [("a.cu", (32, 1, 1)), ("b.cu", (64, 1, 1))]


def test_explicit_instantiations_are_analysed_without_a_launch(tmp_path: Path) -> None:
    text = "template <int N> __global__ void k(int *x) { x[threadIdx.x] = N; }\ntemplate __global__ void k<7>(int *);\n"
    (kernel,) = reviewed(project(tmp_path, text)).kernels
    assert [body.labels for body in kernel.bodies] == [("k<7>",)]


def test_kernels_with_equal_bodies_share_a_verdict(tmp_path: Path) -> None:
    text = (
        "template <int N> __global__ void k(int *x) { x[threadIdx.x] = 1; }\n"
        "void f(int *x) { k<1><<<1, 32>>>(x); k<2><<<1, 64>>>(x); }\n"
    )
    (kernel,) = reviewed(project(tmp_path, text)).kernels
    assert [body.labels for body in kernel.bodies] == [("k<1>", "k<2>")]
    assert len(kernel.launches) == 2


def finding(**fields: object) -> Finding:
    base: dict[str, object] = {
        "rule": "sync.x", "severity": "warning", "evidence": "possible", "message": "m",
        "span": Source("a.cu", b"abc").span(0, 2), "kernel": "k", "key": "b",
    }  # fmt: skip
    return Finding(**{**base, **fields})  # type: ignore[arg-type]  # fields of the test's choice


def test_merging_keeps_the_gravest_statement() -> None:
    weak = finding(launch="l1")
    grave = finding(
        severity="error", evidence="confirmed", launch="l2", witness=Witness(LaunchConfig()), also=("copy",)
    )
    other = finding(key="c")
    judgements = [
        Judgement("sync.x", "k", "l1", Conditional("n > 1", weak)),
        Judgement("sync.x", "k", "l2", Refuted(grave)),
        Judgement("sync.x", "k", "", Refuted(other)),
        Judgement("sync.x", "k", "", Conditional("n > 2")),
    ]
    merged = merge(judgements)
    assert [(f.severity, f.launch, f.key, f.also) for f in merged] == [
        ("error", "l2", "b", ("copy", "k at l1")),
        ("warning", "", "c", ()),
    ]
    assert merge(list(reversed(judgements))) == merged


def run_json(path: Path, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-P", "-m", "prelaunch", "review", "--format", "json", *arguments, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_the_same_bytes_whatever_the_jobs_the_hash_seed_and_the_cache(tmp_path: Path) -> None:
    examples = Path(__file__).parent.parent / "examples"
    cache = str(tmp_path / "cache")
    first = run_json(examples, "--jobs", "0", "--no-cache", PYTHONHASHSEED="1")
    assert run_json(examples, "--jobs", "1", PYTHONHASHSEED="2", PRELAUNCH_CACHE=cache) == first
    assert run_json(examples, "--jobs", "3", PYTHONHASHSEED="3", PRELAUNCH_CACHE=cache) == first
    assert json.loads(first)["findings"], "the examples hold planted defects"


def test_public_api() -> None:
    result = prelaunch.review([Path(__file__).parent.parent / "examples"], prelaunch.Options(workers=0))
    assert isinstance(result, prelaunch.Review)
    assert all(isinstance(item, prelaunch.Finding) for item in result.findings)


def test_sizes_the_host_leaves_open_are_a_contract_and_no_gap(tmp_path: Path) -> None:
    text = "__global__ void k(int *x) { *x = 1; }\nvoid f(int *x, int n) { k<<<1, n>>>(x); }\n"
    result = reviewed(project(tmp_path, text), "launch.block-too-large")
    (judgement,) = result.all_judgements()
    assert isinstance(judgement.verdict, Conditional)
    assert (judgement.rule, judgement.kernel) == ("launch.block-too-large", "k")
    assert judgement.verdict.contract == "n <= 1024"
    assert (result.all_gaps(), result.findings, result.analysed) == ((), (), 1)


def test_unknown_verdicts_about_launches_are_gaps_of_their_kernel(tmp_path: Path) -> None:
    text = "__global__ void k(int *x) { *x = 1; }\nvoid f(int *x) { return; k<<<1, 2048>>>(x); }\n"
    result = reviewed(project(tmp_path, text), "launch.block-too-large")
    (gap,) = result.all_gaps()
    assert (gap.rule, gap.kernel, gap.file, gap.line) == ("launch.block-too-large", "k", "a.cu", 1)
    assert result.analysed == 0


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k(int *x) { x[0] = 1; " + "{" * 100_000,
        "// __global__ in a comment\n#define KERNEL __global__\nint a;\n__global__ void k(int *x",
    ],
    ids=["nested beyond measure", "cut off"],
)
def test_a_kernel_that_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    result = reviewed(project(tmp_path, text), "launch.block-too-large")
    line = text.count("\n") + 1
    assert result.kernels or [(gap.line, gap.reason) for gap in result.all_gaps()] == [(line, pipe.LOST)]
    assert result.all_gaps(), "never shown as clean"


def test_declarations_and_instantiations_are_not_lost_kernels(tmp_path: Path) -> None:
    text = "__global__ void d(int *);\ntemplate <int N> __global__ void k(int *x) { x[0] = N; }\n"
    text += "template __global__ void k<3>(int *);\nstruct S { friend __global__ void d(int *); };\n"
    assert reviewed(project(tmp_path, text), "launch.block-too-large").all_gaps() == ()
