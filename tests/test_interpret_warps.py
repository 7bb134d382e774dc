"""Warp-wide exchanges: values by the PTX ISA's text, and masks that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prelaunch.analysis.interpret import SCHEDULES, Schedule
from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import (
    BOOL,
    F32,
    I32,
    I64,
    U32,
    U64,
    Barrier,
    Binary,
    Block,
    Cast,
    Collective,
    Const,
    Exit,
    Expr,
    If,
    Scalar,
    Select,
    Special,
    Stmt,
    Store,
    Type,
    Var,
)  # fmt: skip
from tests.interpret_ir import T, at, go, kernel, pointer, span

IDS = [f"{s.width}-{s.order}" for s in SCHEDULES]
FULL = Const(0xFFFFFFFF, U32)
LANE = Cast(Special("laneid"), I32)


def _exchange(mask: Expr, line: int, op: str) -> Collective:
    return Collective(
        (Var(50, "", I32),), op, mask, (LANE, Const(1, I32))[: 1 + op.startswith("shfl")], span=span(line)
    )


def _results(body: list[Stmt], result: Var, type: Scalar, schedule: Schedule) -> list[Any]:
    """What each of 32 lanes has in ``result`` afterwards."""
    buffers: dict[str, Type] = {"out": type}
    store = Store(at(pointer(buffers, "out"), T, type.size), (result,), type)
    trace = go(kernel([*body, store], buffers), 32, schedule, out=np.zeros(32, dtype(type)))
    assert trace.problems == ()
    return np.frombuffer(trace.memory["out"], dtype(type)).tolist()  # type: ignore[no-any-return]  # tolist is untyped


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_different_masks_never_meet(schedule: Schedule) -> None:
    low = Binary("lt", T, Const(16, I64), BOOL)
    mask = Select(low, FULL, Const(0xFFFF0000, U32), U32)
    trace = go(kernel([_exchange(mask, 3, "shfl.xor")], {}), 32, schedule)
    assert {p.kind for p in trace.problems} == {"bad-mask"}
    assert {s.line for p in trace.problems for s in p.spans} == {3}
    assert any("names lanes 16-31 of warp 0, which " in p.message for p in trace.problems)
    assert {t for p in trace.problems for _, t in p.threads} == set(range(16))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_a_mask_that_names_exited_lanes(schedule: Schedule) -> None:
    """Wrong for an exchange; ``__syncwarp`` asks only for lanes that have not exited."""
    leave = If(Binary("ge", T, Const(20, I64), BOOL), Block((Exit(),)))
    trace = go(kernel([leave, _exchange(FULL, 3, "vote.any")], {}), 32, schedule)
    assert {p.kind for p in trace.problems} == {"bad-mask"}
    assert {s.line for p in trace.problems for s in p.spans} == {3}
    assert trace.status == "done"
    assert go(kernel([leave, Barrier("warp", mask=FULL, span=span(4))], {}), 32, schedule).problems == ()


@pytest.mark.parametrize(
    ("op", "type", "want"),
    [
        ("reduce.add", F32, 496.0), ("reduce.add", U64, 496), ("reduce.max", F32, 31.0), ("reduce.min", I32, 0),
        ("reduce.xor", U32, 0), ("reduce.or", U32, 31), ("reduce.and", U32, 0), ("vote.ballot", U32, 0xFFFFFFFE),
        ("vote.all", I32, 0), ("vote.any", I32, 1), ("match.all", U32, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("schedule", SCHEDULES[:4:3], ids=IDS[:4:3])
def test_over_a_whole_warp(op: str, type: Scalar, want: float, schedule: Schedule) -> None:
    result = Var(1, "", type)
    body: list[Stmt] = [Collective((result,), op, FULL, (Cast(Special("laneid"), type),))]
    assert _results(body, result, type, schedule) == [want] * 32


def test_parts_of_a_warp_reduce_apart() -> None:
    result = Var(1, "", I32)
    mask = Select(Binary("lt", T, Const(8, I64), BOOL), Const(0xFF, U32), Const(0xFFFFFF00, U32), U32)
    body: list[Stmt] = [Collective((result,), "reduce.add", mask, (LANE,))]
    assert _results(body, result, I32, SCHEDULES[0]) == [28] * 8 + [468] * 24


def test_elect_picks_one_lane_of_the_mask() -> None:
    result = Var(1, "", BOOL)
    body: list[Stmt] = [Collective((result,), "elect", FULL)]
    number = Var(2, "", I32)
    body.append(If(result, Block((Collective((number,), "activemask", None),))))
    assert _results(body, number, I32, SCHEDULES[0]) == [1] + [0] * 31


@pytest.mark.parametrize("width", [4, 8, 16, 32])
@pytest.mark.parametrize("op", ["idx", "up", "down", "xor"])
def test_shuffles_stay_in_their_segment(op: str, width: int) -> None:
    """PTX ISA, shfl.sync: a source outside the segment gives the lane's own value, and a false predicate."""
    value, inside = Var(1, "", I32), Var(2, "", BOOL)
    shuffle = Collective((value, inside), f"shfl.{op}", FULL, (LANE, Const(3, I32)), Const(width, I32))
    values, predicates = [], []
    for i in range(32):
        start = i // width * width
        source = {"idx": start + 3 % width, "up": i - 3, "down": i + 3, "xor": i ^ 3}[op]
        predicates.append(int(start <= source < start + width))
        values.append(source if predicates[-1] else i)
    assert _results([shuffle], value, I32, SCHEDULES[0]) == values
    assert [int(p) for p in _results([shuffle], inside, BOOL, SCHEDULES[0])] == predicates


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_exchanges_in_both_branches_with_their_own_masks(schedule: Schedule) -> None:
    result = Var(1, "", I32)
    low = Binary("lt", T, Const(16, I64), BOOL)
    then = Block((Collective((result,), "reduce.add", Const(0xFFFF, U32), (LANE,)),))
    orelse = Block((Collective((result,), "reduce.max", Const(0xFFFF0000, U32), (LANE,)),))
    assert _results([If(low, then, orelse)], result, I32, schedule) == [120] * 16 + [31] * 16
