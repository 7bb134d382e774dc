"""launch.unchecked: nobody reads the error of a launch."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis.facts import RepositoryFacts
from prelaunch.analysis.finding import Finding, Judgement, Proved, Refuted
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.replay import launch_name
from prelaunch.analysis.rules._launches import label, text
from prelaunch.analysis.rules.base import Rule

LISTED = 10


def check(facts: RepositoryFacts) -> Iterator[Judgement]:
    kernels = {f.kernel.name for f in facts.kernels}
    sites: dict[tuple[str, int, int], list[Launch]] = {}
    for launch in facts.launches:
        if launch.function not in kernels:  # launched from a kernel: its errors are the device runtime's
            sites.setdefault((launch.span.file, launch.span.start, launch.span.end), []).append(launch)
    unread = [group[0] for _, group in sorted(sites.items()) if not any(launch.checked for launch in group)]
    if not sites:
        return
    yield Judgement(RULE.id, "", "", Refuted(_finding(facts, unread, len(sites))) if unread else Proved())


def _finding(facts: RepositoryFacts, unread: list[Launch], total: int) -> Finding:
    """One finding for the repository, at the first site."""
    first = unread[0]
    many = f"{len(unread)} of {total} launches" if len(unread) > 1 else f"the launch of {label(first)}"
    return Finding(
        rule=RULE.id,
        severity="warning",
        evidence="proved",
        message=f"errors of {many} are never read: no query follows in {first.function}() or its callers",
        span=first.span,
        kernel=label(first),
        key=text(facts, first.span),
        launch=launch_name(first),
        also=tuple(f"{x.span.file}:{x.span.line} {label(x)}" for x in unread[1 : LISTED + 1]),
        count=len(unread),
        effect="a launch that fails (bad configuration, no image for the device) leaves its outputs stale, unnoticed",
        fix="check cudaGetLastError() after each launch",
    )


RULE = Rule(
    id="launch.unchecked",
    severity="warning",
    summary="the error of a launch is never read",
    check_repository=check,
)
