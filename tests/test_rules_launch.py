"""Launch rules: the verdict, the numbers in the message and the places; the pages hold the plain cases."""

from __future__ import annotations

import pytest

from prelaunch.analysis import hardware
from prelaunch.analysis.facts import Facts, RepositoryFacts
from prelaunch.analysis.finding import Conditional, Finding, Judgement, Proved, Refuted, Unknown
from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.rules import find

BLOCK, GRID, SHARED, UNCHECKED = (
    "launch.block-too-large", "launch.grid-dim-limit", "launch.smem-optin", "launch.unchecked",
)  # fmt: skip
KERNEL = "__global__ void k(float* x) {}\n"
ATTRIBUTE = "cudaFuncAttributeMaxDynamicSharedMemorySize"


def judge(rule: str, code: str) -> list[Judgement]:
    project = project_from_text(code)
    sources = {path: file.source for path, file in project.files.items()}
    kernels = tuple(Facts(lower_kernel(project, decl), (), sources) for decl in project.kernels())
    check = find(rule).check_repository
    assert check is not None
    return list(check(RepositoryFacts(kernels, find_launches(project), sources)))


def finding(rule: str, code: str) -> Finding:
    found = [j.verdict.finding for j in judge(rule, code) if isinstance(j.verdict, Refuted)]
    assert len(found) == 1, found
    return found[0]


def told(judgement: Judgement) -> type | str:
    """The kind of a verdict; the contract of a conditional one."""
    verdict = judgement.verdict
    return verdict.contract if isinstance(verdict, Conditional) else type(verdict)


def verdict(rule: str, launch: str) -> type | str:
    (judgement,) = judge(rule, f"{KERNEL}void run(float* x, int n, int m, unsigned u, size_t z) {{ {launch} }}")
    return told(judgement)


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        ("k<<<1, 1024>>>(x);", Proved),
        ("k<<<1, 1025>>>(x);", Refuted),
        ("k<<<1, dim3(32, 32)>>>(x);", Proved),
        ("k<<<1, dim3(32, 32, 2)>>>(x);", Refuted),
        ("k<<<1, dim3(1, 1, 64)>>>(x);", Proved),
        ("k<<<1, dim3(1, 1, 65)>>>(x);", Refuted),
        ("k<<<1, 0>>>(x);", Refuted),
        ("k<<<1, n>>>(x);", "n <= 1024"),
        ("k<<<1, n / 2>>>(x);", "1 <= n / 2 <= 1024"),
        ("k<<<1, dim3(32, n)>>>(x);", "n <= 32"),
        ("k<<<1, dim3(n, m)>>>(x);", "n * m <= 1024"),
        ("k<<<1, dim3(n + 1, 2, m)>>>(x);", "(n + 1) * m <= 512 and m <= 64"),
        ("k<<<1, dim3(1025, n)>>>(x);", Refuted),
        ("k<<<1, std::min(n, 1024)>>>(x);", Proved),
        ("k<<<1, dim3(8, std::min(n, 256))>>>(x);", "min(n, 256) <= 128"),
        ("k<<<1, dim3(std::min(m, 8), std::min(n, 128))>>>(x);", Proved),
        ("k<<<1, n % 256 + 1>>>(x);", Proved),
        ("k<<<1, n > 5 ? 512 : 2048>>>(x); ", Unknown),
    ],
)
def test_blocks(launch: str, expected: type | str) -> None:
    if "?" in launch:
        kinds = {type(j.verdict) for j in judge(BLOCK, f"{KERNEL}void run(float* x, int n) {{ {launch} }}")}
        assert kinds == {Proved, Refuted}, "each side of the choice is a launch of its own"
    else:
        assert verdict(BLOCK, launch) == expected


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        ("k<<<dim3(1, 65535), 1>>>(x);", Proved),
        ("k<<<dim3(1, 65536), 1>>>(x);", Refuted),
        ("k<<<dim3(1, 1, 70000), 1>>>(x);", Refuted),
        ("k<<<2147483647, 1>>>(x);", Proved),
        ("k<<<2147483648u, 1>>>(x);", Refuted),
        ("k<<<0, 1>>>(x);", Refuted),
        ("k<<<n, 1>>>(x);", Proved),
        ("k<<<(n + 255) / 256, 1>>>(x);", Proved),
        ("k<<<u, 1>>>(x);", "u <= 2147483647"),
        ("k<<<(u + 255) / 256, 1>>>(x);", Proved),
        ("k<<<dim3(1, n), 1>>>(x);", "n <= 65535"),
        ("k<<<dim3(1, (m + 128 - 1) / 128, n), 1>>>(x);", "(m + 127) / 128 <= 65535 and n <= 65535"),
        ("k<<<dim3(1, n / 65536), 1>>>(x);", "n / 65536 >= 1"),
        ("k<<<dim3(1, (n + 65535) / 65536), 1>>>(x);", Proved),
        ("k<<<ceil(n / 256.0), 1>>>(x);", Proved),
        ("k<<<n - m, 1>>>(x);", "n - m >= 1"),
        ("k<<<(n + m - 1) / m, 1>>>(x);", Proved),
        ("k<<<dim3(1, std::max(n, 70000)), 1>>>(x);", Refuted),
        ("k<<<(z + 255) / 256, 1>>>(x);", "(z + 255) / 256 <= 2147483647"),
    ],
)
def test_grids(launch: str, expected: type | str) -> None:
    assert verdict(GRID, launch) == expected


