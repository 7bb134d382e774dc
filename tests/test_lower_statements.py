"""Statements, calls, memory: each construct in a small kernel, the exact IR asserted."""

from __future__ import annotations

from typing import TypeVar

import pytest

from prelaunch.analysis.check import check
from prelaunch.analysis.frontends.cuda import Limits, lower_kernel, project_from_text
from prelaunch.analysis.kernel import (
    BOOL,
    F32,
    I32,
    Assign,
    Assume,
    Atomic,
    Barrier,
    Binary,
    Block,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Exit,
    Expr,
    If,
    Kernel,
    Load,
    Loop,
    Opaque,
    PtrOffset,
    Return,
    Select,
    Special,
    Stmt,
    Store,
    Unary,
    Var,
)  # fmt: skip
from prelaunch.analysis.walk import walk, walk_expr

Node = TypeVar("Node")


def lower(text: str, args: tuple[str, ...] = (), limits: Limits | None = None) -> Kernel:
    project = project_from_text(text)
    kernel = lower_kernel(project, project.kernels()[0], args, limits)
    assert check(kernel) == []
    return kernel


def clean(text: str, args: tuple[str, ...] = ()) -> Kernel:
    kernel = lower(text, args)
    assert [s.reason for s in walk(kernel.body) if isinstance(s, Opaque)] == []
    return kernel


def every(kernel: Kernel | Stmt, kind: type[Node]) -> list[Node]:
    return [s for s in walk(kernel.body if isinstance(kernel, Kernel) else kernel) if isinstance(s, kind)]


def show(expr: Expr) -> str:
    match expr:
        case Const(value=value):
            return str(value)
        case Var(name=name, id=ident):
            return name or f"t{ident}"
        case Special(name=name):
            return name
        case Binary(op=op, left=left, right=right):
            return f"({show(left)} {op} {show(right)})"
        case Unary(op=op, operand=operand):
            return f"{op}({show(operand)})"
        case Cast(operand=operand, type=to):
            return f"{to}({show(operand)})"
        case Select(cond=cond, then=a, orelse=b):
            return f"({show(cond)} ? {show(a)} : {show(b)})"
        case PtrOffset(var=var):
            return f"offset({var.name})"
    return repr(expr)


def targets(kernel: Kernel, kind: type[Load] | type[Store] | type[Atomic] = Store) -> list[tuple[str, str]]:
    """Object and offset of every unguarded access."""
    return [(c.object, show(c.offset)) for s in every(kernel, kind) for c in s.cases if c.guard is None]


# --- control ---------------------------------------------------------------------------------------------------------


def test_early_return_is_exit_and_the_last_one_is_dropped() -> None:
    kernel = clean("__global__ void k(int* o, int n) { if (n > 3) return; o[0] = 1; return; }")
    first, second = kernel.body.stmts
    assert isinstance(first, If)
    assert isinstance(first.then.stmts[0], Exit)
    assert isinstance(second, Store)


@pytest.mark.parametrize(
    ("header", "init", "cmp", "bound", "step", "kind"),
    [
        ("int i = threadIdx.x; i < n; i += blockDim.x", "i32(threadIdx.x)", "lt", "n", "blockDim.x", "affine"),
        ("int i = 0; i <= n - 1; ++i", "0", "le", "(n sub 1)", "1", "affine"),
        ("int i = n; i > 0; i--", "n", "gt", "0", "-1", "affine"),
        ("int i = n; i >= 4; i -= 4", "n", "ge", "4", "-4", "affine"),
        ("int i = 1; i < n; i *= 2", "1", "lt", "n", "2", "power"),
        ("int i = 1; n > i; i <<= 1", "1", "lt", "n", "2", "power"),
        ("int i = 16; i; i >>= 1", "16", "ne", "0", "-2", "power"),
        ("int i = 16; i > 0; i /= 4", "16", "gt", "0", "-4", "power"),
        ("unsigned i = 0; i != n; i++", "0", "ne", "u32(n)", "1", "affine"),
    ],
)  # fmt: skip
def test_counted_loops_are_recognised(header: str, init: str, cmp: str, bound: str, step: str, kind: str) -> None:
    kernel = clean(f"__global__ void k(int* o, int n) {{ for ({header}) o[i] = n; }}")
    (loop,) = every(kernel, Loop)
    info = loop.info
    assert info is not None
    assert (show(info.init), info.cmp, show(info.bound), show(info.step), info.kind) == (init, cmp, bound, step, kind)


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 0; i < n; ++i) { o[i] = 1; i++; }",
        "for (int i = 0; i < n; ++i) { o[i] = 1; n--; }",
        "for (int i = 0; i < o[0]; ++i) o[i] = 1;",
        "while (n) n = n & (n - 1);",
    ],
)
def test_other_loops_are_not_counted(loop: str) -> None:
    (found,) = every(clean(f"__global__ void k(int* o, int n) {{ {loop} }}"), Loop)
    assert found.info is None


