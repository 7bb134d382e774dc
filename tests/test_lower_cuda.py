"""CUDA's own constructs: atomics, collectives, barriers, groups, half precision, matrices, inline PTX."""

from __future__ import annotations

from typing import TypeVar

import pytest

from prelaunch.analysis.check import check
from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.kernel import (
    BF16,
    F16,
    F32,
    I32,
    U32,
    U64,
    Assign,
    Async,
    Atomic,
    Barrier,
    Binary,
    Bitcast,
    Cast,
    Collective,
    Const,
    Exit,
    Expr,
    Fence,
    If,
    Intrinsic,
    Kernel,
    Load,
    Mma,
    Opaque,
    Pure,
    Special,
    Store,
    Unary,
    Var,
)  # fmt: skip
from prelaunch.analysis.walk import walk

Node = TypeVar("Node")


def lower(body: str, before: str = "", formals: str = "int* o, float* f, unsigned u, int n") -> Kernel:
    project = project_from_text(f"{before}\n__global__ void k({formals}) {{ {body} }}")
    kernel = lower_kernel(project, project.kernels()[-1])
    assert check(kernel) == []
    return kernel


def clean(body: str, before: str = "", formals: str = "int* o, float* f, unsigned u, int n") -> Kernel:
    kernel = lower(body, before, formals)
    assert [s.reason for s in walk(kernel.body) if isinstance(s, Opaque)] == []
    return kernel


def every(kernel: Kernel, kind: type[Node]) -> list[Node]:
    return [s for s in walk(kernel.body) if isinstance(s, kind)]


def show(expr: Expr | None) -> str:
    match expr:
        case None:
            return ""
        case Const(value=value):
            return str(value)
        case Var(name=name, id=ident):
            return name or f"t{ident}"
        case Special(name=name):
            return name
        case Unary(op=op, operand=a):
            return f"{op}({show(a)})"
        case Binary(op=op, left=left, right=right):
            return f"({show(left)} {op} {show(right)})"
        case Cast(operand=a, type=to):
            return f"{to}({show(a)})"
        case Bitcast(operand=a, type=to):
            return f"bits<{to}>({show(a)})"
        case Pure(name=name, args=args):
            return f"{name}({', '.join(map(show, args))})"
    return type(expr).__name__


@pytest.mark.parametrize(
    ("call", "op", "kind", "order", "scope", "values"),
    [
        ("atomicAdd(o, 3)", "add", I32, "relaxed", "device", ["3"]),
        ("atomicAdd(f + 1, u)", "add", F32, "relaxed", "device", ["f32(u)"]),
        ("atomicMax_block(o, n)", "max", I32, "relaxed", "block", ["n"]),
        ("atomicCAS_system(o, 1, 2)", "cas", I32, "relaxed", "system", ["1", "2"]),
        ("atomicInc((unsigned*)o, 7)", "inc", U32, "relaxed", "device", ["7"]),
        ("atomicExch(f, 2.f)", "exch", F32, "relaxed", "device", ["2.0"]),
        ("cuda::atomic_ref<int, cuda::thread_scope_block>(o[0]).fetch_add(n, cuda::memory_order_release)", "add", I32,
         "release", "block", ["n"]),
    ],
)  # fmt: skip
def test_atomics(call: str, op: str, kind: object, order: str, scope: str, values: list[str]) -> None:
    (atomic,) = every(clean(f"{call};"), Atomic)
    assert (atomic.op, atomic.type, atomic.order, atomic.scope) == (op, kind, order, scope)
    assert [show(e) for e in atomic.exprs] == values
    assert [c.object for c in atomic.cases] == ["f" if kind == F32 else "o"]


@pytest.mark.parametrize(
    ("call", "op", "mask", "args", "width"),
    [
        ("__shfl_down_sync(0xffffffffu, n, 4)", "shfl.down", "4294967295", ["n", "4"], "32"),
        ("__shfl_xor_sync(u, n, 1, 16)", "shfl.xor", "u", ["n", "1"], "16"),
        ("__shfl(n, 3)", "shfl.idx", "", ["n", "3"], "32"),
        ("__ballot_sync(-1, n > 2)", "vote.ballot", "4294967295", ["i32((n gt 2))"], ""),
        ("__any_sync(u, n)", "vote.any", "u", ["n"], ""),
        ("__match_any_sync(u, n)", "match.any", "u", ["n"], ""),
        ("__reduce_add_sync(u, n)", "reduce.add", "u", ["n"], ""),
        ("__activemask()", "activemask", "", [], ""),
    ],
)
def test_collectives(call: str, op: str, mask: str, args: list[str], width: str) -> None:
    (found,) = every(clean(f"o[0] = {call};"), Collective)
    assert (found.op, show(found.mask), [show(a) for a in found.args], show(found.width)) == (op, mask, args, width)


