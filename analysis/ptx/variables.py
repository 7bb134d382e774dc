"""Variable declarations with their initialisers (PTX ISA, chapter 5.4)."""

from __future__ import annotations

from prelaunch.analysis.ptx.module import SIZES, Variable
from prelaunch.analysis.ptx.tokens import Cursor, convert_float, float_bits

MAX_BYTES = 64 << 20
MAX_REPEATED = 200_000


class Declarations(Cursor):
    """A cursor that reads variable declarations."""

    def variables(self, space: str) -> list[Variable]:
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
        if not 0 <= size <= MAX_BYTES or not 0 <= repeated <= MAX_REPEATED:
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
            bits, width = float_bits(self.next())
            data += convert_float(bits, width, size)
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

    def file(self, files: dict[int, str]) -> None:
        """``.file number "name"``"""
        number = self.integer()
        if self.kinds[self.at] != "string":
            raise self.fail("expected a file name")
        files[number] = self.next()[1:-1]
        while self.accept(","):
            self.next()
