"""What is in the folders is in the wheel: a missing package works in a checkout and fails once installed."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

import prelaunch

ROOT = Path(__file__).parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FLOORS = ("agents", "analysis", "prompts", "skills")


def packages() -> set[str]:
    """Every folder with an ``__init__.py``; ``agents/front`` is ``prelaunch`` itself."""
    found = {
        ".".join(("prelaunch", *path.parent.relative_to(ROOT).parts))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("__init__.py")
    }
    return (found - {"prelaunch.agents.front"}) | {"prelaunch"}


def test_every_package_is_listed() -> None:
    assert set(CONFIG["tool"]["setuptools"]["packages"]) == packages()


def test_no_module_lies_outside_a_package() -> None:
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"{path.relative_to(ROOT)} would not be installed"


@pytest.mark.parametrize("floor", FLOORS)
def test_data_files_are_listed(floor: str) -> None:
    data = CONFIG["tool"]["setuptools"]["package-data"]
    for path in (ROOT / floor).rglob("*"):
        if not path.is_file() or path.suffix in (".py", ".pyc") or path.name == "py.typed":
            continue
        package = path.parent
        while not (package / "__init__.py").exists():
            package = package.parent
        name = ".".join(("prelaunch", *package.relative_to(ROOT).parts))
        inside = path.relative_to(package).as_posix()
        patterns = data.get(name, [])
        assert any(Path(inside).match(pattern) for pattern in patterns), (
            f"{path.relative_to(ROOT)} is in no package-data"
        )


def test_versions_agree() -> None:
    assert prelaunch.__version__ == CONFIG["project"]["version"] == importlib.metadata.version("prelaunch")


def test_typing_links_show_every_floor() -> None:
    for floor in FLOORS:
        assert (ROOT / ".typing" / "prelaunch" / floor).resolve() == ROOT / floor
        assert (ROOT / floor / "py.typed").exists()


def test_public_api_is_lazy_and_complete() -> None:
    for name in prelaunch.__all__:
        assert getattr(prelaunch, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        prelaunch.missing  # noqa: B018  # the access is the test


def test_dependencies_are_what_is_imported() -> None:
    """Core modules import the standard library, ourselves and the declared dependencies; none is declared in vain."""
    declared = {
        re.split(r"[<>=!~\[ ]", item, maxsplit=1)[0].replace("-", "_") for item in CONFIG["project"]["dependencies"]
    }
    extras = {
        re.split(r"[<>=!~\[ ]", item, maxsplit=1)[0].replace("-", "_")
        for items in CONFIG["project"]["optional-dependencies"].values()
        for item in items
    }
    imported: set[str] = set()
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    imported.add((node.module or "").partition(".")[0])
    foreign = imported - sys.stdlib_module_names - {"prelaunch"}
    assert declared - foreign == set(), "declared but never imported"
    assert foreign - declared - extras - {"elftools"} == set(), "imported but not declared"
