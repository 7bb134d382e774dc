"""What the parse layer finds in CUDA text, and what it keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from prelaunch.analysis.frontends.cuda import load_project, project_from_text
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, ParsedFile, Project


def only_kernel(text: str) -> FunctionDecl:
    (kernel,) = project_from_text(text).kernels()
    return kernel


def node_types(file: ParsedFile) -> list[str]:
    found = []
    stack = [file.tree.root_node]
    while stack:
        node = stack.pop()
        found.append(node.type)
        stack.extend(node.children)
    return found


@pytest.mark.parametrize(
    ("text", "qualified"),
    [
        ("__global__ void k(int n) {}", "k"),
        ("static __global__ void __launch_bounds__(128) k(int n) {}", "k"),
        ("__launch_bounds__(128) __global__ void k(int n) {}", "k"),
        ("template <typename T, int N> __global__ void k(T* p) {}", "k"),
        ("template <> __global__ void k<float, 3>(float* p) {}", "k"),
        ('extern "C" __global__ void k(int n) {}', "k"),
        ('extern "C" { __global__ void k(int n) {} }', "k"),
        ("namespace a::b { namespace { __global__ void k() {} } }", "a::b::k"),
        ("struct S { static __global__ void k() {} };", "S::k"),
        ("#define KERNEL __global__ void\nKERNEL k(int n) {}", "k"),
        ('#define K __global__\n#define PUBLIC extern "C" K\nPUBLIC void k(int n) {}', "k"),
        ("#define BOUNDS(n) __launch_bounds__(n)\n__global__ void BOUNDS(64) k() {}", "k"),
        ("#define MAKE(name, T) __global__ void name##_k(T* p) { *p = 0; }\nMAKE(add, float)\n", "add_k"),
        ("#define MAKE(n) __global__ void n() {}\n#define BOTH(n) MAKE(n##1)\nnamespace a { BOTH(k) }", "k1"),
        ("#define HEAD(n) __global__ void n(int* p)\nHEAD(k) { *p = 1; }", "k"),
        ("#ifdef A\n__global__ void k(int n) {\n#else\n__global__ void k(long n) {\n#endif\n  n = 1;\n}", "k"),
        ('#ifdef __cplusplus\nextern "C" {\n#endif\n__global__ void k() {}\n#ifdef __cplusplus\n}\n#endif', "k"),
        ("SOME_UNKNOWN_API void h(int a) { }\nBEGIN_SPACE\n__global__ void k() {}\nEND_SPACE", "k"),
        ("void h( { \n}\n__global__ void k(int a) { a = 1; }", "k"),
        ("__global__ auto k(int n) -> void {}", "k"),
    ],
)
def test_kernels_are_found(text: str, qualified: str) -> None:
    kernel = only_kernel(text)
    assert kernel.qualified == qualified
    assert kernel.body is not None
    assert kernel.name in kernel.file.text(kernel.declarator)


def test_declarations_calls_and_words_are_no_kernels() -> None:
    text = '__global__ void k(int);\n// __global__ void a() {}\nauto s = "__global__ void b() {}";\nint __global__x;'
    assert project_from_text(text).kernels() == []


@pytest.mark.parametrize(
    "statement",
    [
        "extern __shared__ __align__(16) float s[];",
        "extern __shared__ alignas(16) float s[];",
        "__shared__ __align__(16) float s[4];",
        "__shared__ float __align__(16) s[4];",
        "__align__(16) __shared__ float s[4];",
        "__shared__ __attribute__((aligned(16))) float s[4];",
        "extern alignas(alignof(float4)) __shared__ float s[];",
    ],
)
def test_alignment_swallows_no_statement(statement: str) -> None:
    kernel = only_kernel(f"__global__ void k() {{ {statement} __syncthreads(); s[0] = 1; }}")
    assert kernel.confidence == "clean"
    assert kernel.body is not None
    kinds = [c.type for c in kernel.body.named_children]
    assert kinds == ["declaration", "expression_statement", "expression_statement"]
    assert "alignas_qualifier" in node_types(kernel.file)
    assert "__shared__" in kernel.file.text(kernel.body.named_children[0])


def test_attributes_survive() -> None:
    kernel = only_kernel(
        "#define BLOCK 256\n#define BOUNDS(n) __launch_bounds__(n, 2)\n"
        "__global__ void BOUNDS(BLOCK) __cluster_dims__(2, 1, 1) k(const __grid_constant__ int n) {}"
    )
    assert kernel.launch_bounds_text == ("256, 2",)
    assert kernel.attributes == ("__cluster_dims__(2, 1, 1)",)
    assert kernel.specifiers == ("__global__", "void")
    plain = only_kernel("__launch_bounds__(WARPS * 32) __global__ void k() {}")
    assert plain.launch_bounds_text == ("WARPS * 32",)


def test_targets_through_macros() -> None:
    project = project_from_text(
        "#define HD __host__ __device__\n#define INLINE __forceinline__\n#define DEV __device__ INLINE\n"
        "HD float a(float x) { return x; }\nDEV int b() { return 1; }\nvoid c();\nHD INLINE void d() {}\n"
        "DEV float e;\n#define CONST_MEM __constant__\nCONST_MEM float f[4];"
    )
    targets = {name: group[0].target for name, group in project.functions.items()}
    assert targets == {"a": "host device", "b": "device", "c": "host", "d": "host device"}
    assert "__device__" in project.variables["e"][0].specifiers
    assert "__constant__" in project.variables["f"][0].specifiers
    assert project.files["k.cu"].errors == ()


def test_storage_macro_stays_in_the_tree() -> None:
    kernel = only_kernel("#define SHARED __shared__\n__global__ void k() {\n    SHARED float t[32];\n    t[0] = 1;\n}")
    assert kernel.body is not None
    assert kernel.file.text(kernel.body.named_children[0]) == "__shared__ float t[32];"
    assert kernel.confidence == "clean"
    tight = only_kernel("#define SH __shared__\n__global__ void k() {int x;SH float t[32];}")
    assert tight.confidence == "repaired: __shared__"


def test_restrict_macro() -> None:
    kernel = only_kernel(
        "#define RESTRICT __restrict__\n__global__ void k(float* RESTRICT a, const float *RESTRICT b) {}"
    )
    assert all("restrict" in kernel.file.text(p) for p in kernel.parameters)
    assert kernel.confidence == "clean"


@pytest.mark.parametrize(
    "text",
    [
        "DEVICE_API void h(int a) { a = 1; }",
        "void WINAPI h(int a) { }",
        "void h() {\n  CHECK(foo(1))\n  int x = 0;\n}",
        "INSTANTIATE(float)\nINSTANTIATE(double)\nint x;",
        "void h() {\n  PRAGMA_UNROLL\n  for (int i = 0; i < 4; ++i) { f(i); }\n}",
        "void h() { auto f = [=] __device__ (int i) { return i; }; }",
        "void h() { auto f = [=] __host__ __device__ (int i) { return i; }; }",
        "void h() {\n#ifdef A\n  if (a) {\n#else\n  if (b) {\n#endif\n    f();\n  }\n}",
        "template <class T> T h() { return typename T::value_type(1); }",
        "template class X<float>;\ntemplate struct Y<int, 3>;",
        "void h() { if (typeid(T) == typeid(double)) f(); }",
        "#if defined(A) and not defined(B)\nint x;\n#endif",
        "void h(float* MY_RESTRICT p, float *MY_RESTRICT q) {}",
        "void h() {\n  for (int i = 0; i < 4; ++i)\n#pragma unroll\n    for (int j = 0; j < 4; ++j) f(i, j);\n}",
        '#define FMT "%d"\nvoid h() { printf("a "FMT" b\\n", 1); }',
        "template <int N> requires (N > 0) void h() {}",
    ],
)
def test_shapes_the_grammar_does_not_know(text: str) -> None:
    """Each leaves errors when parsed as it stands (checked), and none after the tolerant pass."""
    project = project_from_text(text + "\n__global__ void k(int n) { n = 1; }\n")
    file = project.files["k.cu"]
    assert file.errors == ()
    assert [k.confidence for k in project.kernels()] == ["clean"]
    assert len(file.code) == len(file.source.data)
    assert [i for i, c in enumerate(file.code) if c == 10] == [i for i, c in enumerate(file.source.data) if c == 10]


def test_dropped_text_lowers_confidence() -> None:
    kernel = only_kernel("__global__ void k(int n) {\n  UNKNOWN_THING\n  for (int i = 0; i < n; ++i) { f(i); }\n}")
    assert kernel.confidence == "repaired: unknown macro UNKNOWN_THING"
    assert [d.why for d in kernel.file.dropped] == ["unknown macro UNKNOWN_THING"]


def test_branch_that_splits_parameters() -> None:
    text = "__global__ void k(int a,\n#if {0}\n  int b\n#else\n  int b, int c\n#endif\n) {{ a = b; }}"
    assert len(only_kernel("#define WIDE 0\n" + text.format("WIDE")).parameters) == 3
    kernel = only_kernel("#define WIDE 1\n" + text.format("WIDE"))
    assert (len(kernel.parameters), kernel.confidence) == (2, "clean")
    guessed = only_kernel(text.format("WIDE"))
    assert (len(guessed.parameters), guessed.confidence) == (3, "repaired: branch of an #if")


def test_branches_in_a_body_are_marked() -> None:
    text = "__global__ void k(int n) {\n#if FAST\n  n = 1;\n#elif OTHER\n  n = 2;\n#else\n  n = 3;\n#endif\n}"
    text = "#define FAST 1\n" + text
    kernel = only_kernel(text)
    branches = {}
    assert kernel.body is not None
    stack = list(kernel.body.children)
    while stack:
        node = stack.pop()
        if node.type in ("preproc_if", "preproc_elif", "preproc_else"):
            branches[node.type] = kernel.file.taken(node)
            stack.extend(node.children)
    assert branches == {"preproc_if": True, "preproc_elif": False, "preproc_else": False}


def test_branches_of_macro_kernels_are_marked() -> None:
    text = "#define HEAD(n) __global__ void n(int* p)\n\nHEAD(k) {\n#if 0\n  *p = 1;\n#else\n  *p = 2;\n#endif\n}\n"
    kernel = only_kernel(text)
    assert kernel.body is not None
    (group,) = kernel.body.named_children
    assert group.type == "preproc_if"
    assert not kernel.file.taken(group)
    alternative = group.child_by_field_name("alternative")
    assert alternative is not None
    assert kernel.file.taken(alternative)


def test_syntax_error_stays_with_its_function() -> None:
    project = project_from_text("__global__ void bad(int n) { int x = = 3; }\n__global__ void good(int n) { n = 1; }\n")
    assert {k.name: k.confidence == "clean" for k in project.kernels()} == {"bad": False, "good": True}


def test_records_aliases_variables() -> None:
    project = project_from_text(
        "struct __align__(16) V { float x; static const int lanes = 4; float len() const; };\n"
        "float V::len() const { return x; }\n"
        "namespace n { template <class T> struct P { T a; enum { Size = 3 }; typedef T Item; };\n"
        "template <> struct P<int> {}; }\n"
        "enum class E : int { A, B };\nusing F = float4; typedef int I, *IP; typedef struct { int a; } Anon;\n"
        "constexpr int N = 4, M = 5; __constant__ float c[3]; int (*callback)(int);\n"
    )
    assert project.records["V"][0].attributes == ("__align__(16)",)
    assert [r.qualified for r in project.records["P"]] == ["n::P", "n::P"]
    assert [r.specialisation for r in project.records["P"]] == [(), ("int",)]
    assert project.records["E"][0].kind == "enum class"
    assert sorted(project.aliases) == ["Anon", "F", "I", "IP", "Item"]
    assert sorted(project.variables) == ["M", "N", "c", "callback", "lanes"]
    assert [f.record for f in project.functions["len"]] == ["V", "V"]
    assert project.lookup_variables("V::lanes", "k.cu")[0].qualified == "V::lanes"
    assert project.lookup_functions("V::len", "k.cu")[1].body is not None


def test_lookup_prefers_what_is_included(tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 2)):
        folder = tmp_path / name
        (folder / "include").mkdir(parents=True)
        (folder / "include" / "config.h").write_text(
            f"#define BLOCK {value}\ninline int pick() {{ return {value}; }}\n"
        )
        (folder / "k.cu").write_text(
            '#include "config.h"\n#define OWN BLOCK\n__global__ void k() { pick(); }\n#include "part.cu"'
        )
        (folder / "part.cu").write_text("__global__ void part() { }")
    project = load_project(tmp_path)
    assert project.reach["two/k.cu"] == ("two/include/config.h", "two/part.cu")
    found = project.lookup_functions("pick", "two/k.cu")
    assert [f.file.source.path for f in found] == ["two/include/config.h", "one/include/config.h"]
    macro = project.lookup_macro("BLOCK", "two/k.cu")
    assert macro is not None
    assert macro.body == "2"
    above = project.lookup_macro("BLOCK", "two/part.cu")
    assert above is not None
    assert above.body == "2"
    assert project.lookup_macro("BLOCK", "two/include/config.h") == macro
    assert project.lookup_macro("OWN", "one/include/config.h") is None


def test_conditional_definitions_follow_the_compiler() -> None:
    project = project_from_text(
        "#ifndef BLOCK\n#define BLOCK 32\n#endif\n"
        "#ifdef USE_DOUBLE\n#define real double\n#else\n#define real float\n#endif\n"
        "#if defined(__CUDACC__) && __CUDA_ARCH__ >= 700\n#define SYNC 1\n#else\n#define SYNC 0\n#endif\n"
        "#if BLOCK * 2 == 64 && (1 ? 3 : 4) % 2\n#define OK 1\n#else\n#define OK 0\n#endif\n"
    )
    bodies = {n: m.body for n in ("BLOCK", "real", "SYNC", "OK") if (m := project.lookup_macro(n, "k.cu"))}
    assert bodies == {"BLOCK": "32", "real": "float", "SYNC": "1", "OK": "1"}
    assert project.macros["real"][0].conditional


def test_defines_of_the_build(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("#ifdef USE_DOUBLE\n#define real double\n#else\n#define real float\n#endif\n")
    macro = load_project(tmp_path, defines={"USE_DOUBLE": "1"}).lookup_macro("real", "k.cu")
    assert macro is not None
    assert macro.body == "double"


def test_spans_of_macro_kernels() -> None:
    text = "#define HEAD(n) __global__ void n(int* p)\n\nHEAD(k) {\n  *p = 1;\n}\n"
    project = project_from_text(text)
    (kernel,) = project.kernels()
    assert (kernel.span.line, kernel.span.end_line) == (3, 5)
    assert kernel.span.spelling is not None
    assert kernel.span.spelling.line == 1
    assert kernel.body is not None
    statement = kernel.file.span(kernel.body.named_children[0])
    assert (statement.line, text[statement.start : statement.end]) == (4, "*p = 1;")


def test_every_declaration_reads_back() -> None:
    project = project_from_text(
        "#define HD __host__ __device__\nHD int f(int a) { return a; }\nstruct S { int m() { return 1; } };\n"
    )
    assert_spans(project)


def assert_spans(project: Project) -> None:
    for group in project.functions.values():
        for function in group:
            span = function.span
            assert function.name in function.file.source.text(span)
            assert function.file.source.position(span.start) == (span.line, span.column)
