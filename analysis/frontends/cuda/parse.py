"""One file: bytes to tree. Strict pass first, tolerant passes only where errors are left.

Postcondition: ``ParsedFile.code`` is as long as the file and has its line ends; text a tolerant pass took out that may
carry meaning stands in ``dropped``. Of all passes the tree with the least error is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node, Tree

from prelaunch.analysis.frontends.cuda.aliases import Aliases
from prelaunch.analysis.frontends.cuda.conditions import Group
from prelaunch.analysis.frontends.cuda.declarations import Dropped, ParsedFile, Project
from prelaunch.analysis.frontends.cuda.prepass import Rewritten, rewrite
from prelaunch.analysis.frontends.cuda.repairs import RULES, Edit, Known, loop_pragmas, propose
from prelaunch.analysis.frontends.cuda.scan import Scan
from prelaunch.analysis.frontends.cuda.syntax import error_cost, error_nodes, parse_bytes

_NEAR = 400  # bytes around an error within which an #if group may be its cause
_ALONE = 12  # #if groups tried one by one


@dataclass(slots=True)
class _Attempt:
    text: Rewritten
    tree: Tree
    errors: list[Node]
    dropped: list[tuple[int, int, str]]

    @property
    def cost(self) -> int:
        return error_cost(self.errors)


def parse_file(scan: Scan, aliases: Aliases, project: Project, tolerant: bool = True) -> ParsedFile:
    text = rewrite(scan, aliases)
    best = _attempt(text, text.lost)
    if best.errors and tolerant:
        best = _tolerant(scan, best, Known(project, scan.source.path))
    source = scan.source
    return ParsedFile(
        source,
        bytes(best.text.code),
        best.tree,
        tuple(source.span(n.start_byte, n.end_byte) for n in best.errors),
        tuple(Dropped(source.span(a, b), why) for a, b, why in sorted(best.dropped)),
        scan.includes,
        tuple(sorted(best.text.blanked)),
        frozenset(b.line.start for g in scan.groups for b in g.branches if not b.taken),
    )


def _attempt(text: Rewritten, dropped: list[tuple[int, int, str]]) -> _Attempt:
    tree = parse_bytes(bytes(text.code))
    return _Attempt(text, tree, error_nodes(tree.root_node), dropped)


def _tolerant(scan: Scan, best: _Attempt, known: Known) -> _Attempt:
    pragmas = [(d.start, d.end) for d in scan.directives if d.name == "pragma"]
    best = _better(best, loop_pragmas(best.text, pragmas))
    for rule in RULES:
        if not best.errors:
            return best
        best = _better(best, propose(best.text, known, rule))
    for _ in range(3):
        if not best.errors:
            return best
        near = [g for g in scan.groups if not g.guard and (_touches(g, best.errors) or _unbalanced(g, best.text.view))]
        after = _better(best, [e for g in near for e in flatten(g)])
        if after is best:
            break
        best = after
    if best.errors:
        for group in [g for g in scan.groups if not g.guard and _touches(g, best.errors)][:_ALONE]:
            best = _better(best, flatten(group))
    return best


def _touches(group: Group, errors: list[Node]) -> bool:
    start = group.branches[0].line.start - _NEAR
    end = group.branches[-1].end + _NEAR
    return any(n.start_byte < end and start < n.end_byte for n in errors)


def _unbalanced(group: Group, view: bytearray) -> bool:
    """Whether a branch opens or closes braces that it does not close or open itself."""
    texts = [view[b.start : b.end] for b in group.branches]
    return any(t.count(b"{") != t.count(b"}") or t.count(b"(") != t.count(b")") for t in texts)


def flatten(group: Group) -> list[Edit]:
    """Edits that leave of a group only the branch a compiler would take: directives and other branches blanked."""
    edits = []
    for branch in group.branches:
        edits.append(Edit(branch.line.start, branch.line.end))
        if not branch.taken:
            edits.append(Edit(branch.start, branch.end, why="" if branch.certain else "branch of an #if"))
    if group.close is not None:
        edits.append(Edit(group.close.start, group.close.end))
    return edits


def _better(before: _Attempt, edits: list[Edit]) -> _Attempt:
    """The attempt with ``edits`` made if it has less error, else ``before``."""
    if not edits:
        return before
    text = before.text.copy()
    dropped = list(before.dropped)
    for edit in edits:
        if edit.why:
            dropped.append((edit.start, edit.end, edit.why))
        edit.apply(text)
    after = _attempt(text, dropped)
    return after if after.cost < before.cost else before
