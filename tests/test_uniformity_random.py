"""Random control flow with barriers anywhere: what uniformity calls aligned never goes wrong when it is run.

One direction only: a barrier that uniformity doubts may well be fine.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.interpret import SCHEDULES, prepare, run
from prelaunch.analysis.kernel import U32, Const, Opaque
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay.trials import trials
from prelaunch.analysis.source import NOWHERE
from prelaunch.analysis.sync.barriers import Barriers
from prelaunch.analysis.uniformity import uniformity
from prelaunch.analysis.walk import walk

SEEDS = range(60)
CONDITIONS = (
    "n > 2", "blockIdx.x == 1", "threadIdx.x < 32", "threadIdx.x < 64", "threadIdx.x % 32 == 3", "warp == 1", "k > n",
    "d[n & 7] > 0", "d[threadIdx.x] > 0", "a > b", "b == 1", "a < 5", "s[n & 7] > 1", "s[threadIdx.x & 7] > 1",
    "__syncthreads_or(a > 1)", "__any_sync(0xffffffffu, a > 1)", "min(a, n) > 1", "(a & 1) && n",
)  # fmt: skip
VALUES = (
    "n", "a + 1", "b + 1", "warp", "threadIdx.x", "blockIdx.x", "d[b & 7]", "a * 2", "threadIdx.x >> 5", "7", "a ^ b",
    "s[b & 7]", "__shfl_sync(0xffffffffu, a, 0)", "f(a, b)", "f(b, n)", "b > 3 ? a : n",
)  # fmt: skip


ONE, TWO, BLOCK = Const(1, U32), Const(2, U32), Const(64, U32)
LAUNCH = Launch("k", (), "<<<>>>", (TWO, ONE, ONE), (BLOCK, ONE, ONE), Const(0, U32), (None, None, None), NOWHERE)


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = 0

    def block(self, depth: int, in_loop: bool) -> str:
        return " ".join(self.statement(depth, in_loop) for _ in range(self.rng.randint(1, 3)))

    def statement(self, depth: int, in_loop: bool) -> str:
        pick, cond = self.rng.random(), self.rng.choice(CONDITIONS)
        if pick < 0.25 or depth == 0:
            return "__syncthreads();" if pick < 0.12 else f"{self.rng.choice('ab')} = {self.rng.choice(VALUES)};"
        if pick < 0.35:
            return f"__syncthreads(); if (threadIdx.x < 8) s[threadIdx.x] = {self.rng.choice('ab')}; __syncthreads();"
        if pick < 0.42 and in_loop:
            return f"if ({cond}) {self.rng.choice(('break', 'continue'))};"
        if pick < 0.46:
            return f"if ({cond}) return;"
        if pick < 0.70:
            orelse = f" else {{ {self.block(depth - 1, in_loop)} }}" if self.rng.random() < 0.4 else ""
            return f"if ({cond}) {{ {self.block(depth - 1, in_loop)} }}{orelse}"
        if pick < 0.80:
            first, rest = self.block(depth - 1, in_loop), self.block(depth - 1, in_loop)
            subject = self.rng.choice(("n & 3", "a & 1", "b & 3", "threadIdx.x / 64"))
            end = self.rng.choice(("break;", ""))
            return f"switch ({subject}) {{ case 0: {first} {end} case 1: {rest} break; default: ; }}"
        self.loops += 1
        name, bound = f"i{self.loops}", self.rng.choice(("3", "(n & 3)", "(a & 3)", "(b & 3)", "(warp + 1)"))
        body = self.block(depth - 1, True)
        if self.rng.random() < 0.3:
            return f"{{ int {name} = 0; do {{ ++{name}; {body} }} while ({name} < {bound}); }}"
        return f"for (int {name} = 0; {name} < {bound}; ++{name}) {{ {body} }}"


def kernel_text(seed: int) -> str:
    writer = _Writer(seed)
    body = writer.block(3, False) + writer.block(3, False)
    callee = writer.block(2, False).replace("return;", "return 1;").replace("f(a, b)", "a").replace("f(b, n)", "b")
    return f"""
__device__ int f(int a, int b) {{
  int n = b, warp = a & 1, k = 0; const int *d = 0; __shared__ int s[8];
  if (b > a) return 2;
  {callee.replace("d[", "s[7 & ")}
  return a;
}}
__global__ void k(const int *d, int *out, int n) {{
  __shared__ int s[8];
  int a = threadIdx.x, b = n, warp = threadIdx.x / 32, k = blockIdx.x;
  if (threadIdx.x < 8) s[threadIdx.x] = 0;
  __syncthreads();
  {body}
  out[blockIdx.x * 64 + threadIdx.x] = a + b + k;
}}
"""


def outcome(seed: int) -> str:
    """ "aligned", "doubted" or "not modelled"; fails the test when aligned barriers go wrong in a run."""
    project = project_from_text(kernel_text(seed))
    (declaration,) = project.kernels()
    kernel = lower_kernel(project, declaration)
    if any(isinstance(stmt, Opaque) for stmt in walk(kernel.body)):
        return "not modelled"
    barriers = Barriers(kernel, uniformity(kernel, LAUNCH))
    forbidden = {"divergent-barrier"} if not barriers.suspects else set()
    if not barriers.suspects and not barriers.partial_exits:
        forbidden.add("exited-barrier")
    if not forbidden:
        return "doubted"
    program = prepare(kernel)
    for number, trial in enumerate(trials(kernel, LAUNCH)):
        schedule = SCHEDULES[(1, 3)[number % 2]]
        trace = run(
            program, trial.config, trial.arguments, schedule=schedule, record=False, max_steps=100_000, least=128
        )
        if any(problem.kind == "race" for problem in trace.problems):
            continue
        wrong = [problem.message for problem in trace.problems if problem.kind in forbidden]
        assert not wrong, f"seed {seed}: {wrong}, {trial.shown}\n{kernel_text(seed)}"
        if number == 7:
            break
    return "aligned"


@pytest.mark.parametrize("start", range(0, len(SEEDS), 30))
def test_aligned_barriers_never_diverge(start: int) -> None:
    counts = Counter(outcome(seed) for seed in SEEDS[start : start + 30])
    assert counts["aligned"] >= 3, counts
    assert counts["not modelled"] <= 10, counts
