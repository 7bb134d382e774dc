"""Which host functions lead to a launch, and which names stand for an error query: by the words in their bodies.

Cheap and by simple name, so it over-approximates; what it selects is then lowered and executed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project
from prelaunch.analysis.hostir import api, linkage

_WORD = re.compile(rb"[A-Za-z_]\w*")
_LAUNCH = re.compile(rb"<<<|\b(?:cudaLaunch(?:Cooperative)?Kernel(?:ExC?)?|cuLaunch(?:Cooperative)?Kernel(?:Ex)?)\b")
_QUERY = re.compile(
    rb"\b(?:" + "|".join(sorted(api.LAST_ERROR)).encode() + rb")\s*\("
    rb"|(?:[(=,!]|return)\s*(?:" + "|".join(sorted(api.REPORTS_EARLIER - api.LAST_ERROR)).encode() + rb")\s*\("
)


def definitions(project: Project) -> list[FunctionDecl]:
    """All functions with a body in order of (file, offset)."""
    found = [f for group in project.functions.values() for f in group if f.body is not None]
    return sorted(found, key=lambda f: (f.file.source.path, f.node.start_byte))


def body_text(decl: FunctionDecl) -> bytes:
    return decl.file.code[decl.node.start_byte : decl.node.end_byte]


def words(project: Project) -> dict[str, frozenset[str]]:
    """Function name -> identifiers in the bodies of all functions of that name."""
    found: dict[str, set[str]] = {}
    for decl in definitions(project):
        found.setdefault(decl.name, set()).update(w.decode() for w in _WORD.findall(body_text(decl)))
    return {name: frozenset(inside) for name, inside in found.items()}


def launching_macros(project: Project) -> frozenset[str]:
    """Macros whose expansion holds a launch of its own, directly or through other macros."""
    return _macro_closure(project, _LAUNCH)


def _macro_closure(project: Project, pattern: re.Pattern[bytes]) -> frozenset[str]:
    found = {n for n, group in project.macros.items() if any(pattern.search(m.body.encode()) for m in group)}
    uses = {
        n: {w.decode() for m in group for w in _WORD.findall(m.body.encode())} for n, group in project.macros.items()
    }
    return _closure(found, uses)


def _closure(found: set[str], uses: dict[str, set[str]] | dict[str, frozenset[str]]) -> frozenset[str]:
    """``found`` and every name that uses one of them, directly or not."""
    users: dict[str, list[str]] = {}
    for name, inside in uses.items():
        for word in inside:
            if word in uses or word in found:
                users.setdefault(word, []).append(name)
    pending = sorted(found)
    while pending:
        for user in users.get(pending.pop(), ()):
            if user not in found:
                found.add(user)
                pending.append(user)
    return frozenset(found)


DeclKey = tuple[str, int]
"""(file, offset) of a function definition."""


def key(decl: FunctionDecl) -> DeclKey:
    return decl.file.source.path, decl.node.start_byte


@dataclass(frozen=True, slots=True)
class Graph:
    """``direct``: functions whose own text launches; ``reaching``: those and all that name one of them, by resolved
    names; ``roots``: reaching functions that no other one names. Each in text order."""

    direct: tuple[FunctionDecl, ...]
    roots: tuple[FunctionDecl, ...]
    reaching: frozenset[DeclKey]


def graph(project: Project) -> Graph:
    """The part of the call graph that leads to launches."""
    macros = launching_macros(project)
    functions = definitions(project)
    users: dict[DeclKey, list[DeclKey]] = {}
    direct: list[FunctionDecl] = []
    resolved: dict[tuple[str, str], list[DeclKey]] = {}
    for decl in functions:
        text, path, own = body_text(decl), decl.file.source.path, key(decl)
        inside = {w.decode() for w in _WORD.findall(text)}
        if _LAUNCH.search(text) or macros & inside:
            direct.append(decl)
        for word in inside:
            if word not in project.functions or word == decl.name:
                continue
            if (word, path) not in resolved:
                resolved[word, path] = [key(c) for c in linkage.callees(project, word, path)]
            for callee in resolved[word, path]:
                users.setdefault(callee, []).append(own)
    found = {key(d) for d in direct}
    pending = sorted(found)
    while pending:
        for user in users.get(pending.pop(), ()):
            if user not in found:
                found.add(user)
                pending.append(user)
    named = {k for k in found if any(u in found and u != k for u in users.get(k, ()))}
    roots = tuple(d for d in functions if key(d) in found and key(d) not in named)
    return Graph(tuple(direct), roots, frozenset(found))


def querying(project: Project, names: dict[str, frozenset[str]]) -> frozenset[str]:
    """Functions and macros that read the error of an earlier launch, directly or through what they name."""
    found = {d.name for d in definitions(project) if _QUERY.search(body_text(d))}
    macros = {n for n, group in project.macros.items() if any(_QUERY.search(m.body.encode()) for m in group)}
    uses: dict[str, set[str]] = {n: set(w) for n, w in names.items()}
    for name, group in project.macros.items():
        uses.setdefault(name, set()).update(w.decode() for m in group for w in _WORD.findall(m.body.encode()))
    return _closure(found | macros, uses)
