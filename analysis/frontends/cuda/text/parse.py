"""One file: bytes to tree. Strict pass first, tolerant passes only where errors are left.

Postcondition: ``ParsedFile.code`` is as long as the file and has its line ends; text a tolerant pass took out that may
carry meaning stands in ``dropped``. Of all passes the tree with the least error is kept.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from tree_sitter import Node, Tree

from prelaunch.analysis.frontends.cuda.text.aliases import Aliases
from prelaunch.analysis.frontends.cuda.text.conditions import Group
from prelaunch.analysis.frontends.cuda.text.declarations import Dropped, ParsedFile, Project
from prelaunch.analysis.frontends.cuda.text.includes import merge
from prelaunch.analysis.frontends.cuda.text.prepass import Rewritten, rewrite
from prelaunch.analysis.frontends.cuda.text.repairs import RULES, Edit, Known, loop_pragmas, propose
from prelaunch.analysis.frontends.cuda.text.scan import Scan
from prelaunch.analysis.frontends.cuda.text.syntax import ParseLimit, error_cost, error_nodes, parse_bytes

_NEAR = 400  # bytes around an error within which an #if group may be its cause
_ALONE = 12  # #if groups tried one by one
_BUDGET = 24 << 20  # bytes parsed again per file


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
    """Raises ParseLimit."""
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


def _tolerant(scan: Scan, start: _Attempt, known: Known) -> _Attempt:
    repair = _Repair(start, max(2, _BUDGET // max(1, len(scan.source.data))))
    pragmas = [(d.start, d.end) for d in scan.directives if d.name == "pragma"]
    repair.attempt(loop_pragmas(repair.best.text, pragmas))
    for rule in RULES:
        if repair.finished:
            return repair.best
        broken = _broken(repair.best.tree.root_node)
        proposed = propose(repair.best.text, known, rule)
        repair.attempt([e for e in proposed if _inside(e, broken)])
    groups = [g for g in scan.groups if not g.guard]
    uneven = _unbalanced(groups, repair.best.text.view)
    for _ in range(3):
        if repair.finished:
            return repair.best
        near = _near(groups, repair.best.errors)
        if not repair.attempt(flatten([g for g in groups if id(g) in near or id(g) in uneven])):
            break
    near = _near(groups, repair.best.errors)
    for group in [g for g in groups if id(g) in near][:_ALONE]:
        if not repair.finished:
            repair.attempt(flatten([group]))
    return repair.best


class _Repair:
    """Keeps the best attempt; ``passes`` is how often the file may be parsed again."""

    def __init__(self, best: _Attempt, passes: int) -> None:
        self.best = best
        self.passes = passes

    @property
    def finished(self) -> bool:
        return not self.best.errors or self.passes <= 0

    def attempt(self, edits: list[Edit]) -> bool:
        """Makes ``edits``; they stay if less error is left."""
        if not edits or self.finished:
            return False
        self.passes -= 1
        text = self.best.text.copy()
        dropped = list(self.best.dropped)
        for edit in edits:
            if edit.why:
                dropped.append((edit.start, edit.end, edit.why))
            edit.apply(text)
        try:
            after = _attempt(text, dropped)
        except ParseLimit:
            return False
        if after.cost >= self.best.cost:
            return False
        self.best = after
        return True


_CONTAINERS = frozenset(
    (
        *("translation_unit", "declaration_list", "namespace_definition", "linkage_specification"),
        *("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"),
    )
)


def _broken(root: Node) -> list[tuple[int, int]]:
    """Ranges of the file-scope items that hold errors, widened by ``_NEAR``, in order."""
    ranges = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _CONTAINERS and not node.is_missing:
            stack.extend(c for c in reversed(node.children) if c.has_error or c.is_missing)
        else:
            ranges.append((node.start_byte - _NEAR, node.end_byte + _NEAR))
    return ranges


def _inside(edit: Edit, ranges: list[tuple[int, int]]) -> bool:
    at = bisect.bisect_right(ranges, (edit.end, edit.end)) - 1
    return any(a < edit.end and edit.start < b for a, b in ranges[max(0, at - 1) : at + 1])


def _near(groups: list[Group], errors: list[Node]) -> set[int]:
    """Groups with an error in them or close to them."""
    starts = [n.start_byte for n in errors]
    near = set()
    for group in groups:
        start = group.branches[0].line.start - _NEAR
        end = group.branches[-1].end + _NEAR
        at = bisect.bisect_left(starts, end)
        if at > 0 and errors[at - 1].end_byte > start:
            near.add(id(group))
    return near


def _unbalanced(groups: list[Group], view: bytearray) -> set[int]:
    """Groups with a branch that opens or closes brackets that it does not close or open itself."""
    found: set[int] = set()
    left = _BUDGET
    for group in groups:
        for branch in group.branches:
            left -= branch.end - branch.start
            if left < 0:
                return found
            text = view[branch.start : branch.end]
            if text.count(b"{") != text.count(b"}") or text.count(b"(") != text.count(b")"):
                found.add(id(group))
    return found


def flatten(groups: list[Group]) -> list[Edit]:
    """Edits that leave of each group only the branch a compiler would take: directives and other branches blanked.

    ``groups`` are in order of their ``#if``; what lies in a blanked branch is left out.
    """
    skipped = merge((b.start, b.end) for g in groups for b in g.branches if not b.taken)
    edits = []
    for group in groups:
        at = bisect.bisect_right(skipped, (group.branches[0].line.start, 0)) - 1
        if at >= 0 and group.branches[0].line.start < skipped[at][1]:
            continue
        for branch in group.branches:
            edits.append(Edit(branch.line.start, branch.line.end))
            if not branch.taken:
                edits.append(Edit(branch.start, branch.end, why="" if branch.certain else "branch of an #if"))
        if group.close is not None:
            edits.append(Edit(group.close.start, group.close.end))
    return edits
