"""The declaration table of one file: what its tree declares at namespace and class scope.

Postcondition: declarations come in text order; a function body is entered only where a parse error lies inside it
(an unbalanced brace can hide later definitions in it).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.aliases import Aliases
from prelaunch.analysis.frontends.cuda.text.declarations import (
    AliasDecl,
    FunctionDecl,
    ParsedFile,
    RecordDecl,
    Target,
    VariableDecl,
)
from prelaunch.analysis.frontends.cuda.text.lexing import mask

_RECORDS: dict[str, Literal["struct", "class", "union"]] = {
    "struct_specifier": "struct",
    "class_specifier": "class",
    "union_specifier": "union",
}
_SCOPE_CAP = 256
_TOKEN = re.compile(r'"[^"]*"|[A-Za-z_]\w*|\S')
_ATTRIBUTE = re.compile(r"__launch_bounds__|__maxnreg__|__align__|alignas|__attribute__|__\w+__(?=\s*\()")


@dataclass(slots=True)
class Declarations:
    functions: list[FunctionDecl] = field(default_factory=list)
    records: list[RecordDecl] = field(default_factory=list)
    aliases: list[AliasDecl] = field(default_factory=list)
    variables: list[VariableDecl] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # what was left out, and why


@dataclass(frozen=True, slots=True)
class _Scope:
    names: tuple[str, ...] = ()
    record: str | None = None
    template: Node | None = None

    def qualify(self, name: str) -> str:
        return "::".join((*self.names, name))


def index_file(file: ParsedFile, aliases: Aliases) -> Declarations:
    """Declarations of ``file`` in text order; heads are read through ``aliases``."""
    return _Indexer(file, aliases).run()


class _Indexer:
    def __init__(self, file: ParsedFile, aliases: Aliases) -> None:
        self.file = file
        self.aliases = aliases
        self.found = Declarations()

    def run(self) -> Declarations:
        stack: list[tuple[Node, _Scope]] = [(self.file.tree.root_node, _Scope())]
        while stack:
            node, scope = stack.pop()
            stack.extend(reversed(self._visit(node, scope)))
        return self.found

    def _visit(self, node: Node, scope: _Scope) -> list[tuple[Node, _Scope]]:
        """Records what ``node`` declares; returns what to look at below it."""
        kind = node.type
        if len(scope.names) > _SCOPE_CAP:
            self.found.skipped.append(f"byte {node.start_byte}: scopes nest deeper than {_SCOPE_CAP}")
            return []
        if kind == "template_declaration":
            return [(c, _Scope(scope.names, scope.record, node)) for c in node.named_children[1:]]
        if kind == "namespace_definition":
            name = node.child_by_field_name("name")
            names = self.file.text(name).split("::") if name else []
            inner = _Scope((*scope.names, *names))
            return [(c, inner) for c in node.named_children]
        if kind in _RECORDS or kind == "enum_specifier":
            return self._record(node, scope)
        if kind in ("function_definition", "declaration", "field_declaration", "template_instantiation"):
            return self._declaration(node, scope)
        if kind in ("type_definition", "alias_declaration"):
            return self._alias(node, scope)
        if kind == "compound_statement" and not node.has_error:
            return []
        if kind in ("parameter_list", "template_parameter_list", "preproc_arg", "argument_list"):
            return []
        return [(c, scope) for c in node.named_children]

    def _record(self, node: Node, scope: _Scope) -> list[tuple[Node, _Scope]]:
        body = node.child_by_field_name("body")
        name = node.child_by_field_name("name")
        if body is None:
            return []
        label, arguments = self._name(name) if name is not None else ("", ())
        if node.type == "enum_specifier":
            scoped = any(c.type in ("class", "struct") for c in node.children)
            self.found.records.append(
                RecordDecl(
                    label.rpartition("::")[2],
                    scope.qualify(label),
                    "enum class" if scoped else "enum",
                    self.file,
                    node,
                    body,
                    scope.template,
                    arguments,
                )
            )
            return []
        qualified = scope.qualify(label) if label else "::".join(scope.names)
        simple = label.rpartition("::")[2]
        template = scope.template
        self.found.records.append(
            RecordDecl(
                simple,
                qualified,
                _RECORDS[node.type],
                self.file,
                node,
                body,
                template,
                arguments,
                self._head(node, body.start_byte)[1],
            )
        )
        inner = _Scope(tuple(qualified.split("::")), qualified)
        return [(c, inner) for c in body.named_children]

    def _alias(self, node: Node, scope: _Scope) -> list[tuple[Node, _Scope]]:
        if node.type == "alias_declaration":
            name = node.child_by_field_name("name")
            if name is not None:
                text = self.file.text(name)
                self.found.aliases.append(AliasDecl(text, scope.qualify(text), self.file, node, scope.template))
        else:
            for declarator in node.children_by_field_name("declarator"):
                inner = _innermost(declarator)
                if inner is not None:
                    text = self.file.text(inner)
                    self.found.aliases.append(AliasDecl(text, scope.qualify(text), self.file, node, scope.template))
        kind = node.child_by_field_name("type")
        return [(kind, scope)] if kind is not None else []

    def _declaration(self, node: Node, scope: _Scope) -> list[tuple[Node, _Scope]]:
        below: list[tuple[Node, _Scope]] = []
        kind = node.child_by_field_name("type")
        if kind is not None and (kind.type in _RECORDS or kind.type == "enum_specifier"):
            below.append((kind, _Scope(scope.names, scope.record, scope.template)))
        for declarator in node.children_by_field_name("declarator"):
            function = _function_declarator(declarator)
            if function is not None:
                self._function(node, declarator, function, scope)
            elif node.type != "template_instantiation":
                self._variable(node, declarator, scope)
        body = node.child_by_field_name("body")
        if body is not None and body.has_error:
            below.append((body, scope))
        return below

    def _variable(self, node: Node, declarator: Node, scope: _Scope) -> None:
        if node.type == "field_declaration" and not any(
            self.file.text(c) in ("static", "constexpr") for c in node.children
        ):
            return
        inner = _innermost(declarator)
        if inner is None:
            return
        label, _ = self._name(inner)
        simple = label.rpartition("::")[2]
        specifiers, attributes = self._head(node, declarator.start_byte)
        self.found.variables.append(
            VariableDecl(
                simple, scope.qualify(label), self.file, node, declarator, scope.template, specifiers, attributes
            )
        )

    def _function(self, node: Node, outer: Node, declarator: Node, scope: _Scope) -> None:
        name = declarator.child_by_field_name("declarator")
        parameters = declarator.child_by_field_name("parameters")
        if parameters is None:
            return
        label, arguments = self._name(name) if name is not None else (self.file.text(outer).partition("(")[0], ())
        simple = label.rpartition("::")[2].strip()
        owner = label.rpartition("::")[0]
        record = scope.record or (scope.qualify(owner) if owner else None)
        specifiers, attributes = self._head(node, declarator.start_byte)
        self.found.functions.append(
            FunctionDecl(
                simple,
                scope.qualify(label),
                target_of(specifiers),
                self.file,
                node,
                declarator,
                node.child_by_field_name("body"),
                tuple(p for p in parameters.named_children if "parameter" in p.type),
                scope.template,
                record,
                arguments,
                self._confidence(node),
                specifiers,
                tuple(a.partition("(")[2][:-1].strip() for a in attributes if a.startswith("__launch_bounds__")),
                tuple(a for a in attributes if not a.startswith("__launch_bounds__")),
            )
        )

    def _head(self, node: Node, end: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Words and attributes of a declaration before ``end``, aliases expanded; as in the file, not as rewritten."""
        text = mask(self.file.source.data[self.file.lead(node) : end], literals=False).decode("utf-8", "replace")
        return split_specifiers(self.aliases.expand(text, self.file.source.path))

    def _confidence(self, node: Node) -> str:
        if node.has_error:
            return "repaired: syntax not understood"
        for dropped in self.file.dropped:
            if node.start_byte < dropped.span.end and dropped.span.start < node.end_byte:
                return f"repaired: {dropped.why}"
        return "clean"

    def _name(self, node: Node) -> tuple[str, tuple[str, ...]]:
        """Spelling without template arguments, and the arguments of its last part."""
        parts: list[str] = []
        arguments: tuple[str, ...] = ()
        current: Node | None = node
        while current is not None:
            if current.type in ("qualified_identifier", "template_function", "template_type", "template_method"):
                if current.type == "qualified_identifier":
                    owner = current.child_by_field_name("scope")
                    if owner is not None:
                        parts.append(self._bare(owner))
                else:
                    listed = current.child_by_field_name("arguments")
                    if listed is not None:
                        arguments = tuple(self.file.text(a) for a in listed.named_children)
                current = current.child_by_field_name("name")
            else:
                parts.append(" ".join(self.file.text(current).split()))
                current = None
        return "::".join(parts), arguments

    def _bare(self, node: Node) -> str:
        name = node.child_by_field_name("name") if node.type == "template_type" else None
        return self.file.text(name if name is not None else node)


