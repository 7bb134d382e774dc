"""Words of PTX: register types, operands in braces."""

from __future__ import annotations

from prelaunch.analysis.kernel import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar

TYPES: dict[str, Scalar] = {
    "pred": BOOL, "b8": U8, "b16": U16, "b32": U32, "b64": U64, "u8": U8, "u16": U16, "u32": U32, "u64": U64,
    "s8": I8, "s16": I16, "s32": I32, "s64": I64, "f16": F16, "f32": F32, "f64": F64, "bf16": BF16,
    "f16x2": U32, "bf16x2": U32,
}  # fmt: skip


def type_of(word: str) -> Scalar | None:
    return TYPES.get(word)


def last_type(parts: list[str]) -> Scalar | None:
    return next((TYPES[p] for p in reversed(parts) if p in TYPES), None)


def vector(text: str) -> list[str]:
    """``{a, b}`` as its elements, anything else as itself."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        return [p.strip() for p in inner[1:-1].split(",")]
    return [inner]
