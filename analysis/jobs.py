"""Jobs in killable worker processes with a memory limit.

Guarantees: outcomes come in the order of the jobs, whatever the number of workers; a job that dies, runs out of
memory, outlives its time or raises costs only its own outcome. Time and memory are crash guards: what they end is
``Failed``, and must not be cached or taken for a verdict. Time is the processor's, so that a busy machine decides
nothing; the clock on the wall is a guard against jobs that wait for ever.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

State = TypeVar("State")
Item = TypeVar("Item")
Result = TypeVar("Result")

MEMORY_BYTES = 3 << 30
"""Address space of a worker; the libraries it inherits map about a fifth of it."""


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    value: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """``reason`` is one line without paths of this machine: ``guard: ...`` or ``internal error: ...``."""

    reason: str


_state: Any = None


def run_jobs(
    work: Callable[[State, Item], Result],
    items: Sequence[Item],
    state: State,
    rebuild: Callable[[], State],
    *,
    workers: int,
    seconds: Callable[[Item], float],
    patience: float = 15.0,
    on_outcome: Callable[[int], None] | None = None,
) -> list[Done[Result] | Failed]:
    """``work(state, item)`` for every item. ``workers`` 0 runs in this process, without guards.

    ``seconds(item)`` of processor time are given to a job, and ``patience`` times as many on the clock.
    Workers inherit ``state`` where processes fork; elsewhere each calls ``rebuild`` once, which must be picklable, as
    must be items and results.
    """
    outcomes: list[Done[Result] | Failed] = []
    source = (
        _pooled(work, [(item, seconds(item)) for item in items], state, rebuild, workers, patience)
        if workers
        else _here(work, items, state)
    )
    for outcome in source:
        outcomes.append(outcome)
        if on_outcome:
            on_outcome(len(outcomes))
    return outcomes


def default_workers() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _here(
    work: Callable[[State, Item], Result], items: Sequence[Item], state: State
) -> Iterator[Done[Result] | Failed]:
    for item in items:
        try:
            yield Done(work(state, item))
        except Exception as error:
            yield Failed(describe(error))


def _pooled(
    work: Callable[[State, Item], Result],
    items: Sequence[tuple[Item, float]],
    state: State,
    rebuild: Callable[[], State],
    workers: int,
    patience: float,
) -> Iterator[Done[Result] | Failed]:
    from pebble import ProcessExpired, ProcessPool

    forks = sys.platform == "linux"
    context = multiprocessing.get_context("fork" if forks else "spawn")
    start = (lambda: state) if forks else rebuild
    count = max(1, min(workers, len(items)))
    with ProcessPool(max_workers=count, context=context, initializer=_begin, initargs=(start, MEMORY_BYTES)) as pool:
        futures = [pool.schedule(_call, args=(work, item, limit), timeout=limit * patience) for item, limit in items]
        try:
            for (_, limit), future in zip(items, futures, strict=True):
                try:
                    yield future.result()
                except FutureTimeout:
                    yield Failed(f"guard: stopped after {limit * patience:.0f} s")
                except ProcessExpired as error:
                    yield Failed(_death(error.exitcode, limit))
                except Exception as error:
                    yield Failed(describe(error))
        finally:
            pool.stop()  # type: ignore[no-untyped-call]  # pebble leaves it unannotated


def _begin(start: Callable[[], Any], memory: int) -> None:
    """First thing in a worker: limits, then the state all its jobs share."""
    global _state
    with contextlib.suppress(ImportError, ValueError, OSError):  # without such limits the time guard is what is left
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    _state = start()


def _call(work: Callable[[Any, Item], Result], item: Item, seconds: float) -> Done[Result] | Failed:
    """Errors become text here, where their traceback is, so that nothing unpicklable travels."""
    _give_time(seconds)
    try:
        return Done(work(_state, item))
    except Exception as error:
        return Failed(describe(error))


def describe(error: BaseException) -> str:
    """One line: what was raised and in which function of ours; same on every machine."""
    if isinstance(error, MemoryError):
        return "guard: out of memory"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {os.path.basename(frames[-1].filename)}:{frames[-1].name}" if frames else ""
    first = str(error).splitlines()[0][:160] if str(error) else ""
    return f"internal error: {type(error).__name__}{place}" + (f": {first}" if first else "")


def _give_time(seconds: float) -> None:
    """Lets this worker use so much more processor time; the system ends it when it uses more."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        usage = resource.getrusage(resource.RUSAGE_SELF)
        limit = math.ceil(usage.ru_utime + usage.ru_stime + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _death(code: int | None, seconds: float) -> str:
    """Why a worker is gone, from its exit status: negative for a signal."""
    if code is None or code >= 0:
        return f"guard: the worker died (exit status {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGXCPU":
        return f"guard: more than {seconds:.0f} s of processor time"
    return f"guard: the worker died ({name})"
