"""Statements without access or synchronisation: assumptions, effects, and what was not modelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.interpreter.access import Effect
from prelaunch.analysis.interpreter.expressions import ExpressionCompiler
from prelaunch.analysis.interpreter.lanes import Lanes, index, split
from prelaunch.analysis.interpreter.record import Stop
from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import Assume, Intrinsic, Opaque, Pointer, Stmt, Type, Var
from prelaunch.analysis.source import Span

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.machine import Machine


def compile_effect(stmt: Stmt, cx: ExpressionCompiler) -> Effect:
    match stmt:
        case Assume():
            return _assume(stmt, cx)
        case Opaque():
            return _opaque(stmt, [(cx.register(v), v) for v in stmt.defines])
        case Intrinsic(vars=targets):
            return _zero([(cx.register(v), dtype(v.type).type(0)) for v in targets])
    return lambda m, lanes: None


def _zero(registers: list[tuple[int, Any]]) -> Effect:
    """Results of effects (how many characters printf wrote) are 0."""

    def run(m: Machine, lanes: Lanes) -> None:
        for register, zero in registers:
            m.registers[register][lanes] = zero

    return run


def _assume(node: Assume, cx: ExpressionCompiler) -> Effect:
    """A failed ``assert`` ends the execution, as on a device; a false assumption is only reported."""
    cond = cx.compile(node.cond)

    def run(m: Machine, lanes: Lanes) -> None:
        _, failing = split(lanes, cond(m, lanes) != 0)
        if failing is None:
            return
        message = "assertion failed" if node.origin == "assert" else f"false assumption ({node.origin})"
        m.problem("assertion", message, index(failing), node.span, id(node))
        if node.origin == "assert":
            raise Stop("stopped", f"assertion failed at {node.span}")

    return run


def _opaque(node: Opaque, registers: list[tuple[int, Var]]) -> Effect:
    """Unknown values where only values are concerned; anything more ends the execution with the reason."""

    def run(m: Machine, lanes: Lanes) -> None:
        m.problem("opaque", f"not modelled: {node.reason}", index(lanes), node.span, id(node))
        if node.touches - {"value"}:
            raise Stop("stopped", f"not modelled: {node.reason} at {node.span}")
        for salt, (register, var) in enumerate(registers):
            m.registers[register][lanes] = m.unknown(lanes, var.type, node.span, salt)

    return run


def unknown_values(seed: int, threads: npt.NDArray[np.int64], type: Type, span: Span, salt: int) -> Any:
    """Arbitrary values, one per global thread number, the same in every run (SplitMix64 of seed, place and thread).

    Integers are small and non-negative, floats lie in [0, 1), pointers are null.
    """
    if isinstance(type, Pointer):
        return np.zeros(len(threads), np.uint64)
    x = threads.astype(np.uint64) + np.uint64((seed * 1_000_003 + span.start * 8191 + span.line * 131 + salt) % 2**63)
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    kind = dtype(type)
    if kind.kind == "f":
        coarse = (x >> np.uint64(57)).astype(np.float64) / 128  # exact in every float type
        return coarse.astype(kind)
    if kind.kind == "b":
        return (x >> np.uint64(63)) != 0
    return (x >> np.uint64(60)).astype(kind)
