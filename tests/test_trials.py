"""Launches tried on a kernel are those that host code allows."""

from __future__ import annotations

import numpy as np

from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.kernel import Kernel
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay.trials import MAX_TRIALS, Trial, contents, trials

KERNEL = "__global__ void k(const float *x, short *y, int n, int m) { if (threadIdx.x < n) y[threadIdx.x] = x[m]; }\n"


def found(host: str) -> tuple[Kernel, Launch]:
    project = project_from_text(KERNEL + host)
    (declaration,) = project.kernels()
    (launch,) = find_launches(project)
    return lower_kernel(project, declaration), launch


def scalars(trial: Trial) -> tuple[int | float, int | float]:
    return trial.arguments["n"].value, trial.arguments["m"].value


def test_one_host_value_has_one_number() -> None:
    tried = list(trials(*found("void run(float *x, short *y, int n) { k<<<(n + 63) / 64, 64>>>(x, y, n, 2 * n); }")))
    assert 10 <= len(tried) <= MAX_TRIALS
    for trial in tried:
        n, m = scalars(trial)
        assert m == 2 * n
        assert trial.config.grid == ((n + 63) // 64, 1, 1)
        assert trial.config.block == (64, 1, 1)
        assert trial.evidenced
    assert {n for n, _ in map(scalars, tried)} >= {1, 33, 64}


def test_constants_are_kept_and_unknown_arguments_vary() -> None:
    tried = list(trials(*found("void run(float *x, short *y, int m) { k<<<2, 32>>>(x, y, 40, m); }")))
    assert {n for n, _ in map(scalars, tried)} == {40}
    assert len({m for _, m in map(scalars, tried)}) > 3


def test_without_a_launch_several_blocks_are_tried_and_none_is_evidence() -> None:
    kernel, _ = found("void run(float *x, short *y) { k<<<1, 32>>>(x, y, 1, 1); }")
    tried = list(trials(kernel, None))
    assert len({trial.config.block for trial in tried}) > 1
    assert not any(trial.evidenced for trial in tried)


def test_memory_holds_the_pattern_in_the_type_of_the_pointee() -> None:
    kernel, _ = found("void run(float *x, short *y) { k<<<1, 32>>>(x, y, 1, 1); }")
    x, y, *_ = kernel.params
    assert np.frombuffer(contents(kernel, x, "0, 1, 2, …", 16), np.float32).tolist() == [0, 1, 2, 3]
    assert np.frombuffer(contents(kernel, y, "0, 1, 0, 1, …", 6), np.int16).tolist() == [0, 1, 0]
    assert contents(kernel, y, "1", 3) == b"\1\0\0"
