"""The interpreter on hand-built IR: depth, atomics, named and grid barriers, late copies, what is not modelled."""

from __future__ import annotations

import random
from typing import Any, get_args

import numpy as np
import pytest

from prelaunch.analysis.interpret import SCHEDULES, Schedule, find_races, run
from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import (
    BOOL,
    I32,
    I64,
    U32,
    U64,
    Address,
    Assign,
    Async,
    Atomic,
    AtomicOp,
    Barrier,
    Binary,
    Block,
    Break,
    Cast,
    Const,
    Exit,
    Expr,
    If,
    Kernel,
    Load,
    Loop,
    Opaque,
    Pointer,
    PtrAdd,
    Pure,
    Scalar,
    Select,
    Special,
    Stmt,
    Store,
    Type,
    Var,
)  # fmt: skip
from prelaunch.analysis.trace import LaunchConfig
from tests.interpret_ir import T, at, go, kernel, pointer, span

SEED = 99
IDS = [f"{s.width}-{s.order}" for s in SCHEDULES]


# --- depth ---------------------------------------------------------------------------------------------------------


def test_ten_thousand_deep_expressions_and_blocks() -> None:
    buffers: dict[str, Type] = {"out": I32}
    deep: Expr = Cast(T, I32)
    for i in range(10_000):
        deep = Binary("add", deep, Const(i % 3, I32), I32)
    x = Var(1, "x", I32)
    inner = Block((Assign(x, deep), Store(at(pointer(buffers, "out"), T, 4), (x,), I32)))
    for _ in range(10_000):
        inner = Block((If(Binary("ge", T, Const(0, I64), BOOL), inner),))
    trace = go(kernel(inner.stmts, buffers), 2, out=np.zeros(2, np.int32))
    assert (trace.status, trace.reason) == ("done", "")
    total = sum(i % 3 for i in range(10_000))
    assert np.frombuffer(trace.memory["out"], np.int32).tolist() == [total, total + 1]


def test_an_endless_loop_ends_with_the_budget() -> None:
    made = kernel([Loop(1, Block(), Const(1, BOOL), Block())], {})
    assert run(made, LaunchConfig(), {}, max_steps=10_000).status == "steps"


# --- atomics -------------------------------------------------------------------------------------------------------


def _wrap(x: int, type: Scalar) -> int:
    x &= (1 << type.bits) - 1
    return x - (1 << type.bits) if type.signed and x >> (type.bits - 1) else x


def _atomic(op: str, old: int, operands: list[int], type: Scalar) -> int:
    value = operands[-1]
    return _wrap(
        {
            "add": old + value, "sub": old - value, "exch": value, "min": min(old, value), "max": max(old, value),
            "inc": 0 if old >= value else old + 1, "dec": value if old == 0 or old > value else old - 1,
            "cas": value if old == operands[0] else old, "and": old & value, "or": old | value, "xor": old ^ value,
        }[op],
        type,
    )  # fmt: skip


@pytest.mark.parametrize("op", get_args(AtomicOp))
@pytest.mark.parametrize("type", [I32, U32, U64], ids=str)
@pytest.mark.parametrize("cells", [1, 5, 64])
def test_atomics_take_turns(op: AtomicOp, type: Scalar, cells: int) -> None:
    """Old values and memory are those of one lane after another, in ascending order."""
    random_ = random.Random(f"{SEED} {op} {type} {cells}")
    buffers: dict[str, Type] = {"where": U32, "a": type, "b": type, "m": type, "old": type}
    where, a, b, old = Var(1, "", U32), Var(2, "", type), Var(3, "", type), Var(4, "", type)
    operands: tuple[Expr, ...] = (a, b) if op == "cas" else (b,)
    body: list[Stmt] = [
        Load((v,), at(pointer(buffers, n), T, v.type.size), v.type) for v, n in ((where, "where"), (a, "a"), (b, "b"))
    ]
    body.append(Atomic(old, op, at(pointer(buffers, "m"), where, type.size), operands, type))
    body.append(Store(at(pointer(buffers, "old"), T, type.size), (old,), type))
    kind = dtype(type)
    columns = {
        "where": np.array([random_.randrange(cells) for _ in range(64)], np.uint32),
        "a": np.array([random_.randrange(4) for _ in range(64)], kind),
        "b": np.array([random_.randrange(4) for _ in range(64)], kind),
    }
    start = [random_.randrange(4) for _ in range(cells)]
    trace = go(kernel(body, buffers), 64, data=columns, m=np.array(start, kind), old=np.zeros(64, kind))
    memory, olds = list(start), []
    for cell, x, y in zip(*(columns[n].tolist() for n in ("where", "a", "b")), strict=True):
        olds.append(memory[cell])
        memory[cell] = _atomic(op, memory[cell], [x, y], type)
    assert np.frombuffer(trace.memory["old"], kind).tolist() == olds
    assert np.frombuffer(trace.memory["m"], kind).tolist() == memory


