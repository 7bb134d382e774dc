"""The second reader end to end: cut out, compile, interpret. Skipped where there is no compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from prelaunch.analysis.frontends.cuda import load_project, lower_kernel, project_from_text
from prelaunch.analysis.ptx import child
from prelaunch.analysis.ptx import compile as ptx_compile
from prelaunch.analysis.ptx.compile import Unavailable, Unit, compile_units, diagnostics, sanitised
from prelaunch.analysis.ptx.libraries import Toolchain, toolchain
from prelaunch.analysis.ptx.slice import slice_kernel
from prelaunch.analysis.trace import Argument, Event, LaunchConfig, Trace
from prelaunch.analysis.witness_ptx import compare, read

TOOLS = toolchain()
needs_compiler = pytest.mark.skipif(
    TOOLS.nvrtc is None and TOOLS.nvcc is None,
    reason="neither NVRTC nor nvcc is installed: pip install 'prelaunch[sass]'",
)
needs_nvrtc = pytest.mark.skipif(TOOLS.nvrtc is None, reason="NVRTC is not installed: pip install 'prelaunch[sass]'")
pytestmark = needs_compiler


def ints(*values: int) -> Argument:
    return Argument(data=np.array(values, np.int32).tobytes())


def accesses(trace: Trace, thread: int = 0) -> list[tuple[str, str, int, int, int, int]]:
    """(mode, object, offset, size, line, phase) of one thread, in order."""
    return [(e.mode, e.object, e.offset, e.size, e.line, e.phase) for e in trace.events if e.thread == thread]


SUM = """\
__device__ int pick(const int* p, int i) {
  if (i < 0) return 0;
  return p[i];
}
struct Box { int lo; short hi; int* to; };
__constant__ int scale[4] = {1, 2, 3, 4};
__device__ int total;
__global__ void k(const int* in, Box box, int n) {
  __shared__ int part[64];
  extern __shared__ int extra[];
  int t = threadIdx.x;
  part[t] = pick(in, t) * scale[t & 3];
  extra[t] = box.lo + box.hi;
  __syncthreads();
  if (t < n) {
    box.to[t] =
        part[63 - t]
        + extra[t];
  }
  atomicAdd(&total, 1);
}
"""


def test_events_carry_objects_offsets_lines_and_phases() -> None:
    project = project_from_text(SUM)
    decl = project.kernels()[0]
    arguments = {
        "in": ints(*range(64)),
        "box.lo": Argument(5),
        "box.hi": Argument(-2),
        "box.to": Argument(data=bytes(256)),
        "n": Argument(1),
    }
    config = LaunchConfig((1, 1, 1), (64, 1, 1), 256)
    trace = read(project, decl, (), config, arguments, kernel=lower_kernel(project, decl))
    assert (trace.status, trace.problems) == ("done", ())
    assert sorted(accesses(trace)) == sorted(
        [
            ("read", "in", 0, 4, 3, 0),
            ("read", "scale", 0, 4, 12, 0),
            ("write", "part", 0, 4, 12, 0),
            ("write", "extra", 0, 4, 13, 0),
            ("read", "part", 252, 4, 17, 1),
            ("read", "extra", 0, 4, 18, 1),
            ("write", "box.to", 0, 4, 16, 1),
            ("atomic", "total", 0, 4, 20, 1),
        ]
    )
    assert {e.file for e in trace.events} == {"k.cu"}
    assert np.frombuffer(trace.memory["box.to"], np.int32)[0] == 63 * 4 + 3
    assert np.frombuffer(trace.memory["total"], np.int32)[0] == 64


def test_template_arguments_and_namespaces() -> None:
    text = """
