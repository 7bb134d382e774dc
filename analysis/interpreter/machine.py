"""One thread block being executed: its registers, its groups of lanes, and how they run, fork and meet again.

A group is a set of lanes with one explicit continuation, a linked list of immutable, interned frames, so that a group
can be suspended, forked, and recognised as being at the same point as another. Groups of one family (the initial groups
of the schedule) merge again where they meet at one frame; groups of different families never do.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from prelaunch.analysis.interpreter.effects import unknown_values
from prelaunch.analysis.interpreter.groups import Frame, Group, Postponed, special_value
from prelaunch.analysis.interpreter.lanes import Index, Lanes, count, index, narrow, split, union
from prelaunch.analysis.interpreter.memory import Region
from prelaunch.analysis.interpreter.program import BREAK, RETURN, Code, Program
from prelaunch.analysis.interpreter.record import Recorder, Stop
from prelaunch.analysis.interpreter.schedule import Schedule
from prelaunch.analysis.interpreter.stalemate import report_livelock
from prelaunch.analysis.interpreter.synchronise import Synchroniser
from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import Block, Call, Exit, If, Loop, Type
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import LaunchConfig, ProblemKind

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.access import Move

SPIN = 16
"""Iterations of a loop that may wait for others before its group lets the others run."""


class Machine:
    """State of one block. ``thread``: slot -> linear thread; ``left``: lanes on their way out to a label."""

    def __init__(
        self, program: Program, config: LaunchConfig, block: int, regions: list[Region],
        parameters: list[tuple[int, Any]], schedule: Schedule, recorder: Recorder,
    ) -> None:  # fmt: skip
        self.program, self.config, self.block, self.regions = program, config, block, regions
        self.recorder, self.size = recorder, config.threads
        self.thread, starts = schedule.threads(self.size, block)
        self.lane = self.thread % 32
        self.warp = self.thread // 32
        self.bit = np.left_shift(np.uint32(1), self.lane.astype(np.uint32))
        self.registers = [np.zeros(self.size, dtype(type)) for type in program.expressions.types]
        for register, value in parameters:
            self.registers[register][:] = value
        self.temporaries: list[Any] = [None] * program.expressions.temporaries
        self.guess: dict[int, Region] = {}
        self.left: dict[int, list[Lanes]] = {}
        self.phase = np.zeros(self.size, np.int64)
        self.exited = np.zeros(self.size, bool)
        self.late_copies = schedule.copies == "wait"
        self.committed = np.zeros(self.size, np.int64)
        self.postponed: list[Postponed] = []
        self._specials: dict[str, Any] = {}
        self._frames: dict[tuple[str, int, int, int], Frame] = {}
        self._heap: list[tuple[int, int, int, int, int, Group]] = []
        self._parked: dict[tuple[int, int], list[Group]] = {}
        self._families: dict[int, int] = {}
        self._tick = 0
        self.sync = Synchroniser(self)
        start = self.frame("sequence", None, program.body.items, 0, None)
        for family, slots in enumerate(starts):
            self._families[family] = 0
            self.add(Group(slots, start, family))

    # --- services for compiled code ------------------------------------------------------------------------------

    def charge(self, lanes: Lanes, statements: int) -> None:
        self.recorder.charge(max(count(lanes), self.recorder.least) * statements)

    def problem(self, kind: ProblemKind, message: str, slots: Index, span: Span, key: int = 0) -> None:
        self.recorder.problem(kind, message, self.block, self.thread[slots], (span,), 0 if span.file else key)

    def region_at(self, window: int) -> Region | None:
        return self.regions[window - 1] if 1 <= window <= len(self.regions) else None

    def unknown(self, lanes: Lanes, type: Type, span: Span, salt: int) -> Any:
        threads = self.block * self.size + self.thread[lanes]
        return unknown_values(self.recorder.seed, threads, type, span, salt)

    def special(self, name: str) -> Any:
        """Per-slot array or one value, as Python or NumPy integer."""
        if name in ("clock", "clock64", "globaltimer"):
            self._tick += 1
            return self._tick
        found = self._specials.get(name)
        if found is None:
            found = self._specials[name] = special_value(name, self.config, self.block, self.thread)
        return found

    @contextmanager
    def recorded(self, recording: bool) -> Iterator[None]:
        before = self.recorder.recording
        self.recorder.recording = before and recording
        try:
            yield
        finally:
            self.recorder.recording = before

    def exit(self, lanes: Lanes) -> None:
        self.exited[lanes] = True
        self.sync.exited(lanes)

    def trap(self, lanes: Lanes, node: Exit) -> None:
        self.problem("trap", "trap", index(lanes), node.span, id(node))
        raise Stop("stopped", f"trap at {node.span}")

    def retire(self) -> None:
        """The block has ended: only the log needs it any more."""
        self.registers, self.temporaries, self.regions = [], [], []
        self._frames.clear()

    # --- asynchronous copies -------------------------------------------------------------------------------------

    def commit(self, lanes: Lanes) -> None:
        self.committed[lanes] += 1

    def postpone(self, lanes: Lanes, move: Move) -> None:
        slots = index(lanes).copy()
        self.postponed.append(Postponed(move, slots, self.committed[slots], np.ones(len(slots), bool)))

    def wait_copies(self, lanes: Lanes, pending: Any) -> None:
        """Complete the copies of these lanes, all or but for the last ``pending`` committed groups."""
        waits = np.zeros(self.size, bool)
        waits[lanes] = True
        limit = np.full(self.size, np.iinfo(np.int64).max)
        if pending is not None:
            limit[lanes] = self.committed[lanes] - pending.astype(np.int64)
        for item in self.postponed:
            due = item.waiting & waits[item.slots] & (item.group < limit[item.slots])
            part = narrow(item.slots[due])
            if part is not None:
                item.waiting &= ~due
                item.move(self, part, np.nonzero(due)[0], False)
        self.postponed = [item for item in self.postponed if item.waiting.any()]

    # --- groups --------------------------------------------------------------------------------------------------

    def frame(self, kind: str, code: Code | None, items: tuple[Code, ...], position: int, next: Frame | None) -> Frame:
        name = (kind, id(items) if code is None else id(code), position, id(next))
        found = self._frames.get(name)
        if found is None:
            found = self._frames[name] = Frame(kind, code, items, position, next)
        return found

    def add(self, group: Group, spinning: bool = False) -> None:
        """A new or released group, ready to run."""
        self._count(group.family, 1)
        self._push(group, 0, spinning)

    def _count(self, family: int, change: int) -> None:
        self._families[family] += change
        self.recorder.groups += change

    def _push(self, group: Group, level: int, spinning: bool = False) -> None:
        self._tick += 1
        order = (1, self._tick, 0, 0) if spinning else (0, group.family, level, group.first)
        heapq.heappush(self._heap, (*order, self._tick, group))

    def remove(self, group: Group) -> None:
        """The group waits, has ended, or went into another."""
        group.alive = False
        self._count(group.family, -1)

    def release(self, groups: list[Group]) -> None:
        """Waiting groups run again, those of one family at one frame as one group."""
        together: dict[tuple[int, int], list[Group]] = {}
        for group in groups:
            together.setdefault((group.family, id(group.frame)), []).append(group)
        for same in together.values():
            lanes = union(g.lanes for g in same)
            assert lanes is not None
            self.add(Group(lanes, same[0].frame, same[0].family))

    def branch_off(self, group: Group, lanes: Lanes) -> Group:
        """Some of a group's lanes as a group of their own, at its frame; not yet ready to run."""
        self._count(group.family, 1)
        return Group(lanes, group.frame, group.family, group.spun)

    def resume(self, group: Group) -> None:
        """Make a group from ``branch_off`` ready."""
        self._push(group, 0)

    def pass_phase(self, lanes: Lanes) -> None:
        """The lanes have passed a block barrier."""
        self.phase[lanes] += 1

    def park(self, group: Group) -> bool:
        """At a point where relatives may arrive: lets them run first. True when there are none."""
        if self._families[group.family] == 1:
            return True
        self._parked.setdefault((group.family, id(group.frame)), []).append(group)
        self._push(group, 1)
        return False

    def fork(self, group: Group, lanes: Lanes, frame: Frame | None, parked: bool) -> None:
        other = Group(lanes, frame, group.family, group.spun)
        self._count(group.family, 1)
        if parked:
            self._parked.setdefault((group.family, id(frame)), []).append(other)
        self._push(other, int(parked))

    def run(self, alone: bool) -> str:
        """Run until "done", or until the block needs others: "wide" (grid or cluster barrier) or "spinning".

        ``alone``: no other block can change what a spinning loop waits for.
        """
        while True:
            while self._heap:
                spinning = self._heap[0][0] == 1
                if spinning and self.sync.resolve():
                    continue
                group = heapq.heappop(self._heap)[-1]
                if group.alive:
                    self._collect(group)
                    self._run(group)
                if spinning and self.recorder.spun():
                    report_livelock(self, group)
                if spinning and not alone:
                    return "spinning"
            if self.sync.resolve():
                continue
            if not self.sync.waiting():
                self.wait_copies(slice(0, self.size), None)
                return "done"
            if self.sync.wide_waiting():
                return "wide"
            self.sync.break_stalemate()

    def _collect(self, group: Group) -> None:
        """Merge what is parked at the same frame into the group."""
        same = self._parked.pop((group.family, id(group.frame)), None)
        if same is None:
            return
        if group not in same:
            self._parked[group.family, id(group.frame)] = same
            return
        lanes = union(g.lanes for g in same)
        assert lanes is not None
        for other in same:
            if other is not group:
                self.remove(other)
        group.lanes = lanes

    def _run(self, group: Group) -> None:
        while True:
            frame = group.frame
            if frame is None:
                self.exit(group.lanes)
                self.remove(group)
                return
            if frame.kind == "sequence":
                going = self._item(group, frame)
            elif frame.kind == "loop":
                going = self._loop(group, frame)
            else:
                group.frame = frame.next
                going = self.park(group)
            if not going:
                return

    def _item(self, group: Group, frame: Frame) -> bool:
        if frame.position == len(frame.items):
            group.frame = frame.next
            return True
        code = frame.items[frame.position]
        if not frame.stepped:
            frame.stepped = True
            last = frame.position + 1 == len(frame.items)
            frame.after = (
                frame.next if last else self.frame("sequence", None, frame.items, frame.position + 1, frame.next)
            )
        group.frame = frame.after
        if code.fast is None:
            return self._enter(group, code)
        self.charge(group.lanes, 1)
        rest = code.fast(self, group.lanes)
        if self.left:
            self._place_left(group)
        if rest is None:
            self.remove(group)
            return False
        group.lanes = rest
        return True

    def _place_left(self, group: Group) -> None:
        """Lanes that left a fast statement for a label outside go on there."""
        for target, parts in sorted(self.left.items()):
            lanes = union(parts)
            assert lanes is not None
            self.fork(group, lanes, self._target(group.frame, target), True)
        self.left.clear()

    def _target(self, frame: Frame | None, target: int) -> Frame | None:
        label, way = divmod(target, 3)
        while frame is not None:
            node = frame.code.node if frame.code is not None else None
            if way == RETURN and isinstance(node, Call) and node.label == label:
                return frame.next
            if isinstance(node, Loop) and node.label == label and frame.kind == "loop":
                return frame.next if way == BREAK else self.frame("loop", frame.code, (), 2, frame.next)
            if way == BREAK and isinstance(node, Block) and node.label == label:
                return frame.next
            frame = frame.next
        raise Stop(
            "stopped", f"a {('break', 'continue', 'return')[way]} names label {label}, which does not enclose it"
        )

    def _enter(self, group: Group, code: Code) -> bool:
        next, node = group.frame, code.node
        self.charge(group.lanes, 1)
        if isinstance(node, Block):
            end = self.frame("leave", code, (), 0, next)
            group.frame = self.frame("sequence", None, code.inner, 0, end)
        elif isinstance(node, Call):
            end = self.frame("leave", code, (), 0, next)
            group.frame = self.frame("sequence", None, code.parts[0].items, 0, end)
        elif isinstance(node, Loop):
            group.frame = self.frame("loop", code, (), 0, next)
            if not node.test_first:
                body = self.frame("loop", code, (), 2, next)
                group.frame = self.frame("sequence", None, code.parts[1].items, 0, body)
        elif isinstance(node, If):
            self._branch(group, code)
        else:
            return self.sync.arrive(group, code)
        return True

    def _branch(self, group: Group, code: Code) -> None:
        then, orelse = code.parts
        yes, no = split(group.lanes, code.values[0](self, group.lanes))
        next = group.frame
        if yes is None or no is None:
            group.frame = self.frame("sequence", None, (then if no is None else orelse).items, 0, next)
            return
        join = self.frame("join", code, (), 0, next)
        group.lanes, group.frame = yes, self.frame("sequence", None, then.items, 0, join)
        self.fork(group, no, self.frame("sequence", None, orelse.items, 0, join), False)

    def _loop(self, group: Group, frame: Frame) -> bool:
        code = frame.code
        assert code is not None
        test, body, step = code.parts
        if frame.position == 0:
            self.charge(group.lanes, 1)
            after = self.frame("loop", code, (), 1, frame.next)
            group.frame = self.frame("sequence", None, test.items, 0, after)
            return not code.spins or self._keep_spinning(group, code)
        if frame.position == 2:
            again = self.frame("loop", code, (), 0, frame.next)
            group.frame = self.frame("sequence", None, step.items, 0, again)
            return True
        stay, leave = split(group.lanes, code.values[0](self, group.lanes))
        if stay is None:
            group.frame = frame.next
            return self.park(group)
        if leave is not None:
            self.fork(group, leave, frame.next, True)
        group.lanes = stay
        group.frame = self.frame("sequence", None, body.items, 0, self.frame("loop", code, (), 2, frame.next))
        return True

    def _keep_spinning(self, group: Group, code: Code) -> bool:
        group.spun += 1
        group.spins_at = code.node.span
        if group.spun % SPIN:
            return True
        self._push(group, 0, spinning=True)
        return False
