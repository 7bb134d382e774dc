"""What rules read: one ``Facts`` per kernel instance with its launches, one ``RepositoryFacts`` for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prelaunch.analysis.kernel import Kernel
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.source import Source, Span


@dataclass(frozen=True)
class Facts:
    """A kernel instance and the launches that reach it (equal ones once). Engines cache derived facts on it.

    ``sources`` maps repository-relative paths to files, for texts in messages.
    """

    kernel: Kernel
    launches: tuple[Launch, ...]
    sources: Mapping[str, Source]
    cache: dict[str, object] = field(default_factory=dict, compare=False, repr=False)

    def text(self, span: Span) -> str:
        """Source text of a span, white space collapsed; empty when the file is not at hand."""
        source = self.sources.get(span.file)
        return " ".join(source.text(span).split()) if source else ""


@dataclass(frozen=True)
class RepositoryFacts:
    """All kernels and launches of a review, for rules that speak once per repository."""

    kernels: tuple[Facts, ...]
    launches: tuple[Launch, ...]
    sources: Mapping[str, Source]
