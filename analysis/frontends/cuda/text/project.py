"""Loading a repository: read every file, parse it, table its declarations.

Postconditions of ``load_project``: every path is a key of ``files`` or stands in ``failures`` with the reason; tables
are filled in order of (path, offset); nothing outside the root was read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prelaunch.analysis.frontends.cuda.text.aliases import Aliases
from prelaunch.analysis.frontends.cuda.text.conditions import decide, predefined
from prelaunch.analysis.frontends.cuda.text.declarations import (
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
from prelaunch.analysis.frontends.cuda.text.includes import Resolver, reach
from prelaunch.analysis.frontends.cuda.text.index import Declarations, index_file
from prelaunch.analysis.frontends.cuda.text.parse import parse_file
from prelaunch.analysis.frontends.cuda.text.rescue import from_errors, from_macros, kernel_macros
from prelaunch.analysis.frontends.cuda.text.scan import Scan, scan
from prelaunch.analysis.frontends.cuda.text.syntax import ParseLimit
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

    file_bytes: int = 4 << 20
    total_bytes: int = 256 << 20
    files: int = 20_000


def load_project(
    root: Path,
    paths: Sequence[Path] | None = None,
    *,
    limits: Limits | None = None,
    defines: Mapping[str, str] | None = None,
) -> Project:
    """Reads ``paths`` (relative to ``root`` or absolute), or every C++ and CUDA file under ``root``. Never raises on
    what files contain; an unreadable file stands in ``failures``. ``defines`` are macros of the build (``-D``)."""
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
    return _build(project, [sources[path] for path in sorted(sources)], defines)


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


def _build(project: Project, sources: list[Source], defines: Mapping[str, str] | None = None) -> Project:
    scans: dict[str, Scan] = {}
    for source in sources:
        try:
            scans[source.path] = scan(source)
        except ParseLimit as limit:
            project.failures.append((source.path, str(limit)))
    _resolve_includes(project, scans)
    _decide_conditions(project, scans, predefined(defines))
    aliases = Aliases(project)
    related = _related(project, scans)
    for path, scanned in scans.items():
        try:
            project.files[path] = parse_file(scanned, aliases, project, path in related)
        except ParseLimit as limit:
            project.failures.append((path, str(limit)))
    written = kernel_macros(project, aliases)
    for path, file in project.files.items():
        found = index_file(file, aliases)
        found.functions = [f for f in found.functions if f.name not in written]
        _add(project, path, found)
        if path in related:
            for more in from_macros(scans[path], written, project, aliases):
                _add(project, path, more)
            for more in from_errors(scans[path], file, found, project, aliases):
                _add(project, path, more)
    return project


def _resolve_includes(project: Project, scans: dict[str, Scan]) -> None:
    resolver = Resolver(scans)
    for path, scanned in scans.items():
        places = project.direct.setdefault(path, [])
        for spelling, system, offset in scanned.includes:
            target = resolver.resolve(spelling, system, path)
            if target is not None and target != path:
                places.append((target, offset))
                project.included_at.setdefault(target, []).append((path, offset))
    project.reach = reach({path: tuple(dict.fromkeys(t for t, _ in d)) for path, d in project.direct.items()})


def _decide_conditions(project: Project, scans: dict[str, Scan], given: dict[str, Macro]) -> None:
    """Chooses ``#if`` branches, included files before the files that include them, and tables the macros."""
    left: dict[str, dict[str, Macro | None]] = {}
    active: dict[str, set[int]] = {}
    for path in _included_first(project):
        scanned = scans[path]

        def outside(name: str, path: str = path) -> Macro | None:
            for other in project.reach[path]:
                if name in left.get(other, {}):
                    return left[other][name]
            return given.get(name)

        left[path], active[path] = decide(scanned.directives, scanned.groups, scanned.masked, scanned.macros, outside)
    for path, scanned in scans.items():
        for macro in scanned.macros:
            macro = replace(macro, active=macro.span.start in active[path])
            project.macros.setdefault(macro.name, []).append(macro)


_CUDA = re.compile(rb"__global__|__device__|__shared__|__constant__|<<<|\bcuda|\bcu[A-Z]\w+\(|\bhip")


def _related(project: Project, scans: dict[str, Scan]) -> set[str]:
    """Files with CUDA in them, those they include and those that include one of them."""
    own = {path for path, scanned in scans.items() if _CUDA.search(scanned.masked)}
    own |= {path for path, reached in project.reach.items() if not own.isdisjoint(reached)}
    return own.union(*(project.reach[path] for path in own))


def _included_first(project: Project) -> list[str]:
    """Every file after the files it includes, as far as cycles allow."""
    order: list[str] = []
    seen: set[str] = set()
    for start in project.direct:
        stack = [(start, False)]
        while stack:
            path, done = stack.pop()
            if done:
                order.append(path)
            elif path not in seen:
                seen.add(path)
                stack.append((path, True))
                stack += [(t, False) for t, _ in reversed(project.direct[path]) if t not in seen]
    return order


def _add(project: Project, path: str, found: Declarations) -> None:
    project.failures += [(path, why) for why in found.skipped[:1]]
    for function in found.functions:
        project.functions.setdefault(function.name, []).append(function)
    for record in found.records:
        project.records.setdefault(record.name, []).append(record)
    for alias in found.aliases:
        project.aliases.setdefault(alias.name, []).append(alias)
    for variable in found.variables:
        project.variables.setdefault(variable.name, []).append(variable)
