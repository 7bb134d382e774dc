"""Launches from host code: every form, the numbers that constants decide, and what stays symbolic."""

from __future__ import annotations

import pytest

from prelaunch.analysis.frontends.cuda import project_from_text
from prelaunch.analysis.host import find_launches, resolve_kernel
from prelaunch.analysis.kernel import Const, Expr
from prelaunch.analysis.launch import COMBINED, UNREACHED, Launch
from prelaunch.analysis.replay import launch_name

KERNELS = """__global__ void k(float* x) {}
__global__ void k2(float* x, int n) {}
template <int N> __global__ void kt(float* x) {}
"""


def launches(code: str) -> tuple[Launch, ...]:
    return find_launches(project_from_text(KERNELS + code))


def one(code: str) -> Launch:
    found = launches(code)
    assert len(found) == 1, found
    return found[0]


def value(expr: Expr) -> int | None:
    return int(expr.value) if isinstance(expr, Const) else None


@pytest.mark.parametrize(
    ("body", "block"),
    [
        ("k<<<1, 128>>>(x);", (128, 1, 1)),
        ("dim3 b(16, 8); k<<<1, b>>>(x);", (16, 8, 1)),
        ("dim3 b = dim3(4, 4, 2); k<<<1, b>>>(x);", (4, 4, 2)),
        ("dim3 b{32, 2}; k<<<1, b>>>(x);", (32, 2, 1)),
        ("dim3 b; b.x = 96; k<<<1, b>>>(x);", (96, 1, 1)),
        ("const int t = 64; dim3 b(t, 1024 / t); k<<<1, b>>>(x);", (64, 16, 1)),
        ("int w = 8, h = 4; dim3 b(w, h); k<<<1, b>>>(x);", (8, 4, 1)),
        ("k<<<1, {8, 8}>>>(x);", (8, 8, 1)),
        ("k<<<1, static_cast<unsigned>(2.5f * 64)>>>(x);", (160, 1, 1)),
        ("k<<<1, sizeof(double) * 16>>>(x);", (128, 1, 1)),
        ("k<<<1, std::min(n, 0) == 0 ? 64 : 64>>>(x);", (64, 1, 1)),
        ("int t = 1; while (t < 100) t *= 2; k<<<1, t>>>(x);", (128, 1, 1)),
        ("auto go = [&](int t) { k<<<1, t>>>(x); }; go(48);", (48, 1, 1)),
        ("void (*f)(float*) = k; f<<<1, 33>>>(x);", (33, 1, 1)),
    ],
)
def test_block_is_the_number_that_constants_give(body: str, block: tuple[int, int, int]) -> None:
    launch = one(f"void run(float* x, int n) {{ {body} }}")
    assert (launch.kernel, launch.known_block()) == ("k", block)


@pytest.mark.parametrize(
    "before",
    [
        "#define T 192\n",
        "#define A 64\n#define T (3 * A)\n",
        "constexpr int T = 192;\n",
        "enum { T = 192 };\n",
        "static int T = 192;\n",
        "const dim3 T(192);\n",
        "const dim3 size(192, 8);\nconst int T = size.x;\n",
        "namespace c { const int half = 96; }\nconst int T = 2 * c::half;\n",
        "constexpr int twice(int v) { return 2 * v; }\nconstexpr int T = twice(96);\n",
    ],
)
def test_named_constants_outside_functions(before: str) -> None:
    assert one(before + "void run(float* x) { k<<<1, T>>>(x); }").known_block() == (192, 1, 1)


def test_a_global_that_is_written_is_not_a_constant() -> None:
    launch = one("static int T = 192;\nvoid set(int v) { T = v; }\nvoid run(float* x) { k<<<1, T>>>(x); }")
    assert launch.known_block() is None
    assert launch.notes == ("block.x: global variable",)


def test_ceil_division_in_every_spelling() -> None:
    code = """
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))
int cdiv(int a, int b) { return (a + b - 1) / b; }
void run(float* x) {
  const int n = 1000;
  k<<<(n + 255) / 256, 1>>>(x);
  k<<<DIV_UP(n, 256), 2>>>(x);
  k<<<cdiv(n, 256), 3>>>(x);
  k<<<ceil(n / 256.0), 4>>>(x);
  k<<<(int)ceilf((float)n / 256), 5>>>(x);
}"""
    assert [x.known_grid() for x in launches(code)] == [(4, 1, 1)] * 5


