"""What is said when barriers release in a way they should not, or nobody can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prelaunch.analysis.interpreter.lanes import index
from prelaunch.analysis.interpreter.record import Stop
from prelaunch.analysis.interpreter.warps import Arrival, ranges
from prelaunch.analysis.source import NOWHERE, Span

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.groups import Group
    from prelaunch.analysis.interpreter.machine import Machine
    from prelaunch.analysis.interpreter.synchronise import BarrierState, Synchroniser, Waiting


def identity(waiting: Waiting) -> Span | int:
    """Which barrier of the program this is: its place, call path included; the node where there is no text."""
    return waiting.span if waiting.span != NOWHERE else id(waiting.code.node)


def report_release(m: Machine, sync: Synchroniser, state: BarrierState) -> None:
    """Problems of a barrier that is being released: different statements met, or exited threads were not waited for."""
    plain = state.waits if state.id == 0 and state.count is None else []
    places: dict[Span | int, Waiting] = {}
    for waiting in plain:
        places.setdefault(identity(waiting), waiting)
    if len(places) > 1:
        met = list(places.values())
        spans = tuple(w.span for w in met)
        said = [f"thread {_first(m, w)} is at line {w.span.line}" for w in met[:4]]
        threads = np.array([_first(m, w) for w in met], np.intp)
        message = "different barriers meet: " + ", ".join(said)
        m.recorder.problem("divergent-barrier", message, m.block, threads, spans, 0)
    if plain and state.count is None and sync.live < m.size:
        split = sync.splits_warp()
        if sync.noted.get((id(plain[0].code.node), split)) == sync.live:
            return
        sync.noted[id(plain[0].code.node), split] = sync.live
        gone = np.sort(m.thread[m.exited])
        message = f"released although threads {ranges(gone.tolist())} had exited before reaching it"
        span = plain[0].span
        # Exited threads become only more: each of the two kinds ends up with all that were gone at its last release.
        key = split if span.file else 2 * id(plain[0].code.node) + split
        m.recorder.problem("exited-barrier", message, m.block, gone, (span,), key, named=m.size)


def report_stuck_warp(m: Machine, sync: Synchroniser, arrivals: list[Arrival]) -> None:
    """Lanes wait in vain at a warp-wide statement."""
    first = arrivals[0]
    slots = np.concatenate([index(a.lanes) for a in arrivals])
    warp = int(m.warp[slots[0]])
    masks = {int(mask) for a in arrivals for mask in a.mask}
    if len({a.operation for a in arrivals}) == 1 and len(masks) > 1:
        shown = ", ".join(f"{mask:#010x}" for mask in sorted(masks))
        message = f"lanes of warp {warp} wait for each other with different masks: {shown}"
    else:
        like = [a for a in arrivals if a.operation == first.operation and int(a.mask[0]) == int(first.mask[0])]
        arrived = int(np.bitwise_or.reduce(np.concatenate([m.bit[index(a.lanes)] for a in like])))
        wanted = int(first.mask[0]) & int(sync.live_bits[warp]) & ~arrived
        lanes = [i for i in range(32) if wanted >> i & 1]
        message = f"the mask {int(first.mask[0]):#010x} names lanes {ranges(lanes)} of warp {warp}, which never arrive"
        message += _elsewhere(m, sync, warp, wanted)
    spans = tuple(dict.fromkeys(a.span for a in arrivals))
    key = 0 if first.span.file else id(first.code.node)
    m.recorder.problem("bad-mask", message, m.block, m.thread[slots], spans, key)


def _elsewhere(m: Machine, sync: Synchroniser, warp: int, wanted: int) -> str:
    for waiting in sync.all_waits():
        slots = index(waiting.lanes)
        there = slots[(m.warp[slots] == warp) & ((m.bit[slots] & np.uint32(wanted)) != 0)]
        if len(there):
            return f" (they wait at line {waiting.span.line})"
    return ""


def report_deadlock(m: Machine, sync: Synchroniser) -> None:
    """Raises Stop: every live thread waits, none can be released."""
    waits = sync.all_waits()
    said, threads = [], []
    for waiting in waits[:6]:
        numbers = np.sort(m.thread[index(waiting.lanes)])
        threads.append(int(numbers[0]))
        said.append(f"threads {ranges(numbers.tolist())} wait at line {waiting.span.line}")
    spans = tuple(dict.fromkeys(w.span for w in waits))
    message = "deadlock: " + "; ".join(said)
    m.recorder.problem("deadlock", message, m.block, np.array(threads, np.intp), spans, 0)
    raise Stop("stopped", message)


def report_livelock(m: Machine, group: Group) -> None:
    """Raises Stop: every thread that could run spins, and nothing in memory changes any more."""
    span = group.spins_at
    numbers = np.sort(m.thread[index(group.lanes)])
    message = f"threads {ranges(numbers.tolist())} spin at line {span.line} for a change that no thread will make"
    m.recorder.problem("deadlock", message, m.block, numbers, (span,), 0)
    raise Stop("stopped", message)


def _first(m: Machine, waiting: Waiting) -> int:
    return int(m.thread[index(waiting.lanes)].min())
