"""What names mean in host code: functions to call, constants, types, the members of records."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, RecordDecl, VariableDecl
from prelaunch.analysis.hostir import ctypes, ir
from prelaunch.analysis.hostir.declarators import read_declarator, type_words
from prelaunch.analysis.hostir.linkage import visible
from prelaunch.analysis.hostir.lower_expr import expr
from prelaunch.analysis.hostir.machine import Frame, Machine
from prelaunch.analysis.hostir.scopes import Host
from prelaunch.analysis.hostir.text import Text
from prelaunch.analysis.hostir.values import Array, Memory, Ref, State, Value, identity

MAX_ALIASES = 16


def choose(
    machine: Machine, candidates: Iterable[FunctionDecl], args: list[Value], record: str = ""
) -> FunctionDecl | None:
    """The overload that takes ``args``: by number, then by which of them are pointers; primary templates first."""
    best: tuple[int, FunctionDecl] | None = None
    for decl in candidates:
        if record and decl.record is not None and decl.record.rpartition("::")[2] != record.rpartition("::")[2]:
            continue
        parameters = machine.signature(decl).parameters
        least = sum(1 for p in parameters if p.default is None and not p.pack)
        packed = any(p.pack for p in parameters)
        if not least <= len(args) or (len(args) > len(parameters) and not packed):
            continue
        score = sum(
            (p.pointers > 0) == isinstance(a, Memory | Ref | Array) for p, a in zip(parameters, args, strict=False)
        )
        score = score * 2 + (not decl.specialisation)
        if best is None or score > best[0]:
            best = (score, decl)
    return best[1] if best is not None else None


def resolve_type(machine: Machine, frame: Frame, spelling: str) -> str:
    """``spelling`` with template parameters and aliases replaced, qualifiers gone."""
    key = (frame.function.file, spelling)
    plain = not frame.types and not frame.function.template
    if plain and key in machine.types:
        return machine.types[key]
    text = ctypes.plain(spelling)
    for _ in range(MAX_ALIASES):
        base = text.rstrip("* ")
        stars = text[len(base) :].replace(" ", "")
        if base in frame.types:
            text = ctypes.plain(frame.types[base] + stars)
            continue
        if ctypes.size_of(base) is not None or base == "dim3":
            break
        if any(p.name == base and not p.type for p in frame.function.template):
            break  # a type nobody has passed
        aliased = alias(machine, base, frame.function.file)
        if aliased is None or aliased == base:
            break
        text = ctypes.plain(aliased + stars)
    if plain:
        machine.types[key] = text
    return text


def alias(machine: Machine, name: str, file: str) -> str | None:
    """The spelling an alias without template parameters stands for."""
    if not re.fullmatch(r"[\w:]+", name):
        return None
    for decl in machine.project.lookup_aliases(name, file):
        if decl.template is not None:
            continue
        text = Text(decl.file.source, decl.file.code)
        kind = decl.node.child_by_field_name("type")
        if kind is None or kind.child_by_field_name("body") is not None:
            continue
        if decl.node.type == "alias_declaration":
            return text.flat(kind)
        for declarator in decl.node.children_by_field_name("declarator"):
            shape = read_declarator(declarator, text)
            if shape.name == decl.name and not shape.function_pointer and not shape.extents:
                return type_words(decl.node, text).replace("typedef", "") + "*" * shape.pointers
    return None


def size_of(machine: Machine, frame: Frame, spelling: str) -> int | None:
    """``sizeof``; records are laid out when all their members are plain scalars, pointers or arrays of them."""
    text = resolve_type(machine, frame, spelling)
    known = ctypes.size_of(text)
    if known is not None:
        return known
    return _record_size(machine, frame, text, 0)


def _record_size(machine: Machine, frame: Frame, name: str, depth: int) -> int | None:
    if not re.fullmatch(r"[\w:]+", name) or depth > 4:
        return None
    found = machine.project.lookup_records(name, frame.function.file)
    if not found or found[0].template is not None:
        return None
    if found[0].kind.startswith("enum"):
        return 4
    if found[0].kind == "union" or any(c.type == "base_class_clause" for c in found[0].node.named_children):
        return None
    end, widest = 0, 1
    for type_, pointers, extents in fields(machine, found[0]):
        size: int | None = 8
        if not pointers:
            text = resolve_type(machine, frame, type_)
            size = ctypes.size_of(text) or _record_size(machine, frame, text, depth + 1)
        if size is None or any(not isinstance(e, ir.Literal) or not isinstance(e.value, int) for e in extents):
            return None
        align = min(size, 8) if size & (size - 1) == 0 else 4
        count = 1
        for extent in extents:
            if isinstance(extent, ir.Literal) and isinstance(extent.value, int):
                count *= extent.value
        end = -(-end // align) * align + size * count
        widest = max(widest, align)
    return max(-(-end // widest) * widest, 1)


def fields(machine: Machine, record: RecordDecl) -> list[tuple[str, int, tuple[ir.Expr | None, ...]]]:
    """(type, stars, array bounds) of the non-static data members, in order."""
    return [(t, p, e) for _, t, p, e, _ in members(machine, record)]


def members(
    machine: Machine, record: RecordDecl
) -> list[tuple[str, str, int, tuple[ir.Expr | None, ...], ir.Expr | None]]:
    """(name, type, stars, array bounds, default) of the non-static data members, in order."""
    text = Text(record.file.source, record.file.code)
    host = plain_host(machine, record.file.source.path)
    found = []
    for node in record.body.named_children if record.body is not None else ():
        if node.type != "field_declaration":
            continue
        words = type_words(node, text)
        if {"static", "constexpr"} & set(words.split()):
            continue
        for declarator in node.children_by_field_name("declarator"):
            if declarator.type == "function_declarator":
                continue
            shape = read_declarator(declarator, text)
            extents = tuple(expr(host, e, text) if e is not None else None for e in shape.extents)
            value = node.child_by_field_name("default_value")
            default = expr(host, value, text) if value is not None else None
            found.append((shape.name, words, shape.pointers, extents, default))
    return found


def plain_host(machine: Machine, file: str) -> Host:
    """A lowering scope outside any function."""

    def no_lambda(node: Node, text: Text) -> ir.HostFunction:
        return ir.HostFunction("lambda", file, (), (), ir.Block(), span=text.span(node))

    return Host(machine.project, file, "", no_lambda)


def constant(machine: Machine, frame: Frame, name: str) -> Value | None:
    """The value of an enumerator or of a constant outside functions, as seen from ``frame``; None: there is none."""
    key = (frame.function.file + "|" + frame.function.record, name)
    if key not in machine.constants:
        machine.constants[key] = None  # a constant defined by itself has no value
        machine.constants[key] = _constant(machine, frame, name)
    return machine.constants[key]


def _constant(machine: Machine, frame: Frame, name: str) -> Value | None:
    from prelaunch.analysis.hostir import constants

    file, record = frame.function.file, frame.function.record
    enumerator = constants.enumerator(machine, frame, name)
    if enumerator is not None:
        return enumerator
    found = machine.project.lookup_variables(name, file)
    own = [v for v in found if record and v.qualified == f"{record}::{name}"]
    free = [v for v in found if "::" in name or not _is_member(machine, v)]
    for variable in (*own, *free):
        if not visible(machine.project, file, variable.file.source.path) and len(free) > 1:
            continue
        value = constants.initial(machine, variable)
        if value is not None:
            return value
    return None


def _is_member(machine: Machine, variable: VariableDecl) -> bool:
    owner = variable.qualified.rpartition("::")[0]
    return bool(owner) and any(r.qualified == owner for r in machine.project.records.get(owner.rpartition("::")[2], ()))


def empty_frame(machine: Machine, file: str, record: str = "") -> tuple[Frame, State]:
    """A frame outside any function, for constants."""
    outside = ir.HostFunction("", file, (), (), ir.Block(), record)
    return Frame(f"c{identity(file, record):x}", outside), State()


def variable_type(variable: VariableDecl) -> tuple[str, int]:
    """(type as written, stars) of a variable outside functions."""
    text = Text(variable.file.source, variable.file.code)
    shape = read_declarator(variable.declarator, text)
    return type_words(variable.node, text), shape.pointers + len(shape.extents)
