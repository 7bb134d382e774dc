"""NumPy evaluators of the pure functions of the intrinsics table, keyed by IR function name.

Registers are arrays (or NumPy scalars) of ``dtype(type)``: bool, intN, uintN, float16/32/64; ``bfloat16`` is carried as
float32 whose values are bfloat16 values; pointers are uint64.

Guarantees: integer functions are exact. Basic floating point operations (add, sub, mul, div, sqrt, fma, rcp,
conversions, in every named rounding) are correctly rounded as IEEE 754 says. Transcendental functions are computed in
double precision and rounded once, so they may differ from a device's by the error CUDA documents (CUDA Math API,
"Mathematical Functions Appendix"); fast variants share the evaluator of their exact name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from prelaunch.analysis.intrinsics.floats import FLOATS, round_bfloat
from prelaunch.analysis.intrinsics.integers import INTEGERS
from prelaunch.analysis.kernel import Pointer, Scalar, Type

Lanes = npt.NDArray[Any]
Evaluator = Callable[..., Any]

_DTYPES: dict[tuple[str, int], np.dtype[Any]] = {
    ("bool", 8): np.dtype(np.bool_),
    **{("int", bits): np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{("uint", bits): np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{("float", bits): np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    ("bfloat", 16): np.dtype(np.float32),
}


def dtype(type: Type) -> np.dtype[Any]:
    """The NumPy type of a register of this IR type. Raises KeyError for widths the IR does not have."""
    if isinstance(type, Pointer):
        return np.dtype(np.uint64)
    return _DTYPES[type.kind, type.bits]


EVALUATORS: dict[str, Evaluator] = {**INTEGERS, **FLOATS}
"""``f(result dtype, *arguments)``. A name in both tables dispatches on the arguments inside."""


def evaluate(name: str, type: Scalar, *args: Any) -> Any:
    """Value of ``Pure(name, args)`` of result ``type``, lane by lane; arguments broadcast.

    Raises KeyError for a function that has no evaluator. Never raises for values: domain errors give NaN.
    """
    function = EVALUATORS[name]
    with np.errstate(all="ignore"):
        result = function(dtype(type), *args)
        if type.kind == "bfloat":
            return round_bfloat(np.asarray(result))
        return np.asarray(result).astype(dtype(type), copy=False)
