"""Library types and functions with a meaning of their own: ``numeric_limits``, ``cuda::atomic_ref``, cuRAND."""

from __future__ import annotations

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda import templates, traits
from prelaunch.analysis.frontends.cuda.context import Context
from prelaunch.analysis.frontends.cuda.scope import Lowered
from prelaunch.analysis.frontends.cuda.types import CType, TemplateArgument
from prelaunch.analysis.source import Span


def static_call(ctx: Context, parts: list[Node], owner: CType, name: str, listed: Node, span: Span) -> Lowered | None:
    """``Library<T>::name(...)``."""
    last = parts[-2] if len(parts) > 1 else None
    if last is not None and last.type in ("template_type", "template_function"):
        label, inner = last.child_by_field_name("name"), last.child_by_field_name("arguments")
        if label is not None and inner is not None and ctx.text(label) == "numeric_limits":
            return traits.limit(templates.arguments(ctx, inner), name, span)
    return None


def method(
    ctx: Context, place: Lowered, name: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered | None:
    """A member function of a library type."""
    return None
