"""What the launch rules share: numbers of a launch, what is not understood of it, and how the numbers arose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prelaunch.analysis.facts import Facts, RepositoryFacts
from prelaunch.analysis.finding import Assumption, Finding, Judgement, Refuted, Related, Severity, Unknown, Witness
from prelaunch.analysis.kernel import Const, Expr
from prelaunch.analysis.launch import COMBINED, UNREACHED, Launch
from prelaunch.analysis.replay import launch_name
from prelaunch.analysis.rules._contracts import understood
from prelaunch.analysis.rules._sites import related
from prelaunch.analysis.source import Span

AXES = "xyz"
POSITIVE = Assumption("sizes passed by host code are positive", "default")


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


def lost(launch: Launch, sizes: Iterable[tuple[str, Expr]]) -> str:
    """Which sizes host code gives by means that are not understood, with the reason; empty when none is."""
    parts = []
    for name, expr in sizes:
        if not understood(expr):
            reason = next((n.partition(": ")[2] for n in launch.notes if n.startswith(f"{name}: ")), "")
            parts.append(f"{name} is not understood" + (f": {reason}" if reason else ""))
    return ", ".join(parts)


def origin(facts: RepositoryFacts, launch: Launch, dims: tuple[Span, ...]) -> str:
    """How the numbers came about: the declarations that give them, the calls that pass them."""
    held = ((s, text(facts, s)) for s in dims)
    parts = [f"{shown} at line {s.line}" for s, shown in held if set(shown) & set("=({")]
    parts += [f"called as {text(facts, s)} at {s.file}:{s.line}" for s in reversed(launch.via)]
    return "; " + "; ".join(list(dict.fromkeys(parts))[:4]) if parts else ""


def places(facts: RepositoryFacts, launch: Launch, dims: tuple[Span, ...], what: str) -> tuple[Related, ...]:
    """The declarations of ``dims`` and the calls that lead to the launch; at most four lines."""
    found = [(s, f"the {what}" if _is_dim3(facts, s) else f"used for the {what}") for s in dims]
    found += [(s, "called here") for s in reversed(launch.via)]
    return related(launch.span, found)


def _is_dim3(facts: RepositoryFacts, declarator: Span) -> bool:
    """Whether the declaration that ``declarator`` stands in starts with ``dim3``."""
    source = facts.sources.get(declarator.file)
    before = source.data[max(0, declarator.start - 200) : declarator.start] if source is not None else b""
    return b"dim3" in before[max(before.rfind(c) for c in b";{}") + 1 :]


def refuted(
    facts: RepositoryFacts,
    rule: str,
    launch: Launch,
    message: str,
    *,
    what: str = "",
    dims: tuple[Span, ...] = (),
    assumptions: tuple[Assumption, ...] = (),
    effect: str,
    fix: str,
    severity: Severity = "error",
) -> Judgement:
    """The launch cannot start: its numbers are constants of the code, which closes the question without a replay.

    ``dims`` are the declarations that give the faulty ``what``.

    Unknown for a launch that nothing reaches, or whose numbers may never meet: what rules it out may keep it right.
    """
    for doubt in (UNREACHED, COMBINED):
        if doubt in launch.notes:
            return Judgement(rule, label(launch), launch_name(launch), Unknown(f"{message}; {doubt}"))
    config = launch.config()
    finding = Finding(
        rule=rule,
        severity=severity,
        evidence="proved",
        message=message,
        span=launch.span,
        kernel=label(launch),
        key=text(facts, launch.span),
        related=places(facts, launch, dims, what),
        launch=launch_name(launch),
        assumptions=assumptions,
        witness=Witness(config) if config is not None else None,
        effect=effect,
        fix=fix,
    )
    return Judgement(rule, label(launch), launch_name(launch), Refuted(finding))
