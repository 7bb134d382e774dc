"""Replay: run a kernel under launches the code contains and watch for a problem.

Guarantee: an ``Observation`` happened in the interpreter, under the numbers its trial shows. Runs of a kernel under
one launch are made once, in canonical order, and shared by all rules; all budgets are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Witness
from prelaunch.analysis.interpret import run
from prelaunch.analysis.interpreter.program import Program
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay.trials import Trial, trials
from prelaunch.analysis.trace import Dim3, LaunchConfig, Problem

QUICK_STEPS = 300_000
"""Steps of one block in one run, as ``interpret.run`` counts them; what was seen until then counts."""
MAX_STEPS = 4_000_000
"""Steps of the few runs that are given more."""
MAX_TOTAL = 6_000_000
"""Steps of all runs of a kernel, in equal parts for its launches."""
LEAST_TOTAL = 200_000
"""Steps of all runs under one launch, however many there are."""
RUN_COST = 20_000
"""What starting a run costs, in steps."""
LEAST = 128
"""Steps that one statement costs at least: few lanes take as long as many."""
FIRST = 12
"""Trials whose last block is run before other blocks are."""
PATIENCE = 40
"""Runs looked at after a lesser problem was seen."""
LONG = 2
"""Runs that are repeated with MAX_STEPS when QUICK_STEPS did not see their end."""
SEARCHED = 2
"""Trials of whose grids more blocks are run: all of them, or those where executions begin to differ."""
SMALL_GRID = 64
"""Blocks of a grid that can all be run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One block of a trial. ``ended`` is a reason when the execution did not finish, ``cut`` when the steps ran out."""

    trial: Trial
    block: int
    problems: tuple[Problem, ...]
    ended: str = ""
    cut: bool = False
    steps: int = 0

    @property
    def allowed(self) -> bool:
        """False when the run breaks what the kernel itself asserts: nothing seen in it counts."""
        return not any(problem.kind in ("assertion", "trap") for problem in self.problems)

    @property
    def modelled(self) -> bool:
        """Was every value in the run computed, not made up for something that is not modelled?"""
        return not any(problem.kind == "opaque" for problem in self.problems)


@dataclass(frozen=True, slots=True)
class Observation:
    """A problem that happened in a run."""

    run: Run
    problem: Problem

    @property
    def config(self) -> LaunchConfig:
        return self.run.trial.config

    def threads(self) -> list[tuple[Dim3, Dim3]]:
        """(block, thread) coordinates of the threads the problem names."""
        grid, block = self.config.grid, self.config.block
        return [(spread(b, grid), spread(t, block)) for b, t in self.problem.threads]

    def witness(self, threads: list[tuple[Dim3, Dim3]], detail: str = "") -> Witness:
        return Witness(self.config, self.run.trial.shown, tuple(threads), detail)


Grade = Callable[[Observation], int | None]
"""How grave an observation is to a rule: 0 is the worst, None that it is none of its business."""


def spread(linear: int, dims: Dim3) -> Dim3:
    """(x, y, z) of a linear id, x fastest."""
    return linear % dims[0], linear // dims[0] % dims[1], linear // (dims[0] * dims[1])


def chosen_blocks(grid: Dim3) -> tuple[int, ...]:
    """Linear numbers of the blocks that are run, one by one: the last, where guards bite, the first, other corners,
    the middle."""
    x, y, z = grid
    corners = [(x - 1, y - 1, z - 1), (0, 0, 0), (x - 1, 0, 0), (0, y - 1, 0), (min(1, x - 1), 0, 0)]
    corners.append((x // 2, y // 2, z // 2))
    return tuple(dict.fromkeys(a + x * (b + y * c) for a, b, c in corners))


@dataclass
class Replay:
    """The runs of one kernel under one launch; ``program`` is what is run of it."""

    facts: Facts
    launch: Launch | None
    program: Program
    _runs: list[Run] = field(default_factory=list)
    _plan: Iterator[tuple[Trial, int, int]] | None = None
    _left: int = field(init=False)

    def __post_init__(self) -> None:
        self._left = max(LEAST_TOTAL, MAX_TOTAL // max(1, len(self.facts.launches)))

    def runs(self) -> Iterator[Run]:
        """All runs, those made before first."""
        if self._plan is None:
            self._plan = self._planned(trials(self.facts.kernel, self.launch))
        index = 0
        while True:
            if index == len(self._runs):
                planned = next(self._plan, None) if self._left > 0 else None
                if planned is None:
                    return
                trial, block, steps = planned
                self._runs.append(self._run(trial, block, min(steps, self._left)))
                self._left -= self._runs[-1].steps + RUN_COST
            yield self._runs[index]
            index += 1

    def _planned(self, tried: Iterator[Trial]) -> Iterator[tuple[Trial, int, int]]:
        """(trial, block, steps) in the order they are run."""
        first = list(islice(tried, FIRST))
        blocks = [chosen_blocks(trial.config.grid) for trial in first]
        for trial, (last, *_) in zip(first, blocks, strict=True):
            yield trial, last, QUICK_STEPS
        cut = [place for place, item in enumerate(self._runs[: len(first)]) if item.cut]
        for place in cut[:LONG]:
            yield first[place], blocks[place][0], MAX_STEPS
        refused = {place for place, item in enumerate(self._runs[: len(first)]) if not item.allowed}
        for place, (trial, (_, *others)) in enumerate(zip(first, blocks, strict=True)):
            if place in refused:
                continue  # arguments that the kernel itself rules out
            for block in others:
                yield trial, block, QUICK_STEPS
            if place < SEARCHED:
                yield from self._searched(trial)
        for trial in tried:
            for block in chosen_blocks(trial.config.grid):
                yield trial, block, QUICK_STEPS

    def _searched(self, trial: Trial) -> Iterator[tuple[Trial, int, int]]:
        """More blocks of one grid: the others of a small one; in a large one, along each axis, the first whose
        execution takes other steps than that of its neighbour, by bisection between blocks run before."""
        grid = trial.config.grid
        x, y, _ = grid
        if trial.config.blocks <= SMALL_GRID:
            known = set(chosen_blocks(grid))
            yield from ((trial, block, QUICK_STEPS) for block in range(trial.config.blocks) if block not in known)
            return
        for size, stride in zip(grid, (1, x, x * y), strict=True):
            low, high = 0, (size - 1) * stride
            if self._steps(trial, high) is None:
                yield trial, high, QUICK_STEPS
            while high - low > stride and self._steps(trial, low) != self._steps(trial, high):
                middle = low + (high - low) // (2 * stride) * stride
                if self._steps(trial, middle) is None:
                    yield trial, middle, QUICK_STEPS
                if self._steps(trial, middle) == self._steps(trial, low):
                    low = middle
                else:
                    high = middle

    def _steps(self, trial: Trial, block: int) -> int | None:
        """What the execution of ``block`` took; None when it was not run."""
        return next((run.steps for run in self._runs if run.block == block and run.trial is trial), None)

    def _run(self, trial: Trial, block: int, steps: int) -> Run:
        trace = run(
            self.program, trial.config, trial.arguments, max_steps=steps, record=False, blocks=(block,), least=LEAST
        )
        ended = "" if trace.status == "done" else trace.reason
        return Run(trial, block, trace.problems, ended, trace.status == "steps", trace.steps)

    def find(self, grade: Grade) -> Observation | None:
        """The first observation of the gravest problem seen: the one with the lowest ``grade``; None is no match.

        Runs end with the first problem of grade 0, or PATIENCE runs after a lesser one. Where nothing in the
        code decides the block, a problem must show with two different blocks.
        """
        found: dict[int, list[Observation]] = {}
        patience = PATIENCE
        for item in self.runs():
            if item.allowed:
                for level, problem in _graded(item, grade).items():
                    found.setdefault(level, []).append(Observation(item, problem))
            settled = [level for level, seen in found.items() if _shown(seen)]
            patience -= bool(settled)
            if settled and (min(settled) == 0 or patience <= 0):
                break
        best = min((level for level, seen in found.items() if _shown(seen)), default=None)
        return None if best is None else self._in_first_block(found[best][0], grade, best)

    def _in_first_block(self, seen: Observation, grade: Grade, level: int) -> Observation:
        """The same problem in block 0 of the same launch, where it shows there too: the plainer witness."""
        if seen.run.block == 0:
            return seen
        again = self._run(seen.run.trial, 0, QUICK_STEPS)
        problem = _graded(again, grade).get(level)
        return Observation(again, problem) if problem is not None and again.allowed else seen

    def summary(self) -> str:
        """What was tried, for verdicts that nothing decided."""
        done = sum(not item.ended for item in self._runs)
        cut = next((item.ended for item in self._runs if item.ended), "")
        return f"{len(self._runs)} runs, {done} to the end" + (f"; the first cut short: {cut}" if cut else "")


def _graded(item: Run, grade: Grade) -> dict[int, Problem]:
    """The first problem of each grade in a run."""
    found: dict[int, Problem] = {}
    for problem in item.problems:
        level = grade(Observation(item, problem))
        if level is not None:
            found.setdefault(level, problem)
    return found


def _shown(seen: list[Observation]) -> bool:
    return any(o.run.trial.evidenced for o in seen) or len({o.config.block for o in seen}) > 1
