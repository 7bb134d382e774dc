"""What the CUDA front end knows of a repository before lowering: parsed files and a table of everything they declare.

Nothing is lowered here. Declarations keep their tree-sitter nodes; node offsets are offsets of the file on disk,
because every rewrite before parsing is length-preserving.
"""

from __future__ import annotations

import bisect
import posixpath
from dataclasses import dataclass, field, replace
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
    active: bool = True  # in a branch that nvcc takes when no ``-D`` is given


@dataclass(frozen=True, slots=True)
class Dropped:
    """Text that the tolerant pre-pass blanked although it may carry meaning (an ``#else`` branch, an unknown macro)."""

    span: Span
    why: str


@dataclass(frozen=True, slots=True)
class Expansion:
    """Parsed text that stands nowhere as such: a macro use, expanded, then ``[resume, ...)`` of ``real`` copied.

    Bytes before ``split`` came from the macro, byte ``split + k`` is byte ``resume + k`` of the file.
    """

    real: Source
    use: Span
    spelling: Span
    split: int
    resume: int


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """``code`` is what tree-sitter read: as long as ``source.data``, equal to it but for the rewritten characters."""

    source: Source
    code: bytes
    tree: Tree
    errors: tuple[Span, ...] = ()  # ERROR and MISSING nodes left after the pre-pass
    dropped: tuple[Dropped, ...] = ()
    includes: tuple[tuple[str, bool, int], ...] = ()  # (spelling, is <system>, offset)
    blanked: tuple[tuple[int, int], ...] = ()  # specifier macros and attributes taken out, by offset
    untaken: frozenset[int] = frozenset()  # offsets of #if, #elif, #else lines whose branch nvcc skips without -D

    expansion: Expansion | None = None

    def taken(self, node: Node) -> bool:
        """Whether a compiler without ``-D`` reads the branch that ``preproc_if``/``ifdef``/``elif``/``else`` opens."""
        return node.start_byte not in self.untaken

    def in_untaken(self, node: Node) -> bool:
        """Whether a compiler without ``-D`` skips the branch of ``#if`` that ``node`` stands in."""
        if not self.untaken:
            return False
        child, parent = node, node.parent
        while parent is not None:
            # #elif and #else hang below the branch before them, whose own text they are not
            alternative = child.type in ("preproc_elif", "preproc_else", "preproc_elifdef")
            if not alternative and parent.start_byte in self.untaken and parent.type.startswith("preproc_"):
                return True
            child, parent = parent, parent.parent
        return False

    def lead(self, node: Node) -> int:
        """Where a declaration begins, with the attributes and specifier macros that were blanked right before it."""
        index = bisect.bisect_right(self.blanked, (node.start_byte, node.start_byte)) - 1
        start = node.start_byte
        while index >= 0 and not self.code[self.blanked[index][1] : start].strip():
            start = self.blanked[index][0]
            index -= 1
        return start

    def text(self, node: Node) -> str:
        """The text of a node as parsed (rewritten characters read as blanks)."""
        return self.code[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def span(self, node: Node, inlined_at: Span | None = None) -> Span:
        """Where a node stands in the file on disk; for macro text the use, with ``spelling``."""
        made = self.expansion
        if made is None:
            return self.source.span(node.start_byte, node.end_byte, inlined_at)
        if node.start_byte >= made.split:
            shift = made.resume - made.split
            return made.real.span(node.start_byte + shift, node.end_byte + shift, inlined_at)
        return replace(made.use, spelling=made.spelling, inlined_at=inlined_at)


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
    """A struct, class or union definition, or an enum. ``attributes`` as in ``FunctionDecl``, alignment included."""

    name: str
    qualified: str
    kind: Literal["struct", "class", "union", "enum", "enum class"]
    file: ParsedFile
    node: Node
    body: Node | None
    template: Node | None = None
    specialisation: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


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
    """A namespace-scope or static member variable. ``declarator`` is its (init) declarator in ``node``.

    ``specifiers`` and ``attributes`` as in ``FunctionDecl``: they tell ``__constant__`` behind a macro.
    """

    name: str
    qualified: str
    file: ParsedFile
    node: Node
    declarator: Node
    template: Node | None = None
    specifiers: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


Declared = TypeVar("Declared", FunctionDecl, RecordDecl, AliasDecl, VariableDecl)


@dataclass(slots=True)
class Project:
    """All files of a review and name lookup over them.

    Lookup by simple or qualified name, as seen from ``file``: declarations of the file itself first, then of the files
    it includes (directly or not, nearest first), then of the files that include it, then of the rest of the project,
    nearest folder first; within each file in order of appearance; what stands in a branch of ``#if`` that is not taken
    comes last. Macros are only looked for where the preprocessor would see them: the file, what it includes, what
    stands before the line that includes it.
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
    direct: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # file -> (file it includes, line's offset)
    included_at: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # file -> (includer, offset of line)
    cache: dict[str, object] = field(default_factory=dict, compare=False, repr=False)  # tables that lowering derives
    _macro_seen: dict[tuple[str, str], Macro | None] = field(default_factory=dict, compare=False, repr=False)
    _ranks: dict[str, dict[str, int]] = field(default_factory=dict, compare=False, repr=False)
    _above: dict[str, dict[str, int]] = field(default_factory=dict, compare=False, repr=False)

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
        """The last definition in the nearest file that has one, of those in branches nvcc takes if there are any."""
        found = self.macros.get(name)
        if not found:
            return None
        if (name, file) not in self._macro_seen:
            self._macro_seen[name, file] = self._nearest_macro(found, file)
        return self._macro_seen[name, file]

    def _nearest_macro(self, found: list[Macro], file: str) -> Macro | None:
        rank = self._visible(file)
        reached = [m for m in found if m.span.file in rank]
        if reached:
            best = min(rank[m.span.file] for m in reached)
            nearest = [m for m in reached if rank[m.span.file] == best]
        else:
            above = self._before(file)
            nearest = [m for m in found if m.span.start < above.get(m.span.file, -1)]
            nearest = [m for m in nearest if m.span.file == nearest[0].span.file]
        active = [m for m in nearest if m.active] or nearest
        return active[-1] if active else None

    def _lookup(self, table: dict[str, list[Declared]], name: str, file: str) -> list[Declared]:
        parts = [part for part in name.split("::") if part]
        if not parts:
            return []
        found = table.get(parts[-1], [])
        if len(parts) > 1:
            found = [d for d in found if d.qualified.split("::")[-len(parts) :] == parts]
        if len(found) < 2:
            return list(found)
        rank = self._visible(file)
        above = self._before(file)

        def distance(declared: Declared) -> tuple[bool, int, int]:
            path = declared.file.source.path
            skipped = declared.file.in_untaken(declared.node)
            if path in rank:
                return skipped, 0, rank[path]
            shared = len(posixpath.commonpath(("/" + path, "/" + posixpath.dirname(file))).split("/"))
            return skipped, (1 if path in above else 2), -shared

        return sorted(found, key=distance)

    def _visible(self, file: str) -> dict[str, int]:
        """The file and the files it includes, ranked by nearness."""
        ranks = self._ranks.get(file)
        if ranks is None:
            ranks = {path: i for i, path in enumerate(dict.fromkeys((file, *self.reach.get(file, ()))))}
            self._ranks[file] = ranks
        return ranks

    def _before(self, file: str) -> dict[str, int]:
        """Files that include ``file`` and, per file, the offset up to which their text comes before it.

        What those files include earlier counts whole. Nearest includer first; at most 1,000 files.
        """
        above = self._above.get(file)
        if above is None:
            above = {}
            queue = list(self.included_at.get(file, ()))
            for includer, offset in queue:
                if includer in above or includer == file or len(above) > 1_000:
                    continue
                above[includer] = offset
                for other, at in self.direct.get(includer, ()):
                    if at < offset:
                        for path in (other, *self.reach.get(other, ())):
                            above.setdefault(path, 1 << 62)
                queue += self.included_at.get(includer, ())
            self._above[file] = above
        return above
