"""The interpreter on CUDA text: right results under every schedule, and problems at the right lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.interpret import SCHEDULES, Schedule, default_arguments, find_races, run
from prelaunch.analysis.kernel import Kernel
from prelaunch.analysis.trace import Argument, LaunchConfig, Trace

KERNELS = Path(__file__).parent / "kernels"
IDS = [f"{s.width}-{s.order}" for s in SCHEDULES]


@cache
def _text(file: str) -> str:
    return (KERNELS / f"interpret-{file}.cu").read_text(encoding="utf-8")


@cache
def _kernel(file: str, name: str) -> Kernel:
    project = project_from_text(_text(file), f"interpret-{file}.cu")
    (found,) = [k for k in project.kernels() if k.name == name]
    return lower_kernel(project, found)


def _lines(file: str, name: str, mark: str) -> set[int]:
    """Lines of kernel ``name`` that end in ``// mark``."""
    lines = _text(file).splitlines()
    start = next(i for i, line in enumerate(lines) if f" {name}(" in line and "__global__" in line)
    marked = set()
    for i in range(start, len(lines)):
        if lines[i].rstrip().endswith(f"// {mark}"):
            marked.add(i + 1)
        if lines[i].startswith("}") or lines[i].endswith("; }"):
            break
    return marked


def _run(
    file: str,
    name: str,
    config: LaunchConfig,
    schedule: Schedule = SCHEDULES[0],
    arguments: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[Trace, Kernel]:
    """Arrays become buffers, numbers values."""
    kernel = _kernel(file, name)
    given = {
        k: Argument(data=v.tobytes()) if isinstance(v, np.ndarray) else Argument(value=v)
        for k, v in {**(arguments or {}), **more}.items()
    }
    return run(kernel, config, given, schedule=schedule), kernel


def _result(trace: Trace, name: str = "out", kind: Any = np.int32) -> list[Any]:
    return np.frombuffer(trace.memory[name], kind).tolist()  # type: ignore[no-any-return]  # tolist is untyped


def _clean(trace: Trace) -> None:
    assert (trace.status, trace.reason) == ("done", "")
    assert trace.problems == ()


def _one_block(threads: int) -> LaunchConfig:
    return LaunchConfig((1, 1, 1), (threads, 1, 1))


X = np.random.default_rng(7).integers(-50, 50, 256).astype(np.int32)
ZEROS = np.zeros(8, np.int32)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
@pytest.mark.parametrize(
    ("name", "threads", "extra"),
    [
        ("tree_sum", 64, {}), ("shuffle_sum", 64, {}), ("warp_tree_sum", 32, {}), ("atomic_sum", 64, {}),
        ("last_block_sum", 32, {"partial": ZEROS}), ("spin_lock_sum", 32, {"lock": ZEROS}),
        ("queue_sum", 16, {"ticket": ZEROS}),
    ],
)  # fmt: skip
def test_sums_are_right_under_every_schedule(
    name: str, threads: int, extra: dict[str, Any], schedule: Schedule
) -> None:
    trace, kernel = _run(
        "reductions", name, LaunchConfig((2, 1, 1), (threads, 1, 1)), schedule, x=X, out=np.zeros(2, np.int32), **extra
    )
    _clean(trace)
    assert _result(trace) == [int(X[:threads].sum()), int(X[threads : 2 * threads].sum())]
    if name in ("tree_sum", "shuffle_sum", "warp_tree_sum", "atomic_sum"):
        assert find_races(trace, kernel) == ()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
@pytest.mark.parametrize(("name", "threads"), [("tree_sum_racy", 64), ("warp_tree_sum_racy", 32)])
def test_missing_barrier_is_a_race_at_its_lines_under_every_schedule(
    name: str, threads: int, schedule: Schedule
) -> None:
    trace, kernel = _run("reductions", name, _one_block(threads), schedule, x=X, out=ZEROS)
    races = find_races(trace, kernel)
    assert races
    assert {e.line for p in races for e in p.events} == _lines("reductions", name, "racy")
    assert all("of s:" in p.message for p in races)


@pytest.mark.parametrize("name", ["tree_sum", "tree_sum_racy", "warp_tree_sum", "warp_tree_sum_racy"])
def test_races_of_a_trace_without_meeting_numbers(name: str) -> None:
    """Another producer may list one thread's events after the other's, and not say who met at a barrier."""
    trace, kernel = _run("reductions", name, _one_block(32), SCHEDULES[0], x=X, out=ZEROS)
    bare = [replace(e, value=None) if e.mode == "barrier" else e for e in trace.events]
    sorted_trace = replace(trace, events=tuple(sorted(bare, key=lambda e: (e.thread, e.sequence))))
    lines = {e.line for p in find_races(sorted_trace, kernel) for e in p.events}
    assert lines == _lines("reductions", name, "racy")


def test_schedules_tell_a_racy_sum_from_a_right_one() -> None:
    sums = {_result(_run("reductions", "tree_sum_racy", _one_block(64), s, x=X, out=ZEROS)[0])[0] for s in SCHEDULES}
    assert len(sums) > 1


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_memory(schedule: Schedule) -> None:
    """Structs, unions, vectors, local arrays, constants, dynamic shared memory against Python."""
    pairs = np.array([(i / 2, i * 3) for i in range(8)], dtype=[("a", "f4"), ("b", "i4")])
    trace, _ = _run("memory", "structs", _one_block(32), schedule, {"in": pairs, "out": np.zeros_like(pairs), "n": 6})
    _clean(trace)
    want = [(float(i), i * 4) for i in range(6)] + [(0.0, 0)] * 2
    assert np.frombuffer(trace.memory["out"], pairs.dtype).tolist() == want

    floats = np.array([1.5, -2.0, 0.0, 1e30], np.float32)
    trace, _ = _run("memory", "unions", _one_block(4), schedule, {"in": floats, "out": np.zeros(4, np.uint32)})
    _clean(trace)
    bits = floats.view(np.uint32)
    assert _result(trace, kind=np.uint32) == [(int(b) + (int(b) >> 24)) % 2**32 for b in bits]

    quads = np.arange(32, dtype=np.float32)
    trace, _ = _run("memory", "vectors", _one_block(8), schedule, {"in": quads, "out": np.zeros(32, np.float32)})
    _clean(trace)
    assert _result(trace, kind=np.float32) == quads.reshape(8, 4)[:, [3, 1, 2, 0]].ravel().tolist()

    trace, _ = _run("memory", "local_arrays", _one_block(32), schedule, {"in": X, "out": np.zeros(32, np.int32)})
    _clean(trace)
    assert _result(trace) == [int(X[t + t % 8] + X[t + 7 - t % 8]) for t in range(32)]

    trace, _ = _run("memory", "constants", _one_block(8), schedule, {"in": X, "out": ZEROS})
    _clean(trace)
    assert _result(trace) == [int(X[t]) * 10 ** (t % 4) for t in range(8)]

    config = LaunchConfig((1, 1, 1), (32, 1, 1), dynamic_smem=400)
    trace, _ = _run("memory", "dynamic_shared", config, schedule, {"in": X, "out": np.zeros(100, np.int32), "n": 100})
    _clean(trace)
    assert _result(trace) == X[:100][::-1].tolist()


@pytest.mark.parametrize(
    ("name", "kind", "mark", "message", "count"),
    [
        ("out_of_bounds", "out-of-bounds", "oob", "4-byte read at byte 64 of in, which has 64 bytes", 8),
        ("before_start", "out-of-bounds", "oob", "4-byte write at byte -4 of out, which has 64 bytes", 1),
        ("misaligned", "misaligned", "misaligned", "8-byte write at byte 4 of out, which is not a multiple of 8", 7),
        ("uninitialised", "uninitialised-shared", "uninitialised", "4-byte read at byte 128 of s, which no thread", 16),
        ("division_by_zero", "division-by-zero", "zero", "integer division by zero", 1),
    ],
)
def test_wrong_accesses_are_reported_where_they_are(name: str, kind: str, mark: str, message: str, count: int) -> None:
    data = np.arange(16, dtype=np.int32)
    threads = 48 if name == "uninitialised" else 16
    out = np.zeros(64 if name == "uninitialised" else 16, np.int32)
    trace, _ = _run("memory", name, _one_block(threads), arguments={"in": data, "out": out})
    problems = [p for p in trace.problems if p.kind == kind]
    assert [p.kind for p in trace.problems if p.kind != "out-of-bounds" or name != "misaligned"] == [kind]
    (problem,) = problems
    assert problem.message.startswith(message)
    assert {s.line for s in problem.spans} == _lines("memory", name, mark)
    assert len(problem.threads) == count
    assert trace.status == "done"


def test_null_pointer() -> None:
    trace, _ = _run("memory", "null_pointer", _one_block(8), out=ZEROS)
    (problem,) = trace.problems
    assert problem.kind == "null-pointer"
    assert {s.line for s in problem.spans} == _lines("memory", "null_pointer", "null")


def test_a_guarded_division_is_no_division_by_zero() -> None:
    trace, _ = _run(
        "memory", "division", _one_block(4), arguments={"in": np.array([0, 3, -7, 1], np.int32), "out": ZEROS}
    )
    _clean(trace)
    assert _result(trace)[:4] == [-1, 33, -14, 100]


def test_a_failed_assertion_ends_the_execution() -> None:
    trace, _ = _run("memory", "asserted", _one_block(8), arguments={"in": np.arange(8, dtype=np.int32), "out": ZEROS})
    (problem,) = trace.problems
    assert (problem.kind, trace.status) == ("assertion", "stopped")
    assert {t for _, t in problem.threads} == {5, 6, 7}
    assert {s.line for s in problem.spans} == _lines("memory", "asserted", "assert")


def _loops(t: int, limit: int) -> int:
    total = 0
    for i in range(20):
        if i == t % 7:
            continue
        if i > limit:
            break
        j = 0
        while True:
            total += i
            if total % 11 == 3:
                break
            j += 1
            if j >= t % 3:
                break
    return total


def _pick(x: int) -> int:
    match x % 5:
        case 0:
            return 10
        case 1 | 2:
            return (x + 3 * (x % 5 == 1)) * 2
        case 3:
            for i in range(x):
                if i * i > x:
                    return i
    return -x


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_divergent_control(schedule: Schedule) -> None:
    data = np.random.default_rng(3).integers(0, 25, 64).astype(np.int32)
    trace, _ = _run("control", "loops", _one_block(64), schedule, {"in": data, "out": np.zeros(64, np.int32)})
    _clean(trace)
    assert _result(trace) == [_loops(t, int(data[t])) for t in range(64)]
    trace, _ = _run("control", "calls", _one_block(64), schedule, {"in": data, "out": np.zeros(64, np.int32)})
    _clean(trace)
    assert _result(trace) == [_pick(int(data[t]) + t) for t in range(64)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_barriers_and_exchanges(schedule: Schedule) -> None:
    data = np.random.default_rng(5).integers(0, 16, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    trace, kernel = _run("control", "barriers_in_uniform_loops", _one_block(64), schedule, {"in": data, "out": out})
    _clean(trace)
    assert find_races(trace, kernel) == ()
    s = data.tolist()
    for _ in range(3):
        moved = [s[(t + 1) % 64] for t in range(64)]
        s = [(-v if v % 2 == 0 else v) + 1 for v in moved]
    assert _result(trace) == s[::-1]
    assert max(e.phase for e in trace.events) == 7

    trace, _ = _run("control", "reducing_barriers", _one_block(64), schedule, {"in": data, "out": out})
    _clean(trace)
    assert _result(trace) == [2 + int(3 in data)] * 64

    trace, _ = _run("control", "half_warps", _one_block(64), schedule, {"in": data, "out": out})
    _clean(trace)
    assert _result(trace) == [int(data[t ^ 1] if t % 32 < 16 else data[t // 32 * 32 + 16]) for t in range(64)]

    trace, _ = _run("control", "votes", _one_block(64), schedule, {"in": data, "out": out.view(np.uint32)})
    _clean(trace)
    want = []
    for t in range(64):
        warp = data[t // 32 * 32 :][:32]
        ballot = sum(1 << i for i, v in enumerate(warp) if v > 7)
        # a group of one thread is alone in __activemask
        active = schedule.width != "thread"
        want.append((ballot + int((warp % 3 == data[t] % 3).sum()) + int((warp == 0).any()) + active) % 2**32)
    got = _result(trace, kind=np.uint32)
    assert [g - w for g, w in zip(got, want, strict=True)] in ([0] * 64, [1] * 64)


def _only(trace: Trace, kind: str) -> Any:
    (problem,) = [p for p in trace.problems if p.kind == kind]
    return problem


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_barriers_that_meet_wrongly(schedule: Schedule) -> None:
    out = np.zeros(64, np.int32)
    trace, _ = _run("control", "different_barriers", _one_block(64), schedule, out=out)
    problem = _only(trace, "divergent-barrier")
    lines = _lines("control", "different_barriers", "one") | _lines("control", "different_barriers", "other")
    assert {s.line for s in problem.spans} == lines
    assert _result(trace) == [1] * 64

    trace, _ = _run("control", "early_exit", _one_block(64), schedule, out=out, n=40)
    early = [p for p in trace.problems if p.kind == "exited-barrier"]
    assert _lines("control", "early_exit", "exited") <= {s.line for p in early for s in p.spans}
    assert {t for _, t in early[0].threads} == set(range(40, 64))
    assert "threads 40-63 had exited" in early[0].message
    assert _result(trace) == [20] * 40 + [0] * 24

    trace, _ = _run("control", "loop_trip", _one_block(64), schedule, out=out)
    assert {p.kind for p in trace.problems} == {"exited-barrier"}
    assert {s.line for p in trace.problems for s in p.spans} == _lines("control", "loop_trip", "trip")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_wrong_masks(schedule: Schedule) -> None:
    out = np.zeros(32, np.int32)
    trace, _ = _run("control", "missing_lanes", _one_block(32), schedule, {"in": X, "out": out})
    problem = _only(trace, "bad-mask")
    assert "names lanes 16-31 of warp 0, which never arrive" in problem.message
    assert {s.line for s in problem.spans} == _lines("control", "missing_lanes", "missing")
    assert trace.status == "done"

    trace, _ = _run("control", "not_in_mask", _one_block(32), schedule, {"in": X, "out": out})
    own = [p for p in trace.problems if "does not name it" in p.message]
    assert {s.line for p in own for s in p.spans} == _lines("control", "not_in_mask", "own")
    assert {t for p in own for _, t in p.threads} == set(range(16, 32))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_waiting_for_ever_is_a_deadlock(schedule: Schedule) -> None:
    trace, _ = _run("control", "waits_for_ever", _one_block(4), schedule, flag=ZEROS, out=ZEROS)
    problem = _only(trace, "deadlock")
    assert trace.status == "stopped"
    assert {s.line for s in problem.spans} == _lines("control", "waits_for_ever", "spin")


def test_partial_warp_under_a_full_mask() -> None:
    trace, _ = _run("reductions", "shuffle_sum", _one_block(33), x=X, out=ZEROS)
    messages = [p.message for p in trace.problems if p.kind == "bad-mask"]
    assert any("names lanes 1-31 of warp 1, which do not exist in this block" in m for m in messages)


def test_same_input_same_trace() -> None:
    traces = [_run("reductions", "tree_sum", _one_block(64), SCHEDULES[2], x=X, out=ZEROS)[0] for _ in range(2)]
    assert traces[0] == traces[1]
    assert traces[0].memory == traces[1].memory


def test_step_budget_ends_with_what_happened_so_far() -> None:
    kernel = _kernel("reductions", "tree_sum")
    arguments = {"x": Argument(data=X.tobytes()), "out": Argument(data=bytes(8))}
    trace = run(kernel, _one_block(64), arguments, max_steps=1500)
    assert trace.status == "steps"
    assert 0 < len(trace.events) < 700


def test_chosen_blocks_and_no_recording() -> None:
    kernel = _kernel("reductions", "tree_sum")
    config = LaunchConfig((4, 1, 1), (64, 1, 1))
    arguments = {"x": Argument(data=X.tobytes()), "out": Argument(data=bytes(16))}
    trace = run(kernel, config, arguments, blocks=[2], record=False)
    assert trace.events == ()
    assert _result(trace) == [0, 0, int(X[128:192].sum()), 0]


def test_events_name_place_offset_and_order() -> None:
    trace, _ = _run("reductions", "tree_sum", _one_block(64), x=X, out=ZEROS)
    mine = [e for e in trace.events if e.thread == 5]
    assert [e.sequence for e in mine] == list(range(len(mine)))
    first, second, third = mine[:3]
    assert (first.mode, first.object, first.offset, first.size, first.phase) == ("read", "x", 20, 4, 0)
    assert (second.mode, second.object, second.offset, second.value) == ("write", "s", 20, X[5:6].tobytes())
    assert (third.mode, third.object, third.scope, third.phase) == ("barrier", "", "block", 0)
    assert first.file == "interpret-reductions.cu"
    assert _text("reductions").splitlines()[first.line - 1].strip().startswith("s[t] = x")


def test_aliased_pointers_share_memory() -> None:
    kernel = _kernel("memory", "constants")
    arguments = {"in": Argument(data=X[:16].tobytes()), "out": Argument(value=16, alias="in")}
    trace = run(kernel, _one_block(4), arguments)
    _clean(trace)
    want: Sequence[int] = [*X[:4], *(int(X[t]) * 10**t for t in range(4)), *X[8:16]]
    assert _result(trace, "in") == list(want)


def test_default_arguments_make_kernels_run() -> None:
    kernel = _kernel("memory", "structs")
    config = LaunchConfig((2, 1, 1), (32, 1, 1))
    arguments = default_arguments(kernel, config)
    assert arguments == default_arguments(kernel, config)
    _clean(run(kernel, config, arguments))


@pytest.mark.parametrize("config", [LaunchConfig(block=(1025, 1, 1)), LaunchConfig(block=(0, 1, 1))])
def test_launches_no_device_accepts(config: LaunchConfig) -> None:
    with pytest.raises(ValueError, match="no device accepts"):
        run(_kernel("memory", "constants"), config, {})


def test_memory_is_bounded() -> None:
    config = LaunchConfig((1, 1, 1), (32, 1, 1), dynamic_smem=1 << 34)
    trace, _ = _run("memory", "dynamic_shared", config, arguments={"in": X, "out": ZEROS, "n": 4})
    assert (trace.status, trace.reason) == ("stopped", "needs more than 1024 MiB of memory")
