"""``goto``: forward ones leave a labelled block that ends before their label, backward ones continue a loop.

Postconditions: every ``goto`` whose label stands in a list of statements that also holds the ``goto``, at any depth,
becomes ``Break`` or ``Continue`` of that block or loop. Jumps into a list of statements from outside, and backward
jumps over a region that forward jumps also leave, are opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower.context import Context, as_block
from prelaunch.analysis.kernel import BOOL, Block, Break, Const, Continue, Loop, Stmt

Lower = Callable[[Context, Node], None]


def has_labels(nodes: Sequence[Node]) -> bool:
    return any(node.type == "labeled_statement" for node in nodes)


def labelled(ctx: Context, nodes: Sequence[Node], lower: Lower) -> None:
    """Statements some of which carry labels."""
    names = {i: _label(ctx, node) for i, node in enumerate(nodes) if node.type == "labeled_statement"}
    jumps = [_jumps(ctx, node) for node in nodes]
    forward = [i for i, name in names.items() if any(name in inside for inside in jumps[:i])]
    extents = {i: max((j for j in range(i, len(nodes)) if names[i] in jumps[j]), default=-1) for i in names}
    backward: dict[int, int] = {}
    for i, last in extents.items():
        crossed = any(i < k <= last for k in forward) or any(a < i <= b < last for a, b in backward.items())
        if last >= 0 and not crossed:
            backward[i] = last
    _forward(ctx, nodes, names, forward, backward, lower)


def jump(ctx: Context, node: Node) -> None:
    """A ``goto`` statement."""
    target = ctx.frame.gotos.get(_label(ctx, node))
    span = ctx.span(node)
    if target is None:
        ctx.opaque("goto not modelled", span, ("control",))
    else:
        label, again = target
        ctx.emit(Continue(label, span=span) if again else Break(label, span=span))


def _forward(
    ctx: Context, nodes: Sequence[Node], names: dict[int, str], forward: list[int], backward: dict[int, int],
    lower: Lower,
) -> None:  # fmt: skip
    """The list with its blocks: each ends before a label that jumps lead to, the first label's is innermost."""
    opened = [(ctx.label(), i) for i in forward]
    ctx.frame.gotos.update({names[i]: (label, False) for label, i in opened})
    start = 0
    held: list[Stmt] = []
    for label, i in opened:
        with ctx.into(held):
            _backward(ctx, nodes, start, i, names, backward, lower)
        span = ctx.span(nodes[i])
        held = [Block(tuple(held), label, span=span)] if held else []
        ctx.frame.gotos.pop(names[i], None)
        start = i
    ctx.out.extend(held)
    _backward(ctx, nodes, start, len(nodes), names, backward, lower)


def _backward(
    ctx: Context, nodes: Sequence[Node], start: int, end: int, names: dict[int, str], backward: dict[int, int],
    lower: Lower,
) -> None:  # fmt: skip
    """Statements ``start`` to ``end``, those from a label to the last jump back to it as a loop."""
    opened: list[tuple[int, int, list[Stmt]]] = []
    for at in range(start, end):
        if at in backward:
            opened.append((at, ctx.label(), ctx.out))
            ctx.frame.gotos[names[at]] = (opened[-1][1], True)
            ctx.out = []
        lower(ctx, nodes[at])
        while opened and backward[opened[-1][0]] == at:
            first, label, outer = opened.pop()
            span = ctx.span(nodes[first])
            body = as_block([*ctx.out, Break(label, span=span)], span)
            ctx.frame.gotos.pop(names[first], None)
            ctx.out = outer
            ctx.emit(Loop(label, Block(span=span), Const(1, BOOL, span=span), body, Block(span=span), span=span))


def _label(ctx: Context, node: Node) -> str:
    """The name a label declares or a ``goto`` names."""
    name = next((c for c in node.named_children if c.type == "statement_identifier"), None)
    return ctx.text(name) if name is not None else ""


def _jumps(ctx: Context, root: Node) -> frozenset[str]:
    """Labels that statements under ``root`` go to; lambdas and local classes have their own."""
    found: set[str] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "goto_statement":
            found.add(_label(ctx, node))
        elif node.type not in ("lambda_expression", "class_specifier", "struct_specifier"):
            stack.extend(node.named_children)
    return frozenset(found)
