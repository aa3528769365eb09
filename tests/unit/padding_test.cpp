// Steps of a reduction that read padding: which there are, and how many are left without them.
#include "rtile/padding.h"

#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/rprogram.h"

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
  const rtile::Blocking blocks(t.places, 1, size);
  int64_t kept = 0, all = 0;
  for (int64_t b = 0; b < blocks.blocks; ++b)
    for (int64_t r = 0; r < t.taps; ++r, ++all) {
      bool before = true, behind = true;
      for (int64_t o = blocks.start(b); o < blocks.start(b + 1); ++o) {
        const int64_t at = t.stride * o + t.dilation * r + t.offset;
        before &= at < 0, behind &= at >= t.extent;
      }
      kept += !before && !behind;
    }
  return double(kept) / double(all);
}

/// Counts what `whole` computes.
double counted_whole(const PaddedTaps& t, int64_t size) {
  const rtile::Blocking blocks(t.places, 1, size);
  int64_t whole = 0, all = 0;
  for (int64_t b = 0; b < blocks.blocks; ++b)
    for (int64_t r = 0; r < t.taps; ++r, ++all) {
      bool in = true;
      for (int64_t o = blocks.start(b); o < blocks.start(b + 1); ++o) {
        const int64_t at = t.stride * o + t.dilation * r + t.offset;
        in &= at >= 0 && at < t.extent;
      }
      whole += in;
    }
  return double(whole) / double(all);
}

/// Counts what `inside` computes: from the first to the last element that a block reaches.
double counted_inside(const PaddedTaps& t, int64_t steps, int64_t size) {
  const rtile::Blocking blocks(t.places, 1, size);
  int64_t in = 0, all = 0;
  for (int64_t b = 0; b < blocks.blocks; ++b)
    for (int64_t r = 0; r < t.taps; r += steps) {
      const int64_t first = t.stride * blocks.start(b) + t.dilation * r + t.offset,
                    last = t.stride * (blocks.start(b + 1) - 1) + t.dilation * (std::min(r + steps, t.taps) - 1) + t.offset;
      for (int64_t at = first; at <= last; ++at, ++all) in += at >= 0 && at < t.extent;
    }
  return double(in) / double(all);
}

}  // namespace

TEST_CASE("the steps that read padding are counted") {
  for (const auto& [compute, taps] :
       std::vector<std::pair<std::string, int>>{{"Y[p:7, k:5] = sum(r:3 | X[p + r - 1 ? 0] * W[k, r])", 3},
                                                {"Y[p:4, k:5] = sum(r:5 | X[2*p + r - 2 ? 0] * W[k, r])", 5},
                                                {"Y[p:7, k:5] = sum(r:3 | X[p + 3*r - 3 ? 0] * W[k, r])", 3},
                                                {"Y[p:15, k:5] = sum(r:9 | X[p + r - 8 ? 0] * W[k, r])", 9},
                                                {"Y[p:5, k:5] = sum(r:7 | X[p + 2*r - 6 ? 0] * W[k, r])", 7},
                                                {"Y[p:2, k:5] = sum(r:2 | X[3*p + 2*r - 1 ? 0] * W[k, r])", 2}}) {
    CAPTURE(compute);
    const auto found = taps_of("[7]", compute);
    REQUIRE(found.size() == 1);
    CHECK(found[0].taps == taps);
    for (int64_t size = 1; size <= found[0].places; ++size) {
      CHECK(found[0].share(size) == doctest::Approx(counted(found[0], size)));
      CHECK(found[0].whole(size) == doctest::Approx(counted_whole(found[0], size)));
      for (int64_t steps = 1; steps <= taps; ++steps)
        CHECK(found[0].inside(steps, size) == doctest::Approx(counted_inside(found[0], steps, size)));
    }
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
