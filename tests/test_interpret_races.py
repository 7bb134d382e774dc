"""Race search against a quadratic oracle with its own happens-before, on random traces."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from prelaunch.analysis.interpret import find_races
from prelaunch.analysis.kernel import F32, Block, Kernel, Object
from prelaunch.analysis.trace import Event, Trace

SEED = 4711
KERNEL = Kernel(
    "k", "k.cu", (), (), (Object("s", "s", "shared", F32, 64), Object("g", "g", "global", F32, 64)), Block()
)


def _trace(random_: random.Random) -> Trace:
    """A few blocks whose threads access two objects and pass block, warp and named barriers and grid barriers."""
    blocks, threads = random_.randint(1, 3), random_.choice([2, 4, 34])
    grid_wide = random_.random() < 0.4
    events: list[Event] = []
    phase: dict[tuple[int, int], int] = defaultdict(int)
    instance = 0

    def access(block: int, thread: int) -> None:
        size = random_.choice([1, 2, 4])
        mode = random_.choice(["read", "read", "write", "atomic"])
        order = random_.choice(["weak", "weak", "volatile", "relaxed"])
        object = random_.choice("sg")
        events.append(
            Event(
                block, thread, phase[block, thread], mode, object, random_.randrange(0, 8, size), size, "k.cu",  # type: ignore[arg-type]
                random_.randint(1, 4), 0, None, order, "thread",
            )
        )  # fmt: skip

    def barrier(members: list[tuple[int, int]], scope: str) -> None:
        nonlocal instance
        instance += 1
        for block, thread in members:
            events.append(
                Event(block, thread, phase[block, thread], "barrier", "", 0, 0, "k.cu", 9, 0, None, "acq_rel", scope,
                      instance.to_bytes(8, "little"))
            )  # fmt: skip
        for member in members:
            phase[member] += scope != "warp"

    for _ in range(random_.randint(1, 4)):
        for block in range(blocks):
            for _ in range(random_.randint(0, 6)):
                access(block, random_.randrange(threads))
            what = random_.random()
            everyone = [(block, t) for t in range(threads)]
            if what < 0.4:
                barrier(everyone, "block")
            elif what < 0.6:
                barrier([(block, t) for t in range(min(threads, 32)) if random_.random() < 0.7] or everyone[:1], "warp")
            elif what < 0.75:
                barrier(random_.sample(everyone, random_.randint(1, threads)), "block")
        if grid_wide and random_.random() < 0.5:
            barrier([(b, t) for b in range(blocks) for t in range(threads)], "grid")
    for block in range(blocks):  # everyone has a last event, so that nobody counts as exited
        barrier([(block, t) for t in range(threads)], "block")
    return Trace(tuple(events), (), "done")


def _oracle(trace: Trace) -> set[tuple[object, object, str]]:
    """Reachability over program order and barrier meetings, event by event."""
    last: dict[tuple[int, int], int] = {}
    meetings: dict[bytes, list[int]] = defaultdict(list)
    before: list[set[int]] = []
    for i, event in enumerate(trace.events):
        who = (event.block, event.thread)
        past = set(before[last[who]]) | {last[who]} if who in last else set()
        before.append(past)
        last[who] = i
        if event.mode == "barrier":
            assert event.value is not None
            meetings[event.value].append(i)
            joint = set().union(*(before[j] | {j} for j in meetings[event.value]))
            for j in meetings[event.value]:
                before[j] = joint
    found: set[tuple[object, object, str]] = set()
    for j, b in enumerate(trace.events):
        for i, a in enumerate(trace.events[:j]):
            if _conflict(a, b) and i not in before[j]:
                places = sorted([(a.file, a.line), (b.file, b.line)], key=repr)
                found.add((places[0], places[1], _hazard(a, b)))
    return found


def _conflict(a: Event, b: Event) -> bool:
    if a.mode == "barrier" or b.mode == "barrier" or a.object != b.object:
        return False
    if (a.block, a.thread) == (b.block, b.thread) or (a.object == "s" and a.block != b.block):
        return False
    atomic = all(e.mode == "atomic" or e.order == "relaxed" for e in (a, b))
    overlap = a.offset < b.offset + b.size and b.offset < a.offset + a.size
    return overlap and not atomic and a.mode + b.mode != "read" and not (a.mode == b.mode == "read")


def _hazard(a: Event, b: Event) -> str:
    if "atomic" in (a.mode, b.mode):
        return "rmw"
    return {("write", "read"): "raw", ("read", "write"): "war", ("write", "write"): "waw"}[a.mode, b.mode]


@pytest.mark.parametrize("part", range(10))
def test_random_traces_against_the_oracle(part: int) -> None:
    print(f"seed {SEED}, part {part}")
    random_ = random.Random(SEED + part)
    racy = 0
    for _ in range(40):
        trace = _trace(random_)
        problems = find_races(trace, KERNEL)
        got = set()
        for problem in problems:
            a, b = problem.events
            places = sorted([(a.file, a.line), (b.file, b.line)], key=repr)
            got.add((places[0], places[1], problem.message.split()[0]))
            assert _conflict(a, b)
        want = _oracle(trace)
        assert got == want
        assert len(problems) == len(got)
        racy += bool(want)
    assert racy > 10


def _event(thread: int, mode: str, line: int, value: bytes | None = None, order: str = "weak") -> Event:
    return Event(0, thread, 0, mode, "s", 0, 4, "k.cu", line, 0, None, order, "thread", value)  # type: ignore[arg-type]


def test_equal_stores_and_volatile_are_named() -> None:
    trace = Trace((_event(0, "write", 1, b"abcd", "volatile"), _event(1, "write", 2, b"abcd", "volatile")), (), "done")
    (problem,) = find_races(trace, KERNEL)
    assert problem.message.startswith(
        "waw race on byte 0 of s: write at line 1 by thread 0 of block 0, write at line 2"
    )
    assert "both write the same value" in problem.message
    assert "both are volatile" in problem.message
    assert problem.threads == ((0, 0), (0, 1))


def test_different_values_are_not_called_equal() -> None:
    trace = Trace((_event(0, "write", 1, b"abcd"), _event(1, "write", 2, b"abce")), (), "done")
    (problem,) = find_races(trace, KERNEL)
    assert "same value" not in problem.message


def test_exit_counts_as_arriving() -> None:
    """Thread 1 writes and ends; thread 0 passes a barrier of all who are left, then reads."""
    barrier = Event(0, 0, 0, "barrier", "", 0, 0, "k.cu", 5, 0, None, "acq_rel", "block", bytes(8))
    after = Event(0, 0, 1, "read", "s", 0, 4, "k.cu", 6)
    assert find_races(Trace((_event(1, "write", 1), barrier, after), (), "done"), KERNEL) == ()


def test_split_barrier_orders_arrival_before_wait_only() -> None:
    def at(thread: int, order: str) -> Event:
        return Event(0, thread, 0, "barrier", "", 0, 0, "k.cu", 5, 0, None, order, "block", bytes(8))

    events = (_event(0, "write", 1), at(0, "release"), _event(0, "write", 3), at(1, "acquire"), _event(1, "read", 4))
    (problem,) = find_races(Trace(events, (), "done"), KERNEL)
    assert [e.line for e in problem.events] == [3, 4]


def test_many_readers_of_one_cell_stay_cheap() -> None:
    """256 threads read a cell that one thread wrote before the barrier: no pair remains."""
    write = _event(0, "write", 1)
    barriers = [
        Event(0, t, 0, "barrier", "", 0, 0, "k.cu", 2, 0, None, "acq_rel", "block", bytes(8)) for t in range(256)
    ]
    reads = [Event(0, t, 1, "read", "s", 0, 4, "k.cu", 3) for t in range(256) for _ in range(50)]
    assert find_races(Trace((write, *barriers, *reads), (), "done"), KERNEL) == ()
