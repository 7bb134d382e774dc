"""Text from a repository, made safe to show: one function per surface.

What a terminal would obey (escape sequences, carriage returns) and what would make text read as other than it is
(bidirectional overrides, invisible characters) becomes visible instead.
"""

from __future__ import annotations

import unicodedata

TAB = 4
_KEPT_FORMAT = {"\u00ad"}  # soft hyphen: shown as nothing or a hyphen, moves nothing


def render_untrusted(text: str, *, keep_newlines: bool = False) -> str:
    """``text`` with controls as ``\\x1b``-style escapes, bidi and invisible characters as ``\\u202e``-style ones.

    Tabs become TAB blanks. The result is one line unless ``keep_newlines``, and printing it moves no cursor.
    """
    return "".join(_visible(char, keep_newlines) for char in text)


def _visible(char: str, keep_newlines: bool) -> str:
    if char == "\t":
        return " " * TAB
    if char == "\n" and keep_newlines:
        return char
    if " " <= char <= "~":
        return char
    category = unicodedata.category(char)
    if category in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or (category == "Cf" and char not in _KEPT_FORMAT):
        point = ord(char)
        return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
    return char
