"""Lambda expressions, parameter packs and folds."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import expressions, inline, memory, operators, statements
from prelaunch.analysis.frontends.cuda.lower.context import Context, Frame, as_block
from prelaunch.analysis.frontends.cuda.passes.constants import binary
from prelaunch.analysis.frontends.cuda.semantics import typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import (
    Lowered,
    Mem,
    Parameters,
    Reg,
    Scope,
    Template,
    TypeName,
    Val,
)
from prelaunch.analysis.frontends.cuda.semantics.types import Closure, TemplateArgument, leaves
from prelaunch.analysis.kernel import BOOL, Call, Const, Return
from prelaunch.analysis.source import Span


def closure(ctx: Context, node: Node) -> Lowered:
    """A lambda: its scope is the one it is written in, with copies of what it captures by value."""
    scope = Scope(ctx.scope)
    captures = node.child_by_field_name("captures")
    by_copy: list[str] = []
    for child in captures.named_children if captures is not None else ():
        if child.type == "lambda_default_capture" and ctx.text(child) == "=":
            by_copy.extend(_identifiers(ctx, node))
        elif child.type == "identifier" and not _is_reference(child):
            by_copy.append(ctx.text(child))
        elif child.type == "lambda_capture_initializer":
            left, right = child.child_by_field_name("left"), child.child_by_field_name("right")
            if left is not None and right is not None:
                found = memory.load(ctx, expressions.lower(ctx, right), ctx.span(child))
                bound = inline.bind_value(ctx, ctx.text(left), found.type, found, ctx.key(left), ctx.span(child))
                scope.names[ctx.text(left)] = bound
    by_reference = {ctx.text(c) for c in (captures.named_children if captures is not None else ()) if _is_reference(c)}
    for name in dict.fromkeys(n for n in by_copy if n not in by_reference):
        held = ctx.scope.find(name)
        if isinstance(held, Reg) and leaves(held.type):
            made = ctx.registers(held.type, name, ctx.span(node), f"{held.key}=copy{node.start_byte}")
            if made is not None:
                memory.store(ctx, made, Val(held.type, held.vars), ctx.span(node))
                scope.names[name] = made
    return Val(Closure(node, scope, ctx.file))


def _is_reference(captured: Node) -> bool:
    """``&name`` in a capture list: the grammar keeps the ``&`` beside the name."""
    before = captured.prev_sibling
    return captured.type == "identifier" and before is not None and before.type == "&"


def _identifiers(ctx: Context, node: Node) -> list[str]:
    body = node.child_by_field_name("body")
    stack, found = [body] if body is not None else [], list[str]()
    while stack:
        current = stack.pop()
        if current.type == "identifier":
            found.append(ctx.text(current))
        stack.extend(reversed(current.named_children))
    return found


def call_closure(
    ctx: Context, kind: Closure, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    """A lambda called: inlined like a function, its names resolved where it was written."""
    body = kind.node.child_by_field_name("body")
    if body is None or len(ctx.frames) >= ctx.limits.inline or sum(f.decl is kind for f in ctx.frames) > 4:
        return ctx.unknown("call of a lambda nests too deep", span, touches=("value", "memory", "control"))
    declarator = kind.node.child_by_field_name("declarator")
    nodes = declarator.child_by_field_name("parameters") if declarator is not None else None
    scope = Scope(kind.scope)
    frame = Frame("lambda", ctx.label(), None, scope=scope, decl=kind)
    kept = ctx.file, ctx.scope, ctx.macro_site, ctx.macros, ctx.inlined_at, ctx.depth, ctx.frame, ctx.jumps
    ctx.file, ctx.scope, ctx.macro_site, ctx.macros = kind.file, scope, None, ()
    ctx.inlined_at, ctx.depth, ctx.frame, ctx.jumps = span, 0, frame, []
    ctx.frames.append(frame)
    try:
        trailing = next(
            (c for c in (declarator.named_children if declarator else ()) if c.type == "trailing_return_type"), None
        )
        if trailing is not None and trailing.named_children:
            frame.type = typenames.type_of(ctx, trailing.named_children[0])
        if nodes is not None:
            inline.bind_nodes(ctx, [p for p in nodes.named_children if "parameter" in p.type], args, span)
        with ctx.block() as stmts:
            statements.body(ctx, body)
            if stmts and isinstance(stmts[-1], Return) and stmts[-1].label == frame.label:
                stmts.pop()
        block = as_block(stmts, ctx.span(body))
    finally:
        ctx.frames.pop()
        (
            ctx.file, ctx.scope, ctx.macro_site, ctx.macros, ctx.inlined_at, ctx.depth, ctx.frame, ctx.jumps,
        ) = kept  # fmt: skip
    if stmts and frame.label is not None:
        ctx.emit(Call(frame.label, "lambda", block, span=span))
    return inline.result_of(ctx, frame, span)


# --- packs -----------------------------------------------------------------------------------------------------------


def spread(ctx: Context, node: Node) -> list[Lowered]:
    """The values of ``pattern...``."""
    pattern = node.child_by_field_name("pattern") or (node.named_children[0] if node.named_children else None)
    if pattern is None:
        return []
    return [lower_one(ctx, pattern, scope) for scope in pack_scopes(ctx, pattern)]


def lower_one(ctx: Context, pattern: Node, scope: Scope) -> Lowered:
    with ctx.nested(scope):
        return expressions.lower(ctx, pattern)


def pack_scopes(ctx: Context, pattern: Node) -> list[Scope]:
    """One scope per element of the packs named in ``pattern``, each naming that element."""
    packs: dict[str, tuple[object, ...]] = {}
    stack = [pattern]
    while stack:
        current = stack.pop()
        if current.type in ("identifier", "type_identifier"):
            bound = ctx.scope.find(ctx.text(current))
            if isinstance(bound, Parameters):
                packs[ctx.text(current)] = bound.items
            elif isinstance(bound, Template) and isinstance(bound.value, tuple):
                packs[ctx.text(current)] = bound.value
        stack.extend(reversed(current.named_children))
    count = min((len(p) for p in packs.values()), default=0)
    scopes: list[Scope] = []
    for index in range(count):
        scope = Scope(ctx.scope)
        for name, items in packs.items():
            item = items[index]
            if isinstance(item, Val | Reg | Mem):
                scope.names[name] = item
            elif isinstance(item, int | float | str | tuple):
                scope.names[name] = Template(item)
            else:
                scope.names[name] = TypeName(item)  # type: ignore[arg-type]  # what is left of TemplateArgument are types
        scopes.append(scope)
    return scopes


def fold(ctx: Context, node: Node) -> Lowered:
    """``(pack op ...)``, ``(... op pack)`` and the forms with an initial value."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = node.child_by_field_name("operator")
    span = ctx.span(node)
    symbol = ctx.text(sign) if sign is not None else _symbol(ctx, node)
    sides = [n for n in (left, right) if n is not None and n.is_named] or list(node.named_children)
    values: list[tuple[Node, Scope | None]] = []
    for side in sides:
        scopes = pack_scopes(ctx, side)
        values.extend((side, s) for s in scopes) if scopes or len(sides) == 1 else values.append((side, None))
    if not values:
        if symbol in ("&&", "||"):
            return Val(BOOL, (Const(int(symbol == "&&"), BOOL, span=span),))
        return (
            ctx.unknown("fold over an empty pack", span) if symbol != "," else Val(BOOL, (Const(0, BOOL, span=span),))
        )
    result: Lowered | None = None
    for side, scope in values:
        with ctx.nested(scope or Scope(ctx.scope)):
            value = expressions.lower(ctx, side)
        if result is None or symbol == ",":
            result = value
        elif symbol in ("&&", "||"):
            a, b = operators.condition(ctx, result, span), operators.condition(ctx, value, span)
            result = Val(BOOL, (binary("land" if symbol == "&&" else "lor", a, b, BOOL, span),))
        else:
            result = operators.apply(ctx, symbol, result, value, span)
    assert result is not None
    return result


def _symbol(ctx: Context, node: Node) -> str:
    for child in node.children:
        if not child.is_named and ctx.text(child) not in ("(", ")", "..."):
            return ctx.text(child)
    return "+"
