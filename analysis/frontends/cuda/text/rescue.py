"""Functions that a file's own tree does not show: written by a macro, or swallowed by a syntax error near them.

Postcondition: what is found here has nodes in a ``ParsedFile`` of its own whose ``span`` still gives places in the file
on disk: the use of the macro (with the macro's text as ``spelling``), or the function itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from prelaunch.analysis.frontends.cuda.text.aliases import Aliases
from prelaunch.analysis.frontends.cuda.text.declarations import Expansion, ParsedFile, Project
from prelaunch.analysis.frontends.cuda.text.index import Declarations, index_file
from prelaunch.analysis.frontends.cuda.text.lexing import blank
from prelaunch.analysis.frontends.cuda.text.macros import MacroLimit, expand_call
from prelaunch.analysis.frontends.cuda.text.parse import parse_file
from prelaunch.analysis.frontends.cuda.text.prepass import Parens
from prelaunch.analysis.frontends.cuda.text.scan import Scan, scan
from prelaunch.analysis.frontends.cuda.text.syntax import ParseLimit
from prelaunch.analysis.frontends.cuda.text.tokens import tokenize
from prelaunch.analysis.source import Source

_BODY_CAP = 1 << 20  # bytes of a function looked at
_USES_CAP = 2_000  # kernel macro uses expanded per file
_BRACE = re.compile(rb"[{}]")


def kernel_macros(project: Project, aliases: Aliases) -> frozenset[str]:
    """Function-like macros whose expansion holds a ``__global__`` function head, directly or through one another."""
    words = {"__global__"} | aliases.kernels
    holds: dict[str, frozenset[str]] = {}
    for name, group in project.macros.items():
        for macro in group:
            if macro.params is not None and "(" in macro.body:
                holds[name] = holds.get(name, frozenset()) | {t.text for t in tokenize(macro.body) if t.kind == "name"}
    found = {name for name, inside in holds.items() if inside & words and name not in aliases.names}
    grown = True
    while grown:
        more = {name for name, inside in holds.items() if name not in found and inside & found}
        found |= more
        grown = bool(more)
    return frozenset(found)


def from_macros(scanned: Scan, names: frozenset[str], project: Project, aliases: Aliases) -> Iterator[Declarations]:
    """Declarations that uses of kernel macros in a file stand for."""
    words = [n.encode() for n in sorted(names) if n.encode() in scanned.source.data]
    if not words:
        return
    view = scanned.code_view()
    uses = re.finditer(rb"(?<!\w)(?:%s)(?=\s*\()" % b"|".join(words), view)
    parens = Parens(view)
    for count, match in enumerate(uses):
        end = parens.close(match.end())
        if end is None or count >= _USES_CAP:
            continue
        parsed = _expand(scanned, view, match.group().decode(), match.start(), match.end(), end, project, aliases)
        if parsed is not None:
            yield index_file(parsed, aliases)


def _expand(
    scanned: Scan, view: bytes, name: str, start: int, opening: int, end: int, project: Project, aliases: Aliases
) -> ParsedFile | None:
    """The expansion of one use, with the function body that follows it if the macro is only a head."""
    source = scanned.source
    macro = project.lookup_macro(name, source.path)
    inside = view.index(b"(", opening) + 1
    args = split_arguments(source.data[inside : end - 1].decode("utf-8", "replace"))
    try:
        text = expand_call(project, source.path, name, args)
    except MacroLimit as limit:
        project.failures.append((source.path, f"use of {name} at byte {start} not expanded: {limit}"))
        return None
    if macro is None or text is None or "__global__" not in aliases.expand(text, source.path):
        return None
    made = text.encode("utf-8", "replace")
    split, resume, stop = len(made), end, end
    head = re.match(rb"\s*\{", view[end : end + 4000])
    if head and not text.rstrip().endswith(("}", ";")):
        stop = _block_end(view, end + head.end() - 1) or end
        made += source.data[end:stop]
    try:
        parsed = parse_file(_inherit(scan(Source(source.path, made)), scanned, resume - split), aliases, project)
    except ParseLimit as limit:
        project.failures.append((source.path, f"use of {name} at byte {start} not read: {limit}"))
        return None
    return replace(parsed, expansion=Expansion(source, source.span(start, stop), macro.span, split, resume))


def split_arguments(text: str) -> list[str]:
    """Macro arguments at the commas outside parentheses and literals."""
    args = [""]
    depth = 0
    for token in tokenize(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if token.text == "," and depth == 0 and token.kind == "mark":
            args.append("")
        else:
            args[-1] += (" " if args[-1] else "") + token.text
    return [] if args == [""] else args


def _block_end(view: bytes, opening: int) -> int | None:
    depth = 0
    for match in _BRACE.finditer(view, opening, min(len(view), opening + _BODY_CAP)):
        depth += 1 if match.group() == b"{" else -1
        if depth == 0:
            return match.end()
    return None


def from_errors(
    scanned: Scan, file: ParsedFile, found: Declarations, project: Project, aliases: Aliases
) -> Iterator[Declarations]:
    """Device functions inside a file's broken text, each parsed with all other text blanked."""
    if not file.errors:
        return
    view = scanned.code_view()
    seen = sorted((f.node.start_byte, f.node.end_byte) for f in found.functions if f.body is not None)
    words = [w.encode() for w in sorted(aliases.kernels)]
    pattern = rb"(?<!\w)(?:%s)(?!\w)" % b"|".join((b"__global__", b"__device__", *words))
    parens = Parens(view)
    done = 0
    for count, match in enumerate(re.finditer(pattern, view)):
        if match.start() < done or count >= _USES_CAP or any(a <= match.end() <= b for a, b in seen):
            continue
        span = _function_around(view, parens, match.start(), match.end())
        if span is None:
            continue
        start, done = span
        data = source_part(scanned.source.data, start, done)
        try:
            alone = parse_file(_inherit(scan(Source(scanned.source.path, data)), scanned, 0), aliases, project)
        except ParseLimit as limit:
            project.failures.append((scanned.source.path, f"function at byte {start} not read: {limit}"))
            continue
        declared = index_file(alone, aliases)
        why = "repaired: read on its own, the text around it does not parse"
        declared.functions = [replace(f, confidence=why) for f in declared.functions if f.body is not None]
        if declared.functions:
            yield Declarations(functions=declared.functions)