def test_values_come_through_callers_and_say_from_where() -> None:
    code = """void go(float* x, int t, int g = 7) { k<<<g, t>>>(x); }
void a(float* x) { go(x, 64); }
void b(float* x) { go(x, 96, 2); }
void c(float* x, int n) { go(x, n); }
"""
    found = {(x.known_grid(), x.known_block()): [s.line - 3 for s in x.via] for x in launches(code)}
    assert found == {((7, 1, 1), (64, 1, 1)): [2], ((2, 1, 1), (96, 1, 1)): [3], ((7, 1, 1), None): [4]}


def test_template_parameters_of_the_host_function() -> None:
    code = """template <int B, typename T> void go(T* x) { kt<B><<<1, B * sizeof(T)>>>((float*)x); }
void run(double* x) { go<16, double>(x); go<32>((short*)x); }
"""
    assert [(x.template_args, x.known_block()) for x in launches(code)] == [
        (("16",), (128, 1, 1)),
        (("32",), (64, 1, 1)),
    ]


def test_switch_dispatch_knows_its_selector() -> None:
    code = """void run(float* x, int n) {
  switch (n) {
    case 32: kt<32><<<1, n>>>(x); break;
    case 64: kt<64><<<1, n>>>(x); break;
  }
}"""
    assert [(x.template_args, x.known_block()) for x in launches(code)] == [
        (("32",), (32, 1, 1)),
        (("64",), (64, 1, 1)),
    ]


def test_a_choice_of_constants_forks_and_independent_choices_are_marked() -> None:
    single = launches("void run(float* x, bool big) { int t = big ? 512 : 256; k<<<1, t>>>(x); }")
    assert sorted(x.known_block() or () for x in single) == [(256, 1, 1), (512, 1, 1)]
    assert all(not x.notes for x in single)
    both = launches("void run(float* x, bool a, bool b) { k<<<1, dim3(a ? 8 : 16, b ? 1 : 2)>>>(x); }")
    assert len(both) == 4
    assert all(COMBINED in x.notes for x in both)


def test_an_undecided_branch_joins_and_a_loop_forgets() -> None:
    same = one("void run(float* x, int n) { int t; if (n) t = 64; else t = 64; k<<<1, t>>>(x); }")
    assert same.known_block() == (64, 1, 1)
    changing = one("void run(float* x, int n) { int t = 1; for (int i = 0; i < n; i++) t += 32; k<<<1, t>>>(x); }")
    assert changing.known_block() is None
    assert changing.notes == ("block.x: changes in a loop",)


def test_a_variable_declared_under_a_preprocessor_condition() -> None:
    code = "void run(float* x) {\n#ifdef GPU\n  dim3 b(16, 16);\n#endif\n  x = 0;\n"
    found = one(code + "#ifdef GPU\n  k<<<1, b>>>(x);\n#endif\n}")
    assert found.known_block() == (16, 16, 1)


def test_a_short_loop_over_constants_runs() -> None:
    loop = "for (int i = 0; i < sizeof(s) / sizeof(int); i++) k<<<1, s[i]>>>(x);"
    code = f"void run(float* x) {{ int s[] = {{32, 64}}; {loop} }}"
    assert [x.known_block() for x in launches(code)] == [(32, 1, 1), (64, 1, 1)]


def test_what_a_callee_may_write_is_forgotten() -> None:
    code = "void pick(int* t);\nvoid run(float* x) { int t = 64; pick(&t); k<<<1, t>>>(x); }"
    assert one(code).known_block() is None
    inside = """void pick(int* t, int& u) { *t = 96; u = 3; }
void run(float* x) { int t = 64, u = 1; pick(&t, u); k<<<u, t>>>(x); }"""
    assert (one(inside).known_grid(), one(inside).known_block()) == ((3, 1, 1), (96, 1, 1))


def test_macro_bodies_launch_where_they_are_used() -> None:
    code = """#define GO(K, B, ...) K<<<2, B>>>(__VA_ARGS__)
void run(float* x) {
  GO(k, 96, x);
  GO((kt<7>), 97, x);
}"""
    found = launches(code)
    assert [(x.kernel, x.template_args, x.known_block(), x.span.line) for x in found] == [
        ("k", (), (96, 1, 1), 6),
        ("kt", ("7",), (97, 1, 1), 7),
    ]
    assert [x.span.spelling.line for x in found if x.span.spelling] == [4, 4]


