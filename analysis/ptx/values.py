"""Operands of instructions as NumPy arrays: how registers are read as a PTX type, and written.

Registers hold raw bits: ``uint16/32/64`` arrays with one element a lane (``bool`` for predicates). A getter returns
an array, or a NumPy scalar for immediates, of the type's dtype; a setter takes either.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.ptx import module
from prelaunch.analysis.ptx.memory import UNSIGNED

if TYPE_CHECKING:
    from prelaunch.analysis.ptx.machine import Frame, Machine

Array = npt.NDArray[Any]
Value = Any  # an array, or a NumPy scalar
Lanes = Any  # slice over all lanes, or an index array
Getter = Callable[["Machine", "Frame", Lanes], Any]
Setter = Callable[["Machine", "Frame", Lanes, Any], None]
Step = Callable[["Machine", "Frame", Lanes], None]


class Unsupported(Exception):
    """An instruction that is not modelled; the message names it."""


DTYPES: dict[str, np.dtype[Any]] = {
    "b8": np.dtype(np.uint8), "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8),
    "b16": np.dtype(np.uint16), "u16": np.dtype(np.uint16), "s16": np.dtype(np.int16),
    "b32": np.dtype(np.uint32), "u32": np.dtype(np.uint32), "s32": np.dtype(np.int32),
    "b64": np.dtype(np.uint64), "u64": np.dtype(np.uint64), "s64": np.dtype(np.int64),
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "bf16": np.dtype(np.uint16), "f16x2": np.dtype(np.uint32), "bf16x2": np.dtype(np.uint32),
    "pred": np.dtype(np.bool_),
}  # fmt: skip
REGISTER_DTYPE: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint16),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


def register_dtype(kind: str) -> np.dtype[Any]:
    """Storage of a declared register type. Raises ``Unsupported`` for 128-bit registers."""
    if kind == "pred":
        return np.dtype(np.bool_)
    size = module.SIZES[kind]
    if size not in REGISTER_DTYPE:
        raise Unsupported(f"registers of type .{kind}")
    return REGISTER_DTYPE[size]


def dtype_of(kind: str) -> np.dtype[Any]:
    try:
        return DTYPES[kind]
    except KeyError:
        raise Unsupported(f"type .{kind}") from None


def scalar(bits: int, kind: str) -> Any:
    """The NumPy scalar whose bits are the low bits of ``bits``."""
    dtype = dtype_of(kind)
    if dtype == np.bool_:
        return np.bool_(bits != 0)
    raw = UNSIGNED[dtype.itemsize].type(bits & ((1 << (8 * dtype.itemsize)) - 1))
    return raw.view(dtype)


def getter(operand: module.Operand, kind: str) -> Getter:
    """Reads ``operand`` as type ``kind``: the low bits when the register is wider, zero bits added when narrower."""
    match operand:
        case module.Reg(index=index, kind=declared):
            return _register(index, declared, kind)
        case module.Not(reg=reg):
            index = reg.index
            return lambda m, f, at: ~f.regs[index][at]
        case module.Imm(value=value):
            constant = _immediate(value, kind)
            return lambda m, f, at: constant
        case module.FloatImm(bits=bits, width=width):
            constant = scalar(_refloat(bits, width, kind), kind)
            return lambda m, f, at: constant
        case module.Special(name=name):
            return _special(name, kind)
        case module.Sym(name=name, offset=offset):
            dtype = dtype_of(kind)
            return lambda m, f, at: m.address_of(f, name, offset, at).astype(dtype)
    raise Unsupported(f"operand {type(operand).__name__.lower()}")


def _immediate(value: int, kind: str) -> Any:
    if kind in ("f16", "f32", "f64"):
        return dtype_of(kind).type(value)
    return scalar(value, kind)


def _register(index: int, declared: str, kind: str) -> Getter:
    stored, dtype = register_dtype(declared), dtype_of(kind)
    if stored == dtype:
        return lambda m, f, at: f.regs[index][at]
    if stored == np.bool_ or dtype == np.bool_:
        return lambda m, f, at: f.regs[index][at].astype(dtype)
    if stored.itemsize == dtype.itemsize:
        return lambda m, f, at: f.regs[index][at].view(dtype)
    raw = UNSIGNED[dtype.itemsize]
    if raw == dtype:
        return lambda m, f, at: f.regs[index][at].astype(raw)
    return lambda m, f, at: f.regs[index][at].astype(raw).view(dtype)


def _special(name: str, kind: str) -> Getter:
    dtype = dtype_of(kind)
    return lambda m, f, at: m.special(name, at).astype(dtype)


def _refloat(bits: int, width: int, kind: str) -> int:
    """Bits of a float literal in the width of ``kind``; integer kinds take the bits as they are."""
    size = module.SIZES[kind]
    if kind[0] != "f" or size * 8 == width:
        return bits
    (value,) = struct.unpack("<d" if width == 64 else "<f", bits.to_bytes(width // 8, "little"))
    code = {2: "e", 4: "f", 8: "d"}[size]
    return int.from_bytes(struct.pack("<" + code, value), "little")


def setter(operand: module.Operand) -> Setter:
    """Writes a register: wider registers take the value sign-extended when its dtype is signed, else zero-extended."""
    match operand:
        case module.Sink():
            return lambda m, f, at, value: None
        case module.Reg(index=index, kind=declared):
            stored = register_dtype(declared)
            if stored == np.bool_:

                def write_predicate(m: Machine, f: Frame, at: Lanes, value: Any) -> None:
                    f.regs[index][at] = value

                return write_predicate

            def write(m: Machine, f: Frame, at: Lanes, value: Any) -> None:
                if value.dtype.kind == "f":
                    value = value.view(UNSIGNED[value.dtype.itemsize])
                f.regs[index][at] = value

            return write
    raise Unsupported(f"destination {type(operand).__name__.lower()}")


def per_lane(value: Any, m: Machine, at: Lanes) -> Array:
    """``value`` with one element for each lane of ``at``."""
    array: Array = np.asarray(value)
    if array.ndim == 0:
        return np.broadcast_to(array, (m.count(at),))
    return array
