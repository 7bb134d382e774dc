"""Prints docs/guarantees.md: what is modelled, what verdicts it leads to, and the limits, read off the code itself.

    python docs/guarantees.py > docs/guarantees.md

Every row is reviewed when this runs (``tests/constructs.toml``); ``tests/test_docs.py`` compares.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from prelaunch.analysis.finding import verdict_name
from prelaunch.analysis.review import Options, Review, review
from prelaunch.analysis.rules import page, rules

ROOT = Path(__file__).parent.parent
CLASSES = ("proved", "refuted", "conditional", "unknown")

LIMITS = (
    ("discover", "MAX_BYTES", "bytes of one file"),
    ("discover", "MAX_FILES", "files of one review"),
    ("frontends.cuda.lower.context", "Limits.nodes", "statements of one lowered kernel"),
    ("frontends.cuda.lower.context", "Limits.depth", "nesting of statements or expressions in a kernel"),
    ("frontends.cuda.lower.context", "Limits.inline", "nesting of inlined device functions"),
    ("frontends.cuda.lower.context", "Limits.recursion", "rounds of a recursive device function"),
    ("instances", "MAX_INSTANCES", "template instances of one kernel"),
    ("hostir.machine", "MAX_STEPS", "steps of abstract execution of one host function and what it calls"),
    ("hostir.launches", "MAX_VARIANTS", "variants of one launch whose dimensions depend on conditions"),
    ("replay.trials", "MAX_TRIALS", "concrete launches tried on a kernel under one launch"),
    ("replay.runs", "MAX_STEPS", "steps of one block in one replay"),
    ("replay.runs", "MAX_TOTAL", "steps of all replays of a kernel, in equal parts for its launches"),
    ("jobs", "MEMORY_BYTES", "bytes of address space of one worker (crash guard)"),
)


def construct_rows() -> Iterator[tuple[str, str, str]]:
    """(construct, what lowering made of it, verdicts of all rules) per row of the table."""
    table = tomllib.loads((ROOT / "tests" / "constructs.toml").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for row in table["construct"]:
            path = Path(folder, "k.cu")
            path.write_text(row["code"], "utf-8")
            yield row["name"], *_outcome(review([path], Options(workers=0)))


def _outcome(result: Review) -> tuple[str, str]:
    reasons = dict.fromkeys(gap.reason for gap in result.all_gaps() if gap.rule is None)
    modelled = "; ".join(reasons) if reasons else "modelled"
    names = [verdict_name(judgement.verdict) for judgement in result.all_judgements()]
    counts = [f"{names.count(name)} {name}" for name in CLASSES if name in names]
    return modelled, ", ".join(counts)


def rule_rows() -> Iterator[tuple[str, str, str]]:
    for rule in rules():
        items = re.split(r"^- ", page(rule.id).sections["Limits"], flags=re.MULTILINE)
        yield f"`{rule.id}`", rule.severity, "<br>".join(" ".join(item.split()) for item in items if item.strip())


def limit_rows() -> Iterator[tuple[str, str, str]]:
    for module, name, meaning in LIMITS:
        home, _, field = name.partition(".")
        value = getattr(import_module(f"prelaunch.analysis.{module}"), home)
        value = getattr(value(), field) if field else value
        yield meaning, f"{value:,}", f"`analysis/{module.replace('.', '/')}.py`"


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def document() -> str:
    """The page, ending in a newline."""
    return _PAGE.format(
        constructs=table(("construct", "lowering", "verdicts"), construct_rows()),
        rules=table(("rule", "severity", "limits"), rule_rows()),
        limits=table(("what", "at most", "where"), limit_rows()),
    )


_PAGE = """\
# Guarantees

Made by `python docs/guarantees.py`, which reviews every kernel of `tests/constructs.toml`; a test keeps it true.

Four verdicts, never fewer: **proved** (under the printed assumptions), **refuted** (with a witness), **conditional** \
(holds exactly when a printed contract does, and the launches seen do not decide it), **unknown** (with the reason; \
never shown as clean).

## Constructs

"modelled" means: the whole kernel became IR without an `Opaque` that may touch memory or control; otherwise the \
reason. The verdicts are those of all rules on the kernel of that row.

{constructs}

## Rules

{rules}

## Budgets

Counted, so that the same input gives the same bytes under any load; what exceeds one is reported with the reason.

{limits}
"""


if __name__ == "__main__":
    print(document(), end="")
