"""Loops, and recognition of counted ones."""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import (
    calls,
    declare,
    expressions,
    initialise,
    inline,
    memory,
    operators,
    statements,
)
from prelaunch.analysis.frontends.cuda.lower.context import Context, Jump, as_block
from prelaunch.analysis.frontends.cuda.passes.constants import binary
from prelaunch.analysis.frontends.cuda.semantics import typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Val
from prelaunch.analysis.frontends.cuda.semantics.types import Array, Record, Ref
from prelaunch.analysis.kernel import (
    BOOL,
    I64,
    Assign,
    Binary,
    Block,
    Cast,
    Const,
    Expr,
    Loop,
    LoopInfo,
    Scalar,
    Stmt,
    Unary,
    Var,
)  # fmt: skip
from prelaunch.analysis.source import Span
from prelaunch.analysis.walk import defined, walk, walk_expr

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


def for_loop(ctx: Context, node: Node) -> None:
    initializer, test = node.child_by_field_name("initializer"), node.child_by_field_name("condition")
    step, body = node.child_by_field_name("update"), node.child_by_field_name("body")
    with ctx.nested():
        if initializer is not None:
            if initializer.type == "declaration":
                declare.declaration(ctx, initializer)
            else:
                expressions.effect(ctx, initializer)
        before = len(ctx.out)
        _loop(ctx, node, test, body, step, True, before)


def while_loop(ctx: Context, node: Node) -> None:
    test, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    with ctx.nested():
        _loop(ctx, node, test, body, None, True, len(ctx.out))


def do_loop(ctx: Context, node: Node) -> None:
    test, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    with ctx.nested():
        _loop(ctx, node, test, body, None, False, len(ctx.out))


def _loop(
    ctx: Context, node: Node, test: Node | None, body: Node | None, step: Node | None, first: bool, before: int
) -> None:
    span = ctx.span(node)
    label = ctx.label()
    cond: Expr | None = None
    with ctx.block() as tested:
        if test is not None:
            cond = statements.clause(ctx, test)
    if cond is None:
        cond = Const(1, BOOL, span=span)
    if first and not tested and isinstance(cond, Const) and not cond.value:
        return
    ctx.jumps.append(Jump(label, label))
    with ctx.block() as inside:
        if body is not None:
            statements.scoped(ctx, body)
    ctx.jumps.pop()
    with ctx.block() as after:
        if step is not None:
            expressions.effect(ctx, step)
    info = None
    if first and not tested:
        info = recognise(ctx.out[:before][-8:], cond, inside, after)
    here = ctx.span(body) if body is not None else span
    made = Loop(
        label, as_block(tested, span), cond, as_block(inside, here), as_block(after, span), first, info, span=span
    )
    ctx.emit(made)


# --- counted loops ---------------------------------------------------------------------------------------------------


def recognise(before: list[Stmt], cond: Expr, body: list[Stmt], step: list[Stmt]) -> LoopInfo | None:
    """What kind of counted loop this is, None for any other.

    The variable is stepped once, by the step alone; bound and step read nothing that the loop assigns.
    """
    test = cond if isinstance(cond, Binary) and cond.op in _FLIPPED else _nonzero(cond)
    if test is None or not step:
        return None
    last = next((s for s in step if isinstance(s, Assign) and _compared(test, s.var) is not None), None)
    if last is None:
        return None
    changed = {v.id for s in (*body, *step) for inner in walk(s) for v in defined(inner)}
    inside = {v.id for s in body for inner in walk(s) for v in defined(inner)}
    side = _compared(test, last.var)
    assert side is not None
    bound, cmp = side
    stepped = _step(last)
    if stepped is None or last.var.id in inside or sum(last.var in defined(s) for s in step) != 1:
        return None
    amount, kind = stepped
    if _reads(bound, changed) or _reads(amount, changed):
        return None
    init: Expr = last.var
    for stmt in reversed(before):
        if last.var in defined(stmt):
            if isinstance(stmt, Assign) and not _reads(stmt.expr, {last.var.id}):
                init = stmt.expr
            break
        if not isinstance(stmt, Assign):
            break
    return LoopInfo(last.var, init, bound, cmp, amount, kind)  # type: ignore[arg-type]  # keys of _FLIPPED, words of _step


