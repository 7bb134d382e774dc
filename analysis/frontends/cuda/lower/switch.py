"""``switch``: a chain of ``If`` inside a labelled block; fall-through by a flag."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import expressions, operators, statements
from prelaunch.analysis.frontends.cuda.lower.context import Context, Jump, as_block
from prelaunch.analysis.frontends.cuda.passes.constants import binary, cast, unary
from prelaunch.analysis.frontends.cuda.semantics.scope import Val
from prelaunch.analysis.frontends.cuda.semantics.types import arithmetic, promote
from prelaunch.analysis.kernel import BOOL, Assign, Block, Break, Const, Expr, If, Stmt, Var
from prelaunch.analysis.source import Span

_LEAVES = ("break_statement", "return_statement", "continue_statement", "goto_statement")


class _Group:
    """Labels that share a body: their values (None: default) and statements."""

    def __init__(self, span: Span) -> None:
        self.values: list[Node | None] = []
        self.body: list[Node] = []
        self.span = span


def switch_statement(ctx: Context, node: Node) -> None:
    test, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    span = ctx.span(node)
    if test is None or body is None:
        ctx.opaque("syntax not understood", span, ("value", "memory", "control"))
        return
    with ctx.nested():
        value = _value(ctx, test)
        of = arithmetic(value.type)
        if of is None:
            ctx.opaque("switch over a class", span, ("value", "memory", "control"))
            return
        of = promote(of)
        chosen: Expr = cast(value.expr, of, span)
        if not isinstance(chosen, Const):
            chosen = ctx.temporary(chosen, span)
        groups = _groups(ctx, body)
        label = ctx.label()
        ctx.jumps.append(Jump(label, None))
        with ctx.block() as stmts:
            tests = [_test(ctx, group, chosen, groups) for group in groups]
            if any(not _ends(g.body) for g in groups[:-1]):
                _falling(ctx, groups, tests, span)
            else:
                _chain(ctx, groups, tests, label, span)
        ctx.jumps.pop()
        if stmts:
            ctx.emit(Block(tuple(stmts), label, span=span))


def _value(ctx: Context, test: Node) -> Val:
    inner = test.child_by_field_name("value") if test.type == "condition_clause" else test
    initializer = test.child_by_field_name("initializer")
    if initializer is not None:
        statements.statement(ctx, initializer)
    return operators.as_scalar(ctx, expressions.lower(ctx, inner or test), ctx.span(test))


def _groups(ctx: Context, body: Node) -> list[_Group]:
    groups: list[_Group] = []
    for child in ctx.parts(body):
        if child.type != "case_statement":
            if groups:
                groups[-1].body.append(child)
            continue
        value = child.child_by_field_name("value")
        if not groups or groups[-1].body:
            groups.append(_Group(ctx.span(child)))
        groups[-1].values.append(value)
        skip = value.start_byte if value is not None else -1
        groups[-1].body.extend(c for c in ctx.parts(child) if c.start_byte != skip)
    return groups


def _ends(body: list[Node]) -> bool:
    """Whether control never runs past the end of ``body``."""
    last = body[-1] if body else None
    while last is not None and last.type == "compound_statement":
        inner = [c for c in last.named_children if c.type != "comment"]
        last = inner[-1] if inner else None
    return last is not None and last.type in _LEAVES


def _test(ctx: Context, group: _Group, chosen: Expr, groups: list[_Group]) -> Expr:
    """Whether control enters at this group's labels."""
    found: Expr = Const(0, BOOL, span=group.span)
    for value in group.values:
        if value is None:
            others: Expr = Const(0, BOOL, span=group.span)
            for other in groups:
                for item in other.values:
                    if item is not None:
                        others = binary("lor", others, _equals(ctx, chosen, item), BOOL, group.span)
            found = binary("lor", found, unary("lnot", others, BOOL, group.span), BOOL, group.span)
        else:
            found = binary("lor", found, _equals(ctx, chosen, value), BOOL, group.span)
    return found


def _equals(ctx: Context, chosen: Expr, value: Node) -> Expr:
    span = ctx.span(value)
    item = operators.as_scalar(ctx, expressions.lower(ctx, value), span)
    return binary("eq", chosen, cast(item.expr, chosen.type, span), BOOL, span)


def _chain(ctx: Context, groups: list[_Group], tests: list[Expr], label: int, span: Span) -> None:
    """No fall-through: ``if / else if / else``, default last wherever it stands."""
    default = next((g for g in groups if None in g.values), None)
    rest: list[Stmt] = _body(ctx, default, label) if default is not None else []
    for group, test in reversed(list(zip(groups, tests, strict=True))):
        if group is default:
            continue
        body = _body(ctx, group, label)
        if isinstance(test, Const):
            rest = body if test.value else rest
            continue
        rest = [If(test, as_block(body, group.span), as_block(rest, span), span=group.span)]
    ctx.out.extend(rest)


def _body(ctx: Context, group: _Group, label: int) -> list[Stmt]:
    with ctx.block() as stmts, ctx.nested():
        statements.statements(ctx, group.body)
    if stmts and isinstance(stmts[-1], Break) and stmts[-1].label == label:
        stmts.pop()
    return stmts


def _falling(ctx: Context, groups: list[_Group], tests: list[Expr], span: Span) -> None:
    """Fall-through: a flag says that control has entered at an earlier label."""
    flag: Var = ctx.var(BOOL, "", span)
    ctx.emit(Assign(flag, Const(0, BOOL, span=span), span=span))
    for index, (group, test) in enumerate(zip(groups, tests, strict=True)):
        enter = binary("lor", flag, test, BOOL, group.span)
        with ctx.block() as stmts, ctx.nested():
            if index + 1 < len(groups):
                ctx.emit(Assign(flag, Const(1, BOOL, span=group.span), span=group.span))
            statements.statements(ctx, group.body)
        ctx.emit(If(enter, as_block(stmts, group.span), Block(span=group.span), span=group.span))
