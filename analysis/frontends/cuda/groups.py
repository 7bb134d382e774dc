"""Cooperative groups."""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.context import Context
from prelaunch.analysis.frontends.cuda.scope import Lowered
from prelaunch.analysis.frontends.cuda.types import Group, TemplateArgument
from prelaunch.analysis.source import Span


def group_type(name: str, args: tuple[TemplateArgument, ...] | None) -> Group | None:
    return None


def named_value(name: str, span: Span) -> Lowered | None:
    return None


def member(ctx: Context, place: Lowered, name: str, span: Span) -> Lowered:
    return ctx.unknown(f"group member {name}", span)


def method(
    ctx: Context, place: Lowered, name: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    return ctx.unknown(f"group method {name}", span, touches=("value", "memory", "control"))
