// Element types. bf16 and f16 are stored as 16-bit words. s16 is no type of a spec's: copies of bytes have it, for products that take it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rgen {

enum class DType : uint8_t { f32, f16, bf16, s8, u8, s32, s16 };

constexpr int size_of(DType t) {
  switch (t) {
    case DType::f32:
    case DType::s32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::s16:
      return 2;
    case DType::s8:
    case DType::u8:
      return 1;
  }
  return 0;
}
constexpr bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }
/// The values of an integer type.
struct IntegerRange {
  double least, most;
};
/// Pre: !is_float(t).
constexpr IntegerRange range_of(DType t) {
  const double half = t == DType::u8 ? 256 : t == DType::s8 ? 128 : t == DType::s16 ? 0x1p15 : 0x1p31;
  return {t == DType::u8 ? 0 : -half, half - 1};
}
/// The type in which intermediates and sums are kept: f32 for floating types, s32 for integers.
constexpr DType accumulation(DType t) { return is_float(t) ? DType::f32 : DType::s32; }
constexpr std::string_view to_string(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::s8:
      return "s8";
    case DType::u8:
      return "u8";
    case DType::s32:
      return "s32";
    case DType::s16:
      return "s16";
  }
  return "?";
}
/// Of the types that a spec can name.
constexpr std::optional<DType> parse_dtype(std::string_view s) {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32})
    if (to_string(t) == s) return t;
  return std::nullopt;
}

}  // namespace rgen
