"""Operators on values: conversions, arithmetic, comparison, pointer arithmetic, overloaded operators."""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.library import atomics
from prelaunch.analysis.frontends.cuda.lower import addresses, calls, classes, initialise, memory
from prelaunch.analysis.frontends.cuda.lower.context import Context, pointer_to
from prelaunch.analysis.frontends.cuda.passes.constants import binary, cast, offset, truth, unary
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    Array,
    Braces,
    CType,
    Enum,
    Handle,
    Ptr,
    Record,
    Ref,
    Void,
    arithmetic,
    common,
    ir_type,
    leaves,
    promote,
    scalar,
    sizeof,
    spell,
)  # fmt: skip
from prelaunch.analysis.kernel import (
    BF16,
    BOOL,
    COMPARISONS,
    F16,
    I32,
    I64,
    U64,
    BinaryOp,
    Const,
    Expr,
    Scalar,
)  # fmt: skip
from prelaunch.analysis.source import Span

OPS: dict[str, BinaryOp] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor", "<<": "shl",
    ">>": "shr", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "&&": "land", "||": "lor",
    "and": "land", "or": "lor", "bitand": "and", "bitor": "or", "xor": "xor", "not_eq": "ne",
}  # fmt: skip


def convert(ctx: Context, value: Lowered, to: CType, span: Span) -> Val | Mem:
    """Implicit (or explicit) conversion of ``value`` to ``to``; what has no meaning becomes an unknown value."""
    if isinstance(to, Ref):
        to = to.to
    if isinstance(to, Void):
        return Val(to)
    if isinstance(value.type, Braces):
        return memory.load(ctx, initialise.settle(ctx, value.type, to), span)
    if isinstance(to, Array) and isinstance(value.type, Array):
        return value if isinstance(value, Val | Mem) else Val(value.type, value.vars)
    if isinstance(value.type, Array):
        value = memory.decay(ctx, value, span)
    if value.type is to or (value.type == to and not isinstance(to, Ptr)):
        return memory.load(ctx, value, span)
    if scalar(to) and scalar(value.type):
        loaded = memory.load(ctx, value, span)
        assert isinstance(loaded, Val)
        return _scalar(ctx, loaded, to, span)
    if isinstance(value.type, Record) and scalar(to):
        converted = classes.conversion_operator(ctx, value, to, span)
        if converted is not None:
            return convert(ctx, converted, to, span)
    if isinstance(to, Record):
        return classes.to_record(ctx, value, to, span)
    if isinstance(to, Handle) or leaves(to) == ():
        return Val(to) if leaves(to) == () else ctx.unknown(f"conversion to {spell(to)}", span, to)
    return ctx.unknown(f"conversion of {spell(value.type)} to {spell(to)}", span, to)


def _scalar(ctx: Context, value: Val, to: CType, span: Span) -> Val:
    of = ir_type(to)
    expr = value.expr
    if isinstance(to, Ptr):
        assert not isinstance(of, Scalar)
        if isinstance(value.type, Ptr):
            return Val(to, (memory.retype(expr, of),))
        return Val(to, (memory.retype(addresses.pointer(ctx, expr, of), of),))
    if isinstance(value.type, Ptr) and of == BOOL:
        return Val(to, (binary("ne", cast(expr, U64, span), Const(0, U64, span=span), BOOL, span),))
    if isinstance(value.type, Ptr) and of != U64:
        return Val(to, (cast(cast(expr, U64, span), of, span),))
    return Val(to, (cast(expr, of, span),))


def as_scalar(ctx: Context, value: Lowered, span: Span) -> Val:
    """``value`` as an arithmetic or pointer value: arrays decay, classes are converted where they can be."""
    if isinstance(value.type, Array):
        return memory.decay(ctx, value, span)
    loaded = memory.load(ctx, value, span)
    if isinstance(loaded, Val) and scalar(loaded.type) and loaded.exprs:
        return loaded
    if isinstance(loaded.type, Record):
        converted = classes.conversion_operator(ctx, value, None, span)
        if converted is not None and scalar(converted.type):
            result = memory.load(ctx, converted, span)
            assert isinstance(result, Val)
            return result
    return ctx.unknown(f"{spell(loaded.type)} used as a number", span, I32)