namespace outer { namespace {
template <int N, typename T> __global__ void fill(T* out) { if (threadIdx.x < N) out[threadIdx.x] = T(N); }
} }
"""
    config = LaunchConfig((1, 1, 1), (32, 1, 1))
    trace = read(text, "fill", ("3", "short"), config, {"out": Argument(data=bytes(64))})
    assert trace.status == "done", trace.reason
    assert [(e.thread, e.offset, e.size) for e in trace.events] == [(0, 0, 2), (1, 2, 2), (2, 4, 2)]


def races(trace: Trace) -> set[tuple[int, int]]:
    """Lines of two accesses of one phase to one byte by two threads of a block, one of them a write."""
    byte_of: dict[tuple[int, int, str, int], list[Event]] = {}
    for event in trace.events:
        for byte in range(event.offset, event.offset + event.size):
            byte_of.setdefault((event.block, event.phase, event.object, byte), []).append(event)
    found = set()
    for events in byte_of.values():
        for a in events:
            for b in events:
                if a.thread != b.thread and a.mode == "write" and b.mode != "atomic":
                    found.add((a.line, b.line))
    return found


def test_events_show_a_race_at_its_lines_and_none_once_repaired() -> None:
    racy = """__global__ void shift(int* x) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  x[t] = s[(t + 1) % 64];
}
"""
    repaired = racy.replace("x[t];\n", "x[t]; __syncthreads();\n", 1)
    config = LaunchConfig((1, 1, 1), (64, 1, 1))
    arguments = {"x": Argument(data=bytes(256))}
    assert (4, 5) in races(read(racy, "shift", (), config, arguments))
    assert races(read(repaired, "shift", (), config, arguments)) == set()


def test_out_of_bounds_shared_access_is_a_problem() -> None:
    text = "__global__ void k(int* x) { __shared__ int s[8]; s[threadIdx.x] = 1; x[0] = s[0]; }"
    trace = read(text, "k", (), LaunchConfig((1, 1, 1), (32, 1, 1)), {"x": Argument(data=bytes(4))})
    (problem,) = trace.problems
    assert (problem.kind, len(problem.threads), problem.spans[0].line) == ("out-of-bounds", 24, 1)


def test_assertions_are_problems() -> None:
    text = "#include <assert.h>\n__global__ void k(int n) {\n  assert(n > threadIdx.x);\n}\n"
    trace = read(text, "k", (), LaunchConfig(), {"n": Argument(31)})
    assert (trace.status, trace.problems[0].kind, trace.problems[0].spans[0].line) == ("stopped", "assertion", 3)
    assert trace.problems[0].threads == ((0, 31),)


def test_a_kernel_that_does_not_compile_says_where() -> None:
    trace = read("__global__ void k(int* x) {\n  x[0] = missing;\n}\n", "k")
    assert trace.status == "stopped"
    assert trace.reason.startswith("k.cu:2: ")
    assert "missing" in trace.reason


@needs_nvrtc
@pytest.mark.skipif(TOOLS.nvcc is None, reason="nvcc is not installed")
def test_nvcc_and_nvrtc_give_the_same_trace() -> None:
    text = """#include <cstdint>
