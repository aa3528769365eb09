// Steps of a reduction that read padding: which there are, and how many are left without them.
#include "rtile/padding.h"

#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/nest.h"

using namespace rgen;
using rtile::PaddedTaps;

namespace {

std::vector<PaddedTaps> taps_of(const std::string& shape, const std::string& compute) {
  const std::string weights = compute.find('W') == std::string::npos ? "" : R"(, "W": {"shape": [5, 9], "constant": true})";
  const auto program = ir::parse_program(R"({"name": "p", "inputs": {"X": {"shape": )" + shape + "}" + weights + R"(}, "compute": [")" +
                                         compute + R"("], "outputs": ["Y"]})");
  return rtile::padded_taps(program, rtile::build_nests(program).front());
}

/// Counts what `share` computes.
double counted(const PaddedTaps& t, int64_t size) {
  int64_t kept = 0, all = 0;
  for (int64_t begin = 0; begin < t.places; begin += size)
    for (int64_t r = 0; r < t.taps; ++r, ++all) {
      bool before = true, behind = true;
      for (int64_t o = begin; o < std::min(begin + size, t.places); ++o) {
        const int64_t at = t.stride * o + t.dilation * r + t.offset;
        before &= at < 0, behind &= at >= t.extent;
      }
      kept += !before && !behind;
    }
  return double(kept) / double(all);
}

}  // namespace

TEST_CASE("the steps that read padding are counted") {
  for (const auto& [compute, taps] :
       std::vector<std::pair<std::string, int>>{{"Y[p:7, k:5] = sum(r:3 | X[p + r - 1 ? 0] * W[k, r])", 3},
                                                {"Y[p:4, k:5] = sum(r:5 | X[2*p + r - 2 ? 0] * W[k, r])", 5},
                                                {"Y[p:7, k:5] = sum(r:3 | X[p + 3*r - 3 ? 0] * W[k, r])", 3},
                                                {"Y[p:15, k:5] = sum(r:9 | X[p + r - 8 ? 0] * W[k, r])", 9},
                                                {"Y[p:2, k:5] = sum(r:2 | X[3*p + 2*r - 1 ? 0] * W[k, r])", 2}}) {
    CAPTURE(compute);
    const auto found = taps_of("[7]", compute);
    REQUIRE(found.size() == 1);
    CHECK(found[0].taps == taps);
    for (int64_t size = 1; size <= found[0].places; ++size)
      if (found[0].places % size == 0) CHECK(found[0].share(size) == doctest::Approx(counted(found[0], size)));
  }
  CHECK(taps_of("[7]", "Y[p:7, k:5] = sum(r:3 | X[p + r - 1 ? 0] * W[k, r])")[0].share(1) == doctest::Approx(19.0 / 21));
}

TEST_CASE("only what is neutral to the reduction is left out") {
  CHECK(taps_of("[7]", "Y[p:7] = sum(r:3 | X[p + r - 1 ? 0])").size() == 1);
  CHECK(taps_of("[7]", "Y[p:7] = sum(r:3 | X[p + r - 1 ? 1])").empty());
  CHECK(taps_of("[7]", "Y[p:7] = sum(r:3 | X[p + r - 1 ? 0] + 1)").empty());
  CHECK(taps_of("[7]", "Y[p:7] = sum(r:3 | exp(X[p + r - 1 ? 0]))").empty());
  CHECK(taps_of("[7]", "Y[p:7] = max(r:3 | X[p + r - 1 ? -inf])").size() == 1);
  CHECK(taps_of("[7]", "Y[p:7] = max(r:3 | X[p + r - 1 ? 0])").empty());
  CHECK(taps_of("[7]", "Y[p:7] = prod(r:3 | X[p + r - 1 ? 1])").size() == 1);
  CHECK(taps_of("[7]", "Y[p:5, k:5] = sum(r:3 | X[p + r] * W[k, r])").empty());  // no padding
}

TEST_CASE("two padded dimensions have an axis each") {
  const auto found = taps_of("[7, 6]", "Y[p:7, q:6] = sum(r:3, s:5 | X[p + r - 1 ? 0, q + s - 2 ? 0] * W[r, s])");
  REQUIRE(found.size() == 2);
  CHECK(found[0].reduced != found[1].reduced);
  CHECK(found[0].output != found[1].output);
}