def condition(ctx: Context, value: Lowered, span: Span) -> Expr:
    """``value`` converted to bool."""
    plain = as_scalar(ctx, value, span)
    if isinstance(plain.type, Ptr):
        return _scalar(ctx, plain, BOOL, span).expr
    return truth(plain.expr, span)


def apply(ctx: Context, symbol: str, left: Lowered, right: Lowered, span: Span) -> Val | Mem:
    """``left symbol right`` for operands without control flow between them (not ``&&``, ``||``, ``,``)."""
    if isinstance(left.type, Record) or isinstance(right.type, Record):
        overloaded = overloaded_operator(ctx, f"operator{symbol}", left, right, span)
        if overloaded is not None:
            return overloaded
    op = OPS.get(symbol)
    if op is None:
        return ctx.unknown(f"operator {symbol}", span)
    a, b = as_scalar(ctx, left, span), as_scalar(ctx, right, span)
    if isinstance(a.type, Ptr) or isinstance(b.type, Ptr):
        return _pointers(ctx, op, a, b, span)
    return arithmetic_operator(ctx, op, a, b, span)


def arithmetic_operator(ctx: Context, op: BinaryOp, a: Val, b: Val, span: Span) -> Val:
    x, y = arithmetic(a.type), arithmetic(b.type)
    if x is None or y is None:
        return ctx.unknown(f"{op} of {spell(a.type)} and {spell(b.type)}", span)
    if op in ("land", "lor"):
        return Val(BOOL, (binary(op, truth(a.expr, span), truth(b.expr, span), BOOL, span),))
    if op in ("shl", "shr"):
        of, count = promote(x), promote(y)
        if not (of.is_integer and count.is_integer):
            return ctx.unknown(f"{op} of floating-point values", span)
        amount = cast(cast(b.expr, count, span), of, span)
        return Val(of, (binary(op, cast(a.expr, of, span), amount, of, span),))
    of = common(x, y)
    if op in ("and", "or", "xor", "rem") and not of.is_integer:
        return ctx.unknown(f"{op} of floating-point values", span)
    left, right = cast(a.expr, of, span), cast(b.expr, of, span)
    if op in COMPARISONS:
        return Val(BOOL, (binary(op, left, right, BOOL, span),))
    return Val(of, (binary(op, left, right, of, span),))


def _pointers(ctx: Context, op: BinaryOp, a: Val, b: Val, span: Span) -> Val:
    if op in COMPARISONS:
        left, right = cast(a.expr, U64, span), cast(b.expr, U64, span)
        return Val(BOOL, (binary(op, left, right, BOOL, span),))
    if op in ("land", "lor"):
        x, y = _scalar(ctx, a, BOOL, span), _scalar(ctx, b, BOOL, span)
        return Val(BOOL, (binary(op, x.expr, y.expr, BOOL, span),))
    if op == "sub" and isinstance(a.type, Ptr) and isinstance(b.type, Ptr):
        left, right = cast(a.expr, U64, span), cast(b.expr, U64, span)
        apart = cast(binary("sub", left, right, U64, span), I64, span)
        size = max(1, sizeof(a.type.to))
        return Val(I64, (binary("div", apart, Const(size, I64, span=span), I64, span),))
    if op == "add" and isinstance(b.type, Ptr) and not isinstance(a.type, Ptr):
        a, b = b, a
    if op in ("add", "sub") and isinstance(a.type, Ptr) and arithmetic(b.type) is not None:
        return advance(a, b, op == "sub", span)
    return ctx.unknown(f"{op} of pointers", span)


def advance(pointer: Val, count: Val, back: bool, span: Span) -> Val:
    """``pointer + count`` or ``pointer - count``, counted in elements."""
    kind = pointer.type
    assert isinstance(kind, Ptr)
    size = 1 if isinstance(kind.to, Void) else sizeof(kind.to)
    steps = cast(count.expr, I64, span)
    if back:
        steps = unary("neg", steps, I64, span)
    return Val(kind, (offset(pointer.expr, steps, size, pointer_to(kind.to), span),))


