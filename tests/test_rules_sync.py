"""Barrier and mask rules on kernels of our own: each marked line is found, with its severity, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Conditional, Finding, Judgement, Proved, Refuted
from prelaunch.analysis.frontends.cuda import lower_kernel, project_from_text
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.instances import pair
from prelaunch.analysis.rules import find

KERNELS = Path(__file__).parent / "kernels"
RULES = (
    "sync.barrier-divergence", "sync.barrier-early-exit", "sync.barrier-loop-trip", "sync.named-barrier-id",
    "warp.shuffle-mask",
)  # fmt: skip
FILES = ("barriers-uniform.cu", "barriers-divergent.cu", "masks.cu", "named-barriers.cu")


def judged(text: str, rules: tuple[str, ...] = RULES) -> list[Judgement]:
    """All verdicts of ``rules`` on a one-file project, kernel by kernel."""
    project = project_from_text(text)
    sources = {path: file.source for path, file in project.files.items()}
    found: list[Judgement] = []
    for group in pair(project, find_launches(project), lambda path: True).groups:
        for instance in group.instances:
            kernel = lower_kernel(project, project.kernels()[group.index], instance.template_args)
            facts = Facts(kernel, instance.launches, sources)
            for rule in (find(name) for name in rules):
                assert rule.check is not None
                found.extend(rule.check(facts))
    return found


def findings(judgements: list[Judgement]) -> list[Finding]:
    verdicts = [j.verdict for j in judgements if isinstance(j.verdict, Refuted | Conditional)]
    return [v.finding for v in verdicts if v.finding is not None]


def marks(text: str) -> set[tuple[str, str, int]]:
    """(severity, rule, line) of every ``// error: [rule]``."""
    return {
        (match[1], match[2], number)
        for number, line in enumerate(text.splitlines(), 1)
        for match in re.finditer(r"// (error|warning): \[([\w.-]+)\]", line)
    }


@pytest.mark.parametrize("name", FILES)
def test_marked_lines_and_no_others(name: str) -> None:
    text = (KERNELS / name).read_text()
    found = {(f.severity, f.rule, f.span.line) for f in findings(judged(text))}
    assert found == marks(text)


def test_uniform_barriers_are_proved_not_just_quiet() -> None:
    judgements = judged((KERNELS / "barriers-uniform.cu").read_text())
    open_ = [(j.rule, j.kernel, j.verdict) for j in judgements if not isinstance(j.verdict, Proved)]
    assert open_ == []
    assert {j.rule for j in judgements} >= {"sync.barrier-divergence", "sync.barrier-early-exit"}
