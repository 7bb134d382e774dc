"""Inline PTX: operands, local registers and the order of instructions. What each does stands in ``ptx.py``.

An instruction that is not known makes its results unknown; it also counts as touching memory and control unless PTX's
naming says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.asm import ptx, ptx_types
from prelaunch.analysis.frontends.cuda.lower import addresses, expressions, memory, operators
from prelaunch.analysis.frontends.cuda.lower.context import Context, as_block
from prelaunch.analysis.frontends.cuda.passes import constants
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Val
from prelaunch.analysis.frontends.cuda.semantics.types import VOID, Ptr, arithmetic
from prelaunch.analysis.kernel import (
    BOOL,
    F32,
    F64,
    I32,
    U16,
    U32,
    U64,
    Assign,
    Bitcast,
    Block,
    Const,
    Expr,
    If,
    Pointer,
    Scalar,
    Special,
    Type,
    Unary,
    Var,
)  # fmt: skip
from prelaunch.analysis.source import Span

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_REGISTER = re.compile(r"\.reg\s+\.(?:v\d\s+)?\.?(\w+)\s+(.+)", re.S)
_OPERAND = re.compile(r"%(\d+)$|%\[(\w+)\]$")
_CONSTRAINTS: dict[str, Scalar] = {"h": U16, "r": U32, "l": U64, "f": F32, "d": F64, "n": I32, "q": U64}
SPECIALS = {
    "laneid": "laneid", "warpid": "warpid", "smid": "smid", "clock": "clock", "clock64": "clock64",
    "globaltimer": "globaltimer", "globaltimer_lo": "globaltimer", "dynamic_smem_size": "dynamic_smem_size",
    "cluster_ctarank": "cluster_ctarank",
    **{f"{a}.{x}": f"{b}.{x}" for a, b in (
        ("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"),
        ("clusterid", "clusterIdx"), ("cluster_nctaid", "clusterDim"), ("cluster_ctaid", "clusterBlockIdx"),
    ) for x in "xyz"},
}  # fmt: skip


@dataclass(slots=True)
class Operand:
    """One C operand: its constraint, the register that stands for it, where the result goes."""

    constraint: str
    value: Expr | None = None
    var: Var | None = None
    place: Lowered | None = None


@dataclass(slots=True)
class Program:
    """One ``asm`` statement being lowered."""

    ctx: Context
    span: Span
    operands: list[Operand]
    named: dict[str, int]
    registers: dict[str, Var] = field(default_factory=dict)
    clobbers_memory: bool = False

    def read(self, text: str, of: Type) -> Expr:
        """The value of an operand, as type ``of``."""
        return fitted(self.ctx, self.raw(text.strip(), of), of, self.span)

    def raw(self, text: str, of: Type) -> Expr:
        index = self.index(text)
        if index is not None and index < len(self.operands):
            operand = self.operands[index]
            found = operand.var if operand.var is not None else operand.value
            if found is not None:
                return found
        if text in self.registers:
            return self.registers[text]
        special = SPECIALS.get(text.removeprefix("%").removeprefix("%"))
        if special is not None:
            kind = U64 if special in ("clock64", "globaltimer") else U32
            return Special(special, kind, span=self.span)
        lanes = self.lane_mask(text)
        if lanes is not None:
            return lanes
        immediate = self.immediate(text, of)
        if immediate is not None:
            return immediate
        scalar = of if isinstance(of, Scalar) else U64
        return self.ctx.unknown(f"PTX operand {text[:30]}", self.span, scalar).expr

    def lane_mask(self, text: str) -> Expr | None:
        """``%lanemask_lt`` and kin."""
        which = text.removeprefix("%").removeprefix("lanemask_")
        if "lanemask_" not in text or which not in ("lt", "le", "eq", "ge", "gt"):
            return None
        one = Const(1, U32, span=self.span)
        own = constants.binary("shl", one, Special("laneid", span=self.span), U32, self.span)
        below = constants.binary("sub", own, one, U32, self.span)
        if which in ("le", "gt"):
            below = constants.binary("or", below, own, U32, self.span)
        if which == "eq":
            return own
        return below if which in ("lt", "le") else constants.unary("not", below, U32, self.span)

    def immediate(self, text: str, of: Type) -> Const | None:
        kind = of if isinstance(of, Scalar) else U64
        single = re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text)
        double = re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text)
        if single or double:
            import struct

            digits = (single or double)[1]  # type: ignore[index]  # one of them matched
            data = bytes.fromhex(digits)
            value = struct.unpack(">f" if single else ">d", data)[0]
            return Const(constants.fit(value, kind), kind, span=self.span)
        if text == "WARP_SZ":
            return Const(32, U32, span=self.span)
        found = constants.number(text)
        return Const(constants.fit(found.value, kind), kind, span=self.span) if found is not None else None

    def index(self, text: str) -> int | None:
        match = _OPERAND.match(text)
        if match is None:
            return None
        return int(match[1]) if match[1] else self.named.get(match[2])

    def write(self, text: str, value: Expr) -> None:
        """Assign a result; ``_`` and unknown names drop it."""
        var = self.target(text, value.type)
        if var is not None:
            self.ctx.assign(var, fitted(self.ctx, value, var.type, self.span), self.span)

    def target(self, text: str, of: Type) -> Var | None:
        text = text.strip()
        if text == "_":
            return None
        index = self.index(text)
        if index is not None and index < len(self.operands):
            return self.operands[index].var
        if text not in self.registers:
            kind = of if isinstance(of, Scalar) else U64
            self.registers[text] = self.ctx.var(kind, "", self.span)
        return self.registers[text]

    def address(self, text: str) -> tuple[Expr, bool]:
        """``[reg+imm]`` as a pointer; False when the text is no address."""
        inner = text.strip().removeprefix("[").removesuffix("]").strip()
        base, sign, moved = inner, "", ""
        match = re.fullmatch(r"(.+?)\s*([+-])\s*(\w+|%\d+)", inner)
        if match is not None:
            base, sign, moved = match[1].strip(), match[2], match[3]
        found = addresses.pointer(self.ctx, self.raw(base, U64))
        if moved:
            by = self.read(moved, U64)
            step = Val(U64, (by,))
            found = operators.advance(Val(Ptr(VOID), (found,)), step, sign == "-", self.span).expr
        return found, text.strip().startswith("[")


def fitted(ctx: Context, value: Expr, of: Type, span: Span) -> Expr:
    """A register read at another type: same width keeps the bits, as PTX's untyped registers do."""
    have = value.type
    if have == of:
        return value
    if isinstance(of, Pointer):
        return addresses.pointer(ctx, value, of)
    if isinstance(have, Pointer):
        return constants.cast(constants.cast(value, U64, span), of, span)
    if have.is_integer and of.is_integer:
        return constants.cast(value, of, span)
    if have.bits == of.bits:
        return Bitcast(value, of, span=span)
    if have.is_integer != of.is_integer:
        narrow = Scalar("uint", of.bits) if have.is_integer else Scalar("uint", have.bits)
        if have.is_integer:
            return Bitcast(constants.cast(value, narrow, span), of, span=span)
        return constants.cast(Bitcast(value, narrow, span=span), of, span)
    return constants.cast(value, of, span)


