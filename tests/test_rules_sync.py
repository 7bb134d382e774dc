"""Barrier and mask rules on kernels of our own: each marked line is found, with its severity, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Conditional, Finding, Judgement, Proved, Refuted, Unknown
from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.instances import pair
from prelaunch.analysis.rules import find

KERNELS = Path(__file__).parent / "kernels"
RULES = (
    "sync.barrier-divergence", "sync.barrier-early-exit", "sync.barrier-loop-trip", "sync.named-barrier-id",
    "warp.shuffle-mask",
)  # fmt: skip
FILES = ("barriers-uniform.cu", "barriers-divergent.cu", "masks.cu", "named-barriers.cu")


def judged(text: str, rules: tuple[str, ...] = RULES) -> list[Judgement]:
    """All verdicts of ``rules`` on a one-file project, kernel by kernel."""
    project = project_from_text(text)
    sources = {path: file.source for path, file in project.files.items()}
    found: list[Judgement] = []
    for group in pair(project, find_launches(project), lambda path: True).groups:
        for instance in group.instances:
            kernel = lower_kernel(project, project.kernels()[group.index], instance.template_args)
            facts = Facts(kernel, instance.launches, sources)
            for rule in (find(name) for name in rules):
                assert rule.check is not None
                found.extend(rule.check(facts))
    return found


def findings(judgements: list[Judgement]) -> list[Finding]:
    verdicts = [j.verdict for j in judgements if isinstance(j.verdict, Refuted | Conditional)]
    return [v.finding for v in verdicts if v.finding is not None]


def marks(text: str) -> set[tuple[str, str, int]]:
    """(severity, rule, line) of every ``// error: [rule]``."""
    return {
        (match[1], match[2], number)
        for number, line in enumerate(text.splitlines(), 1)
        for match in re.finditer(r"// (error|warning): \[([\w.-]+)\]", line)
    }


@pytest.mark.parametrize("name", FILES)
def test_marked_lines_and_no_others(name: str) -> None:
    text = (KERNELS / name).read_text()
    found = {(f.severity, f.rule, f.span.line) for f in findings(judged(text))}
    assert found == marks(text)


def test_uniform_barriers_are_proved_not_just_quiet() -> None:
    judgements = judged((KERNELS / "barriers-uniform.cu").read_text())
    open_ = [(j.rule, j.kernel, j.verdict) for j in judgements if not isinstance(j.verdict, Proved)]
    assert open_ == []
    assert {j.rule for j in judgements} >= {"sync.barrier-divergence", "sync.barrier-early-exit"}


def test_masks_are_proved_where_nothing_is_marked() -> None:
    text = (KERNELS / "masks.cu").read_text()
    verdicts: dict[str, set[str]] = {}
    for judgement in judged(text, ("warp.shuffle-mask",)):
        verdicts.setdefault(judgement.kernel, set()).add(type(judgement.verdict).__name__)
    wrong = {"five_lanes", "no_lanes", "counted", "guarded", "strangers", "after_return", "stale", "other_vote"}
    assert {name for name, found in verdicts.items() if found == {"Proved"}} == verdicts.keys() - wrong
    assert all("Refuted" in verdicts[name] for name in wrong)


def one(text: str, rule: str) -> Finding:
    (found,) = findings(judged(text, (rule,)))
    return found


GUARDED = """
__global__ void k(float *y, int n) {
  if (threadIdx.x < n) {
    y[threadIdx.x] = 1.0f;
    __syncthreads();
  }
  __syncthreads();
}
"""


def test_the_message_holds_the_counter_example() -> None:
    found = one(GUARDED + "void run(float *y) { k<<<7, 128>>>(y, 40); }", "sync.barrier-divergence")
    assert found.message == (
        "not all threads of the block reach this barrier: `threadIdx.x < n` depends on threadIdx.x; "
        "thread (0, 0, 0) waits here while thread (40, 0, 0) waits at line 7"
    )
    assert found.evidence == "confirmed"
    assert found.witness is not None
    assert found.witness.config is not None
    assert found.witness.config.block == (128, 1, 1)
    assert dict(found.witness.arguments)["n"] == 40
    assert [thread for _, thread in found.witness.threads] == [(0, 0, 0), (40, 0, 0)]
    assert [item.span.line for item in found.related] == [3, 7]


def test_a_block_no_launch_decides_is_conditional_and_a_warning() -> None:
    (judgement,) = judged(GUARDED, ("sync.barrier-divergence",))
    assert isinstance(judgement.verdict, Conditional)
    assert judgement.verdict.finding is not None
    assert judgement.verdict.finding.severity == "warning"
    assert judgement.verdict.finding.evidence == "possible"


def test_arguments_and_assertions_are_respected() -> None:
    launch = "void run(float *y, int n) { k<<<7, 128>>>(y, %s); }"
    (judgement,) = judged(GUARDED + launch % "128", ("sync.barrier-divergence",))
    assert isinstance(judgement.verdict, Proved)
    asserted = GUARDED.replace("if (", "assert(n == 128);\n  if (", 1)
    (judgement,) = judged(asserted + launch % "n", ("sync.barrier-divergence",))
    assert not isinstance(judgement.verdict, Refuted)
    (judgement,) = judged(GUARDED + launch % "n", ("sync.barrier-divergence",))
    assert isinstance(judgement.verdict, Refuted)


def test_what_is_not_modelled_confirms_nothing() -> None:
    text = GUARDED.replace("threadIdx.x < n", "mystery(threadIdx.x, n)") + "void run(float *y) { k<<<1, 64>>>(y, 1); }"
    assert findings(judged(text)) == []
    assert any(isinstance(j.verdict, Unknown) for j in judged(text))


def test_fingerprints_survive_moved_lines_and_tell_causes_apart() -> None:
    text = GUARDED + "void run(float *y) { k<<<7, 128>>>(y, 40); }"
    rule = "sync.barrier-divergence"
    first, moved = one(text, rule), one("// one more line\n\n" + text, rule)
    other = one(text.replace("threadIdx.x < n", "threadIdx.x < n + 1"), rule)
    assert first.fingerprint == moved.fingerprint
    assert first.fingerprint != other.fingerprint


def test_same_text_same_verdicts() -> None:
    text = (KERNELS / "masks.cu").read_text()
    assert judged(text) == judged(text)
