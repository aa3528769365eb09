// What caches keep between calls, and what columns, and bodies that prefetchers do not follow, cost from them.
#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/residence.h"
#include "rtile/workload.h"

using namespace rgen;

namespace {

ir::TensorProgram sums(int64_t rows, int64_t length) {
  return ir::parse_program(R"({"name": "p", "op": "reduce_sum", "dtype": "f32", "params": {"shape": [)" + std::to_string(rows) + ", " +
                           std::to_string(length) + R"(], "axis": 1}})");
}

rtile::Residence of_sums(int64_t kib, const hw::Profile& profile, int threads = 1) {
  const ir::TensorProgram program = sums(kib, 256);
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = threads}).front();
  return rtile::residence(program, {c.program->groups[0].group.nests[0]}, profile, threads);
}

}  // namespace

TEST_CASE("a second cache that is too small keeps a part") {
  const hw::Profile profile = hw::load_profile("zen5");  // 1 MiB
  CHECK(of_sums(700, profile).home.front() == 1);
  CHECK(of_sums(700, profile).missing == 1);
  const auto missing = [&](int64_t kib) {
    const rtile::Residence r = of_sums(kib, profile);
    CHECK(r.home.front() == 2);
    CHECK(r.missing_at(2) == r.missing);
    CHECK(r.missing_at(1) == 1);
    return r.missing;
  };
  CHECK(missing(896) == doctest::Approx(0.3).epsilon(0.1));
  CHECK(missing(1024) == doctest::Approx(0.4).epsilon(0.1));
  CHECK(missing(2048) == doctest::Approx(0.86).epsilon(0.05));
  CHECK(missing(6000) > 0.99);
  CHECK(of_sums(1400, profile, 2).home.front() == 1);  // two of them
  // the rows come once, a part of them from the last cache
  const ir::TensorProgram program = sums(1024, 256);
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest nest = c.program->groups[0].group.nests[0];
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  const auto levels = rtile::workload(nest, rtile::nest_facts(program, nest), c.program->groups[0].nests[0], context).levels;
  CHECK(levels[2].read_bytes == doctest::Approx(context.missing * 1048576).epsilon(0.1));
}

TEST_CASE("sums from the second cache by few lines at a time") {
  const hw::Profile profile = hw::load_profile("zen5");
  ir::TensorProgram program = sums(64, 1600);
  SUBCASE("") {}
  SUBCASE("of squares, which are no contraction")
  program = ir::parse_program(
      R"--({"inputs": {"X": {"shape": [64, 1600], "dtype": "f32"}}, "compute": ["Y[i:64] = sum(k:1600 | X[i, k] * X[i, k])"], "outputs": ["Y"]})--");
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest nest = c.program->groups[0].group.nests[0];
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  const auto bytes = [&](int64_t rows, int64_t vectors) {
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    REQUIRE(plan.vec == 1);
    plan.tile = {{64, 1, rows}, {1600, 16, 16 * vectors}};
    return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).levels[1].read_bytes;
  };
  CHECK(bytes(1, 20) > 1.3 * bytes(1, 4));
  CHECK(bytes(1, 10) > 1.05 * bytes(1, 4));
  CHECK(bytes(1, 2) == bytes(1, 4));
  CHECK(bytes(4, 4) == doctest::Approx(bytes(1, 20)));  // by turns
  CHECK(c.program->groups[0].nests[0].tile[1].hi <= 8);
}

TEST_CASE("columns cost more where their lines share sets") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto beyond = [&](int64_t length) {  // rows of so many floats, 6 MB, a line of each, then the next ones
    const int64_t rows = 1500000 / length;
    const ir::TensorProgram program = ir::parse_program(R"({"name": "p", "op": "reduce_sum", "dtype": "f32", "params": {"shape": [)" +
                                                        std::to_string(rows) + ", " + std::to_string(length) + R"(], "axis": 0}})");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    REQUIRE(nest.axes.size() == 2);
    const size_t out = nest.axes[0].reduced ? 1 : 0;
    plan.tile[out] = {length, 16, 16}, plan.loops = {{int(out), 1}};
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).levels[2].read_bytes / double(rows * length * 4);
  };
  CHECK(beyond(17 * 16) < 1.2);
  CHECK(beyond(16 * 16) > 2.5);
  CHECK(beyond(8 * 16) > 1.8);
  CHECK(beyond(12 * 16) < 1.5);
  CHECK(hw::load_profile("zen4").levels[2].kib_columns == 0);  // not measured
}

TEST_CASE("a map's tiles follow one another as a loop's iterations") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram program =
      ir::parse_program(R"({"op": "bias_act", "dtype": "f32", "params": {"shape": [100, 800]}, "epilogue": ["bias", "relu"]})");
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest nest = c.program->groups[0].group.nests[0];
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  const auto counted = [&](int64_t vectors) {
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    REQUIRE(nest.axes.size() == 2);
    plan.tile = {{100, 1, 1}, {800, 16, 16 * vectors}}, plan.loops = {{0, 1}, {1, 1}};
    return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context);
  };
  const hw::Workload one = counted(1), ten = counted(10);
  CHECK(one.instructions - ten.instructions == doctest::Approx(3.0 * (5000 - 500)));
  CHECK(one.call_overheads == ten.call_overheads);
}
