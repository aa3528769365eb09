// Memory that delivers several rows by turns faster than one, and packings that make several rows of one.
#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

struct Streams {
  int64_t streams, vectors;  ///< of the weights; of a tile
  bool asked;                ///< for lines of the weights ahead of their use
};
Streams streams(const std::string& params, const hw::Profile& profile) {
  const auto program = ir::parse_program(R"({"op": "matmul", "dtype": "f32", "params": {)" + params + "}}");
  const auto plans = rtile::construct(program, profile, {1, 1});
  const rtile::NestPlan& p = plans.front().program->groups.back().nests.back();
  Streams s{1, p.tile[size_t(p.vec)].hi, false};
  for (const rtile::Operand& o : p.operands) s.streams = std::max(s.streams, o.streams), s.asked |= o.packed() && o.ahead > 0;
  return s;
}

}  // namespace

TEST_CASE("time of rows by turns lies between that of one and that of eight") {
  hw::MemoryLevel memory;
  memory.read = {{1, 20}};
  CHECK(memory.by_turns(1, 1) == 1);
  memory.row = {{1, 10}}, memory.rows = {{1, 20}};
  CHECK(memory.by_turns(1, 1) == doctest::Approx(2));
  CHECK(memory.by_turns(2, 1) == doctest::Approx(1 + 3.0 / 7));
  CHECK(memory.by_turns(8, 1) == doctest::Approx(1));
  CHECK(memory.by_turns(100, 1) == memory.by_turns(8, 1));
  memory.rows = {{1, 40}};  // what `read` says is not exceeded
  CHECK(memory.by_turns(8, 1) == 1);
}

TEST_CASE("vectors of a matrix from memory lie apart where rows by turns come faster, else in two streams") {
  hw::Profile zen3 = hw::load_profile("zen3");
  const std::string large = R"("m": 1, "n": 4096, "k": 4096)";
  const auto by_vectors = [](const Streams& s) { return s.streams > 1 && s.streams == s.vectors; };
  CHECK(by_vectors(streams(large, zen3)));
  CHECK(!streams(large, zen3).asked);  // the prefetchers follow each row
  CHECK(by_vectors(streams(R"("m": 4, "n": 4096, "k": 4096)", zen3)));
  CHECK(streams(R"("m": 1, "n": 512, "k": 512)", zen3).streams == 1);       // in a cache
  CHECK(streams(R"("m": 2048, "n": 2048, "k": 2048)", zen3).streams == 1);  // products take the time
  zen3.levels.back().row.clear();
  const Streams two = streams(large, zen3);
  CHECK(two.streams == 2);
  CHECK(two.asked);
  CHECK(two.vectors >= 4);
  CHECK(streams(R"("m": 8, "n": 4096, "k": 4096)", zen3).streams == 1);  // fetched ahead
}
