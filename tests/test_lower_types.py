"""C++ arithmetic conversions and class layout, against g++."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import builtin_type, words_type
from prelaunch.analysis.frontends.cuda.semantics.types import common, promote
from prelaunch.analysis.kernel import Assign, Const, Kernel, Scalar, Store
from prelaunch.analysis.walk import walk

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compare with")

ARITHMETIC = (
    "bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long",
    "unsigned long", "long long", "unsigned long long", "float", "double",
)  # fmt: skip


def run_cpp(source: str, folder: Path) -> list[str]:
    """Lines that a C++ program prints."""
    text, program = folder / "t.cpp", folder / "t"
    text.write_text(source)
    subprocess.run(["g++", "-std=c++17", "-w", "-o", str(program), str(text)], check=True, timeout=60)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=10).stdout.split("\n")


def scalar(name: str) -> Scalar:
    found = builtin_type(name) or words_type(name.split())
    assert isinstance(found, Scalar)
    return found


def described(of: Scalar) -> str:
    return f"{int(not of.is_integer)} {int(of.kind != 'uint')} {of.size}"


def lower(text: str, name: str = "") -> Kernel:
    project = project_from_text(text)
    kernels = [k for k in project.kernels() if not name or k.name == name]
    return lower_kernel(project, kernels[0])


@needs_gxx
def test_usual_arithmetic_conversions_are_those_of_gxx(tmp_path: Path) -> None:
    lines = "\n".join(
        f"show<decltype(({a})1 + ({b})1)>();" for a, b in itertools.product(ARITHMETIC, ARITHMETIC)
    ) + "\n".join(f"show<decltype(+({a})1)>();" for a in ARITHMETIC)
    printed = run_cpp(
        "#include <cstdio>\n#include <type_traits>\n"
        'template<class T> void show() { printf("%d %d %d\\n", std::is_floating_point<T>::value, '
        f"std::is_signed<T>::value, (int)sizeof(T)); }}\nint main() {{ {lines} }}",
        tmp_path,
    )
    pairs = list(itertools.product(ARITHMETIC, ARITHMETIC))
    ours = [described(common(scalar(a), scalar(b))) for a, b in pairs] + [
        described(promote(scalar(a))) for a in ARITHMETIC
    ]
    assert [f"{p}: {line}" for p, line in zip([*pairs, *ARITHMETIC], printed, strict=False)] == [
        f"{p}: {line}" for p, line in zip([*pairs, *ARITHMETIC], ours, strict=True)
    ]


RECORDS = """
struct Plain { char a; double b; short c; int d; };
struct Bits { unsigned a : 3; unsigned b : 7; int c : 25; char d; unsigned short e : 9; };
struct Wide { int a : 20; int : 0; int b : 4; long long c : 40; };
union Either { char a[5]; int b; double c; };
struct Nested { char a; Plain b; Either c; struct { short x; char y; } d; char e; };
struct Empty {};
struct Derived : Plain { char f; };
struct FromEmpty : Empty { int a; };
struct alignas(16) Aligned { float a[3]; };
struct Arrays { char a[3]; short b[2][3]; Aligned c[2]; bool d; };
struct Pointers { char a; float* b; int (*c)[4]; const char* const d; };
struct Anonymous { int a; union { float b; char c[6]; }; long d; };
enum class Small : unsigned char { A, B };
struct WithEnum { Small a; int b; Small c; };
typedef struct { float x, y; } Pair;
struct Uses { char a; Pair b; unsigned long long c; };
"""
MEMBERS = {
    "Plain": ("a", "b", "c", "d"), "Nested": ("a", "b", "b.c", "c", "d.y", "e"), "Derived": ("a", "d", "f"),
    "FromEmpty": ("a",), "Aligned": ("a[2]",), "Arrays": ("a", "b[1][2]", "c[1].a[1]", "d"),
    "Pointers": ("a", "b", "c", "d"), "Anonymous": ("a", "b", "c[3]", "d"), "WithEnum": ("a", "b", "c"),
    "Uses": ("a", "b.y", "c"), "Bits": ("d",), "Wide": (), "Either": ("a[4]", "b", "c"), "Empty": (), "Pair": ("y",),
}  # fmt: skip


@needs_gxx
def test_layout_is_that_of_gxx(tmp_path: Path) -> None:
    names = list(MEMBERS)
    sizes = "".join(f'printf("%d %d\\n", (int)sizeof({n}), (int)alignof({n}));' for n in names)
    offsets = "".join(
        f'{{ static {n} v; printf("%d\\n", (int)((char*)&v.{m} - (char*)&v)); }}' for n in names for m in MEMBERS[n]
    )
    data = RECORDS.replace("const d;", "d;")
    printed = run_cpp(f"#include <cstdio>\n{data}\nint main() {{ {sizes}{offsets} }}", tmp_path)
    wanted = [int(word) for line in printed for word in line.split()]

    formals = ", ".join(["int* o", *(f"{n}* p{n}" for n in names)])
    body = "".join(f"o[{2 * i}] = sizeof({n}); o[{2 * i + 1}] = alignof({n});" for i, n in enumerate(names))
    reads = "".join(f"sink((char*)&p{n}->{m});" for n in names for m in MEMBERS[n])
    sink = "__device__ void sink(char* c) { *c = 1; }"
    kernel = lower(f"{data}\n{sink}\n__global__ void k({formals}) {{ {body}{reads} }}")
    found: list[int] = []
    for stmt in walk(kernel.body):
        if isinstance(stmt, Store):
            (case,) = stmt.cases
            value = stmt.exprs[0] if case.object == "o" else case.offset
            assert isinstance(value, Const), stmt
            found.append(int(value.value))
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("0x7fffffff", 2**31 - 1, "i32"), ("0x80000000", 2**31, "u32"), ("2147483648", 2**31, "i64"),
        ("4294967295u", 2**32 - 1, "u32"), ("1ull", 1, "u64"), ("1l", 1, "i64"), ("010", 8, "i32"), ("0b101", 5, "i32"),
        ("1'000", 1000, "i32"), ("1e-3f", 0.0010000000474974513, "f32"), (".5", 0.5, "f64"), ("0x1p3", 8.0, "f64"),
        ("'a'", 97, "i8"), ("'\\n'", 10, "i8"), ("'\\x41'", 65, "i8"), ("true", 1, "bool"), ("-1u", 2**32 - 1, "u32"),
        ("5 / 2", 2, "i32"), ("-5 / 2", -2, "i32"), ("-5 % 3", -2, "i32"), ("1 << 31", -(2**31), "i32"),
        ("7u - 8u", 2**32 - 1, "u32"), ("~0u", 2**32 - 1, "u32"), ("!3", 0, "bool"), ("3 > 2.5", 1, "bool"),
        ("(char)300", 44, "i8"), ("(unsigned char)-1", 255, "u8"), ("(int)3.99f", 3, "i32"), ("(bool)0.5", 1, "bool"),
        ("-1 > 1u", 1, "bool"), ("sizeof(int) - 5", 2**64 - 1, "u64"), ("1 ? 2 : 3.0", 2.0, "f64"),
        ("std::numeric_limits<int>::max()", 2**31 - 1, "i32"), ("(short)40000", -25536, "i16"),
    ],
)  # fmt: skip
def test_constants_fold_with_their_types(text: str, value: float, kind: str) -> None:
    kernel = lower(
        f"template<class T> __device__ void use(T x, float* o) {{ o[0] = x; }}\n"
        f"__global__ void k(float* o) {{ auto v = {text}; use(v, o); }}"
    )
    found = [s for s in walk(kernel.body) if isinstance(s, Assign) and s.var.name == "v"]
    assert [(s.expr, str(s.var.type)) for s in found] == [(Const(value, found[0].var.type), kind)]
