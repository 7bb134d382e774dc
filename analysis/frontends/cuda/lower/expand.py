"""Macro uses: expanded on demand, parsed as a fragment, lowered as if written at the place of use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import expressions
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Val
from prelaunch.analysis.frontends.cuda.semantics.types import CType
from prelaunch.analysis.frontends.cuda.text.declarations import Macro
from prelaunch.analysis.frontends.cuda.text.macros import Kind, MacroLimit, expand_call, expand_object, parse_fragment

MAX_NESTED = 32


@contextmanager
def expanding(ctx: Context, node: Node, macro: Macro) -> Iterator[None]:
    """Nodes lowered inside stand at ``node``, spelled in the macro's body."""
    outer = ctx.macro_site, ctx.macros
    if ctx.macro_site is None:
        ctx.macro_site = replace(ctx.span(node), spelling=macro.span)
    ctx.macros = (*ctx.macros, macro.name)
    try:
        yield
    finally:
        ctx.macro_site, ctx.macros = outer


def fragment(ctx: Context, node: Node, macro: Macro, kind: Kind) -> Node | str:
    """The tree of the expansion of the macro use ``node``, or why there is none."""
    if len(ctx.macros) > MAX_NESTED:
        return f"macro {macro.name}: nested too deep"
    file = ctx.file.source.path
    try:
        if macro.params is None:
            text = expand_object(ctx.project, file, macro.name)
        else:
            listed = node.child_by_field_name("arguments")
            args = [ctx.text(a) for a in listed.named_children if a.type != "comment"] if listed is not None else []
            text = expand_call(ctx.project, file, macro.name, args)
    except MacroLimit as limit:
        return f"macro {macro.name}: {limit}"
    if text is None:
        return f"macro {macro.name} does not take these arguments"
    if kind == "expression" and text.rstrip().endswith(";") and _ends_statement(node):
        text = text.rstrip().rstrip("; ")  # ``#define HALF 0.5f;``: what follows is an empty statement
    _, made = parse_fragment(bare(ctx, text), kind)
    if made.type in ("translation_unit", "ERROR"):
        return f"macro {macro.name}: expansion not understood"
    return made


def _ends_statement(node: Node) -> bool:
    """Whether nothing but ``;`` follows ``node`` in its statement."""
    above: Node | None = node
    while above is not None and above.type not in ("expression_statement", "declaration", "return_statement"):
        above = above.parent
    return above is not None and above.children[-1].type == ";" and above.children[-1].start_byte == node.end_byte


_PARENTHESISED = re.compile(r"([-+*/%&|^=<>!?:,({;]\s*|^\s*)\(\s*([A-Za-z_]\w*)\s*\)(?=\s*[-+*&])")


def bare(ctx: Context, text: str) -> str:
    """``text`` without parentheses around names of values where a cast could be read: ``(a) && (b)``, ``(a) - b``."""

    def plain(match: re.Match[str]) -> str:
        bound = ctx.scope.find(match[2])
        return f"{match[1]} {match[2]} " if isinstance(bound, Val | Reg | Mem) else match[0]

    return _PARENTHESISED.sub(plain, text)


def reread(ctx: Context, node: Node, text: str) -> Lowered:
    """``text`` lowered in the place of ``node``, which the grammar has misread."""
    _, made = parse_fragment(text, "expression")
    outer = ctx.macro_site
    if ctx.macro_site is None:
        ctx.macro_site = ctx.span(node)
    try:
        return expressions.lower(ctx, made)
    finally:
        ctx.macro_site = outer


def expression(ctx: Context, node: Node, macro: Macro) -> Lowered:
    """The value of a macro use in an expression."""
    made = fragment(ctx, node, macro, "expression")
    if isinstance(made, str):
        return ctx.unknown(made, ctx.span(node), touches=("value", "memory", "control"))
    with expanding(ctx, node, macro):
        return expressions.lower(ctx, made)


def type_name(ctx: Context, macro: Macro) -> CType | None:
    """The type an object-like macro stands for, if it stands for one."""
    try:
        text = expand_object(ctx.project, ctx.file.source.path, macro.name)
    except MacroLimit:
        return None
    if not text or len(ctx.macros) > MAX_NESTED:
        return None
    _, made = parse_fragment(text, "type")
    if made.type != "type_descriptor":
        return None
    outer = ctx.macros
    ctx.macros = (*ctx.macros, macro.name)
    try:
        kind = made.child_by_field_name("type")
        if kind is None or typenames.lookup_type(ctx, kind) is None:
            return None
        return typenames.descriptor(ctx, made)
    finally:
        ctx.macros = outer


def expression_name(ctx: Context, macro: Macro) -> str | None:
    """The function name an object-like macro stands for (``#define MY_SYNC __syncthreads``)."""
    try:
        text = expand_object(ctx.project, ctx.file.source.path, macro.name)
    except MacroLimit:
        return None
    return text if text is not None and text.isidentifier() else None
