"""Matrix fragments."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.context import Context
from prelaunch.analysis.frontends.cuda.types import Fragment, TemplateArgument


def fragment_type(
    name: str, args: tuple[TemplateArgument, ...] | None, ctx: Context, listed: Node | None
) -> Fragment | None:
    return None
