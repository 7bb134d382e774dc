"""The PTX interpreter on hand-written PTX: no compiler needed."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from prelaunch.analysis.ptx.execute import Launch, Leaf, execute, source_name
from prelaunch.analysis.ptx.parse import PtxError, parse
from prelaunch.analysis.trace import Argument, LaunchConfig, Trace

HEADER = ".version 8.0\n.target sm_80, debug\n.address_size 64\n"


def run(body: str, out: int = 64, config: LaunchConfig | None = None, extra: str = "", module: str = "") -> Trace:
    """Runs ``body`` with ``%out`` pointing to ``out`` bytes and ``%t`` the thread number."""
    text = f"""{HEADER}{module}
.visible .entry k(.param .u64 k_param_0)
{{
 .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .b64 %rd<16>; .reg .f64 %d<8>;
 .reg .b64 %out; .reg .b32 %t; {extra}
 .file 1 "k.cu"
 .loc 1 1 0
 ld.param.u64 %out, [k_param_0];
 mov.u32 %t, %tid.x;
{body}
 ret;
}}
"""
    launch = Launch(
        "k",
        config or LaunchConfig(),
        [Leaf("out", 0, 0, 8, "pointer", "out")],
        {"out": Argument(data=bytes(out))},
        {1: "k.cu"},
        max_steps=20_000,
    )
    return execute(parse(text), launch)


def value(body: str, kind: str = "i") -> int | float:
    """What thread 0 leaves in ``%r0`` (or ``%rd0`` for 8-byte kinds)."""
    register = {"i": "%r0", "I": "%r0", "q": "%rd0", "Q": "%rd0", "f": "%f0", "d": "%d0"}[kind]
    size = {"i": "u32", "I": "u32", "q": "u64", "Q": "u64", "f": "f32", "d": "f64"}[kind]
    trace = run(f"{body}\n st.global.{size} [%out], {register};", config=LaunchConfig((1, 1, 1), (1, 1, 1)))
    assert trace.status == "done", trace.reason
    found: int | float = struct.unpack("<" + kind, trace.memory["out"][: struct.calcsize(kind)])[0]
    return found


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u32 %r1, 7; div.s32 %r0, -7, 2;", -3),
        ("mov.u32 %r1, -7; rem.s32 %r0, %r1, 3;", -1),
        ("mov.u32 %r1, 0x80000000; div.s32 %r0, %r1, -1;", -(1 << 31)),
        ("mov.u32 %r1, 0x7fffffff; add.s32 %r0, %r1, 1;", -(1 << 31)),
        ("mov.u32 %r1, 0x7fffffff; add.sat.s32 %r0, %r1, 5;", (1 << 31) - 1),
        ("mov.u32 %r1, -3; mul.hi.s32 %r0, %r1, 0x40000000;", -1),
        ("mov.u32 %r1, 0xffffffff; mul.hi.u32 %r0, %r1, %r1;", -2),
        ("mov.u32 %r1, 5; mad.lo.s32 %r0, %r1, %r1, -1;", 24),
        ("mov.u32 %r1, 1; shl.b32 %r0, %r1, 33;", 0),
        ("mov.u32 %r1, -8; shr.s32 %r0, %r1, 40;", -1),
        ("mov.u32 %r1, -8; shr.u32 %r0, %r1, 28;", 15),
        ("mov.u32 %r1, 0xf0; bfe.u32 %r0, %r1, 4, 4;", 15),
        ("mov.u32 %r1, 0xf0; bfe.s32 %r0, %r1, 4, 4;", -1),
        ("mov.u32 %r1, 0x80000000; bfe.s32 %r0, %r1, 28, 8;", -8),
        ("mov.u32 %r1, 0; bfi.b32 %r0, 0xff, %r1, 8, 4;", 0xF00),
        ("mov.u32 %r1, 0x00100000; bfind.u32 %r0, %r1;", 20),
        ("mov.u32 %r1, -2; bfind.s32 %r0, %r1;", 0),
        ("mov.u32 %r1, 0; bfind.u32 %r0, %r1;", -1),
        ("mov.u32 %r1, 1; clz.b32 %r0, %r1;", 31),
        ("mov.u32 %r1, 0xff; popc.b32 %r0, %r1;", 8),
        ("mov.u32 %r1, 1; brev.b32 %r0, %r1;", -(1 << 31)),
        ("mov.u32 %r1, 0x33221100; prmt.b32 %r0, %r1, 0x77665544, 0x7531;", 0x77553311),
        ("mov.u32 %r1, 0x80; prmt.b32 %r0, %r1, 0, 0x8888;", -1),
        ("mov.u32 %r1, 0xf; lop3.b32 %r0, %r1, 0x3c, 0xff, 0x80;", 0xC),
        ("mov.u32 %r1, 0x80000001; shf.l.wrap.b32 %r0, %r1, %r1, 4;", 0x18),
        ("mov.u32 %r1, 9; sad.s32 %r0, %r1, 12, 1;", 4),
        ("mov.u32 %r1, 0xff01ff02; dp4a.s32.s32 %r0, %r1, 0x01010101, 10;", 11),
        ("mov.u32 %r1, -1; setp.lt.u32 %p0, %r1, 5; selp.b32 %r0, 1, 2, %p0;", 2),
        ("mov.u32 %r1, -1; setp.lt.s32 %p0|%p1, %r1, 5; selp.b32 %r0, 1, 2, %p1;", 2),
        ("mov.u32 %r1, 3; set.eq.u32.u32 %r0, %r1, 3;", -1),
        ("mov.u32 %r1, 300; cvt.u8.u32 %r0, %r1;", 44),
        ("mov.u32 %r1, 200; cvt.s8.u32 %r0, %r1; ", -56),
        ("mov.u32 %r1, 300; cvt.sat.u8.u32 %r0, %r1;", 255),
        ("mov.f32 %f1, 0fC0200000; cvt.rni.s32.f32 %r0, %f1;", -2),
        ("mov.f32 %f1, 0fC0200000; cvt.rmi.s32.f32 %r0, %f1;", -3),
        ("mov.f32 %f1, 0f7F800000; cvt.rzi.s32.f32 %r0, %f1;", (1 << 31) - 1),
        ("mov.f32 %f1, 0f7FC00000; cvt.rzi.s32.f32 %r0, %f1;", 0),
        ("mov.b32 %r1, 0x00010002; mov.b32 {%h0, %h1}, %r1; mov.b32 %r0, {%h1, %h0};", 0x00020001),
        ("add.cc.u32 %r1, 0xffffffff, 1; addc.u32 %r0, 2, 3;", 6),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r0, 5, 1;", 3),
        ("mov.u32 %r1, 0; slct.s32.s32 %r0, 7, 9, %r1;", 7),
        ("mov.u32 %r1, 5; not.b32 %r0, %r1;", -6),
        ("mov.u32 %r1, 0; cnot.b32 %r0, %r1;", 1),
    ],
)
def test_integer_instructions(code: str, expected: int) -> None:
    assert value(code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u64 %rd1, -1; mul.hi.u64 %rd0, %rd1, %rd1;", -2),
        ("mov.u64 %rd1, -5; mul.hi.s64 %rd0, %rd1, 7;", -1),
        ("mov.u32 %r1, -5; mul.wide.s32 %rd0, %r1, 7;", -35),
        ("mov.u32 %r1, -5; cvt.s64.s32 %rd0, %r1;", -5),
        ("mov.u32 %r1, -5; cvt.u64.u32 %rd0, %r1;", (1 << 32) - 5),
        ("mov.u64 %rd1, 1; shl.b64 %rd0, %rd1, 63;", -(1 << 63)),
        ("mov.u32 %r1, 1; mov.u32 %r2, 2; mov.b64 %rd0, {%r1, %r2};", (2 << 32) + 1),
        ("mov.u64 %rd1, -7; div.s64 %rd0, %rd1, 2;", -3),
    ],
)
def test_wide_integer_instructions(code: str, expected: int) -> None:
    assert value(code, "q") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.f32 %f1, 0f40000000; fma.rn.f32 %f0, %f1, %f1, %f1;", 6.0),
        ("mov.f32 %f1, 0f40000000; rcp.approx.ftz.f32 %f0, %f1;", 0.5),
        ("mov.f32 %f1, 0f00000001; add.ftz.f32 %f0, %f1, %f1;", 0.0),
        ("mov.f32 %f1, 0f40800000; add.sat.f32 %f0, %f1, %f1;", 1.0),
        ("mov.f32 %f1, 0f7FC00000; mov.f32 %f2, 0f3F800000; min.f32 %f0, %f1, %f2;", 1.0),
        ("mov.f32 %f1, 0fBF800000; mov.f32 %f2, 0f40A00000; copysign.f32 %f0, %f1, %f2;", -5.0),
        ("mov.u32 %r1, 16777217; cvt.rz.f32.u32 %f0, %r1;", 16777216.0),
        ("mov.u32 %r1, 16777217; cvt.rp.f32.u32 %f0, %r1;", 16777218.0),
        ("mov.b16 %h0, 0x3C00; cvt.f32.f16 %f0, %h0;", 1.0),
        ("mov.f32 %f1, 0f40800000; sqrt.rn.f32 %f0, %f1;", 2.0),
        ("mov.f32 %f1, 0f40400000; ex2.approx.f32 %f0, %f1;", 8.0),
    ],
)
def test_float_instructions(code: str, expected: float) -> None:
    assert value(code, "f") == expected


def test_double_fma_rounds_once() -> None:
    code = "mov.f64 %d1, 0d3FF0000000000001; fma.rn.f64 %d0, %d1, %d1, 0dBFF0000000000002;"
    assert value(code, "d") == 2.0**-104


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("setp.neu.f32 %p0, %f1, %f1; selp.b32 %r0, 1, 0, %p0;", 1),
        ("setp.ne.f32 %p0, %f1, %f1; selp.b32 %r0, 1, 0, %p0;", 0),
        ("setp.ltu.f32 %p0, %f1, %f1; selp.b32 %r0, 1, 0, %p0;", 1),
        ("testp.notanumber.f32 %p0, %f1; selp.b32 %r0, 1, 0, %p0;", 1),
        ("setp.num.f32 %p0, %f1, %f1; selp.b32 %r0, 1, 0, %p0;", 0),
    ],
)
def test_comparisons_with_nan(code: str, expected: int) -> None:
    assert value(f"mov.f32 %f1, 0f7FC00000; {code}") == expected


STORE_OWN = " mul.wide.u32 %rd1, %t, 4; add.s64 %rd2, %out, %rd1; st.global.u32 [%rd2], %r0;"


def words(trace: Trace) -> list[int]:
    assert trace.status == "done", trace.reason
    return [int(word) for word in np.frombuffer(trace.memory["out"], np.int32)]


def test_lanes_that_part_meet_again() -> None:
    body = f"""
 and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 0; @%p0 bra EVEN;
 mov.u32 %r0, 1; bra.uni MEET;
