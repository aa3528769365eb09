// Memory that delivers several rows by turns faster than one, and packings that make several rows of one.
#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

bool by_vectors(const std::string& params, const hw::Profile& profile) {
  const auto program = ir::parse_program(R"({"op": "matmul", "dtype": "f32", "params": {)" + params + "}}");
  const auto plans = rtile::construct(program, profile, {1, 1});
  const auto& operands = plans.front().program->groups.back().nests.back().operands;
  return std::any_of(operands.begin(), operands.end(), [](const rtile::Operand& o) { return o.by_vectors; });
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

TEST_CASE("vectors of a matrix from memory lie apart where rows by turns come faster") {
  hw::Profile zen3 = hw::load_profile("zen3");
  const std::string large = R"("m": 1, "n": 4096, "k": 4096)";
  CHECK(by_vectors(large, zen3));
  CHECK(by_vectors(R"("m": 4, "n": 4096, "k": 4096)", zen3));
  CHECK_FALSE(by_vectors(R"("m": 1, "n": 512, "k": 512)", zen3));       // in a cache
  CHECK_FALSE(by_vectors(R"("m": 2048, "n": 2048, "k": 2048)", zen3));  // products take the time
  zen3.levels.back().row.clear();
  CHECK_FALSE(by_vectors(large, zen3));
}
