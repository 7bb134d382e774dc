"""Binary and conditional expressions: chains, short circuits, and casts the grammar reads as operators."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library import builtins
from prelaunch.analysis.frontends.cuda.lower import expand, expressions, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context, as_block
from prelaunch.analysis.frontends.cuda.passes.constants import binary, select
from prelaunch.analysis.frontends.cuda.semantics import typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Parameters, Reg, Val
from prelaunch.analysis.frontends.cuda.semantics.types import VOID, CType, Void, leaves, scalar, spell
from prelaunch.analysis.kernel import BOOL, Assign, Const, Expr, If, Pointer, Stmt, Var
from prelaunch.analysis.source import Span


def binary_expression(ctx: Context, node: Node) -> Lowered:
    """A binary expression; chains that lean to the left (``a + b + c ...``) are walked in a loop."""
    if _misread(ctx, node):
        simpler = expand.bare(ctx, ctx.text(node))
        if simpler != ctx.text(node):
            return expand.reread(ctx, node, simpler)
    products = products_read_as_casts(ctx, node)
    if products:
        return expand.reread(ctx, node, doubled(ctx, node, products))
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
        value = operand(ctx, current)
    for count, item in enumerate(reversed(spine), 1):
        if ctx.stopped:
            break
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
    b = operand(ctx, right)
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


def products_read_as_casts(ctx: Context, node: Node) -> list[Node]:
    """Operands read as casts although what stands in parentheses begins with a value: ``(a * (b & c)) * (d)``,
    ``(f(x)) & y``. At most 64 operands are looked at; text order."""
    found: list[Node] = []
    stack = [node]
    for _ in range(64):
        if not stack:
            break
        current = stack.pop()
        if current.type == "binary_expression":
            stack += [c for c in (current.child_by_field_name("right"), current.child_by_field_name("left")) if c]
        elif current.type == "cast_expression":
            value = current.child_by_field_name("value")
            if _begins_with_value(ctx, current.child_by_field_name("type")):
                found.append(current)
            elif value is not None:
                stack.append(value)
    return found


def _begins_with_value(ctx: Context, kind: Node | None) -> bool:
    if kind is None or kind.child_by_field_name("declarator") is None:
        return False
    base = kind.child_by_field_name("type")
    if base is None or base.type != "type_identifier":
        return False
    name = ctx.text(base)
    if isinstance(ctx.scope.find(name), Val | Reg | Mem):
        return True
    known = ctx.project.lookup_functions(name, ctx.file.source.path) or builtins.row_of(name, "") is not None
    return bool(known) and typenames.lookup_type(ctx, base) is None


def doubled(ctx: Context, node: Node, casts: list[Node]) -> str:
    """The text of ``node`` with the parentheses of ``casts`` doubled, which no grammar takes for a cast."""
    text, start = ctx.text(node).encode(), node.start_byte
    for item in reversed(casts):
        close = next((c.end_byte for c in item.children if c.type == ")"), item.start_byte) - start
        begin = item.start_byte - start
        text = text[:begin] + b"(" + text[begin:close] + b")" + text[close:]
    return text.decode("utf-8", "replace")


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
    found = expressions.lower(ctx, operand)
    if symbol == "*":
        value = memory.dereference(ctx, operators.as_scalar(ctx, found, span), span)
    elif symbol == "&":
        value = memory.address_of(ctx, found, span)
    else:
        value = operators.negate(ctx, symbol, found, span)
    return expressions.cast_value(ctx, to, value, span)


def operand(ctx: Context, node: Node) -> Lowered:
    """An operand: scalars are loaded now, so that effects of later operands do not reach them."""
    found = expressions.lower(ctx, node)
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
        b = expressions.condition(ctx, right)
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


def conditional(ctx: Context, node: Node) -> Lowered:
    test, yes = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    no = node.child_by_field_name("alternative")
    if test is None or no is None:
        return ctx.unknown("syntax not understood", ctx.span(node))
    cond = expressions.condition(ctx, test)
    if isinstance(cond, Const):
        taken = (yes if cond.value else no) or test
        with ctx.discarded():
            other = expressions.lower(ctx, (no if cond.value else yes) or test).type
        found = expressions.lower(ctx, taken)
        if scalar(found.type) and scalar(other):
            return operators.convert(ctx, found, operators.common_type(ctx, found.type, other), ctx.span(node))
        return found
    return branches(ctx, cond, yes or test, no, ctx.span(node))


def branches(ctx: Context, cond: Expr, yes: Node, no: Node, span: Span) -> Lowered:
    """``cond ? yes : no`` with only the taken side's effects."""
    mark = ctx.mark()
    with ctx.block() as then:
        a = operand(ctx, yes)
    with ctx.block() as orelse:
        b = operand(ctx, no)
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
