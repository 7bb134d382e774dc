"""IR expressions compiled to functions ``f(machine, lanes) -> array over the lanes, or one NumPy scalar for all``.

Arithmetic is C's: unsigned wraps, signed is two's complement, division truncates, shifts by the width or more give 0
or the sign, float to integer saturates (PTX ISA, cvt), floats are computed in their own type, nothing is contracted
into a fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from prelaunch.analysis.interpreter.lanes import Lanes, count, index, split
from prelaunch.analysis.intrinsics.evaluate import EVALUATORS, dtype, evaluate
from prelaunch.analysis.intrinsics.floats import round_bfloat, saturate_to_integer
from prelaunch.analysis.kernel import (
    Address,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    Pointer,
    PtrAdd,
    PtrOffset,
    Pure,
    Scalar,
    Select,
    Special,
    Type,
    Unary,
    Var,
)
from prelaunch.analysis.source import Span
from prelaunch.analysis.walk import postorder, subexpressions, walk_expr

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.machine import Machine

Value = Any
Code = Callable[["Machine", Lanes], Value]

DEEPEST = 60
"""Deeper expressions are evaluated in pieces, so that nesting never becomes Python recursion."""


class ExpressionCompiler:
    """Compiles expressions of one kernel; ``registers`` grows as variables are met."""

    def __init__(self, objects: tuple[str, ...]) -> None:
        self.objects = {id: i for i, id in enumerate(objects)}
        self.registers: dict[int, int] = {}
        self.types: list[Type] = []
        self.names: list[str] = []
        self.temporaries = 0

    def register(self, var: Var) -> int:
        known = self.registers.get(var.id)
        if known is None:
            known = self.registers[var.id] = len(self.types)
            self.types.append(var.type)
            self.names.append(var.name)
        return known

    def compile(self, expr: Expr) -> Code:
        """Iterative: operands first. Depth beyond ``DEEPEST`` goes through temporaries computed up front."""
        codes: dict[int, Code] = {}
        depths: dict[int, int] = {}
        before: list[tuple[int, Code]] = []
        for node in postorder(expr):
            below = [codes[id(e)] for e in subexpressions(node)]
            depth = 1 + max((depths[id(e)] for e in subexpressions(node)), default=0)
            code = self._node(node, below)
            if depth > DEEPEST:
                slot = self.temporaries
                self.temporaries += 1
                before.append((slot, code))
                code, depth = _temporary(slot), 1
            codes[id(node)] = code
            depths[id(node)] = depth
        last = codes[id(expr)]
        return _in_pieces(tuple(before), last) if before else last

    def _node(self, node: Expr, below: list[Code]) -> Code:
        match node:
            case Const(value=value, type=type):
                return _constant(constant(value, type))
            case Var():
                return _read(self.register(node))
            case Special(name=name, type=type):
                return _special(name, dtype(type))
            case Address(object=object):
                return _address(self.objects[object])
            case Unary(op=op, type=type):
                return _unary(op, type, below[0])
            case Binary():
                return _binary(node, below[0], below[1])
            case Cast(operand=operand, type=type):
                return _cast(operand.type, type, below[0])
            case Bitcast(operand=operand, type=type):
                return _bitcast(operand.type, type, below[0])
            case Select():
                return _select(node, *below)
            case PtrAdd():
                return _ptr_add(below[0], below[1])
            case Pure(name=name, type=type):
                return _pure(name, type, below, node.span)
            case PtrOffset():
                raise ValueError("PtrOffset outside Case.offset")


def constant(value: float, type: Type) -> Value:
    """A register value; integers wrap into their type."""
    kind = dtype(type)
    if kind.kind == "b":
        return np.bool_(value)
    if kind.kind in "iu":
        bits = kind.itemsize * 8
        wrapped = int(value) & ((1 << bits) - 1)
        return kind.type(wrapped - (1 << bits) if kind.kind == "i" and wrapped >> (bits - 1) else wrapped)
    with np.errstate(over="ignore"):
        single = kind.type(value)
    return round_bfloat(single)[()] if isinstance(type, Scalar) and type.kind == "bfloat" else single


def as_array(value: Value, lanes: Lanes) -> Value:
    """One value per lane."""
    return np.full(count(lanes), value) if np.ndim(value) == 0 else value


def _constant(value: Value) -> Code:
    return lambda m, lanes: value


def _read(register: int) -> Code:
    return lambda m, lanes: m.registers[register][lanes]


def _temporary(slot: int) -> Code:
    return lambda m, lanes: m.temporaries[slot]


def _in_pieces(before: tuple[tuple[int, Code], ...], last: Code) -> Code:
    def run(m: Machine, lanes: Lanes) -> Value:
        for slot, code in before:
            m.temporaries[slot] = code(m, lanes)
        return last(m, lanes)

    return run


def _special(name: str, kind: np.dtype[Any]) -> Code:
    def run(m: Machine, lanes: Lanes) -> Value:
        value = m.special(name)
        return value[lanes].astype(kind, copy=False) if np.ndim(value) else kind.type(value)

    return run


def _address(object: int) -> Code:
    def run(m: Machine, lanes: Lanes) -> Value:
        region = m.regions[object]
        return (
            region.base + m.thread[lanes].astype(np.uint64) * np.uint64(region.stride) if region.stride else region.base
        )

    return run


def _rounded(type: Type, code: Code) -> Code:
    if isinstance(type, Scalar) and type.kind == "bfloat":
        return lambda m, lanes: round_bfloat(code(m, lanes))[()]
    return code


def _unary(op: str, type: Scalar, a: Code) -> Code:
    if op == "neg":
        return lambda m, lanes: np.negative(a(m, lanes))
    if op == "not":
        return lambda m, lanes: np.invert(a(m, lanes))
    return lambda m, lanes: a(m, lanes) == 0


_PLAIN: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "land": np.logical_and, "lor": np.logical_or,
}  # fmt: skip


def _binary(node: Binary, a: Code, b: Code) -> Code:
    op = node.op
    if op in ("shl", "shr"):
        return _shift(node, a, b)
    if op in ("land", "lor"):
        return _logical(node, a, b)
    left, right = node.left.type, node.right.type
    if dtype(left) != dtype(right):
        b = _cast(right, left, b)
    if op in ("div", "rem"):
        return _division(node, a, b)
    function = _PLAIN[op]
    return _rounded(node.type, lambda m, lanes: function(a(m, lanes), b(m, lanes)))


def _shift(node: Binary, a: Code, b: Code) -> Code:
    """The amount is unsigned and clamped to the width (PTX ISA, shl and shr)."""
    kind = dtype(node.left.type)
    width = kind.itemsize * 8
    function = np.left_shift if node.op == "shl" else np.right_shift
    amount_kind = dtype(node.right.type)
    if isinstance(node.right, Const) and 0 <= node.right.value < width:
        amount = kind.type(node.right.value)
        return lambda m, lanes: function(a(m, lanes), amount)
    unsigned = np.dtype(f"u{amount_kind.itemsize}") if amount_kind.kind in "iu" else np.dtype(np.uint8)
    limit = unsigned.type(min(width, 255))

    def run(m: Machine, lanes: Lanes) -> Value:
        amount = np.minimum(b(m, lanes).astype(unsigned), limit)
        value = a(m, lanes)
        shifted = function(value, np.minimum(amount, unsigned.type(width - 1)).astype(kind))
        if node.op == "shr" and kind.kind == "i":
            return shifted
        return np.where(amount >= width, kind.type(0), shifted)

    return run


def _division(node: Binary, a: Code, b: Code) -> Code:
    kind = dtype(node.left.type)
    if kind.kind == "f":
        function = np.divide if node.op == "div" else np.fmod
        return _rounded(node.type, lambda m, lanes: function(a(m, lanes), b(m, lanes)))
    safe = isinstance(node.right, Const) and node.right.value != 0
    quotient = node.op == "div"

    def run(m: Machine, lanes: Lanes) -> Value:
        x, y = a(m, lanes), b(m, lanes)
        if not safe and not np.all(y):
            zero = np.broadcast_to(y == 0, (count(lanes),))
            m.problem("division-by-zero", "integer division by zero", index(lanes)[zero], node.span, id(node))
        rest = np.fmod(x, y)
        if not quotient:
            return rest
        return (x - rest) // y if kind.kind == "i" else x // y

    return run


def may_fail(expr: Expr) -> bool:
    """Whether evaluating it for lanes that do not need it could report a problem."""
    return any(isinstance(e, Binary) and e.op in ("div", "rem") and e.type.is_integer for e in walk_expr(expr))


def _only(code: Code, m: Machine, lanes: Lanes, wanted: Any, kind: np.dtype[Any]) -> Value:
    """``code`` for the lanes wanted, zeros elsewhere."""
    size = count(lanes)
    mask = np.broadcast_to(wanted, (size,))
    result = np.zeros(size, kind)
    some, _ = split(lanes, mask)
    if some is not None:
        result[mask] = code(m, some)
    return result


def _logical(node: Binary, a: Code, b: Code) -> Code:
    is_and = node.op == "land"
    function = _PLAIN[node.op]
    if not may_fail(node.right):
        return lambda m, lanes: function(a(m, lanes), b(m, lanes))

    def run(m: Machine, lanes: Lanes) -> Value:
        left = a(m, lanes) != 0
        right = _only(b, m, lanes, left if is_and else np.logical_not(left), np.dtype(bool))
        return function(left, right)

    return run


def _select(node: Select, c: Code, a: Code, b: Code) -> Code:
    kind = dtype(node.type)
    if dtype(node.then.type) != kind:
        a = _cast(node.then.type, node.type, a)
    if dtype(node.orelse.type) != kind:
        b = _cast(node.orelse.type, node.type, b)
    if may_fail(node.then) or may_fail(node.orelse):

        def guarded(m: Machine, lanes: Lanes) -> Value:
            cond = c(m, lanes) != 0
            then = _only(a, m, lanes, cond, kind)
            return np.where(cond, then, _only(b, m, lanes, np.logical_not(cond), kind))

        return guarded

    def run(m: Machine, lanes: Lanes) -> Value:
        cond = c(m, lanes)
        if np.ndim(cond) == 0:
            return a(m, lanes) if cond else b(m, lanes)
        return np.where(cond != 0 if cond.dtype != np.bool_ else cond, a(m, lanes), b(m, lanes))

    return run


def cast_value(value: Value, source: Type, target: Type) -> Value:
    """C's conversion of register values."""
    kind = dtype(target)
    value_kind = dtype(source)
    if kind.kind == "b":
        return value != 0
    if kind.kind in "iu" and value_kind.kind == "f":
        return saturate_to_integer(np.trunc(np.asarray(value).astype(np.float64)), kind)[()]
    if isinstance(target, Scalar) and target.kind == "bfloat":
        wide = value if value_kind.kind == "f" else value.astype(np.float64)
        return round_bfloat(wide)[()]
    return value.astype(kind, copy=False)


