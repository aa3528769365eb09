// Integer arithmetic used everywhere: all divisions round towards minus infinity unless they say otherwise.
#pragma once
#include <cstdint>

namespace rgen {

constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
constexpr int64_t floor_mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); }
/// Precondition: a >= 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace rgen
