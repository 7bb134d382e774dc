"""Which definitions a name can mean across files: what is included, and what is linked."""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project


def visible(project: Project, file: str, other: str) -> bool:
    """Whether ``file`` is ``other`` or includes it."""
    return file == other or other in project.reach.get(file, ())


def callees(project: Project, name: str, file: str) -> list[FunctionDecl]:
    """Definitions a call of ``name`` in ``file`` can mean: those it sees; else the one its declaration stands for.

    A definition in a file that is not included counts when a declaration is seen, or when the project has only one;
    among several the ones in the same folder are taken.
    """
    found = project.lookup_functions(name, file)
    bodies = [f for f in found if f.body is not None]
    near = [f for f in bodies if visible(project, file, f.file.source.path)]
    if near or not bodies:
        return near
    declared = any(visible(project, file, f.file.source.path) for f in found if f.body is None)
    folder = file.rpartition("/")[0]
    beside = [f for f in bodies if f.file.source.path.rpartition("/")[0] == folder]
    if declared and beside:
        return beside
    paths = {f.file.source.path for f in bodies}
    return bodies if len(paths) == 1 and (declared or len(bodies) == 1) else []


def kernel_named(project: Project, name: str, file: str, count: int) -> FunctionDecl | None:
    """The kernel ``name`` means in ``file`` for ``count`` arguments: near definitions and primary templates first."""
    found = [f for f in project.lookup_functions(name, file) if f.is_kernel]
    if not found:
        simple = name.rpartition("::")[2]
        found = [f for f in project.lookup_functions(simple, file) if f.is_kernel] if simple != name else []
    near = [f for f in found if visible(project, file, f.file.source.path)]
    candidates = near or found
    bodies = [f for f in candidates if f.body is not None] or candidates
    fitting = [f for f in bodies if len(f.parameters) == count or not count]
    chosen = fitting or [f for f in bodies if len(f.parameters) > count] or bodies
    primary = [f for f in chosen if not f.specialisation]
    return next(iter(primary or chosen), None)
