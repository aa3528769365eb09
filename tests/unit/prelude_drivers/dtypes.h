// Element types of the vector primitives: what a stored word means, and what a value is stored as, one at a time.
#pragma once
#include <limits>

#include "checks.h"

struct F32 {
  using Word = float;
  using Value = float;
  static constexpr const char* name = "f32";
  static Value decode(Word w) { return w; }
  static Word encode(Value v) { return v; }
};
/// A binary format of 1 sign bit, `exponent` bits and `mantissa` bits; ties to even.
template <int exponent, int mantissa>
struct SmallFloat {
  using Word = uint16_t;
  using Value = float;
  static constexpr int bias = (1 << (exponent - 1)) - 1, top = (1 << exponent) - 1;
  static Value decode(Word w) {
    const int e = w >> mantissa & top, m = w & ((1 << mantissa) - 1);
    const double magnitude = e == top ? (m ? NAN : INFINITY) : std::ldexp(m + (e ? 1 << mantissa : 0), (e ? e : 1) - bias - mantissa);
    return static_cast<float>(w >> 15 ? -magnitude : magnitude);
  }
  static Word encode(Value v) {
    const int sign = std::signbit(v) ? 0x8000 : 0;
    if (v != v) return static_cast<Word>(sign | top << mantissa | 1 << (mantissa - 1));
    const double a = std::fabs(static_cast<double>(v));
    int e = a == 0 ? 1 - bias : std::ilogb(a);
    e = e < 1 - bias ? 1 - bias : e;
    if (std::isinf(v) || e > bias) return static_cast<Word>(sign | top << mantissa);
    const long units = std::lrint(std::ldexp(a, mantissa - e));  // may carry into the exponent, as it should
    return static_cast<Word>(sign | (units + (static_cast<long>(e + bias - 1) << mantissa)));
  }
};
struct Bf16 : SmallFloat<8, 7> {
  static constexpr const char* name = "bf16";
#if defined(__AVX512BF16__)
  static Word encode(Value v) {  // the instruction takes and gives no subnormals
    return std::fabs(v) < 0x1p-126f ? static_cast<Word>(std::signbit(v) ? 0x8000 : 0) : SmallFloat::encode(v);
  }
#endif
};
struct F16 : SmallFloat<5, 10> {
  static constexpr const char* name = "f16";
};
template <class W>
struct Integer {
  using Word = W;
  using Value = int32_t;
  static Value decode(Word w) { return w; }
  static Word encode(int32_t v) {
    constexpr int64_t low = std::numeric_limits<W>::min(), high = std::numeric_limits<W>::max();
    return static_cast<Word>(v < low ? low : v > high ? high : v);
  }
  static Word encode(float v) {
    return encode(v != v ? 0 : v >= 2147483648.f ? INT32_MAX : v < -2147483648.f ? INT32_MIN : static_cast<int32_t>(std::lrint(v)));
  }
};
struct S32 : Integer<int32_t> {
  static constexpr const char* name = "s32";
};
struct S16 : Integer<int16_t> {
  static constexpr const char* name = "s16";
};
struct S8 : Integer<int8_t> {
  static constexpr const char* name = "s8";
};
struct U8 : Integer<uint8_t> {
  static constexpr const char* name = "u8";
};
