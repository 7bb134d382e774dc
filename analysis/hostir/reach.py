"""Which host functions lead to a launch, and which names stand for an error query: by the words in their bodies.

Cheap and by simple name, so it over-approximates; what it selects is then lowered and executed.
"""

from __future__ import annotations

import re

from prelaunch.analysis.frontends.cuda.declarations import FunctionDecl, Project
from prelaunch.analysis.hostir import api

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


def launching(project: Project, names: dict[str, frozenset[str]]) -> frozenset[str]:
    """Simple names of functions that launch, directly, through a macro, or through a function they name."""
    macros = launching_macros(project)
    found = {
        d.name for d in definitions(project) if _LAUNCH.search(body_text(d)) or macros & names.get(d.name, frozenset())
    }
    return _closure(found, names) | macros


def querying(project: Project, names: dict[str, frozenset[str]]) -> frozenset[str]:
    """Functions and macros that read the error of an earlier launch, directly or through what they name."""
    found = {d.name for d in definitions(project) if _QUERY.search(body_text(d))}
    macros = {n for n, group in project.macros.items() if any(_QUERY.search(m.body.encode()) for m in group)}
    uses: dict[str, set[str]] = {n: set(w) for n, w in names.items()}
    for name, group in project.macros.items():
        uses.setdefault(name, set()).update(w.decode() for m in group for w in _WORD.findall(m.body.encode()))
    return _closure(found | macros, uses)
