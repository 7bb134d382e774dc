"""Runs kernels through both readers, interpreter on lowered kernels and PTX, and counts where their traces part.

    python benchmarks/differential.py [--generated N] [--seed S] [--cases DIR] [CHECKOUT...]

Compared are the accesses of every thread by phase, mode, object, byte and line, and the final contents of memory.
A disagreement that another legal schedule of the interpreter shows as well is order-dependent and counted apart.
Exit status 1 when anything disagrees.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tree_sitter import Node

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.unused_loads import unused_loads
from prelaunch.analysis import interpret, witness_ptx
from prelaunch.analysis.frontends.cuda import load_project, lower_kernel, project_from_text
from prelaunch.analysis.frontends.cuda.text.project import FunctionDecl, Project
from prelaunch.analysis.kernel import Kernel, Opaque, Pointer, Scalar, Special
from prelaunch.analysis.trace import Argument, LaunchConfig, Trace
from prelaunch.analysis.walk import operands, walk, walk_expr
from tests.generate import generate

TRIES = ((40, 2, 60_000), (9, 1, 200_000))  # integer parameters, blocks, events; the second when the first is too long
MAX_STEPS = 200_000
INTERPRETER_STEPS = 20_000_000
BATCH = 40


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel instance under one launch."""

    label: str
    project: Project
    decl: FunctionDecl
    template_args: tuple[str, ...] = ()
    config: LaunchConfig | None = None
    arguments: Mapping[str, Argument] | None = None


@dataclass(slots=True)
class Tally:
    compared: int = 0
    agreed: int = 0
    order_dependent: int = 0
    events: int = 0
    disagreements: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    skipped_labels: dict[str, list[str]] = field(default_factory=dict)

    def skip(self, label: str, reason: str) -> None:
        self.skipped[reason] += 1
        self.skipped_labels.setdefault(reason, []).append(label)


# --- cases ---


def generated(count: int, seed: int) -> Iterator[Case]:
    for number in range(seed, seed + count):
        item = generate(number)
        project = project_from_text(item.text, f"generated-{number}.cu")
        yield Case(f"seed {number}", project, project.kernels()[0], (), item.config, item.arguments)


def kernels_of(root: Path, each_file_alone: bool = False) -> Iterator[Case]:
    """Every kernel instance of a checkout, with the launch found for it if its numbers are known."""
    projects = (
        [load_project(root, [p]) for p in sorted(root.rglob("*.cu"))] if each_file_alone else [load_project(root)]
    )
    for project in projects:
        yield from _paired(project)


def _paired(project: Project) -> Iterator[Case]:
    from prelaunch.analysis.host import find_launches
    from prelaunch.analysis.instances import pair

    kernels = project.kernels()
    for group in pair(project, find_launches(project), lambda path: True).groups:
        decl = kernels[group.index]
        for instance in group.instances[:2]:
            label = f"{decl.file.source.path}:{decl.span.line} {decl.qualified}"
            if instance.template_args:
                label += f"<{', '.join(instance.template_args)}>"
            config = next((c for launch in instance.launches if (c := launch.config()) is not None), None)
            if config is None:
                block = next((b for launch in instance.launches if (b := launch.known_block()) is not None), None)
                config = LaunchConfig((2, 1, 1), block or (64, 1, 1), 4096)
            yield Case(label, project, decl, instance.template_args, config)


def _small(config: LaunchConfig, blocks: int) -> LaunchConfig:
    """The launch with at most ``blocks`` blocks."""
    x, y, z = config.grid
    grid = (min(x, blocks), 1, 1) if x > 1 else (1, min(y, blocks), 1) if y > 1 else (1, 1, min(z, blocks))
    return LaunchConfig(grid, config.block, config.dynamic_smem, cooperative=config.cooperative)


# --- comparison ---


def statement_lines(project: Project) -> witness_ptx.Anchor:
    """The first line of the statement a line belongs to: compilers split statements over lines differently."""
    tables: dict[str, dict[int, int]] = {}

    def table(path: str) -> dict[int, int]:
        found: dict[int, int] = {}
        parsed = project.files.get(path)
        if parsed is None:
            return found
        stack: list[Node] = [parsed.tree.root_node]
        while stack:
            node = stack.pop()
            if node.type in ("expression_statement", "declaration", "return_statement", "condition_clause"):
                first = node.start_point[0] + 1
                for line in range(first, node.end_point[0] + 2):
                    found.setdefault(line, first)
            stack.extend(reversed(node.named_children))
        return found

    def anchor(path: str, line: int) -> int:
        if path not in tables:
            tables[path] = table(path)
        return tables[path].get(line, line)

    return anchor


