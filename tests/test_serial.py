"""Canonical JSON: what goes in comes out, at any depth, and equal things give equal text."""

from __future__ import annotations

import json
import math

import pytest

from prelaunch.analysis import serial
from prelaunch.analysis.finding import Assumption, Finding, Judgement, Proved, Refuted, Unknown, Witness
from prelaunch.analysis.kernel import (
    F32,
    I32,
    Assign,
    Binary,
    Block,
    Case,
    Const,
    Expr,
    If,
    Kernel,
    Object,
    Opaque,
    PtrAdd,
    Special,
    Store,
    Unary,
    Var,
)
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import LaunchConfig

SPAN = Span("a.cu", 3, 9, 1, 4, 1, 10, inlined_at=Span("b.cu", 1, 2, 1, 2, 1, 3))


def kernel(body: Block) -> Kernel:
    data = Object("s", "s", "shared", F32, 256, init=b"\x00\xff", span=SPAN)
    return Kernel("ns::k", "a.cu", (), (), (data,), body, ("float", "4"), span=SPAN)


def test_kernel_round_trip() -> None:
    x = Var(1, "x", I32, span=SPAN)
    store = Store(PtrAdd(x, Const(4, I32)), (Const(math.inf, F32),), F32, cases=(Case("s", Const(4, I32)),), span=SPAN)
    opaque = Opaque("asm", frozenset({"memory", "control"}), (x,), span=SPAN)
    whole = kernel(Block((Assign(x, Special("threadIdx.x")), If(x, Block((store,)), Block((opaque,)))), 7))
    text = serial.canonical(serial.dump(whole))
    back = serial.load(json.loads(text))
    assert back == whole
    assert serial.canonical(serial.dump(back)) == text, "spans and names, which equality ignores, must survive as well"
    assert back.body.stmts[0].var.span.inlined_at == SPAN.inlined_at


def test_depth_is_no_limit() -> None:
    expr: Expr = Const(1, I32)
    for _ in range(50_000):
        expr = Unary("neg", expr, I32)
    data = serial.dump((expr,))
    assert len(data["nodes"]) == 50_003, "the chain, its constant, their type and span"
    (back,) = serial.load(json.loads(serial.canonical(data)))
    for _ in range(50_000):
        back = back.operand
    assert back == Const(1, I32)


def test_shared_nodes_are_stored_once() -> None:
    expr: Expr = Special("threadIdx.x")
    for _ in range(60):
        expr = Binary("add", expr, expr, I32)
    assert len(serial.dump((expr,))["nodes"]) < 70


def test_judgements_round_trip() -> None:
    witness = Witness(LaunchConfig((2, 1, 1), (64, 1, 1)), (("n", 5), ("f", 0.5)), (((0, 0, 0), (1, 2, 3)),), "d")
    finding = Finding(
        "sync.x", "error", "confirmed", "m", SPAN, assumptions=(Assumption("n > 0", "assert"),), witness=witness
    )
    for verdict in (Proved(), Refuted(finding), Unknown("why")):
        judgement = Judgement("sync.x", "k", "l", verdict)
        assert serial.load(json.loads(serial.canonical(serial.dump((judgement,))))) == (judgement,)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"nodes": [["Nothing"]], "root": {"#": 0}},
        {"nodes": [["Const", 1]], "root": {"#": 0}},
        {"nodes": [], "root": {"#": 0}},
        {"nodes": [["Unknown", "why"]], "root": {"#": -1}},
        {"nodes": [["Unknown", "why"]], "root": {"@": 0}},
        {"nodes": 5, "root": 1},
    ],
)
def test_other_data_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        serial.load(data)


def test_foreign_dataclasses_are_refused() -> None:
    from prelaunch.analysis.facts import RepositoryFacts

    with pytest.raises(TypeError, match="RepositoryFacts"):
        serial.dump(RepositoryFacts((), (), {}))