def test_block_message_holds_the_numbers_and_where_they_come_from() -> None:
    code = KERNEL + "void go(float* x, int w, int h) {\n  dim3 b(w, h);\n  k<<<1, b>>>(x);\n}\n"
    found = finding(BLOCK, code + "void run(float* x) { go(x, 40, 30); }")
    assert found.message == (
        "block (40, 30, 1) of k has 1200 threads, the limit is 1024; b(w, h) at line 3; "
        "called as go(x, 40, 30) at k.cu:6"
    )
    assert (found.severity, found.evidence, found.span.line) == ("error", "proved", 4)
    assert [(r.span.line, r.message) for r in found.related] == [(3, "the block's dimensions"), (6, "called here")]
    assert found.witness is not None
    assert found.witness.config is not None
    assert found.witness.config.block == (40, 30, 1)


def test_only_declarations_of_the_faulty_dimensions_are_shown_once() -> None:
    code = "void run(float* x) {\n  const int n = 100, t = 256, s = 4;\n  k<<<n / t, dim3(t, s)>>>(x);\n}\n"
    found = finding(GRID, KERNEL + code)
    assert found.message == "grid (0, 1, 1) of k has no blocks: x is 0; n = 100 at line 3; t = 256 at line 3"
    assert [(r.span.line, r.message) for r in found.related] == [(3, "used for the grid's dimensions")]
    assert found.witness is not None
    assert found.witness.detail == ""
    assert found.fix == "round the number of blocks up, and launch nothing when there is nothing to do"


def test_a_size_that_is_not_understood_is_named_with_its_reason() -> None:
    (judgement,) = judge(GRID, f"{KERNEL}void run(float* x, Q q) {{ auto d = q(); k<<<[d]{{}}, 1>>>(x); }}")
    assert isinstance(judgement.verdict, Unknown)
    assert judgement.verdict.reason.startswith("grid.x is not understood")


def test_launch_bounds_of_the_instance_count() -> None:
    code = "template <int N> __global__ void __launch_bounds__(N) k(float* x) {}\n"
    found = finding(
        BLOCK, "__global__ void __launch_bounds__(128) k(float* x) {}\nvoid run(float* x) { k<<<1, 256>>>(x); }"
    )
    assert found.message == "block (256, 1, 1) of k has 256 threads, its __launch_bounds__ allow 128"
    assert not [
        j
        for j in judge(BLOCK, code + "void run(float* x) { k<256><<<1, 256>>>(x); }")
        if isinstance(j.verdict, Refuted)
    ]


def shared(static: int, launch: str) -> list[Judgement]:
    body = f"__shared__ char s[{static}]; extern __shared__ float d[]; x[0] = s[0] + d[0];"
    return judge(SHARED, f"__global__ void k(float* x) {{ {body} }}\nvoid run(float* x, int n, int m) {{ {launch} }}")