def _inherit(part: Scan, whole: Scan, shift: int) -> Scan:
    """``part`` with the ``#if`` branches chosen that were chosen in ``whole``, whose text lies ``shift`` bytes on."""
    chosen = {b.line.start: b for g in whole.groups for b in g.branches}
    for group in part.groups:
        for branch in group.branches:
            same = chosen.get(branch.line.start + shift)
            if same is not None:
                branch.taken, branch.certain = same.taken, same.certain
    return part


def source_part(data: bytes, start: int, end: int) -> bytes:
    """``data`` with all but ``[start, end)`` blanked."""
    return blank(data[:start]) + data[start:end] + blank(data[end:])


def _function_around(view: bytes, parens: Parens, start: int, end: int) -> tuple[int, int] | None:
    """From the end of the declaration before ``start`` to the closing brace of the function that begins there."""
    parameters = _PARAMETERS.match(view, end, end + 20_000)
    while parameters is not None:
        closed = parens.close(parameters.end() - 1)
        if closed is None:
            return None
        after = re.match(rb"[\s\w]*\{", view[closed : closed + 4000])
        if after:
            stop = _block_end(view, closed + after.end() - 1)
            before = max(view.rfind(b";", 0, start), view.rfind(b"}", 0, start), view.rfind(b"{", 0, start))
            return None if stop is None else (before + 1, stop)
        parameters = _PARAMETERS.match(view, closed, end + 20_000)
    return None


_PARAMETERS = re.compile(rb"[^;{}()]{0,4000}\(")
