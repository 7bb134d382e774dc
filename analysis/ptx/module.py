"""A parsed PTX module: functions of instructions over numbered registers, and variables."""

from __future__ import annotations

from dataclasses import dataclass, field


class PtxError(Exception):
    """The text is not PTX this reader knows; the message names the place and is free of line ends."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A register, by number in its function; ``kind`` is its declared type without the dot (``b32``, ``pred``)."""

    index: int
    kind: str


@dataclass(frozen=True, slots=True)
class Imm:
    """An integer literal."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatImm:
    """A float literal by its bits; ``width`` 32 or 64."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable, function or label."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A read-only register such as ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class Mem:
    base: Reg | Sym | Imm
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """``!%p``: a negated predicate operand."""

    reg: Reg


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``"""


Operand = Reg | Imm | FloatImm | Sym | Special | Mem | Vec | Not | Pair | Sink


@dataclass(frozen=True, slots=True)
class Instruction:
    """``parts``: the opcode split at dots. For calls ``operands`` is (target,), with ``returns`` and ``args``.

    ``loc`` is (file number, line) of the last ``.loc``, (0, 0) before any.
    """

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None = None
    guard_negated: bool = False
    loc: tuple[int, int] = (0, 0)
    returns: tuple[str, ...] = ()
    args: tuple[Operand, ...] = ()

    @property
    def opcode(self) -> str:
        return ".".join(self.parts)


@dataclass(slots=True)
class Variable:
    """``size`` in bytes, 0 for ``extern`` arrays without bound. ``relocations``: (offset, symbol, addend)."""

    name: str
    space: str
    align: int
    size: int
    init: bytes = b""
    extern: bool = False
    relocations: list[tuple[int, str, int]] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """``registers`` maps register numbers to declared types; ``variables`` are its own, of any space."""

    name: str
    entry: bool
    params: list[Variable]
    returns: list[Variable]
    registers: list[str] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defined: bool = False


@dataclass(slots=True)
class Module:
    version: str = ""
    target: str = ""
    files: dict[int, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)


SIZES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "pred": 1, "tf32": 4,
    "s16x2": 4, "u16x2": 4, "e4m3x2": 2, "e5m2x2": 2,
}  # fmt: skip
"""Bytes of the fundamental types."""