# --- barriers ------------------------------------------------------------------------------------------------------


def _named(id: int, count: int, action: Any, line: int) -> Barrier:
    return Barrier("block", id=Const(id, I32), count=Const(count, I32), action=action, span=span(line))


def _producer_consumer(arrive: bool) -> Kernel:
    """Warp 0 writes and arrives at barrier 1; warp 1 waits there and reads; warp 2 goes its own way."""
    buffers: dict[str, Type] = {"out": I32}
    v = Var(1, "", I32)
    lane = Cast(Special("laneid"), I64)
    write = Store(at(Address("s"), lane, 4), (Cast(T, I32),), I32, "shared", span=span(2))
    read = Load((v,), at(Address("s"), Binary("xor", lane, Const(1, I64), I64), 4), I32, "shared", span=span(5))
    produce: list[Stmt] = [write, *([_named(1, 64, "arrive", 3)] if arrive else [])]
    consume: list[Stmt] = [*([_named(1, 64, "sync", 4)] if arrive else []), read]
    consume.append(Store(at(pointer(buffers, "out"), lane, 4), (v,), I32, span=span(6)))
    other = If(Binary("lt", T, Const(64, I64), BOOL), Block(tuple(consume)))
    return kernel([If(Binary("lt", T, Const(32, I64), BOOL), Block(tuple(produce)), Block((other,)))], buffers, 128)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_named_barrier_orders_producer_and_consumer(schedule: Schedule) -> None:
    made = _producer_consumer(True)
    trace = go(made, 96, schedule, out=np.zeros(32, np.int32))
    assert trace.status == "done"
    assert trace.problems == ()
    assert np.frombuffer(trace.memory["out"], np.int32).tolist() == [i ^ 1 for i in range(32)]
    assert find_races(trace, made) == ()


def test_without_it_they_race() -> None:
    made = _producer_consumer(False)
    trace = go(made, 96, SCHEDULES[1], out=np.zeros(32, np.int32))
    (problem,) = find_races(trace, made)
    assert {e.line for e in problem.events} == {2, 5}
    assert [p.kind for p in trace.problems] == ["uninitialised-shared"]


@pytest.mark.parametrize(("id", "reported"), [(-1, True), (0, False), (15, False), (16, True)])
def test_named_barrier_ids(id: int, reported: bool) -> None:
    trace = go(kernel([_named(id, 32, "sync", 1)], {}), 32)
    assert [p.kind for p in trace.problems] == (["named-barrier-id"] if reported else [])


