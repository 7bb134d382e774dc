"""Inline PTX."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.context import Context
from prelaunch.analysis.frontends.cuda.scope import Lowered


def lower_asm(ctx: Context, node: Node) -> Lowered:
    return ctx.unknown("inline PTX", ctx.span(node), touches=("value", "memory", "control"))
