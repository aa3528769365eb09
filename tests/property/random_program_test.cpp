// The generator that fuzzing and property tests share: what it makes is valid, the same for the same draws, and simple when replayed from
// none.
#include "support/random_program.h"

#include <doctest/doctest.h>

#include "ir/ir.h"

using namespace rgen;

TEST_CASE("random programs are valid and read back as they were printed") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    test::Draws draws(seed);
    const std::string spec = test::random_spec(draws, "p");
    CAPTURE(spec);
    ir::TensorProgram p;
    REQUIRE_NOTHROW(p = ir::parse_program(spec));
    CHECK(ir::equal(ir::parse_program(ir::print_json(p)), p));
  }
}

TEST_CASE("replayed draws give the same program, shortened ones a valid one") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    test::Draws draws(seed);
    const std::string spec = test::random_spec(draws, "p");
    std::vector<uint32_t> made = draws.made();
    test::Draws again(made);
    CHECK(test::random_spec(again, "p") == spec);
    while (!made.empty()) {
      made.resize(made.size() * 2 / 3);
      test::Draws fewer(made);
      const std::string shorter = test::random_spec(fewer, "p");
      CAPTURE(shorter);
      CHECK_NOTHROW(ir::parse_program(shorter));
    }
  }
}

TEST_CASE("no draw stays within its range and its work") {
  test::Draws none(std::vector<uint32_t>{});
  const ir::TensorProgram p = ir::parse_program(test::random_spec(none, "p"));
  CHECK(p.stages.size() == 1);
  for (const ir::Axis& a : p.stages[0].axes) CHECK(a.extent.value() == 1);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const ir::TensorProgram q = test::random_program(seed, {1 << 14});
    for (const ir::Stage& s : q.stages) {
      int64_t points = 1;
      for (const ir::Axis& a : s.axes) points *= a.extent.value();
      CHECK(points <= 1 << 20);
    }
  }
}
