"""Constructors, conversions between classes, and members of library types."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library import atomics, wmma
from prelaunch.analysis.frontends.cuda.lower import expressions, initialise, inline, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import overloads, records, typenames
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import VECTORS
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    CType,
    Fragment,
    Ptr,
    Record,
    Void,
    arithmetic,
    leaves,
    scalar,
    sizeof,
    spell,
)
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl
from prelaunch.analysis.kernel import BF16, F16, I32, U32, Const, Scalar
from prelaunch.analysis.source import Span


def constructors(record: Record) -> list[FunctionDecl]:
    """User-provided constructors of the class itself."""
    return [f for f in record.methods.get(record.name, ()) if f.body is not None]


def construct(ctx: Context, ctype: CType, args: list[Lowered], span: Span) -> Lowered:
    """``T(args)``: a conversion, a constructor call or value-initialisation."""
    if isinstance(ctype, Void):
        return Val(VOID)
    if not isinstance(ctype, Record):
        if len(args) == 1:
            return expressions.cast_value(ctx, ctype, args[0], span)
        found = memory.zero(ctype, span)
        return found if found is not None else ctx.unknown(f"{spell(ctype)} constructed", span, ctype)
    if len(args) == 1 and args[0].type is ctype:
        return memory.load(ctx, args[0], span)
    if ctype.name == "atomic_ref" and ctype.file is None and len(args) == 1:
        return Val(ctype, memory.address_of(ctx, args[0], span).exprs)
    place = ctx.registers(ctype, "", span, f"temporary:{span.file}:{span.start}:{span.end}:{len(ctx.frames)}")
    target: Lowered
    if place is None or place.key in ctx.addressed or any("[" in x.path for x in leaves(ctype) or ()):
        target = memory.local_object(ctx, ctype, "temporary", span)
    else:
        target = place
    if _run_constructor(ctx, target, args, span):
        return target
    if not args:
        zero = memory.zero(ctype, span)
        if zero is not None and not default_initialise(ctx, target, span):
            return zero
        return target
    return from_values(ctx, ctype, args, span)


def from_values(ctx: Context, ctype: Record, args: list[Lowered], span: Span) -> Lowered:
    """A built-in vector or an aggregate from values in order; what is missing is zero (1 for ``dim3``)."""
    parts = leaves(ctype)
    if parts is None or len(args) > len(parts):
        return ctx.unknown(f"{spell(ctype)} constructed", span, ctype, ("value", "memory"))
    if ctype.vector and len(args) == 1 and ctype.name != "dim3":
        args = args * len(parts)
    exprs = []
    for index, leaf in enumerate(parts):
        if index < len(args):
            value = operators.convert(ctx, args[index], leaf.type, span)
            if not isinstance(value, Val) or not value.exprs:
                return ctx.unknown(f"{spell(ctype)} constructed", span, ctype)
            exprs.append(value.expr)
        else:
            fill = memory.zero(leaf.type, span)
            assert fill is not None
            exprs.append(Const(1, U32, span=span) if ctype is VECTORS["dim3"] else fill.expr)
    return Val(ctype, tuple(exprs))


def construct_from_list(ctx: Context, to: Record, items: list[Node], span: Span) -> Lowered | None:
    """``T{...}`` through a constructor or, for built-in vectors, element by element; None: aggregate."""
    if to.vector and items and all(i.type not in ("initializer_list", "initializer_pair") for i in items):
        values = [expressions.lower(ctx, i) for i in items]
        if len(values) == 1 and values[0].type is to:
            return values[0]
        padded = (
            values if len(values) > 1 else [*values, *([Val(I32, (Const(0, I32, span=span),))] * (len(to.fields) - 1))]
        )
        return from_values(ctx, to, padded, span)
    if constructors(to):
        values = [expressions.lower(ctx, i) for i in items]
        return construct(ctx, to, values, span)
    return None


def construct_into(ctx: Context, place: Lowered, items: list[Node], span: Span, braces: bool) -> bool:
    """Initialise ``place`` from ``(items)`` or ``{items}`` by a constructor; False when there is none to call."""
    record = place.type
    assert isinstance(record, Record)
    if record.name == "atomic_ref" and record.file is None and len(items) == 1:
        memory.store(ctx, place, construct(ctx, record, [expressions.lower(ctx, items[0])], span), span)
        return True
    if record.vector:
        if braces and any(i.type in ("initializer_list", "initializer_pair") for i in items):
            return False
        listed = [expressions.lower(ctx, i) for i in items]
        if not listed:
            zero = memory.zero(record, span)
            value: Lowered = zero if zero is not None and record.name != "dim3" else from_values(ctx, record, [], span)
        elif len(listed) == 1 and isinstance(listed[0].type, Record):
            value = operators.convert(ctx, listed[0], record, span)
        elif braces and len(listed) < len(record.fields) and record.name != "dim3":
            value = from_values(
                ctx, record, [*listed, Val(I32, (Const(0, I32, span=span),))][: len(record.fields)], span
            )
        else:
            value = from_values(ctx, record, listed, span)
        memory.store(ctx, place, value, span)
        return True
    if not constructors(record):
        return False
    if any(i.type in ("initializer_list", "initializer_pair") for i in items):
        values = [
            initialise.from_list(ctx, i, _first_parameter(ctx, record)) if i.type == "initializer_list"
            else expressions.lower(ctx, i) for i in items
        ]  # fmt: skip
    else:
        values = [expressions.lower(ctx, i) for i in items]
    if len(values) == 1 and values[0].type is record and not _copies(ctx, record):
        memory.store(ctx, place, memory.load(ctx, values[0], span), span)
        return True
    return _run_constructor(ctx, place, values, span)


def _copies(ctx: Context, record: Record) -> bool:
    """Whether a constructor takes the class itself."""
    return any(
        len(f.parameters) == 1 and record.name.encode() in (f.parameters[0].text or b"") for f in constructors(record)
    )


def _first_parameter(ctx: Context, record: Record) -> CType:
    for decl in constructors(record):
        if decl.parameters:
            spec = typenames.specifiers(ctx, decl.parameters[0])
            if spec.type is not None:
                return spec.type
    return record


def _run_constructor(ctx: Context, place: Lowered, args: list[Lowered], span: Span) -> bool:
    record = place.type
    assert isinstance(record, Record)
    found = [(f, record) for f in constructors(record)]
    chosen = overloads.choose(ctx, found, args, ()) if found else None
    if chosen is None:
        return False
    inline.inline(ctx, chosen.decl, chosen.bindings, place, record, args, span)
    return True


def default_initialise(ctx: Context, place: Lowered, span: Span) -> bool:
    """``T x;``: the default constructor, or default member initialisers; False when nothing is initialised."""
    record = place.type
    assert isinstance(record, Record)
    if constructors(record):
        return _run_constructor(ctx, place, [], span)
    return _member_defaults(ctx, place, frozenset(), span)


def _member_defaults(ctx: Context, place: Lowered, done: frozenset[str], span: Span) -> bool:
    record = place.type
    assert isinstance(record, Record)
    any_done = False
    for field in record.fields:
        if field.name in done or field.bits is not None:
            continue
        if field.default is not None and record.file is not None and record.scope is not None:
            part = memory.member(ctx, place, field.type, field.offset, span)
            from prelaunch.analysis.frontends.cuda.semantics import names

            with names.inside(ctx, record.file, record.scope):
                initialise.initialise_place(ctx, part, field.default)
            any_done = True
        elif isinstance(field.type, Record) and not field.type.vector and has_defaults(field.type):
            part = memory.member(ctx, place, field.type, field.offset, span)
            any_done = default_initialise(ctx, part, span) or any_done
    return any_done


def has_defaults(record: Record) -> bool:
    """Whether ``record x;`` initialises anything."""
    stack = [record]
    while stack:
        current = stack.pop()
        if current.kind == "union":
            continue
        if any(f.default is not None for f in current.fields) or constructors(current):
            return True
        stack.extend(f.type for f in current.fields if isinstance(f.type, Record) and not f.type.vector)
    return False


def member_initialisers(ctx: Context, decl: FunctionDecl) -> None:
    """The ``: a(x), b{y}`` of a constructor, then default initialisers of the members it leaves out."""
    this = ctx.scope.enclosing_this()
    record = this.type if this is not None else None
    if this is None or not isinstance(record, Record):
        return
    listed = next((c for c in decl.node.named_children if c.type == "field_initializer_list"), None)
    given: dict[str, Node] = {}
    for item in listed.named_children if listed is not None else ():
        if item.type == "field_initializer" and len(item.named_children) >= 2:
            label = item.named_children[0]
            while label.type in ("template_type", "template_method", "qualified_identifier"):
                label = label.child_by_field_name("name") or label.named_children[-1]
            given[ctx.text(label)] = item.named_children[-1]
    if record.name in given and len(given) == 1:
        initialise.initialise_place(ctx, this, given[record.name])
        return
    span = ctx.span(decl.node)
    for field in record.fields:
        name = field.name or (field.type.name if isinstance(field.type, Record) else "")
        if name not in given:
            continue
        from prelaunch.analysis.frontends.cuda.lower import symbols
        from prelaunch.analysis.frontends.cuda.semantics.types import Ref

        value = given[name]
        if isinstance(field.type, Ref):
            _bind_member_reference(ctx, this, field.type, field.offset, value)
            continue
        found = symbols.member_of(ctx, this, field.name, span) if field.name else None
        part = found if found is not None else memory.member(ctx, this, field.type, field.offset, span)
        initialise.initialise_place(ctx, part, value)
    _member_defaults(ctx, this, frozenset(given), span)


def _bind_member_reference(ctx: Context, this: Lowered, ctype: CType, offset: int, value: Node) -> None:
    from prelaunch.analysis.frontends.cuda.semantics.types import Ref

    assert isinstance(ctype, Ref)
    items = initialise.items_of(value)
    if len(items) != 1:
        return
    span = ctx.span(value)
    pointer = memory.address_of(ctx, expressions.lower(ctx, items[0]), span)
    part = memory.member(ctx, this, Ptr(ctype.to, ctype.volatile), offset, span)
    memory.store(ctx, part, operators.convert(ctx, pointer, part.type, span), span)


def conversion_operator(ctx: Context, value: Lowered, to: CType | None, span: Span) -> Lowered | None:
    """A conversion function of ``value``'s class, to ``to`` if given, else to any scalar."""
    record = value.type
    assert isinstance(record, Record)
    if atomics.is_atomic(record):
        return atomics.method(ctx, value, "load", [], span)
    found = [
        m
        for name in record.methods
        if name.startswith("operator ") or name == "operator"
        for m in records.methods(record, name)
    ]
    best: tuple[float, FunctionDecl, Record] | None = None
    for decl, owner in found:
        outer = decl.node.child_by_field_name("declarator")
        if outer is None or outer.type != "operator_cast" or decl.body is None:
            continue
        if owner.file is None or owner.scope is None:
            continue
        from prelaunch.analysis.frontends.cuda.semantics import names

        with names.inside(ctx, owner.file, owner.scope):
            ctype = inline.return_type(ctx, decl)
        cost = overloads.conversion_cost(ctype, to) if to is not None and ctype is not None else 0.0
        if cost is not None and ctype is not None and (best is None or cost < best[0]):
            best = (cost, decl, owner)
    if best is None:
        return None
    this = value
    if isinstance(this, Val) and this.exprs:
        this = memory.in_memory(ctx, this, "temporary", span)
    return inline.inline(ctx, best[1], {}, this, best[2], [], span)


