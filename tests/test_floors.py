"""Imports only go down: analysis <- skills <- agents; prompts is data. Files stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BELOW = {
    "prompts": {"prompts"},
    "analysis": {"analysis"},
    "skills": {"skills", "analysis", "prompts"},
    "agents": {"agents", "skills", "analysis", "prompts"},
}
FILES = [path for floor in BELOW for path in sorted((ROOT / floor).rglob("*.py"))]
MAX_LINES = 450


def imported(path: Path) -> set[str]:
    """Second parts of every ``prelaunch.X`` import anywhere in the file, local ones too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
            if node.module == "prelaunch":
                names = [f"prelaunch.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("prelaunch.")}
    return found


@pytest.mark.parametrize("floor", BELOW)
def test_imports_only_go_down(floor: str) -> None:
    for path in sorted((ROOT / floor).rglob("*.py")):
        upward = imported(path) - BELOW[floor]
        assert not upward, f"{path.relative_to(ROOT)} imports {sorted(upward)} from a floor above"


def test_only_one_file_imports_a_solver() -> None:
    solvers = {"z3", "bitwuzla"}
    for path in FILES:
        words = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert path.name == "smt.py" or not words & solvers, f"{path.relative_to(ROOT)} imports a solver"


def test_only_one_file_runs_git() -> None:
    for path in FILES:
        if path.name != "git.py":
            assert '"git"' not in path.read_text("utf-8"), f"{path.relative_to(ROOT)}: git calls belong into git.py"


def test_files_stay_small() -> None:
    for path in FILES:
        lines = len(path.read_text("utf-8").splitlines())
        limit = MAX_LINES if path.name != "kernel.py" else 800  # one grammar, one file
        assert lines <= limit, f"{path.relative_to(ROOT)} has {lines} lines; split it"