def test_launch_functions() -> None:
    code = """void run(float* x, int n) {
  void* args[] = {&x, &n};
  dim3 g(2), b{8, 8};
  cudaLaunchKernel((void*)k2, g, b, args, 100, 0);
  cudaLaunchCooperativeKernel(k2, 3, 64, args);
  cudaLaunchConfig_t cfg = {0};
  cfg.gridDim = dim3(5);
  cfg.blockDim = 320;
  cfg.dynamicSmemBytes = 64;
  cudaLaunchKernelEx(&cfg, k2, x, n);
  CUfunction f;
  cuModuleGetFunction(&f, module, "k2");
  cuLaunchKernel(f, 4, 1, 1, 16, 2, 1, 0, 0, args, 0);
}"""
    found = launches(code)
    assert [(x.form, x.kernel, x.known_grid(), x.known_block(), value(x.dynamic_smem)) for x in found] == [
        ("cudaLaunchKernel", "k2", (2, 1, 1), (8, 8, 1), 100),
        ("cudaLaunchCooperativeKernel", "k2", (3, 1, 1), (64, 1, 1), 0),
        ("cudaLaunchKernelEx", "k2", (5, 1, 1), (320, 1, 1), 64),
        ("cuLaunchKernel", "k2", (4, 1, 1), (16, 2, 1), 0),
    ]
    assert [x.cooperative for x in found] == [False, True, False, False]
    assert all(len(x.args) == 2 and None not in x.args for x in found)


def test_allocations_give_extents_and_overlaps() -> None:
    code = """__global__ void two(float* a, float* b, float* c) {}
void run(int n) {
  float *p, *q;
  cudaMalloc(&p, 400);
  cudaMalloc((void**)&q, n * sizeof(float));
  two<<<1, 1>>>(p, q, p + 25);
}"""
    launch = one(code)
    extents = {r.argument: r.value for r in launch.relations if r.kind == "extent"}
    assert {i: value(e) for i, e in extents.items() if e is not None} == {0: 400, 1: None, 2: 300}
    assert [(r.argument, r.other) for r in launch.relations if r.kind == "overlaps"] == [(0, 2)]


def test_shared_memory_attribute_on_the_path_and_elsewhere() -> None:
    attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize"
    on_path = one(f"void run(float* x) {{ cudaFuncSetAttribute(k, {attribute}, 65536); k<<<1, 1, 65536>>>(x); }}")
    assert [(name, value(e)) for name, e in on_path.attributes] == [("max_dynamic_smem", 65536)]
    assert on_path.notes == ()
    elsewhere = one(
        f"void init() {{ cudaFuncSetAttribute(k, {attribute}, 65536); }}\nvoid both(float* x) {{ init(); }}\n"
        "void run(float* x) { k<<<1, 1, 65536>>>(x); }"
    )
    assert elsewhere.attributes == ()
    other = one(f"void run(float* x) {{ k<<<1, 1, 9>>>(x); cudaFuncSetAttribute(k, {attribute}, 65536); }}")
    assert [(name, value(e)) for name, e in other.attributes] == [("max_dynamic_smem", 65536)]
    assert other.notes == ("max_dynamic_smem is set in run() at k.cu:4, not on this path",)


@pytest.mark.parametrize(
    ("after", "checked"),
    [
        ("", False),
        ("cudaGetLastError();", False),
        ("if (cudaGetLastError() != cudaSuccess) return;", True),
        ("cudaDeviceSynchronize();", False),
        ("check(cudaDeviceSynchronize());", True),
        ("cudaError_t e = cudaPeekAtLastError(); use(e);", True),
        ("OK();", True),
        ("CHECK_LAST_ERROR();", True),
        ("CHECK(cudaMalloc(&x, 4));", False),
    ],
)
def test_whether_the_error_is_read(after: str, checked: bool) -> None:
    macro = "#define OK() do { if (cudaGetLastError() != cudaSuccess) abort(); } while (0)\n"
    assert one(f"{macro}void run(float* x) {{ k<<<1, 1>>>(x); {after} }}").checked is checked


def test_the_error_may_be_read_by_the_caller_but_not_in_the_other_branch() -> None:
    caller = "void go(float* x) { k<<<1, 1>>>(x); }\nint run(float* x) { go(x); return cudaGetLastError(); }"
    assert one(caller).checked
    branch = "int run(float* x, int n) { if (n) { k<<<1, 1>>>(x); } else { return cudaGetLastError(); } return 0; }"
    assert not one(branch).checked