def overloaded_operator(ctx: Context, name: str, left: Lowered, right: Lowered | None, span: Span) -> Val | Mem | None:
    """A member or free operator function applied; element-wise arithmetic of ``half2``; None when there is none."""
    if isinstance(left.type, Record) and atomics.is_atomic(left.type):
        found = atomics.method(ctx, left, name, [] if right is None else [right], span)
        return memory_or_value(found) if found is not None else None
    if isinstance(left.type, Record):
        members = calls.call_method(ctx, left, name, [] if right is None else [right], (), span, quiet=True)
        if members is not None:
            return memory_or_value(members)
    args = [left] if right is None else [left, right]
    found = calls.call_free(ctx, name, "", args, (), span, quiet=True)
    if found is not None:
        return memory_or_value(found)
    return _pairwise(ctx, name, left, right, span)


def memory_or_value(found: Lowered) -> Val | Mem:
    return found if isinstance(found, Val | Mem) else Val(found.type, found.vars)


def _pairwise(ctx: Context, name: str, left: Lowered, right: Lowered | None, span: Span) -> Val | None:
    """Operators of ``__half2`` and ``__nv_bfloat162`` [cuda_fp16.h]."""
    kind = left.type
    if not isinstance(kind, Record) or not kind.vector or kind.fields[0].type not in (F16, BF16):
        return None
    of = kind.fields[0].type
    assert isinstance(of, Scalar)
    a = memory.load(ctx, left, span)
    symbol = name.removeprefix("operator")
    if not isinstance(a, Val):
        return None
    if right is None:
        return Val(kind, tuple(unary("neg", e, of, span) for e in a.exprs)) if symbol == "-" else None
    op = OPS.get(symbol.removesuffix("=") if symbol in ("+=", "-=", "*=", "/=") else symbol)
    b = memory.load(ctx, right, span)
    if op not in ("add", "sub", "mul", "div") or right.type is not kind or not isinstance(b, Val):
        return None
    return Val(kind, tuple(binary(op, x, y, of, span) for x, y in zip(a.exprs, b.exprs, strict=True)))


def negate(ctx: Context, symbol: str, operand: Lowered, span: Span) -> Val | Mem:
    """Unary ``-``, ``+``, ``~``, ``!``."""
    if isinstance(operand.type, Record):
        found = overloaded_operator(ctx, f"operator{symbol}", operand, None, span)
        if found is not None:
            return found
    if symbol in ("!", "not"):
        return Val(BOOL, (unary("lnot", condition(ctx, operand, span), BOOL, span),))
    value = as_scalar(ctx, operand, span)
    of = arithmetic(value.type)
    if of is None:
        return value if symbol == "+" else ctx.unknown(f"unary {symbol} of {spell(value.type)}", span)
    of = promote(of)
    expr = cast(value.expr, of, span)
    if symbol == "+":
        return Val(of, (expr,))
    if symbol == "-":
        return Val(of, (unary("neg", expr, of, span),))
    if symbol in ("~", "compl") and of.is_integer:
        return Val(of, (unary("not", expr, of, span),))
    return ctx.unknown(f"unary {symbol} of {spell(value.type)}", span)


def common_type(ctx: Context, a: CType, b: CType) -> CType:
    """The type of ``c ? a : b``."""
    if isinstance(a, Array):
        a = Ptr(a.of)
    if isinstance(b, Array):
        b = Ptr(b.of)
    if a == b:
        return a
    x, y = arithmetic(a), arithmetic(b)
    if x is not None and y is not None:
        if isinstance(a, Enum) and isinstance(b, Enum) and a.name == b.name:
            return a
        return common(x, y)
    if isinstance(a, Ptr) and isinstance(b, Ptr):
        return b if isinstance(a.to, Void) else a
    if isinstance(a, Ptr) or isinstance(b, Ptr):
        return a if isinstance(a, Ptr) else b
    if isinstance(a, Record) or isinstance(b, Void):
        return a
    return b
