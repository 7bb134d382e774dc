"""C types by spelling: widths, signs and sizes on a 64-bit host (LP64, CUDA's own choice for device code)."""

from __future__ import annotations

import re
from functools import lru_cache

from prelaunch.analysis.kernel import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Pointer, Scalar

_QUALIFIERS = re.compile(
    r"\b(const|constexpr|volatile|static|inline|extern|register|mutable|struct|class|enum|typename|std|thread_local"
    r"|__restrict__|__restrict|restrict|__host__|__device__|__forceinline__|auto)\b|::"
)

_SCALARS: dict[str, Scalar] = {
    "bool": BOOL, "_Bool": BOOL, "char": I8, "signed char": I8, "unsigned char": U8, "uchar": U8,
    "int8_t": I8, "uint8_t": U8, "short": I16, "short int": I16, "unsigned short": U16, "unsigned short int": U16,
    "ushort": U16, "int16_t": I16, "uint16_t": U16, "int": I32, "signed": I32, "signed int": I32, "int32_t": I32,
    "unsigned": U32, "unsigned int": U32, "uint": U32, "uint32_t": U32, "long": I64, "long int": I64,
    "long long": I64, "long long int": I64, "int64_t": I64, "ptrdiff_t": I64, "ssize_t": I64, "intptr_t": I64,
    "unsigned long": U64, "unsigned long int": U64, "unsigned long long": U64, "unsigned long long int": U64,
    "size_t": U64, "uint64_t": U64, "uintptr_t": U64, "ulong": U64, "float": F32, "double": F64,
    "half": F16, "__half": F16, "__nv_bfloat16": BF16, "nv_bfloat16": BF16, "__bfloat16": BF16,
    "cudaError_t": I32, "cudaError": I32, "CUresult": I32, "cudaStream_t": U64, "CUdeviceptr": U64,
}  # fmt: skip

_VECTOR_BASE = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8,
    "longlong": 8, "ulonglong": 8, "float": 4, "double": 8,
}  # fmt: skip
_VECTOR = re.compile(r"(u?(?:char|short|int|longlong|long)|float|double)([1-4])$")
_SIZES = {"dim3": 12, "half2": 4, "__half2": 4, "__nv_bfloat162": 4, "nv_bfloat162": 4, "cudaEvent_t": 8}

CONSTANT_TYPES = frozenset({"integral_constant", "bool_constant", "true_type", "false_type"})
"""Types of <type_traits> whose only content is a constant."""


def integral_constant(spelling: str) -> tuple[str, str] | None:
    """(type, value as written) of a spelling in ``CONSTANT_TYPES``, None for any other."""
    head, _, rest = spelling.partition("<")
    type_, _, text = rest.rpartition(">")[0].rpartition(",")
    match head.strip().rpartition("::")[2]:
        case "true_type" | "false_type" as known:
            return "bool", known.partition("_")[0]
        case "bool_constant":
            return "bool", text.strip()
        case "integral_constant":
            return plain(type_), text.strip()
    return None


@lru_cache(maxsize=4096)
def plain(spelling: str) -> str:
    """The spelling without qualifiers, ``std::`` and surplus white space; stars stay."""
    text = " ".join(_QUALIFIERS.sub(" ", spelling).replace("*", " * ").split())
    words = text.split()
    if {"unsigned", "signed", "long", "short"} & set(words) and len(words) > 1:
        text = _ordered(words)
    return text


def _ordered(words: list[str]) -> str:
    """``long unsigned int`` and ``int unsigned`` in the usual order."""
    stars = [w for w in words if w == "*"]
    kept = [w for w in words if w != "*"]
    rank = {"unsigned": 0, "signed": 0, "long": 1, "short": 1}
    return " ".join(sorted(kept, key=lambda w: rank.get(w, 2)) + stars)


def scalar(spelling: str) -> Scalar | None:
    """The arithmetic type a spelling names, None for anything else."""
    return _SCALARS.get(plain(spelling))


def size_of(spelling: str) -> int | None:
    """``sizeof`` of a built-in spelling, pointers included; None for records and unknown names."""
    text = plain(spelling)
    if text.endswith("*"):
        return 8
    known = _SCALARS.get(text)
    if known is not None:
        return known.size
    vector = _VECTOR.fullmatch(text)
    if vector is not None:
        return _VECTOR_BASE[vector.group(1)] * int(vector.group(2))
    return _SIZES.get(text)


def pointer_to(spelling: str) -> Pointer:
    """The pointer type whose pointee has this spelling; size 0 where that is not known."""
    return Pointer(size_of(spelling) or 0, plain(spelling) or "void")