def split_specifiers(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words of a declaration head, and its attributes with their arguments taken out of it."""
    words: list[str] = []
    attributes: list[str] = []
    tokens = list(_TOKEN.finditer(text))
    i = 0
    while i < len(tokens):
        word = tokens[i].group()
        if _ATTRIBUTE.match(text, tokens[i].start()) and i + 1 < len(tokens) and tokens[i + 1].group() == "(":
            depth, j = 0, i + 1
            while j < len(tokens):
                depth += {"(": 1, ")": -1}.get(tokens[j].group(), 0)
                if depth == 0:
                    break
                j += 1
            end = tokens[min(j, len(tokens) - 1)].end()
            attributes.append(" ".join(text[tokens[i].start() : end].split()))
            i = j + 1
            continue
        words.append(word)
        i += 1
    return tuple(words), tuple(attributes)


def target_of(specifiers: tuple[str, ...]) -> Target:
    if "__global__" in specifiers:
        return "global"
    if "__device__" in specifiers:
        return "host device" if "__host__" in specifiers else "device"
    return "host"


def _innermost(node: Node) -> Node | None:
    """The name a declarator declares."""
    current: Node | None = node
    while current is not None:
        if current.type in (
            "identifier",
            "field_identifier",
            "type_identifier",
            "qualified_identifier",
            "template_function",
        ):
            return current
        below = current.child_by_field_name("declarator")
        if below is None:
            named = [c for c in current.named_children if "declarator" in c.type or c.type.endswith("identifier")]
            below = named[0] if named else None
        current = below
    return None


_AROUND_FUNCTION = frozenset({
    "pointer_declarator", "reference_declarator", "operator_cast", "init_declarator", "abstract_pointer_declarator",
    "abstract_reference_declarator",
})  # fmt: skip


def _function_declarator(node: Node) -> Node | None:
    """The ``function_declarator`` that makes ``node`` declare a function; None for pointers to functions."""
    current: Node | None = node
    while current is not None:
        if current.type in ("function_declarator", "abstract_function_declarator"):
            inner = current.child_by_field_name("declarator")
            if inner is not None and inner.type == "parenthesized_declarator":
                return None
            return current
        if current.type not in _AROUND_FUNCTION:
            return None
        if current.type == "init_declarator":
            current = current.child_by_field_name("declarator")
            continue
        below = current.child_by_field_name("declarator")
        if below is None:
            named = [c for c in current.named_children if c.type.endswith("declarator")]
            below = named[-1] if named else None
        current = below
    return None
