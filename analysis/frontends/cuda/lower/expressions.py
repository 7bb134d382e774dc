"""Expressions of the syntax tree to values and places.

``lower`` gives an lvalue as a place (``Reg``, ``Mem``) and everything else as a ``Val``; ``rvalue`` loads. Effects are
emitted in C++'s order; what cannot be modelled becomes an unknown value with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.asm import inline_asm
from prelaunch.analysis.frontends.cuda.lower import (
    assign,
    binaries,
    calls,
    expand,
    initialise,
    lambdas,
    literals,
    memory,
    operators,
    symbols,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Parameters, Reg, Template, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    Array,
    CType,
    Ptr,
    Record,
    Ref,
    Void,
    alignof,
    arithmetic,
    leaves,
    scalar,
    sizeof,
    spell,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import Macro
from prelaunch.analysis.kernel import I32, U64, Const, Expr
from prelaunch.analysis.source import Span


def lower(ctx: Context, node: Node) -> Lowered:
    """The value or place of an expression."""
    if ctx.stopped:
        return Val(I32, (Const(0, I32, span=ctx.span(node)),))
    ctx.expressions += 1
    if ctx.expressions > ctx.limits.expressions:
        ctx.stop(f"budget of {ctx.limits.expressions} expressions exhausted", ctx.span(node))
        return Val(I32, (Const(0, I32, span=ctx.span(node)),))
    handler = _handlers().get(node.type)
    if handler is None:
        return ctx.unknown(_not_modelled(ctx, node), ctx.span(node), touches=("value", "memory", "control"))
    try:
        if not ctx.enter():
            return ctx.unknown("nesting too deep", ctx.span(node), touches=("value", "memory", "control"))
        return handler(ctx, node)
    finally:
        ctx.leave()


def _not_modelled(ctx: Context, node: Node) -> str:
    if node.is_error or node.type == "ERROR":
        return "syntax not understood"
    return f"{node.type.replace('_', ' ')} not modelled"


def rvalue(ctx: Context, node: Node) -> Val | Mem:
    return memory.load(ctx, lower(ctx, node), ctx.span(node))


def number(ctx: Context, node: Node) -> Val:
    """An arithmetic or pointer value."""
    return operators.as_scalar(ctx, lower(ctx, node), ctx.span(node))


def converted(ctx: Context, node: Node, to: CType) -> Val | Mem:
    """The expression (or braced list) converted to ``to``."""
    if node.type == "initializer_list":
        return memory_value(initialise.from_list(ctx, node, to))
    return operators.convert(ctx, lower(ctx, node), to, ctx.span(node))


def memory_value(value: Lowered) -> Val | Mem:
    return Val(value.type, value.vars) if isinstance(value, Reg) else value


def condition(ctx: Context, node: Node) -> Expr:
    return operators.condition(ctx, lower(ctx, node), ctx.span(node))


def effect(ctx: Context, node: Node) -> None:
    """An expression for its effects only."""
    if node.type == "update_expression":
        assign.update(ctx, node, keep_old=False)
    elif node.type == "comma_expression":
        for child in comma_parts(node):
            effect(ctx, child)
    elif node.type == "parenthesized_expression" and node.named_children:
        effect(ctx, node.named_children[0])
    else:
        found = lower(ctx, node)
        # a discarded volatile place is read only in these forms ([expr.context]/2 of C++17), not after an assignment
        read = (
            "identifier",
            "subscript_expression",
            "field_expression",
            "pointer_expression",
            "conditional_expression",
        )
        if node.type in read and isinstance(found, Mem) and found.volatile and scalar(found.type):
            memory.load(ctx, found, ctx.span(node))


def comma_parts(node: Node) -> list[Node]:
    """Operands of a comma expression, however deep it nests."""
    parts: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type == "comma_expression":
            stack.extend(reversed([c for c in current.named_children if c.type != "comment"]))
        else:
            parts.append(current)
    return parts


def type_of_expression(ctx: Context, node: Node) -> CType:
    """``decltype`` without its reference rules: the type of an unevaluated expression, arrays not decayed."""
    with ctx.discarded():
        return lower(ctx, node).type


# --- operators -------------------------------------------------------------------------------------------------------


def _parenthesized(ctx: Context, node: Node) -> Lowered:
    inner = [c for c in node.named_children if c.type != "comment"]
    if len(inner) == 1 and inner[0].type == "compound_statement":
        from prelaunch.analysis.frontends.cuda.lower import statements

        return statements.statement_expression(ctx, inner[0])
    if not inner:
        return ctx.unknown("empty parentheses", ctx.span(node))
    return lower(ctx, inner[0])


def _unary(ctx: Context, node: Node) -> Lowered:
    operand, sign = node.child_by_field_name("argument"), node.child_by_field_name("operator")
    if operand is None or sign is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    return operators.negate(ctx, ctx.text(sign), lower(ctx, operand), ctx.span(node))


def _pointer(ctx: Context, node: Node) -> Lowered:
    operand, sign = node.child_by_field_name("argument"), node.child_by_field_name("operator")
    if operand is None or sign is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    span = ctx.span(node)
    found = lower(ctx, operand)
    if ctx.text(sign) == "&":
        if isinstance(found, Val) and not scalar(found.type):
            return found  # the address of a function or a group: only its static meaning counts
        return memory.address_of(ctx, found, span)
    if operand.type == "this" and isinstance(found, Reg | Mem):
        return found
    if isinstance(found.type, Record):
        overloaded = operators.overloaded_operator(ctx, "operator*", found, None, span)
        return overloaded if overloaded is not None else ctx.unknown(f"dereference of {spell(found.type)}", span)
    return memory.dereference(ctx, operators.as_scalar(ctx, found, span), span)


def _comma(ctx: Context, node: Node) -> Lowered:
    parts = comma_parts(node)
    for part in parts[:-1]:
        effect(ctx, part)
    return lower(ctx, parts[-1])


def _subscript(ctx: Context, node: Node) -> Lowered:
    base, listed = node.child_by_field_name("argument"), node.child_by_field_name("indices")
    if base is None or listed is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    span = ctx.span(node)
    found = lower(ctx, base)
    if not isinstance(found.type, Array | Record):
        found = memory.load(ctx, found, ctx.span(base))
    mark = ctx.mark()
    items = [c for c in listed.named_children if c.type != "comment"]
    if not items:
        return ctx.unknown("syntax not understood", span)
    for item in items[:-1]:
        effect(ctx, item)
    if isinstance(found.type, Record):
        index = lower(ctx, items[-1])
        overloaded = calls.call_method(ctx, ctx.protect_place(found, mark), "operator[]", [index], (), span, True)
        if overloaded is not None:
            return overloaded
        return subscript(ctx, operators.as_scalar(ctx, found, span), operators.as_scalar(ctx, index, span), span)
    value = number(ctx, items[-1])
    return subscript(ctx, ctx.protect_place(found, mark), value, span)


def subscript(ctx: Context, base: Lowered, index: Val, span: Span) -> Lowered:
    """``base[index]`` of an array or pointer."""
    if isinstance(index.type, Ptr) and arithmetic(base.type) is not None:
        base, index = index, operators.as_scalar(ctx, base, span)
    if isinstance(base.type, Array) and not isinstance(base, Mem):
        if leaves(base.type) == ():
            return Val(base.type.of)
        if isinstance(index.expr, Const):
            return memory.member(ctx, base, base.type.of, int(index.expr.value) * sizeof(base.type.of), span)
        base = memory.indexable(ctx, base, span)
    pointer = memory.decay(ctx, base, span)
    if not isinstance(pointer.type, Ptr) or not pointer.exprs or arithmetic(index.type) is None:
        return ctx.unknown(f"subscript of {spell(base.type)}", span)
    return memory.element(ctx, pointer, index, span)


def _sizeof(ctx: Context, node: Node) -> Lowered:
    span = ctx.span(node)
    inner = node.child_by_field_name("type")
    if inner is not None:
        if inner.child_by_field_name("declarator") is None and len(inner.named_children) == 1:
            bound = ctx.scope.find(ctx.text(inner))
            if isinstance(bound, Val | Reg | Mem):
                return Val(U64, (Const(sizeof(bound.type), U64, span=span),))
            if isinstance(bound, Parameters):
                return Val(U64, (Const(len(bound.items), U64, span=span),))
            if isinstance(bound, Template) and isinstance(bound.value, tuple):
                return Val(U64, (Const(len(bound.value), U64, span=span),))
            if typenames.lookup_type(ctx, inner.named_children[0]) is None:
                return _size(ctx, type_of_expression(ctx, inner.named_children[0]), span)
        return _size(ctx, typenames.descriptor(ctx, inner), span)
    value = node.child_by_field_name("value") or (node.named_children[0] if node.named_children else None)
    if value is None:
        return ctx.unknown("syntax not understood", span)
    named = binaries.parenthesized_type(ctx, value)
    if named is not None:
        return _size(ctx, named, span)
    if node.children[1].type == "..." if len(node.children) > 1 else False:
        bound = ctx.scope.find(ctx.text(value).strip("()"))
        count = len(bound.items) if isinstance(bound, Parameters) else 0
        if isinstance(bound, Template) and isinstance(bound.value, tuple):
            count = len(bound.value)
        return Val(U64, (Const(count, U64, span=span),))
    return _size(ctx, type_of_expression(ctx, value), span)


def _size(ctx: Context, ctype: CType, span: Span) -> Lowered:
    size = sizeof(ctype)
    if size == 0:
        return ctx.unknown(f"size of {spell(ctype)} not known", span, U64)
    return Val(U64, (Const(size, U64, span=span),))


def _alignof(ctx: Context, node: Node) -> Lowered:
    kind = node.child_by_field_name("type")
    ctype = typenames.descriptor(ctx, kind) if kind is not None else I32
    return Val(U64, (Const(alignof(ctype), U64, span=ctx.span(node)),))


def _cast(ctx: Context, node: Node) -> Lowered:
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    if kind is None or value is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    products = binaries.products_read_as_casts(ctx, node)
    if products:
        return expand.reread(ctx, node, binaries.doubled(ctx, node, products))
    return cast_to(ctx, typenames.descriptor(ctx, kind), value, ctx.span(node))


def cast_to(ctx: Context, to: CType, value: Node, span: Span) -> Lowered:
    """``(to)value`` and the named casts. A cast to a reference reinterprets the place."""
    found = lower(ctx, value) if value.type != "initializer_list" else initialise.from_list(ctx, value, to)
    return cast_value(ctx, to, found, span)


def cast_value(ctx: Context, to: CType, found: Lowered, span: Span) -> Lowered:
    if isinstance(to, Void):
        if isinstance(found, Mem) and found.volatile and scalar(found.type):
            memory.load(ctx, found, span)
        return Val(VOID)
    if isinstance(to, Ref):
        if found.type == to.to:
            return found
        place = found if isinstance(found, Mem) else memory.in_memory_wanted(ctx, found, span)
        return memory.dereference(ctx, Val(Ptr(to.to, to.volatile or place.volatile), (place.address,)), span)
    return operators.convert(ctx, found, to, span)


def _compound_literal(ctx: Context, node: Node) -> Lowered:
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    if kind is None or value is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    to = typenames.descriptor(ctx, kind) if kind.type == "type_descriptor" else typenames.type_of(ctx, kind)
    return initialise.from_list(ctx, value, to)


def _list(ctx: Context, node: Node) -> Lowered:
    """A braced list without a known target: the value in it, when there is one."""
    inner = [c for c in node.named_children if c.type != "comment"]
    if len(inner) == 1:
        return lower(ctx, inner[0])
    if not inner:
        return Val(I32, (Const(0, I32, span=ctx.span(node)),))
    return ctx.unknown("braced list of unknown type", ctx.span(node))


def _unsupported(reason: str) -> Callable[[Context, Node], Lowered]:
    """Device-side allocation: none of the kernel's objects; the pointer is unknown."""

    def handler(ctx: Context, node: Node) -> Lowered:
        return ctx.unknown(reason, ctx.span(node), Ptr(VOID))

    return handler