EVEN: mov.u32 %r0, 2;
MEET: {STORE_OWN}"""
    trace = run(body, 128)
    assert words(trace) == [2, 1] * 16
    assert [e.thread for e in trace.events if e.mode == "write"] == list(range(32))


def test_indexed_branch_and_guarded_instructions() -> None:
    body = f"""
 and.b32 %r1, %t, 3; mov.u32 %r0, 100;
 T: .branchtargets A, B, A, C;
 brx.idx %r1, T;
A: mov.u32 %r0, 1; bra D;
B: mov.u32 %r0, 2; bra D;
C: mov.u32 %r0, 3;
D: setp.eq.u32 %p0, %t, 5; @!%p0 add.s32 %r0, %r0, 10; {STORE_OWN}"""
    assert words(run(body, 32, LaunchConfig((1, 1, 1), (8, 1, 1)))) == [11, 12, 11, 13, 11, 2, 11, 13]


def test_shuffles_votes_and_reductions() -> None:
    body = """
 shfl.sync.down.b32 %r1|%p0, %t, 4, 31, -1; selp.b32 %r2, 1000, 0, %p0; add.s32 %r0, %r1, %r2;
 setp.lt.u32 %p1, %t, 3; vote.sync.ballot.b32 %r3, %p1, -1; add.s32 %r0, %r0, %r3;
 redux.sync.add.s32 %r4, %t, -1; add.s32 %r0, %r0, %r4;"""
    expected = [(t + 4 if t + 4 < 32 else t) + (1000 if t + 4 < 32 else 0) + 7 + 496 for t in range(32)]
    assert words(run(body + STORE_OWN, 128)) == expected


def test_shuffle_up_in_segments() -> None:
    """``width`` 8: c = (32 - 8) << 8, clamp 0."""
    body = "shfl.sync.up.b32 %r0, %t, 3, 0x1800, -1;" + STORE_OWN
    assert words(run(body, 128)) == [t if t % 8 < 3 else t - 3 for t in range(32)]


def test_a_shuffle_waits_for_lanes_on_another_path() -> None:
    body = f"""
 setp.lt.u32 %p0, %t, 16; mov.u32 %r1, 0; @%p0 bra JOIN;
 LOOP: add.s32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %t; @%p1 bra LOOP;
