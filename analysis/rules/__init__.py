"""The registry is this folder: a rule is ``X.py`` with a ``RULE`` and its page ``X.md`` beside it.

``base.py`` and modules whose name begins with ``_`` are helpers, not rules. The module of rule ``family.some-name``
is ``family_some_name``. A page without a module, a module without a page, a page without the fixed headings or an id
that does not match its file raises ``RegistryError``; nothing is listed by hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from prelaunch.analysis.rules.base import Rule

HEADINGS = ("What it proves", "Why it matters", "Bad", "Good", "How to fix", "Limits", "Sources")
FAMILIES = frozenset(
    {"race", "sync", "warp", "order", "async", "mem", "int", "num", "launch", "host", "perf", "tensor"}
)
_ID = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")


class RegistryError(Exception):
    """The folder of rules contradicts itself, or a rule was asked for that is not in it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A rule's page: ``title`` is the rule id, ``lead`` the text before the first heading, sections by heading."""

    text: str
    title: str
    lead: str
    sections: dict[str, str]


def module_name(rule_id: str) -> str:
    """``sync.barrier-divergence`` -> ``sync_barrier_divergence``."""
    return rule_id.replace(".", "_").replace("-", "_")


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, ordered by id. Raises RegistryError when modules and pages do not pair up."""
    found = sorted((load(name) for name in paired(Path(__file__).parent)), key=lambda rule: rule.id)
    return tuple(found)


def paired(folder: Path) -> list[str]:
    """Names of the rule modules in ``folder``, each with its page; RegistryError when one lacks the other."""
    modules = {p.stem for p in folder.glob("*.py") if p.stem != "base" and not p.stem.startswith("_")}
    pages = {p.stem for p in folder.glob("*.md")}
    complaints = [f"{name}.py has no page {name}.md" for name in sorted(modules - pages)]
    complaints += [f"{name}.md has no module {name}.py" for name in sorted(pages - modules)]
    if complaints:
        raise RegistryError("; ".join(complaints))
    return sorted(modules)


def load(name: str) -> Rule:
    """The rule of module ``name``. Raises RegistryError when it is malformed or stands in the wrong file."""
    rule = getattr(import_module(f"{__name__}.{name}"), "RULE", None)
    if not isinstance(rule, Rule):
        raise RegistryError(f"{name}.py defines no RULE")
    if not _ID.fullmatch(rule.id) or rule.id.partition(".")[0] not in FAMILIES:
        raise RegistryError(f"{name}.py: {rule.id!r} is not family.name with a known family")
    if module_name(rule.id) != name:
        raise RegistryError(f"{name}.py holds rule {rule.id}, which belongs into {module_name(rule.id)}.py")
    if (rule.check is None) == (rule.check_repository is None):
        raise RegistryError(f"{rule.id}: needs either check or check_repository")
    return rule


def find(rule_id: str) -> Rule:
    """The rule with this id. Raises RegistryError that names close ids."""
    for rule in rules():
        if rule.id == rule_id:
            return rule
    from difflib import get_close_matches

    close = get_close_matches(rule_id, [rule.id for rule in rules()], n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; `prelaunch rules` lists them"
    raise RegistryError(f"no rule {rule_id}{hint}")


def select(wanted: tuple[str, ...]) -> tuple[Rule, ...]:
    """Rules named by id or by family (``launch``); all of them when ``wanted`` is empty. Raises RegistryError."""
    if not wanted:
        return rules()
    chosen: dict[str, Rule] = {}
    for word in wanted:
        family = [rule for rule in rules() if rule.id.partition(".")[0] == word]
        for rule in family or [find(word)]:
            chosen[rule.id] = rule
    return tuple(chosen[rule_id] for rule_id in sorted(chosen))


def page(rule_id: str) -> Page:
    """The rule's page, as ``prelaunch explain`` prints it. Raises RegistryError when a heading is missing."""
    return parse_page((Path(__file__).parent / f"{module_name(find(rule_id).id)}.md").read_text("utf-8"), rule_id)


def parse_page(text: str, rule_id: str) -> Page:
    """Splits a page at its ``##`` headings, which must be HEADINGS in that order."""
    parts = re.split(r"^## +(.+?) *$", text, flags=re.MULTILINE)
    head, headings, bodies = parts[0].strip(), parts[1::2], parts[2::2]
    first, _, lead = head.partition("\n")
    title = first.removeprefix("#").strip().strip("`")
    if title != rule_id:
        raise RegistryError(f"page of {rule_id} is titled {title!r}")
    if tuple(headings) != HEADINGS:
        raise RegistryError(f"page of {rule_id} has headings {headings}, not {list(HEADINGS)}")
    sections = {heading: body.strip() for heading, body in zip(headings, bodies, strict=True)}
    empty = [heading for heading, body in sections.items() if not body]
    if empty:
        raise RegistryError(f"page of {rule_id} says nothing under {empty}")
    return Page(text, title, lead.strip(), sections)
