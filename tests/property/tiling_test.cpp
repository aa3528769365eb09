// The arithmetic of tiles: how extents are cut into blocks, and how many bytes of an operand a box of axis values touches, against
// enumeration.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/math.h"
#include "rtile/layout.h"
#include "rtile/rprogram.h"
#include "rtile/workload.h"

using namespace rgen;
using rtile::Blocking;
using Operand = rtile::NestFacts::OperandFacts;

TEST_CASE("blocks cover an extent once, nearly equal and as few as their size allows") {
  for (int64_t extent = 1; extent <= 600; ++extent)
    for (int64_t unit : {1, 2, 3, 4, 8, 16})
      for (int64_t size = 1; size <= extent + 2 * unit; ++size) {
        const Blocking b(extent, unit, size);
        const int64_t units = ceil_div(extent, unit), most = std::max<int64_t>(1, ceil_div(std::min(size, extent), unit));
        bool ok = b.hi <= most && b.blocks == ceil_div(units, most) && b.n_hi >= 1 && b.n_hi <= b.blocks && b.units() == units;
        ok &= b.ragged() == (b.n_hi != b.blocks) && b.tail() >= 1 && b.tail() <= unit && b.size() == std::min(b.hi * unit, extent);
        ok &= b.start(0) == 0 && b.start(b.blocks) == units * unit;
        for (int64_t i = 0; i < b.blocks; ++i) ok &= b.start(i + 1) - b.start(i) == (i < b.n_hi ? b.hi : b.hi - 1) * unit;
        ok &= b.start(b.blocks - 1) < extent && (b.hi > 1 || b.n_hi == b.blocks);
        if (!ok) FAIL("extent " << extent << ", unit " << unit << ", size " << size << ": " << b.blocks << " blocks of " << b.hi);
      }
}

namespace {

constexpr int64_t line = 64, page = 4096;

struct Box {
  Operand operand;
  std::vector<int64_t> extents;
};

/// An operand of one to three dimensions over three axes, inside its tensor. `dense`: one axis, if any, moves each dimension, by one.
Box random_box(std::mt19937& random, bool dense) {
  const auto below = [&](int n) { return int64_t(random() % uint32_t(n)); };
  Box box;
  for (int a = 0; a < 3; ++a) box.extents.push_back(1 + below(9));
  Operand& o = box.operand;
  const int sizes[] = {1, 2, 4};
  o.element_bytes = sizes[below(3)];
  const int64_t rank = 1 + below(3), turn = below(3);
  for (int64_t d = 0; d < rank; ++d) {
    std::vector<int64_t> c(3, 0);
    if (dense)
      c[size_t((d + turn) % 3)] = below(4) > 0;
    else
      for (int64_t& x : c) x = below(4) > 1 ? below(4) : 0;
    int64_t reach = 1;
    for (size_t a = 0; a < 3; ++a) reach += c[a] * (box.extents[a] - 1);
    o.dim_coef.push_back(c);
    o.shape.push_back(reach + (below(2) ? below(40) : 0));
  }
  o.walks = rtile::walks_of(o.dim_coef);
  const auto strides = rtile::row_major(o.shape);
  o.coef.assign(3, 0);
  for (size_t d = 0; d < o.shape.size(); ++d)
    for (size_t a = 0; a < 3; ++a) o.coef[a] += strides[d] * o.dim_coef[d][a];
  return box;
}

template <class F>
void for_each_point(const std::vector<int64_t>& extents, F&& f) {
  for (int64_t a = 0; a < extents[0]; ++a)
    for (int64_t b = 0; b < extents[1]; ++b)
      for (int64_t c = 0; c < extents[2]; ++c) f(std::vector<int64_t>{a, b, c});
}

std::set<int64_t> touched(const Box& box) {
  std::set<int64_t> elements;
  for_each_point(box.extents, [&](const std::vector<int64_t>& x) {
    int64_t at = 0;
    for (size_t a = 0; a < 3; ++a) at += box.operand.coef[a] * x[a];
    elements.insert(at);
  });
  return elements;
}

struct StretchBytes {
  double least = 0, most = 0;  ///< each begins at the best place in a line, at the worst
  double ragged = 0;           ///< each begins a line; half a line more where the end is ragged
};

/// Bytes of the lines that all stretches touch. Neighbours less than a line apart are one stretch.
StretchBytes bytes_of_stretches(const std::set<int64_t>& elements, int64_t element_bytes) {
  StretchBytes sum;
  int64_t first = *elements.begin() * element_bytes, end = first;
  const auto finish = [&] {
    const int64_t bytes = end - first;
    sum.least += double((bytes + line - 1) / line * line);
    sum.most += double((bytes + 2 * line - 2) / line * line);
    sum.ragged += std::max<double>(double(line), double(bytes) + (bytes > line && bytes % line != 0 ? double(line) / 2 : 0));
  };
  for (int64_t e : elements) {
    if (e * element_bytes - end >= line) finish(), first = e * element_bytes;
    end = (e + 1) * element_bytes;
  }
  finish();
  return sum;
}

void require_between(double bytes, const StretchBytes& of) {
  REQUIRE(bytes >= doctest::Approx(of.least));
  REQUIRE(bytes <= doctest::Approx(of.most));
}

}  // namespace

