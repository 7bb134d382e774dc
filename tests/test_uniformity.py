"""Levels of values and of control, asked of small kernels; and held against the interpreter-free truth of one block."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.kernel import Barrier, Kernel, Var
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.uniformity import Level, Uniformity, uniformity
from prelaunch.analysis.walk import defined, walk

GRID, BLOCK, WARP, THREAD = Level.GRID, Level.BLOCK, Level.WARP, Level.THREAD


def lowered(text: str) -> tuple[Kernel, Launch | None]:
    project = project_from_text(text)
    (declaration,) = project.kernels()
    launches = find_launches(project)
    launch = launches[0] if launches else None
    return lower_kernel(project, declaration, launch.template_args if launch else ()), launch


def levels(kernel: Kernel, found: Uniformity) -> dict[str, Level]:
    """Worst level of every named variable."""
    named: dict[str, Level] = {}
    for stmt in walk(kernel.body):
        for var in defined(stmt):
            if var.name:
                named[var.name] = max(named.get(var.name, GRID), found.variable(var.id))
    return named


@dataclass(frozen=True)
class Case:
    """``values``: worst levels of variables; ``barriers``: levels of control over the barriers, in text order."""

    body: str
    values: dict[str, Level]
    barriers: tuple[Level, ...] = ()
    launch: str = "1, 256"
    params: str = "int n, const float* in, float* out"
    head: str = ""


CASES = {
    "built-in variables": Case(
        "int t = threadIdx.x, b = blockIdx.x, d = blockDim.x * gridDim.x, k = n; float x = in[b];",
        {"t": THREAD, "b": BLOCK, "d": GRID, "k": GRID, "x": BLOCK},
        launch="n, 256",
    ),
    "one block and one row have indices of nobody": Case(
        "int b = blockIdx.x, y = threadIdx.y, x = threadIdx.x;", {"b": GRID, "y": GRID, "x": THREAD}
    ),
    "warp arithmetic": Case(
        "int w = threadIdx.x / 32, s = threadIdx.x >> 5, m = threadIdx.x & ~31, l = threadIdx.x % 32;"
        "int g = (blockIdx.x * blockDim.x + threadIdx.x) / 32; bool h = threadIdx.x < 128, o = threadIdx.x < 100;",
        {"w": WARP, "s": WARP, "m": WARP, "l": THREAD, "g": WARP, "h": WARP, "o": THREAD},
        launch="n, 256",
    ),
    "rows of a tile are warps only when they hold 32 threads": Case(
        "int y = threadIdx.y, w = threadIdx.x / 32;", {"y": WARP, "w": GRID}, launch="1, dim3(32, 8)"
    ),
    "rows of 16 are not warps": Case(
        "int y = threadIdx.y; int w = (threadIdx.y * 16 + threadIdx.x) / 32;",
        {"y": THREAD, "w": WARP},
        launch="1, dim3(16, 16)",
    ),
    "a warp that is the block": Case(
        "int w = threadIdx.x / 64; bool all = threadIdx.x < 64;", {"w": GRID, "all": GRID}, launch="1, 64"
    ),
    "unknown block, nothing assumed": Case("int w = threadIdx.x / 32;", {"w": THREAD}, launch=""),
    "branches make what they choose between theirs": Case(
        "int a = 0, b = 0, c = 0; if (threadIdx.x < 7) a = 1; if (n > 3) b = 1; if (threadIdx.x < 7) c = 0;",
        {"a": GRID, "b": GRID, "c": GRID},
    ),
    "after a divergent branch": Case(
        "int a = 0; if (threadIdx.x < 7) a = n; int r = a; if (a > 2) __syncthreads(); a = n; if (a) __syncthreads();",
        {"r": THREAD},
        (THREAD, GRID),
    ),
    "a loop all count alike": Case(
        "for (int i = 0; i < n; i += blockDim.x) { if (i + threadIdx.x < n) out[i] = 0; __syncthreads(); }",
        {"i": GRID},
        (GRID,),
    ),
    "a strided loop from the thread": Case(
        "for (int i = threadIdx.x; i < n; i += blockDim.x) __syncthreads(); __syncthreads();",
        {"i": THREAD},
        (THREAD, GRID),
    ),
    "a strided loop that comes out even": Case(
        "for (int i = threadIdx.x; i < 1024; i += blockDim.x) __syncthreads();"
        "for (int i = threadIdx.x; i < 1000; i += blockDim.x) __syncthreads();"
        "for (int i = threadIdx.x; i < 1024; i += blockDim.x) { if (in[i] > 0) break; __syncthreads(); }",
        {},
        (GRID, THREAD, THREAD),
    ),
    "rounds that differ by warp": Case(
        "int w = threadIdx.x / 32, c = 0; for (int i = w; i < 9; i += 4) { c = i; __syncthreads(); } int r = c;",
        {"r": WARP},
        (WARP,),
    ),
    "lanes of any block": Case(
        "int i = blockIdx.x * blockDim.x + threadIdx.x; int l = i % 32; bool h = l < 32, q = (i & 7) < 4;",
        {"l": THREAD, "h": GRID, "q": THREAD},
        launch="n, 256",
    ),
    "what leaves a divergent loop": Case(
        "int k = 0; while (k < n) { if (in[threadIdx.x + k] > 0) break; ++k; __syncthreads(); } int r = k;"
        "__syncthreads();",
        {"r": THREAD},
        (THREAD, GRID),
    ),
    "a break all take together": Case(
        "int k = 0; for (;;) { __syncthreads(); if (k == n) break; ++k; __syncthreads(); } int r = k;",
        {"r": GRID},
        (GRID, GRID),
    ),
    "continue passes over the rest of the body only": Case(
        "for (int k = 0; k < n; ++k) { __syncthreads(); if (threadIdx.x == k) continue; __syncthreads(); }",
        {"k": GRID},
        (GRID, THREAD),
    ),
    "a uniform break after a divergent continue diverges": Case(
        "for (int k = 0; k < n; ++k) { if (threadIdx.x == k) continue; if (k == 5) break; } __syncthreads();"
        "int k = 0; while (k < n) { ++k; if (threadIdx.x == k) continue; if (k == 5) break; __syncthreads(); }",
        {},
        (GRID, THREAD),
    ),
    "early return in a device function": Case(
        "int r = f(threadIdx.x, n); __syncthreads(); int q = g(n);",
        {"r": THREAD, "q": GRID},
        (THREAD, GRID),
        head="__device__ int f(int t, int n) { if (t < n) return 1; __syncthreads(); return 2; }"
        "__device__ int g(int n) { if (n > 2) return 1; return 2; }",
    ),
    "exited threads are not missed": Case(
        "if (threadIdx.x > n) return; __syncthreads(); if (blockIdx.x > n) return; __syncthreads();",
        {},
        (GRID, GRID),
        launch="n, 256",
    ),
    "block-wide votes": Case(
        "int p = in[threadIdx.x] > 0; while (__syncthreads_or(p)) { p = in[threadIdx.x] > 3; __syncthreads(); }"
        "int c = __syncthreads_count(p);",
        {"p": THREAD, "c": BLOCK},
        (BLOCK, BLOCK, GRID),
    ),
    "warp votes and broadcasts": Case(
        "float v = in[threadIdx.x]; float b = __shfl_sync(0xffffffff, v, 0); int any = __any_sync(0xffffffff, v > 0);"
        "float x = __shfl_xor_sync(0xffffffff, v, 1); int h = __shfl_sync(0xffffffff, v, 0, 16);"
        "int u = __shfl_down_sync(0xffffffff, n, 1);",
        {"v": THREAD, "b": WARP, "any": WARP, "x": THREAD, "h": THREAD, "u": GRID},
    ),
    "shared broadcast": Case(
        "__shared__ int s, t[64]; if (threadIdx.x == 0) s = n; t[threadIdx.x] = n; __syncthreads();"
        "int a = s, b = t[n], c = t[threadIdx.x]; if (a) __syncthreads(); __syncthreads();",
        {"a": BLOCK, "b": BLOCK, "c": THREAD},
        (GRID, BLOCK, GRID),
    ),
    "tickets are nobody's": Case(
        "__shared__ int s; int a = atomicAdd(&s, 1); int b = s; if (b) __syncthreads();",
        {"a": THREAD, "b": THREAD},
        (THREAD,),
    ),
    "global memory the kernel writes": Case(
        "float a = out[n], b = in[n]; out[threadIdx.x] = b; if (a > 0) __syncthreads(); if (b > 0) __syncthreads();",
        {"a": THREAD, "b": GRID},
        (THREAD, GRID),
    ),
    "local arrays": Case(
        "int u[4], v[4]; for (int k = 0; k < 4; ++k) { u[k] = n; v[k] = threadIdx.x; } int a = u[n & 3], b = v[n & 3];",
        {"a": GRID, "b": THREAD},
    ),
    "switch": Case(
        "int a = 0; switch (n) { case 1: a = 1; break; case 2: a = 2; } if (a) __syncthreads();"
        "switch (threadIdx.x) { case 0: a = 1; break; default: a = 2; } if (a == 1) __syncthreads(); __syncthreads();",
        {},
        (GRID, THREAD, GRID),
    ),
    "dead under the launch": Case(
        "if (blockDim.x > 256) __syncthreads(); if (threadIdx.x < 256) __syncthreads();", {}, (GRID, GRID)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_levels(name: str) -> None:
    case = CASES[name]
    launch_text = f"void run(int n, float* a, float* b) {{ k<<<{case.launch}>>>(n, a, b); }}" if case.launch else ""
    kernel, launch = lowered(f"{case.head}\n__global__ void k({case.params}) {{ {case.body} }}\n{launch_text}")
    found = uniformity(kernel, launch)
    assert not found.gave_up
    named = levels(kernel, found)
    assert {key: named[key] for key in case.values} == case.values
    barriers = [stmt for stmt in walk(kernel.body) if isinstance(stmt, Barrier)]
    assert tuple(found.control(stmt).level for stmt in barriers) == case.barriers


def test_reasons_lead_to_the_root() -> None:
    kernel, launch = lowered(
        "__global__ void k(int n) { int w = threadIdx.x / 32; int q = w + 1; if (q < n) __syncthreads(); }\n"
        "void run(int n) { k<<<1, 128>>>(n); }"
    )
    (barrier,) = (stmt for stmt in walk(kernel.body) if isinstance(stmt, Barrier))
    cause = uniformity(kernel, launch).control(barrier).worst()
    assert cause is not None
    assert cause.why is not None
    assert [link.text for link in cause.why.chain()] == ["branch", "q", "w", "threadIdx.x"]


def test_race_freedom_is_an_assumption_only_where_it_is_used() -> None:
    text = "__global__ void k(int n) { __shared__ int s; s = n; __syncthreads(); if (%s) __syncthreads(); }"
    kernel, launch = lowered(text % "s")
    assert uniformity(kernel, launch).assumptions == ("s is free of data races",)
    kernel, launch = lowered(text % "n")
    assert uniformity(kernel, launch).assumptions == ()


def test_nesting_beyond_the_cap_answers_thread() -> None:
    body = "if (n) " * 130 + "__syncthreads();"
    kernel, _ = lowered(f"__global__ void k(int n) {{ {body} }}")
    found = uniformity(kernel)
    barriers = [stmt for stmt in walk(kernel.body) if isinstance(stmt, Barrier)]
    if barriers:  # unless lowering stopped first
        assert found.gave_up
        assert found.control(barriers[0]).level == THREAD
    assert found.level(Var(1, "n")) in (GRID, THREAD)
