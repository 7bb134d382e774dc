"""The parse layer on input made to break it: it must end soon, never raise, and say what it left out.

Times are processor time, so that a busy machine does not fail them.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from prelaunch.analysis.frontends.cuda import load_project, project_from_text
from prelaunch.analysis.frontends.cuda.text.declarations import Project
from prelaunch.analysis.frontends.cuda.text.macros import DEPTH_CAP, MacroLimit, expand_call, expand_object, expand_text
from prelaunch.analysis.frontends.cuda.text.project import Limits

SEED = 20_240_611
DEEP = 100_000
KERNEL = """
#define HD __host__ __device__
#define N 256
#if N > 128
#define STEP(i) ((i) + N)
#else
#define STEP(i) (i)
#endif
HD float square(float x) { return x * x; }
template <int B> __global__ void __launch_bounds__(B, 2) scale(const float* __restrict__ a, float* b, int n) {
  extern __shared__ __align__(16) float tile[];
  for (int i = threadIdx.x; i < n; i = STEP(i)) { tile[threadIdx.x] = square(a[i]); __syncthreads(); b[i] = tile[0]; }
}
void run(float* a, float* b, int n) { scale<N><<<n / N, N, N * sizeof(float)>>>(a, b, n); }
"""


def check_consistent(project: Project) -> None:
    """What the contracts promise of any project, whatever was read."""
    assert project.files or project.failures
    for path, file in project.files.items():
        assert file.source.path == path
        assert len(file.code) == len(file.source.data)
        assert file.tree.root_node.end_byte <= len(file.code)
    for kernel in project.kernels():
        span = kernel.span
        assert 0 <= span.start <= span.end <= len(project.files[kernel.file.source.path].source.data)


def timed(text: str | bytes, limit: float = 10.0) -> Project:
    start = time.process_time()
    project = project_from_text(text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text)
    assert time.process_time() - start < limit
    check_consistent(project)
    return project


@pytest.mark.parametrize("kind", ["flip", "truncate", "splice", "drop"])
def test_mutations(kind: str) -> None:
    print("seed", SEED, kind)
    draw = random.Random(f"{SEED}{kind}")
    data = KERNEL.encode()
    for _ in range(60):
        mutant = bytearray(data)
        if kind == "flip":
            for _ in range(draw.randint(1, 12)):
                mutant[draw.randrange(len(mutant))] = draw.randrange(256)
        elif kind == "truncate":
            mutant = mutant[: draw.randrange(len(mutant))]
        elif kind == "splice":
            a, b, c = sorted(draw.randrange(len(data)) for _ in range(3))
            mutant[c:c] = data[a:b]
        else:
            a = draw.randrange(len(data))
            del mutant[a : a + draw.randint(1, 40)]
        timed(bytes(mutant))


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k() { int x = " + "(" * DEEP + "1" + ")" * DEEP + "; }",
        "__global__ void k() " + "{" * DEEP + "}" * DEEP,
        "__global__ void k() " + "{" * DEEP,
        "A<" * 20_000 + "int" + ">" * 20_000 + " x;",
        "template <class T> " * 20_000 + "__global__ void k() {}",
        "#if A\n" * DEEP + "__global__ void k() {}\n" + "#endif\n" * DEEP,
        "#if A\n" * 24_000 + "__global__ void k() {}\n" + "#endif\n" * 24_000,
        "#if A\n" * 40_000 + "{",
        "#if 0\n" + "#elif 1\n" * 40_000 + "#endif\n(",
        "#if " + "(" * DEEP + "1" + ")" * DEEP + "\n#endif\n",
        "#if " + "!" * DEEP + "1\n#endif\n",
        "CHECK(\n" * 20_000,
        "namespace a { " * DEEP + "__global__ void k() {} " + "}" * DEEP,
        "struct A { " * 20_000 + "__global__ void k() {} ",
        "__attribute__((" * 20_000,
        "/*" * DEEP,
        '"' * DEEP,
        'R"(' * DEEP,
        "'\\" * DEEP,
        "\\\n" * DEEP,
        "#define A \\\n" * DEEP,
        "*" * DEEP + "x;",
        "int " + "*" * DEEP + "f() {}",
        "a::" * DEEP + "f();",
        "template class " * 20_000,
        "x = typename A::" + "B::" * DEEP,
        "ABC DEF " * 20_000,
        "<<<" * DEEP,
        "__global__ " * 20_000,
    ],
    ids=lambda text: text[:24].replace("\n", " "),
)
def test_deep_nesting(text: str) -> None:
    timed(text)


def test_deep_nesting_does_not_hide_the_kernel_after_it() -> None:
    text = "void h() " + "{" * 2_000 + "}" * 2_000 + "\n__global__ void k(int* a) { a[0] = 1; }"
    assert [k.name for k in timed(text).kernels()] == ["k"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x00" * 1000,
        b"\xff\xfe" + KERNEL.encode("utf-16-le"),
        bytes(range(256)) * 64,
        b"\xef\xbb\xbf",
        b"#",
        b"#define",
        b"#define X(",
        b"#include",
        b'#include "',
        b"#if",
        b"#elif\n#else\n#endif\n#endif",
        b"__global__",
        b"\r\r\r#if\r",
    ],
)
def test_odd_bytes(data: bytes) -> None:
    timed(data)


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends(line_end: str) -> None:
    project = timed(KERNEL.replace("\n", line_end))
    (kernel,) = project.kernels()
    assert (kernel.name, kernel.confidence, kernel.span.line) == ("scale", "clean", 10)
    assert [len(p) for p in (kernel.parameters,)] == [3]


def test_bytes_that_are_no_text_cost_nothing_around_them() -> None:
    project = timed(KERNEL.encode().replace(b"void run", b"// caf\xe9 \x00\nvoid run"))
    (kernel,) = project.kernels()
    assert kernel.confidence == "clean"
    assert kernel.file.errors == ()


def test_byte_order_mark() -> None:
    (kernel,) = timed(b"\xef\xbb\xbf__global__ void k() {}").kernels()
    assert (kernel.span.start, kernel.confidence) == (3, "clean")


def test_macro_bomb_is_cut() -> None:
    text = "#define B0 x x x x x x x x x x\n"
    text += "".join(f"#define B{i} {f'B{i - 1} ' * 10}\n" for i in range(1, 12))
    text += "#define F0(a) a a\n" + "".join(f"#define F{i}(a) F{i - 1}(a) F{i - 1}(a)\n" for i in range(1, 30))
    project = timed(text)
    start = time.process_time()
    with pytest.raises(MacroLimit, match="tokens"):
        expand_object(project, "k.cu", "B11")
    with pytest.raises(MacroLimit, match="tokens"):
        expand_call(project, "k.cu", "F29", ["1"])
    assert time.process_time() - start < 4


def test_macro_chain_is_cut() -> None:
    text = "#define C0 1\n" + "".join(f"#define C{i} C{i - 1}\n" for i in range(1, 500))
    project = timed(text)
    assert expand_object(project, "k.cu", "C20") == "1"
    with pytest.raises(MacroLimit, match=f"deeper than {DEPTH_CAP}"):
        expand_object(project, "k.cu", "C499")


def test_deep_macro_arguments_are_cut() -> None:
    project = timed("#define F(x) x\n")
    with pytest.raises(MacroLimit):
        expand_text(project, "k.cu", "F(" * 3_000 + "1" + ")" * 3_000)


def test_kernel_macro_bomb_is_reported() -> None:
    text = "#define B0 x x x x x x x x x x\n"
    text += "".join(f"#define B{i} {f'B{i - 1} ' * 10}\n" for i in range(1, 8))
    text += "#define MAKE(n) __global__ void n() { B7; }\nMAKE(k)\n__global__ void other() {}\n"
    project = timed(text)
    assert [k.name for k in project.kernels()] == ["other"]
    assert any("MAKE" in why and "tokens" in why for _, why in project.failures)


def test_self_reference_ends() -> None:
    project = timed("#define A B\n#define B A\n#define F(x) F(x) + G(x)\n#define G(x) F(x)\n")
    assert expand_object(project, "k.cu", "A") == "A"
    assert expand_call(project, "k.cu", "F", ["1"]) == "F(1) + F(1)"


def test_include_cycle_and_escape(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    (tmp_path / "secret.h").write_text("#define SECRET 1\n")
    (root / "a.cuh").write_text('#include "b.cuh"\n#define A 1\n')
    (root / "b.cuh").write_text('#include "a.cuh"\n#include "../secret.h"\n#include "/etc/passwd"\n#define B A\n')
    (root / "link.h").symlink_to(tmp_path / "secret.h")
    (root / "loop.h").symlink_to(root / "loop.h")
    (root / "up").symlink_to(tmp_path, target_is_directory=True)
    project = load_project(root)
    assert sorted(project.files) == ["a.cuh", "b.cuh"]
    assert project.reach == {"a.cuh": ("b.cuh",), "b.cuh": ("a.cuh",)}
    assert expand_object(project, "a.cuh", "B") == "1"
    assert "SECRET" not in project.macros
    assert {path for path, _ in project.failures} == {"link.h", "loop.h"}
    assert load_project(root, [Path("../secret.h")]).failures[0][1] == "leads outside the repository"


def test_caps_are_reasons(tmp_path: Path) -> None:
    (tmp_path / "big.cu").write_bytes(b" " * (50 << 20))
    (tmp_path / "a.cu").write_text("__global__ void a() {}")
    (tmp_path / "b.cu").write_text("__global__ void b() {}")
    start = time.process_time()
    project = load_project(tmp_path)
    assert time.process_time() - start < 2
    assert [path for path, why in project.failures if "more than" in why] == ["big.cu"]
    assert [k.name for k in project.kernels()] == ["a", "b"]
    small = load_project(tmp_path, limits=Limits(files=1))
    assert sorted(small.files) == ["a.cu"]
    assert len(small.failures) == 2


def test_missing_and_unreadable(tmp_path: Path) -> None:
    (tmp_path / "dir.cu").mkdir()
    project = load_project(tmp_path, [Path("gone.cu"), Path("dir.cu")])
    assert project.files == {}
    assert [path for path, _ in project.failures] == ["gone.cu", "dir.cu"]


def test_large_file_ends_in_time() -> None:
    line = "FOO BAR(x, 1) { int y = z[3, 4] CHECK(y)\n#if A\n } else {\n#endif\n"
    timed(line * (2_000_000 // len(line)), limit=15.0)