def macro_type(ctx: Context, macro: Macro) -> CType | None:
    return expand.type_name(ctx, macro)


def qualified_parts(node: Node) -> list[Node]:
    """``a::b<c>::d`` as its parts, outermost first; a leading ``::`` gives none."""
    parts: list[Node] = []
    current: Node | None = node
    while current is not None and current.type == "qualified_identifier":
        scope = current.child_by_field_name("scope")
        if scope is not None:
            parts.append(scope)
        current = current.child_by_field_name("name")
    if current is not None and current.type in ("dependent_name", "dependent_type") and current.named_children:
        current = current.named_children[0]
    if current is not None:
        parts.append(current)
    return parts


@cache
def handled() -> frozenset[str]:
    """Node types that are expressions."""
    return frozenset(_handlers())


@cache
def _handlers() -> dict[str, Callable[[Context, Node], Lowered]]:
    return {
        "identifier": symbols.identifier,
        "field_identifier": symbols.identifier,
        "type_identifier": symbols.identifier,
        "namespace_identifier": symbols.identifier,
        "qualified_identifier": symbols.qualified,
        "template_function": symbols.template_function,
        "number_literal": literals.number,
        "char_literal": literals.char,
        "string_literal": literals.string,
        "raw_string_literal": literals.string,
        "concatenated_string": literals.string,
        "user_defined_literal": literals.literal_suffix,
        "true": literals.true,
        "false": literals.false,
        "null": literals.null,
        "nullptr": literals.null,
        "this": symbols.this_pointer,
        "parenthesized_expression": _parenthesized,
        "binary_expression": binaries.binary_expression,
        "conditional_expression": binaries.conditional,
        "unary_expression": _unary,
        "pointer_expression": _pointer,
        "update_expression": assign.update,
        "assignment_expression": assign.assignment,
        "comma_expression": _comma,
        "subscript_expression": _subscript,
        "field_expression": symbols.field,
        "call_expression": calls.call,
        "cast_expression": _cast,
        "sizeof_expression": _sizeof,
        "alignof_expression": _alignof,
        "compound_literal_expression": _compound_literal,
        "initializer_list": _list,
        "lambda_expression": lambdas.closure,
        "fold_expression": lambdas.fold,
        "gnu_asm_expression": inline_asm.lower_asm,
        "new_expression": _unsupported("new on the device"),
        "delete_expression": _unsupported("delete on the device"),
        "requires_expression": literals.true,
    }