JOIN: shfl.sync.idx.b32 %r0, %r1, 31, 31, -1; {STORE_OWN}"""
    assert words(run(body, 128)) == [31] * 32


def test_mask_that_leaves_the_lane_out_is_reported() -> None:
    trace = run("shfl.sync.idx.b32 %r0, %t, 0, 31, 0xff;", 128)
    assert [p.kind for p in trace.problems] == ["bad-mask"]
    assert [t for _, t in trace.problems[0].threads] == list(range(8, 32))


def test_lanes_that_never_arrive_are_a_deadlock() -> None:
    body = "setp.lt.u32 %p0, %t, 16; @%p0 bra A; bar.warp.sync 0xffffffff; bra B;\nA: bar.sync 0;\nB: mov.u32 %r0, 0;"
    trace = run(body, 128)
    assert trace.status == "stopped"
    assert [p.kind for p in trace.problems] == ["deadlock"]


def test_barriers_count_phases_and_reduce() -> None:
    body = f"setp.lt.u32 %p0, %t, 5; bar.sync 0; barrier.red.popc.u32 %r0, 0, %p0; {STORE_OWN}"
    trace = run(body, 256, LaunchConfig((1, 1, 1), (64, 1, 1)))
    assert words(trace) == [5] * 64
    assert {e.phase for e in trace.events} == {2}


def test_different_barriers_meeting_is_divergence() -> None:
    body = """
 setp.lt.u32 %p0, %t, 32; @%p0 bra A;
 .loc 1 7 0
 bar.sync 0; bra B;
