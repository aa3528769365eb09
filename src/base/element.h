// Typed elements of a buffer as doubles. bf16 and f16 are 16-bit words; conversions round to nearest even, integers saturate.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace rgen {

/// The significand's bits (the leading one included), the smallest normal exponent, and the largest finite value.
struct FloatFormat {
  int bits, min_exponent;
  double largest;
};
constexpr FloatFormat format_of(DType t) {
  switch (t) {
    case DType::f16:
      return {11, -14, 65504.0};
    case DType::bf16:
      return {8, -126, 0x1.fep127};
    default:
      return {24, -126, 0x1.fffffep127};
  }
}
/// 2^-bits: the largest relative error of a rounding to nearest.
inline double unit_roundoff(DType t) { return std::ldexp(1.0, -format_of(t).bits); }

/// The distance of the format's numbers next to x; the least one for 0 and what is not finite.
inline double ulp(double x, DType t) {
  const FloatFormat f = format_of(t);
  const int exponent = std::isfinite(x) && x != 0 ? std::max(std::ilogb(x), f.min_exponent) : f.min_exponent;
  return std::ldexp(1.0, exponent - f.bits + 1);
}

/// x as the format holds it, subnormals and overflow to infinity included.
inline double round_float(double x, DType t) {
  if (t == DType::f32) return double(static_cast<float>(x));
  if (!std::isfinite(x) || x == 0) return x;
  const double step = ulp(x, t), r = std::nearbyint(x / step) * step;
  return std::abs(r) > format_of(t).largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : r;
}

/// To the nearest integer (ties to even), then into the type's range; NaN becomes 0.
inline double round_integer(double x, DType t) {
  const IntegerRange r = range_of(t);
  return std::isnan(x) ? 0 : std::clamp(std::nearbyint(x), r.least, r.most);
}
inline double round_to(double x, DType t) { return is_float(t) ? round_float(x, t) : round_integer(x, t); }

inline double decode_f16(uint16_t h) {
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  const double magnitude = exponent == 31  ? (fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}
/// Precondition: x is a value of the format (round_float) or NaN.
inline uint16_t encode_f16(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double m = std::abs(x);
  if (std::isnan(x)) return 0x7e00;
  if (std::isinf(x)) return uint16_t(sign | 0x7c00);
  if (m < 0x1p-14) return uint16_t(sign | int(m * 0x1p24));
  const int exponent = std::ilogb(m);
  return uint16_t(sign | ((exponent + 15) << 10) | (int(std::ldexp(m, 10 - exponent)) & 1023));
}

inline double load_element(const void* base, int64_t i, DType t) {
  switch (t) {
    case DType::f32:
      return static_cast<const float*>(base)[i];
    case DType::f16:
      return decode_f16(static_cast<const uint16_t*>(base)[i]);
    case DType::bf16:
      return std::bit_cast<float>(uint32_t(static_cast<const uint16_t*>(base)[i]) << 16);
    case DType::s8:
      return static_cast<const int8_t*>(base)[i];
    case DType::u8:
      return static_cast<const uint8_t*>(base)[i];
    case DType::s16:
      return static_cast<const int16_t*>(base)[i];
    case DType::s32:
      return static_cast<const int32_t*>(base)[i];
  }
  return 0;
}

inline void store_element(void* base, int64_t i, DType t, double x) {
  x = round_to(x, t);
  switch (t) {
    case DType::f32:
      static_cast<float*>(base)[i] = float(x);
      break;
    case DType::f16:
      static_cast<uint16_t*>(base)[i] = encode_f16(x);
      break;
    case DType::bf16:
      static_cast<uint16_t*>(base)[i] = uint16_t(std::bit_cast<uint32_t>(float(x)) >> 16);
      break;
    case DType::s8:
      static_cast<int8_t*>(base)[i] = int8_t(x);
      break;
    case DType::u8:
      static_cast<uint8_t*>(base)[i] = uint8_t(x);
      break;
    case DType::s16:
      static_cast<int16_t*>(base)[i] = int16_t(x);
      break;
    case DType::s32:
      static_cast<int32_t*>(base)[i] = int32_t(x);
      break;
  }
}

}  // namespace rgen
