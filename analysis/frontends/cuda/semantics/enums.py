"""Enumerations and their enumerators."""

from __future__ import annotations

from typing import cast

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import evaluate, names, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import TypeName, Val
from prelaunch.analysis.frontends.cuda.semantics.types import Enum
from prelaunch.analysis.frontends.cuda.text.declarations import RecordDecl
from prelaunch.analysis.frontends.cuda.text.project import Project
from prelaunch.analysis.kernel import I32, Const, Scalar

Entry = tuple[RecordDecl, Node]


def enumerator_table(project: Project) -> dict[str, list[Entry]]:
    """All enumerators of the project by name."""
    table = project.cache.get("enumerators")
    if table is None:
        made: dict[str, list[Entry]] = {}
        for group in project.records.values():
            for decl in group:
                if decl.kind.startswith("enum") and decl.body is not None:
                    for child in _enumerators(decl.body):
                        name = child.child_by_field_name("name") if child.type == "enumerator" else None
                        if name is not None and name.text is not None:
                            made.setdefault(name.text.decode("utf-8", "replace"), []).append((decl, child))
        project.cache["enumerators"] = table = made
    return cast("dict[str, list[Entry]]", table)


def _enumerators(body: Node) -> list[Node]:
    """Enumerators of all branches of any ``#if`` inside."""
    stack, found = [body], list[Node]()
    while stack:
        node = stack.pop()
        if node.type == "enumerator":
            found.append(node)
        else:
            stack.extend(reversed(node.named_children))
    return found


def enum_type(ctx: Context, decl: RecordDecl) -> Enum:
    base = decl.node.child_by_field_name("base")
    underlying = I32
    if base is not None:
        found = typenames.lookup_type(ctx, base)
        underlying = found if isinstance(found, Scalar) else I32
    return Enum(decl.name or "enum", underlying, decl.kind == "enum class")


def enumerator(ctx: Context, name: str, qualifier: str = "") -> Val | None:
    """The value of enumerator ``name``; ``qualifier`` is the enum, class or namespace written before it."""
    entries = enumerator_table(ctx.project).get(name, [])
    if qualifier:
        last = qualifier.rpartition("::")[2]
        entries = [e for e in entries if e[0].name == last or e[0].qualified.rpartition("::")[0].endswith(last)]
    else:
        entries = [e for e in entries if e[0].kind == "enum"]
    if not entries:
        return None
    here = ctx.file.source.path
    reach = ctx.project.reach.get(here, ())
    entries = sorted(entries, key=lambda e: _rank(e[0].file.source.path, here, reach))
    decl, node = entries[0]
    ctype = enum_type(ctx, decl)
    value = _value(ctx, decl, node)
    return Val(ctype, (Const(value, ctype.underlying),)) if value is not None else None


def _rank(path: str, here: str, reach: tuple[str, ...]) -> int:
    if path == here:
        return 0
    return 1 + reach.index(path) if path in reach else len(reach) + 1


def _value(ctx: Context, decl: RecordDecl, wanted: Node) -> int | None:
    values = cast("dict[tuple[str, int], dict[int, int]]", ctx.project.cache.setdefault("enumerator values", {}))
    key = (decl.file.source.path, decl.node.start_byte)
    if key not in values:
        values[key] = {}
        with names.inside(ctx, decl.file, names.namespace_scope(decl.qualified)):
            assert decl.body is not None
            values[key] = _values(ctx, decl.body)
    return values[key].get(wanted.start_byte)


def _values(ctx: Context, body: Node) -> dict[int, int]:
    """Values of the enumerators of one enum by node offset; what cannot be evaluated is left out."""
    found: dict[int, int] = {}
    with ctx.nested() as scope:
        following: int | None = 0
        for child in ctx.parts(body):
            if child.type != "enumerator":
                continue
            value = child.child_by_field_name("value")
            current = evaluate.integer(ctx, value) if value is not None else following
            following = current + 1 if current is not None else None
            name = child.child_by_field_name("name")
            if current is not None and name is not None:
                found[child.start_byte] = current
                scope.names[ctx.text(name)] = Val(I32, (Const(current, I32),))
    return found


def local_enum(ctx: Context, node: Node) -> Enum:
    """An enum defined or named inside a function or declaration; its enumerators join the current scope."""
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    label = ctx.text(name) if name is not None else "enum"
    if body is None:
        found = typenames.named(ctx, label, None)
        return found if isinstance(found, Enum) else Enum(label)
    base = node.child_by_field_name("base")
    underlying = typenames.lookup_type(ctx, base) if base is not None else None
    scoped = any(c.type in ("class", "struct") for c in node.children)
    ctype = Enum(label, underlying if isinstance(underlying, Scalar) else I32, scoped)
    values = _values(ctx, body)
    for child in ctx.parts(body):
        inner = child.child_by_field_name("name") if child.type == "enumerator" else None
        if inner is not None and child.start_byte in values:
            bound = Val(ctype, (Const(values[child.start_byte], ctype.underlying),))
            ctx.scope.names[f"{label}::{ctx.text(inner)}" if scoped else ctx.text(inner)] = bound
            ctx.scope.names[f"{label}::{ctx.text(inner)}"] = bound
    if name is not None:
        ctx.scope.names[label] = TypeName(ctype)
    return ctype