TEST_CASE(
    "the footprint of a dense box is that of its stretches; with gaps it is that of the whole box, but for what is skipped beyond a page") {
  for (uint32_t seed = 1; seed <= 4000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const bool dense = seed % 2 == 0;
    const Box box = random_box(random, dense);
    const auto elements = touched(box);
    const double bytes = rtile::footprint_bytes(box.operand, box.extents, int(line), rtile::Fetch::rows);
    REQUIRE(bytes >= double(int64_t(elements.size()) * box.operand.element_bytes));
    if (dense) {
      require_between(bytes, bytes_of_stretches(elements, box.operand.element_bytes));
      continue;
    }
    // with gaps: everything between the smallest and the largest index of each dimension, but where neighbours are a page apart
    std::set<int64_t> whole{0};
    const auto strides = rtile::row_major(box.operand.shape);
    bool distinct = true;
    for (size_t d = 0; d < strides.size(); ++d) {
      std::set<int64_t> index;
      int64_t points = 1;
      const auto& c = box.operand.dim_coef[d];
      for_each_point(box.extents, [&](const std::vector<int64_t>& x) { index.insert(c[0] * x[0] + c[1] * x[1] + c[2] * x[2]); });
      for (size_t i = 0; i < 3; ++i) points *= c[i] != 0 ? box.extents[i] : 1;
      const int64_t span = *index.rbegin() + 1;
      if (strides[d] * box.operand.element_bytes < page)
        for (int64_t i = 0; i < span; ++i) index.insert(i);
      else
        distinct &= int64_t(index.size()) == std::min(span, points);
      std::set<int64_t> all;
      for (int64_t at : whole)
        for (int64_t i : index) all.insert(at + i * strides[d]);
      whole = std::move(all);
    }
    if (!distinct) continue;  // the footprint counts rows that several points share once for each
    require_between(bytes, bytes_of_stretches(whole, box.operand.element_bytes));
  }
}

TEST_CASE("a walk that skips rows touches at least its elements, at most the whole box, a dense one its stretches") {
  for (uint32_t seed = 1; seed <= 4000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const bool dense = seed % 2 == 0;
    const Box box = random_box(random, dense);
    const double whole = rtile::footprint_bytes(box.operand, box.extents, int(line), rtile::Fetch::rows);
    const double some = rtile::footprint_bytes(box.operand, box.extents, int(line), rtile::Fetch::sectors);
    const auto elements = touched(box);
    REQUIRE(some >= double(int64_t(elements.size()) * box.operand.element_bytes));
    REQUIRE(some <= whole);
    if (dense) REQUIRE(some == doctest::Approx(bytes_of_stretches(elements, box.operand.element_bytes).ragged));
  }
}

TEST_CASE("pieces of rows touch as many lines as they do on average over all their places") {
  Operand o;
  o.element_bytes = 4, o.dim_coef = {{1, 0}, {0, 1}};
  o.walks = rtile::walks_of(o.dim_coef);
  for (int64_t channels : {499, 100, 40, 48, 64, 96})
    for (int64_t some : {8, 16, 24, 32}) {
      o.shape = {32 * 16, channels}, o.coef = {channels, 1};
      double lines = 0, pieces = 0;
      for (int64_t row = 0; row < o.shape[0]; ++row)
        for (int64_t at = 0; at + some <= channels; at += some, ++pieces) {
          const int64_t begin = 4 * (row * channels + at);
          lines += double((begin + 4 * some - 1) / line - begin / line + 1);
        }
      INFO(channels << " channels by " << some);
      CHECK(rtile::footprint_bytes(o, std::vector<int64_t>{1, some}, int(line), rtile::Fetch::rows) ==
            doctest::Approx(lines / pieces * line).epsilon(0.01));
      CHECK(rtile::footprint_bytes(o, std::vector<int64_t>{8, some}, int(line), rtile::Fetch::rows) ==
            doctest::Approx(8 * lines / pieces * line).epsilon(0.01));
    }
}

TEST_CASE("rows between those of a strided walk are not fetched") {
  rtile::NestFacts::OperandFacts o;  // every second row of 64 × 64 floats
  o.shape = {64, 64}, o.coef = {128, 1}, o.dim_coef = {{2, 0}, {0, 1}};
  o.walks = rtile::walks_of(o.dim_coef);
  CHECK(rtile::footprint_bytes(o, std::vector<int64_t>{32, 64}, 32, rtile::Fetch::rows) == 63 * 64 * 4);
  CHECK(rtile::footprint_bytes(o, std::vector<int64_t>{32, 64}, 32, rtile::Fetch::sectors) == 32 * 64 * 4);
}

TEST_CASE("rows of a window that a fused axis walks past the end of its dimension count once") {
  // X[r, x, c], x over rows and columns of 5 at once: what a depthwise layer of 7 x 1 places reads
  constexpr int64_t columns = 5, channels = 112, some = 16;
  Operand o;
  o.element_bytes = 4, o.shape = {40, columns, channels}, o.dim_coef = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  o.walks = rtile::walks_of(o.dim_coef);
  for (int64_t places : {1, 3, 5, 7, 20, 100})
    for (int64_t rows : {1, 2, 7}) {
      std::set<int64_t> read;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t x = 0; x < places; ++x) read.insert(r * columns + x);
      INFO(places << " places, " << rows << " rows");
      CHECK(rtile::footprint_bytes(o, std::vector<int64_t>{rows, places, some}, int(line), rtile::Fetch::rows) ==
            doctest::Approx(double(read.size()) * line));
    }
}

TEST_CASE("the footprint of a packed operand is its elements'") {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Box box = random_box(random, false);
    std::set<std::vector<int64_t>> packed;  // one element for every value of the axes that move it
    for_each_point(box.extents, [&](std::vector<int64_t> x) {
      for (size_t a = 0; a < 3; ++a)
        if (box.operand.coef[a] == 0) x[a] = 0;
      packed.insert(x);
    });
    REQUIRE(rtile::footprint_bytes(box.operand, box.extents, int(line), rtile::Fetch::packed) ==
            double(int64_t(packed.size()) * box.operand.element_bytes));
  }
}
