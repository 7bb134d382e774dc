"""One file: bytes to tree. Strict pass first, tolerant passes only where errors are left."""

from __future__ import annotations

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Tree

from prelaunch.analysis.frontends.cuda.declarations import ParsedFile
from prelaunch.analysis.frontends.cuda.includes import all_directives, scan_includes
from prelaunch.analysis.source import Source, Span

LANGUAGE = Language(tree_sitter_cuda.language())


def parse_bytes(code: bytes) -> Tree:
    return Parser(LANGUAGE).parse(code)


def error_nodes(root: Node) -> list[Node]:
    """Outermost ERROR nodes and all MISSING nodes under ``root`` in text order."""
    found: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            found.append(node)
        elif node.has_error:
            stack.extend(reversed(node.children))
    return found


def parse_file(source: Source) -> ParsedFile:
    code = source.data
    tree = parse_bytes(code)
    _, found = all_directives(source.data)
    errors: tuple[Span, ...] = tuple(source.span(n.start_byte, n.end_byte) for n in error_nodes(tree.root_node))
    return ParsedFile(source, code, tree, errors, (), scan_includes(source, found))