def lower_asm(ctx: Context, node: Node) -> Lowered:
    """A ``gnu_asm_expression``."""
    span = ctx.span(node)
    code = node.child_by_field_name("assembly_code")
    if code is None:
        return ctx.unknown("syntax not understood", span, VOID, touches=("value", "memory", "control"))
    given: list[Operand] = []
    named: dict[str, int] = {}
    for label, written in (("output_operands", True), ("input_operands", False)):
        listed = node.child_by_field_name(label)
        for child in listed.named_children if listed is not None else ():
            if "operand" not in child.type:
                continue
            symbol = child.child_by_field_name("symbol")
            if symbol is not None:
                named[ctx.text(symbol)] = len(given)
            given.append(_operand(ctx, child, written))
    program = Program(ctx, span, given, named)
    clobbers = node.child_by_field_name("clobbers")
    program.clobbers_memory = clobbers is not None and "memory" in ctx.text(clobbers)
    run(program, _text(ctx, code))
    for operand in given:
        if operand.place is not None and operand.var is not None:
            _put(ctx, operand, span)
    return Val(VOID)


def _text(ctx: Context, node: Node) -> str:
    parts = [node] if node.type != "concatenated_string" else list(node.named_children)
    found: list[str] = []
    for part in parts:
        text = ctx.text(part)
        if part.type == "raw_string_literal":
            found.append(text[text.find("(") + 1 : text.rfind(")")])
        elif part.type == "string_literal":
            codes = constants.unescape(text[text.find('"') + 1 : text.rfind('"')])
            found.append(bytes(codes).decode("latin-1"))
        else:
            value = expressions.lower(ctx, part)
            found.append(string_value(ctx, value))
    return "".join(found)