def test_libcu_atomics_used_as_values() -> None:
    before = "__device__ cuda::atomic<int, cuda::thread_scope_device> a;"
    kernel = clean("a++; a += n; int x = a; a = 4; o[0] = x; cuda::atomic_ref<int> r(o[1]); r.fetch_max(n);", before)
    assert [(s.op, s.cases[0].object, s.order) for s in every(kernel, Atomic)] == [
        ("add", "a", "seq_cst"), ("add", "a", "seq_cst"), ("max", "o", "seq_cst"),
    ]  # fmt: skip
    assert [(s.cases[0].object, s.order) for s in every(kernel, Load)] == [("a", "seq_cst")]
    assert [(s.cases[0].object, s.order) for s in every(kernel, Store)] == [("a", "seq_cst"), ("o", "weak")]


def test_barriers_and_fences() -> None:
    kernel = clean("__syncthreads(); o[0] = __syncthreads_count(n); __syncwarp(); __syncwarp(u); __threadfence();"
                   " __threadfence_block(); __threadfence_system(); __nanosleep(5); __trap();")  # fmt: skip
    assert [(b.scope, show(b.mask), b.reduce, show(b.pred)) for b in every(kernel, Barrier)] == [
        ("block", "", None, ""), ("block", "", "count", "(n ne 0)"), ("warp", "4294967295", None, ""),
        ("warp", "u", None, ""),
    ]  # fmt: skip
    assert [f.scope for f in every(kernel, Fence)] == ["device", "block", "system"]
    assert [i.name for i in every(kernel, Intrinsic)] == ["nanosleep"]
    assert [e.trap for e in every(kernel, Exit)] == [True]


GROUPS = "namespace cg = cooperative_groups;"


@pytest.mark.parametrize(
    ("sync", "scope", "mask"),
    [
        ("cg::this_thread_block().sync()", "block", ""),
        ("cg::thread_block b = cg::this_thread_block(); cg::sync(b)", "block", ""),
        ("cg::this_grid().sync()", "grid", ""),
        ("cg::this_cluster().sync()", "cluster", ""),
        ("cg::tiled_partition<32>(cg::this_thread_block()).sync()", "warp", "4294967295"),
        ("cg::thread_block_tile<8> t = cg::tiled_partition<8>(cg::this_thread_block()); t.sync()", "warp",
         "(255 shl (laneid and 4294967288))"),
    ],
)  # fmt: skip
def test_group_barriers(sync: str, scope: str, mask: str) -> None:
    (barrier,) = every(clean(f"{sync};", GROUPS), Barrier)
    assert (barrier.scope, show(barrier.mask)) == (scope, mask)


def test_group_queries_and_exchanges() -> None:
    body = """
    auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<16>(block);
    o[0] = block.size(); o[1] = tile.thread_rank(); o[2] = tile.meta_group_rank(); o[3] = tile.size();
    f[0] = tile.shfl_down(f[1], 2); f[2] = cg::reduce(tile, f[3], cg::plus<float>()); o[4] = tile.any(n);
    """
    kernel = clean(body, GROUPS)
    stores = [show(s.exprs[0]) for s in every(kernel, Store)]
    linear = "(threadIdx.x add (blockDim.x mul (threadIdx.y add (blockDim.y mul threadIdx.z))))"
    assert stores[:4] == [
        "i32(((blockDim.x mul blockDim.y) mul blockDim.z))", f"i32(({linear} rem 16))", f"i32(({linear} div 16))", "16",
    ]  # fmt: skip
    found = every(kernel, Collective)
    assert [c.op for c in found] == ["shfl.down", "reduce.add", "vote.any"]
    assert {show(c.mask) for c in found} == {"(65535 shl (laneid and 4294967280))"}
    assert show(found[0].width) == "16"


def test_coalesced_groups_carry_their_mask() -> None:
    kernel = clean("auto g = cg::coalesced_threads(); if (g.thread_rank() == 0) o[0] = g.size();", GROUPS)
    (mask,) = every(kernel, Collective)
    assert mask.op == "activemask"
    assert show(every(kernel, Store)[0].exprs[0]) == f"i32(u32(popc({show(mask.vars[0])})))"


