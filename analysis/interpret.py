"""Concrete execution of a kernel: numbers in, event trace and problems out.

Threads are modelled one by one and run together, as NumPy arrays, only between the points where they may wait for each
other; lock-step is never assumed. Where CUDA leaves an order open, a ``Schedule`` chooses. Same input, same output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prelaunch.analysis.interpreter.arguments import default_arguments
from prelaunch.analysis.interpreter.execution import Execution
from prelaunch.analysis.interpreter.program import Program, compile_kernel
from prelaunch.analysis.interpreter.races import find_races
from prelaunch.analysis.interpreter.record import Recorder, Stop
from prelaunch.analysis.interpreter.schedule import SCHEDULES, Schedule
from prelaunch.analysis.kernel import Kernel
from prelaunch.analysis.trace import Argument, LaunchConfig, Trace

__all__ = ["SCHEDULES", "Schedule", "default_arguments", "find_races", "prepare", "run"]

MAX_STEPS = 16_000_000
MAX_EVENTS = 500_000
MAX_THREADS = 1024
MAX_BLOCKS = 1 << 16


def prepare(kernel: Kernel) -> Program:
    """Compile once what several ``run`` calls execute."""
    return compile_kernel(kernel)


def run(
    kernel: Kernel | Program,
    config: LaunchConfig,
    arguments: Mapping[str, Argument],
    *,
    schedule: Schedule = SCHEDULES[0],
    max_steps: int = MAX_STEPS,
    max_events: int = MAX_EVENTS,
    record: bool = True,
    blocks: Sequence[int] | None = None,
    seed: int = 0,
    least: int = 64,
) -> Trace:
    """Execute a launch, or some of its ``blocks`` (linear numbers; default all).

    ``arguments``: by parameter variable name or object id. A missing scalar is 0, a pointer without data is null. Data
    for other objects (``__constant__`` and ``__device__`` variables) by object id.

    Returns a trace with status "done"; "steps" when more than ``max_steps`` steps or ``max_events`` events would be
    needed (a statement run by n lanes costs max(n, ``least``) steps); "stopped" with the reason after a trap, a failed
    assert, a deadlock, something not modelled, or a need for more than 1 GiB of memory. Events and problems up to there
    are in it. ``record=False`` leaves out events. ``seed`` chooses the values of what is not modelled. Other problems
    are reported and the execution goes on as hardware would: loads out of bounds give 0, such stores are dropped,
    division by zero gives an unspecified value.

    Raises ValueError for a launch no device accepts (more than 1024 threads, sizes below 1) or of more than 65536
    blocks when ``blocks`` does not name some, KeyError for a kernel that names objects it does not declare.
    """
    _check(config, blocks)
    program = kernel if isinstance(kernel, Program) else compile_kernel(kernel)
    objects = tuple(o.id for o in program.kernel.objects)
    recorder = Recorder(max_steps, record, max_events, seed, objects, least)
    chosen = range(config.blocks) if blocks is None else blocks
    execution = Execution(program, config, arguments, schedule, recorder, list(chosen))
    status, reason = "done", ""
    try:
        execution.run()
    except Stop as stop:
        status, reason = stop.status, stop.reason
    return Trace(
        recorder.events() if record else (),
        recorder.problems(),
        status,  # type: ignore[arg-type]  # Stop carries the two other states
        reason,
        execution.memory(),
        max_steps - max(recorder.left, 0),
    )


def _check(config: LaunchConfig, blocks: Sequence[int] | None) -> None:
    if blocks is None and config.blocks > MAX_BLOCKS:
        raise ValueError(f"a grid of {config.grid} has too many blocks to run all: name some")
    if min(*config.grid, *config.block, *config.cluster) < 1 or config.threads > MAX_THREADS:
        raise ValueError(f"no device accepts a block of {config.block} in a grid of {config.grid}")
