"""The grammar: bytes to tree, and where a tree has errors."""

from __future__ import annotations

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Point, Tree

LANGUAGE = Language(tree_sitter_cuda.language())


_CHUNK = 1 << 16
_STEPS = 50_000  # reports of the parser (one per hundred operations), those in error recovery counted _RECOVERY times
_RECOVERY = 5
_STEPS_PER_BYTE = 1 / 16  # real code needs at most 1/50


class ParseLimit(Exception):
    """A file asks for more work than is allowed; counted, so the same text always ends the same way."""


def parse_bytes(code: bytes) -> Tree:
    """Raises ParseLimit for text on which the grammar's ambiguities or error recovery explode."""
    steps = 0
    plain = 0
    allowed = 1_000 + len(code) * _STEPS_PER_BYTE

    def read(offset: int, _: Point) -> bytes:
        return code[offset : offset + _CHUNK]

    def stop(_: int, has_error: bool) -> bool:
        nonlocal steps, plain
        plain += 1
        steps += _RECOVERY if has_error else 1
        return steps > _STEPS or plain > allowed

    parser = Parser(LANGUAGE)
    try:
        tree = parser.parse(read, progress_callback=stop)
    except ValueError:
        raise ParseLimit(f"parsing {len(code)} bytes takes more work than is allowed") from None
    return parser.parse(code, tree)  # reuses the tree whole; its nodes then read their text from `code`, not by chunks


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