def test_math_and_bit_functions() -> None:
    kernel = clean("f[0] = sqrtf(f[1]) + fmaf(f[2], 2, 1); o[0] = __popc(u) + min(n, 3); o[1] = __float_as_int(f[3]);"
                   " f[4] = max(1.f, 2.f); o[2] = max(3, 9);")  # fmt: skip
    shown = [show(s.exprs[0]) for s in every(kernel, Store)]
    loads = [show(v) for s in every(kernel, Load) for v in s.vars]
    assert shown == [
        f"(sqrt({loads[0]}) add fma({loads[1]}, 2.0, 1.0))", "(popc(u) add min(n, 3))", f"bits<i32>({loads[2]})",
        shown[3], "9",
    ]  # fmt: skip


def test_output_pointers_of_math_functions() -> None:
    kernel = clean("float s, c; sincosf(f[0], &s, &c); f[1] = s; f[2] = c;")
    assert [o.id for o in kernel.objects] == ["o", "f"]
    assigned = {s.var.name: show(s.expr) for s in every(kernel, Assign) if s.var.name in ("s", "c")}
    assert {k: v.partition("(")[0] for k, v in assigned.items()} == {"s": "sin", "c": "cos"}


def test_half_and_bfloat16() -> None:
    body = """
    half2 a = h[0]; h[1] = __hadd2(a, __float2half2_rn(2.f)); b[0] = __float2bfloat16(f[0]); f[1] = __half2float(a.x);
    """
    kernel = clean(body, "", "half2* h, __nv_bfloat16* b, float* f")
    load = every(kernel, Load)[0]
    assert (load.type, len(load.vars)) == (F16, 2)
    stores = every(kernel, Store)
    assert [(s.type, len(s.exprs)) for s in stores] == [(F16, 2), (BF16, 1), (F32, 1)]
    assert show(stores[0].exprs[0]) == "(a.x add 2.0)"
    assert show(stores[2].exprs[0]) == "f32(a.x)"


def test_cached_loads_and_copies() -> None:
    kernel = clean("float4 v = __ldg((const float4*)f + 1); f[0] = v.y; int a[2]; memcpy(a, o, 8); o[4] = a[1];"
                   " memset(o + 8, 0, 8);")  # fmt: skip
    assert [(s.cases[0].object, len(s.vars)) for s in every(kernel, Load)] == [("f", 4), ("o", 1), ("o", 1)]
    assert [show(s.exprs[0]) for s in every(kernel, Store)][-2:] == ["0", "0"]


def test_pipeline_copies() -> None:
    kernel = clean("__shared__ float4 s[4]; __pipeline_memcpy_async(&s[n], f + 4, 16); __pipeline_commit();"
                   " __pipeline_wait_prior(1);")  # fmt: skip
    copy, commit, wait = every(kernel, Async)
    assert (copy.op, copy.bytes, commit.op, wait.op, show(wait.pending)) == ("copy", 16, "commit", "wait", "1")
    assert [c.object for c in (*copy.dst_cases, *copy.src_cases)] == ["s", "f"]
    assert show(copy.dst_cases[0].offset) == "(i64(n) mul 16)"


def test_matrix_fragments() -> None:
    body = """
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.f); wmma::load_matrix_sync(a, h + 32, 24);
    wmma::mma_sync(c, a, a, c); wmma::store_matrix_sync(f, c, 16, wmma::mem_row_major);
    """
    fill, load, mma, store = every(clean(body, "using namespace nvcuda;", "half* h, float* f"), Mma)
    assert (fill.op, mma.op, mma.fragments) == ("fill", "mma", ("c", "a", "a", "c"))
    assert (load.rows, load.cols, load.type, load.layout, show(load.stride)) == (16, 16, F16, "col", "24")
    assert [(c.object, show(c.offset)) for c in (*load.cases, *store.cases)] == [("h", "64"), ("f", "0")]
    assert (store.type, store.layout) == (F32, "row")


def test_textures_and_random_numbers_touch_no_object_unseen() -> None:
    kernel = lower("f[0] = tex2D<float>(t, 1.f, 2.f); f[1] = curand_uniform(&s[n]);", "",
                   "cudaTextureObject_t t, float* f, curandState* s, int n")  # fmt: skip
    assert {t for s in every(kernel, Opaque) for t in s.touches} == {"value"}
    accesses: list[Load | Store] = [*every(kernel, Load), *every(kernel, Store)]
    assert {c.object for s in accesses for c in s.cases} == {"f", "s"}


