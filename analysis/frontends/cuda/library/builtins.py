"""CUDA's own functions, by the rows of the intrinsics table.

The row says what a function is; here operands are converted to the operand types of the overload that fits best and
the IR node is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast as typed

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.library import accesses, stdlib
from prelaunch.analysis.frontends.cuda.lower import expressions, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.passes.constants import binary, cast, unary
from prelaunch.analysis.frontends.cuda.semantics import overloads
from prelaunch.analysis.frontends.cuda.semantics.builtin_types import VECTORS
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Val
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    Array,
    CType,
    Ptr,
    Record,
    TemplateArgument,
    arithmetic,
    scalar,
)
from prelaunch.analysis.intrinsics import Operand, Row, Signature, lookup
from prelaunch.analysis.kernel import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I32,
    U32,
    U64,
    Assume,
    Barrier,
    BinaryOp,
    Bitcast,
    Collective,
    Const,
    Exit,
    Expr,
    Fence,
    Intrinsic,
    Pure,
    Scalar,
    Scope,
    Special,
    Var,
)  # fmt: skip
from prelaunch.analysis.source import Span

_QUALIFIERS = ("std", "cuda", "cuda::std", "", "::", "nvcuda", "nvcuda::wmma", "wmma", "thrust")
_MAKE = tuple(f"make_{name}" for name in VECTORS)
_OPERATIONS: dict[str, BinaryOp] = {"add": "add", "sub": "sub", "mul": "mul", "div": "div"}
_COMPARISONS: dict[str, BinaryOp] = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip


def row_of(name: str, qualifier: str) -> Row | None:
    if qualifier not in _QUALIFIERS:
        return None
    return lookup(f"{qualifier}::{name}") if qualifier and lookup(f"{qualifier}::{name}") is not None else lookup(name)


def knows(name: str, qualifier: str) -> bool:
    """Whether ``qualifier::name`` is one of CUDA's own functions."""
    if qualifier not in _QUALIFIERS:
        return False
    return row_of(name, qualifier) is not None or name in _MAKE or name in stdlib.FUNCTIONS


def reserved(name: str) -> bool:
    """Names a project's own function never replaces."""
    return name.startswith(("__", "atomic"))


def unevaluated(ctx: Context, name: str, listed: Node, span: Span) -> Lowered | None:
    """Functions whose argument is a condition: ``assert`` and the assumptions."""
    row = lookup(name)
    if row is None or row.kind != "assume":
        return None
    if row.function == "unreachable":
        ctx.emit(Assume(Const(0, BOOL, span=span), "unreachable", span=span))
        return Val(VOID)
    nodes = [c for c in listed.named_children if c.type != "comment"]
    if nodes:
        cond = expressions.condition(ctx, nodes[0])
        ctx.emit(Assume(cond, row.function, span=span))
    return Val(VOID)


def call(
    ctx: Context, name: str, qualifier: str, args: list[Lowered], targs: tuple[TemplateArgument, ...], span: Span
) -> Lowered:
    """A call of one of CUDA's functions with lowered arguments."""
    if name in _MAKE:
        return _make_vector(ctx, name, args, span)
    extra = stdlib.FUNCTIONS.get(name)
    if extra is not None:
        return extra(ctx, args, targs, span)
    row = row_of(name, qualifier)
    assert row is not None
    handler = _KINDS.get(row.kind)
    if handler is None:
        return ctx.unknown(f"{name} not modelled", span, touches=("value", "memory"))
    if row.kind in accesses.KINDS:
        return accesses.lower_access(ctx, row, args, targs, span)
    signature = choose(row, args)
    if signature is None:
        return ctx.unknown(f"{name}: arguments do not fit", span, touches=("value", "memory"))
    return handler(ctx, row, signature, args, span)


def _make_vector(ctx: Context, name: str, args: list[Lowered], span: Span) -> Lowered:
    from prelaunch.analysis.frontends.cuda.lower import classes

    return classes.from_values(ctx, VECTORS[name.removeprefix("make_")], args, span)