@pytest.mark.parametrize(
    ("static", "launch", "expected"),
    [
        (16, "k<<<1, 1, 49136>>>(x);", Proved),
        (17, "k<<<1, 1, 49136>>>(x);", Refuted),
        (16, f"cudaFuncSetAttribute(k, {ATTRIBUTE}, 65536); k<<<1, 1, 65536>>>(x);", Proved),
        (16, f"cudaFuncSetAttribute(k, {ATTRIBUTE}, 65535); k<<<1, 1, 65536>>>(x);", Refuted),
        (16, f"cudaFuncSetAttribute(k, {ATTRIBUTE}, n); k<<<1, 1, 65536>>>(x);", "n >= 65536"),
        (
            16,
            f"cudaFuncSetAttribute(k, {ATTRIBUTE}, 200000); k<<<1, 1, 200000>>>(x);",
            "target is sm_90, sm_100, sm_103, sm_107 or sm_110",
        ),
        (16, f"cudaFuncSetAttribute(k, {ATTRIBUTE}, 232448); k<<<1, 1, 232448>>>(x);", Refuted),
        (16, "k<<<1, 1, n>>>(x);", "n <= 49136"),
        (16, "k<<<1, 1, n * sizeof(float)>>>(x);", "n * 4 <= 49136"),
        (16, f"cudaFuncSetAttribute(k, {ATTRIBUTE}, n); k<<<1, 1, n>>>(x);", "n <= 166896"),
        (16, f"cudaFuncSetAttribute(k, {ATTRIBUTE}, 65536); k<<<1, 1, n>>>(x);", "n <= 65536"),
        (16, f"cudaFuncSetAttribute(k, {ATTRIBUTE}, m); k<<<1, 1, n>>>(x);", "n <= 166896 and n <= m"),
        (16, "k<<<1, 1, n % 1024>>>(x);", Proved),
    ],
)
def test_shared_memory(static: int, launch: str, expected: type | str) -> None:
    (judgement,) = shared(static, launch)
    assert told(judgement) == expected


def test_shared_memory_message_adds_up() -> None:
    (judgement,) = shared(1000, "k<<<1, 1, 49000>>>(x);")
    assert isinstance(judgement.verdict, Refuted)
    assert judgement.verdict.finding.message == (
        "k asks for 50000 bytes of shared memory (49000 dynamic + 1000 static), 848 more than the 49152 a block gets "
        f"by default, and {ATTRIBUTE} is not set for it"
    )


def test_unread_errors_are_one_finding_with_a_count() -> None:
    code = KERNEL + "void a(float* x) { k<<<1, 1>>>(x); }\nvoid b(float* x) { k<<<1, 2>>>(x); k<<<1, 3>>>(x); }\n"
    read = "int c(float* x) { k<<<1, 4>>>(x); return cudaGetLastError(); }\n"
    found = finding(UNCHECKED, code + read)
    assert found.message == "errors of 3 of 4 launches are never read: no query follows in a() or its callers"
    assert (found.severity, found.span.line, found.count, found.also) == ("warning", 2, 3, ("k.cu:3 k", "k.cu:3 k"))
    (judgement,) = judge(UNCHECKED, KERNEL + read)
    assert judgement.verdict == Proved()


def test_constants_that_rule_a_launch_out_keep_it_from_being_an_error() -> None:
    code = KERNEL + "#define T 2048\nvoid run(float* x) { if (T <= 1024) k<<<1, T>>>(x); }"
    (judgement,) = judge(BLOCK, code)
    assert isinstance(judgement.verdict, Unknown)
    assert "no execution found in the code reaches this launch" in judgement.verdict.reason


def test_a_size_that_is_too_large_whatever_is_passed() -> None:
    found = finding(BLOCK, f"{KERNEL}void run(float* x, int n) {{ k<<<1, std::max(n, 2048)>>>(x); }}")
    assert found.message == "block of k: x = max(n, 2048) is at least 2048, the limit is 1024"
    assert [a.text for a in found.assumptions] == ["sizes passed by host code are positive"]


def test_a_destructor_that_reads_the_error_checks_launches_of_its_function() -> None:
    guard = "struct Guard { ~Guard() { if (cudaGetLastError()) abort(); } };\n"
    (judgement,) = judge(UNCHECKED, f"{KERNEL}{guard}void run(float* x) {{ Guard g; k<<<1, 1>>>(x); }}")
    assert judgement.verdict == Proved()
    (judgement,) = judge(UNCHECKED, f"{KERNEL}{guard}void run(float* x) {{ k<<<1, 1>>>(x); }}")
    assert isinstance(judgement.verdict, Refuted)


def test_capabilities() -> None:
    assert len(hardware.capabilities()) == 21
    assert hardware.capability("9.0") is hardware.capability("sm_90a")
    assert hardware.capability("sm_120").name == "12.0"
    assert hardware.capability("9.0").shared_per_block_optin == 227 * 1024
    assert [c.name for c in hardware.capabilities()][-4:] == ["10.7", "11.0", "12.0", "12.1"]
    assert {(c.max_threads_per_block, c.max_block_dim, c.max_grid_dim) for c in hardware.capabilities()} == {
        (1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535))
    }
    with pytest.raises(KeyError, match=r"no compute capability 4.2; known are 5.0, "):
        hardware.capability("4.2")
