"""Loading a repository: read every file, parse it, table its declarations.

Postconditions of ``load_project``: every path is a key of ``files`` or stands in ``failures`` with the reason; tables
are filled in order of (path, offset); nothing outside the root was read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prelaunch.analysis.frontends.cuda.declarations import (
    AliasDecl,
    Declared,
    Dropped,
    FunctionDecl,
    Macro,
    ParsedFile,
    Project,
    RecordDecl,
    Target,
    VariableDecl,
)
from prelaunch.analysis.frontends.cuda.includes import Resolver, all_directives, reach, scan_macros
from prelaunch.analysis.frontends.cuda.index import index_file
from prelaunch.analysis.frontends.cuda.parse import parse_file
from prelaunch.analysis.source import Source

__all__ = [
    "AliasDecl",
    "Declared",
    "Dropped",
    "FunctionDecl",
    "Limits",
    "Macro",
    "ParsedFile",
    "Project",
    "RecordDecl",
    "Target",
    "VariableDecl",
    "load_project",
    "project_from_text",
]

SUFFIXES = frozenset(
    (
        *(".cu", ".cuh", ".hip", ".cuinc"),
        *(".c", ".cc", ".cpp", ".cxx", ".c++", ".C"),
        *(".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".inc", ".tpp", ".ipp", ".impl"),
    )
)
_SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on what is read."""

    file_bytes: int = 8 << 20
    total_bytes: int = 256 << 20
    files: int = 20_000


def load_project(root: Path, paths: Sequence[Path] | None = None, *, limits: Limits | None = None) -> Project:
    """Reads ``paths`` (relative to ``root`` or absolute), or every C++ and CUDA file under ``root``. Never raises on
    what files contain; an unreadable file stands in ``failures``."""
    limits = limits or Limits()
    root = Path(os.path.realpath(root))
    project = Project(str(root))
    sources: dict[str, Source] = {}
    total = 0
    for path in discover(root) if paths is None else paths:
        source = _read(root, path, limits, total, len(sources), project.failures)
        if source is not None and source.path not in sources:
            sources[source.path] = source
            total += len(source.data)
    return _build(project, [sources[path] for path in sorted(sources)])


def project_from_text(text: str, path: str = "k.cu") -> Project:
    """A project of one file held in memory."""
    return _build(Project(""), [Source(path, text.encode("utf-8", "surrogateescape"))])


def discover(root: Path) -> list[Path]:
    """C++ and CUDA files under ``root`` by suffix, sorted; symlinked folders are not followed."""
    found = []
    for folder, names, files in os.walk(root, followlinks=False):
        names[:] = sorted(n for n in names if n not in _SKIPPED_FOLDERS)
        found += [Path(folder, name) for name in files if os.path.splitext(name)[1] in SUFFIXES]
    return sorted(found)


def _read(
    root: Path, path: Path, limits: Limits, total: int, count: int, failures: list[tuple[str, str]]
) -> Source | None:
    absolute = path if path.is_absolute() else root / path
    name = Path(os.path.relpath(absolute, root)).as_posix()
    try:
        real = Path(os.path.realpath(absolute, strict=True))
        if not real.is_relative_to(root):
            raise OSError("leads outside the repository")
        if not real.is_file():
            raise OSError("not a regular file")
        size = real.stat().st_size
        if size > limits.file_bytes:
            raise OSError(f"{size} bytes, more than the {limits.file_bytes} read")
        if total + size > limits.total_bytes or count >= limits.files:
            raise OSError("the repository is larger than the limits")
        return Source(name, real.read_bytes())
    except (OSError, ValueError) as error:
        failures.append((name, str(getattr(error, "strerror", None) or error)))
        return None


def _build(project: Project, sources: list[Source]) -> Project:
    for source in sources:
        masked, found = all_directives(source.data)
        for macro in scan_macros(source, masked, found):
            project.macros.setdefault(macro.name, []).append(macro)
    for source in sources:
        project.files[source.path] = parse_file(source)
    resolver = Resolver(project.files)
    direct = {
        path: tuple(
            dict.fromkeys(
                t
                for spelling, system, _ in file.includes
                if (t := resolver.resolve(spelling, system, path)) is not None
            )
        )
        for path, file in project.files.items()
    }
    project.reach = reach(direct)
    for file in project.files.values():
        _add(project, file)
    return project


def _add(project: Project, file: ParsedFile) -> None:
    found = index_file(file)
    for function in found.functions:
        project.functions.setdefault(function.name, []).append(function)
    for record in found.records:
        project.records.setdefault(record.name, []).append(record)
    for alias in found.aliases:
        project.aliases.setdefault(alias.name, []).append(alias)
    for variable in found.variables:
        project.variables.setdefault(variable.name, []).append(variable)
