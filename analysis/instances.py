"""Step 4 of a review: which launches reach which kernel, and with which template arguments.

Postconditions: groups stand in order of (file, offset) of the kernel's text; a launch belongs to exactly one kernel,
the nearest definition of that name as seen from the launch, or stands in ``unpaired``; a kernel has at least one
instance, at most MAX_INSTANCES (the rest is counted in ``dropped``); equal launches count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project
from prelaunch.analysis.host import resolve_kernel
from prelaunch.analysis.launch import Launch

MAX_INSTANCES = 64


@dataclass(frozen=True, slots=True)
class Instance:
    """Template arguments as printed and the launches that use them; ``()`` for a kernel that is no template."""

    template_args: tuple[str, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One kernel definition (``index`` in ``Project.kernels()``) with its instances."""

    index: int
    name: str
    instances: tuple[Instance, ...]
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Pairing:
    groups: tuple[Group, ...]
    unpaired: tuple[Launch, ...]


def pair(project: Project, launches: Iterable[Launch], reviewed: Callable[[str], bool]) -> Pairing:
    """Groups for every kernel in a file that is ``reviewed``."""
    kernels = project.kernels()
    index = {id(kernel): number for number, kernel in enumerate(kernels)}
    found: dict[int, list[Launch]] = {}
    unpaired: list[Launch] = []
    for launch in dict.fromkeys(launches):
        target = _target(project, launch)
        if target is None:
            unpaired.append(launch)
        else:
            found.setdefault(index[id(target)], []).append(launch)
    groups = tuple(
        _group(project, number, kernel, found.get(number, []))
        for number, kernel in enumerate(kernels)
        if reviewed(kernel.file.source.path)
    )
    return Pairing(groups, tuple(unpaired))


def _target(project: Project, launch: Launch) -> FunctionDecl | None:
    """The definition a launch starts: an explicit specialisation for its template arguments before the primary."""
    chosen = resolve_kernel(project, launch)
    if chosen is not None and launch.template_args:
        for other in project.lookup_functions(chosen.qualified, launch.span.file):
            if other.is_kernel and other.body is not None and other.specialisation == launch.template_args:
                return other
    return chosen if chosen is not None and chosen.body is not None else None


def _group(project: Project, index: int, kernel: FunctionDecl, launches: list[Launch]) -> Group:
    if kernel.template is None:
        return Group(index, kernel.qualified, (Instance(kernel.specialisation, tuple(launches)),))
    by_args: dict[tuple[str, ...], list[Launch]] = {}
    for launch in launches:
        by_args.setdefault(launch.template_args, []).append(launch)
    for declared in project.lookup_functions(kernel.qualified, kernel.file.source.path):
        if declared.body is None and declared.specialisation and declared.target == "global":
            by_args.setdefault(declared.specialisation, [])
    ordered = [Instance(args, tuple(by_args[args])) for args in by_args] or [Instance((), ())]
    return Group(index, kernel.qualified, tuple(ordered[:MAX_INSTANCES]), max(0, len(ordered) - MAX_INSTANCES))
