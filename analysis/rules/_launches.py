"""What the launch rules share: numbers of a launch, bounds of what is not a number, and how the numbers arose."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis.facts import Facts, RepositoryFacts
from prelaunch.analysis.finding import Finding, Judgement, Refuted, Related, Severity, Unknown, Witness
from prelaunch.analysis.hostir.ranges import bounds
from prelaunch.analysis.kernel import Const, Expr
from prelaunch.analysis.launch import COMBINED, UNREACHED, Launch
from prelaunch.analysis.replay import launch_name, readable
from prelaunch.analysis.rules._sites import related
from prelaunch.analysis.source import Span

AXES = "xyz"


def text(facts: RepositoryFacts, span: Span) -> str:
    """Source text of a span, white space collapsed, at most 60 characters."""
    source = facts.sources.get(span.file)
    found = " ".join(source.text(span).split()) if source is not None else ""
    return found if len(found) <= 60 else found[:59] + "…"


def kernel_facts(facts: RepositoryFacts, launch: Launch) -> Iterator[Facts]:
    """The lowered instances a launch can start: those with its template arguments, else all of its kernel."""
    named = [f for f in facts.kernels if f.kernel.name == launch.kernel]
    exact = [f for f in named if f.kernel.template_args == launch.template_args]
    yield from exact or named


def label(launch: Launch) -> str:
    """``name<args>`` of the instance launched."""
    return launch.kernel + (f"<{', '.join(launch.template_args)}>" if launch.template_args else "")


def number(expr: Expr) -> int | None:
    return int(expr.value) if isinstance(expr, Const) else None


def undecided(what: str, dims: tuple[Expr, Expr, Expr], limits: tuple[int, int, int]) -> str:
    """Which dimensions may exceed their limit, as far as their types and operators tell; empty when none may."""
    found = [
        f"{what}.{axis} = {readable(expr)}"
        for axis, expr, limit in zip(AXES, dims, limits, strict=True)
        if bounds(expr)[1] > limit
    ]
    verb = "is" if len(found) == 1 else "are"
    return f"{', '.join(found)} {verb} not decided by the code" if found else ""


def origin(facts: RepositoryFacts, launch: Launch) -> str:
    """How the numbers came about: the declarations that hold them, the calls that pass them."""
    parts = [f"{text(facts, s)} at line {s.line}" for s in launch.dims_span if s != launch.span]
    parts += [f"called as {text(facts, s)} at {s.file}:{s.line}" for s in reversed(launch.via)]
    return "; " + "; ".join(parts[:4]) if parts else ""


def places(launch: Launch, what: str) -> tuple[Related, ...]:
    """Calls that lead to the launch and, when ``what`` names them, the declarations of its dims; at most four lines."""
    found = [(s, what) for s in launch.dims_span if s != launch.span and what]
    found += [(s, "called here") for s in reversed(launch.via)]
    return related(launch.span, found)


def refuted(
    facts: RepositoryFacts,
    rule: str,
    launch: Launch,
    message: str,
    *,
    what: str = "",
    effect: str,
    fix: str,
    severity: Severity = "error",
) -> Judgement:
    """The launch cannot start: its numbers are constants of the code, so no replay is needed to confirm them.

    Unknown for a launch that nothing reaches, or whose numbers may never meet: what rules it out may keep it right.
    """
    for doubt in (UNREACHED, COMBINED):
        if doubt in launch.notes:
            return Judgement(rule, label(launch), launch_name(launch), Unknown(f"{message}; {doubt}"))
    finding = Finding(
        rule=rule,
        severity=severity,
        evidence="confirmed",
        message=message,
        span=launch.span,
        kernel=label(launch),
        key=text(facts, launch.span),
        related=places(launch, what),
        launch=launch_name(launch),
        witness=Witness(config=launch.config(), detail=message),
        effect=effect,
        fix=fix,
    )
    return Judgement(rule, label(launch), launch_name(launch), Refuted(finding))
