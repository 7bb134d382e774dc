"""Types that CUDA and C++ programs know without a declaration: names, sizes, vector types."""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.semantics.types import VOID, CType, Field, Handle, Ptr, Record
from prelaunch.analysis.kernel import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar, Space

_WORDS: dict[str, CType] = {
    "void": VOID, "bool": BOOL, "_Bool": BOOL, "char": I8, "wchar_t": I32, "char8_t": U8, "char16_t": U16,
    "char32_t": U32, "float": F32, "double": F64, "int": I32, "short": I16, "long": I64,
    "int8_t": I8, "int16_t": I16, "int32_t": I32, "int64_t": I64, "uint8_t": U8, "uint16_t": U16, "uint32_t": U32,
    "uint64_t": U64, "size_t": U64, "ssize_t": I64, "ptrdiff_t": I64, "intptr_t": I64, "uintptr_t": U64,
    "intmax_t": I64, "uintmax_t": U64, "int_fast32_t": I64, "uint_fast32_t": U64, "int_least32_t": I32,
    "uchar": U8, "ushort": U16, "uint": U32, "ulong": U64, "byte": U8,
    "half": F16, "__half": F16, "_Float16": F16, "__nv_bfloat16": BF16, "nv_bfloat16": BF16, "__bf16": BF16,
    "__int8": I8, "__int16": I16, "__int32": I32, "__int64": I64, "clock_t": I64, "cudaTextureObject_t": U64,
    "cudaSurfaceObject_t": U64, "nullptr_t": Ptr(VOID), "CUdeviceptr": U64, "cufftReal": F32, "cufftDoubleReal": F64,
    "__nv_fp8_e4m3": U8, "__nv_fp8_e5m2": U8,
}  # fmt: skip

_HANDLES = {
    "curandState": (48, 8), "curandState_t": (48, 8), "curandStateXORWOW_t": (48, 8), "curandStateXORWOW": (48, 8),
    "curandStatePhilox4_32_10_t": (64, 16), "curandStatePhilox4_32_10": (64, 16), "curandStateMRG32k3a": (48, 8),
    "curandStateMRG32k3a_t": (48, 8), "curandStateSobol32": (136, 4), "curandStateSobol32_t": (136, 4),
    "curandStateScrambledSobol32": (136, 4), "curandStateSobol64": (536, 8), "curandStateScrambledSobol64": (544, 8),
    "curandStateMtgp32": (4120, 8), "curandDiscreteDistribution_t": (8, 8), "CUtensorMap": (128, 64),
    "cudaError_t": (4, 4), "FILE": (216, 8),
}  # fmt: skip


_COMPLEX = {
    "cuComplex": "float2", "cuFloatComplex": "float2", "cufftComplex": "float2",
    "cuDoubleComplex": "double2", "cufftDoubleComplex": "double2",
}  # fmt: skip
"""Typedefs of cuComplex.h and cufft.h."""


def _vector(name: str, of: Scalar, count: int, align: int) -> Record:
    fields = tuple(Field("xyzw"[i], of, i * of.size) for i in range(count))
    return Record(name, "struct", fields, count * of.size, align, vector=True, qualified=name)


def _vectors() -> dict[str, Record]:
    """Alignments: CUDA C++ Programming Guide, Built-in Vector Types."""
    bases = {
        "char": I8, "uchar": U8, "short": I16, "ushort": U16, "int": I32, "uint": U32, "long": I64, "ulong": U64,
        "longlong": I64, "ulonglong": U64, "float": F32, "double": F64,
    }  # fmt: skip
    table: dict[str, Record] = {}
    for name, of in bases.items():
        for count in (1, 2, 3, 4):
            align = of.size if count in (1, 3) else min(of.size * count, 16)
            table[f"{name}{count}"] = _vector(f"{name}{count}", of, count, align)
    for name in ("long4", "ulong4", "longlong4", "ulonglong4", "double4"):
        element = table[name].fields[0].type
        assert isinstance(element, Scalar)
        table[name + "_16a"] = table[name]
        table[name + "_32a"] = _vector(name + "_32a", element, 4, 32)
    table["dim3"] = _vector("dim3", U32, 3, 4)
    for name, labels in (("cudaExtent", ("width", "height", "depth")), ("cudaPos", ("x", "y", "z"))):
        fields = tuple(Field(label, U64, i * 8) for i, label in enumerate(labels))
        table[name] = Record(name, "struct", fields, 24, 8, vector=True, qualified=name)
    for header, plain in _COMPLEX.items():
        table[header] = table[plain]
    for names, of in ((("half2", "__half2"), F16), (("__nv_bfloat162", "nv_bfloat162"), BF16)):
        table[names[0]] = table[names[1]] = _vector(names[0], of, 2, 4)
    return table


VECTORS = _vectors()


def builtin_type(name: str) -> CType | None:
    """A type every CUDA program knows without a declaration in the project."""
    if name in _WORDS:
        return _WORDS[name]
    if name in VECTORS:
        return VECTORS[name]
    if name in _HANDLES:
        size, align = _HANDLES[name]
        return Handle(name, size, align)
    return None


def words_type(words: list[str]) -> CType | None:
    """A type made of several key words: ``unsigned long long int``."""
    counts = {w: words.count(w) for w in words}
    unsigned = "unsigned" in counts
    if "double" in counts:
        return F64
    if "char" in counts:
        return U8 if unsigned else I8
    if "short" in counts:
        return U16 if unsigned else I16
    if "long" in counts:
        return U64 if unsigned else I64
    if "__int64" in counts:
        return U64 if unsigned else I64
    if unsigned or "signed" in counts or "int" in counts:
        return U32 if unsigned else I32
    return None


SPACES: dict[str, Space] = {
    "__shared__": "shared", "__constant__": "constant", "__device__": "global", "__managed__": "global",
}  # fmt: skip