def _nonzero(cond: Expr) -> Binary | None:
    """``for (...; i; ...)`` as ``i != 0``."""
    if isinstance(cond, Cast) and cond.type == BOOL and isinstance(cond.operand.type, Scalar):
        return Binary("ne", cond.operand, Const(0, cond.operand.type, span=cond.span), BOOL, span=cond.span)
    return None


def _compared(cond: Binary, var: Var) -> tuple[Expr, str] | None:
    """The bound and the comparison, seen from ``var`` on the left (possibly converted)."""
    if _is(cond.left, var):
        return cond.right, cond.op
    if _is(cond.right, var) and cond.op in _FLIPPED:
        return cond.left, _FLIPPED[cond.op]
    return None


def _is(expr: Expr, var: Var) -> bool:
    while isinstance(expr, Cast) and isinstance(expr.type, Scalar) and expr.type.is_integer and expr.type != BOOL:
        expr = expr.operand
    return isinstance(expr, Var) and expr.id == var.id


def _step(stmt: Assign) -> tuple[Expr, str] | None:
    """(amount, kind) of ``var = var op amount``."""
    expr: Expr = stmt.expr
    while isinstance(expr, Cast) and isinstance(expr.type, Scalar) and expr.type.is_integer:
        expr = expr.operand
    if not isinstance(expr, Binary) or not expr.type.is_integer:
        return None
    if expr.op == "add":
        if _is(expr.left, stmt.var):
            return expr.right, "affine"
        return (expr.left, "affine") if _is(expr.right, stmt.var) else None
    if not _is(expr.left, stmt.var):
        return None
    amount = expr.right
    if expr.op == "sub":
        if isinstance(amount, Const):
            return replace(amount, value=-amount.value, type=_signed(amount.type)), "affine"
        assert isinstance(amount.type, Scalar)
        return Unary("neg", amount, amount.type, span=amount.span), "affine"
    if not isinstance(amount, Const) or not isinstance(amount.type, Scalar):
        return None
    value = int(amount.value)
    of = _signed(amount.type)
    table = {"mul": value, "shl": 1 << min(value, 62), "div": -value, "shr": -(1 << min(value, 62))}
    factor = table.get(expr.op)
    if factor is None or abs(factor) < 2:
        return None
    return replace(amount, value=factor, type=of), "power"


def _signed(of: object) -> Scalar:
    assert isinstance(of, Scalar)
    return Scalar("int", of.bits) if of.kind == "uint" else of


def _reads(expr: Expr, ids: set[int]) -> bool:
    return any(isinstance(e, Var) and e.id in ids for e in walk_expr(expr))


# --- range-for -------------------------------------------------------------------------------------------------------


def range_for(ctx: Context, node: Node) -> None:
    """Over arrays: a counted loop. Over braced lists: one copy of the body per element. Over ranges: iterators."""
    right, body = node.child_by_field_name("right"), node.child_by_field_name("body")
    span = ctx.span(node)
    if right is None or body is None:
        ctx.opaque("syntax not understood", span, ("value", "memory", "control"))
        return
    with ctx.nested():
        if right.type == "initializer_list":
            _listed(ctx, node, initialise.items_of(right), body)
            return
        sequence = expressions.lower(ctx, right)
        if isinstance(sequence.type, Array) and sequence.type.count is not None:
            place = sequence if isinstance(sequence, Mem) else memory.in_memory_wanted(ctx, sequence, span)
            _counted(ctx, node, place, body)
        elif isinstance(sequence.type, Record):
            _iterated(ctx, node, sequence, body)
        else:
            ctx.opaque("range-for over this type", span, ("value", "memory", "control"))


