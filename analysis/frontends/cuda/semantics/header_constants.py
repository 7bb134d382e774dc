"""Names of the CUDA, C and C++ headers that stand for constants."""

from __future__ import annotations

import math

from prelaunch.analysis.kernel import F32, F64, I32, I64, U32, U64, Scalar

_FLT_MAX, _DBL_MAX = 3.4028234663852886e38, 1.7976931348623157e308
CONSTANTS: dict[str, tuple[int | float, Scalar]] = {
    "warpSize": (32, I32), "INT_MAX": (2**31 - 1, I32), "INT_MIN": (-(2**31), I32), "UINT_MAX": (2**32 - 1, U32),
    "LONG_MAX": (2**63 - 1, I64), "LONG_MIN": (-(2**63), I64), "LLONG_MAX": (2**63 - 1, I64), "CHAR_BIT": (8, I32),
    "LLONG_MIN": (-(2**63), I64), "ULLONG_MAX": (2**64 - 1, U64), "ULONG_MAX": (2**64 - 1, U64),
    "SIZE_MAX": (2**64 - 1, U64), "UINT32_MAX": (2**32 - 1, U32), "INT32_MAX": (2**31 - 1, I32),
    "INT32_MIN": (-(2**31), I32), "UINT64_MAX": (2**64 - 1, U64), "INT64_MAX": (2**63 - 1, I64),
    "UINT8_MAX": (255, I32), "INT8_MAX": (127, I32), "UINT16_MAX": (65535, I32), "INT16_MAX": (32767, I32),
    "SHRT_MAX": (32767, I32), "SHRT_MIN": (-32768, I32), "USHRT_MAX": (65535, I32), "UCHAR_MAX": (255, I32),
    "CHAR_MAX": (127, I32), "RAND_MAX": (2**31 - 1, I32),
    "FLT_MAX": (_FLT_MAX, F32), "FLT_MIN": (1.1754943508222875e-38, F32), "FLT_EPSILON": (1.1920928955078125e-07, F32),
    "DBL_MAX": (_DBL_MAX, F64), "DBL_MIN": (2.2250738585072014e-308, F64), "DBL_EPSILON": (2.220446049250313e-16, F64),
    "INFINITY": (math.inf, F32), "NAN": (math.nan, F32), "HUGE_VALF": (math.inf, F32), "HUGE_VAL": (math.inf, F64),
    "CUDART_INF_F": (math.inf, F32), "CUDART_INF": (math.inf, F64), "CUDART_NAN_F": (math.nan, F32),
    "CUDART_MAX_NORMAL_F": (_FLT_MAX, F32), "CUDART_PI_F": (3.1415927410125732, F32), "CUDART_PI": (math.pi, F64),
    "CUDART_TWO_TO_M126_F": (2.0**-126, F32), "CUDART_SQRT_HALF_F": (0.7071067690849304, F32),
    "M_PI": (math.pi, F64), "M_PI_2": (math.pi / 2, F64), "M_PI_4": (math.pi / 4, F64), "M_1_PI": (1 / math.pi, F64),
    "M_2_PI": (2 / math.pi, F64), "M_2_SQRTPI": (2 / math.sqrt(math.pi), F64), "M_E": (math.e, F64),
    "M_SQRT2": (math.sqrt(2), F64), "M_SQRT1_2": (math.sqrt(0.5), F64), "M_LN2": (math.log(2), F64),
    "M_LN10": (math.log(10), F64), "M_LOG2E": (math.log2(math.e), F64), "M_LOG10E": (math.log10(math.e), F64),
    "__LINE__": (0, I32), "__CUDA_ARCH__": (900, I32), "EOF": (-1, I32),
}  # fmt: skip
"""Names of the CUDA, C and C++ headers that stand for constants."""