template <int N> __global__ void k(uint32_t* x, float* y) {
  __shared__ float s[N];
  s[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = (uint32_t)s[N - 1 - threadIdx.x];
}
"""
    arguments = {"x": Argument(data=bytes(128)), "y": Argument(data=np.arange(32, dtype=np.float32).tobytes())}
    traces = [read(text, "k", ("32",), LaunchConfig(), arguments, reader=r) for r in ("nvrtc", "nvcc")]
    assert [t.status for t in traces] == ["done", "done"], [t.reason for t in traces]
    assert compare(traces[0], traces[1]) == []
    assert [traces[0].memory[n] for n in "xy"] == [traces[1].memory[n] for n in "xy"]


# --- comparison ---


def event(mode: str, offset: int, size: int, phase: int = 0, line: int = 1, name: str = "a") -> Event:
    return Event(0, 0, phase, mode, name, offset, size, "k.cu", line)  # type: ignore[arg-type]  # literal by parameter


def trace_of(*events: Event) -> Trace:
    return Trace(events, (), "done")


def test_comparison_ignores_granularity_order_and_inlining_paths() -> None:
    one = trace_of(event("read", 0, 16), event("write", 32, 4, name="f/a#2"))
    other = trace_of(event("write", 32, 4), *(event("read", 4 * i, 4) for i in (3, 1, 0, 2)))
    assert compare(one, other) == []


def test_comparison_shows_what_only_one_side_has() -> None:
    (found,) = compare(trace_of(event("read", 0, 8)), trace_of(event("read", 0, 4), event("read", 8, 4)))
    assert (found.first, found.second) == (("a[4:8] k.cu:1",), ("a[8:12] k.cu:1",))
    assert compare(trace_of(event("read", 0, 4, phase=1)), trace_of(event("read", 0, 4)))
    assert compare(trace_of(event("read", 0, 4)), trace_of(event("read", 0, 4), event("read", 0, 4)))


def test_comparison_takes_lines_of_one_statement_as_one() -> None:
    one, other = trace_of(event("read", 0, 4, line=7)), trace_of(event("read", 0, 4, line=8))
    assert compare(one, other)
    assert compare(one, other, anchor=lambda file, line: 7) == []


# --- slicing ---


def test_a_slice_flattens_local_headers_and_drops_host_code(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "deep.h").write_text("#pragma once\n#define TWICE(x) ((x) * 2)\nstruct Unused { int q; };\n")
    (tmp_path / "tools.cuh").write_text(
        '#include "inc/deep.h"\nstatic __device__ int twice(int x) {\n  return TWICE(x);\n}\nvoid host_only() { }\n'
    )
    (tmp_path / "main.cu").write_text(
        '#include <vector>\n#include "tools.cuh"\nstd::vector<int> all;\n'
        "__global__ void k(int* x) {\n  x[threadIdx.x] = twice(threadIdx.x);\n}\n"
        "int main() { k<<<1, 32>>>(nullptr); }\n"
    )
    project = load_project(tmp_path)
    sliced = slice_kernel(project, project.kernels()[0])
    for gone in ("#include", "vector", "main()", "host_only", "Unused"):
        assert gone not in sliced.body
    trace = read(project, "k", (), LaunchConfig(), {"x": Argument(data=bytes(128))})
    assert trace.status == "done", trace.reason
    assert np.frombuffer(trace.memory["x"], np.int32).tolist() == [2 * t for t in range(32)]
    assert {(e.file, e.line) for e in trace.events} == {("main.cu", 5)}


@pytest.mark.parametrize(
    "hostile",
    [
        '#include "/etc/hostname"',
        '#include "../../../../etc/hostname"',
        "#include </etc/hostname>",
        "#  include\\\n </etc/hostname>",
        "#inc\\\nlude </etc/hostname>",
        '%:include "/etc/hostname"',
        '/**/ # /**/ include "/etc/hostname"',
        "#define H </etc/hostname>\n#include H",
        '#include_next "/etc/hostname"',
        '#import "/etc/hostname"',
        "a'/*'\n#include </etc/hostname>\n//*/",
        'const char* r = R"(\n#include </etc/hostname>\n)";',
        "#if __has_include(</etc/hostname>)\n#define FOUND\n#endif",
        'const char e[] = {\n#embed "/etc/hostname"\n};',
        '#line 1 "/etc/hostname"',
    ],
)
def test_no_directive_of_the_repository_reaches_the_compiler(hostile: str) -> None:
    text = f"{hostile}\n__global__ void k(int* x) {{\n{hostile}\n x[0] = 1; }}\n"
    project = project_from_text(text)
    for decl in project.kernels():
        unit = slice_kernel(project, decl)
        rest = [line for line in unit.body.splitlines() if line.lstrip()[:1] in ("#", "%")]
        allowed = ("#line ", "#define ", "#undef ", "#pragma unroll")
        assert all(line.startswith(allowed) for line in rest), rest


# --- confinement ---


def outcome(text: str, **options: float) -> ptx_compile.Compiled:
    (result,) = compile_units([Unit(text, ("k",))], **options)  # type: ignore[arg-type]  # only seconds are passed
    return result


@needs_nvrtc
def test_the_compiler_cannot_read_outside_its_folders(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define K 1\nprelaunch_secret_words\n")
    result = outcome(f'#include "{secret}"\n__global__ void k() {{}}\n')
    assert result.ptx is None
    assert result.confinement["limits"] in ("on", "no resource limits on this platform")
    if result.confinement["files"] == "on":
        assert "could not open" in result.failure or "cannot open" in result.failure
    assert "prelaunch_secret_words" not in result.failure + "".join(d.message for d in result.diagnostics)


@needs_nvrtc
def test_environment_is_empty_and_network_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRELAUNCH_TEST_SECRET", "visible")
    assert "PRELAUNCH_TEST_SECRET" not in ptx_compile._environment()
    assert set(ptx_compile._environment()) <= {"SYSTEMROOT"}
    result = outcome('extern "C" __global__ void k() {}\n')
    assert result.ptx is not None
    assert set(result.confinement) == {"limits", "network", "files"}
    assert all(result.confinement.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to look from inside the confinement")
def test_a_confined_process_has_no_network_and_no_files() -> None:
    """The measures themselves, in a process of its own: what they claim to be on, is."""
    code = f"""
import json, runpy, socket, sys
child = runpy.run_path({child.__file__!r})
state = child["confine"]({{"cpu_seconds": 5, "memory_bytes": 1 << 32, "file_bytes": 1 << 20, "readable": []}})
try:
    socket.create_connection(("127.0.0.1", 9), timeout=1)
except OSError as error:
    state["socket"] = error.strerror or str(error)
try:
    open("/etc/hostname").read(); state["read"] = "allowed"
except OSError:
    state["read"] = "refused"
print(json.dumps(state))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    state = json.loads(done.stdout)
    if state["network"] == "on":
        assert state["socket"] != "Connection refused"  # what a machine with its network says of an unused port
    if state["files"] == "on":
        assert state["read"] == "refused"
    assert state["limits"] == "on"


@needs_nvrtc
@pytest.mark.parametrize(
    "text",
    [
        "template <int N> struct D { static constexpr int v = D<N + 1>::v; };\n"
        "__global__ void k(int* x) { x[0] = D<0>::v; }\n",
        "".join(f"#define B{i} B{i - 1} B{i - 1} B{i - 1} B{i - 1}\n" for i in range(1, 16))
        + "#define B0 x += 1;\n__global__ void k(int x) { B15 }\n",
        "constexpr int f(int n) { while (true) n++; return n; }\n__global__ void k(int* x) { x[0] = f(1) ; }\n"
        "constexpr int v = f(0);\n",
    ],
    ids=["endless templates", "macro bomb", "endless constexpr"],
)
def test_bombs_end_in_time_with_a_reason(text: str) -> None:
    started = time.monotonic()
    result = outcome(text, unit_seconds=5.0)
    assert time.monotonic() - started < 20
    assert result.ptx is None
    assert result.failure


@needs_nvrtc
def test_a_unit_that_overruns_fails_alone() -> None:
    bomb = "".join(f"#define B{i} B{i - 1} B{i - 1} B{i - 1} B{i - 1}\n" for i in range(1, 16))
    good = Unit('extern "C" __global__ void k() {}\n', ("k",))
    results = compile_units([good, Unit(bomb + "#define B0 x += 1;\n__global__ void k(int x) { B15 }\n", ("k",)), good],
                            unit_seconds=4.0)  # fmt: skip
    assert [r.ptx is not None for r in results] == [True, False, True]


def test_missing_compilers_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx_compile, "toolchain", lambda: Toolchain(None, (), None, ()))
    with pytest.raises(Unavailable, match=r"pip install 'prelaunch\[sass\]'"):
        compile_units([Unit("")])


def test_compiler_text_is_reduced_to_places_and_short_messages() -> None:
    log = 'f0(12): error: identifier "x" is undefined\n    secret = source_line;\n             ^\n\n1 error detected.\n'
    (found,) = diagnostics(log)
    assert (found.file, found.line, found.message) == ("f0", 12, 'identifier "x" is undefined')
    assert sanitised("a\x1b[31mb\u202ec" + "d" * 500) == "a [31mb c" + "d" * 151
