"""A whole launch: memory, parameters, and the order in which blocks take their turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prelaunch.analysis.interpreter.expressions import constant
from prelaunch.analysis.interpreter.machine import Machine
from prelaunch.analysis.interpreter.memory import Region, base_of, make_region
from prelaunch.analysis.interpreter.program import Program
from prelaunch.analysis.interpreter.record import Recorder, Stop
from prelaunch.analysis.interpreter.schedule import Schedule
from prelaunch.analysis.kernel import Kernel, Object, Param, Pointer
from prelaunch.analysis.trace import Argument, LaunchConfig

MAX_BYTES = 1 << 30
"""Memory and registers of all blocks that are alive, and global memory."""
PRIVATE = ("shared", "local")
"""Spaces of which every block (local: every thread) has its own."""


def lookup(arguments: Mapping[str, Argument], param: Param) -> Argument | None:
    """The argument of a leaf parameter: by variable name, else by the object it points to."""
    found = arguments.get(param.var.name)
    return arguments.get(param.object) if found is None and param.object is not None else found


class Execution:
    """Runs ``blocks`` of one launch. Global memory lives as long as the execution."""

    def __init__(
        self, program: Program, config: LaunchConfig, arguments: Mapping[str, Argument], schedule: Schedule,
        recorder: Recorder, blocks: Sequence[int],
    ) -> None:  # fmt: skip
        self.program, self.config, self.schedule, self.recorder = program, config, schedule, recorder
        self.kernel: Kernel = program.kernel
        self.blocks = [blocks[int(i)] for i in schedule.arrange(len(blocks))]
        self.data = self._initial_data(arguments)
        self.parameters = [self._parameter(param, arguments) for param in self.kernel.params]
        self.claimed = 0
        self.outside: list[Region | None] = []
        self.machines: dict[int, Machine] = {}

    def _size(self, object: Object) -> int:
        """Bytes: of the object, of its data where only the launch tells, of dynamic shared memory."""
        if object.dynamic:
            return self.config.dynamic_smem
        return object.size if object.size is not None else len(self.data.get(object.id, object.init or b""))

    def _per_block(self) -> int:
        threads = self.config.threads
        registers = 8 * len(self.program.expressions.types) * threads
        own = (
            self._size(o) * (threads if o.space == "local" else 1) for o in self.kernel.objects if o.space in PRIVATE
        )
        return registers + sum(own)

    def _claim(self, bytes_: int) -> None:
        self.claimed += bytes_
        if self.claimed > MAX_BYTES:
            raise Stop("stopped", f"needs more than {MAX_BYTES >> 20} MiB of memory")

    def _initial_data(self, arguments: Mapping[str, Argument]) -> dict[str, bytes]:
        data = {id: a.data for id, a in arguments.items() if a.data is not None}
        for param in self.kernel.params:
            given = lookup(arguments, param)
            if param.object is not None and given is not None and given.data is not None:
                data[param.object] = given.data
        return data

    def _parameter(self, param: Param, arguments: Mapping[str, Argument]) -> tuple[int, Any]:
        """A pointer starts ``value`` bytes into its data, or into that of ``alias``; without data it is null."""
        register = self.program.expressions.register(param.var)
        given = lookup(arguments, param) or Argument()
        if not isinstance(param.var.type, Pointer):
            return register, constant(given.value, param.var.type)
        target = given.alias or param.object
        if target is None or (given.data is None and given.alias is None):
            return register, np.uint64(int(given.value))
        return register, np.uint64(base_of(self.program.expressions.objects[target]) + int(given.value))

    def _region(self, number: int, object: Object) -> Region:
        init = self.data.get(object.id, object.init)
        size = self._size(object)
        threads = self.config.threads if object.space == "local" else 0
        tracked = object.space == "shared"
        return make_region(number, object.id, object.name or object.id, object.space, size, init, threads, tracked)

    def _machine(self, block: int) -> Machine:
        self._claim(self._per_block())
        regions = [
            outside if outside is not None else self._region(i, self.kernel.objects[i])
            for i, outside in enumerate(self.outside)
        ]
        return Machine(self.program, self.config, block, regions, self.parameters, self.schedule, self.recorder)

    def run(self) -> None:
        """Blocks run one after another; one that waits for others lets them run first. Raises Stop."""
        self._claim(sum(self._size(o) for o in self.kernel.objects if o.space not in PRIVATE))
        self.outside = [None if o.space in PRIVATE else self._region(i, o) for i, o in enumerate(self.kernel.objects)]
        with np.errstate(all="ignore"):
            todo = list(self.blocks)
            waiting: list[int] = []
            while todo:
                block = todo.pop(0)
                if block not in self.machines:
                    self.machines[block] = self._machine(block)
                state = self.machines[block].run(alone=len(self.blocks) == 1)
                if state == "done":
                    self.machines[block].retire()
                    self.claimed -= self._per_block()
                elif state == "spinning":
                    todo.append(block)
                else:
                    waiting.append(block)
                released = self._release_wide(waiting, todo)
                waiting = [b for b in waiting if b not in released]
                todo = released + todo
            if waiting:
                self._report_wide(waiting)

    def _release_wide(self, waiting: list[int], todo: list[int]) -> list[int]:
        """Blocks let go because their grid or cluster is complete: every member waits at one, or has ended."""
        released: list[int] = []
        for block in waiting:
            members = self._members(block)
            if block in released or any(b in todo or self._scope(b) not in ("", self._scope(block)) for b in members):
                continue
            instance = self.recorder.instances
            self.recorder.instances += 1
            together = [b for b in members if b in waiting]
            for member in together:
                self.machines[member].sync.release_wide(instance)
            released.extend(together)
        return released

    def _scope(self, block: int) -> str:
        """ "grid" or "cluster" for a block that waits there, else empty."""
        wide = self.machines[block].sync.wide if block in self.machines else []
        return str(getattr(wide[0].code.node, "scope", "")) if wide else ""

    def _members(self, block: int) -> list[int]:
        """Blocks that the barrier at which ``block`` waits is for."""
        if self._scope(block) == "grid":
            return self.blocks
        return [b for b in self.blocks if self._cluster(b) == self._cluster(block)]

    def _cluster(self, block: int) -> tuple[int, int, int]:
        (gx, gy, _), (cx, cy, cz) = self.config.grid, self.config.cluster
        return block % gx // cx, block // gx % gy // cy, block // (gx * gy) // cz

    def _report_wide(self, waiting: list[int]) -> None:
        first = self.machines[waiting[0]]
        spans = tuple(dict.fromkeys(w.span for b in waiting for w in self.machines[b].sync.wide))
        lines = ", ".join(f"block {b} at line {self.machines[b].sync.wide[0].span.line}" for b in waiting[:4])
        message = f"deadlock: blocks wait for each other: {lines}"
        threads = np.array([first.sync.wide[0].group.first], np.intp)
        self.recorder.problem("deadlock", message, waiting[0], threads, spans, 0)
        raise Stop("stopped", message)

    def memory(self) -> dict[str, bytes]:
        """Final content of every object that outlives blocks."""
        return {r.id: r.data[: r.size].tobytes() for r in self.outside if r is not None}
