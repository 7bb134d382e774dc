"""Preprocessing tokens, as the C and C++ standards cut them, for macro expansion and ``#if`` conditions."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<name>[A-Za-z_$]\w*)"""
    r"""|(?P<number>\.?[0-9](?:[eEpP][+-]|[\w.]|'(?=\w))*)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<mark>\#\#|\.\.\.|<<=|>>=|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.DOTALL,
)


class Token(NamedTuple):
    """``kind``: "name", "number", "text" (string or character), "mark". ``space``: white space comes before it.

    ``hidden``: macros this token may no longer be expanded as (it came out of them).
    """

    kind: str
    text: str
    space: bool = False
    hidden: frozenset[str] = frozenset()


def tokenize(text: str) -> list[Token]:
    tokens = []
    space = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "mark"
        if kind == "space":
            space = True
            continue
        tokens.append(Token(kind, match.group(), space))
        space = False
    return tokens


def spell(tokens: list[Token]) -> str:
    """Text that reads back as the same tokens."""
    parts: list[str] = []
    previous: Token | None = None
    for token in tokens:
        if previous is not None and (token.space or _would_join(previous, token)):
            parts.append(" ")
        parts.append(token.text)
        previous = token
    return "".join(parts)


def _would_join(left: Token, right: Token) -> bool:
    words = ("name", "number", "text")
    if left.kind in words and right.kind in words:
        return True
    if left.kind == "number" and right.text in ("+", "-", "."):
        return True
    if left.kind == right.kind == "mark":
        joined = _TOKEN.match(left.text + right.text)
        return joined is not None and joined.end() > len(left.text)
    return False
