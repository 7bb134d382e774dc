"""Statements of the syntax tree to IR statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import (
    declare,
    expand,
    expressions,
    gotos,
    inline,
    loops,
    memory,
    misread,
    operators,
    switch,
)
from prelaunch.analysis.frontends.cuda.lower.context import EVERYTHING, Context, as_block
from prelaunch.analysis.frontends.cuda.semantics import names
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import VOID
from prelaunch.analysis.kernel import Break, Const, Continue, Exit, Expr, If
from prelaunch.analysis.source import Span

_SKIPPED = frozenset({
    "comment", "preproc_call", "preproc_def", "preproc_function_def", "preproc_include", "using_declaration", ";",
    "static_assert_declaration", "namespace_alias_definition", "attribute_declaration", "preproc_directive",
})  # fmt: skip


def body(ctx: Context, node: Node) -> None:
    """A function body in the current scope."""
    statements(ctx, ctx.parts(node) if node.type == "compound_statement" else [node])


def statements(ctx: Context, nodes: Sequence[Node]) -> None:
    if gotos.has_labels(nodes):
        gotos.labelled(ctx, nodes, statement)
        return
    for node in nodes:
        statement(ctx, node)


def statement(ctx: Context, node: Node) -> None:
    if ctx.stopped or node.type in _SKIPPED:
        return
    handler = _handlers().get(node.type)
    if handler is None:
        if node.type.endswith(("expression", "literal", "identifier")) or node.type in expressions.handled():
            expressions.effect(ctx, node)
            return
        reason = "syntax not understood" if node.is_error else f"{node.type.replace('_', ' ')} not modelled"
        ctx.opaque(reason, ctx.span(node), EVERYTHING)
        return
    try:
        if not ctx.enter():
            ctx.opaque("nesting too deep", ctx.span(node), EVERYTHING)
            return
        handler(ctx, node)
    finally:
        ctx.leave()


def scoped(ctx: Context, node: Node) -> None:
    """A statement in a scope of its own."""
    with ctx.nested():
        if node.type == "compound_statement":
            statements(ctx, ctx.parts(node))
        else:
            statement(ctx, node)


def _compound(ctx: Context, node: Node) -> None:
    with ctx.nested():
        statements(ctx, ctx.parts(node))


def _expression(ctx: Context, node: Node) -> None:
    inner = [c for c in node.named_children if c.type != "comment"]
    if not inner:
        return
    if inner[0].type in ("call_expression", "identifier") and _macro_statement(ctx, inner[0]):
        return
    if inner[0].type == "binary_expression" and misread.disguised(ctx, inner[0]):
        return
    if inner[0].type == "assignment_expression" and misread.disguised_reference(ctx, inner[0]):
        return
    expressions.effect(ctx, inner[0])


def _macro_statement(ctx: Context, node: Node) -> bool:
    """A macro use as a whole statement, whose expansion may be any number of statements."""
    target = node.child_by_field_name("function") if node.type == "call_expression" else node
    if target is None or target.type != "identifier" or ctx.scope.find(ctx.text(target)) is not None:
        return False
    macro = names.macro(ctx, ctx.text(target))
    if macro is None or (macro.params is None) != (node.type == "identifier"):
        return False
    made = expand.fragment(ctx, node, macro, "statements")
    if isinstance(made, str):
        ctx.opaque(made, ctx.span(node), EVERYTHING)
        return True
    with expand.expanding(ctx, node, macro):
        statements(ctx, ctx.parts(made))
    return True


def statement_expression(ctx: Context, node: Node) -> Lowered:
    """GNU ``({ ...; value; })``."""
    inner = [c for c in node.named_children if c.type != "comment"]
    with ctx.nested():
        if not inner:
            return Val(VOID)
        statements(ctx, inner[:-1])
        last = inner[-1]
        if last.type == "expression_statement" and last.named_children:
            return memory.load(ctx, expressions.lower(ctx, last.named_children[0]), ctx.span(last))
        statement(ctx, last)
        return Val(VOID)


# --- control ---------------------------------------------------------------------------------------------------------


def clause(ctx: Context, node: Node) -> Expr | None:
    """The condition of ``if``, ``while`` or ``switch``; declarations in it join the current scope."""
    initializer, value = node.child_by_field_name("initializer"), node.child_by_field_name("value")
    if node.type != "condition_clause":
        return expressions.condition(ctx, node)
    if initializer is not None:
        statement(ctx, initializer)
    if value is None:
        inner = [c for c in node.named_children if c.type != "comment"]
        value = inner[-1] if inner else None
    if value is None:
        return None
    if value.type == "declaration":
        return operators.condition(ctx, declare.condition_declaration(ctx, value), ctx.span(value))
    return expressions.condition(ctx, value)


def _if(ctx: Context, node: Node) -> None:
    """``if``/``else if`` chains are walked in a loop, each ``else`` one block deeper."""
    test, yes = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    no = node.child_by_field_name("alternative")
    span = ctx.span(node)
    if test is None or yes is None:
        ctx.opaque("syntax not understood", span, EVERYTHING)
        return
    with ctx.nested():
        cond = clause(ctx, test)
        if cond is None:
            ctx.opaque("syntax not understood", span, EVERYTHING)
            return
        other = _else_body(no)
        if isinstance(cond, Const):
            taken = yes if cond.value else other
            if taken is not None:
                scoped(ctx, taken)
            return
        with ctx.block() as then:
            scoped(ctx, yes)
        with ctx.block() as orelse:
            if other is not None:
                scoped(ctx, other)
        if then or orelse:
            ctx.emit(If(cond, as_block(then, ctx.span(yes)), as_block(orelse, _span(ctx, other, span)), span=span))


def _else_body(node: Node | None) -> Node | None:
    if node is None:
        return None
    if node.type != "else_clause":
        return node
    inner = [c for c in node.named_children if c.type != "comment"]
    return inner[0] if inner else None


def _span(ctx: Context, node: Node | None, otherwise: Span) -> Span:
    return ctx.span(node) if node is not None else otherwise


def _break(ctx: Context, node: Node) -> None:
    if not ctx.jumps:
        ctx.opaque("break outside a loop", ctx.span(node), ("control",))
        return
    ctx.emit(Break(ctx.jumps[-1].break_label, span=ctx.span(node)))


def _continue(ctx: Context, node: Node) -> None:
    for jump in reversed(ctx.jumps):
        if jump.continue_label is not None:
            ctx.emit(Continue(jump.continue_label, span=ctx.span(node)))
            return
    ctx.opaque("continue outside a loop", ctx.span(node), ("control",))


def _return(ctx: Context, node: Node) -> None:
    span = ctx.span(node)
    inner = [c for c in node.named_children if c.type != "comment"]
    value = inner[0] if inner else None
    if ctx.frame.label is None:
        if value is not None:
            expressions.effect(ctx, value)
        ctx.emit(Exit(span=span))
        return
    inline.returned(ctx, value, span)


def _labeled(ctx: Context, node: Node) -> None:
    inner = [c for c in node.named_children if c.type != "statement_identifier"]
    for child in inner:
        statement(ctx, child)


def _attributed(ctx: Context, node: Node) -> None:
    for child in node.named_children:
        if child.type not in ("attribute_declaration", "attribute"):
            statement(ctx, child)


def _linkage(ctx: Context, node: Node) -> None:
    for child in node.named_children:
        statement(ctx, child)


def _launch(ctx: Context, node: Node) -> None:
    ctx.opaque("kernel launched from the device", ctx.span(node), EVERYTHING)


@cache
def _handlers() -> dict[str, Callable[[Context, Node], None]]:
    return {
        "compound_statement": _compound,
        "expression_statement": _expression,
        "declaration": declare.declaration,
        "if_statement": _if,
        "for_statement": loops.for_loop,
        "for_range_loop": loops.range_for,
        "while_statement": loops.while_loop,
        "do_statement": loops.do_loop,
        "switch_statement": switch.switch_statement,
        "break_statement": _break,
        "continue_statement": _continue,
        "return_statement": _return,
        "goto_statement": gotos.jump,
        "labeled_statement": _labeled,
        "attributed_statement": _attributed,
        "alias_declaration": declare.alias,
        "type_definition": declare.alias,
        "struct_specifier": declare.local_type,
        "class_specifier": declare.local_type,
        "union_specifier": declare.local_type,
        "enum_specifier": declare.local_type,
        "function_definition": declare.macro_block,
        "linkage_specification": _linkage,
    }
