"""Expressions of the syntax tree to values and places.

``lower`` gives an lvalue as a place (``Reg``, ``Mem``) and everything else as a ``Val``; ``rvalue`` loads. Effects are
emitted in C++'s order; what cannot be modelled becomes an unknown value with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda import (
    asm,
    assign,
    constants,
    expand,
    initialise,
    lambdas,
    lower_call,
    memory,
    operators,
    symbols,
    typenames,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.constants import binary, select
from prelaunch.analysis.frontends.cuda.context import Context, as_block
from prelaunch.analysis.frontends.cuda.declarations import Macro
from prelaunch.analysis.frontends.cuda.scope import Lowered, Mem, Parameters, Reg, Template, Val
from prelaunch.analysis.frontends.cuda.types import (
    VOID,
    Array,
    CType,
    Enum,
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
from prelaunch.analysis.kernel import BOOL, I8, I32, U64, Assign, Const, Expr, If, Object, Pointer, Scalar, Stmt, Var
from prelaunch.analysis.source import Span


def lower(ctx: Context, node: Node) -> Lowered:
    """The value or place of an expression."""
    if ctx.stopped:
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


# --- literals --------------------------------------------------------------------------------------------------------


def _number(ctx: Context, node: Node) -> Lowered:
    found = constants.number(ctx.text(node))
    if found is None:
        return ctx.unknown(f"literal {ctx.text(node)[:40]} not modelled", ctx.span(node))
    assert isinstance(found.type, Scalar)
    return Val(found.type, (Const(found.value, found.type, span=ctx.span(node)),))


def _char(ctx: Context, node: Node) -> Lowered:
    text = ctx.text(node)
    codes = constants.unescape(text[text.find("'") + 1 : -1])
    of = I8 if text.startswith("'") else I32
    return Val(of, (Const(constants.fit(codes[0] if codes else 0, of), of, span=ctx.span(node)),))


def _string(ctx: Context, node: Node) -> Lowered:
    parts = [node] if node.type != "concatenated_string" else node.named_children
    codes: list[int] = []
    for part in parts:
        text = ctx.text(part)
        if part.type == "raw_string_literal":
            codes.extend(text[text.find("(") + 1 : text.rfind(")")].encode())
        elif '"' in text:
            codes.extend(constants.unescape(text[text.find('"') + 1 : text.rfind('"')]))
    data = bytes(codes) + b"\0"
    span = ctx.span(node)
    for known in ctx.objects.values():
        if known.origin == "string" and known.init == data:
            return Mem(Array(I8, len(data)), symbols.address(ctx, known.id, I8, span), space="constant")
    name = f'"{bytes(codes[:16]).decode("utf-8", "replace")}"'
    ident = name if name not in ctx.objects else f"{name}#{len(ctx.objects)}"
    made = Object(ident, name, "constant", I8, len(data), 1, origin="string", shape=(len(data),), init=data, span=span)
    ctx.add_object(made)
    return Mem(Array(I8, len(data)), symbols.address(ctx, made.id, I8, span), space="constant")


def _true(ctx: Context, node: Node) -> Lowered:
    return Val(BOOL, (Const(1, BOOL, span=ctx.span(node)),))


def _false(ctx: Context, node: Node) -> Lowered:
    return Val(BOOL, (Const(0, BOOL, span=ctx.span(node)),))


def _null(ctx: Context, node: Node) -> Lowered:
    return Val(Ptr(VOID), (Const(0, Pointer(), span=ctx.span(node)),))


def _literal_suffix(ctx: Context, node: Node) -> Lowered:
    found = constants.number(ctx.text(node))
    if found is None:
        return ctx.unknown("user-defined literal not modelled", ctx.span(node))
    return _number(ctx, node)


# --- operators -------------------------------------------------------------------------------------------------------


def _parenthesized(ctx: Context, node: Node) -> Lowered:
    inner = [c for c in node.named_children if c.type != "comment"]
    if len(inner) == 1 and inner[0].type == "compound_statement":
        from prelaunch.analysis.frontends.cuda import lower_stmt

        return lower_stmt.statement_expression(ctx, inner[0])
    if not inner:
        return ctx.unknown("empty parentheses", ctx.span(node))
    return lower(ctx, inner[0])


def _binary(ctx: Context, node: Node) -> Lowered:
    """A binary expression; chains that lean to the left (``a + b + c ...``) are walked in a loop."""
    if _misread(ctx, node):
        simpler = expand.bare(ctx, ctx.text(node))
        if simpler != ctx.text(node):
            return expand.reread(ctx, node, simpler)
    spine: list[Node] = []
    current: Node | None = node
    while current is not None and current.type == "binary_expression":
        spine.append(current)
        current = current.child_by_field_name("left")
    if current is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    value: Lowered | None = None
    if current.type == "parenthesized_expression":
        value = _cast_and_sign(ctx, current, spine)
    if value is None:
        value = _operand(ctx, current)
    for count, item in enumerate(reversed(spine), 1):
        value = _step(ctx, value, item)
        if count % _CHAIN == 0 and isinstance(value, Val):
            value = Val(value.type, tuple(ctx.temporary(e, e.span) for e in value.exprs))
    return value


_CHAIN = 100
"""Operators of a chain after which the value so far gets a variable, so that no expression nests without bound."""


def _cast_and_sign(ctx: Context, left: Node, spine: list[Node]) -> Lowered | None:
    """``(T)-x`` at the left end of a chain: takes its node off ``spine`` and gives the cast."""
    sign, right = spine[-1].child_by_field_name("operator"), spine[-1].child_by_field_name("right")
    if sign is None or right is None or ctx.text(sign) not in _SIGNS:
        return None
    named = parenthesized_type(ctx, left)
    if named is None:
        return None
    last = spine.pop()
    return _signed_cast(ctx, named, ctx.text(sign), right, ctx.span(last))


def _step(ctx: Context, left: Lowered, node: Node) -> Lowered:
    """``left op right`` where ``node`` holds the operator and the right side."""
    right, sign = node.child_by_field_name("right"), node.child_by_field_name("operator")
    span = ctx.span(node)
    if right is None or sign is None:
        return ctx.unknown("syntax not understood", span)
    symbol = ctx.text(sign)
    if symbol in ("&&", "||", "and", "or"):
        return _short_circuit(ctx, left, right, symbol in ("&&", "and"), span)
    mark = ctx.mark()
    b = _operand(ctx, right)
    return operators.apply(ctx, symbol, ctx.protect_place(left, mark), b, span)


def _misread(ctx: Context, node: Node) -> bool:
    """Whether an operand is a "cast" to the name of a value: ``x >= (a) && (b) <= c``."""
    current: Node | None = node
    for _ in range(8):
        if current is None or current.type != "binary_expression":
            return False
        right = current.child_by_field_name("right")
        if right is not None and right.type == "cast_expression":
            kind = right.child_by_field_name("type")
            if kind is not None and isinstance(ctx.scope.find(ctx.text(kind)), Val | Reg | Mem):
                return True
        current = current.child_by_field_name("left")
    return False


_SIGNS = ("-", "+", "*", "&")


def parenthesized_type(ctx: Context, node: Node) -> CType | None:
    """The type in ``(T)`` that the grammar took for an expression in parentheses."""
    for _ in range(8):
        if node.type != "parenthesized_expression":
            break
        inner = [c for c in node.named_children if c.type != "comment"]
        if len(inner) != 1:
            return None
        node = inner[0]
    else:
        return None
    if node.type not in ("identifier", "qualified_identifier", "template_function", "type_identifier"):
        return None
    name = ctx.text(node)
    bound = ctx.scope.find(name)
    if isinstance(bound, Val | Reg | Mem | Parameters):
        return None
    return typenames.lookup_type(ctx, node)


def _signed_cast(ctx: Context, to: CType, symbol: str, operand: Node, span: Span) -> Lowered:
    """``(T)-x``, ``(T)*p``, ``(T)&x``: a cast of a unary expression, read as a binary one."""
    found = lower(ctx, operand)
    if symbol == "*":
        value = memory.dereference(ctx, operators.as_scalar(ctx, found, span), span)
    elif symbol == "&":
        value = memory.address_of(ctx, found, span)
    else:
        value = operators.negate(ctx, symbol, found, span)
    return cast_value(ctx, to, value, span)


def _operand(ctx: Context, node: Node) -> Lowered:
    """An operand: scalars are loaded now, so that effects of later operands do not reach them."""
    found = lower(ctx, node)
    if isinstance(found, Mem) and scalar(found.type):
        return memory.load(ctx, found, ctx.span(node))
    if isinstance(found, Reg) and scalar(found.type):
        return Val(found.type, found.vars)
    return found


def _short_circuit(ctx: Context, left: Lowered, right: Node, conjunction: bool, span: Span) -> Lowered:
    a = operators.condition(ctx, left, left.exprs[0].span if isinstance(left, Val) and left.exprs else span)
    if isinstance(a, Const) and bool(a.value) != conjunction:
        return Val(BOOL, (a,))
    mark = ctx.mark()
    with ctx.block() as stmts:
        b = condition(ctx, right)
    if not stmts:
        return Val(BOOL, (binary("land" if conjunction else "lor", a, b, BOOL, span),))
    if isinstance(a, Const):
        ctx.out.extend(stmts)
        return Val(BOOL, (b,))
    (a,) = ctx.protect((a,), mark)
    result = ctx.var(BOOL, "", span)
    with ctx.into(stmts):
        ctx.emit(Assign(result, b, span=span))
    other = as_block([Assign(result, Const(0 if conjunction else 1, BOOL, span=span), span=span)], span)
    taken = as_block(stmts, span)
    ctx.emit(If(a, taken if conjunction else other, other if conjunction else taken, span=span))
    return Val(BOOL, (result,))


def _conditional(ctx: Context, node: Node) -> Lowered:
    test, yes = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    no = node.child_by_field_name("alternative")
    if test is None or no is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    cond = condition(ctx, test)
    if isinstance(cond, Const):
        taken = (yes if cond.value else no) or test
        with ctx.discarded():
            other = lower(ctx, (no if cond.value else yes) or test).type
        found = lower(ctx, taken)
        if scalar(found.type) and scalar(other):
            return operators.convert(ctx, found, operators.common_type(ctx, found.type, other), ctx.span(node))
        return found
    return branches(ctx, cond, yes or test, no, ctx.span(node))


def branches(ctx: Context, cond: Expr, yes: Node, no: Node, span: Span) -> Lowered:
    """``cond ? yes : no`` with only the taken side's effects."""
    mark = ctx.mark()
    with ctx.block() as then:
        a = _operand(ctx, yes)
    with ctx.block() as orelse:
        b = _operand(ctx, no)
    if isinstance(a.type, Void) or isinstance(b.type, Void):
        if then or orelse:
            ctx.emit(If(cond, as_block(then, span), as_block(orelse, span), span=span))
        return Val(VOID)
    if a.type is b.type and leaves(a.type) is None and isinstance(a, Mem) and isinstance(b, Mem):
        chosen = select(cond, a.address, memory.retype(b.address, a.address.type), a.address.type, span)  # type: ignore[arg-type]  # addresses are pointers
        return Mem(a.type, chosen, a.volatile)
    to = operators.common_type(ctx, a.type, b.type)
    with ctx.into(then):
        x = operators.convert(ctx, a, to, span)
    with ctx.into(orelse):
        y = operators.convert(ctx, b, to, span)
    if not isinstance(x, Val) or not isinstance(y, Val) or len(x.exprs) != len(y.exprs):
        return ctx.unknown(f"conditional of {spell(to)}", span, to)
    if not then and not orelse:
        pairs = zip(x.exprs, y.exprs, strict=True)
        return Val(to, tuple(select(cond, p, memory_retype(q, p), p.type, span) for p, q in pairs))
    (cond,) = ctx.protect((cond,), mark)
    made = tuple(ctx.var(e.type, "", span) for e in x.exprs)
    _set_all(ctx, then, made, x.exprs, span)
    _set_all(ctx, orelse, made, y.exprs, span)
    ctx.emit(If(cond, as_block(then, span), as_block(orelse, span), span=span))
    return Val(to, made)


