"""Text being lowered: a file, or what a macro use expands to, with the span every node of it gets."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from prelaunch.analysis.source import Source, Span

MAX_EXPANSION = 20_000
MAX_NESTED = 12


@dataclass(frozen=True, slots=True)
class Text:
    """``fixed`` is set for expanded text: all its nodes stand at that span. ``active`` macros do not expand again."""

    source: Source
    code: bytes
    fixed: Span | None = None
    active: tuple[str, ...] = ()

    def of(self, node: Node) -> str:
        return self.code[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def flat(self, node: Node) -> str:
        """The node's text with white space collapsed."""
        return " ".join(self.of(node).split())

    def span(self, node: Node) -> Span:
        return self.fixed if self.fixed is not None else self.source.span(node.start_byte, node.end_byte)
