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
        "thread 0 waits here while thread 40 waits at line 7"
    )
    assert found.evidence == "confirmed"
    assert found.witness is not None
    assert found.witness.config is not None
    assert found.witness.config.block == (128, 1, 1)
    assert dict(found.witness.arguments)["n"] == 40
    assert [thread for _, thread in found.witness.threads] == [(0, 0, 0), (40, 0, 0)]
    assert [item.span.line for item in found.related] == [3, 7]


STRIDED = """
__global__ void k(const float *x, float *y, int n) {
  __shared__ float s[256];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    s[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = s[0];
    __syncthreads();
  }
}
"""


@pytest.mark.parametrize(("blocks", "n", "block"), [(8, 5000, 3), (1000, 5000, 19), (65535, 20_000_001, 12_590)])
def test_one_block_in_the_middle_parts(blocks: int, n: int, block: int) -> None:
    """All blocks of a small grid are run; in a large one those where executions begin to differ."""
    text = STRIDED + f"void run(const float *x, float *y) {{ k<<<{blocks}, 256>>>(x, y, {n}); }}"
    found = one(text, "sync.barrier-loop-trip")
    assert found.severity == "error"
    assert found.witness is not None
    assert {where for where, _ in found.witness.threads} == {(block, 0, 0)}
    assert n % 256 in {x for _, (x, _, _) in found.witness.threads}  # the first thread past the end


def test_the_gravest_of_what_happens_is_said() -> None:
    """A whole warp leaves first, a mere warning; then lanes of a warp part."""
    text = """
    __device__ void halve(int &w) { w /= 2; __syncthreads(); }
    __global__ void k(int *d) {
      __shared__ int s[64];
      s[threadIdx.x] = d[threadIdx.x];
      __syncthreads();
      int w = 32;
      while (threadIdx.x < w) { s[threadIdx.x] += s[threadIdx.x + w]; halve(w); }
      d[0] = s[0];
    }
    void run(int *d) { k<<<1, 64>>>(d); }"""
    found = one(text, "sync.barrier-loop-trip")
    assert found.severity == "error"
    assert found.witness is not None
    assert found.witness.threads == (((0, 0, 0), (0, 0, 0)), ((0, 0, 0), (1, 0, 0)))
    assert found.witness.detail == "by then 63 of 64 threads had ended: 1-63"


def test_a_warp_split_behind_many_exited_threads() -> None:
    text = """
    __global__ void k(float *y) {
      if (threadIdx.x >= 200) { y[threadIdx.x] = 1.0f; __syncthreads(); }
    }
    void run(float *y) { k<<<1, 256>>>(y); }"""
    found = one(text, "sync.barrier-divergence")
    assert found.severity == "error"
    assert "thread 200 waits here while thread 192 runs on to the end" in found.message


def test_a_constant_count_is_refused_without_a_run() -> None:
    text = """
    __global__ void k(float *y, int n) {
      if (n == 12345) asm volatile("bar.sync 1, 100;" ::: "memory");
      y[threadIdx.x] = 0.0f;
    }
    void run(float *y, int n) { k<<<1, 128>>>(y, n); }"""
    found = one(text, "sync.named-barrier-id")
    assert (found.severity, found.evidence) == ("error", "proved")
    assert found.message == "barrier thread count is 100; it must be a positive multiple of 32"


def test_a_launch_nothing_reaches_confirms_nothing() -> None:
    """The block's 256 threads never meet the instance for 16: the switch goes elsewhere."""
    text = """
    template <int B> __global__ void k(int *y) {
      unsigned mask = 0xffffffffu >> (32 - (B & 31));
      y[threadIdx.x] = __ballot_sync(mask, y[threadIdx.x]);
    }
    void run(int *y) {
      int threads = 256;
      switch (threads) {
        case 16: k<16><<<1, threads>>>(y); break;
        case 256: break;
      }
    }"""
    assert findings(judged(text, ("warp.shuffle-mask",))) == []


def test_messages_are_short() -> None:
    for name in FILES:
        for found in findings(judged((KERNELS / name).read_text())):
            assert len(found.message) <= 240, found.message
            assert found.witness is None or len(found.witness.detail) <= 120, found.witness


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