A:
 .loc 1 9 0
 bar.sync 0;
B: mov.u32 %r0, 1;"""
    trace = run(body, 64, LaunchConfig((1, 1, 1), (64, 1, 1)))
    assert [p.kind for p in trace.problems] == ["divergent-barrier"]
    assert "7, 9" in trace.problems[0].message


def test_exited_threads_release_a_barrier() -> None:
    body = "setp.lt.u32 %p0, %t, 40; @%p0 bra A; exit;\nA: bar.sync 0; mov.u32 %r0, 4;" + STORE_OWN
    trace = run(body, 256, LaunchConfig((1, 1, 1), (64, 1, 1)))
    assert words(trace)[:41] == [4] * 40 + [0]
    assert [p.kind for p in trace.problems] == ["exited-barrier"]


def test_named_barrier_out_of_range_stops() -> None:
    trace = run("bar.sync 16;")
    assert (trace.status, [p.kind for p in trace.problems]) == ("stopped", ["named-barrier-id"])


def test_out_of_bounds_access_names_object_offset_and_threads() -> None:
    trace = run("mov.u32 %r0, 5;" + STORE_OWN, 64)
    (problem,) = trace.problems
    assert problem.kind == "out-of-bounds"
    assert "offset 64 of out (64 bytes)" in problem.message
    assert [t for _, t in problem.threads] == list(range(16, 32))
    assert [e.thread for e in trace.events] == list(range(16))


def test_access_before_an_object_is_out_of_bounds_of_that_object() -> None:
    trace = run("st.global.u32 [%out+-4], %t;", config=LaunchConfig((1, 1, 1), (1, 1, 1)))
    assert "offset -4 of out" in trace.problems[0].message


def test_reading_through_a_null_pointer_is_a_problem_and_gives_zero() -> None:
    trace = run("mov.u64 %rd1, 0; mov.u32 %r0, 9; ld.global.u32 %r0, [%rd1+8];" + STORE_OWN, 128)
    assert trace.problems[0].kind == "null-pointer"
    assert words(trace) == [0] * 32


def test_misaligned_vector_access_is_reported_and_done_bytewise() -> None:
    body = "mov.u64 %rd1, 0x0000000200000001; st.global.v2.u32 [%out+4], {%t, %t}; ld.global.u64 %rd2, [%out];"
    trace = run(body, config=LaunchConfig((1, 1, 1), (1, 1, 1)))
    assert [p.kind for p in trace.problems] == ["misaligned"]
    assert [(e.mode, e.offset, e.size) for e in trace.events] == [("write", 4, 8), ("read", 0, 8)]


def test_reading_unwritten_shared_memory_is_reported() -> None:
    body = " mov.u32 %r5, s; st.shared.u32 [%r5], %t; ld.shared.u32 %r0, [%r5+4];"
    trace = run(body, config=LaunchConfig((1, 1, 1), (1, 1, 1)), module=".shared .align 4 .b8 s[8];\n")
    assert [p.kind for p in trace.problems] == ["uninitialised-shared"]
    assert [(e.object, e.offset) for e in trace.events] == [("s", 0), ("s", 4)]


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [("add.u32", "1", 32), ("max.s32", "%t", 31), ("exch.b32", "%t", 31), ("inc.u32", "20", 11), ("or.b32", "%t", 31)],
)
def test_atomics_take_turns_in_thread_order(op: str, operands: str, expected: int) -> None:
    trace = run(f"atom.global.{op} %r0, [%out], {operands};")
    assert words(trace)[0] == expected
    assert {e.mode for e in trace.events} == {"atomic"}


def test_compare_and_swap_lets_one_thread_win() -> None:
    body = "atom.global.cas.b32 %r1, [%out], 0, 7; setp.eq.s32 %p0, %r1, 0; @%p0 st.global.u32 [%out+4], %t;"
    assert words(run(body))[:2] == [7, 0]


def test_a_spinning_lane_does_not_starve_the_lane_it_waits_for() -> None:
    body = """
 setp.eq.u32 %p0, %t, 3; @%p0 bra SET;
