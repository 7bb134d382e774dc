"""Macros whose body launches: expanded where they are used, as statements."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.declarations import Project
from prelaunch.analysis.frontends.cuda.text.macros import MacroLimit, expand_call, expand_object, parse_fragment
from prelaunch.analysis.hostir.scopes import Host
from prelaunch.analysis.hostir.text import MAX_EXPANSION, MAX_NESTED, Text

LAUNCHING = re.compile(r"<<<|\b(cudaLaunch(Cooperative)?Kernel(ExC?)?|cuLaunch\w*Kernel(Ex)?)\b")


@dataclass(frozen=True, slots=True)
class Expansion:
    """Statement nodes of a macro use, and the text they index."""

    nodes: tuple[Node, ...]
    text: Text


def expand_launching(host: Host, node: Node, text: Text) -> Expansion | None:
    """The expansion of ``node`` when it uses a macro that launches by itself; None for anything else."""
    function, listed = node, None
    if node.type == "call_expression":
        named = node.child_by_field_name("function")
        listed = node.child_by_field_name("arguments")
        if named is None or any(c.type == "kernel_call_syntax" for c in node.children):
            return None
        function = named
    if function.type not in ("identifier", "type_identifier"):
        return None
    word = text.of(function)
    macro = host.project.lookup_macro(word, host.file) if word in host.project.macros else None
    if macro is None or word in text.active or len(text.active) > MAX_NESTED or host.find(word) is not None:
        return None
    try:
        if listed is None:
            body = expand_object(host.project, host.file, word)
        else:
            body = expand_call(host.project, host.file, word, macro_arguments(text.of(listed)))
    except MacroLimit:
        return None
    if body is None or len(body) > MAX_EXPANSION or not LAUNCHING.search(body):
        return None
    if listed is not None and not launches_itself(host.project, host.file, word):
        return None
    code, fragment = parse_fragment(body, "statements")
    use = text.span(node)
    where = use if use.spelling is not None else replace(use, spelling=macro.span)
    inner = Text(text.source, code, where, (*text.active, word))
    nodes = tuple(fragment.named_children) if fragment.type == "translation_unit" else (fragment,)
    return Expansion(nodes, inner)


def macro_arguments(listed: str) -> list[str]:
    """Arguments of ``(a, f(b, c), d<e, f>)`` as the preprocessor splits them: at commas outside parentheses."""
    inside = listed.strip()[1:-1]
    parts: list[str] = []
    depth, start, quote = 0, 0, ""
    i = 0
    while i < len(inside):
        c = inside[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(inside[start:i].strip())
            start = i + 1
        i += 1
    last = inside[start:].strip()
    return [*parts, last] if parts or last else []


def launches_itself(project: Project, file: str, word: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether the body of macro ``word``, or of a macro named in it, holds a launch."""
    macro = project.lookup_macro(word, file)
    if macro is None or word in seen or len(seen) > MAX_NESTED:
        return False
    if LAUNCHING.search(macro.body):
        return True
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", macro.body))
    return any(launches_itself(project, file, n, seen | {word}) for n in names if n in project.macros)