def test_condition_with_a_load_is_tested_each_time_round() -> None:
    (loop,) = every(clean("__global__ void k(int* o) { while (o[1] > 0) o[2] = 3; }"), Loop)
    assert [type(s) for s in loop.test.stmts] == [Load]
    assert loop.test_first


def test_do_while_break_and_continue() -> None:
    kernel = clean(
        "__global__ void k(int* o, int n) { do { if (n == 3) continue; if (n == 4) break; n--; } while (n); }"
    )
    (loop,) = every(kernel, Loop)
    assert not loop.test_first
    assert [s.label for s in every(kernel, Continue)] == [loop.label]
    assert [s.label for s in every(kernel, Break)] == [loop.label]


def test_short_circuit_with_a_load_becomes_if() -> None:
    kernel = clean("__global__ void k(int* o, int n) { if (n < 4 && o[n]) o[0] = 1; }")
    guard, test = [s for s in kernel.body.stmts if isinstance(s, If)]
    assert show(guard.cond) == "(n lt 4)"
    assert [type(s) for s in guard.then.stmts] == [Load, Assign]
    assert isinstance(test.cond, Var)
    assert not every(clean("__global__ void k(int* o, int n) { o[0] = n < 4 && n > 1; }"), If)


def test_conditional_loads_only_the_taken_side() -> None:
    kernel = clean("__global__ void k(float* o, int n) { o[0] = n ? o[1] : 2.f; }")
    (choice,) = every(kernel, If)
    assert [type(s) for s in choice.then.stmts] == [Load, Assign]
    assert [show(s.expr) for s in every(choice.orelse, Assign)] == ["2.0"]


def test_switch_without_fall_through_is_a_chain() -> None:
    kernel = clean("__global__ void k(int* o, int n) { switch (n) { default: o[0] = 0; break; case 1: case 2: o[1] = 1;"
                   " break; case 3: return; } }")  # fmt: skip
    first = next(s for s in walk(kernel.body) if isinstance(s, If))
    assert isinstance(first.cond, Binary)
    assert first.cond.op == "lor"
    second = first.orelse.stmts[0]
    assert isinstance(second, If)
    assert [type(s) for s in second.then.stmts] == [Exit]
    assert [c.object + show(c.offset) for s in every(second.orelse, Store) for c in s.cases] == ["o0"]


def test_switch_with_fall_through_uses_a_flag_and_breaks_its_block() -> None:
    kernel = clean("__global__ void k(int* o, int n) { switch (n) { case 1: o[0] = 1; case 2: o[1] = 2; break; case 3:"
                   " o[2] = 3; } }")  # fmt: skip
    block = next(s for s in walk(kernel.body) if isinstance(s, Block) and s.label is not None)
    assert [b.label for b in every(block, Break)] == [block.label]
    assert len([s for s in block.stmts if isinstance(s, If)]) == 3