def test_a_barrier_too_few_threads_reach_is_a_deadlock() -> None:
    body = [
        If(
            Binary("lt", T, Const(32, I64), BOOL),
            Block((_named(2, 64, "sync", 7),)),
            Block((_named(3, 64, "sync", 8),)),
        )
    ]
    trace = go(kernel(body, {}), 64)
    (problem,) = trace.problems
    assert (problem.kind, trace.status) == ("deadlock", "stopped")
    assert problem.message == "deadlock: threads 0-31 wait at line 7; threads 32-63 wait at line 8"


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_grid_barrier(schedule: Schedule) -> None:
    """Each thread reads, after the barrier, what the same thread of the next block wrote before it."""
    buffers: dict[str, Type] = {"m": I32, "out": I32}
    v, block = Var(1, "", I32), Cast(Special("blockIdx.x"), I64)
    mine = Binary("add", Binary("mul", block, Const(8, I64), I64), T, I64)
    other = Binary("rem", Binary("add", mine, Const(8, I64), I64), Const(24, I64), I64)
    body: list[Stmt] = [
        Store(at(pointer(buffers, "m"), mine, 4), (Cast(mine, I32),), I32, span=span(1)),
        Barrier("grid", span=span(2)),
        Load((v,), at(pointer(buffers, "m"), other, 4), I32, span=span(3)),
        Store(at(pointer(buffers, "out"), mine, 4), (v,), I32, span=span(4)),
    ]
    made = kernel(body, buffers)
    trace = go(made, 8, schedule, 3, m=np.zeros(24, np.int32), out=np.zeros(24, np.int32))
    assert trace.status == "done"
    assert np.frombuffer(trace.memory["out"], np.int32).tolist() == [(i + 8) % 24 for i in range(24)]
    assert find_races(trace, made) == ()
    without = kernel([s for s in body if not isinstance(s, Barrier)], buffers)
    races = find_races(go(without, 8, schedule, 3, m=np.zeros(24, np.int32), out=np.zeros(24, np.int32)), without)
    assert {e.line for p in races for e in p.events} == {1, 3}


def test_a_block_that_skips_the_grid_barrier_by_waiting_elsewhere_is_a_deadlock() -> None:
    grid = Barrier("grid", span=span(1))
    cluster = Barrier("cluster", span=span(2))
    body = [
        If(Binary("eq", Cast(Special("blockIdx.x"), I64), Const(0, I64), BOOL), Block((grid,)), Block((cluster, grid)))
    ]
    trace = go(kernel(body, {}), 32, blocks=2)
    assert (trace.status, trace.problems) == ("done", ())
    body = [If(Binary("lt", T, Const(16, I64), BOOL), Block((grid,)), Block((cluster,)))]
    trace = go(kernel(body, {}), 32, blocks=2)
    assert trace.status == "stopped"
    assert trace.problems[0].kind == "deadlock"


# --- copies, exits, what is not modelled -----------------------------------------------------------------------------


def _copy_kernel(wait: bool) -> Kernel:
    buffers: dict[str, Type] = {"x": I32, "out": I32}
    v = Var(1, "", I32)
    mine = at(Address("s"), T, 4)
    body: list[Stmt] = [
        Async("copy", mine, at(pointer(buffers, "x"), T, 4), 4, span=span(1)),
        Async("commit", span=span(2)),
        *([Async("wait", pending=Const(0, I32), span=span(3))] if wait else []),
        Load((v,), mine, I32, "shared", span=span(4)),
        Store(at(pointer(buffers, "out"), T, 4), (v,), I32, span=span(5)),
    ]
    return kernel(body, buffers, 128)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_a_waited_copy_has_arrived(schedule: Schedule) -> None:
    x = np.arange(32, dtype=np.int32)
    trace = go(_copy_kernel(True), 32, schedule, x=x, out=np.zeros(32, np.int32))
    assert trace.problems == ()
    assert np.frombuffer(trace.memory["out"], np.int32).tolist() == x.tolist()
    first = [(e.mode, e.object, e.size) for e in trace.events if e.thread == 3][:2]
    assert first == [("read", "x", 4), ("write", "s", 4)]


def test_a_copy_nobody_waited_for_may_not_have_arrived() -> None:
    trace = go(
        _copy_kernel(False), 32, Schedule(copies="wait"), x=np.arange(32, dtype=np.int32), out=np.zeros(32, "i4")
    )
    (problem,) = trace.problems
    assert problem.kind == "uninitialised-shared"
    assert [s.line for s in problem.spans] == [4]


def test_zero_fill_reads_only_what_is_given() -> None:
    buffers: dict[str, Type] = {"x": I32, "out": I32}
    values = tuple(Var(i, "", I32) for i in range(4))
    given = Select(Binary("eq", T, Const(0, I64), BOOL), Const(8, I64), Const(0, I64), I64)
    mine = at(Address("s"), T, 16)
    body: list[Stmt] = [
        Async("copy", mine, pointer(buffers, "x"), 16, given),
        Async("wait"),
        Load(values, mine, I32, "shared"),
        Store(at(pointer(buffers, "out"), T, 16), values, I32),
    ]
    trace = go(kernel(body, buffers, 32), 2, x=np.array([5, 6], np.int32), out=np.zeros(8, np.int32))
    assert trace.problems == ()
    assert np.frombuffer(trace.memory["out"], np.int32).tolist() == [5, 6, 0, 0, 0, 0, 0, 0]


