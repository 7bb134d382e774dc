"""Runs one block of threads at a time: scheduling, barriers, calls.

Lanes at the same place run together, whatever their warp; a group runs until its next branch, then the group deepest
in calls and lowest in the text runs, so that lanes meet again behind a branch. Nothing relies on lock-step: a group
that has waited long runs first, so a lane that spins for another does not starve it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prelaunch.analysis.ptx import module
from prelaunch.analysis.ptx.memory import CODE_BASE, LOCAL_BASE, LOCAL_GAP, MAX_LOCAL, UNSIGNED, Memory, Region
from prelaunch.analysis.ptx.record import Recorder
from prelaunch.analysis.ptx.special import special_register
from prelaunch.analysis.ptx.values import Array, Lanes, Unsupported, register_dtype
from prelaunch.analysis.trace import Dim3, LaunchConfig

ALL = slice(None)
MAX_DEPTH = 64
FAIRNESS, SPIN_FAIRNESS = 4096, 16
"""A group waits at most this many turns of others; few when those others touch what threads synchronise through."""


class Stop(Exception):
    """The execution ends here; ``status`` as in ``Trace``."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(slots=True)
class Code:
    """A function ready to run: basic blocks by the number of their first instruction."""

    function: module.Function
    blocks: dict[int, BasicBlock] = field(default_factory=dict)


@dataclass(slots=True)
class BasicBlock:
    """``steps`` run in order, then ``end`` says where the lanes go (it calls ``Machine.push`` or parks them)."""

    start: int
    steps: list[Callable[[Machine, Frame, Lanes], None]]
    end: Callable[[Machine, Frame, Lanes], None]
    cost: int


