"""PTX instructions of inline assembly, as far as kernels write them by hand [PTX ISA 8]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prelaunch.analysis.frontends.cuda.asm import ptx_memory
from prelaunch.analysis.frontends.cuda.asm.ptx_types import TYPES, last_type, vector
from prelaunch.analysis.frontends.cuda.passes.constants import binary, cast, select, unary
from prelaunch.analysis.kernel import (
    BOOL,
    I32,
    U32,
    U64,
    BinaryOp,
    Const,
    Expr,
    Intrinsic,
    Pure,
    Scalar,
)  # fmt: skip

if TYPE_CHECKING:
    from prelaunch.analysis.frontends.cuda.asm.inline_asm import Program

_BINARY: dict[str, BinaryOp] = {
    "add": "add", "sub": "sub", "div": "div", "rem": "rem", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_COMPARE: dict[str, BinaryOp] = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "lt", "ls": "le", "hi": "gt",
    "hs": "ge", "equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge",
}  # fmt: skip
_FUNCTIONS = {
    "sqrt": "sqrt", "rsqrt": "rsqrt", "rcp": "rcp", "ex2": "exp2", "lg2": "log2", "sin": "sin", "cos": "cos",
    "tanh": "tanh", "abs": "abs", "popc": "popc", "clz": "clz", "brev": "brev",
}  # fmt: skip
_NOTHING = frozenset(
    {"prefetch", "prefetchu", "nanosleep", "applypriority", "discard", "griddepcontrol", "pmevent", "setmaxnreg"}
)


_REGISTERS = frozenset({
    "abs", "activemask", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos",
    "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "getctarank", "isspacep", "lg2", "lop3", "mad", "mad24",
    "madc", "mapa", "max", "min", "mma", "mov", "movmatrix", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp",
    "rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "subc", "szext",
    "tanh", "testp", "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2", "vavrg4", "vmad", "vmax",
    "vmax2", "vmax4", "vmin", "vmin2", "vmin4", "vset", "vset2", "vset4", "vshl", "vshr", "vsub", "vsub2", "vsub4",
    "xor",
})  # fmt: skip
"""Instructions that only turn registers into registers [PTX ISA 8, 9.7.1-9.7.8, 9.7.15]; any other may do anything."""


def instruction(program: Program, parts: list[str], args: list[str]) -> None:
    """Lower one instruction: ``parts`` are the dotted words of its name."""
    name = parts[0]
    handler = _HANDLERS.get(name)
    if handler is not None and handler(program, parts, args):
        return
    if name in _NOTHING:
        operands = tuple(program.address(a)[0] for a in args[:1] if a.startswith("["))
        program.ctx.emit(Intrinsic(name, operands, span=program.span))
        return
    unknown(program, parts, args)


def unknown(program: Program, parts: list[str], args: list[str]) -> None:
    """An instruction not modelled: its first operand gets an unknown value; it may do more unless known not to."""
    of = last_type(parts) or U32
    targets = [t for t in (program.target(a, of) for a in vector(args[0])) if t is not None] if args else []
    reason = f"PTX {'.'.join(parts)} not modelled"
    pure = parts[0] in _REGISTERS and not any("[" in a for a in args)
    program.ctx.opaque(reason, program.span, ("value",) if pure else ("value", "memory", "control"), tuple(targets))


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _move(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts) or U32
    if len(args) != 2:
        return False
    into, out = vector(args[0]), vector(args[1])
    if len(into) == len(out):
        for target, source in zip(into, out, strict=True):
            program.write(target, program.raw(source, of))
        return True
    part = Scalar("uint", of.bits // max(len(into), len(out)))
    if len(out) > 1:
        joined: Expr = Const(0, of, span=program.span)
        for index, source in enumerate(out):
            piece = cast(program.read(source, part), of, program.span)
            moved = binary("shl", piece, Const(index * part.bits, of, span=program.span), of, program.span)
            joined = binary("or", joined, moved, of, program.span)
        program.write(into[0], joined)
        return True
    whole = program.read(out[0], of)
    for index, target in enumerate(into):
        moved = binary("shr", whole, Const(index * part.bits, of, span=program.span), of, program.span)
        program.write(target, cast(moved, part, program.span))
    return True


def _arithmetic(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    if of is None or len(args) != 3 or "f16x2" in parts or "bf16x2" in parts or "cc" in parts:
        return False
    a, b = program.read(args[1], of), program.read(args[2], of)
    if parts[0] in ("min", "max"):
        name = parts[0] if of.is_integer else f"f{parts[0]}"
        program.write(args[0], Pure(name, (a, b), of, span=program.span))
        return True
    program.write(args[0], binary(_BINARY[parts[0]], a, b, of, program.span))
    return True


def _multiply(program: Program, parts: list[str], args: list[str]) -> bool:
    """mul, mad, fma."""
    of = last_type(parts)
    if of is None or len(args) < 3 or "f16x2" in parts or "bf16x2" in parts:
        return False
    a, b = program.read(args[1], of), program.read(args[2], of)
    span = program.span
    if parts[0] == "fma" or (parts[0] == "mad" and not of.is_integer):
        program.write(args[0], Pure("fma", (a, b, program.read(args[3], of)), of, span=span))
        return True
    result = of
    if "wide" in parts:
        result = Scalar(of.kind, of.bits * 2)
        product = binary("mul", cast(a, result, span), cast(b, result, span), result, span)
    elif "hi" in parts:
        product = Pure("mulhi", (a, b), of, span=span)
    else:
        product = binary("mul", a, b, of, span)
    if parts[0] == "mad":
        product = binary("add", product, program.read(args[3], result), result, span)
    program.write(args[0], product)
    return True


def _shift(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    if of is None or len(args) != 3:
        return False
    amount = cast(program.read(args[2], U32), of, program.span)
    program.write(
        args[0], binary("shl" if parts[0] == "shl" else "shr", program.read(args[1], of), amount, of, program.span)
    )
    return True


def _single(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    if of is None or len(args) != 2:
        return False
    value = program.read(args[1], of)
    if parts[0] == "neg":
        program.write(args[0], unary("neg", value, of, program.span))
    elif parts[0] == "not":
        program.write(args[0], unary("lnot" if of == BOOL else "not", value, of, program.span))
    else:
        result = I32 if parts[0] in ("popc", "clz") else of
        program.write(args[0], Pure(_FUNCTIONS[parts[0]], (value,), result, span=program.span))
    return True


def _find(program: Program, parts: list[str], args: list[str]) -> bool:
    """``bfind.u32``: the highest set bit, all ones when there is none."""
    if last_type(parts) != U32 or len(parts) != 2 or len(args) != 2:
        return False
    zeros = Pure("clz", (program.read(args[1], U32),), I32, span=program.span)
    found = binary("sub", Const(31, I32, span=program.span), zeros, I32, program.span)
    program.write(args[0], cast(found, U32, program.span))
    return True


def _convert(program: Program, parts: list[str], args: list[str]) -> bool:
    kinds = [TYPES[p] for p in parts if p in TYPES]
    if len(kinds) != 2 or len(args) != 2 or any(p in ("f16x2", "bf16x2") for p in parts) or "sat" in parts:
        return False
    to, of = kinds
    value = program.read(args[1], of)
    if not of.is_integer and not to.is_integer and to.bits == of.bits and of.kind == to.kind:
        rounding = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
        name = next((rounding[p] for p in parts if p in rounding), None)
        program.write(args[0], Pure(name, (value,), of, span=program.span) if name else value)
        return True
    program.write(args[0], cast(value, to, program.span))
    return True


def _cvta(program: Program, parts: list[str], args: list[str]) -> bool:
    program.write(args[0], program.raw(args[1], U64))
    return True


def _setp(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    op = _COMPARE.get(parts[1]) if len(parts) > 1 else None
    if of is None or op is None or len(args) != 3 or len(parts) > 4:
        return False
    found = binary(op, program.read(args[1], of), program.read(args[2], of), BOOL, program.span)
    targets = args[0].split("|")
    program.write(targets[0], found)
    if len(targets) > 1:
        program.write(targets[1], unary("lnot", found, BOOL, program.span))
    return True


def _selp(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    if of is None or len(args) != 4:
        return False
    cond = program.read(args[3], BOOL)
    program.write(args[0], select(cond, program.read(args[1], of), program.read(args[2], of), of, program.span))
    return True


_HANDLERS: dict[str, Callable[[Program, list[str], list[str]], bool]] = {
    **dict.fromkeys(("min", "max", *_BINARY), _arithmetic),
    **dict.fromkeys(("mul", "mad", "fma"), _multiply),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("neg", "not", *_FUNCTIONS), _single),
    "mov": _move, "bfind": _find, "cvt": _convert, "cvta": _cvta, "setp": _setp, "selp": _selp,
    **dict.fromkeys(("ld", "ldu"), ptx_memory.load),
    "st": ptx_memory.store,
    **dict.fromkeys(("atom", "red"), ptx_memory.atomic),
    "cp": ptx_memory.copy_async,
    "mbarrier": ptx_memory.mbarrier,
    **dict.fromkeys(("bar", "barrier"), ptx_memory.barrier),
    **dict.fromkeys(("membar", "fence"), ptx_memory.fence),
    "shfl": ptx_memory.shuffle,
    **dict.fromkeys(("activemask", "elect", "redux", "vote", "match"), ptx_memory.collective),
    **dict.fromkeys(("ldmatrix", "stmatrix"), ptx_memory.ldmatrix),
    "mma": ptx_memory.mma,
    **dict.fromkeys(("exit", "trap"), ptx_memory.exit),
}  # fmt: skip