def string_value(ctx: Context, value: Lowered) -> str:
    from prelaunch.analysis.kernel import Address

    if isinstance(value, Mem) and isinstance(value.address, Address):
        known = ctx.objects.get(value.address.object)
        if known is not None and known.init is not None:
            return known.init.rstrip(b"\0").decode("latin-1")
    return ""


def _operand(ctx: Context, node: Node, written: bool) -> Operand:
    constraint, value = node.child_by_field_name("constraint"), node.child_by_field_name("value")
    letters = ctx.text(constraint).strip('"') if constraint is not None else "r"
    if value is None:
        return Operand(letters)
    span = ctx.span(value)
    kind = next((_CONSTRAINTS[c] for c in letters if c in _CONSTRAINTS), U32)
    if not written:
        if "C" in letters:
            return Operand(letters)
        found = operators.as_scalar(ctx, expressions.lower(ctx, value), span)
        of: Type = found.expr.type
        expr = found.expr
        if not isinstance(of, Pointer):
            of = arithmetic(found.type) or kind
            if of.is_integer and of.bits > kind.bits and kind.is_integer:
                expr = constants.cast(expr, kind, span)
        return Operand(letters, expr)
    place = expressions.lower(ctx, value)
    var = ctx.var(kind, "", span)
    if "+" in letters:
        old = operators.as_scalar(ctx, place, span)
        ctx.emit(Assign(var, fitted(ctx, old.expr, kind, span), span=span))
        addresses.follow(ctx, var, old.expr, span)
    return Operand(letters, None, var, place)


def _put(ctx: Context, operand: Operand, span: Span) -> None:
    place, var = operand.place, operand.var
    assert place is not None
    assert var is not None
    of = arithmetic(place.type)
    if of is not None:
        value: Lowered = Val(place.type, (fitted(ctx, var, of, span),))
    else:
        value = operators.convert(ctx, Val(U64, (constants.cast(var, U64, span),)), place.type, span)
    if isinstance(place, Reg | Mem):
        memory.store(ctx, place, value, span)


# --- instructions ----------------------------------------------------------------------------------------------------


def run(program: Program, text: str) -> None:
    """Lower every instruction of the text in order."""
    text = _COMMENT.sub(" ", text).replace("%%", "%").replace("\r", "\n")
    for raw in re.split(r"[;\n]", text.replace("{ ", "{").replace("\t", " ")):
        line = raw.strip()
        if line.startswith("{") and "," not in line.split("}")[0]:
            line = line[1:].strip()
        while line.endswith("}") and line.count("}") > line.count("{"):
            line = line[:-1].strip()
        if line:
            _one(program, line)


def _one(program: Program, line: str) -> None:
    register = _REGISTER.match(line)
    if register is not None:
        _declare(program, register[1], register[2])
        return
    if line.endswith(":") or re.match(r"\w+:", line):
        label, _, rest = line.partition(":")
        if rest.strip():
            _one(program, rest.strip())
        elif label:
            program.ctx.note("PTX label ignored")
        return
    if line.startswith("."):
        return
    if line.startswith("@"):
        _guarded(program, line)
        return
    head, _, rest = line.partition(" ")
    ptx.instruction(program, head.split("."), split_operands(rest))


def _guarded(program: Program, line: str) -> None:
    match = re.match(r"@(!?)\s*(%?\[?\w+\]?)\s+(.+)", line, re.S)
    if match is None:
        program.ctx.opaque("PTX predicate not understood", program.span, ("value", "memory", "control"))
        return
    cond = program.read(match[2], BOOL)
    if match[1]:
        cond = Unary("lnot", cond, BOOL, span=program.span)
    with program.ctx.block() as stmts:
        _one(program, match[3].strip())
    if stmts:
        program.ctx.emit(If(cond, as_block(stmts, program.span), Block(span=program.span), span=program.span))


def _declare(program: Program, kind: str, names: str) -> None:
    of = ptx_types.type_of(kind) or U32
    for name in names.split(","):
        name = name.strip()
        match = re.fullmatch(r"(%?\w+)<(\d+)>", name)
        if match is not None:
            for index in range(min(int(match[2]), 256)):
                program.registers[f"{match[1]}{index}"] = program.ctx.var(of, "", program.span)
        elif name:
            program.registers[name] = program.ctx.var(of, "", program.span)


def split_operands(text: str) -> list[str]:
    """Operands at the top level; ``{a, b}`` and ``[a, {b, c}]`` stay whole."""
    parts: list[str] = []
    depth, start = 0, 0
    for index, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]