class Frame:
    """One function reached through one path of call sites: registers of all lanes, offsets of its local variables.

    ``site`` is the place of the nearest enclosing text that belongs to the repository.
    """

    __slots__ = ("bases", "children", "code", "depth", "parent", "regs", "return_pc", "serial", "site", "top")

    def __init__(
        self, code: Code, parent: Frame | None, return_pc: int, lanes: int, serial: int, site: tuple[int, int]
    ) -> None:
        self.code = code
        self.parent = parent
        self.return_pc = return_pc
        self.serial = serial
        self.site = site
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.regs = [np.zeros(lanes, register_dtype(kind)) for kind in code.function.registers]
        self.bases: dict[str, int] = {}
        self.top: int = 0 if parent is None else parent.top
        self.children: dict[int, Frame] = {}

    def reserve(self, variable: module.Variable) -> None:
        align = min(max(variable.align, 1), 256)
        start = -(-self.top // align) * align
        self.bases[variable.name] = start
        self.top = start + variable.size
        if self.top > LOCAL_GAP // 2:
            raise Stop("stopped", "local memory larger than what is modelled")


@dataclass(slots=True)
class Group:
    frame: Frame
    pc: int
    lanes: Lanes
    since: int


class Machine:
    """The state of one launch; ``run_block`` runs one block after another on it."""

    def __init__(
        self,
        codes: Callable[[str], Code | None],
        memory: Memory,
        symbols: dict[str, Region],
        config: LaunchConfig,
        recorder: Recorder,
        max_steps: int,
    ) -> None:
        self.codes = codes
        self.memory = memory
        self.symbols = symbols
        self.config = config
        self.record = recorder
        self.steps_left = max_steps
        self.n = config.threads
        self.lane_ids = np.arange(self.n)
        self.warps = -(-self.n // 32)
        self.block_index = 0
        self.block: Dim3 = (0, 0, 0)
        self.function_names: list[str] = []
        self.local_size = 1024
        self.local_views: dict[int, Array] = {}
        self._specials: dict[str, Any] = {}
        self._grow_local(self.local_size)

    # --- blocks ---

    def run_block(self, entry: Code, index: int, params: list[tuple[module.Variable, bytes]]) -> None:
        """Runs block number ``index``. Raises ``Stop`` when it cannot go on."""
        gx, gy, _ = self.config.grid
        self.block_index = index
        self.block = (index % gx, index // gx % gy, index // (gx * gy))
        self._specials = {}
        self.memory.clear_shared()
        self.record.start_block(index)
        self.phase = np.zeros(self.n, np.int32)
        self.alive = np.ones(self.n, np.bool_)
        self.carry = np.zeros(self.n, np.bool_)
        self.ready: dict[tuple[int, int], Group] = {}
        self.parked: dict[tuple[int, int], Parked] = {}
        self.barriers: dict[int, list[Arrival]] = {}
        self.frames = 0
        self.turn = 0
        self.spin_turn = -SPIN_FAIRNESS  # the last turn with an access that a thread may spin on
        frame = self._frame(entry, None, -1, (0, 0))
        for variable, data in params:
            frame.reserve(variable)
            self.ensure_local(frame.top)
            offset = frame.bases[variable.name]
            self.local2d(1)[:, offset : offset + len(data)] = np.frombuffer(data, np.uint8)
        self._place_variables(frame)
        self.push(frame, 0, ALL)
        self._schedule()

    def _schedule(self) -> None:
        while True:
            while self.ready:
                group = self._pick()
                block = group.frame.code.blocks[group.pc]
                self.turn += 1
                self.steps_left -= block.cost
                if self.steps_left < 0:
                    raise Stop("steps", "the step budget ran out")
                frame, lanes = group.frame, group.lanes
                for step in block.steps:
                    step(self, frame, lanes)
                block.end(self, frame, lanes)
            if not self._wake():
                return

    def _pick(self) -> Group:
        ready = self.ready
        if len(ready) == 1:
            return ready.popitem()[1]
        best, oldest = None, None
        for group in ready.values():
            key = (-group.frame.depth, group.pc, group.frame.serial)
            if best is None or key < best[0]:
                best = (key, group)
            if oldest is None or group.since < oldest.since:
                oldest = group
        assert best is not None
        assert oldest is not None
        patience = SPIN_FAIRNESS if self.turn - self.spin_turn < SPIN_FAIRNESS else FAIRNESS
        chosen = oldest if self.turn - oldest.since > patience else best[1]
        del ready[(chosen.frame.serial, chosen.pc)]
        return chosen

    def push(self, frame: Frame, pc: int, lanes: Lanes) -> None:
        """Makes ``lanes`` ready at ``pc``, together with those already there."""
        key = (frame.serial, pc)
        there = self.ready.get(key)
        if there is None:
            self.ready[key] = Group(frame, pc, lanes, self.turn)
        else:
            there.lanes = self.union(there.lanes, lanes)

    def union(self, left: Lanes, right: Lanes) -> Lanes:
        both = np.sort(np.concatenate([self.lane_ids[left], self.lane_ids[right]]))
        return ALL if len(both) == self.n else both

    def count(self, lanes: Lanes) -> int:
        return self.n if isinstance(lanes, slice) else len(lanes)

    def subset(self, lanes: Lanes, where: Array) -> Lanes | None:
        """The lanes of ``lanes`` where the mask holds; None when there are none."""
        count = int(np.count_nonzero(where))
        if count == 0:
            return None
        if count == len(where):
            return lanes
        picked: Array = self.lane_ids[lanes][where]
        return picked

    # --- ends of threads ---

    def retire(self, lanes: Lanes) -> None:
        self.alive[lanes] = False

    def trap(self, lanes: Lanes, place: tuple[int, int], kind: str, message: str) -> None:
        """Records the problem; a trap ends the whole launch."""
        self.record.problem(kind, message, self.lane_ids[lanes], place)
        raise Stop("stopped", message)

    def _wake(self) -> bool:
        """Nothing is ready: releases what waits only for threads that have exited. Raises ``Stop`` on deadlock."""
        for key in sorted(self.parked):
            if key in self.parked and self.parked[key].retry():
                return True
        if any(self.barriers.values()):
            if self._release_barriers():
                return True
            waiting = np.concatenate([a.lanes for arrivals in self.barriers.values() for a in arrivals])
            place = next(a.place for arrivals in self.barriers.values() for a in arrivals)
            self.record.problem("deadlock", "threads wait at a barrier that others never reach", waiting, place)
            raise Stop("stopped", "deadlock at a block barrier")
        if self.parked:
            first = self.parked[min(self.parked)]
            message = "lanes wait for lanes of their mask that never arrive"
            self.record.problem("deadlock", message, self.lane_ids[first.lanes], first.place)
            raise Stop("stopped", "deadlock at a warp operation")
        return False

    def park(self, frame: Frame, pc: int, lanes: Lanes, place: tuple[int, int], run: ParkedRun) -> None:
        """Lanes wait at a warp operation until ``run`` takes them."""
        self.parked[(frame.serial, pc)] = Parked(self, frame, pc, lanes, place, run)

    def unpark(self, frame: Frame, pc: int, lanes: Lanes) -> Lanes:
        """``lanes`` together with those that waited at the same operation."""
        waiting = self.parked.pop((frame.serial, pc), None)
        return lanes if waiting is None else self.union(waiting.lanes, lanes)

    # --- block barriers ---

    def arrive(self, arrival: Arrival) -> None:
        self.barriers.setdefault(arrival.id, []).append(arrival)
        self._release_barriers()

    def _release_barriers(self) -> bool:
        """Releases barriers whose expected threads are all there; exited threads count as arrived."""
        released = False
        for number in sorted(self.barriers):
            arrivals = self.barriers[number]
            if not arrivals:
                continue
            count = sum(len(a.lanes) for a in arrivals)
            expected = arrivals[0].expected
            gone = self.n - int(np.count_nonzero(self.alive))
            if count >= expected or (count + gone >= expected and expected == self.n):
                self.barriers[number] = []
                self._release(arrivals, gone if count < expected else 0)
                released = True
        return released

    def _release(self, arrivals: list[Arrival], missing: int) -> None:
        lanes = np.sort(np.concatenate([a.lanes for a in arrivals]))
        places = {a.place for a in arrivals}
        if len({a.site for a in arrivals}) > 1:
            text = "threads meet different barriers: lines " + ", ".join(str(line) for _, line in sorted(places))
            self.record.problem("divergent-barrier", text, lanes, arrivals[0].place)
        if missing:
            text = f"{missing} threads have exited before this barrier"
            self.record.problem("exited-barrier", text, lanes, arrivals[0].place)
        self.phase[lanes] += 1
        values = np.concatenate([a.predicate for a in arrivals if a.predicate is not None] or [np.zeros(0, np.bool_)])
        for arrival in arrivals:
            if arrival.resume is not None:
                arrival.resume(values)

    # --- calls ---

    def _frame(self, code: Code, parent: Frame | None, return_pc: int, site: tuple[int, int]) -> Frame:
        self.frames += 1
        frame = Frame(code, parent, return_pc, self.n, self.frames, site)
        if frame.depth > MAX_DEPTH:
            raise Stop("stopped", f"calls nested deeper than {MAX_DEPTH}")
        return frame

    def _place_variables(self, frame: Frame) -> None:
        for variable in frame.code.function.variables.values():
            if variable.space in ("local", "param") and variable.name not in frame.bases:
                frame.reserve(variable)
        self.ensure_local(frame.top)

    def enter(
        self, frame: Frame, pc: int, code: Code, returns: tuple[str, ...], args: tuple[str, ...], place: tuple[int, int]
    ) -> Frame:
        """The frame of a call made at ``pc`` of ``frame``: parameters are the caller's variables."""
        child = frame.children.get(pc)
        if child is not None and child.code is code:
            return child
        site = place if self.record.is_own(place[0]) else frame.site
        child = self._frame(code, frame, pc + 1, site)
        for formal, name in zip(code.function.params, args, strict=False):
            child.bases[formal.name] = frame.bases[name]
        for formal, name in zip(code.function.returns, returns, strict=False):
            child.bases[formal.name] = frame.bases[name]
        for formal in (*code.function.params, *code.function.returns):
            if formal.name not in child.bases:
                child.reserve(formal)
        self._place_variables(child)
        frame.children[pc] = child
        return child

    # --- local memory ---

    def ensure_local(self, size: int) -> None:
        if size > self.local_size:
            self._grow_local(max(size, 2 * self.local_size))

    def _grow_local(self, size: int) -> None:
        size = -(-size // 16) * 16
        if size * self.n > MAX_LOCAL:
            raise Stop("stopped", "local memory larger than what is modelled")
        data = np.zeros((self.n, size), np.uint8)
        if self.local_views:
            data[:, : self.local_size] = self.local_views[1]
        self.local_size = size
        self.local_views = {width: data.view(dtype) for width, dtype in UNSIGNED.items()}
        self.local_flat = {width: view.reshape(-1) for width, view in self.local_views.items()}

    def local2d(self, width: int) -> Array:
        """Local memory as (lane, word) of ``width`` bytes."""
        return self.local_views[width]

    # --- addresses and special registers ---

    def address_of(self, frame: Frame, name: str, offset: int, lanes: Lanes) -> Array:
        """Generic address of a symbol, an array or a NumPy scalar of uint64."""
        base = frame.bases.get(name)
        if base is not None:
            local: Array = (LOCAL_BASE + base + offset) + self.lane_ids[lanes].astype(np.uint64) * LOCAL_GAP
            return local.astype(np.uint64)
        region = self.symbols.get(name)
        if region is not None:
            return np.asarray(np.uint64(region.base + offset))
        if self.codes(name) is not None or name in ("vprintf",):
            if name not in self.function_names:
                self.function_names.append(name)
            return np.asarray(np.uint64(CODE_BASE + 16 * self.function_names.index(name)))
        raise Unsupported(f"symbol {name[:60]}")

    def reserved_shared(self) -> int:
        """Address of the shared memory that the system keeps for its own use (PTX ISA, 10.33)."""
        region = self.symbols.get("%reserved")
        if region is None:
            region = self.symbols["%reserved"] = self.memory.add("reserved", "shared", 1024, recorded=False)
        return region.base

    def special(self, name: str, lanes: Lanes) -> Any:
        value = self._specials.get(name)
        if value is None:
            value = special_register(self, name)
            if not name.startswith(("%clock", "%globaltimer")):
                self._specials[name] = value
        return value[lanes] if value.ndim else value


ParkedRun = Callable[[Machine, Frame, Lanes], bool]
"""Runs a warp operation for the lanes that are complete, parks the rest; says whether any lane went on."""


@dataclass(slots=True)
class Parked:
    machine: Machine
    frame: Frame
    pc: int
    lanes: Lanes
    place: tuple[int, int]
    run: ParkedRun

    def retry(self) -> bool:
        return self.run(self.machine, self.frame, self.machine.unpark(self.frame, self.pc, self.lanes[:0]))


@dataclass(slots=True)
class Arrival:
    """Lanes at a block barrier. ``resume`` continues them with the predicates of all (None: they have gone on)."""

    id: int
    lanes: Array
    expected: int
    place: tuple[int, int]
    site: tuple[int, int]
    resume: Callable[[Array], None] | None
    predicate: Array | None = None