def differ(first: Trace, second: Trace, kernel: Kernel, anchor: witness_ptx.Anchor) -> list[str]:
    """Why two complete traces are not the same; empty when they are. Loads of unused values may be missing in the
    second; wide accesses that reach out of bounds may be there in part."""
    found = witness_ptx.compare(first, second, anchor, limit=3)
    if found:
        unused = {(load.span.file, anchor(load.span.file, load.span.line)) for load in unused_loads(kernel)}
        straddling = {
            (span.file, anchor(span.file, span.line))
            for problem in first.problems
            if problem.kind == "out-of-bounds"
            for span in problem.spans
        }
        found = [
            d
            for d in witness_ptx.compare(first, second, anchor, limit=1 << 30)
            if not _only_unused(d, unused) and not _only_straddling(d, straddling)
        ]
    reasons = [str(d) for d in found[:3]]
    return reasons or _memory(first, second, kernel)


def _only_unused(found: witness_ptx.Disagreement, unused: set[tuple[str, int]]) -> bool:
    return found.mode == "read" and not found.extra and all((file, line) in unused for _, file, line in found.missing)


def _only_straddling(found: witness_ptx.Disagreement, places: set[tuple[str, int]]) -> bool:
    """A wide access across the end of an object: the compiler may have split it, and its first words are in bounds."""
    return not found.missing and all((file, line) in places for _, file, line in found.extra)


def _memory(first: Trace, second: Trace, kernel: Kernel) -> list[str]:
    found: list[str] = []
    if _is_timed(kernel):
        return found
    contents = {witness_ptx.plain_name(k): v for k, v in second.memory.items()}
    for item in kernel.objects:
        a, b = first.memory.get(item.id), contents.get(witness_ptx.plain_name(item.id))
        if a is None or b is None or item.space != "global" or a == b or len(a) != len(b):
            continue
        if isinstance(item.element, Pointer):
            continue  # addresses differ between the readers
        if isinstance(item.element, Scalar) and item.element.kind == "float" and len(a) % item.element.size == 0:
            kind = {2: np.float16, 4: np.float32, 8: np.float64}[item.element.size]
            x, y = np.frombuffer(a, kind).astype(np.float64), np.frombuffer(b, kind).astype(np.float64)
            if np.allclose(x, y, rtol=1e-2, atol=1e-3, equal_nan=True) or not np.isfinite(x).all():
                continue
            where = int(np.flatnonzero(~np.isclose(x, y, rtol=1e-2, atol=1e-3, equal_nan=True))[0])
            found.append(f"memory of {item.id}: element {where} is {x[where]:g} against {y[where]:g}")
        else:
            where = next(i for i in range(len(a)) if a[i] != b[i])
            found.append(f"memory of {item.id}: byte {where} is {a[where]} against {b[where]}")
    return found


def _is_timed(kernel: Kernel) -> bool:
    """Whether the kernel reads a clock, whose values belong to the reader."""
    clocks = ("clock", "clock64", "globaltimer", "smid")
    exprs = (e for stmt in walk(kernel.body) for top in operands(stmt) for e in walk_expr(top))
    return any(isinstance(e, Special) and e.name in clocks for e in exprs)


def run_batch(cases: list[Case], tally: Tally, verbose: Callable[[str], None]) -> None:
    programs = witness_ptx.prepare([witness_ptx.Request(c.project, c.decl, c.template_args) for c in cases])
    for case, program in zip(cases, programs, strict=True):
        started = time.perf_counter()
        before = (tally.compared, tally.agreed)
        _one(case, program, tally)
        state = "agreed" if tally.agreed > before[1] else "compared" if tally.compared > before[0] else "skipped"
        verbose(f"{case.label}: {state} {time.perf_counter() - started:.2f} s")