def test_constant_conditions_leave_only_the_taken_branch() -> None:
    kernel = clean(
        "template<int N> __global__ void k(int* o) { if constexpr (N > 2) o[0] = N; else o[1] = missing(N); }", ("4",)
    )
    assert targets(kernel) == [("o", "0")]


def test_goto_forward_leaves_a_block_and_backward_continues_a_loop() -> None:
    kernel = clean(
        """__global__ void k(int* o, int n) {
             int i = 0;
           again:
             o[i] = 1;
             for (int j = 0; j < n; j++) { if (o[j] == 7) goto end; }
             if (++i < 4) goto again;
             o[8] = 2;
           end:
             o[9] = 3;
           }"""
    )
    block = next(s for s in walk(kernel.body) if isinstance(s, Block) and s.label is not None)
    loop = next(s for s in walk(kernel.body) if isinstance(s, Loop))
    assert [b.label for b in every(block, Break)] == [block.label, loop.label]
    assert [c.label for c in every(loop, Continue)] == [loop.label]


def test_goto_into_a_block_is_opaque_control() -> None:
    kernel = lower("__global__ void k(int* o) { goto in; { o[0] = 1; in: o[1] = 2; } }")
    (opaque,) = every(kernel, Opaque)
    assert opaque.touches == {"control"}


# --- order of evaluation ---------------------------------------------------------------------------------------------


def test_postfix_increment_gives_the_old_value() -> None:
    kernel = clean("__global__ void k(int* o, int i) { o[i++] = i; int j = i++ + i; o[9] = j; }")
    stores = every(kernel, Store)
    old = [s for s in every(kernel, Assign) if not s.var.name]
    assert show(stores[0].cases[0].offset).startswith("(i64(t")
    assert len(old) == 3  # the right side, and both old values


def test_arguments_keep_the_values_they_had() -> None:
    kernel = clean("__device__ int f(int a, int b) { return a * 10 + b; }\n"
                   "__global__ void k(int* o, int i) { o[0] = f(i, i = 7); }")  # fmt: skip
    first = kernel.body.stmts[0]
    assert isinstance(first, Assign)
    assert show(first.expr) == "i"
    (a, b) = [s for s in kernel.body.stmts if isinstance(s, Assign) and s.var.name in ("a", "b")]
    assert a.expr == first.var
    assert show(b.expr) == "i"


# --- calls -----------------------------------------------------------------------------------------------------------


def test_device_functions_are_inlined_with_early_return() -> None:
    text = (
        "__device__ int f(int x) { if (x > 2) return 1; return x; }\n__global__ void k(int* o, int n) { o[0] = f(n); }"
    )
    kernel = clean(text)
    (call,) = every(kernel, Call)
    (early,) = every(kernel, Return)
    assert (call.callee, early.label) == ("f", call.label)
    inner = every(call, If)[0]
    assert inner.span.inlined_at is not None
    assert (inner.span.line, inner.span.inlined_at.line) == (1, 2)
    assert call.span.inlined_at is None


def test_references_alias_and_pointers_to_locals_are_promoted() -> None:
    text = """
    __device__ void two(int& a, int* b) { a += 1; *b = a; }
    __global__ void k(int* o, int n) { int x = n, y; two(x, &y); o[0] = x; o[1] = y; }
    """
    kernel = clean(text)
    assert [o.id for o in kernel.objects] == ["o"]
    names = [s.var.name for s in every(kernel, Assign)]
    assert names.count("x") == 2
    assert "y" in names


def test_recursion_ends_in_opaque() -> None:
    kernel = lower(
        "__device__ int f(int n) { return n ? f(n - 1) : 0; }\n__global__ void k(int* o, int n) { o[0] = f(n); }"
    )
    assert {s.reason for s in every(kernel, Opaque)} == {"recursion of f"}


def test_unknown_functions_may_do_anything() -> None:
    (opaque,) = every(lower("__global__ void k(int* o) { o[0] = mystery(o); }"), Opaque)
    assert opaque.touches == {"value", "memory", "control"}
    assert opaque.reason == "call of mystery: no definition found"


