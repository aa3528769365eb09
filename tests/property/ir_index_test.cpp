// The algebra of indices on random ones, against integer arithmetic. The seed is in every failure.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <random>

#include "base/math.h"
#include "ir/tensor_program.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

constexpr int n_axes = 3;

/// An index and a function that computes the same from its construction.
struct Pair {
  Index index;
  std::function<int64_t(const std::vector<int64_t>&)> value;
};

Pair random_index(std::mt19937& random, int depth) {
  const auto below = [&](int n) { return int(random() % uint32_t(n)); };
  if (depth == 0) {
    const int a = below(n_axes + 1), c = below(9) - 4;
    if (a == n_axes) return {Index::number(c), [c](const auto&) { return c; }};
    return {Index::axis(a, c), [a, c](const auto& x) { return c * x[size_t(a)]; }};
  }
  const Pair p = random_index(random, depth - 1);
  const int c = 1 + below(6);
  switch (below(4)) {
    case 0: {
      const Pair q = random_index(random, depth - 1);
      return {p.index + q.index, [p, q](const auto& x) { return p.value(x) + q.value(x); }};
    }
    case 1:
      return {p.index * -c, [p, c](const auto& x) { return -c * p.value(x); }};
    case 2:
      return {floor_div(p.index, c), [p, c](const auto& x) { return floor_div(p.value(x), c); }};
    default:
      return {floor_mod(p.index, c), [p, c](const auto& x) { return floor_mod(p.value(x), c); }};
  }
}

}  // namespace

TEST_CASE("indices evaluate as built, and stay inside their bounds") {
  for (uint32_t seed = 1; seed <= 4000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Pair p = random_index(random, 1 + int(seed % 5));
    std::vector<int64_t> extents(n_axes);
    for (int64_t& e : extents) e = 1 + int64_t(random() % 5);
    const auto [lo, hi] = bounds(p.index, extents);
    int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
    for (int64_t a = 0; a < extents[0]; ++a)
      for (int64_t b = 0; b < extents[1]; ++b)
        for (int64_t c = 0; c < extents[2]; ++c) {
          const int64_t v = p.index.eval({a, b, c});
          REQUIRE(v == p.value({a, b, c}));
          least = std::min(least, v), most = std::max(most, v);
        }
    REQUIRE(lo <= least);
    REQUIRE(hi >= most);
    if (p.index.is_affine()) {
      REQUIRE(lo == least);
      REQUIRE(hi == most);
    }
  }
}

TEST_CASE("the normal form is stable") {
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Index x = random_index(random, 3).index, y = random_index(random, 2).index;
    const std::vector<Index> same{Index::axis(0), Index::axis(1), Index::axis(2)};
    REQUIRE(substitute(x, same) == x);
    REQUIRE(x + y == y + x);
    REQUIRE(x + y + y * -1 == x);
    REQUIRE(floor_div(x * 6, 6) == x);
    REQUIRE(floor_mod(x * 6 + floor_mod(y, 6), 6).eval({4, 1, 3}) == floor_mod(y.eval({4, 1, 3}), 6));
  }
}