def test_a_launch_ruled_out_by_constants_is_found_and_said_to_be() -> None:
    found = one("void go(float* x, bool on) { if (on) k<<<1, 64>>>(x); }\nvoid run(float* x) { go(x, false); }")
    assert (found.known_block(), UNREACHED in found.notes) == ((64, 1, 1), True)


def test_kernels_resolve_by_arity() -> None:
    project = project_from_text(
        "__global__ void f(int* a) {}\n__global__ void f(int* a, int n) {}\nvoid run(int* a) { f<<<1, 1>>>(a, 3); }"
    )
    (launch,) = find_launches(project)
    found = resolve_kernel(project, launch)
    assert found is not None
    assert len(found.parameters) == 2


DEDUCED = """#include <type_traits>
template <typename T, bool B> __global__ void kd(T* x, std::bool_constant<B>) {}
template <int N, typename T> __global__ void ke(const T* x, int n) {}
typedef void (*step)(float*);
__device__ void first(float* x) {}
__device__ void second(float* x) {}
template <step F> __global__ void kf(float* x) {}
double* table;
"""


@pytest.mark.parametrize(
    ("code", "args"),
    [
        ("void f(int* x) { kd<<<1, 1>>>(x, std::bool_constant<true>{}); }", {("int", "true")}),
        ("void f() { kd<<<1, 1>>>(table, std::false_type()); }", {("double", "false")}),
        ("void f() { kd<<<1, 1>>>(table, std::bool_constant<false>()); }", {("double", "false")}),
        ("void f(const short* x) { ke<4><<<1, 1>>>(x, 3); }", {("4", "short")}),
        ("void f(void* x) { ke<4, char><<<1, 1>>>((char*)x, 3); }", {("4", "char")}),
        (
            "template <class G> void go(G&& g, int n) { switch (n) {"
            " case 1: return g(std::integral_constant<int, 8>{});"
            " default: return g(std::integral_constant<int, 16>{}); } }"
            "void f(float* x, int n) { auto g = [&](auto c) { kt<c.value><<<1, c.value>>>(x); }; go(g, n); }",
            {("8",), ("16",)},
        ),
        (
            "template <step F> void go(float* x) { kf<F><<<1, 1>>>(x); }"
            "void f(float* x) { go<first>(x); go<second>(x); }",
            {("first",), ("second",)},
        ),
    ],
)
def test_template_arguments_that_the_text_gives(code: str, args: set[tuple[str, ...]]) -> None:
    assert {launch.template_args for launch in launches(DEDUCED + code)} == args


def printed(code: str) -> list[str]:
    return [launch_name(launch).partition(" at ")[0] for launch in launches(code)]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("void run(float* x, char** v) { int n = atoi(v[1]); k<<<n / 64, 64>>>(x); }", "n / 64"),
        ("void run(float* x, char** v) { int n; n = atoi(v[1]); k<<<n, 64>>>(x); }", "n"),
        ("void go(float* x, int m) { k<<<m, 64>>>(x); }\nvoid run(float* x, char** v) { go(x, atoi(v[1])); }", "m"),
        ("void run(float* x, S* p) { k<<<p->rows, 64>>>(x); }", "p.rows"),
        ("void run(float* x, int* s) { int n = s[2]; k<<<n, 64>>>(x); }", "n"),
        ("void run(float* x, std::vector<int>& all) { for (int n : all) k<<<n, 64>>>(x); }", "n"),
    ],
)
def test_unknown_sizes_print_under_their_source_names(code: str, name: str) -> None:
    assert printed(code) in (
        [f"<<<({name}, 1, 1), (64, 1, 1)>>>"],
        [f"<<<({name}.x, {name}.y, {name}.z), (64, 1, 1)>>>"],
    )


def test_a_loop_over_listed_sizes_gives_one_launch_a_size() -> None:
    code = """void go(float* x, int n) { k<<<(n + 31) / 32, 32>>>(x); }
    void run(float* x) { std::vector<int> sizes = {64, 128}; int last = sizes[sizes.size() - 1];
      for (int n : sizes) go(x, n); k<<<last, 32>>>(x); }"""
    assert printed(code) == [f"<<<({n}, 1, 1), (32, 1, 1)>>>" for n in (2, 4, 128)]