def memory_retype(expr: Expr, like: Expr) -> Expr:
    return memory.retype(expr, like.type) if isinstance(like.type, Pointer) else expr


def _set_all(ctx: Context, stmts: list[Stmt], made: tuple[Var, ...], exprs: tuple[Expr, ...], span: Span) -> None:
    with ctx.into(stmts):
        for var, expr in zip(made, exprs, strict=True):
            ctx.emit(Assign(var, memory_retype(expr, var), span=span))


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
        overloaded = lower_call.call_method(ctx, ctx.protect_place(found, mark), "operator[]", [index], (), span, True)
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
    named = parenthesized_type(ctx, value)
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
        "number_literal": _number,
        "char_literal": _char,
        "string_literal": _string,
        "raw_string_literal": _string,
        "concatenated_string": _string,
        "user_defined_literal": _literal_suffix,
        "true": _true,
        "false": _false,
        "null": _null,
        "nullptr": _null,
        "this": symbols.this_pointer,
        "parenthesized_expression": _parenthesized,
        "binary_expression": _binary,
        "conditional_expression": _conditional,
        "unary_expression": _unary,
        "pointer_expression": _pointer,
        "update_expression": assign.update,
        "assignment_expression": assign.assignment,
        "comma_expression": _comma,
        "subscript_expression": _subscript,
        "field_expression": symbols.field,
        "call_expression": lower_call.call,
        "cast_expression": _cast,
        "sizeof_expression": _sizeof,
        "alignof_expression": _alignof,
        "compound_literal_expression": _compound_literal,
        "initializer_list": _list,
        "lambda_expression": lambdas.closure,
        "fold_expression": lambdas.fold,
        "gnu_asm_expression": asm.lower_asm,
        "new_expression": _unsupported("new on the device"),
        "delete_expression": _unsupported("delete on the device"),
        "requires_expression": _true,
    }


__all__ = ["Enum", "condition", "converted", "effect", "lower", "number", "rvalue", "type_of_expression"]
