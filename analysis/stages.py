"""Any stage of the pipe as text: ``prelaunch review --show STAGE KERNEL``.

Runs in this process, without workers and without the store, up to the stage asked for; deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from prelaunch.analysis.discover import discover
from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Conditional, Proved, Refuted, Unknown, verdict_name
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.instances import Group, pair
from prelaunch.analysis.judge import Gap, State, distinct
from prelaunch.analysis.kernel import Atomic, Barrier, Collective, Expr, Load, Stmt, Store
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay import cases
from prelaunch.analysis.review import Options, Review, prepare, review
from prelaunch.analysis.rules import select
from prelaunch.analysis.show import show as show_kernel
from prelaunch.analysis.show import show_expr
from prelaunch.analysis.uniformity import Level, Uniformity, uniformity
from prelaunch.analysis.walk import walk

STAGES = ("discover", "parse", "kernel", "launches", "facts", "verdicts", "findings")


class NoSuchStage(LookupError):
    """The stage or the kernel asked for does not exist; the message lists what does."""

    def __str__(self) -> str:
        return str(self.args[0])


def show(stage: str, kernel: str, paths: Sequence[Path], options: Options) -> str:
    """What ``stage`` made of ``kernel`` (simple or qualified name). Raises NoSuchStage, NothingToReview."""
    if stage not in STAGES:
        raise NoSuchStage(f"no stage {stage}; stages are {', '.join(STAGES)}")
    discovery = discover([Path(path) for path in paths], vendored=options.vendored)
    if stage == "discover":
        return "".join(
            [f"review {name}\n" for name in discovery.files]
            + [f"read   {name} (included)\n" for name in discovery.included]
            + [f"skip   {item.path}: {item.reason}\n" for item in discovery.skipped]
        )
    state = prepare(discovery, select(options.rules), None)
    pairing = pair(state.project, find_launches(state.project), discovery.reviews)
    declarations = state.project.kernels()
    chosen = [g for g in pairing.groups if kernel in (g.name, g.name.rpartition("::")[2])]
    if not chosen:
        names = ", ".join(dict.fromkeys(group.name for group in pairing.groups)) or "none"
        raise NoSuchStage(f"no kernel {kernel}; there are: {names}")
    if stage in _OF_REVIEW:
        result = review(paths, replace(options, workers=0, cache=None))
        return "".join(_OF_REVIEW[stage](result, [group.name for group in chosen]))
    printer = _PRINTERS[stage]
    return "\n".join("".join(printer(state, group, declarations[group.index])) for group in chosen)


def _parse(state: State, group: Group, declaration: FunctionDecl) -> Iterator[str]:
    yield f"{group.name} at {declaration.span}: {declaration.confidence}\n"
    for dropped in declaration.file.dropped:
        yield f"dropped at {dropped.span}: {dropped.why}\n"
    stack = [(declaration.node, 0)]
    while stack:
        node, depth = stack.pop()
        yield f"{'  ' * min(depth, 40)}{node.type} {node.start_point[0] + 1}:{node.start_point[1] + 1}\n"
        stack.extend((child, depth + 1) for child in reversed(node.named_children))


def _kernel(state: State, group: Group, declaration: FunctionDecl) -> Iterator[str]:
    for facts, labels in _distinct(state, group, declaration):
        yield f"# {', '.join(labels)}\n"
        yield show_kernel(facts.kernel)


def _launches(state: State, group: Group, declaration: FunctionDecl) -> Iterator[str]:
    for instance in group.instances:
        arguments = f"<{', '.join(instance.template_args)}>" if instance.template_args else ""
        yield f"{group.name}{arguments}: {len(instance.launches)} launches\n"
        for launch in instance.launches:
            yield f"  {launch.span} {launch.form}\n"
            yield f"    grid ({_dims(launch.grid)}) block ({_dims(launch.block)})\n"
            yield f"    dynamic shared memory {show_expr(launch.dynamic_smem)}\n"
            yield from _details(launch)


def _details(launch: Launch) -> Iterator[str]:
    for number, argument in enumerate(launch.args):
        yield f"    argument {number}: {show_expr(argument) if argument is not None else 'unknown'}\n"
    for relation in launch.relations:
        against = show_expr(relation.value) if relation.value is not None else f"argument {relation.other}"
        yield f"    relation {relation.kind} of argument {relation.argument}: {against}\n"
    for name, value in launch.attributes:
        yield f"    attribute {name}: {show_expr(value)}\n"
    yield from (f"    via {site}\n" for site in launch.via)
    yield from (f"    note {note}\n" for note in launch.notes)


def _facts(state: State, group: Group, declaration: FunctionDecl) -> Iterator[str]:
    for facts, labels in _distinct(state, group, declaration):
        kernel = facts.kernel
        yield f"# {', '.join(labels)}; {len(facts.launches)} launches; launch bounds {kernel.launch_bounds}\n"
        for item in kernel.objects:
            size = "size unknown" if item.size is None else f"{item.size} bytes"
            yield f"object {item.id}: {item.space}, {size}{', dynamic' if item.dynamic else ''}\n"
        for case in cases(facts):
            uniform = uniformity(kernel, case.launch)
            yield f"under {case.name or 'any launch'}:\n"
            yield from (f"  assumed {text}\n" for text in uniform.assumptions)
            for stmt in walk(kernel.body):
                if isinstance(stmt, Load | Store | Atomic | Barrier | Collective):
                    yield f"  {stmt.span} {_event(stmt)}; {_control(uniform, stmt)}\n"


def _control(uniform: Uniformity, stmt: Stmt) -> str:
    """Who executes the statement: whole grid, blocks or warps together, or some threads because of what."""
    if not uniform.reached(stmt):
        return "never reached"
    control = uniform.control(stmt)
    cause = control.worst()
    return f"control {_SHARED[control.level]}" + (f", decided at {cause.stmt.span}" if cause else "")


_SHARED = {
    Level.GRID: "shared by the grid",
    Level.BLOCK: "shared by each block",
    Level.WARP: "shared by each warp",
    Level.THREAD: "differs between threads",
}


def _event(stmt: Load | Store | Atomic | Barrier | Collective) -> str:
    match stmt:
        case Barrier(scope=scope, action=action):
            return f"barrier {scope} {action}"
        case Collective(op=op):
            return f"collective {op}"
        case _:
            targets = ", ".join(f"{case.object}[{show_expr(case.offset)}]" for case in stmt.cases) or "unknown target"
            return f"{type(stmt).__name__.lower()} {stmt.space} {stmt.size} bytes: {targets}"


def _verdicts(result: Review, names: list[str]) -> Iterator[str]:
    for item in result.all_judgements():
        if item.kernel.partition("<")[0] not in names:
            continue
        match item.verdict:
            case Unknown(reason=reason):
                detail = reason
            case Refuted(finding=finding):
                detail = finding.message
            case Conditional(contract=contract):
                detail = contract
            case Proved(assumptions=assumptions):
                detail = "; ".join(assumption.text for assumption in assumptions)
        launch = f" [{item.launch}]" if item.launch else ""
        yield f"{item.rule} {item.kernel}{launch}: {verdict_name(item.verdict)}{': ' + detail if detail else ''}\n"
    for kernel in result.kernels:
        if kernel.name in names:
            yield from (f"open: {gap.reason} ({gap.file}:{gap.line})\n" for gap in kernel.gaps)


def _findings(result: Review, names: list[str]) -> Iterator[str]:
    for finding in result.findings:
        if finding.kernel.partition("<")[0] in names:
            yield f"{finding.span} {finding.severity} {finding.rule} {finding.fingerprint}: {finding.message}\n"


def _distinct(state: State, group: Group, declaration: FunctionDecl) -> Iterator[tuple[Facts, tuple[str, ...]]]:
    gaps: list[Gap] = []
    yield from distinct(state, group, declaration, gaps)
    for gap in gaps:
        raise NoSuchStage(f"{gap.kernel} ({gap.file}:{gap.line}) was not lowered: {gap.reason}")


def _dims(dims: Sequence[Expr]) -> str:
    return ", ".join(show_expr(expr) for expr in dims)


_PRINTERS: dict[str, Callable[[State, Group, FunctionDecl], Iterator[str]]] = {
    "parse": _parse,
    "kernel": _kernel,
    "launches": _launches,
    "facts": _facts,
}
_OF_REVIEW: dict[str, Callable[[Review, list[str]], Iterator[str]]] = {"verdicts": _verdicts, "findings": _findings}
