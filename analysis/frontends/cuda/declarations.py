"""What the CUDA front end knows of a repository before lowering: parsed files and a table of everything they declare.

Nothing is lowered here. Declarations keep their tree-sitter nodes; node offsets are offsets of the file on disk,
because every rewrite before parsing is length-preserving.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeVar

from tree_sitter import Node, Tree

from prelaunch.analysis.source import Source, Span


@dataclass(frozen=True, slots=True)
class Macro:
    """One ``#define``. ``params`` is None for object-like macros; the last is ``...`` when variadic.

    ``body`` is the replacement text with comments and line splices removed; ``span`` covers the body in its file
    (the spelling site), ``conditional`` says it sits inside an ``#if`` other than an include guard.
    """

    name: str
    params: tuple[str, ...] | None
    body: str
    span: Span
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """Text that the tolerant pre-pass blanked although it may carry meaning (an ``#else`` branch, an unknown macro)."""

    span: Span
    why: str


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """``code`` is what tree-sitter read: as long as ``source.data``, equal to it but for the rewritten characters."""

    source: Source
    code: bytes
    tree: Tree
    errors: tuple[Span, ...] = ()  # ERROR and MISSING nodes left after the pre-pass
    dropped: tuple[Dropped, ...] = ()
    includes: tuple[tuple[str, bool, int], ...] = ()  # (spelling, is <system>, offset)

    def text(self, node: Node) -> str:
        """The text of a node as parsed (rewritten characters read as blanks)."""
        return self.code[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def span(self, node: Node) -> Span:
        return self.source.span(node.start_byte, node.end_byte)


Target = Literal["global", "device", "host", "host device"]


@dataclass(frozen=True, slots=True)
class FunctionDecl:
    """A function definition (``body`` set) or declaration. Methods carry the qualified name of their ``record``.

    ``node`` is the ``function_definition``/``declaration``; ``declarator`` its ``function_declarator``; ``template``
    the enclosing ``template_declaration`` if any; ``specialisation`` the explicit arguments of ``f<1, float>(...)``.
    ``specifiers`` holds the words before the name after alias macros (``static``, ``__global__``, ``void``).
    ``launch_bounds_text`` are the arguments of ``__launch_bounds__`` as written (macros not expanded); ``attributes``
    every other attribute with its arguments (``__cluster_dims__(2, 1, 1)``, ``__align__(16)``), blanked or not.
    """

    name: str  # unqualified
    qualified: str  # ns::Record::name
    target: Target
    file: ParsedFile
    node: Node
    declarator: Node
    body: Node | None
    parameters: tuple[Node, ...]
    template: Node | None = None
    record: str | None = None
    specialisation: tuple[str, ...] = ()
    confidence: str = "clean"  # "repaired: why" when ERROR/MISSING or dropped text lies inside
    specifiers: tuple[str, ...] = ()
    launch_bounds_text: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()

    @property
    def span(self) -> Span:
        return self.file.span(self.node)

    @property
    def is_kernel(self) -> bool:
        return self.target == "global"


@dataclass(frozen=True, slots=True)
class RecordDecl:
    """A struct, class or union definition, or an enum."""

    name: str
    qualified: str
    kind: Literal["struct", "class", "union", "enum", "enum class"]
    file: ParsedFile
    node: Node
    body: Node | None
    template: Node | None = None
    specialisation: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AliasDecl:
    """``typedef T N;`` or ``using N = T;``: ``node`` is the whole declaration."""

    name: str
    qualified: str
    file: ParsedFile
    node: Node
    template: Node | None = None


@dataclass(frozen=True, slots=True)
class VariableDecl:
    """A namespace-scope or static member variable. ``declarator`` is its (init) declarator in ``node``."""

    name: str
    qualified: str
    file: ParsedFile
    node: Node
    declarator: Node
    template: Node | None = None


Declared = TypeVar("Declared", FunctionDecl, RecordDecl, AliasDecl, VariableDecl)


@dataclass(slots=True)
class Project:
    """All files of a review and name lookup over them.

    Lookup by simple or qualified name, as seen from ``file``: declarations of the file itself first, then of the files
    it includes (directly or not), then of the rest of the project; within each group in order of appearance.
    """

    root: str
    files: dict[str, ParsedFile] = field(default_factory=dict)
    functions: dict[str, list[FunctionDecl]] = field(default_factory=dict)  # by simple name
    records: dict[str, list[RecordDecl]] = field(default_factory=dict)
    aliases: dict[str, list[AliasDecl]] = field(default_factory=dict)
    variables: dict[str, list[VariableDecl]] = field(default_factory=dict)
    macros: dict[str, list[Macro]] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)  # (path, why it was not read)
    reach: dict[str, tuple[str, ...]] = field(default_factory=dict)  # file -> files it includes, nearest first
    _rank_cache: dict[str, dict[str, int]] = field(default_factory=dict, compare=False, repr=False)

    def kernels(self) -> list[FunctionDecl]:
        """Kernel definitions in order of (file, offset)."""
        found = [f for group in self.functions.values() for f in group if f.is_kernel and f.body is not None]
        return sorted(found, key=lambda f: (f.file.source.path, f.node.start_byte))

    def lookup_functions(self, name: str, file: str) -> list[FunctionDecl]:
        """Functions called ``name`` (simple or qualified, any trailing part of the qualification), nearest first."""
        return self._lookup(self.functions, name, file)

    def lookup_records(self, name: str, file: str) -> list[RecordDecl]:
        return self._lookup(self.records, name, file)

    def lookup_aliases(self, name: str, file: str) -> list[AliasDecl]:
        return self._lookup(self.aliases, name, file)

    def lookup_variables(self, name: str, file: str) -> list[VariableDecl]:
        return self._lookup(self.variables, name, file)

    def lookup_macro(self, name: str, file: str) -> Macro | None:
        """The last definition in the nearest file that has one; an unconditional one is not preferred."""
        found = self.macros.get(name)
        if not found:
            return None
        rank = self._ranks(file)
        last = len(rank)
        best = min(rank.get(m.span.file, last) for m in found)
        return [m for m in found if rank.get(m.span.file, last) == best][-1]

    def _lookup(self, table: dict[str, list[Declared]], name: str, file: str) -> list[Declared]:
        parts = [part for part in name.split("::") if part]
        if not parts:
            return []
        found = table.get(parts[-1], [])
        if len(parts) > 1:
            found = [d for d in found if d.qualified.split("::")[-len(parts) :] == parts]
        if len(found) < 2:
            return list(found)
        rank = self._ranks(file)
        return sorted(found, key=lambda d: rank.get(d.file.source.path, len(rank)))

    def _ranks(self, file: str) -> dict[str, int]:
        ranks = self._rank_cache.get(file)
        if ranks is None:
            ranks = {path: i for i, path in enumerate(dict.fromkeys((file, *self.reach.get(file, ()))))}
            self._rank_cache[file] = ranks
        return ranks
