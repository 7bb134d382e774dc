"""Jobs: one that dies costs only itself, and the order of outcomes is the order of jobs."""

from __future__ import annotations

import os
import time

import pytest

from prelaunch.analysis.jobs import Done, Failed, describe, run_jobs

DIE, HANG, BUSY, GREEDY, RAISE, DEEP = range(-6, 0)


def work(offset: int, item: int) -> int:
    if item == DIE:
        os._exit(7)
    if item == HANG:
        time.sleep(60)
    while item == BUSY:
        offset += 1
    if item == GREEDY:
        return len(bytearray(8 << 30))
    if item == RAISE:
        raise ValueError("bad\nsecond line")
    if item == DEEP:
        return work(offset, item)
    time.sleep(0.02 * (5 - item))  # later jobs finish first
    return offset + item


def rebuild() -> int:
    return 100


def run(items: list[int], workers: int) -> list[Done[int] | Failed]:
    return run_jobs(
        work, items, 100, rebuild, workers=workers, seconds=lambda item: 0.2 if item == HANG else 1, patience=15
    )


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_outcomes_are_in_order(workers: int) -> None:
    assert run([1, 2, 3, 4], workers) == [Done(101), Done(102), Done(103), Done(104)]


def test_a_dead_job_costs_only_itself() -> None:
    outcomes = run([1, DIE, 2, HANG, BUSY, GREEDY, 3, RAISE, DEEP, 4], 2)
    assert [o.value for o in outcomes if isinstance(o, Done)] == [101, 102, 103, 104]
    reasons = [o.reason for o in outcomes if isinstance(o, Failed)]
    assert reasons[:4] == [
        "guard: the worker died (exit status 7)",
        "guard: stopped after 3 s",
        "guard: more than 1 s of processor time",
        "guard: out of memory",
    ]
    assert reasons[4] == "internal error: ValueError in test_jobs.py:work: bad"
    assert reasons[5].startswith("internal error: RecursionError in test_jobs.py:work")


def test_reasons_name_no_folder() -> None:
    with pytest.raises(ValueError, match="bad") as caught:
        work(0, RAISE)
    assert os.sep not in describe(caught.value), "reasons must be the same on every machine"
