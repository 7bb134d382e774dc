"""Host code of any shape ends in bounded time without an exception, and its launches are still found."""

from __future__ import annotations

import random
import time

import pytest

from prelaunch.analysis.frontends.cuda import project_from_text
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.hostir.launches import MAX_VARIANTS
from prelaunch.analysis.hostir.machine import MAX_CONTEXTS

KERNEL = "__global__ void k(float* x) {}\n"
DEPTH = 5_000


@pytest.mark.parametrize(
    "code",
    [
        "void run(float* x) { int t = " + "(" * DEPTH + "1" + ")" * DEPTH + "; k<<<1, t>>>(x); }",
        "void run(float* x) { int t = " + "1 + " * DEPTH + "1; k<<<1, t>>>(x); }",
        "void run(float* x, int n) { k<<<1, 1>>>(x); " + "if (n) {" * DEPTH + "}" * DEPTH + " }",
        "void run(float* x) { k<<<1, 1>>>(x); auto f = " + "[&] { return " * 300 + "1" + "; }" * 300 + "; }",
        "void run(float* x) { k<<<1, 1>>>(x); run(x); run(x); }",
        "void a(float* x);\nvoid b(float* x) { a(x); a(x); }\nvoid a(float* x) { b(x); b(x); k<<<1, 1>>>(x); }",
        "void run(float* x) { for (int i = 0; i < 16; i++) " * 1
        + "for (int j = 0; j < 16; j++) " * 8
        + "k<<<1, j>>>(x); }",
        "#define A(x) B(x) B(x)\n#define B(x) A(x) A(x)\nvoid run(float* x) { k<<<1, A(1)>>>(x); }",
        "const int T = T + 1;\nvoid run(float* x) { k<<<1, T>>>(x); }",
        "template <int N> void go(float* x) { go<N + 1>(x); k<<<1, N>>>(x); }\nvoid run(float* x) { go<1>(x); }",
        "void run(float* x) { k<<<1, 1 << 100>>>(x); k<<<1 / 0, 5 % 0>>>(x); k<<<1, 1e300>>>(x); }",
        "void run(float* x) { k<<<>>>(x); k<<<1>>>(); k<<<1, 2, 3, 4, 5>>>(x); }",
        "typedef A B;\ntypedef B A;\nvoid run(float* x) { A t = 3; k<<<1, t>>>(x); }",
    ],
)
def test_shapes_that_break_walkers(code: str) -> None:
    started = time.process_time()
    found = find_launches(project_from_text(KERNEL + code))
    assert found, "the launch is lost"
    assert time.process_time() - started < 10


def test_contexts_and_variants_are_bounded() -> None:
    calls = "\n".join(f"void c{i}(float* x) {{ go(x, {i}); }}" for i in range(3 * MAX_CONTEXTS))
    found = find_launches(project_from_text(f"{KERNEL}void go(float* x, int t) {{ k<<<1, t>>>(x); }}\n{calls}"))
    assert len(found) == MAX_CONTEXTS
    terms = " + ".join(f"(n > {i} ? {i} : 1)" for i in range(8))
    forked = find_launches(project_from_text(f"{KERNEL}void run(float* x, int n) {{ k<<<1, {terms}>>>(x); }}"))
    assert 1 <= len(forked) <= MAX_VARIANTS


def test_mutated_text_never_raises() -> None:
    """Random cuts, splices and byte flips of a program with every launch form; the seed is fixed."""
    program = (
        KERNEL + "#define GO(B) k<<<2, B>>>(x)\nstatic int cdiv(int a, int b) { return (a + b - 1) / b; }\n"
        "struct C { int t = 8; void go(float* x) { k<<<cdiv(100, t), t>>>(x); } };\n"
        "template <int N> void run(float* x, int n) { dim3 b(N, n); b.y = 2; for (int i = 0; i < 3; i++)\n"
        "  k<<<i, b>>>(x);\n"
        "  switch (n) { case 1: GO(32); break; default: GO(64); } auto f = [&](int t) { k<<<1, t>>>(x); }; f(3);\n"
        "  void* a[] = {&x}; cudaLaunchKernel((void*)k, dim3(1), b, a, 0, 0); C c; c.go(x); run<4>(x, 5); }\n"
    ).encode()
    source = random.Random(20)
    for _ in range(150):
        data = bytearray(program)
        for _ in range(source.randint(1, 6)):
            at, size = source.randrange(len(data)), source.randint(1, 30)
            match source.randrange(3):
                case 0:
                    del data[at : at + size]
                case 1:
                    data[at:at] = data[source.randrange(len(data)) :][:size]
                case 2:
                    data[at] = source.randrange(256)
        found = find_launches(project_from_text(data.decode("latin-1")))
        assert found == tuple(sorted(found, key=lambda x: (x.span.file, x.span.start, x.span.end)))
