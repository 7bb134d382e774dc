"""Slices of kernels: the same barriers and exchanges go wrong, in the same threads, as in the whole kernel."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.instances import pair
from prelaunch.analysis.interpret import prepare, run
from prelaunch.analysis.kernel import Assign, Kernel, Load, Loop, Store
from prelaunch.analysis.replay.slice import control_slice
from prelaunch.analysis.replay.trials import trials
from prelaunch.analysis.trace import Argument, LaunchConfig
from prelaunch.analysis.walk import defined, walk

KERNELS = Path(__file__).parent / "kernels"
KINDS = ("divergent-barrier", "exited-barrier", "bad-mask", "named-barrier-id")
FILES = ("barriers-uniform.cu", "barriers-divergent.cu", "masks.cu", "named-barriers.cu", "interpret-reductions.cu")


def lowered(text: str) -> list[Kernel]:
    project = project_from_text(text)
    groups = pair(project, find_launches(project), lambda path: True).groups
    return [lower_kernel(project, project.kernels()[g.index], i.template_args) for g in groups for i in g.instances]


@pytest.mark.parametrize("name", FILES)
def test_same_problems_as_the_whole_kernel(name: str) -> None:
    for kernel in lowered((KERNELS / name).read_text()):
        programs = [prepare(kernel), prepare(control_slice(kernel))]
        for number, trial in enumerate(trials(kernel, None)):
            seen = []
            for program in programs:
                trace = run(program, trial.config, trial.arguments, record=False, blocks=(0,), max_steps=200_000)
                seen.append([p for p in trace.problems if p.kind in KINDS] if trace.status != "steps" else None)
            assert None in seen or seen[0] == seen[1], f"{kernel.label} {trial.shown}"
            if number == 5:
                break


PIPELINE = """
__global__ void k(const float *x, float *y, const int *bound, int n) {
  __shared__ float s[64];
  __shared__ int limit;
  float sum = 0.0f;
  if (threadIdx.x == 0) limit = bound[blockIdx.x];
  __syncthreads();
  for (int i = 0; i < limit; ++i) {
    s[threadIdx.x] = x[i * 64 + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 64; ++j) sum += s[j] * s[j];
    __syncthreads();
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""


def test_arithmetic_goes_and_what_bounds_a_loop_through_memory_stays() -> None:
    (kernel,) = lowered(PIPELINE)
    kept = list(walk(control_slice(kernel).body))
    assert sum(isinstance(stmt, Loop) for stmt in kept) == 1
    names = {stmt.var.name for stmt in kept if isinstance(stmt, Assign)}
    assert "i" in names
    assert "sum" not in names
    assert {stmt.span.line for stmt in kept if isinstance(stmt, Store)} == {6}
    assert {stmt.span.line for stmt in kept if isinstance(stmt, Load)} == {6, 8}
    bound = Argument(data=b"\x05\0\0\0")
    steps = []
    for program in (kernel, control_slice(kernel)):
        config = LaunchConfig((1, 1, 1), (64, 1, 1))
        data = Argument(data=bytes(4096))
        trace = run(program, config, {"x": data, "y": data, "bound": bound, "n": Argument(0)}, max_steps=1_000_000)
        assert trace.status == "done"
        barriers = [e for e in trace.events if e.mode == "barrier" and e.thread == 0]
        assert len(barriers) == 11
        steps.append(trace.steps)
    assert steps[1] * 10 < steps[0]


def test_a_jump_keeps_the_branch_it_stands_in() -> None:
    text = """
    __global__ void k(const float *x, float *y, int n) {
      float best = 0.0f;
      for (int i = 0; i < n; ++i) {
        float v = x[i * 32 + threadIdx.x];
        if (v > 2.0f) { y[i] = v; break; }
        best += v;
        __syncthreads();
      }
      y[threadIdx.x] = best;
    }"""
    (kernel,) = lowered(text)
    names = {var.name for stmt in walk(control_slice(kernel).body) for var in defined(stmt)}
    assert "v" in names
    assert "best" not in names
    rng = Random(7)
    values = bytes(rng.choice((0, 0, 0, 64)) if i % 4 == 3 else 0 for i in range(32 * 8 * 4))  # floats 0 and 2
    arguments = {"x": Argument(data=values), "y": Argument(data=bytes(4096)), "n": Argument(8)}
    config = LaunchConfig((1, 1, 1), (32, 1, 1))
    whole, part = (run(k, config, arguments, record=False) for k in (kernel, control_slice(kernel)))
    assert [p for p in whole.problems if p.kind in KINDS] == [p for p in part.problems if p.kind in KINDS]