WAIT: ld.volatile.global.u32 %r0, [%out]; setp.eq.s32 %p1, %r0, 0; @%p1 bra WAIT; bra DONE;
SET: mov.u32 %r1, 1; st.volatile.global.u32 [%out], %r1;
DONE: mov.u32 %r2, 0;"""
    assert run(body).status == "done"


def test_calls_pass_parameters_and_recursion_is_bounded() -> None:
    callee = """.func (.param .b32 ret0) twice(.param .b32 arg0)
{ .reg .b32 %a<3>; ld.param.u32 %a1, [arg0]; add.s32 %a2, %a1, %a1; st.param.b32 [ret0+0], %a2; ret; }
.func forever() { call.uni forever, (); ret; }
"""
    body = (
        """{ .param .b32 param0; st.param.b32 [param0+0], %t; .param .b32 retval0;
 call.uni (retval0), twice, (param0); ld.param.b32 %r0, [retval0+0]; }"""
        + STORE_OWN
    )
    assert words(run(body, 128, module=callee)) == [2 * t for t in range(32)]
    trace = run(" call.uni forever, ();", module=callee)
    assert (trace.status, "deeper" in trace.reason) == ("stopped", True)


def test_local_memory_is_private_and_not_recorded() -> None:
    body = " mov.u64 %rd3, depot; cvta.local.u64 %rd4, %rd3; st.u32 [%rd4+4], %t; ld.local.u32 %r0, [%rd3+4];"
    trace = run(body + STORE_OWN, 128, extra=".local .align 8 .b8 depot[16];")
    assert words(trace) == list(range(32))
    assert {e.object for e in trace.events} == {"out"}


def test_asynchronous_copy_reads_global_writes_shared_and_fills_with_zeros() -> None:
    module = ".shared .align 16 .b8 s[16];\n"
    body = """ mov.u32 %r5, s; mov.u32 %r6, 0x11223344; st.global.u32 [%out], %r6; st.global.u32 [%out+4], %r6;
 cp.async.ca.shared.global [%r5], [%out], 8, 2; cp.async.commit_group; cp.async.wait_group 0;
 ld.shared.v2.u32 {%r7, %r8}, [%r5]; st.global.v2.u32 [%out+8], {%r7, %r8};"""
    trace = run(body, config=LaunchConfig((1, 1, 1), (1, 1, 1)), module=module)
    assert words(trace)[2:4] == [0x3344, 0]


def test_assertion_and_trap_stop_with_their_threads() -> None:
    module = ".extern .func __assertfail (.param .b64 a0);\n"
    body = """ setp.ne.u32 %p0, %t, 9; @%p0 bra OK;
 { .param .b64 param0; st.param.b64 [param0+0], %out; call.uni __assertfail, (param0); }
