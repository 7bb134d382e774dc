"""Literals: numbers, characters, strings (objects of their own), truth values, null pointers."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import symbols
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.passes import constants
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Val
from prelaunch.analysis.frontends.cuda.semantics.types import VOID, Array, Ptr
from prelaunch.analysis.kernel import BOOL, I8, I32, Const, Object, Pointer, Scalar


def number(ctx: Context, node: Node) -> Lowered:
    found = constants.number(ctx.text(node))
    if found is None:
        return ctx.unknown(f"literal {ctx.text(node)[:40]} not modelled", ctx.span(node))
    assert isinstance(found.type, Scalar)
    return Val(found.type, (Const(found.value, found.type, span=ctx.span(node)),))


def char(ctx: Context, node: Node) -> Lowered:
    text = ctx.text(node)
    codes = constants.unescape(text[text.find("'") + 1 : -1])
    of = I8 if text.startswith("'") else I32
    return Val(of, (Const(constants.fit(codes[0] if codes else 0, of), of, span=ctx.span(node)),))


def string(ctx: Context, node: Node) -> Lowered:
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


def true(ctx: Context, node: Node) -> Lowered:
    return Val(BOOL, (Const(1, BOOL, span=ctx.span(node)),))


def false(ctx: Context, node: Node) -> Lowered:
    return Val(BOOL, (Const(0, BOOL, span=ctx.span(node)),))


def null(ctx: Context, node: Node) -> Lowered:
    return Val(Ptr(VOID), (Const(0, Pointer(), span=ctx.span(node)),))


def literal_suffix(ctx: Context, node: Node) -> Lowered:
    found = constants.number(ctx.text(node))
    if found is None:
        return ctx.unknown("user-defined literal not modelled", ctx.span(node))
    return number(ctx, node)
