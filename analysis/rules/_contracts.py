"""Launch contracts: the conditions under which sizes that host code does not fix are valid, in host names.

Guarantees: a contract holds exactly when the sizes meet the limits, read as mathematical integers (a size that wraps
in a conversion is outside), under the one assumption that unknown host integers are at least 1; parts that always hold
under it are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from prelaunch.analysis.hostir.ranges import bounds
from prelaunch.analysis.kernel import Binary, Cast, Const, Expr, Pure, Scalar, Select, Unary, Var
from prelaunch.analysis.show import show_expr
from prelaunch.analysis.walk import walk_expr

MAX_TEXT = 120
"""A longer expression is named by what it sets (``gridDim.y``) instead."""

_INFIX = {
    "mul": ("*", 5), "div": ("/", 5), "rem": ("%", 5), "add": ("+", 4), "sub": ("-", 4), "shl": ("<<", 3),
    "shr": (">>", 3), "lt": ("<", 2), "le": ("<=", 2), "gt": (">", 2), "ge": (">=", 2), "eq": ("==", 2),
    "ne": ("!=", 2), "and": ("&", 1), "xor": ("^", 1), "or": ("|", 1), "land": ("&&", 0), "lor": ("||", 0),
}  # fmt: skip


def understood(expr: Expr) -> bool:
    """Whether every unknown in the expression has a name in the source."""
    return all(item.name for item in walk_expr(expr) if isinstance(item, Var))


def host_text(expr: Expr, otherwise: str) -> str:
    """C text of a size: host names, no conversions between integers, constants added up; ``otherwise`` when long."""
    text = _text(expr, -1)
    return text if len(text) <= MAX_TEXT else otherwise


def _text(expr: Expr, outer: int) -> str:
    match expr:
        case Const(value=value):
            return str(value)
        case Var(name=name):
            return name
        case Cast(operand=operand, type=kind):
            if isinstance(kind, Scalar) and not kind.is_integer and _integer(operand):
                return f"({'double' if kind.bits == 64 else 'float'}){_text(operand, 6)}"
            return _text(operand, outer)
        case Unary(op="neg", operand=operand):
            return f"-{_text(operand, 6)}"
        case Unary(op="lnot", operand=operand):
            return f"!{_text(operand, 6)}"
        case Select(cond=cond, then=then, orelse=orelse):
            return f"({_text(cond, 0)} ? {_text(then, 0)} : {_text(orelse, 0)})"
        case Pure(name=name, args=args):
            return f"{name}({', '.join(_text(a, -1) for a in args)})"
        case Binary(op=("add" | "sub")):
            return _sum(expr, outer)
        case Binary(op=op, left=left, right=right):
            sign, rank = _INFIX[op]
            text = f"{_text(left, rank)} {sign} {_text(right, rank + 1)}"
            return f"({text})" if rank < outer or (outer == 0 and rank == 0) else text
    return show_expr(expr)


def _terms(expr: Expr) -> tuple[list[tuple[int, Expr]], int]:
    """A sum as (sign, term) in order and the total of its integer constants."""
    terms: list[tuple[int, Expr]] = []
    pending: list[tuple[int, Expr]] = [(1, expr)]
    constant = 0
    while pending:
        sign, item = pending.pop()
        plain = bare(item)
        if isinstance(plain, Binary) and plain.op in ("add", "sub"):
            pending += [(sign if plain.op == "add" else -sign, plain.right), (sign, plain.left)]
        elif isinstance(plain, Const) and isinstance(plain.value, int):
            constant += sign * plain.value
        else:
            terms.append((sign, item))
    return terms, constant


def _sum(expr: Binary, outer: int) -> str:
    """``(x + 128) - 1`` as ``x + 127``: terms in order, integer constants added up last."""
    terms, constant = _terms(expr)
    terms.sort(key=lambda term: -term[0])
    parts = [f"{'- ' if sign < 0 else '+ '}{_text(item, 5)}" for sign, item in terms]
    if constant:
        parts.append(f"{'-' if constant < 0 else '+'} {abs(constant)}")
    text = " ".join(parts).removeprefix("+ ") or "0"
    return f"({text})" if outer > 4 and len(parts) > 1 else text


def _integer(expr: Expr) -> bool:
    return isinstance(expr.type, Scalar) and expr.type.is_integer


def bare(expr: Expr) -> Expr:
    """Without the conversions around it that keep integers integers."""
    while isinstance(expr, Cast) and _integer(expr) and _integer(expr.operand):
        expr = expr.operand
    return expr


def range_of(expr: Expr) -> tuple[int, int]:
    """Bounds of a size as a mathematical integer when every unknown host integer is at least 1."""
    low, high = bounds(bare(expr), least=1)
    return max(math.floor(low), int(_rounds_up(bare(expr)))), math.ceil(high)


def _rounds_up(expr: Expr) -> bool:
    """Whether it is ``(x + d - 1) / d`` of an ``x`` that is at least 1."""
    if not (isinstance(expr, Binary) and expr.op == "div" and _integer(expr)):
        return False
    terms, constant = _terms(expr.left)
    plain = [(sign, bare(item)) for sign, item in terms]
    if constant < -1 or (1, bare(expr.right)) not in plain:
        return False
    plain.remove((1, bare(expr.right)))
    return len(plain) == 1 and plain[0][0] == 1 and bounds(plain[0][1], least=1)[0] >= 1


def at_most(name: str, expr: Expr, limit: int) -> str:
    """``1 <= expr <= limit`` without what always holds; empty when all of it does."""
    low, high = range_of(expr)
    text = host_text(bare(expr), name)
    if low >= 1:
        return f"{text} <= {limit}" if high > limit else ""
    return f"1 <= {text} <= {limit}" if high > limit else f"{text} >= 1"


def beyond(expr: Expr, limit: int) -> str:
    """``max(n, 2048) is at least 2048`` when a size that is no number exceeds ``limit`` whatever is passed."""
    low, _ = range_of(expr)
    if isinstance(expr, Const) or low <= limit or not understood(expr):
        return ""
    return f"{host_text(bare(expr), 'the size')} is at least {low}"


def product_at_most(names: Sequence[str], exprs: Sequence[Expr], limit: int) -> str:
    """The product of sizes is at most ``limit`` and each is at least 1, without what always holds."""
    if len(exprs) == 1:
        return at_most(names[0], exprs[0], limit)
    ranges = [range_of(expr) for expr in exprs]
    texts = [host_text(bare(expr), name) for name, expr in zip(names, exprs, strict=True)]
    parts = [f"{text} >= 1" for text, (low, _) in zip(texts, ranges, strict=True) if low < 1]
    if math.prod(high for _, high in ranges) > limit:
        factors = [_text(bare(e), 5) if t != n else n for n, e, t in zip(names, exprs, texts, strict=True)]
        parts.insert(0, f"{' * '.join(factors)} <= {limit}")
    return " and ".join(dict.fromkeys(parts))
