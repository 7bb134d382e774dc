"""Documents say what is so: printed output is printed again, tables are made again, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from prelaunch.analysis.rules import rules

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])


def script(name: str) -> ModuleType:
    """A script of ``docs/`` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_readme_shows_what_the_commands_print() -> None:
    consoles = script("consoles")
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(consoles.BLOCK.findall(text)) >= 2
    same = [consoles.DURATION.sub("0.0s", version) for version in (text, consoles.renew(text))]
    assert same[0] == same[1], "run `python docs/consoles.py`"


def test_the_guarantees_are_those_of_this_code() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    assert page == script("guarantees").document(), "run `python docs/guarantees.py > docs/guarantees.md`"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_paths_lead_somewhere(path: Path) -> None:
    text = path.read_text("utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", text):
        assert (path.parent / target).exists(), f"{path.name}: {target}"
    for target in re.findall(r"`((?:docs|tests|analysis|agents|examples|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / target).exists() or "family_some_name" in target, f"{path.name}: {target}"


def test_rooms_of_the_architecture_page_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for target in re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text):
        places = (ROOT / target, ROOT / "analysis" / target)
        assert any(place.exists() for place in places), target


def test_the_examples_table_names_every_rule_planted() -> None:
    text = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert set(re.findall(r"\| `([a-z]+\.[a-z-]+)` \|", text)) == {rule.id for rule in rules()}


def test_the_changelog_names_the_rules() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert not [rule.id for rule in rules() if f"`{rule.id}`" not in text]


def test_no_machine_is_named() -> None:
    """No path of a developer's machine, no host of a package mirror."""
    pattern = re.compile(r"/(?:root|home/\w+|tmp|work)/\w")
    for path in PAGES:
        assert not pattern.search(path.read_text("utf-8")), path.name