def _one(case: Case, program: witness_ptx.Program, tally: Tally) -> None:
    if program.module is None:
        tally.skip(case.label, f"not compiled: {_general(program.failure)}")
        return
    kernel = lower_kernel(case.project, case.decl, case.template_args)
    opaque = next((s for s in walk(kernel.body) if isinstance(s, Opaque)), None)
    if opaque is not None:
        tally.skip(case.label, f"lowering: {_general(opaque.reason)}")
        return
    compiled = interpret.prepare(kernel)
    reason = ""
    for n, blocks, max_events in TRIES:
        config = _small(case.config or LaunchConfig(), blocks)
        arguments = case.arguments or interpret.default_arguments(kernel, config, n=n)
        try:
            first = interpret.run(compiled, config, arguments, max_steps=INTERPRETER_STEPS, max_events=max_events)
        except (ValueError, KeyError) as error:
            tally.skip(case.label, f"interpreter: {_general(str(error))}")
            return
        reason = f"interpreter: {first.status}: {_general(first.reason)}"
        if first.status == "steps":
            continue
        if first.status == "done":
            second = witness_ptx.run(
                program, case.decl, config, arguments, kernel, MAX_STEPS, max_events + max_events // 2
            )
            reason = f"PTX: {second.status}: {_general(second.reason)}"
            if second.status == "done":
                break
    else:
        tally.skip(case.label, reason)
        return
    tally.compared += 1
    tally.events += len(first.events)
    anchor = statement_lines(case.project)
    found = differ(first, second, kernel, anchor)
    if not found:
        tally.agreed += 1
        return
    for schedule in interpret.SCHEDULES[1:]:
        other = interpret.run(
            compiled, config, arguments, schedule=schedule, max_steps=INTERPRETER_STEPS, max_events=max_events
        )
        if other.status != "done" or differ(other, first, kernel, anchor) or differ(first, other, kernel, anchor):
            tally.order_dependent += 1
            return
    tally.disagreements.append(f"{case.label}: {found[0]}")


def _general(reason: str) -> str:
    """A reason without the place, so that equal ones are counted together."""
    head, _, tail = reason.partition(": ")
    return (tail if tail and ("/" in head or head.endswith(tuple("0123456789"))) else reason)[:110]


def run_all(cases: Iterable[Case], verbose: Callable[[str], None] = lambda line: None) -> Tally:
    tally = Tally()
    batch: list[Case] = []
    for case in cases:
        batch.append(case)
        if len(batch) == BATCH:
            run_batch(batch, tally, verbose)
            batch = []
    if batch:
        run_batch(batch, tally, verbose)
    return tally


def report(name: str, tally: Tally, labels: bool) -> None:
    total = tally.compared + sum(tally.skipped.values())
    print(
        f"{name}: {total} kernels, compared {tally.compared}, agreed {tally.agreed}, order-dependent "
        f"{tally.order_dependent}, disagreements {len(tally.disagreements)}, not runnable {total - tally.compared}, "
        f"{tally.events} events"
    )
    for line in tally.disagreements:
        print(f"  disagreement: {line}")
    for reason, count in tally.skipped.most_common():
        print(f"  not runnable {count}: {reason}")
        if labels:
            print("      " + "; ".join(tally.skipped_labels[reason][:6]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generated", type=int, default=0, help="how many random kernels")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first random kernel")
    parser.add_argument("--cases", type=Path, action="append", default=[], help="folder of files that stand alone")
    parser.add_argument("--labels", action="store_true", help="name kernels that could not be run")
    parser.add_argument("--verbose", action="store_true", help="one line for each kernel, to stderr")
    parser.add_argument("checkouts", type=Path, nargs="*")
    options = parser.parse_args()
    gc.set_threshold(200_000)  # traces are many small objects without cycles

    def verbose(line: str) -> None:
        if options.verbose:
            print(line, file=sys.stderr, flush=True)

    tallies: list[Tally] = []
    sources: list[tuple[str, Iterable[Case]]] = []
    if options.generated:
        sources.append((f"generated {options.generated}", generated(options.generated, options.seed)))
    sources += [(str(folder.name), kernels_of(folder, each_file_alone=True)) for folder in options.cases]
    sources += [(str(folder.name), kernels_of(folder)) for folder in options.checkouts]
    for name, cases in sources:
        started = time.perf_counter()
        tally = run_all(cases, verbose)
        report(name, tally, options.labels)
        print(f"  {time.perf_counter() - started:.0f} s", file=sys.stderr)
        tallies.append(tally)
    return 1 if any(t.disagreements for t in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