def test_default_arguments_overloads_and_templates() -> None:
    text = """
    __device__ float pick(float x) { return 1; }
    __device__ int pick(int x) { return 2; }
    template <typename T> __device__ T twice(T x, int times = 2) { return x * times; }
    template <> __device__ float twice<float>(float x, int times) { return x; }
    template <int N> struct Sum { static constexpr int value = N + Sum<N - 1>::value; };
    template <> struct Sum<0> { static constexpr int value = 0; };
    __global__ void k(int* o, float* f) { o[0] = pick(3); f[0] = pick(2.f); o[1] = twice(5); f[1] = twice(2.f);
      o[2] = Sum<4>::value; }
    """
    kernel = clean(text)
    assert [c.callee for c in every(kernel, Call)] == ["pick", "pick", "twice", "twice"]
    assert show(every(kernel, Store)[-1].exprs[0]) == "10"
    times = [s for s in every(kernel, Assign) if s.var.name == "times"]
    assert show(times[0].expr) == "2"


def test_lambdas_capture_by_reference_and_by_copy() -> None:
    kernel = clean("__global__ void k(int* o, int n) { auto add = [&](int x) { n += x; }; auto old = [=] { return n; };"
                   " add(3); o[0] = n; o[1] = old(); }")  # fmt: skip
    assert show(every(kernel, Store)[0].exprs[0]) == "n"
    copies = [s for s in every(kernel, Assign) if s.var.name == "n"]
    assert len({s.var.id for s in copies}) == 2


def test_packs_and_folds() -> None:
    text = """
    template <typename... Ts> __device__ float sum(Ts... xs) { return (xs + ...); }
    __global__ void k(float* o) { o[0] = sum(o[1], 2, o[3]); }
    """
    assert len(every(clean(text), Load)) == 2


# --- classes ---------------------------------------------------------------------------------------------------------


def test_small_records_live_in_variables() -> None:
    text = """
    struct P { float x, y; __device__ P operator+(const P& o) const { P r; r.x = x + o.x; r.y = y + o.y; return r; } };
    __global__ void k(P* p) { P a = p[0] + p[1]; a.x *= 2; p[2] = a; }
    """
    kernel = clean(text)
    assert [o.id for o in kernel.objects] == ["p"]
    assert targets(kernel, Load) == [("p", "0"), ("p", "8"), ("p", "4"), ("p", "12")]
    assert targets(kernel) == [("p", "16"), ("p", "20")]


def test_constructors_members_and_defaults() -> None:
    text = """
    struct A { int x = 3; int y; __device__ A(int v) : y(v) {} __device__ int get() const { return x + y; } };
    struct B : A { int z; __device__ B() : A(4), z(5) {} };
    __global__ void k(int* o) { B b; o[0] = b.get() + b.z; }
    """
    kernel = clean(text)
    assert {s.var.name: show(s.expr) for s in every(kernel, Assign) if s.var.name in ("b.x", "b.z", "b.y")} == {
        "b.x": "3", "b.y": "v", "b.z": "5",
    }  # fmt: skip


def test_union_members_share_their_bytes() -> None:
    kernel = clean("union U { float f; unsigned u; };\n__global__ void k(unsigned* o, float x) {"
                   " __shared__ U s[4]; s[1].f = x; o[0] = s[1].u; U l; l.f = x; o[1] = l.u; }")  # fmt: skip
    assert targets(kernel)[0] == ("s", "4")
    assert targets(kernel, Load) == [("s", "4")]


def test_struct_parameters_are_leaves() -> None:
    kernel = clean("struct A { float* p; int n[2]; };\n__global__ void k(A a, int i) { a.p[a.n[i]] = a.n[1]; }")
    assert [(p.var.name, p.formal, p.offset, p.object) for p in kernel.params] == [
        ("a.p", 0, 0, "a.p"), ("a.n[0]", 0, 8, None), ("a.n[1]", 0, 12, None), ("i", 1, 0, None),
    ]  # fmt: skip
    (store,) = [s for s in every(kernel, Store) if s.space == "global"]
    assert store.cases[0].object == "a.p"


