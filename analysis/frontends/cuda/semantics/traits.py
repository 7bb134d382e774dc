"""Constants that the standard library's templates name: ``std::is_same_v``, ``std::numeric_limits``."""

from __future__ import annotations

import math

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.semantics import templates
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    CType,
    Enum,
    Ptr,
    Record,
    Ref,
    TemplateArgument,
    Void,
    arithmetic,
)  # fmt: skip
from prelaunch.analysis.kernel import BF16, BOOL, F16, F32, F64, I32, Const, Scalar
from prelaunch.analysis.source import Span

_MAX = {F64: 1.7976931348623157e308, F32: 3.4028234663852886e38, F16: 65504.0, BF16: 3.3895313892515355e38}
_MIN = {F64: 2.2250738585072014e-308, F32: 1.1754943508222875e-38, F16: 6.103515625e-05, BF16: 1.1754943508222875e-38}
_EPSILON = {F64: 2.0**-52, F32: 2.0**-23, F16: 2.0**-10, BF16: 2.0**-7}


def named_constant(ctx: Context, name: str, span: Span) -> Lowered | None:
    """Memory orders and thread scopes of ``cuda::`` by simple name, as small integers."""
    for prefix, words in (("memory_order_", ORDERS), ("thread_scope_", SCOPES)):
        if name.startswith(prefix) and name.removeprefix(prefix) in words:
            return Val(I32, (Const(words.index(name.removeprefix(prefix)), I32, span=span),))
    return None


ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = ("system", "device", "block", "thread")


def variable_template(ctx: Context, name: str, args: tuple[TemplateArgument, ...], span: Span) -> Lowered | None:
    value = truth(name.removesuffix("_v"), args) if name.endswith("_v") else None
    return Val(BOOL, (Const(int(value), BOOL, span=span),)) if value is not None else None


def qualified_constant(
    ctx: Context, parts: list[Node], owner: CType | None, name: str, listed: Node | None, span: Span
) -> Lowered | None:
    """``std::is_same<A, B>::value``, ``std::is_same_v<A, B>``, ``std::numeric_limits<T>::digits``."""
    if listed is not None and name.endswith("_v"):
        return variable_template(ctx, name, templates.arguments(ctx, listed), span)
    if len(parts) < 2 or parts[-2].type not in ("template_type", "template_function"):
        return named_constant(ctx, name, span)
    label, inner = parts[-2].child_by_field_name("name"), parts[-2].child_by_field_name("arguments")
    if label is None or inner is None:
        return None
    trait, args = ctx.text(label), templates.arguments(ctx, inner)
    if name == "value":
        value = truth(trait, args)
        if value is not None:
            return Val(BOOL, (Const(int(value), BOOL, span=span),))
        if trait == "integral_constant" and len(args) == 2 and isinstance(args[1], int):
            return Val(I32, (Const(args[1], I32, span=span),))
    if trait == "numeric_limits":
        return limit(args, name, span)
    return None


def limit(args: tuple[TemplateArgument, ...], name: str, span: Span) -> Lowered | None:
    """A member of ``std::numeric_limits<T>``."""
    of = args[0] if args and isinstance(args[0], Scalar) else None
    if of is None:
        return None
    value: int | float | None
    if of.is_integer:
        bits = 1 if of.kind == "bool" else of.bits
        top = (1 << (bits - 1)) - 1 if of.signed else (1 << bits) - 1
        low = -(1 << (bits - 1)) if of.signed else 0
        value = {"max": top, "min": low, "lowest": low}.get(name)
        digits = bits - (1 if of.signed else 0)
    else:
        table = {
            "max": _MAX[of], "lowest": -_MAX[of], "min": _MIN[of], "epsilon": _EPSILON[of], "infinity": math.inf,
            "quiet_NaN": math.nan, "signaling_NaN": math.nan,
        }  # fmt: skip
        value = table.get(name)
        digits = {F64: 53, F32: 24, F16: 11, BF16: 8}[of]
    if name == "digits":
        return Val(I32, (Const(digits, I32, span=span),))
    if name in ("is_signed", "is_integer"):
        answer = of.kind != "uint" if name == "is_signed" else of.is_integer
        return Val(BOOL, (Const(int(answer), BOOL, span=span),))
    return Val(of, (Const(value, of, span=span),)) if value is not None else None


def truth(trait: str, args: tuple[TemplateArgument, ...]) -> bool | None:
    """The value of a boolean type trait, None for those not known."""
    if not args:
        return None
    if trait == "is_same" and len(args) == 2:
        return templates.same(args[0], args[1])
    if trait in ("conjunction", "disjunction", "negation") or isinstance(args[0], int | float | str | tuple):
        return None
    of = args[0].to if isinstance(args[0], Ref) else args[0]
    plain = arithmetic(of) if not isinstance(of, Enum) else None
    standard = plain if plain not in (F16, BF16) else None
    answers = {
        "is_integral": standard is not None and standard.is_integer,
        "is_floating_point": standard is not None and not standard.is_integer,
        "is_arithmetic": standard is not None,
        "is_signed": standard is not None and standard.kind != "uint" and standard.kind != "bool",
        "is_unsigned": standard is not None and standard.kind in ("uint", "bool"),
        "is_pointer": isinstance(of, Ptr),
        "is_void": isinstance(of, Void),
        "is_enum": isinstance(of, Enum),
        "is_class": isinstance(of, Record) and of.kind != "union",
        "is_const": False,
        "is_reference": isinstance(args[0], Ref),
        "is_trivially_copyable": True,
        "is_standard_layout": True,
        "is_pod": True,
    }
    return answers.get(trait)
