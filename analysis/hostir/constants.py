"""Constants outside functions: enumerators, ``const``/``constexpr`` variables, variables nothing ever writes.

Guarantees: a value is given only when every read yields it: the variable is declared constant, or no text of the
project assigns it, takes its address or reads input into it.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.declarations import RecordDecl, VariableDecl
from prelaunch.analysis.hostir import evaluate, ir, linkage, lookup, objects
from prelaunch.analysis.hostir.declarators import read_declarator, type_words
from prelaunch.analysis.hostir.lower_expr import expr
from prelaunch.analysis.hostir.machine import Frame, Machine
from prelaunch.analysis.hostir.text import Text
from prelaunch.analysis.hostir.values import Symbol, Value, number
from prelaunch.analysis.kernel import I32, Const

_WRITE = (
    r"(?:\b{0}\s*(?:\[[^\]]*\]\s*)*(?:=(?!=)|\+=|-=|\*=|/=|%=|<<=|>>=|\|=|&=|\^=|\+\+|--))"
    r"|(?:(?:\+\+|--|&|>>)\s*{0}\b)"
)


def enumerator(machine: Machine, frame: Frame, name: str) -> Value | None:
    """The value of enumerator ``name`` (``Kind::name`` for scoped ones), nearest enum first."""
    simple = name.rpartition("::")[2]
    table = _enumerators(machine)
    here = frame.function.file
    found = table.get(simple, [])
    if "::" in name:
        owner = name.rpartition("::")[0].rpartition("::")[2]
        found = [d for d in found if d.name == owner or d.qualified.rpartition("::")[0].endswith(owner)]
    ranked = sorted(found, key=lambda d: not linkage.visible(machine.project, here, d.file.source.path))
    return _enumerator_value(machine, ranked[0], simple) if ranked else None


def _enumerators(machine: Machine) -> dict[str, list[RecordDecl]]:
    cached = machine.enumerators
    if cached is None:
        cached = {}
        for group in machine.project.records.values():
            for decl in group:
                if decl.kind.startswith("enum"):
                    for name in _names(decl):
                        cached.setdefault(name, []).append(decl)
        machine.enumerators = cached
    return cached


def _names(decl: RecordDecl) -> list[str]:
    nodes = decl.body.named_children if decl.body is not None else []
    return [decl.file.text(n) for e in nodes if (n := e.child_by_field_name("name")) is not None]


def _enumerator_value(machine: Machine, decl: RecordDecl, wanted: str) -> Value | None:
    text = Text(decl.file.source, decl.file.code)
    host = lookup.plain_host(machine, decl.file.source.path)
    frame, state = lookup.empty_frame(machine, decl.file.source.path)
    current: int | None = -1
    for node in decl.body.named_children if decl.body is not None else ():
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            continue
        if value is not None:
            result = number(evaluate.value(machine, frame, state, expr(host, value, text)))
            current = int(result.value) if isinstance(result, Const) else None
        elif current is not None:
            current += 1
        if text.of(name) == wanted:
            return Const(current, I32) if current is not None else None
    return None


def initial(machine: Machine, variable: VariableDecl) -> Value | None:
    """The value of a variable at namespace or class scope when it never changes, None otherwise."""
    text = Text(variable.file.source, variable.file.code)
    words = type_words(variable.node, text)
    flat = words.split()
    shape = read_declarator(variable.declarator, text)
    default = variable.node.child_by_field_name("default_value")
    value: Node | None = shape.value if shape.value is not None else default
    if value is None or "extern" in flat:
        return None
    constant = "constexpr" in flat or ("const" in flat and not shape.pointers)
    if not constant and (shape.pointers or "volatile" in flat or written(machine, variable.name)):
        return None
    path = variable.file.source.path
    host = lookup.plain_host(machine, path)
    frame, state = lookup.empty_frame(machine, path, variable.qualified.rpartition("::")[0])
    init: ir.Expr
    if value.type == "argument_list":
        args = tuple(expr(host, c, text) for c in value.named_children if c.type != "comment")
        init = ir.Construct(words, args, span=text.span(value))
    else:
        init = expr(host, value, text)
    extents = tuple(expr(host, e, text) if e is not None else None for e in shape.extents)
    declared = ir.Declare(variable.name, variable.name, words, init, shape.pointers, extents, span=text.span(value))
    result = objects.declared_value(machine, frame, state, declared)
    return None if isinstance(result, Symbol) else result


def written(machine: Machine, name: str) -> bool:
    """Whether any text of the project may change a variable of this name outside its declaration."""
    if name not in machine.written:
        pattern = re.compile(_WRITE.format(re.escape(name)).encode())
        declaration = re.compile(rb"[\w>\]*&]\s+[*&]*$")
        machine.written[name] = any(
            not (m.group().endswith(b"=") and declaration.search(file.code[max(0, m.start() - 40) : m.start()]))
            for file in machine.project.files.values()
            if name.encode() in file.code
            for m in pattern.finditer(file.code)
        )
    return machine.written[name]
