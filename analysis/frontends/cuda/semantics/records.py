"""Structs, classes and unions: instances of their templates, layout, members.

Layout follows the Itanium C++ ABI as far as device code uses it: base subobjects first (an empty base takes no
room), members at their natural alignment, bit-fields packed into units of their declared type, unions at offset 0.
Virtual functions put a pointer first; virtual bases are not modelled.
"""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import evaluate, names, templates, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Binding, Scope, TypeName
from prelaunch.analysis.frontends.cuda.semantics.types import (
    CType,
    Field,
    Record,
    TemplateArgument,
    alignof,
    arithmetic,
    sizeof,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, RecordDecl
from prelaunch.analysis.kernel import Scalar

_KINDS = {"struct_specifier": "struct", "class_specifier": "class", "union_specifier": "union"}


def instance(
    ctx: Context, decls: list[RecordDecl], args: tuple[TemplateArgument, ...], outer: Scope | None
) -> Record | None:
    """The instance of a class template (or plain class) for ``args``; ``decls`` are its primary and specialisations."""
    primary = next((d for d in decls if not d.specialisation), decls[0])
    if primary.template is not None:
        args = templates.complete(ctx, primary.template, primary.file, args, outer, primary.qualified)
    chosen, bindings = _choose(ctx, decls, primary, args)
    key = ("record", chosen.file.source.path, chosen.node.start_byte, args, id(outer) if outer is not None else 0)
    found = ctx.records.get(key)
    if found is not None:
        return found
    if len(ctx.resolving) > 32:
        return None
    scope = Scope(outer if outer is not None else names.namespace_scope(chosen.qualified), namespace=chosen.qualified)
    record = Record(
        chosen.name or "anonymous", chosen.kind, args=args, qualified=chosen.qualified, file=chosen.file,
        body=chosen.body, scope=scope, complete=False,
    )  # fmt: skip
    scope.record = record
    ctx.records[key] = record
    scope.names[chosen.name] = TypeName(record)
    ctx.resolving.append((chosen.qualified, args))
    try:
        with names.inside(ctx, chosen.file, scope):
            if bindings is not None:
                scope.names.update(bindings)
            elif chosen.template is not None:
                templates.bind(ctx, chosen.template, args, scope)
            lay_out(ctx, record, chosen.node)
    finally:
        ctx.resolving.pop()
    _collect_methods(ctx, record)
    return record


def _choose(
    ctx: Context, decls: list[RecordDecl], primary: RecordDecl, args: tuple[TemplateArgument, ...]
) -> tuple[RecordDecl, dict[str, Binding] | None]:
    """The specialisation that fits ``args`` with the fewest parameters left open, else the primary template."""
    best: tuple[int, RecordDecl, dict[str, Binding]] | None = None
    for decl in decls:
        if not decl.specialisation:
            continue
        bindings = templates.match_specialisation(ctx, decl, args)
        if bindings is not None and (best is None or len(bindings) < best[0]):
            best = (len(bindings), decl, bindings)
    return (best[1], best[2]) if best is not None else (primary, None)


def local_record(ctx: Context, node: Node) -> Record | None:
    """A class defined (or only named) inside a function body or as the type of a declaration."""
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if body is None:
        found = typenames.lookup_type(ctx, name) if name is not None else None
        return found if isinstance(found, Record) else None
    key = ("local record", ctx.file.source.path, node.start_byte, id(ctx.scope))
    known = ctx.records.get(key)
    if known is not None:
        return known
    label = ctx.text(name) if name is not None else ""
    owner = ctx.scope.record.qualified if ctx.scope.record is not None else ""
    qualified = f"{owner}::{label}" if owner else label
    scope = Scope(ctx.scope, namespace=qualified if owner else "")
    record = Record(
        label or "anonymous", _KINDS[node.type], qualified=qualified, file=ctx.file, body=body, scope=scope,
        complete=False,
    )  # fmt: skip
    scope.record = record
    ctx.records[key] = record
    if label:
        ctx.scope.names[label] = TypeName(record)
    with ctx.nested(scope):
        lay_out(ctx, record, node)
    _collect_methods(ctx, record)
    return record


def lay_out(ctx: Context, record: Record, node: Node) -> None:
    """Fill in bases, fields, size and alignment from the class's text."""
    layout = _Layout(record.kind == "union")
    align = 0
    for child in node.children:
        if child.type == "base_class_clause":
            for base in _bases(ctx, child):
                record.bases = (*record.bases, base)
                if base.size > 1 or base.fields:
                    layout.add("", base)
        elif child.type not in ("field_declaration_list", "type_identifier"):
            align = max(align, _align_of(ctx, child))
    body = record.body
    if body is not None:
        if any("virtual" in ctx.text(c).split("(")[0].split() for c in ctx.parts(body)):
            layout.pointer()
        for child in ctx.parts(body):
            if child.type == "field_declaration":
                _field(ctx, layout, child)
            elif child.type in _KINDS and child.child_by_field_name("name") is None:
                inner = local_record(ctx, child)
                if inner is not None:
                    layout.add("", inner)
            elif child.type == "enum_specifier":
                typenames.lookup_type(ctx, child)
    record.fields = tuple(layout.fields)
    record.align = max(layout.align, align)
    record.size = max(1, -(-layout.size // record.align) * record.align)
    record.complete = body is not None
    record.leaves = 0


def _bases(ctx: Context, clause: Node) -> list[Record]:
    found: list[Record] = []
    for child in clause.named_children:
        if child.type in ("access_specifier", "virtual"):
            continue
        base = typenames.lookup_type(ctx, child)
        if isinstance(base, Record):
            found.append(base)
    return found


def _align_of(ctx: Context, node: Node) -> int:
    """``__align__(n)``, ``alignas(n)``, ``__attribute__((aligned(n)))`` before the name of a class."""
    if node.type == "alignas_qualifier" and node.named_children:
        inner = node.named_children[0]
        if inner.type == "type_descriptor":
            return alignof(typenames.descriptor(ctx, inner))
        return evaluate.integer(ctx, inner) or 0
    stack, words = [node], ctx.text(node)
    if "align" not in words:
        return 0
    while stack:
        current = stack.pop()
        if current.type in ("number_literal", "identifier") and current is not node:
            value = evaluate.integer(ctx, current)
            if value:
                return value
        stack.extend(reversed(current.named_children))
    return 0


def _field(ctx: Context, layout: _Layout, node: Node) -> None:
    words = {ctx.text(c) for c in node.children if c.type in ("type_qualifier", "storage_class_specifier")}
    if words & {"static", "typedef", "friend"}:
        return
    declarators = node.children_by_field_name("declarator")
    spec = typenames.specifiers(ctx, node)
    if spec.type is None:
        return
    if not declarators:
        kind = node.child_by_field_name("type")
        anonymous = kind is not None and kind.type in _KINDS and kind.child_by_field_name("name") is None
        bits = next((c for c in node.named_children if c.type == "bitfield_clause"), None)
        if anonymous and isinstance(spec.type, Record):
            layout.add("", spec.type, align=spec.align)
        elif bits is not None and isinstance(spec.type, Scalar):
            layout.bit_field("", spec.type, evaluate.integer(ctx, bits.named_children[0]) or 0)
        return
    widths = [c for c in node.named_children if c.type == "bitfield_clause"]
    for position, declarator in enumerate(declarators):
        name, ctype = typenames.declared(ctx, spec.type, declarator, spec.volatile, spec.const)
        if name is None or "function_declarator" in (declarator.type,):
            continue
        plain = not hasattr(ctype, "to")
        if widths and position < len(widths):
            unit = arithmetic(ctype)
            if unit is not None:
                width = evaluate.integer(ctx, widths[position].named_children[0]) or 0
                layout.bit_field(ctx.text(name), unit, width)
                continue
        default = node.child_by_field_name("default_value")
        layout.add(ctx.text(name), ctype, spec.volatile and plain, spec.align, default)


class _Layout:
    """Places members one after another."""

    def __init__(self, union: bool) -> None:
        self.union = union
        self.fields: list[Field] = []
        self.size = 0
        self.align = 1
        self.bit = 0  # next free bit of the record, where the last member was a bit-field

    def pointer(self) -> None:
        self.size, self.align = max(self.size, 8), max(self.align, 8)

    def add(self, name: str, ctype: CType, volatile: bool = False, align: int = 0, default: Node | None = None) -> None:
        need = max(alignof(ctype), align)
        offset = 0 if self.union else -(-self.size // need) * need
        self.fields.append(Field(name, ctype, offset, volatile, default=default))
        self.size = max(self.size, offset + sizeof(ctype))
        self.align = max(self.align, need)
        self.bit = self.size * 8

    def bit_field(self, name: str, unit: Scalar, width: int) -> None:
        if width == 0:
            self.bit = -(-max(self.bit, self.size * 8) // unit.bits) * unit.bits
            self.size = max(self.size, self.bit // 8)
            return
        start = 0 if self.union else (self.bit if self.bit else self.size * 8)
        if start // unit.bits != (start + width - 1) // unit.bits:
            start = -(-start // unit.bits) * unit.bits
        offset = start // unit.bits * unit.size
        if name:
            self.fields.append(Field(name, unit, offset, bits=width, shift=start - offset * 8))
            self.align = max(self.align, unit.size)
        self.bit = start + width
        self.size = max(self.size, -(-self.bit // 8))


# --- members ---------------------------------------------------------------------------------------------------------


def path_to(record: Record, name: str) -> tuple[Field, int] | None:
    """Data member ``name`` of ``record``, its bases and anonymous members: the field and its offset in ``record``."""
    stack: list[tuple[Record, int]] = [(record, 0)]
    while stack:
        current, offset = stack.pop(0)
        for item in current.fields:
            if item.name == name:
                return item, offset + item.offset
        for item in current.fields:
            if not item.name and isinstance(item.type, Record):
                stack.append((item.type, offset + item.offset))
    return None


def _collect_methods(ctx: Context, record: Record) -> None:
    """Member functions defined in the class and outside it, by name."""
    if record.file is None:
        return
    table = templates.methods_of(ctx.project, record.qualified)
    for decl in table:
        inside = record.body is not None and decl.file is record.file and names.within(record.body, decl.node)
        if decl.file is record.file and not inside and decl.body is None:
            continue
        if inside or not _belongs_elsewhere(ctx, record, decl):
            record.methods.setdefault(decl.name, []).append(decl)


def _belongs_elsewhere(ctx: Context, record: Record, decl: FunctionDecl) -> bool:
    """True when ``decl`` lies inside another class body of the same name (a specialisation, another file's class)."""
    for other in ctx.project.records.get(record.name, ()):
        if other.body is not None and other.file is decl.file and names.within(other.body, decl.node):
            return True
    return decl.body is None


def methods(record: Record, name: str) -> list[tuple[FunctionDecl, Record]]:
    """Member functions called ``name`` of the class, else of its nearest base that has one, definitions first."""
    stack = [record]
    while stack:
        current = stack.pop(0)
        found = current.methods.get(name)
        if found:
            ordered = [f for f in found if f.body is not None] + [f for f in found if f.body is None]
            return [(f, current) for f in ordered]
        stack.extend(current.bases)
        stack.extend(f.type for f in current.fields if not f.name and isinstance(f.type, Record))
    return []


def base_offset(record: Record, base: Record) -> int | None:
    """Byte offset of base class subobject ``base`` in ``record``."""
    stack: list[tuple[Record, int]] = [(record, 0)]
    while stack:
        current, offset = stack.pop(0)
        if current is base:
            return offset
        stack.extend((f.type, offset + f.offset) for f in current.fields if not f.name and isinstance(f.type, Record))
        stack.extend((b, offset) for b in current.bases if not any(f.type is b for f in current.fields))
    return None
