"""PTX text to a module of functions and variables (PTX ISA 9.x, chapters 4, 5, 7 and 9; what compilers emit).

The text is hostile: inline assembly of the kernel reaches it unchecked. Everything odd raises ``PtxError``; sizes and
counts are capped. Debug sections are skipped.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

MAX_TEXT = 32 << 20
MAX_INSTRUCTIONS = 400_000
MAX_REGISTERS = 200_000
MAX_BYTES = 64 << 20


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
    """``registers`` maps register numbers to declared types; ``variables`` are its depot, shared and param variables."""

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

_TOKEN = re.compile(
    r"""
    (?P<skip>(?:\s+|//[^\n]*|/\*.*?\*/)+)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<float>0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16}(?![0-9a-fA-F]))
  | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+(?:\.[0-9]+)?U?)
  | (?P<name>[A-Za-z_$%][A-Za-z0-9_$]*(?:::[A-Za-z0-9_]+)?)
  | (?P<directive>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_:]+)?)
  | (?P<punct>[][(){}<>,;:=+\-*|!@.])
    """,
    re.VERBOSE | re.DOTALL,
)

SPECIAL_REGISTERS = frozenset(
    {
        "%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid",
        "%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
        "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
        "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%envreg", "%clusterid", "%nclusterid",
        "%cluster_ctaid", "%cluster_nctaid", "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster",
    }
)  # fmt: skip


def parse(text: str) -> Module:
    """The module ``text`` spells. Raises ``PtxError``."""
    if len(text) > MAX_TEXT:
        raise PtxError(f"{len(text)} bytes of PTX, more than the limit of {MAX_TEXT}")
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.places: list[int] = []
        self.text = text
        self._tokenise(text)
        self.at = 0
        self.out = Module()
        self.count = 0

    def _tokenise(self, text: str) -> None:
        position, size = 0, len(text)
        match = _TOKEN.match
        while position < size:
            found = match(text, position)
            if found is None:
                line = text.count("\n", 0, position) + 1
                raise PtxError(f"line {line}: unexpected character {text[position]!r}")
            kind = found.lastgroup or ""
            if kind != "skip":
                word = found.group()
                if kind == "directive" and word == ".section":
                    position = self._skip_section(text, found.end())
                    continue
                self.kinds.append(kind)
                self.words.append(word)
                self.places.append(position)
            position = found.end()
        self.kinds.append("end")
        self.words.append("")
        self.places.append(size)

    @staticmethod
    def _skip_section(text: str, position: int) -> int:
        """Debug sections hold bytes and labels in braces, never nested."""
        end = text.find("}", position)
        return len(text) if end < 0 else end + 1

    # --- cursor ---

    def fail(self, what: str) -> PtxError:
        line = self.text.count("\n", 0, self.places[self.at]) + 1
        return PtxError(f"line {line}: {what}, found {self.words[self.at][:40]!r}")

    def peek(self) -> str:
        return self.words[self.at]

    def next(self) -> str:
        word = self.words[self.at]
        if self.kinds[self.at] == "end":
            raise PtxError("text ends early")
        self.at += 1
        return word

    def accept(self, word: str) -> bool:
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.fail(f"expected {word!r}")

    def name(self) -> str:
        if self.kinds[self.at] != "name":
            raise self.fail("expected a name")
        return self.next()

    def integer(self) -> int:
        negative = self.accept("-")
        if self.kinds[self.at] != "int":
            raise self.fail("expected an integer")
        value = _integer(self.next())
        return -value if negative else value

    def skip_to_semicolon(self) -> None:
        while not self.accept(";"):
            self.next()

    # --- module scope ---

    def module(self) -> Module:
        while self.kinds[self.at] != "end":
            word = self.next()
            match word:
                case ".version":
                    self.out.version = self.next()
                case ".target":
                    self.out.target = self.next()
                    while self.accept(","):
                        self.next()
                case ".address_size":
                    self.next()
                case ".file":
                    self._file()
                case ".pragma" | ".alias":
                    self.skip_to_semicolon()
                case ".extern" | ".visible" | ".weak" | ".common":
                    self._linkage(word)
                case ".func" | ".entry":
                    self._function(word == ".entry")
                case ".global" | ".const" | ".shared":
                    self._module_variable(word[1:], extern=False)
                case ";":
                    pass
                case _:
                    self.at -= 1
                    raise self.fail("expected a declaration")
        return self.out

    def _file(self) -> None:
        number = self.integer()
        if self.kinds[self.at] != "string":
            raise self.fail("expected a file name")
        self.out.files[number] = self.next()[1:-1]
        while self.accept(","):
            self.next()

    def _linkage(self, word: str) -> None:
        kind = self.next()
        if kind in (".func", ".entry"):
            self._function(kind == ".entry")
        elif kind in (".global", ".const", ".shared"):
            self._module_variable(kind[1:], extern=word == ".extern")
        else:
            self.at -= 1
            raise self.fail("expected a declaration")

    def _module_variable(self, space: str, extern: bool) -> None:
        for variable in self._variables(space):
            variable.extern = extern
            old = self.out.variables.get(variable.name)
            if old is None or (old.extern and not extern):
                self.out.variables[variable.name] = variable
        self.expect(";")

    def _variables(self, space: str) -> list[Variable]:
        """``[.align N] .type name[dims] [= init] {, name...}``"""
        align, kind, vector = 0, "", 1
        while self.kinds[self.at] == "directive":
            word = self.next()
            if word == ".align":
                align = self.integer()
            elif word in (".v2", ".v4"):
                vector = int(word[2:])
            elif word in (".attribute", ".ptr"):
                if self.accept("("):
                    while not self.accept(")"):
                        self.next()
            elif word in (".global", ".shared", ".const", ".local", ".param", ".managed"):
                continue
            else:
                kind = word[1:]
        if kind not in SIZES:
            raise self.fail(f"unknown type .{kind}")
        found = [self._variable(space, align, kind, vector)]
        while self.peek() == "," and self.kinds[self.at + 1] == "name":
            self.next()
            found.append(self._variable(space, align, kind, vector))
        return found

    def _variable(self, space: str, align: int, kind: str, vector: int) -> Variable:
        name = self.name()
        element = SIZES[kind] * vector
        count, repeated = 1, 1
        if self.accept("<"):
            repeated = self.integer()
            self.expect(">")
        while self.accept("["):
            count = 0 if self.accept("]") else count * self._closed_integer()
        size = element * count
        if not 0 <= size <= MAX_BYTES or not 0 <= repeated <= MAX_REGISTERS:
            raise self.fail("a variable too large to model")
        variable = Variable(name, space, max(1, align or element), size)
        if self.accept("="):
            self._initialiser(variable, kind)
            if not size:
                variable.size = len(variable.init)
        return variable

    def _closed_integer(self) -> int:
        value = self.integer()
        self.expect("]")
        return value

    def _initialiser(self, variable: Variable, kind: str) -> None:
        data = bytearray()
        size = SIZES[kind]
        depth = 0
        while True:
            word = self.peek()
            if word == "{":
                depth += 1
                self.next()
            elif word == "}":
                depth -= 1
                self.next()
            elif word == ",":
                self.next()
            else:
                self._initial_value(variable, data, size)
            if depth <= 0:
                break
        variable.init = bytes(data)

    def _initial_value(self, variable: Variable, data: bytearray, size: int) -> None:
        if len(data) > MAX_BYTES:
            raise self.fail("an initialiser too large to model")
        kind = self.kinds[self.at]
        if kind == "float":
            bits, width = _float_bits(self.next())
            data += _convert_float(bits, width, size)
        elif kind == "int" or self.peek() == "-":
            data += (self.integer() & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        elif kind == "name":
            symbol = self.next()
            if symbol == "generic" and self.accept("("):
                symbol = self.name()
                self.expect(")")
            addend = self.integer() if self.accept("+") else 0
            variable.relocations.append((len(data), symbol, addend))
            data += bytes(size)
        else:
            raise self.fail("expected an initial value")

    # --- functions ---

    def _function(self, entry: bool) -> None:
        returns: list[Variable] = []
        while self.kinds[self.at] == "directive":
            self._attribute()
        if self.accept("("):
            returns = self._parameters()
        name = self.name()
        params = self._parameters() if self.accept("(") else []
        function = Function(name, entry, params, returns)
        while self.kinds[self.at] == "directive":
            self._attribute()
        if self.accept(";"):
            self.out.functions.setdefault(name, function)
            return
        self.expect("{")
        function.defined = True
        _Body(self, function).read()
        self.out.functions[name] = function

    def _attribute(self) -> None:
        """Performance and attribute directives: numbers and names up to the body."""
        word = self.next()
        if word in (".maxntid", ".reqntid", ".minnctapersm", ".maxnreg", ".maxnctapersm", ".reqnctapercluster",
                    ".maxclusterrank", ".abi_preserve", ".abi_preserve_control", ".local_maxnreg"):  # fmt: skip
            self.integer()
            while self.accept(","):
                self.integer()
        elif word in (".attribute",):
            while not self.accept(")"):
                self.next()
        elif word == ".pragma":
            self.skip_to_semicolon()
        elif word not in (".noreturn", ".explicitcluster", ".blocksareclusters", ".unique"):
            self.at -= 1
            raise self.fail("unknown function directive")

    def _parameters(self) -> list[Variable]:
        found: list[Variable] = []
        while not self.accept(")"):
            word = self.next()
            if word == ",":
                continue
            if word not in (".param", ".reg"):
                self.at -= 1
                raise self.fail("expected a parameter")
            if word == ".reg":
                raise self.fail("register parameters are not modelled")
            found += self._variables("param")
        return found


class _Body:
    """Statements of one function; scopes of ``{ }`` rename registers and variables."""

    def __init__(self, parser: _Parser, function: Function) -> None:
        self.p = parser
        self.f = function
        self.scopes: list[dict[str, Reg]] = [{}]
        self.ranges: list[list[tuple[str, int, Reg]]] = [[]]
        self.names: list[dict[str, str]] = [{}]
        self.loc = (0, 0)
        self.serial = 0

    def read(self) -> None:
        p = self.p
        while True:
            word = p.peek()
            if word == "{":
                p.next()
                if len(self.scopes) > 500:
                    raise p.fail("scopes nested too deeply")
                self.scopes.append({})
                self.names.append({})
            elif word == "}":
                p.next()
                self.scopes.pop()
                self.names.pop()
                if not self.scopes:
                    return
            elif p.kinds[p.at] == "directive":
                self._directive()
            elif p.kinds[p.at] == "name" and p.words[p.at + 1] == ":":
                self._label()
            elif word == ";":
                p.next()
            else:
                self._instruction()

    def _label(self) -> None:
        p = self.p
        name = p.name()
        p.expect(":")
        if p.peek() == ".branchtargets":
            p.next()
            targets = [p.name()]
            while p.accept(","):
                targets.append(p.name())
            p.expect(";")
            self.f.tables[name] = tuple(targets)
        elif p.peek() in (".callprototype", ".calltargets"):
            p.skip_to_semicolon()
        else:
            self.f.labels[name] = len(self.f.code)

    def _directive(self) -> None:
        p = self.p
        word = p.next()
        match word:
            case ".loc":
                self.loc = (p.integer(), p.integer())
                p.integer()
                while p.accept(","):
                    self._loc_attribute()
            case ".reg":
                self._registers()
            case ".local" | ".shared" | ".param" | ".global" | ".const":
                for variable in p._variables(word[1:]):
                    self._declare(variable)
                p.expect(";")
            case ".pragma":
                p.skip_to_semicolon()
            case ".file":
                p._file()
            case _:
                p.at -= 1
                raise p.fail("unknown directive")

    def _loc_attribute(self) -> None:
        """``function_name label [+ n]`` or ``inlined_at file line column``: where it is written stays the place."""
        p = self.p
        word = p.name()
        if word == "inlined_at":
            p.integer(), p.integer(), p.integer()
        elif word == "function_name":
            p.next()
            if p.accept("+"):
                p.integer()
        else:
            raise p.fail("unknown .loc attribute")

    def _declare(self, variable: Variable) -> None:
        name = variable.name
        if name in self.f.variables:
            self.serial += 1
            name = f"{name}@{self.serial}"
        self.names[-1][variable.name] = name
        self.f.variables[name] = variable
        variable.name = name

    def _registers(self) -> None:
        p = self.p
        kind = ""
        while p.kinds[p.at] == "directive":
            kind = p.next()[1:]
        if kind not in SIZES:
            raise p.fail(f"unknown register type .{kind}")
        while True:
            name = p.name()
            if p.accept("<"):
                count = p.integer()
                p.expect(">")
                if count < 0 or len(self.f.registers) + count > MAX_REGISTERS:
                    raise p.fail("too many registers")
                for number in range(count):
                    self.scopes[-1][f"{name}{number}"] = Reg(len(self.f.registers), kind)
                    self.f.registers.append(kind)
            else:
                if len(self.f.registers) >= MAX_REGISTERS:
                    raise p.fail("too many registers")
                self.scopes[-1][name] = Reg(len(self.f.registers), kind)
                self.f.registers.append(kind)
            if not p.accept(","):
                break
        p.expect(";")

    def _instruction(self) -> None:
        p = self.p
        p.count += 1
        if p.count > MAX_INSTRUCTIONS:
            raise p.fail("too many instructions")
        guard, negated = None, False
        if p.accept("@"):
            negated = p.accept("!")
            guard = self._register(p.name())
        parts = [p.name()]
        while p.kinds[p.at] == "directive":
            parts.append(p.next()[1:])
        if parts[0] == "call":
            self._call(tuple(parts), guard, negated)
            return
        operands: list[Operand] = []
        if not p.accept(";"):
            operands.append(self._operand())
            while p.accept(","):
                operands.append(self._operand())
            p.expect(";")
        self.f.code.append(Instruction(tuple(parts), tuple(operands), guard, negated, self.loc))

    def _call(self, parts: tuple[str, ...], guard: Reg | None, negated: bool) -> None:
        """``call [(ret),] target [, (args)] [, prototype];``"""
        p = self.p
        returns: list[str] = []
        if p.accept("("):
            while not p.accept(")"):
                if not p.accept(","):
                    returns.append(self._variable_name(p.name()))
            p.expect(",")
        target = self._operand()
        args: list[Operand] = []
        while p.accept(","):
            if p.accept("("):
                while not p.accept(")"):
                    if not p.accept(","):
                        args.append(self._operand())
            else:
                p.name()
        p.expect(";")
        self.f.code.append(Instruction(parts, (target,), guard, negated, self.loc, tuple(returns), tuple(args)))

    def _register(self, name: str) -> Reg:
        for scope in reversed(self.scopes):
            found = scope.get(name)
            if found is not None:
                return found
        raise self.p.fail(f"undeclared register {name[:40]}")

    def _variable_name(self, name: str) -> str:
        for names in reversed(self.names):
            found = names.get(name)
            if found is not None:
                return found
        return name

    def _operand(self) -> Operand:
        first = self._simple()
        if self.p.accept("|"):
            return Pair(first, self._simple())
        return first

    def _simple(self) -> Operand:
        p = self.p
        kind, word = p.kinds[p.at], p.peek()
        if word == "{":
            p.next()
            items = [self._simple()]
            while p.accept(","):
                items.append(self._simple())
            p.expect("}")
            return Vec(tuple(items))
        if word == "[":
            return self._memory()
        if word == "!":
            p.next()
            return Not(self._register(p.name()))
        if kind == "int" or word == "-":
            return Imm(p.integer())
        if kind == "float":
            return FloatImm(*_float_bits(p.next()))
        if kind == "name":
            return self._named()
        raise p.fail("expected an operand")

    def _named(self) -> Operand:
        p = self.p
        word = p.next()
        if word == "_":
            return Sink()
        for scope in reversed(self.scopes):
            found = scope.get(word)
            if found is not None:
                return found
        if word.startswith("%"):
            if word not in SPECIAL_REGISTERS and not word.startswith("%envreg"):
                raise p.fail(f"undeclared register {word[:40]}")
            if p.kinds[p.at] == "directive":
                word += p.next()
            return Special(word)
        if word == "WARP_SZ":
            return Imm(32)
        offset = 0
        if p.peek() in ("+", "-"):
            offset = p.integer() if p.peek() == "-" else (p.next(), p.integer())[1]
        return Sym(self._variable_name(word), offset)

    def _memory(self) -> Mem:
        """``[base]``, ``[base+imm]``, ``[imm]``"""
        p = self.p
        p.expect("[")
        base: Reg | Sym | Imm
        if p.kinds[p.at] == "name":
            word = p.next()
            found = next((s[word] for s in reversed(self.scopes) if word in s), None)
            base = found if found is not None else Sym(self._variable_name(word))
        else:
            base = Imm(p.integer())
        offset = 0
        while p.peek() in ("+", "-"):
            offset += p.integer() if p.peek() == "-" else (p.next(), p.integer())[1]
        p.expect("]")
        return Mem(base, offset)


def _integer(word: str) -> int:
    word = word.removesuffix("U")
    if word[:2] in ("0x", "0X"):
        return int(word, 16)
    if word[:2] in ("0b", "0B"):
        return int(word, 2)
    if "." in word:
        raise PtxError(f"unexpected decimal number {word[:40]!r}")
    return int(word, 8) if len(word) > 1 and word[0] == "0" else int(word)


def _float_bits(word: str) -> tuple[int, int]:
    return int(word[2:], 16), 32 if word[1] in "fF" else 64


def _convert_float(bits: int, width: int, size: int) -> bytes:
    raw = bits.to_bytes(width // 8, "little")
    if width // 8 == size:
        return raw
    (value,) = struct.unpack("<d" if width == 64 else "<f", raw)
    return struct.pack("<f" if size == 4 else "<d", value)
