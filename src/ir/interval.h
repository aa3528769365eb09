// Saturating interval arithmetic for bounds of sizes and indices.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

namespace rgen::ir {

inline int64_t saturate(long double v) {
  constexpr long double limit = 9.2e18L;
  return v >= limit ? INT64_MAX : v <= -limit ? INT64_MIN : int64_t(v);
}
inline int64_t add_sat(int64_t a, int64_t b) { return saturate((long double)a + (long double)b); }
inline int64_t mul_sat(int64_t a, int64_t b) { return saturate((long double)a * (long double)b); }

using Interval = std::pair<int64_t, int64_t>;
inline Interval sum(Interval a, Interval b) { return {add_sat(a.first, b.first), add_sat(a.second, b.second)}; }
inline Interval times(Interval a, int64_t c) {
  Interval r{mul_sat(a.first, c), mul_sat(a.second, c)};
  if (c < 0) std::swap(r.first, r.second);
  return r;
}
inline Interval intersect(Interval a, Interval b) { return {std::max(a.first, b.first), std::min(a.second, b.second)}; }
inline Interval hull(std::initializer_list<int64_t> values) { return {std::min(values), std::max(values)}; }

}  // namespace rgen::ir