OK: mov.u32 %r0, 0;"""
    trace = run(body, module=module)
    assert (trace.status, [p.kind for p in trace.problems]) == ("stopped", ["assertion"])
    assert trace.problems[0].threads == ((0, 9),)
    assert run("trap;").problems[0].kind == "trap"


def test_steps_are_bounded() -> None:
    trace = run("FOREVER: bra FOREVER;")
    assert trace.status == "steps"


def test_an_unknown_instruction_stops_only_when_reached() -> None:
    skipped = run("bra OVER; tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%out];\nOVER: mov.u32 %r0, 1;")
    assert skipped.status == "done"
    trace = run("wgmma.fence.sync.aligned;")
    assert (trace.status, trace.reason) == ("stopped", "instruction wgmma.fence.sync.aligned is not modelled")


@pytest.mark.parametrize(
    "text",
    [
        HEADER + ".entry k() { .reg .b32 %r<999999999>; ret; }",
        HEADER + ".global .b8 x[99999999999];",
        HEADER + ".entry k() { add.s32 %r1, %r2, 3; }",
        HEADER + ".entry k() { ld.global.u32 ",
        HEADER + "\x00",
        HEADER + ".entry k() " + "{" * 5000,
        HEADER + ".global .b8 x[4] = {" + "{" * 20,
    ],
)
def test_odd_text_is_an_error_not_a_crash(text: str) -> None:
    with pytest.raises(PtxError):
        parse(text)


@pytest.mark.parametrize(
    ("symbol", "name", "own"),
    [
        ("_ZZ1kPfE4tile", "tile", True),
        ("_ZZ1kILi32EfEvPT0_PKS0_1PiE1s", "s", True),
        ("_ZZ1kvE1s_0", "s", True),
        ("_ZL7counter", "counter", True),
        ("_ZN2ns5tableE", "table", True),
        ("counter", "counter", True),
        ("$str$1", "$str$1", False),
        ("_Z5otherPj$4", "_Z5otherPj$4", False),
        ("__cudart_i2opi_f", "__cudart_i2opi_f", False),
    ],
)
def test_source_names_of_mangled_variables(symbol: str, name: str, own: bool) -> None:
    assert source_name(symbol) == (name, own)