def _bind(ctx: Context, node: Node, element: Lowered, span: Span) -> None:
    spec = typenames.specifiers(ctx, node)
    declarator = node.child_by_field_name("declarator")
    base = spec.type if spec.type is not None else inline.auto_type(element.type)
    name, ctype = typenames.declared(ctx, base, declarator, spec.volatile, spec.const)
    if name is not None:
        if isinstance(ctype, Ref) and spec.type is None:
            ctype = Ref(element.type)
        ctx.scope.names[ctx.text(name)] = inline.bind_value(ctx, ctx.text(name), ctype, element, ctx.key(name), span)


def _listed(ctx: Context, node: Node, items: list[Node], body: Node) -> None:
    outer = ctx.label()
    span = ctx.span(node)
    with ctx.block() as stmts:
        for item in items:
            inner = ctx.label()
            ctx.jumps.append(Jump(outer, None))
            with ctx.nested(), ctx.block() as once:
                _bind(ctx, node, expressions.lower(ctx, item), ctx.span(item))
                statements.scoped(ctx, body)
            ctx.jumps.pop()
            ctx.emit(Block(tuple(once), inner, span=span))
    ctx.emit(Block(tuple(stmts), outer, span=span))


def _counted(ctx: Context, node: Node, place: Mem, body: Node) -> None:
    assert isinstance(place.type, Array)
    span = ctx.span(node)
    counter = ctx.var(I64, "i", span)
    ctx.assign(counter, Const(0, I64, span=span), span)
    label = ctx.label()
    pointer = memory.decay(ctx, place, span)
    ctx.jumps.append(Jump(label, label))
    with ctx.block() as inside:
        _bind(ctx, node, memory.element(ctx, pointer, Val(I64, (counter,)), span), span)
        statements.scoped(ctx, body)
    ctx.jumps.pop()
    zero, one, bound = (Const(v, I64, span=span) for v in (0, 1, place.type.count or 0))
    step = as_block([Assign(counter, binary("add", counter, one, I64, span), span=span)], span)
    ctx.log.append(counter.id)
    cond = binary("lt", counter, bound, BOOL, span)
    info = LoopInfo(counter, zero, bound, "lt", one)
    ctx.emit(Loop(label, Block(span=span), cond, as_block(inside, ctx.span(body)), step, True, info, span=span))


def _iterated(ctx: Context, node: Node, sequence: Lowered, body: Node) -> None:
    span = ctx.span(node)
    begin = calls.call_method(ctx, sequence, "begin", [], (), span, quiet=True)
    end = calls.call_method(ctx, sequence, "end", [], (), span, quiet=True)
    if begin is None or end is None:
        ctx.opaque("range-for over this type", span, ("value", "memory", "control"))
        return
    current = inline.bind_value(ctx, "it", inline.auto_type(begin.type), begin, ctx.key(node) + ".begin", span)
    last = inline.bind_value(ctx, "end", inline.auto_type(end.type), end, ctx.key(node) + ".end", span)
    label = ctx.label()
    with ctx.block() as tested:
        cond = operators.condition(ctx, operators.apply(ctx, "!=", current, last, span), span)
    ctx.jumps.append(Jump(label, label))
    with ctx.block() as inside:
        if isinstance(current.type, Record):
            element: Lowered | None = operators.overloaded_operator(ctx, "operator*", current, None, span)
        else:
            element = memory.dereference(ctx, operators.as_scalar(ctx, current, span), span)
        if element is not None:
            _bind(ctx, node, element, span)
        statements.scoped(ctx, body)
    ctx.jumps.pop()
    with ctx.block() as after:
        if isinstance(current.type, Record):
            calls.call_method(ctx, current, "operator++", [], (), span, quiet=True)
        else:
            old = operators.as_scalar(ctx, current, span)
            moved = operators.advance(old, Val(I64, (Const(1, I64, span=span),)), False, span)
            memory.store(ctx, current, moved, span)
    ctx.emit(
        Loop(label, as_block(tested, span), cond, as_block(inside, ctx.span(body)), as_block(after, span), span=span)
    )
