"""Seeded mutations of CUDA text: what a careless editor, a broken download or an attacker would hand us."""

from __future__ import annotations

import random
from collections.abc import Sequence

KINDS = (
    "flip", "truncate", "delete", "splice", "duplicate", "swap-brackets", "nest-parens", "nest-braces", "nest-unary",
    "nest-if", "nest-templates", "nest-types", "nest-directives", "long-line", "macro-bomb", "macro-cycle",
    "include-cycle", "token-soup", "huge-numbers", "crlf", "nul",
)  # fmt: skip
"""One name per way of breaking a file; ``mutate`` picks them in turn."""

_TOKENS = (
    "__global__ void",
    "__shared__",
    "extern",
    "__syncthreads();",
    "<<<",
    ">>>",
    "template<",
    "if (",
    "else",
    "for (;;)",
    "#if 1\n",
    "#endif\n",
    "#define X X(\n",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    "0x",
    "1e999",
    "'",
    '"',
    "/*",
    "*/",
    "//",
    "\\\n",
    "asm volatile(",
    "switch (",
    "case",
    "goto",
    "struct",
    "union",
    "operator()",
    "::",
    "->",
    "...",
    "@",
    "\0",
    "é",
)


def mutate(text: bytes, other: bytes, kind: str, seed: int) -> bytes:
    """``text`` broken in one way. ``other`` is a second file to splice from. Same arguments, same bytes."""
    rng = random.Random(f"{kind}:{seed}")
    data = bytearray(text)
    at = rng.randrange(len(data) + 1)
    (depth,) = rng.choices((50, 1_000, 20_000, 100_000), weights=(10, 6, 3, 1))
    body = _inside_kernel(text, rng)
    match kind:
        case "flip":
            for _ in range(rng.choice((1, 3, 20, 200))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case "truncate":
            del data[at:]
        case "delete":
            del data[at : at + rng.choice((1, 5, 80, 600))]
        case "splice":
            cut = rng.randrange(len(other) + 1)
            data[at:at] = other[cut : cut + rng.choice((20, 300, 3000))]
        case "duplicate":
            data[at:at] = data[max(0, at - 500) : at] * rng.choice((2, 50))
        case "swap-brackets":
            for index in [i for i, c in enumerate(data) if c in b"(){}[]<>"]:
                if rng.random() < 0.05:
                    data[index] = rng.choice(b"(){}[]<>")
        case "nest-parens":
            data[body:body] = b"int q = " + b"(" * depth + b"1" + b")" * (depth - rng.randrange(2)) + b";"
        case "nest-braces":
            data[body:body] = b"{" * depth + b";" + b"}" * (depth - rng.randrange(2))
        case "nest-unary":
            data[body:body] = b"int q = " + rng.choice((b"-", b"~", b"!", b"*", b"&")) * depth + b"1;"
        case "nest-if":
            data[body:body] = b"if (threadIdx.x) " * depth + b";"
        case "nest-templates":
            data[body:body] = b"A<" * depth + b"int" + b">" * depth + b" q;"
        case "nest-types":
            data[body:body] = b"int " + b"*" * depth + b"q" + b"[2]" * rng.choice((0, depth)) + b";"
        case "nest-directives":
            data[at:at] = b"\n#if A" * depth + b"\n" + b"#endif\n" * (depth - rng.randrange(2))
        case "long-line":
            data[body:body] = b"int q = 1" + b" + threadIdx.x" * depth + b";"
        case "macro-bomb":
            lines = [f"#define B{i + 1} B{i} B{i} B{i} B{i} B{i} B{i} B{i} B{i}".encode() for i in range(12)]
            data[body:body] = b"\n#define B0 +1\n" + b"\n".join(lines) + b"\nint q = 0 B12;\n"
        case "macro-cycle":
            data[body:body] = b"\n#define P(x) Q(x)+Q(x)\n#define Q(x) R(x)\n#define R(x) P(x) P\nint q = P(P(1));\n"
        case "include-cycle":
            data[at:at] = b'\n#include "self.cu"\n#include "../../../../etc/passwd"\n#include "/etc/passwd"\n'
        case "token-soup":
            data[at:at] = " ".join(rng.choice(_TOKENS) for _ in range(rng.choice((5, 60, 2000)))).encode()
        case "huge-numbers":
            data[body:body] = b"__shared__ int q[" + b"9" * rng.choice((12, 400, 5000)) + b"]; q[1 << 99999] = 1 / 0;"
        case "crlf":
            data = bytearray(bytes(data).replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r"))))
        case "nul":
            data[at:at] = rng.choice((b"\0", b"\0" * 5000, b"\xff\xfe" * 50, b"\xef\xbb\xbf"))
    return bytes(data)


def _inside_kernel(text: bytes, rng: random.Random) -> int:
    """Offset just after the opening brace of some function that follows ``__global__``, or anywhere."""
    found: list[int] = []
    start = text.find(b"__global__")
    while start >= 0:
        brace = text.find(b"{", start)
        if brace < 0:
            break
        found.append(brace + 1)
        start = text.find(b"__global__", brace)
    return rng.choice(found) if found else rng.randrange(len(text) + 1)


def mutants(texts: Sequence[bytes], count: int, seed: int) -> list[tuple[str, bytes]]:
    """``count`` (kind, text) pairs, the kinds in turn, texts and places by ``seed``."""
    rng = random.Random(seed)
    result: list[tuple[str, bytes]] = []
    for index in range(count):
        kind = KINDS[index % len(KINDS)]
        first, second = rng.choice(texts), rng.choice(texts)
        result.append((kind, mutate(first, second, kind, rng.randrange(1 << 30))))
    return result