# --- memory ----------------------------------------------------------------------------------------------------------


def test_vector_accesses_move_at_once() -> None:
    kernel = clean("__global__ void k(float* p) { float4 v = *reinterpret_cast<float4*>(p + 4); v.x += 1;"
                   " reinterpret_cast<float4*>(p)[3] = v; float3 w = ((float3*)p)[1]; p[0] = w.y; }")  # fmt: skip
    loads = every(kernel, Load)
    assert [(len(s.vars), s.size) for s in loads] == [(4, 16), (1, 4), (1, 4), (1, 4)]
    assert targets(kernel) == [("p", "48"), ("p", "0")]
    assert [v.name for v in loads[0].vars] == ["v.x", "v.y", "v.z", "v.w"]


def test_shared_memory_static_and_dynamic() -> None:
    text = """
    #define TILE 8
    template <int N> __global__ void k(float* o) {
      __shared__ float a[N][TILE + 1];
      extern __shared__ int d[];
      extern __shared__ __align__(16) float e[];
      a[threadIdx.y][threadIdx.x] = 1; d[2] = 3; e[1] = 2; o[0] = a[1][2];
    }
    """
    kernel = clean(text, ("4",))
    a, d = kernel.object("a"), kernel.object("d")
    assert (a.space, a.size, a.shape, a.element) == ("shared", 144, (4, 9), F32)
    assert (d.dynamic, d.size, d.align) == (True, None, 16)
    assert len(kernel.objects) == 3
    assert targets(kernel)[1:3] == [("d", "8"), ("d", "4")]
    assert kernel.template_args == ("4",)


def test_pointers_into_several_objects_have_guards() -> None:
    kernel = clean("__global__ void k(float* a, float* b, int c) { float* p = c ? a : b + 2; p[1] = 0; }")
    (store,) = every(kernel, Store)
    assert [(c.object, show(c.offset), show(c.guard) if c.guard else "") for c in store.cases] == [
        ("a", "4", "bool(c)"), ("b", "12", "lnot(bool(c))"),
    ]  # fmt: skip


def test_swapped_pointers_carry_their_object() -> None:
    kernel = clean("__global__ void k(float* a, float* b, int n) {"
                   " for (int i = 0; i < n; ++i) { b[i] = a[i]; float* t = a; a = b; b = t; } }")  # fmt: skip
    (store,) = every(kernel, Store)
    assert [(c.object, show(c.guard) if c.guard else "") for c in store.cases] == [
        ("a", "(b@ eq 0)"), ("b", "(b@ eq 1)"),
    ]  # fmt: skip
    assert [s.var.name for s in kernel.body.stmts[:2] if isinstance(s, Assign)] == ["a@", "b@"]


def test_pointers_loaded_from_memory_are_not_known() -> None:
    (store,) = every(clean("__global__ void k(float** p) { p[0][1] = 2; }"), Store)
    assert store.cases == ()


def test_globals_constants_and_literals() -> None:
    text = """
    __constant__ float table[3] = {1.f, 2.f};
    __device__ int counter = 7;
    constexpr int SIZE = 5;
    enum { FIRST = 3, SECOND };
    __global__ void k(float* o) { o[SIZE] = table[SECOND - 3]; counter = FIRST; const char* s = "ab"; o[0] = s[1]; }
    """
    kernel = clean(text)
    table, counter = kernel.object("table"), kernel.object("counter")
    assert (table.space, table.init) == ("constant", bytes.fromhex("0000803f0000004000000000"))
    assert (counter.space, counter.init) == ("global", b"\x07\0\0\0")
    assert [o.init for o in kernel.objects if o.origin == "string"] == [b"ab\0"]
    assert targets(kernel) == [("o", "20"), ("counter", "0"), ("o", "0")]


