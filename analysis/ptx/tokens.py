"""PTX text as tokens, with a cursor over them (PTX ISA, chapter 4). Debug sections are skipped."""

from __future__ import annotations

import re
import struct

from prelaunch.analysis.ptx.module import PtxError

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


class Cursor:
    """A position in the tokens of a text; what is not there raises ``PtxError`` with the line."""

    def __init__(self, text: str) -> None:
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.places: list[int] = []
        self.text = text
        self._tokenise(text)
        self.at = 0
        self.count = 0  # instructions read so far

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
        value = integer_value(self.next())
        return -value if negative else value

    def skip_to_semicolon(self) -> None:
        while not self.accept(";"):
            self.next()


def integer_value(word: str) -> int:
    word = word.removesuffix("U")
    if word[:2] in ("0x", "0X"):
        return int(word, 16)
    if word[:2] in ("0b", "0B"):
        return int(word, 2)
    if "." in word:
        raise PtxError(f"unexpected decimal number {word[:40]!r}")
    return int(word, 8) if len(word) > 1 and word[0] == "0" else int(word)


def float_bits(word: str) -> tuple[int, int]:
    return int(word[2:], 16), 32 if word[1] in "fF" else 64


def convert_float(bits: int, width: int, size: int) -> bytes:
    raw = bits.to_bytes(width // 8, "little")
    if width // 8 == size:
        return raw
    (value,) = struct.unpack("<d" if width == 64 else "<f", raw)
    return struct.pack("<f" if size == 4 else "<d", value)
