"""Small stand-ins for headers, so that kernels compile where no toolkit is installed.

They declare what device code uses of the standard headers; everything host-only is empty. CUDA's own headers are
taken from the toolkit when there is one (``slice.py`` keeps only includes of ``TOOLKIT``).
"""

from __future__ import annotations

_INTEGERS = """
#ifndef PRELAUNCH_INTEGERS
#define PRELAUNCH_INTEGERS
#ifndef _CUDA_STD_CSTDINT
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
#ifdef _WIN32
typedef long long int64_t; typedef unsigned long long uint64_t;
#else
typedef long int64_t; typedef unsigned long uint64_t;
#endif
typedef int64_t intptr_t; typedef uint64_t uintptr_t;
#endif
typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned char uchar; typedef unsigned long ulong;
#undef INT8_MAX
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
#endif
"""

_LIMITS = """
#ifndef PRELAUNCH_LIMITS
#define PRELAUNCH_LIMITS
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define CHAR_MIN (-128)
#define CHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX 18446744073709551615ull
#endif
"""

_FLOATS = """
#ifndef PRELAUNCH_FLOATS
#define PRELAUNCH_FLOATS
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define FLT_DIG 6
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-016
#define DBL_DIG 15
#endif
"""

_MATH = """
#ifndef PRELAUNCH_MATH
#define PRELAUNCH_MATH
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef HUGE_VAL
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#endif
#endif
"""

_STANDARD = """
#ifndef PRELAUNCH_STANDARD
#define PRELAUNCH_STANDARD
namespace std {
using ::uint8_t; using ::int8_t; using ::uint16_t; using ::int16_t;
using ::uint32_t; using ::int32_t; using ::uint64_t; using ::int64_t; using ::uintptr_t; using ::intptr_t;
using ::size_t; using ::ptrdiff_t;
template <class T> constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> constexpr void swap(T& a, T& b) { T c = a; a = b; b = c; }
template <class T, T v> struct integral_constant {
  static constexpr T value = v; using value_type = T; using type = integral_constant;
  constexpr operator T() const { return v; }
};
using true_type = integral_constant<bool, true>; using false_type = integral_constant<bool, false>;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T, class U> inline constexpr bool is_same_v = is_same<T, U>::value;
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> struct is_floating_point : false_type {};
template <> struct is_floating_point<float> : true_type {};
template <> struct is_floating_point<double> : true_type {};
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> struct is_integral : false_type {};
@INTEGERS@template <class T> inline constexpr bool is_integral_v = is_integral<T>::value;
}
#endif
"""

_INTEGER_TYPES = (
    "bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long",
    "unsigned long", "long long", "unsigned long long",
)  # fmt: skip
_INTEGRAL = "".join(f"template <> struct is_integral<{t}> : true_type {{}};\n" for t in _INTEGER_TYPES)
_STANDARD = _STANDARD.replace("@INTEGERS@", _INTEGRAL)

PRELUDE = "".join((_INTEGERS, _LIMITS, _FLOATS, _MATH))
"""Text put before every unit: fixed-width integers, limits and constants."""

STUBS: dict[str, str] = {
    "stdint.h": _INTEGERS, "cstdint": _INTEGERS, "inttypes.h": _INTEGERS, "limits.h": _LIMITS, "climits": _LIMITS,
    "float.h": _FLOATS, "cfloat": _FLOATS, "math.h": _MATH, "cmath": _MATH, "algorithm": _STANDARD,
    "utility": _STANDARD, "type_traits": _STANDARD, "cstddef": _STANDARD,
    **dict.fromkeys(("stddef.h", "assert.h", "cassert", "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h",
                     "cstring", "cuda_runtime.h", "cuda.h", "cuda_runtime_api.h", "device_launch_parameters.h",
                     "time.h", "ctime", "sys/time.h", "unistd.h"), ""),
}  # fmt: skip
"""Headers given to NVRTC in memory."""

TOOLKIT = frozenset(
    {
        "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cooperative_groups.h", "cooperative_groups/reduce.h",
        "cooperative_groups/scan.h", "cooperative_groups/memcpy_async.h", "mma.h", "cuda_pipeline.h", "cuComplex.h",
        "math_constants.h", "vector_types.h", "vector_functions.h", "cuda_awbarrier.h", "curand_kernel.h",
        "cuda/pipeline", "cuda/barrier", "cuda/atomic", "cuda/std/cstdint", "cuda/std/type_traits", "cuda/std/limits",
        "cuda/std/utility", "cuda/std/cstddef", "cub/cub.cuh", "cub/block/block_reduce.cuh", "cub/warp/warp_reduce.cuh",
        "cub/block/block_scan.cuh", "math_functions.h", "device_functions.h", "sm_60_atomic_functions.h",
        "cuda_texture_types.h", "texture_types.h", "surface_types.h", "texture_indirect_functions.h",
    }
)  # fmt: skip
"""Headers kept as includes when a toolkit is there: found in its folders only, never in the repository."""

STANDARD_INCLUDES = (
    "assert.h", "stdio.h", "stdint.h", "limits.h", "float.h", "math.h", "algorithm", "type_traits", "utility", "limits",
)  # fmt: skip
"""What nvcc units include instead of the stand-ins."""
