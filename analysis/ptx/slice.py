"""One kernel and what it needs as a translation unit of its own.

Starting at the kernel, every declaration in reach whose name its text mentions is kept, with what that one mentions;
host functions go. Local headers are flattened in place by our own resolver, so that the compiler sees no include of a
repository file; the only includes left are toolkit headers from a fixed list. Every ``#`` of the text that is not part
of a ``#define``, ``#undef`` or ``#pragma`` that was kept is blanked, whatever it looks like. Lines map back through
``#line`` directives with opaque file names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.project import FunctionDecl, ParsedFile, Project, RecordDecl, VariableDecl
from prelaunch.analysis.frontends.cuda.text.scan import Scan, scan
from prelaunch.analysis.ptx.blanking import kept_text
from prelaunch.analysis.ptx.groups import HEADERS as GROUP_HEADERS
from prelaunch.analysis.ptx.groups import TEXT as GROUPS
from prelaunch.analysis.ptx.headers import PRELUDE, STANDARD_INCLUDES, STUBS, TOOLKIT

MAX_DECLARATIONS = 5_000
MAX_BYTES = 4 << 20
MAX_FILES = 400

_WORD = re.compile(rb"[A-Za-z_]\w*")
_FORWARD = re.compile(rb"\s*(?:template\s*<[^;{]*>\s*)?(?:struct|class|union)\s+\w+\s*;?\s*\Z")
_DEVICE_VARIABLE = re.compile(
    rb"\b(?:__device__|__constant__|__shared__|__managed__|constexpr|const|texture|static\s+inline)\b"
)
_WRAPPERS = frozenset({"namespace_definition", "linkage_specification"})
_TRANSPARENT = frozenset(
    {"translation_unit", "declaration_list", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "ERROR",
     "preproc_elifdef"}
)  # fmt: skip
_KNOWN_NAMESPACES = ("std", "cooperative_groups", "nvcuda", "cuda")


class NotSliced(Exception):
    """The kernel cannot be cut out; the message says why."""


@dataclass(frozen=True, slots=True)
class SlicedSource:
    """``body`` without headers; ``kernel`` the name expression; ``files`` maps the opaque names in line directives to
    repository paths; ``toolkit`` the CUDA headers it includes."""

    body: str
    kernel: str
    files: dict[str, str]
    toolkit: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def text(self, reader: Literal["nvrtc", "nvcc"], own_groups: bool = True) -> str:
        """The whole unit for a compiler: NVRTC gets our stand-ins for standard headers, nvcc the real ones.

        ``own_groups``: our small cooperative groups instead of the toolkit's.
        """
        groups = GROUPS if own_groups and self.uses_groups else ""
        named = [name for name in self.toolkit if not (own_groups and name in GROUP_HEADERS)]
        includes = "".join(f"#include <{name}>\n" for name in named)
        if reader == "nvrtc":
            return includes + PRELUDE + STUBS["algorithm"] + groups + self.body
        standard = "".join(f"#include <{name}>\n" for name in STANDARD_INCLUDES)
        keep = f"\nvoid* prelaunch_keep() {{ return (void*)&{self.kernel}; }}\n"
        return standard + includes + groups + self.body + keep

    @property
    def uses_groups(self) -> bool:
        return not GROUP_HEADERS.isdisjoint(self.toolkit)


@dataclass(slots=True)
class _File:
    """A file of the unit: its scan with the branches the front end takes, and the byte ranges to keep."""

    parsed: ParsedFile
    scan: Scan
    skipped: list[tuple[int, int]]
    keep: list[tuple[int, int]] = field(default_factory=list)
    drop: list[tuple[int, int]] = field(default_factory=list)

    def is_skipped(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self.skipped)


def slice_kernel(
    project: Project,
    decl: FunctionDecl,
    template_args: Sequence[str] = (),
    root: str | None = None,
    toolkit: bool = True,
) -> SlicedSource:
    """The unit of kernel ``decl`` instantiated with ``template_args``. ``root`` is the file whose includes it sees
    (default: a source file that leads to the kernel). Raises ``NotSliced``."""
    top = root or _root_of(project, decl.file.source.path)
    slicer = _Slicer(project, top)
    slicer.need(decl)
    slicer.mention(" ".join(template_args).encode())
    slicer.close()
    name = "::".join(p for p in decl.qualified.split("::") if p and p.isidentifier())
    if template_args:
        name += f"<{', '.join(template_args)}>"
    return slicer.emit(name, toolkit)


_SOURCES = (".cu", ".cc", ".cpp", ".cxx", ".c", ".hip")


def _root_of(project: Project, path: str) -> str:
    """The source file that leads to ``path`` and that nothing includes; the file itself when there is none.

    Some projects include their ``.cu`` files, so a suffix alone does not tell what is compiled on its own.
    """
    seen = [path]
    for current in seen:
        includers = [f for f, _ in project.included_at.get(current, ())]
        if not includers and current.endswith(_SOURCES):
            return current
        seen += [f for f in dict.fromkeys(includers) if f not in seen]
        if len(seen) > MAX_FILES:
            break
    return path


class _Slicer:
    def __init__(self, project: Project, root: str) -> None:
        self.project = project
        self.root = root
        paths = [root, *project.reach.get(root, ())][:MAX_FILES]
        self.files = {p: _open(project.files[p]) for p in paths if p in project.files}
        self.pending: list[tuple[_File, Node]] = []
        self.kept: set[tuple[str, int, int]] = set()
        self.words: set[bytes] = set()
        self.queue: list[bytes] = []
        self.methods = self._methods()
        self.enumerators = self._enumerators()
        self.texts: dict[str, bytes] = {}

    def _methods(self) -> dict[str, list[FunctionDecl]]:
        found: dict[str, list[FunctionDecl]] = {}
        for group in self.project.functions.values():
            for function in group:
                if function.record is not None and function.file.source.path in self.files:
                    found.setdefault(function.record, []).append(function)
        return found

    def _enumerators(self) -> dict[bytes, list[RecordDecl]]:
        found: dict[bytes, list[RecordDecl]] = {}
        for group in self.project.records.values():
            for record in group:
                if record.kind == "enum" and record.body is not None and record.file.source.path in self.files:
                    text = record.file.code[record.body.start_byte : record.body.end_byte]
                    for word in _WORD.findall(text):
                        found.setdefault(word, []).append(record)
        return found

    # --- closure over names ---

    def need(self, decl: FunctionDecl) -> None:
        self._keep(decl.file, decl.node)

    def mention(self, text: bytes) -> None:
        for word in _WORD.findall(text):
            if word not in self.words:
                self.words.add(word)
                self.queue.append(word)

    def close(self) -> None:
        self._operators()
        while self.queue:
            word = self.queue.pop()
            name = word.decode()
            for function in self.project.functions.get(name, ()):
                if self._usable(function):
                    self._keep(function.file, function.node)
            for record in (*self.project.records.get(name, ()), *self.enumerators.get(word, ())):
                self._keep_record(record)
            for alias in self.project.aliases.get(name, ()):
                self._keep(alias.file, alias.node)
            for variable in self.project.variables.get(name, ()):
                if self._device_variable(variable):
                    self._keep(variable.file, variable.node)
            for macro in self.project.macros.get(name, ()):
                if macro.active and macro.span.file in self.files:
                    self.mention(macro.body.encode())

    def _operators(self) -> None:
        """Overloaded operators are mentioned by no name: all that device code may use are kept."""
        for name, group in self.project.functions.items():
            if name.startswith("operator"):
                for function in group:
                    if function.record is None and "device" in function.target:
                        self._keep(function.file, function.node)

    def _usable(self, function: FunctionDecl) -> bool:
        if function.record is not None or function.target == "global":
            return False
        return function.target != "host" or "constexpr" in function.specifiers

    def _keep_record(self, record: RecordDecl) -> None:
        self._keep(record.file, record.node)
        for method in self.methods.get(record.qualified, ()):
            inside = record.node.start_byte <= method.node.start_byte < record.node.end_byte
            host = method.target == "host" and "constexpr" not in method.specifiers
            if host and method.body is not None and method.file is record.file and inside:
                file = self.files.get(method.file.source.path)
                if file is not None:
                    file.drop.append((method.file.lead(method.node), method.node.end_byte))
            elif not inside and not host:
                self._keep(method.file, method.node)

    @staticmethod
    def _device_variable(variable: VariableDecl) -> bool:
        start = variable.file.lead(variable.node)
        head = variable.file.source.data[max(0, start - 64) : variable.declarator.end_byte]
        return _DEVICE_VARIABLE.search(head) is not None

    def _keep(self, parsed: ParsedFile, node: Node) -> None:
        file = self.files.get(parsed.source.path)
        if file is None:
            return
        top = _outermost(node)
        key = (parsed.source.path, top.start_byte, top.end_byte)
        if key in self.kept or file.is_skipped(top.start_byte):
            return
        self.kept.add(key)
        if len(self.kept) > MAX_DECLARATIONS:
            raise NotSliced("the kernel needs too many declarations")
        start = parsed.lead(top)
        end = _with_semicolon(parsed.code, top.end_byte)
        file.keep.append((start, end))
        self.mention(file.scan.masked[start:end])
        wrapper = top.parent
        while wrapper is not None:
            if wrapper.type in _WRAPPERS:
                self._keep_wrapper(file, wrapper)
            wrapper = wrapper.parent

    def _keep_wrapper(self, file: _File, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is not None and body.type == "declaration_list":
            file.keep.append((node.start_byte, body.start_byte + 1))
            file.keep.append((body.end_byte - 1, body.end_byte))
        else:
            file.keep.append((node.start_byte, node.end_byte))

    # --- text ---

    def emit(self, kernel: str, toolkit: bool) -> SlicedSource:
        names = {path: f"f{number}" for number, path in enumerate(self.files)}
        for file in self.files.values():
            _keep_small_declarations(file)
        headers: dict[str, None] = {}
        left_out: dict[str, None] = {}
        pieces: list[str] = [f"namespace {n} {{}}\n" for n in self._namespaces()]
        visited: set[str] = set()
        self._flatten(self.root, names, visited, pieces, headers, left_out)
        body = "".join(pieces)
        if len(body) > MAX_BYTES:
            raise NotSliced("the unit is larger than the limit")
        order = tuple(h for h in headers if toolkit or h in GROUP_HEADERS)
        return SlicedSource(body, kernel, {n: p for p, n in names.items()}, order, tuple(left_out))

    def _namespaces(self) -> list[str]:
        found = dict.fromkeys(_KNOWN_NAMESPACES)
        for file in self.files.values():
            for match in re.finditer(rb"\bnamespace\s+([A-Za-z_]\w*)\s*[{;]", file.scan.masked):
                found[match.group(1).decode()] = None
        return list(found)

    def _flatten(
        self,
        path: str,
        names: dict[str, str],
        visited: set[str],
        pieces: list[str],
        headers: dict[str, None],
        left_out: dict[str, None],
    ) -> None:
        """Appends the text of ``path`` with the files it includes in their places; iterative, each file once."""
        stack: list[tuple[str, list[int | tuple[int, str]]]] = []
        self._open_piece(path, names, visited, stack, headers, left_out)
        while stack:
            current, cuts = stack[-1]
            position = cuts.pop(0)
            if isinstance(position, tuple):
                _, target = position
                if target not in visited and target in self.files:
                    self._open_piece(target, names, visited, stack, headers, left_out)
                continue
            file = self.files[current]
            end = next((c[0] for c in cuts if isinstance(c, tuple)), len(file.parsed.source.data))
            line, _ = file.parsed.source.position(position)
            pieces.append(f'\n#line {line} "{names[current]}"\n')
            pieces.append(self._text(current)[position:end].decode("utf-8", "replace"))
            if not cuts:
                stack.pop()
                pieces.append("\n")

    def _open_piece(
        self,
        path: str,
        names: dict[str, str],
        visited: set[str],
        stack: list[tuple[str, list[int | tuple[int, str]]]],
        headers: dict[str, None],
        left_out: dict[str, None],
    ) -> None:
        """Plans a file: stretches of text, by their start, between the includes that are followed."""
        visited.add(path)
        file = self.files[path]
        direct = {offset: target for target, offset in self.project.direct.get(path, ())}
        cuts: list[int | tuple[int, str]] = [0]
        for spelling, _system, offset in file.scan.includes:
            if file.is_skipped(offset):
                continue
            if offset in direct:
                end = next(d.end for d in file.scan.directives if d.start == offset)
                cuts += [(offset, direct[offset]), end]
            elif spelling in TOOLKIT:
                headers[spelling] = None
            elif spelling not in STUBS:
                left_out[spelling] = None
        stack.append((path, cuts))

    def _text(self, path: str) -> bytes:
        text = self.texts.get(path)
        if text is None:
            file = self.files[path]
            data = file.parsed.source.data
            text = self.texts[path] = kept_text(data, file.scan.directives, file.keep, file.drop, file.skipped)
        return text


def _open(parsed: ParsedFile) -> _File:
    found = scan(parsed.source)
    skipped = [
        (branch.start, branch.end)
        for group in found.groups
        for branch in group.branches
        if branch.line.start in parsed.untaken
    ]
    return _File(parsed, found, skipped)


def _outermost(node: Node) -> Node:
    """The whole declaration around ``node``: up to a namespace, a linkage block or the file."""
    top = node
    while top.parent is not None and top.parent.type not in _TRANSPARENT and top.parent.type not in _WRAPPERS:
        top = top.parent
    return top


def _with_semicolon(code: bytes, end: int) -> int:
    position = end
    while position < len(code) and code[position : position + 1].isspace():
        position += 1
    return position + 1 if code[position : position + 1] == b";" else end


def _keep_small_declarations(file: _File) -> None:
    """Forward declarations of records, using declarations and namespace aliases, wherever they stand."""
    stack = [file.parsed.tree.root_node]
    while stack:
        node = stack.pop()
        kind = node.type
        if kind in _TRANSPARENT:
            stack.extend(node.named_children)
        elif kind in _WRAPPERS:
            body = node.child_by_field_name("body")
            if body is not None:
                stack.append(body)
        elif _is_small(file, node) and not file.is_skipped(node.start_byte):
            _keep_in_namespaces(file, node)


def _is_small(file: _File, node: Node) -> bool:
    if node.type in ("using_declaration", "namespace_alias_definition"):
        return True
    text = file.parsed.code[node.start_byte : min(node.end_byte, node.start_byte + 300)]
    return len(text) < 300 and _FORWARD.match(text) is not None


def _keep_in_namespaces(file: _File, node: Node) -> None:
    file.keep.append((node.start_byte, _with_semicolon(file.parsed.code, node.end_byte)))
    wrapper = node.parent
    while wrapper is not None:
        body = wrapper.child_by_field_name("body") if wrapper.type in _WRAPPERS else None
        if body is not None and body.type == "declaration_list":
            file.keep.append((wrapper.start_byte, body.start_byte + 1))
            file.keep.append((body.end_byte - 1, body.end_byte))
        wrapper = wrapper.parent
