"""``check`` finds every kind of ill-formed kernel, and finds nothing in a well-formed one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from prelaunch.analysis.check import NODE_BUDGET, check
from prelaunch.analysis.kernel import (
    BOOL,
    F32,
    I32,
    I64,
    U32,
    Address,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Block,
    Break,
    Call,
    Case,
    Cast,
    Collective,
    Const,
    Continue,
    Expr,
    Formal,
    If,
    Kernel,
    Load,
    Loop,
    Object,
    Opaque,
    Param,
    Pointer,
    PtrAdd,
    PtrOffset,
    Return,
    Scalar,
    Select,
    Special,
    Stmt,
    Store,
    Unary,
    Var,
)
from prelaunch.analysis.source import Span

N = Var(1, "n", I32)
P = Var(2, "p", Pointer(4, "float"))
X = Var(3, "x", F32)
K = Var(4, "k", I32)
T = Special("threadIdx.x")
S = Object("s", "s", "shared", F32, 128)
G = Object("p", "p", "global", F32, None, origin="param")
PLACE = Span("a.cu", 10, 12, 2, 1, 2, 3)


def num(value: int, kind: Scalar = I32) -> Const:
    return Const(value, kind)


def kernel(*stmts: Stmt) -> Kernel:
    formals = (Formal("n", "int", 4, 4), Formal("p", "float *", 8, 8))
    params = (Param(N, 0, 0), Param(P, 1, 0, "p"))
    return Kernel("k", "a.cu", formals, params, (S, G), Block(stmts), span=PLACE)


def at(offset: Expr) -> PtrAdd:
    return PtrAdd(Address("s"), Cast(offset, I64))


WELL_FORMED = kernel(
    Load((X,), at(num(4)), F32, "shared", cases=(Case("s", num(4, I64)),)),
    Store(PtrAdd(P, num(8, I64)), (X,), F32, cases=(Case("p", Binary("add", PtrOffset(P), num(8, I64), I64)),)),
    Assign(K, num(0)),
    Loop(
        1,
        Block(),
        Binary("lt", K, N, BOOL),
        Block((If(Binary("eq", K, num(3), BOOL), Block((Continue(1),)), Block((Break(1),))),)),
        Block((Assign(K, Binary("add", K, num(1), I32)),)),
    ),
    Call(2, "f", Block((Loop(3, Block(), N, Block((Return(2),))),))),
    Block((Loop(5, Block(), N, Block((Break(4),))),), label=4),
    Barrier("block", reduce="or", pred=N, var=K),
    Collective((X,), "shfl.down", num(0xFFFFFFFF, U32), (X, num(1, U32))),
    Opaque("inline assembly", frozenset({"memory"})),
)


def test_a_well_formed_kernel_has_no_complaints() -> None:
    assert check(WELL_FORMED, {"a.cu": 100}) == []


ILL_FORMED: list[tuple[Stmt, str]] = [
    (Assign(K, X), "f32 assigned to i32 k#4"),
    (Assign(K, Var(99, "ghost", I32)), "ghost#99 is never assigned"),
    (Assign(Var(1, "n", F32), Const(0.0, F32)), "variable n#1 is i32 and f32"),
    (Assign(K, Binary("add", K, num(1, I64), I32)), "i32 add i64 gives i32"),
    (Assign(K, Binary("lt", K, N, I32)), "i32 lt i32 gives i32"),
    (Assign(X, Binary("shl", X, K, F32)), "f32 shl i32 gives f32"),
    (Assign(X, Unary("not", X, F32)), "bit complement of f32"),
    (Assign(K, Unary("lnot", K, I32)), "lnot of i32 gives i32"),
    (Assign(K, Const(1 << 31, I32)), "2147483648 is no i32"),
    (Assign(X, Cast(P, F32)), "float* to f32"),
    (Assign(K, Select(N, K, X, I32)), "i32 or f32 gives i32"),
    (Assign(K, Cast(Special("threadIdx.w"), I32)), "unknown name threadIdx.w"),
    (Assign(P, Address("nowhere")), "unknown object nowhere"),
    (Assign(P, PtrAdd(P, num(4))), "float* plus i32"),
    (Assign(K, Cast(PtrOffset(P), I32)), "outside a case"),
    (If(P, Block()), "condition has type float*"),
    (Load((X, X), at(N), I32), "element of type i32, value of type f32"),
    (Load((), at(N), F32), "moves 0 elements"),
    (Load((X,), N, F32), "address has type i32"),
    (Load((X,), at(N), F32, cases=(Case("t", num(0, I64)),)), "unknown object t"),
    (Load((X,), at(N), F32, cases=(Case("s", num(0)),)), "case offset has type i32, not i64"),
    (Load((X,), at(N), F32, cases=(Case("s", num(0, I64)),) * 9), "9 cases, at most 8"),
    (Load((X,), at(N), F32, cases=(Case("s", num(0, I64), P),)), "case guard is not scalar"),
    (Atomic(None, "cas", at(N), (K,), I32), "cas takes 2 values, has 1"),
    (Break(1), "Break(1) is not inside a loop or block of that label"),
    (Call(9, "f", Block((Continue(9),))), "Continue(9) is not inside a loop of that label"),
    (Loop(8, Block(), N, Block((Call(9, "f", Block((Break(8),))),))), "Break(8) is not inside a loop or block"),
    (Block((Block((), label=7), Block((), label=7))), "label 7 used twice"),
    (Barrier("block", reduce="and", pred=N), "reduction, predicate and result go together"),
    (Barrier("warp", id=num(1)), "a warp barrier has no id or count"),
    (Barrier("warp", mask=X), "mask has type f32"),
    (Collective((X,), "shfl.idx", None, (X,)), "shfl.idx takes 2 arguments, has 1"),
    (Collective((X,), "shfl.sideways", None, (X,)), "unknown operation shfl.sideways"),
    (Opaque("", frozenset({"value"})), "no reason"),
    (Opaque("asm", frozenset()), "touches []"),
    (Assign(K, N, span=Span("a.cu", 90, 101, 3, 1, 3, 12)), "span ends at 101, after the end of a.cu"),
    (Assign(K, N, span=Span("a.cu", -1, 3, 3, 1, 3, 12)), "span -1..3 of a.cu is not a range"),
    (Assign(K, N, span=replace(PLACE, inlined_at=Span("a.cu", 9, 4, 3, 1, 3, 2))), "span 9..4 of a.cu is not a range"),
]


@pytest.mark.parametrize(("stmt", "complaint"), ILL_FORMED, ids=[text for _, text in ILL_FORMED])
def test_each_broken_rule_is_named(stmt: Stmt, complaint: str) -> None:
    messages = check(kernel(Assign(X, Const(0.0, F32)), Assign(K, num(0)), stmt), {"a.cu": 100})
    assert any(complaint in message for message in messages), messages


DECLARATIONS: list[tuple[Callable[[Kernel], Kernel], str]] = [
    (lambda k: replace(k, objects=(S, S, G)), "object ids are not unique"),
    (lambda k: replace(k, objects=(replace(S, size=-4), G)), "object s: size -4"),
    (lambda k: replace(k, objects=(replace(S, size=2, init=b"abc"), G)), "3 bytes of content for 2"),
    (lambda k: replace(k, params=(Param(N, 5, 0), k.params[1])), "parameter n: no formal 5"),
    (lambda k: replace(k, params=(Param(N, 0, 4), k.params[1])), "leaf at 4 lies outside its formal"),
    (lambda k: replace(k, params=(k.params[0], Param(P, 1, 0, "q"))), "parameter p: unknown object q"),
    (lambda k: replace(k, params=(Param(N, 0, 0, "p"), k.params[1])), "has an object but is no pointer"),
    (lambda k: replace(k, params=(*k.params, k.params[0])), "parameter n: variable bound twice"),
]


@pytest.mark.parametrize(("change", "complaint"), DECLARATIONS, ids=[text for _, text in DECLARATIONS])
def test_declarations_are_checked(change: Callable[[Kernel], Kernel], complaint: str) -> None:
    messages = check(change(WELL_FORMED))
    assert any(complaint in message for message in messages), messages


def test_the_node_budget_is_a_complaint_and_the_list_is_short() -> None:
    big = kernel(*(Assign(K, num(i)) for i in range(NODE_BUDGET + 1)))
    assert check(big) == [f"k: {NODE_BUDGET + 1} statements, the budget is {NODE_BUDGET}"]
    broken = kernel(*(Assign(P, Address("nowhere")) for _ in range(500)))
    messages = check(broken)
    assert len(messages) == 101
    assert messages[-1] == "400 more"


def test_depth_is_no_limit() -> None:
    deep: Stmt = Assign(K, num(0))
    for _ in range(20_000):
        deep = If(N, Block((deep,)))
    sum_: Expr = N
    for _ in range(20_000):
        sum_ = Binary("add", sum_, num(1), I32)
    assert check(kernel(Assign(K, sum_), deep)) == [f"k: 20002 statements, the budget is {NODE_BUDGET}"]
