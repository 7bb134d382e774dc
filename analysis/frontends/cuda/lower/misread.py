"""Declarations that the grammar reads as expressions or functions."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import classes, declare, expand, expressions, inline, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import evaluate, templates, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Mem, Reg, Val
from prelaunch.analysis.frontends.cuda.semantics.types import Array, Ptr, Record, Ref, leaves
from prelaunch.analysis.source import Span


def vexing(ctx: Context, spec: typenames.Specifiers, inner: Node, span: Span) -> bool:
    """``T x(a);`` that the grammar reads as a function: a variable when ``a`` is a value."""
    listed, name = inner.child_by_field_name("parameters"), inner.child_by_field_name("declarator")
    if listed is None or name is None or spec.type is None:
        return False
    kinds = [p.child_by_field_name("type") for p in listed.named_children if p.type == "parameter_declaration"]
    values = [k for k in kinds if k is not None and k.type in ("type_identifier", "qualified_identifier")]
    if not values or len(values) != len(kinds):
        return False
    if any(typenames.lookup_type(ctx, v) is not None for v in values):
        return False
    label = ctx.text(name)
    args = [expand.reread(ctx, p, ctx.text(p)) for p in listed.named_children if p.type == "parameter_declaration"]
    made = classes.construct(ctx, spec.type, args, span)
    if leaves(spec.type) == () and not isinstance(spec.type, Record):
        ctx.scope.names[label] = memory.load(ctx, args[0], span)
        return True
    place = declare.place_for(ctx, spec, spec.type, label, name, span)
    memory.store(ctx, place, operators.convert(ctx, made, spec.type, span), span)
    ctx.scope.names[label] = place
    return True


def disguised(ctx: Context, node: Node) -> bool:
    """``A<n> x = v;`` read as comparisons: declared when ``A`` names a type."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = node.child_by_field_name("operator")
    if left is None or right is None or sign is None or ctx.text(sign) != ">" or left.type != "binary_expression":
        return False
    head, size = left.child_by_field_name("left"), left.child_by_field_name("right")
    inner = left.child_by_field_name("operator")
    if head is None or size is None or inner is None or ctx.text(inner) != "<":
        return False
    if head.type not in ("identifier", "qualified_identifier"):
        return False
    label = expressions.qualified_parts(head)[-1] if head.type == "qualified_identifier" else head
    if isinstance(ctx.scope.find(ctx.text(label)), Reg | Mem | Val):
        return False
    ctype = typenames.named(ctx, ctx.text(label), (templates.argument(ctx, size),))
    if ctype is None:
        return False
    value = right.child_by_field_name("right") if right.type == "assignment_expression" else None
    name = right.child_by_field_name("left") if right.type == "assignment_expression" else right
    if name is not None and name.type == "call_expression":
        value, name = name.child_by_field_name("arguments"), name.child_by_field_name("function")
    if name is None or name.type != "identifier":
        return False
    spec = typenames.Specifiers(ctype)
    ctx.scope.names[ctx.text(name)] = declare.variable(
        ctx, spec, ctype, ctx.text(name), name, value, None, ctx.span(node)
    )
    return True


def disguised_reference(ctx: Context, node: Node) -> bool:
    """``T (&r)[n] = a;`` and ``T (*p)[n] = a;`` read as assignments to a subscripted call."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return False
    sizes: list[Node] = []
    current: Node = left
    while current.type == "subscript_expression":
        base, listed = current.child_by_field_name("argument"), current.child_by_field_name("indices")
        if base is None or listed is None or len(listed.named_children) != 1:
            return False
        sizes.append(listed.named_children[0])
        current = base
    if current.type != "call_expression" or not sizes:
        return False
    target, listed = current.child_by_field_name("function"), current.child_by_field_name("arguments")
    inner = listed.named_children[0] if listed is not None and len(listed.named_children) == 1 else None
    if target is None or inner is None or inner.type != "pointer_expression":
        return False
    of = typenames.lookup_type(ctx, target)
    name, sign = inner.child_by_field_name("argument"), inner.child_by_field_name("operator")
    if of is None or name is None or sign is None or name.type != "identifier":
        return False
    for size in sizes:
        of = Array(of, evaluate.integer(ctx, size))
    found = expressions.lower(ctx, right)
    span = ctx.span(node)
    if ctx.text(sign) == "&":
        ctx.scope.names[ctx.text(name)] = inline.bind_reference(
            ctx, ctx.text(name), Ref(of), found, ctx.key(name), span
        )
    else:
        bound = inline.bind_value(ctx, ctx.text(name), Ptr(of), found, ctx.key(name), span)
        ctx.scope.names[ctx.text(name)] = bound
    return True
