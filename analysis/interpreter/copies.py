"""Asynchronous copies and matrix fragments.

A copy is recorded when issued. Its bytes move then too, or, under ``Schedule.copies == "wait"``, not before a wait of
the issuing thread that covers it. Fragment arithmetic is not modelled: what a fragment stores is an unknown value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.interpreter import access
from prelaunch.analysis.interpreter.expressions import ExpressionCompiler, as_array
from prelaunch.analysis.interpreter.lanes import Lanes, index, narrow
from prelaunch.analysis.interpreter.record import Site, Stop
from prelaunch.analysis.kernel import U8, Async, Mma

if TYPE_CHECKING:
    from typing import Any

    from prelaunch.analysis.interpreter.machine import Machine

    Array = npt.NDArray[Any]


def compile_async(node: Async, read: Site, write: Site, cx: ExpressionCompiler) -> access.Effect:
    """copy, commit and wait; other operations stop the execution with their name."""
    if node.op == "copy" and node.dst is not None and node.src is not None and node.bytes:
        return _copy(node, read, write, cx)
    if node.op == "commit":
        return lambda m, lanes: m.commit(lanes)
    if node.op == "wait":
        pending = cx.compile(node.pending) if node.pending is not None else None

        def wait(m: Machine, lanes: Lanes) -> None:
            m.wait_copies(lanes, as_array(pending(m, lanes), lanes) if pending is not None else None)

        return wait

    def stop(m: Machine, lanes: Lanes) -> None:
        m.problem("opaque", f"asynchronous operation {node.op} is not modelled", index(lanes), node.span, id(node))
        raise Stop("stopped", f"asynchronous operation {node.op} is not modelled")

    return stop


def _copy(node: Async, read: Site, write: Site, cx: ExpressionCompiler) -> access.Effect:
    assert node.dst is not None
    assert node.src is not None
    assert node.bytes is not None
    size = node.bytes
    dst, src = cx.compile(node.dst), cx.compile(node.src)
    given = cx.compile(node.source_bytes) if node.source_bytes is not None else None

    def issue(m: Machine, lanes: Lanes) -> None:
        target = as_array(dst(m, lanes), lanes)
        source = as_array(src(m, lanes), lanes)
        taken = as_array(given(m, lanes), lanes).astype(np.int64) if given is not None else None
        move = _move_later(read, write, size, target, source, taken)
        if m.late_copies:
            access.announce(m, lanes, source, read, size, taken)
            access.announce(m, lanes, target, write, size, None)
            m.postpone(lanes, move)
        else:
            move(m, lanes, None, True)

    return issue


def _move_later(read: Site, write: Site, size: int, target: Array, source: Array, taken: Array | None) -> access.Move:
    def move(m: Machine, lanes: Lanes, positions: Array | None, recording: bool) -> None:
        """Move the bytes of the lanes at ``positions`` of the issue (None: all)."""
        where = slice(None) if positions is None else positions
        with m.recorded(recording):
            payload = access.read_bytes(m, lanes, source[where], read, size, None if taken is None else taken[where])
            access.write(m, lanes, target[where], write, U8, [payload[:, i] for i in range(size)])

    return move


def compile_mma(node: Mma, site: Site, cx: ExpressionCompiler) -> access.Effect:
    """Lane k of a warp touches elements k, k + 32, ... of the rows x cols matrix at ``address``."""
    if node.op in ("mma", "fill") or node.address is None:
        return lambda m, lanes: None
    address = cx.compile(node.address)
    stride = cx.compile(node.stride) if node.stride is not None else None
    lines, along = (node.rows, node.cols) if node.layout.startswith("row") else (node.cols, node.rows)

    def run(m: Machine, lanes: Lanes) -> None:
        base = as_array(address(m, lanes), lanes)
        step = stride(m, lanes) if stride is not None else np.int64(along)
        slots = index(lanes)
        if node.op == "store":
            m.problem("opaque", "the values of matrix fragments are not modelled", slots[:1], node.span, id(node))
        for first in range(0, lines * along, 32):
            element = first + m.lane[slots]
            inside = element < lines * along
            some = narrow(slots[inside])
            if some is None:
                continue
            spacing = as_array(step, lanes)[inside].astype(np.int64) if np.ndim(step) else np.int64(step)
            offset = (element[inside] // along) * spacing + element[inside] % along
            where = base[inside] + (offset * node.type.size).astype(np.int64).view(np.uint64)
            if node.op == "load":
                access.read(m, some, where, site, node.type, 1)
            else:
                access.write(m, some, where, site, node.type, [m.unknown(some, node.type, node.span, first)])

    return run