def test_volatile_accesses_say_so() -> None:
    kernel = clean("__global__ void k(volatile int* p) { __shared__ volatile float s[2]; s[0] = p[1]; }")
    accesses: list[Load | Store] = [*every(kernel, Load), *every(kernel, Store)]
    assert [(s.order, s.scope) for s in accesses] == [("volatile", "system")] * 2
    assert kernel.object("s").volatile


def test_local_arrays_with_run_time_index_stay_in_memory() -> None:
    kernel = clean("__global__ void k(int* o, int n) { int a[4] = {1, 2}; a[n] = 3; o[0] = a[1]; }")
    a = kernel.object("a")
    assert (a.space, a.size, a.shape) == ("local", 16, (4,))


def test_index_arithmetic_keeps_c_widths() -> None:
    kernel = clean(
        "__global__ void k(float* o, int n, size_t m) { o[blockIdx.x * n + threadIdx.x] = 0; o[m * n] = 1; }"
    )
    first, second = every(kernel, Store)
    assert show(first.cases[0].offset) == "(i64(((blockIdx.x mul u32(n)) add threadIdx.x)) mul 4)"
    assert show(second.cases[0].offset) == "(i64((m mul u64(n))) mul 4)"


# --- assumptions, macros, limits -------------------------------------------------------------------------------------


def test_assert_is_an_assumption_whose_loads_are_done() -> None:
    kernel = clean("__global__ void k(int* o) { assert(o[1] > 2); __builtin_assume(blockDim.x == 32); }")
    assert [(a.origin, type(a.cond)) for a in every(kernel, Assume)] == [("assert", Binary), ("assume", Binary)]
    assert len(every(kernel, Load)) == 1


def test_macros_stand_at_their_use_and_name_their_text() -> None:
    text = (
        "#define SQ(x) ((x) * (x))\n#define SYNC __syncthreads()\n#define IN(v, a, b) ((v) >= (a) && (v) <= (b))\n"
        "__global__ void k(int* o, int n) {\n  o[0] = SQ(n + 1);\n  SYNC;\n  if (IN(n, 1, 5)) o[1] = 2;\n}"
    )
    kernel = clean(text)
    (product,) = [
        e for s in every(kernel, Store)[:1] for e in walk_expr(s.exprs[0]) if isinstance(e, Binary) and e.op == "mul"
    ]
    assert product.span.line == 5
    assert product.span.spelling is not None
    assert product.span.spelling.line == 1
    (barrier,) = every(kernel, Barrier)
    assert (barrier.scope, barrier.span.line) == ("block", 6)
    (test,) = every(kernel, If)
    assert show(test.cond) == "((n ge 1) land (n le 5))"


def test_node_budget_and_depth_become_opaque() -> None:
    many = "".join(f"o[{i}] = {i};" for i in range(100))
    kernel = lower(f"__global__ void k(int* o) {{ if (o[0]) {{ {many} }} o[1] = 2; }}", limits=Limits(nodes=50))
    (opaque,) = every(kernel, Opaque)
    assert opaque.reason == "node budget of 50 statements exhausted"
    assert opaque.touches == {"value", "memory", "control"}
    assert len(every(kernel, Store)) < 50
    long = "+ n" * 500
    (opaque,) = every(
        lower(f"__global__ void k(int* o, int n) {{ o[0] = 1 {long}; }}", limits=Limits(expressions=99)), Opaque
    )
    assert opaque.reason == "budget of 99 expressions exhausted"
    deep = "(" * 5000 + "1" + ")" * 5000
    (opaque,) = every(lower(f"__global__ void k(int* o) {{ o[0] = {deep}; }}"), Opaque)
    assert opaque.reason == "nesting too deep"


def test_unbound_template_parameters_are_unknown_and_noted() -> None:
    kernel = lower("template <typename T, int N> __global__ void k(T* o) { o[N] = 1; }")
    (opaque,) = every(kernel, Opaque)
    assert opaque.reason == "template parameter N not bound"
    assert opaque.touches == {"value"}
    assert "template parameter T not bound: taken as float" in kernel.notes
    assert every(kernel, Store)[0].type == F32