# --- inline PTX ------------------------------------------------------------------------------------------------------


def test_ptx_values() -> None:
    body = """
    unsigned lane, sum; float r;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("add.u32 %0, %1, %2;" : "=r"(sum) : "r"(lane), "r"(n));
    asm("{ .reg .pred p; setp.lt.s32 p, %1, 5; selp.f32 %0, 0f3F800000, 0f00000000, p; }" : "=f"(r) : "r"(n));
    o[0] = sum; f[0] = r;
    """
    shown = [show(s.expr) for s in every(clean(body), Assign)]
    assert shown[0] == "laneid"
    assert any(s.endswith(" add u32(n))") for s in shown)
    assert "(n lt 5)" in shown


def test_ptx_memory() -> None:
    body = """
    __shared__ float s[64];
    unsigned a = (unsigned)__cvta_generic_to_shared(&s[n]); float x, y;
    asm volatile("st.shared.v2.f32 [%0+8], {%1, %1};" :: "r"(a), "f"(1.f));
    a += 16;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(a) : "memory");
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(u) : "l"(o + 1));
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" :: "l"(o), "r"(n));
    f[0] = x + y;
    """
    kernel = clean(body)
    store = every(kernel, Store)[0]
    assert (store.type, len(store.exprs), store.space, store.cases[0].object) == (F32, 2, "shared", "s")
    assert show(store.cases[0].offset) == "(PtrOffset add 8)"  # the address is moved on afterwards
    shared, flag = every(kernel, Load)
    assert (shared.space, [c.object for c in shared.cases]) == ("shared", ["s"])
    assert (flag.order, flag.scope, flag.cases[0].object, show(flag.cases[0].offset)) == ("acquire", "device", "o", "4")
    (atomic,) = every(kernel, Atomic)
    assert (atomic.op, atomic.order, atomic.scope, atomic.var) == ("add", "release", "device", None)


def test_ptx_copies_and_barriers() -> None:
    body = """
    __shared__ alignas(16) float s[64]; unsigned a = __cvta_generic_to_shared(s);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(a), "l"(f + 4));
    asm volatile("cp.async.commit_group;\\n cp.async.wait_group 2;" ::: "memory");
    asm volatile("bar.sync 1, 64;"); asm volatile("bar.arrive %0, 96;" :: "r"(n));
    asm volatile("barrier.cluster.wait;");
    asm volatile("fence.proxy.async;"); asm volatile("membar.gl;"); asm volatile("@p bra L;" ::);
    """
    kernel = lower(body)
    copy, commit, wait = every(kernel, Async)
    assert (copy.op, copy.bytes, commit.op, wait.op, show(wait.pending)) == ("copy", 16, "commit", "wait", "2")
    assert [c.object for c in (*copy.dst_cases, *copy.src_cases)] == ["s", "f"]
    assert [(b.scope, b.action, show(b.id), show(b.count)) for b in every(kernel, Barrier)] == [
        ("block", "sync", "1", "64"), ("block", "arrive", "u32(n)", "96"), ("cluster", "wait", "", ""),
    ]  # fmt: skip
    assert [(x.scope, x.proxy) for x in every(kernel, Fence)] == [("device", "async"), ("device", "")]
    (opaque,) = [s for s in every(kernel, Opaque) if "bra" in s.reason]
    assert "control" in opaque.touches


def test_ptx_predicates_guard_one_instruction() -> None:
    kernel = clean('asm volatile("{.reg .pred q; setp.ne.u32 q, %1, 0; @q st.global.u32 [%0], 7;}" :: "l"(o), "r"(u));')
    (guard,) = every(kernel, If)
    (store,) = every(kernel, Store)
    assert guard.then.stmts == (store,)
    assert (store.type, store.cases[0].object) == (U32, "o")
    assert U64.bits == 64


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ('asm("" : "=r"(u));', True),
        ('asm("{.reg .b32 t; mov.b32 %0, t;}" : "=r"(u));', True),
        ('asm("" : "+r"(u));', False),
        ('asm("mov.u32 %0, %%laneid;" : "=r"(u));', False),
    ],
)
def test_registers_of_inline_ptx_that_nothing_writes_are_unknown(text: str, open_: bool) -> None:
    kernel = lower(f"{text} o[0] = u;")
    assert [o.reason for o in every(kernel, Opaque)] == ["a register is read but never assigned"] * open_
    assert not check(kernel)