# --- overloads -------------------------------------------------------------------------------------------------------


def choose(row: Row, args: list[Lowered]) -> Signature | None:
    """The signature with the smallest conversion cost, the first of equals."""
    best: tuple[float, Signature] | None = None
    for signature in row.signatures:
        if not signature.accepts(len(args)):
            continue
        cost = 0.0
        for operand, value in zip(signature.operands, args, strict=False):
            single = _cost(operand, value.type, row.lanes)
            if single is None:
                break
            cost += single
        else:
            if best is None or cost < best[0]:
                best = (cost, signature)
    return best[1] if best is not None else None


def _cost(operand: Operand, have: CType, lanes: int) -> float | None:
    if operand.pointer:
        if isinstance(have, Array):
            have = Ptr(have.of)
        if not isinstance(have, Ptr):
            return 6 if scalar(have) else None
        if operand.element is None:
            return 0
        of = arithmetic(have.to)
        if of == operand.element:
            return 0
        return 2 if of is not None and of.size == operand.element.size and of.is_integer else 5
    if operand.element is None:
        return 0
    if operand.count == 2 or lanes == 2:
        pair = isinstance(have, Record) and have.vector and len(have.fields) == 2
        if isinstance(have, Record) and pair:
            return 0 if have.fields[0].type == operand.element else 5
        return 3 if lanes == 2 and scalar(have) else (2 if scalar(have) else None)
    if isinstance(have, Record):
        return 4 if any(n.startswith("operator") for n in have.methods) else None
    return overloads.conversion_cost(have, operand.element)


def operand_values(ctx: Context, signature: Signature, args: list[Lowered], span: Span) -> list[Expr]:
    """Scalar operands in the signature's types, defaults filled in; variadic ones as they are, promoted."""
    exprs: list[Expr] = []
    for operand, value in zip(signature.operands, args, strict=False):
        if operand.pointer or operand.element is None:
            exprs.append(operators.as_scalar(ctx, value, span).expr)
        else:
            exprs.append(cast(operators.as_scalar(ctx, value, span).expr, operand.element, span))
    for value in args[len(signature.operands) :]:
        exprs.append(operators.as_scalar(ctx, value, span).expr)
    for operand in signature.operands[len(args) :]:
        if operand.element is not None and operand.default is not None:
            exprs.append(Const(operand.default, operand.element, span=span))
    return exprs


# --- kinds -----------------------------------------------------------------------------------------------------------

Handler = Callable[[Context, Row, Signature, list[Lowered], Span], Lowered]


def apply_pure(function: str, args: tuple[Expr, ...], of: Scalar, span: Span) -> Expr:
    """A pure function of the table; plain arithmetic becomes the operator itself."""
    if function in _OPERATIONS and len(args) == 2:
        return binary(_OPERATIONS[function], args[0], args[1], of, span)
    if function in _COMPARISONS and len(args) == 2:
        return cast(binary(_COMPARISONS[function], args[0], args[1], BOOL, span), of, span)
    if function == "neg" and len(args) == 1:
        return unary("neg", args[0], of, span)
    if function == "cvt_rn" and isinstance(args[0].type, Scalar) and not of.is_integer:
        return cast(args[0], of, span)  # C's own conversion rounds to nearest
    if function in ("min", "max") and all(isinstance(a, Const) for a in args) and of.is_integer:
        numbers = [a.value for a in args if isinstance(a, Const)]
        return Const(min(numbers) if function == "min" else max(numbers), of, span=span)
    return Pure(function, args, of, span=span)