def test_pointers_survive_memory() -> None:
    """A pointer stored to shared memory by one thread is followed by the others."""
    buffers: dict[str, Type] = {"x": I32, "out": I32}
    p, v = Var(1, "p", Pointer(4, "int")), Var(2, "", I32)
    body: list[Stmt] = [
        If(Binary("eq", T, Const(0, I64), BOOL),
           Block((Store(Address("s"), (PtrAdd(pointer(buffers, "x"), Const(8, I64)),), Pointer(4, "int")),))),
        Barrier("block"),
        Load((p,), Address("s"), Pointer(4, "int")),
        Load((v,), at(p, T, 4), I32),
        Store(at(pointer(buffers, "out"), T, 4), (v,), I32),
    ]  # fmt: skip
    trace = go(kernel(body, buffers, 8), 4, x=np.arange(6, dtype=np.int32), out=np.zeros(4, np.int32))
    assert trace.problems == ()
    assert np.frombuffer(trace.memory["out"], np.int32).tolist() == [2, 3, 4, 5]


def test_opaque_values_are_repeatable_and_named() -> None:
    buffers: dict[str, Type] = {"out": I32}
    v = Var(1, "", I32)
    body: list[Stmt] = [
        Opaque("a closed library", defines=(v,), span=span(3)),
        Store(at(pointer(buffers, "out"), T, 4), (v,), I32),
    ]
    made = kernel(body, buffers)
    first, second = (go(made, 8, s, out=np.zeros(8, np.int32)) for s in (SCHEDULES[0], SCHEDULES[3]))
    assert first.memory == second.memory
    assert [(p.kind, p.message) for p in first.problems] == [("opaque", "not modelled: a closed library")]


@pytest.mark.parametrize("touches", ["memory", "control"])
def test_opaque_effects_stop(touches: Any) -> None:
    trace = go(kernel([Opaque("inline assembly", frozenset({touches}), span=span(3))], {}), 8)
    assert (trace.status, trace.reason) == ("stopped", "not modelled: inline assembly at k.cu:3:1")


def test_unknown_functions_are_opaque() -> None:
    trace = go(kernel([Assign(Var(1, "", I32), Pure("no_such_function", (), I32, span=span(2)))], {}), 8)
    assert [(p.kind, p.message) for p in trace.problems] == [("opaque", "function no_such_function is not modelled")]


def test_traps_name_their_threads() -> None:
    trace = go(kernel([If(Binary("eq", T, Const(3, I64), BOOL), Block((Exit(trap=True, span=span(4)),)))], {}), 8)
    (problem,) = trace.problems
    assert (problem.kind, problem.threads, trace.status) == ("trap", ((0, 3),), "stopped")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
def test_leaving_nested_labels_across_barriers(schedule: Schedule) -> None:
    """Threads leave an outer labelled block from inside a loop with a barrier, in different iterations."""
    buffers: dict[str, Type] = {"out": I32}
    i = Var(1, "i", I32)
    leave = If(Binary("eq", Cast(i, I64), Binary("rem", T, Const(3, I64), I64), BOOL), Block((Break(7),)))
    warp = Barrier("warp", mask=Const(0, U32))
    step = Block((Assign(i, Binary("add", i, Const(1, I32), I32)),))
    lonely = Barrier("warp", mask=Binary("shl", Const(1, U32), Special("laneid"), U32))
    loop = Loop(2, Block(), Binary("lt", i, Const(9, I32), BOOL), Block((lonely, leave)), step)
    body: list[Stmt] = [Assign(i, Const(0, I32)), Block((loop,), label=7)]
    body.append(Store(at(pointer(buffers, "out"), T, 4), (i,), I32))
    trace = go(kernel(body, buffers), 32, schedule, out=np.zeros(32, np.int32))
    assert trace.problems == ()
    assert np.frombuffer(trace.memory["out"], np.int32).tolist() == [t % 3 for t in range(32)]
    assert [p.kind for p in go(kernel([warp], {}), 32, schedule).problems] == ["bad-mask"]