def test_launch_bounds_and_formals() -> None:
    kernel = clean("#define B 256\ntemplate <int M> __global__ void __launch_bounds__(B, M)"
                   " k(const float* __restrict__ a,"
                   " double d, char c) {}", ("2",))  # fmt: skip
    assert kernel.launch_bounds == (256, 2, None)
    assert [(f.name, f.ctype, f.size, f.restrict, f.const) for f in kernel.formals] == [
        ("a", "const float*", 8, True, True), ("d", "double", 8, False, False), ("c", "char", 1, False, False),
    ]  # fmt: skip


def test_same_text_gives_the_same_kernel() -> None:
    text = (
        "__device__ int f(int* p) { return *p; }\n__global__ void k(int* o, int n) { int x = n; o[f(&x)] = n ? 1 : 2; }"
    )
    assert lower(text) == lower(text)


def test_every_node_has_a_span() -> None:
    text = (
        "__device__ float g(float4 v) { return v.x + v.w; }\n__global__ void k(float4* o, int n) {"
        " for (int i = 0; i < n; ++i) { o[i] = make_float4(g(o[i]), 0, n ? 1 : 2, -1); } }"
    )
    for stmt in walk(clean(text).body):
        assert stmt.span.line > 0, stmt
    assert BOOL != I32


def test_unknown_functions_change_what_they_take_by_reference() -> None:
    text = """
    __device__ void fill(int& x, const int& y, int z);
    __global__ void k(int* o) { int a, b = 1, c = 2; fill(a, b, c); o[0] = a; }
    """
    (opaque,) = every(lower(text), Opaque)
    assert [v.name for v in opaque.defines] == ["a"]


def test_an_alias_of_an_unnamed_class_is_one_type() -> None:
    text = """
    typedef struct { float4 m[2]; } Rows;
    __constant__ Rows rows;
    __device__ float dot(const Rows& r, const float4& v) { return r.m[0].x * v.x + r.m[1].y * v.y; }
    __global__ void k(float* o) { o[0] = dot(rows, make_float4(1, 2, 3, 4)); }
    """
    kernel = clean(text)
    assert targets(kernel, Load) == [("rows", "0"), ("rows", "20")]


def test_deeply_nested_template_arguments_of_unknown_types_take_linear_time() -> None:
    nested = "A<" * 50 + "int" + ">" * 50
    kernel = lower(f"__global__ void k(int* o) {{ {nested} q; o[0] = 1; }}")
    assert targets(kernel) == [("o", "0")]


def test_typedefs_of_library_headers_are_their_vectors() -> None:
    kernel = clean("__global__ void k(cufftComplex* o, cufftReal r) { o[1].y = r; }")
    assert targets(kernel) == [("o", "12")]


def test_a_macro_that_ends_in_a_semicolon_ends_its_statement() -> None:
    clean("#define HALF 0.5f;\n__global__ void k(float* o, float x) { o[0] = x * HALF; }")
    kernel = lower("#define HALF 0.5f;\n__global__ void k(float* o, float x) { o[0] = HALF * x; }")
    assert [o.touches for o in every(kernel, Opaque)]


def test_a_variable_that_nothing_assigns_is_unknown_and_said_to_be() -> None:
    kernel = lower("__global__ void k(int* o) { int r, n = 2; o[0] = r + n; }")
    assert [(o.reason, o.touches) for o in every(kernel, Opaque)] == [
        ("r is read but never assigned", frozenset({"value"}))
    ]
    assert not check(kernel)


@pytest.mark.parametrize("op", ["<<", ">>", "&", "|", "^", "%"])
def test_bits_of_floats_are_no_operation_of_the_ir(op: str) -> None:
    kernel = lower(f"__global__ void k(float *o, float a) {{ o[0] = a {op} 2.0f; }}")
    (opaque,) = every(kernel, Opaque)
    assert "floating-point" in opaque.reason
    assert opaque.touches == {"value"}
