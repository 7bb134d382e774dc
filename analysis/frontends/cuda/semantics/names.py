"""What a name means: scopes first, then members of enclosing classes, then the project's declarations, then CUDA's own.

A declaration of the project counts when it is at namespace scope, or a member of a class that encloses the place of
use; what the file sees through its includes goes before the rest of the project.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import enums, records, typenames
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import builtin_type
from prelaunch.analysis.frontends.cuda.semantics.scope import Binding, Scope
from prelaunch.analysis.frontends.cuda.semantics.types import CType, Record, TemplateArgument
from prelaunch.analysis.frontends.cuda.text.declarations import (
    AliasDecl,
    FunctionDecl,
    Macro,
    ParsedFile,
    RecordDecl,
    VariableDecl,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.project import Project

Declared = TypeVar("Declared", FunctionDecl, RecordDecl, AliasDecl, VariableDecl)


@contextmanager
def inside(ctx: Context, file: ParsedFile, scope: Scope) -> Iterator[None]:
    """Resolve names as seen from ``scope`` in ``file``; spans of nodes lowered inside are those of ``file``."""
    outer = ctx.file, ctx.scope, ctx.macro_site
    if file is not ctx.file:
        ctx.macro_site = None
    ctx.file, ctx.scope = file, scope
    try:
        yield
    finally:
        ctx.file, ctx.scope, ctx.macro_site = outer


def namespace_scope(qualified: str) -> Scope:
    """A fresh outermost scope for something declared as ``qualified``."""
    return Scope(None, namespace=qualified.rpartition("::")[0])


def enclosing(scope: Scope) -> tuple[str, ...]:
    """Qualified names of namespaces and classes around ``scope``, innermost first, without the global one."""
    found: list[str] = []
    current: Scope | None = scope
    while current is not None:
        name = current.namespace
        while name:
            if name not in found:
                found.append(name)
            name = name.rpartition("::")[0]
        current = current.parent
    return tuple(found)


def ranked(ctx: Context, candidates: list[Declared]) -> list[Declared]:
    """Candidates that an unqualified name may mean here, best first."""
    if not candidates:
        return candidates
    around = enclosing(ctx.scope)
    scored: list[tuple[int, int, Declared]] = []
    for position, item in enumerate(candidates):
        owner = item.qualified.rpartition("::")[0]
        if owner in around:
            scored.append((around.index(owner), position, item))
        elif not owner or not _is_record(ctx, owner):
            scored.append((1000, position, item))
    scored.sort(key=lambda entry: entry[:2])
    return [entry[2] for entry in scored]


def _is_record(ctx: Context, qualified: str) -> bool:
    return any(
        r.qualified == qualified and not r.kind.startswith("enum")
        for r in ctx.project.records.get(qualified.rpartition("::")[2], ())
    )


def visible(ctx: Context, path: str) -> bool:
    """Whether a declaration in ``path`` can be seen here: in this file, in what it includes, or in the files that
    include it and what they include."""
    here = ctx.file.source.path
    return path == here or path in _seen_from(ctx.project, here)


def _seen_from(project: Project, here: str) -> frozenset[str]:
    table = cast("dict[str, frozenset[str]]", project.cache.setdefault("seen from", {}))
    known = table.get(here)
    if known is None:
        found = set(project.reach.get(here, ()))
        for includer in _includers(project).get(here, ()):
            found.add(includer)
            found.update(project.reach.get(includer, ()))
        table[here] = known = frozenset(found)
    return known


def _includers(project: Project) -> dict[str, list[str]]:
    table = project.cache.get("includers")
    if table is None:
        made: dict[str, list[str]] = {}
        for path, reached in project.reach.items():
            for target in reached:
                made.setdefault(target, []).append(path)
        project.cache["includers"] = table = made
    return cast("dict[str, list[str]]", table)


def macro(ctx: Context, name: str) -> Macro | None:
    """The macro a name stands for in the current file; one that is being expanded is not a macro."""
    if name in ctx.macros or name not in ctx.project.macros:
        return None
    found = ctx.project.lookup_macro(name, ctx.file.source.path)
    if found is not None and not visible(ctx, found.span.file):
        found = next((m for m in reversed(ctx.project.macros[name]) if visible(ctx, m.span.file)), None)
    return found


def functions(ctx: Context, name: str, qualifier: str = "") -> list[FunctionDecl]:
    """Overloads callable as ``qualifier::name`` here, definitions before declarations, nearest first."""
    path = ctx.file.source.path
    if qualifier:
        found = ctx.project.lookup_functions(f"{qualifier}::{name}", path)
        found = found or [f for f in ctx.project.lookup_functions(name, path) if f.record is None]
    else:
        found = ranked(ctx, ctx.project.lookup_functions(name, path))
    return [f for f in found if f.body is not None] + [f for f in found if f.body is None]


def find_type(ctx: Context, name: str, args: tuple[TemplateArgument, ...] | None = None) -> CType | None:
    """The type called ``name`` here, with template arguments if it is a template."""
    path = ctx.file.source.path
    own = builtin_type(name)
    aliases = ranked(ctx, ctx.project.lookup_aliases(name, path))
    found = ranked(ctx, ctx.project.lookup_records(name, path))
    if own is not None:
        aliases = [a for a in aliases if visible(ctx, a.file.source.path)]
        found = [r for r in found if visible(ctx, r.file.source.path)]
    for alias in aliases:
        if alias.template is None or args is not None:
            resolved = typenames.alias_type(ctx, alias, args or ())
            if resolved is not None:
                return resolved
    if found:
        return record_type(ctx, found, args)
    return own


def record_type(ctx: Context, found: list[RecordDecl], args: tuple[TemplateArgument, ...] | None) -> CType | None:
    first = found[0]
    if first.kind.startswith("enum"):
        return enums.enum_type(ctx, first)
    home = first.file.source.path
    same = [r for r in found if r.qualified == first.qualified and (r.file is first.file or _near(ctx, r, home))]
    owner = owner_record(ctx, first.qualified)
    return records.instance(ctx, same, args or (), owner.scope if owner is not None else None)


def _near(ctx: Context, decl: RecordDecl, home: str) -> bool:
    """Whether another declaration of a template belongs to the same program as the one in ``home``."""
    path = decl.file.source.path
    return visible(ctx, path) or path in _seen_from(ctx.project, home)


def owner_record(ctx: Context, qualified: str) -> Record | None:
    """The instance of the class around ``qualified`` that the current scope lies in, if any."""
    owner = qualified.rpartition("::")[0]
    scope: Scope | None = ctx.scope
    while scope is not None and owner:
        if scope.record is not None and scope.record.qualified == owner:
            return scope.record
        scope = scope.parent
    return None


def member_type(ctx: Context, record: Record, name: str, args: tuple[TemplateArgument, ...] | None) -> CType | None:
    """A type declared inside ``record`` or its bases."""
    if record.file is None or record.scope is None:
        return None
    path = record.file.source.path
    with inside(ctx, record.file, record.scope):
        for alias in ctx.project.lookup_aliases(name, path):
            if alias.qualified == f"{record.qualified}::{name}" and within(record.body, alias.node):
                return typenames.alias_type(ctx, alias, args or ())
        nested = [r for r in ctx.project.lookup_records(name, path) if r.qualified == f"{record.qualified}::{name}"]
        if nested:
            return record_type(ctx, nested, args)
    for base in record.bases:
        found = member_type(ctx, base, name, args)
        if found is not None:
            return found
    return None


def within(body: Node | None, node: Node) -> bool:
    return body is None or body.start_byte <= node.start_byte < body.end_byte


def binding(ctx: Context, name: str) -> Binding | None:
    return ctx.scope.find(name)
