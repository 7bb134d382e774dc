"""The grammar: bytes to tree, and where a tree has errors."""

from __future__ import annotations

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Tree

LANGUAGE = Language(tree_sitter_cuda.language())


def parse_bytes(code: bytes) -> Tree:
    return Parser(LANGUAGE).parse(code)


def error_nodes(root: Node) -> list[Node]:
    """Outermost ERROR nodes and MISSING nodes under ``root`` in text order."""
    found: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            found.append(node)
        elif node.has_error:
            stack.extend(reversed(node.children))
    return found


def error_cost(found: list[Node]) -> int:
    """How broken a tree is: errors, and the bytes they swallow."""
    return sum(100 + node.end_byte - node.start_byte for node in found)