def to_record(ctx: Context, value: Lowered, to: Record, span: Span) -> Val | Mem:
    """Implicit conversion to a class: base class, converting constructor, conversion function."""
    if isinstance(value.type, Record):
        at = records.base_offset(value.type, to)
        if at is not None:
            return memory.load(ctx, memory.member(ctx, value, to, at, span), span)
        if value.type.vector and to.vector and len(value.type.fields) >= len(to.fields):
            loaded = memory.load(ctx, value, span)
            if isinstance(loaded, Val):
                return operators.memory_or_value(_elementwise(ctx, loaded, to, span))
    if constructors(to):
        built = construct(ctx, to, [value], span)
        return memory.load(ctx, built, span)
    if to.vector and scalar(value.type) and to.name == "dim3":
        return operators.memory_or_value(from_values(ctx, to, [value], span))
    if isinstance(value.type, Record):
        converted = conversion_operator(ctx, value, to, span)
        if converted is not None:
            return memory.load(ctx, converted, span)
        if value.type.name == to.name and leaves(value.type) is not None and leaves(to) is not None:
            loaded = memory.load(ctx, value, span)
            if isinstance(loaded, Val) and len(loaded.exprs) == len(leaves(to) or ()):
                return Val(to, loaded.exprs)
    if to.vector and scalar(value.type) and arithmetic(value.type) in (F16, BF16) and to.fields[0].type == value.type:
        return operators.memory_or_value(from_values(ctx, to, [value], span))
    return ctx.unknown(f"conversion of {spell(value.type)} to {spell(to)}", span, to)


def _elementwise(ctx: Context, value: Val, to: Record, span: Span) -> Lowered:
    kind = value.type
    assert isinstance(kind, Record)
    of = kind.fields[0].type
    assert isinstance(of, Scalar)
    return from_values(ctx, to, [Val(of, (e,)) for e in value.exprs[: len(to.fields)]], span)


def library_member(ctx: Context, place: Lowered, name: str, span: Span) -> Lowered | None:
    """A data member of a type that is not a class of the project: fragments, ``half``'s bits."""
    if isinstance(place.type, Fragment):
        if name == "num_elements":
            return Val(I32, (Const(sizeof(place.type) // place.type.element.size, I32, span=span),))
        return wmma.elements(ctx, place.type, span)
    if name == "x" and isinstance(place.type, Scalar):
        return place
    return None
