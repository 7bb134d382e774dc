"""Lexical scopes of the function being lowered: which declaration a name means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.declarations import Project
from prelaunch.analysis.hostir import ctypes, ir
from prelaunch.analysis.hostir.text import Text

MAX_DEPTH = 120
"""Statements and expressions nested deeper are not lowered: a bound on recursion, whatever the text."""


@dataclass(slots=True)
class Host:
    """What lowering one function needs to know around a node.

    ``depth`` counts nested statements and expressions. A name declared again in the same scope (the branches of an
    ``#if``) keeps its slot.
    """

    project: Project
    file: str
    function: str
    lambda_function: Callable[[Node, Text], ir.HostFunction]
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    made: int = 0
    depth: int = 0

    def find(self, name: str) -> str | None:
        for scope in reversed(self.scopes):
            slot = scope.get(name)
            if slot is not None:
                return slot
        return None

    def declare(self, name: str) -> str:
        innermost = self.scopes[-1]
        if name not in innermost:
            self.made += 1
            innermost[name] = f"{name}#{self.made}"
        return innermost[name]

    def is_type(self, name: str) -> bool:
        """Whether ``name`` can only be a type here."""
        if self.find(name) is not None:
            return False
        if ctypes.size_of(name) is not None:
            return True
        return bool(self.project.lookup_aliases(name, self.file) or self.project.lookup_records(name, self.file))
