"""Where lanes of one block wait for each other, and how they are let go.

Block barriers (CUDA C++ Programming Guide, Synchronization Functions; PTX ISA, barrier): released when every thread of
the block that has not exited is there, or, for a named barrier with a count, when warps with that many threads are; a
warp counts as arrived when all its live lanes are. Hardware lets threads at different ``__syncthreads()`` meet, so they
go on here too, and the meeting is a problem.

Warp barriers and exchanges: released when every live lane named in the mask has arrived with the same operation and
mask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from prelaunch.analysis.interpreter.expressions import as_array
from prelaunch.analysis.interpreter.lanes import Index, Lanes, count, index, narrow
from prelaunch.analysis.interpreter.record import Row
from prelaunch.analysis.interpreter.stalemate import report_deadlock, report_release, report_stuck_warp
from prelaunch.analysis.interpreter.warps import WarpPool
from prelaunch.analysis.kernel import Barrier
from prelaunch.analysis.source import Span

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.groups import Group
    from prelaunch.analysis.interpreter.machine import Machine
    from prelaunch.analysis.interpreter.program import Code

NAMED_BARRIERS = 16


@dataclass(slots=True, eq=False)
class Waiting:
    """A suspended group: the statement it waits at and what it brought."""

    group: Group
    code: Code
    predicate: Any = None  # per lane, for a barrier that reduces

    @property
    def lanes(self) -> Lanes:
        return self.group.lanes

    @property
    def span(self) -> Span:
        return self.code.node.span


@dataclass(slots=True)
class BarrierState:
    """One use of barrier ``id``, from the first arrival to the release. ``bits``: lanes arrived, per warp."""

    id: int
    instance: int
    bits: Any
    count: int | None
    waits: list[Waiting] = field(default_factory=list)
    arrivals: list[tuple[Code, Index]] = field(default_factory=list)


class Synchroniser:
    """All waiting lanes of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.m = machine
        self.live = machine.size
        self.live_bits = np.zeros((machine.size + 31) // 32, np.uint32)
        np.bitwise_or.at(self.live_bits, machine.warp, machine.bit)
        self.all_bits = self.live_bits.copy()
        self.noted: dict[tuple[int, bool], int] = {}  # threads still there when exited ones were last reported
        self.barriers: dict[int, BarrierState] = {}
        self.late: list[Waiting] = []  # waits of split barriers whose arrival has not completed
        self.tokens: dict[int, Any] = {}  # barrier id -> instance each slot arrived at
        self.released: set[int] = set()  # instances of split barriers that completed
        self.warps = WarpPool(machine, self)
        self.wide: list[Waiting] = []
        self.wide_arrivals = np.zeros(machine.size, np.int64)

    # --- the machine's side --------------------------------------------------------------------------------------

    def arrive(self, group: Group, code: Code) -> bool:
        """The group executes a synchronising statement; True when it may go on at once."""
        node = code.node
        if not isinstance(node, Barrier) or node.scope == "warp":
            return self.warps.arrive(group, code)
        if node.scope in ("cluster", "grid"):
            return self._arrive_wide(group, code, node)
        return self._arrive_block(group, code, node)

    def exited(self, lanes: Lanes) -> None:
        self.live -= count(lanes)
        gone = np.zeros_like(self.live_bits)
        np.bitwise_or.at(gone, self.m.warp[lanes], self.m.bit[lanes])
        self.live_bits &= ~gone

    def splits_warp(self) -> bool:
        """Have some lanes of a warp exited and others not?"""
        return bool(((self.live_bits != 0) & (self.live_bits != self.all_bits)).any())

    def waiting(self) -> bool:
        return bool(self.wide or self.late or self.warps.waits or any(s.waits for s in self.barriers.values()))

    def wide_waiting(self) -> bool:
        """Every live thread is at a grid barrier, or every one at a cluster barrier."""
        scopes = {getattr(w.code.node, "scope", "") for w in self.wide}
        return len(scopes) == 1 and sum(count(w.lanes) for w in self.wide) == self.live

    def resolve(self) -> bool:
        """Release what exits have completed; whether anything was."""
        done = [state for state in self.barriers.values() if self._complete(state)]
        for state in done:
            self._release(state)
        return self.warps.resolve() or bool(done)

    def break_stalemate(self) -> None:
        """Nobody can run. Warp exchanges go on without the missing lanes, as a problem; else it is a deadlock."""
        if self.warps.waits:
            for _warp, waits in sorted(self.warps.by_warp().items()):
                report_stuck_warp(self.m, self, waits)
            self.warps.force()
            return
        report_deadlock(self.m, self)

    def all_waits(self) -> list[Waiting]:
        """Everything suspended here, in a fixed order."""
        barriers = [w for state in self.barriers.values() for w in state.waits]
        return [*barriers, *self.late, *self.warps.all_waits(), *self.wide]

    # --- block barriers ------------------------------------------------------------------------------------------

    def _arrive_block(self, group: Group, code: Code, node: Barrier) -> bool:
        lanes = group.lanes
        ids = as_array(code.values[1](self.m, lanes), lanes) if node.id is not None else np.zeros(1, np.int64)
        if bool((ids == ids[0]).all()):
            return self._arrive_at(group, code, node, int(ids[0]))
        slots = index(lanes)
        for id in np.unique(ids):
            part = narrow(slots[ids == id])
            assert part is not None
            other = self.m.branch_off(group, part)
            if self._arrive_at(other, code, node, int(id)):
                self.m.resume(other)
        self.m.remove(group)
        return False

    def _arrive_at(self, group: Group, code: Code, node: Barrier, id: int) -> bool:
        m, lanes = self.m, group.lanes
        if not 0 <= id < NAMED_BARRIERS:
            m.problem("named-barrier-id", f"barrier {id}: ids go from 0 to 15", index(lanes), node.span, id_of(code))
        if node.action == "wait":
            return self._await(group, code, id)
        state = self.barriers.get(id)
        if state is None:
            expected = code.values[2](m, lanes) if node.count is not None else None
            wanted = int(np.max(expected)) if expected is not None else None
            if wanted is not None and (wanted <= 0 or wanted % 32):
                text = f"barrier {id} for {wanted} threads: it counts whole warps"
                m.problem("named-barrier-id", text, index(lanes), node.span, id_of(code))
            state = BarrierState(id, m.recorder.instances, np.zeros_like(self.live_bits), wanted)
            m.recorder.instances += 1
            self.barriers[id] = state
        np.bitwise_or.at(state.bits, m.warp[lanes], m.bit[lanes])
        if node.action == "arrive":
            self.tokens.setdefault(id, np.full(m.size, -1, np.int64))[lanes] = state.instance
            state.arrivals.append((code, index(lanes).copy()))
            self.log(code, lanes, id, state.instance)
            if self._complete(state):
                self._release(state)
            return True
        predicate = np.broadcast_to(code.values[3](m, lanes) != 0, (count(lanes),)) if node.pred is not None else None
        state.waits.append(Waiting(group, code, predicate))
        m.remove(group)
        if self._complete(state):
            self._release(state)
        return False

    def _await(self, group: Group, code: Code, id: int) -> bool:
        """The second half of a split barrier."""
        tokens = self.tokens.get(id)
        if tokens is None or all(int(t) in self.released for t in np.unique(tokens[group.lanes])):
            for token in np.unique(tokens[group.lanes]) if tokens is not None else ():
                self.log(code, group.lanes, id, int(token))
            self.m.pass_phase(group.lanes)
            return True
        self.late.append(Waiting(group, code))
        self.m.remove(group)
        return False

    def _complete(self, state: BarrierState) -> bool:
        """A warp is there when some of its lanes have arrived (they may have exited since) and no live one has not."""
        missing = self.live_bits & ~state.bits
        if state.count is None:
            return not missing.any()
        return int(((missing == 0) & (state.bits != 0)).sum()) * 32 >= state.count

    def _release(self, state: BarrierState) -> None:
        m = self.m
        del self.barriers[state.id]
        report_release(m, self, state)
        for waiting in state.waits:
            self.log(waiting.code, waiting.lanes, state.id, state.instance)
            m.pass_phase(waiting.lanes)
        _reduce(m, state.waits)
        ready = [w.group for w in state.waits]
        if state.arrivals:
            self.released.add(state.instance)
            tokens = self.tokens[state.id]
            for waiting in [w for w in self.late if (tokens[w.lanes] == state.instance).all()]:
                self.late.remove(waiting)
                self.log(waiting.code, waiting.lanes, state.id, state.instance)
                m.pass_phase(waiting.lanes)
                ready.append(waiting.group)
        m.release(ready)

    def log(self, code: Code, lanes: Lanes, id: int, instance: int) -> None:
        m = self.m
        if m.recorder.recording and code.site is not None:
            threads = m.thread[lanes].copy()
            offsets = np.full(len(threads), id, np.int64)
            m.recorder.log(Row(code.site, m.block, threads, -1, offsets, m.phase[lanes].copy(), 0, instance))

    # --- grid and cluster barriers -------------------------------------------------------------------------------

    def _arrive_wide(self, group: Group, code: Code, node: Barrier) -> bool:
        if node.action != "wait":
            self.wide_arrivals[group.lanes] += 1
        if node.action == "arrive":
            return True
        self.wide.append(Waiting(group, code))
        self.m.remove(group)
        return False

    def release_wide(self, instance: int) -> None:
        """Every block of the grid or cluster is there."""
        waits, self.wide = self.wide, []
        for waiting in waits:
            self.log(waiting.code, waiting.lanes, 0, instance)
            self.m.pass_phase(waiting.lanes)
        self.m.release([w.group for w in waits])


def id_of(code: Code) -> int:
    return id(code.node)


def _reduce(m: Machine, waits: list[Waiting]) -> None:
    """``__syncthreads_count/and/or`` over all threads at the barrier."""
    some = [w for w in waits if w.predicate is not None]
    if not some:
        return
    yes = sum(int(np.count_nonzero(w.predicate)) for w in some)
    total = sum(len(w.predicate) for w in some)
    for w in some:
        node = w.code.node
        assert isinstance(node, Barrier)
        value = {"count": yes, "and": int(yes == total), "or": int(yes > 0)}[node.reduce or "count"]
        for register in w.code.registers:
            m.registers[register][w.lanes] = value