def _cast(source: Type, target: Type, a: Code) -> Code:
    if source == target or (isinstance(source, Pointer) and isinstance(target, Pointer)):
        return a
    return lambda m, lanes: cast_value(a(m, lanes), source, target)


def _bitcast(source: Type, target: Scalar, a: Code) -> Code:
    kind = dtype(target)
    if isinstance(source, Scalar) and source.kind == "bfloat" and target.kind != "bfloat":
        narrow = np.dtype(np.uint16)
        return lambda m, lanes: (np.asarray(a(m, lanes)).view(np.uint32) >> np.uint32(16)).astype(narrow).view(kind)[()]
    if target.kind == "bfloat" and not (isinstance(source, Scalar) and source.kind == "bfloat"):
        return lambda m, lanes: (np.asarray(a(m, lanes)).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(
            np.float32
        )[()]
    return lambda m, lanes: a(m, lanes).view(kind)


def _ptr_add(pointer: Code, offset: Code) -> Code:
    def run(m: Machine, lanes: Lanes) -> Value:
        bytes_ = offset(m, lanes)
        wide = bytes_ if bytes_.dtype.itemsize == 8 else bytes_.astype(np.int64)
        return pointer(m, lanes) + wide.view(np.uint64)

    return run


def _pure(name: str, type: Scalar, below: list[Code], span: Span) -> Code:
    if name not in EVALUATORS:
        return lambda m, lanes: _unmodelled(m, lanes, name, type, span)
    return lambda m, lanes: evaluate(name, type, *(code(m, lanes) for code in below))[()]


def _unmodelled(m: Machine, lanes: Lanes, name: str, type: Scalar, span: Span) -> Value:
    m.problem("opaque", f"function {name} is not modelled", index(lanes), span)
    return m.unknown(lanes, type, span, 0)