def _pure(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    if row.lanes == 2 or signature.result.count == 2:
        return _pairs(ctx, row, signature, args, span)
    of = signature.result.element or F32
    exprs = tuple(operand_values(ctx, signature, args, span))
    return Val(of, (apply_pure(signature.function, exprs, of, span),))


def _pairs(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    """Element by element on 2-vectors; a scalar operand serves both lanes."""
    columns: list[tuple[Expr, Expr]] = []
    for operand, value in zip(signature.operands, args, strict=False):
        loaded = memory.load(ctx, value, span)
        if not isinstance(loaded, Val) or not loaded.exprs:
            return ctx.unknown(f"{row.name}: operand not understood", span)
        of = operand.element or F16
        low, high = loaded.exprs[0], loaded.exprs[-1]
        columns.append((cast(low, of, span), cast(high, of, span)))
    result = signature.result.element or F16
    low = apply_pure(signature.function, tuple(c[0] for c in columns), result, span)
    high = apply_pure(signature.function, tuple(c[1] for c in columns), result, span)
    if signature.result.name == "bool" or (result.is_integer and signature.result.count == 1):
        return Val(
            result,
            (binary("and", low, high, result, span) if result != BOOL else binary("land", low, high, BOOL, span),),
        )
    return Val(pair_type(result), (low, high))


def pair_type(of: Scalar) -> Record:
    return VECTORS[{F16: "half2", BF16: "nv_bfloat162", F32: "float2", F64: "double2"}.get(of, "int2")]


def _outputs(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    """``sincos`` and kin: pure functions of the values, stored through the pointers."""
    values: list[Expr] = []
    targets: list[tuple[Val, Scalar]] = []
    for operand, arg in zip(signature.operands, args, strict=False):
        if operand.pointer:
            targets.append((operators.as_scalar(ctx, arg, span), operand.element or F32))
        else:
            values.append(cast(operators.as_scalar(ctx, arg, span).expr, operand.element or F32, span))
    given = tuple(values)
    if any(not isinstance(v, Const) for v in given):
        given = tuple(v if isinstance(v, Var | Const) else ctx.temporary(v, span) for v in given)
    result: Lowered = Val(VOID)
    of = signature.result.element
    if signature.function and of is not None:
        result = Val(of, (ctx.temporary(apply_pure(signature.function, given, of, span), span),))
    for function, (pointer, element) in zip(row.outputs, targets, strict=False):
        place = memory.dereference(ctx, pointer, span)
        value = Val(element, (apply_pure(function, given, element, span),))
        memory.store(ctx, place, operators.convert(ctx, value, place.type, span), span)
    return result


def _bitcast(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    of = signature.result.element or U32
    (expr,) = operand_values(ctx, signature, args, span)[:1]
    return Val(of, (expr if expr.type == of else Bitcast(expr, of, span=span),))


def _identity(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    return args[0]


_LANES: dict[str, tuple[int, ...]] = {
    "combine": (0, -1), "splat": (0, 0), "low": (0,), "high": (-1,), "convert": (), "swap": (-1, 0),
    "low_splat": (0, 0), "high_splat": (-1, -1),
}  # fmt: skip
"""Which of the operands' elements make the result; all of them for "convert"."""


def _vector(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    """combine, splat, low, high, convert, swap of a 2-vector."""
    parts: list[Expr] = []
    kinds: list[CType] = []
    for value in args:
        loaded = memory.load(ctx, value, span)
        if not isinstance(loaded, Val) or not loaded.exprs:
            return ctx.unknown(f"{row.name}: operand not understood", span)
        parts.extend(loaded.exprs)
        kinds.append(loaded.type)
    of = signature.result.element or F16
    chosen = _LANES.get(signature.function)
    if chosen is None:
        return ctx.unknown(f"{row.name} not modelled", span)
    made = [parts[i] for i in chosen] if chosen else parts
    exprs = tuple(cast(e, of, span) for e in made)
    return Val(pair_type(of), exprs) if len(exprs) == 2 else Val(of, exprs)


def _collective(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    pointers = [a for o, a in zip(signature.operands, args, strict=False) if o.pointer]
    plain = [a for o, a in zip(signature.operands, args, strict=False) if not o.pointer]
    kept = tuple(o for o in signature.operands if not o.pointer)
    exprs = operand_values(ctx, Signature(signature.result, kept, signature.function), plain, span)
    mask = exprs.pop(0) if row.mask == "first" else None
    width = exprs.pop() if signature.function.startswith("shfl") and len(exprs) == 3 else None
    result = ctx.var(signature.result.element or U32, "", span)
    found: tuple[Var, ...] = (result,)
    if pointers:
        found = (result, ctx.var(BOOL, "", span))
    ctx.emit(Collective(found, signature.function, mask, tuple(exprs), width, span=span))
    if pointers:
        place = memory.dereference(ctx, operators.as_scalar(ctx, pointers[0], span), span)
        memory.store(ctx, place, operators.convert(ctx, Val(BOOL, (found[1],)), place.type, span), span)
    return Val(result.type if isinstance(result.type, Scalar) else U32, (result,))


def _barrier(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    exprs = operand_values(ctx, signature, args, span)
    zero = Const(0, U32, span=span)
    if row.scope == "warp":
        ctx.emit(Barrier("warp", mask=exprs[0] if exprs else None, span=span))
        return Val(VOID)
    if row.reduce:
        result = ctx.var(I32, "", span)
        pred = binary("ne", exprs[-1], Const(0, I32, span=span), BOOL, span)
        reduce = typed("object", row.reduce)
        ctx.emit(
            Barrier("block", id=zero, reduce=reduce, pred=pred, var=result, span=span)  # type: ignore[arg-type]  # the table holds the IR's words
        )
        return Val(I32, (result,))
    action = row.function if row.function in ("sync", "arrive", "wait") else "sync"
    scope = row.scope if row.scope in ("block", "cluster", "grid") else "block"
    ident = exprs[0] if exprs else (zero if scope == "block" else None)
    count = exprs[1] if len(exprs) > 1 else None
    ctx.emit(Barrier(scope, None, ident, count, action, span=span))  # type: ignore[arg-type]  # both are checked words
    return Val(VOID)


def _fence(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    order = "seq_cst" if row.order in ("weak", "argument") else row.order
    ctx.emit(Fence(typed(Scope, row.scope), order, span=span))  # type: ignore[arg-type]  # the table holds the IR's words
    return Val(VOID)


def _special(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    of = signature.result.element or U32
    made = ctx.temporary(Special(row.function, of, span=span), span)
    return Val(of, (made,))


def _effect(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    exprs: list[Expr] = []
    for value in args:
        loaded = memory.decay(ctx, value, span) if isinstance(value.type, Array) else memory.load(ctx, value, span)
        exprs.extend(loaded.exprs if isinstance(loaded, Val) else ())
    of = signature.result.element
    found = (ctx.var(of, "", span),) if of is not None else ()
    ctx.emit(Intrinsic(row.function, tuple(exprs), found, span=span))
    return Val(of, found) if of is not None else Val(VOID)


def _trap(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    ctx.emit(Exit(True, span=span))
    return Val(VOID)


def _query(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    """Address spaces: conversions of addresses keep the address, so that what it points to stays known."""
    of = signature.result.element or U64
    if args and "cvta" in row.name:
        pointer = operators.as_scalar(ctx, args[0], span)
        if signature.result.pointer:
            return Val(Ptr(VOID), (pointer.expr,))
        return Val(of, (cast(cast(pointer.expr, U64, span), of, span),))
    return ctx.unknown(f"{row.name} not modelled", span, of)


def _allocate(ctx: Context, row: Row, signature: Signature, args: list[Lowered], span: Span) -> Lowered:
    for value in args:
        memory.load(ctx, value, span)
    if row.function == "free":
        return ctx.unknown("free on the device", span, VOID, touches=("value",))
    return ctx.unknown("malloc on the device", span, Ptr(VOID), touches=("value",))


_KINDS: dict[str, Handler] = {
    "pure": _pure, "outputs": _outputs, "bitcast": _bitcast, "identity": _identity, "vector": _vector,
    "collective": _collective, "barrier": _barrier, "fence": _fence, "special": _special, "effect": _effect,
    "trap": _trap, "query": _query, "allocate": _allocate, "atomic": _identity, "load": _identity, "store": _identity,
    "async": _identity, "copy": _identity,
}  # fmt: skip
