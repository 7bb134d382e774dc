"""The statements of one function (PTX ISA, chapters 4.3 and 7.1)."""

from __future__ import annotations

from prelaunch.analysis.ptx.module import (
    SIZES,
    FloatImm,
    Function,
    Imm,
    Instruction,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Variable,
    Vec,
)
from prelaunch.analysis.ptx.tokens import float_bits
from prelaunch.analysis.ptx.variables import Declarations

MAX_INSTRUCTIONS = 400_000
MAX_REGISTERS = 200_000

SPECIAL_REGISTERS = frozenset(
    {
        "%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid",
        "%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
        "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
        "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%envreg", "%clusterid", "%nclusterid",
        "%cluster_ctaid", "%cluster_nctaid", "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster",
    }
)  # fmt: skip


class Body:
    """Statements of one function; scopes of ``{ }`` rename registers and variables."""

    def __init__(self, parser: Declarations, function: Function, files: dict[int, str]) -> None:
        self.files = files
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
                for variable in p.variables(word[1:]):
                    self._declare(variable)
                p.expect(";")
            case ".pragma":
                p.skip_to_semicolon()
            case ".file":
                p.file(self.files)
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
            return FloatImm(*float_bits(p.next()))
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
            if word not in SPECIAL_REGISTERS and not word.startswith(("%envreg", "%reserved_smem_offset")):
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
