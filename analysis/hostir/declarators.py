"""Declarators as host code writes them: name, stars, reference, array bounds, initial value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.macros import parse_fragment
from prelaunch.analysis.hostir.text import Text

_NAMES = ("identifier", "field_identifier", "type_identifier", "qualified_identifier", "template_function")


@dataclass(frozen=True, slots=True)
class Declarator:
    """``prototype`` is the parameter list of what reads as a function declaration inside a function; such text is an
    object with constructor arguments when every parameter reads as a value (``dim3 grid(nx, ny);``)."""

    name: str
    pointers: int = 0
    reference: bool = False
    extents: tuple[Node | None, ...] = ()
    value: Node | None = None
    prototype: Node | None = None
    could_be_value: bool = False
    function_pointer: bool = False
    pack: bool = False
    bindings: tuple[str, ...] = ()


def read_declarator(node: Node, text: Text) -> Declarator:
    """Reads one declarator, initialiser included."""
    pointers, reference, pack, called = 0, False, False, False
    extents: list[Node | None] = []
    value: Node | None = None
    prototype: Node | None = None
    current: Node | None = node
    while current is not None:
        kind = current.type
        if kind in _NAMES:
            name = text.flat(current)
            possible = prototype is not None and _reads_as_values(prototype, text)
            return Declarator(
                name, pointers, reference, tuple(reversed(extents)), value, prototype if not called else None,
                possible, called, pack,
            )  # fmt: skip
        if kind == "structured_binding_declarator":
            names = tuple(text.of(c) for c in current.named_children)
            return Declarator("", value=value, bindings=names)
        below = current.child_by_field_name("declarator")
        if kind == "init_declarator":
            value = current.child_by_field_name("value")
        elif "pointer_declarator" in kind:
            pointers += 1
        elif "reference_declarator" in kind:
            reference = True
        elif "variadic" in kind:
            pack = True
        elif "array_declarator" in kind:
            extents.append(current.child_by_field_name("size"))
        elif "function_declarator" in kind:
            called = below is not None and below.type == "parenthesized_declarator"
            prototype = current.child_by_field_name("parameters")
        if below is None:
            inside = [c for c in current.named_children if "declarator" in c.type or c.type in _NAMES]
            below = inside[-1] if inside else None
        current = below
    return Declarator("", pointers, reference, tuple(reversed(extents)), value, None, False, called, pack)


def _reads_as_values(parameters: Node, text: Text) -> bool:
    """Whether a parameter list could be constructor arguments: no parameter has a type and a plain name."""
    nodes = [c for c in parameters.named_children if c.type != "comment"]
    if not nodes:
        return False
    for node in nodes:
        kind, declared = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        if kind is None or kind.type in ("primitive_type", "sized_type_specifier"):
            return False
        if declared is not None and declared.type in _NAMES:
            return False
    return True


def arguments_of(shape: Declarator, text: Text) -> Iterator[tuple[Node, tuple[bytes, Node]]]:
    """The parameters of ``shape.prototype`` read again as expressions: (place, (bytes parsed, node))."""
    for node in shape.prototype.named_children if shape.prototype is not None else ():
        if node.type != "comment":
            yield node, parse_fragment(text.of(node), "expression")


def type_words(node: Node, text: Text) -> str:
    """The type of a declaration as written, qualifiers and storage included, without its declarators."""
    words: list[str] = []
    declared = {c.id for c in node.children_by_field_name("declarator")}
    for child in node.children:
        if child.id in declared or child.type in (",", ";", "=", "(", "for", ":"):
            break
        if child.type != "comment" and (child.is_named or child.type == "auto"):
            words.append(text.flat(child))
    return " ".join(words)
