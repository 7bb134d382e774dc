"""The text form of a kernel: one line per statement, in full."""

from __future__ import annotations

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
    Exit,
    Expr,
    Formal,
    If,
    Kernel,
    Load,
    Loop,
    LoopInfo,
    Object,
    Opaque,
    Param,
    Pointer,
    PtrAdd,
    Return,
    Special,
    Stmt,
    Store,
    Var,
)
from prelaunch.analysis.show import MAX_INDENT, show, show_expr
from prelaunch.analysis.source import Span


def line(number: int, inlined_at: Span | None = None) -> Span:
    return Span("a.cu", 0, 1, number, 1, number, 2, None, inlined_at)


N, K, T = Var(1, "n", I32), Var(2, "k", I32), Var(3, "", I32)
P, X = Var(4, "p", Pointer(4, "float")), Var(5, "x", F32)


def sample() -> Kernel:
    bytes_ = Binary("mul", Cast(K, I64), Const(4, I64), I64)
    step = Binary("add", K, Const(1, I32), I32)
    body: tuple[Stmt, ...] = (
        Assign(K, Const(0, I32), span=line(3)),
        Loop(
            1,
            Block(),
            Binary("lt", K, N, BOOL),
            Block(
                (
                    Load((X,), PtrAdd(P, bytes_), F32, "global", cases=(Case("p", bytes_),), span=line(4)),
                    If(
                        Binary("eq", K, Const(3, I32), BOOL),
                        Block((Break(1, span=line(5)),)),
                        Block((Barrier("block", span=line(6)),)),
                        span=line(5),
                    ),
                )
            ),
            Block((Assign(K, step, span=line(3)),)),
            info=LoopInfo(K, Const(0, I32), N, "lt", Const(1, I32)),
            span=line(3),
        ),
        Call(2, "f", Block((Return(2, span=line(1, line(8))),)), span=line(8)),
        Collective((X,), "shfl.down", Const(0xFFFFFFFF, U32), (X, Const(1, U32)), span=line(9)),
        Store(Address("s"), (X, X), F32, "shared", cases=(Case("s", Const(0, I64), BoolVar),), span=line(10)),
        Atomic(T, "add", P, (K,), I32, span=line(11)),
        Opaque("goto", frozenset({"control", "value"}), (T,), span=line(12)),
        Exit(span=line(13)),
    )
    formals = (Formal("n", "int", 4, 4), Formal("p", "float *", 8, 8))
    shared = Object("s", "s", "shared", F32, 64, 8, shape=(16,))
    target = Object("p", "p", "global", F32, None, origin="param")
    return Kernel(
        "k", "a.cu", formals, (Param(N, 0, 0), Param(P, 1, 0, "p")), (shared, target), Block(body), ("256",),
        (128, None, None), span=line(2),
    )  # fmt: skip


BoolVar = Var(9, "g", BOOL)

EXPECTED = """\
kernel k<256>  a.cu:2  clean
  launch bounds 128, -, -
  param n#1: i32 (int)
  param p#4: float* (float *) -> p
  object s: shared f32[16], 64 bytes, align 8
  object p: global f32, size unknown, align 1, param
        3  k#2: i32 = 0
        3  loop 1 while k#2 < n#1  (k#2 from 0 while < n#1 += 1)
           body
        4    x#5 = load f32 global p#4[+(i64(k#2) * 4)]  to p[i64(k#2) * 4]
        5    if k#2 == 3
        5      break 1
             else
        6      barrier block
           step
        3    k#2: i32 = k#2 + 1
        8  call 2 f
      1<8    return 2
        9  x#5 = shfl.down mask 0xffffffff (x#5, 1)
       10  store f32x2 shared &s  to s[0] if g#9 := x#5, x#5
       11  %3 = atomic add i32 generic relaxed.device p#4  to ?, k#2
       12  %3 = opaque control+value: goto
       13  exit
"""


def test_every_statement_is_one_line_with_its_source_line() -> None:
    text = show(sample())
    assert text == EXPECTED


def test_parentheses_follow_the_tree() -> None:
    inner = Binary("sub", K, Binary("sub", N, Const(1, I32), I32), I32)
    assert show_expr(inner) == "k#2 - (n#1 - 1)"
    assert show_expr(Binary("mul", inner, Special("blockDim.x"), U32)) == "(k#2 - (n#1 - 1)) * blockDim.x"


def test_depth_and_size_are_no_limit() -> None:
    deep: Stmt = Exit()
    for _ in range(5_000):
        deep = If(N, Block((deep,)))
    wide: Expr = N
    for _ in range(5_000):
        wide = Binary("add", wide, wide, I32)
    lines = show(Kernel("k", "a.cu", (), (), (), Block((Assign(K, wide), deep)))).splitlines()
    assert len(lines) == 5_003
    assert lines[-1].strip().endswith("(5000) exit")
    assert max(len(line) for line in lines) < 5_000 + 2 * MAX_INDENT
