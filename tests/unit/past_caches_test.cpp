// Results whose rows do not begin lines, on their way to memory: collected in pieces, or from line to line of each row.
#include <doctest/doctest.h>

#include "ir/ir.h"
#include "support/simulated_plans.h"

using namespace rgen;

namespace {

rtile::NestPlan last_nest(const ir::TensorProgram& program, const hw::Profile& profile, int threads = 1) {
  return rtile::construct(program, profile, {threads, 1}).front().program->groups.back().nests.back();
}

rtile::NestPlan best(const std::string& shape, const std::string& perm, const hw::Profile& profile = hw::load_profile("zen4")) {
  const ir::TensorProgram program =
      ir::parse_program(R"--({"op": "transpose", "dtype": "f32", "params": {"shape": )--" + shape + R"--(, "perm": )--" + perm + "}}");
  return last_nest(program, profile);
}

ir::TensorProgram rows(const std::string& op, const std::string& shape, const std::string& more = "") {
  return ir::parse_program(R"--({"op": ")--" + op + R"--(", "dtype": "f32", "params": {"shape": )--" + shape + "}" + more + "}");
}

bool combines(const rtile::RProgram& plan) { return plan.groups.back().nests.back().combining.has_value(); }

}  // namespace

TEST_CASE("transpositions in memory collect rows that do not begin lines, and stream others as they are") {
  const rtile::NestPlan odd = best("[3000, 5000]", "[1, 0]");
  REQUIRE(odd.combining);
  CHECK(odd.stream);
  CHECK_FALSE(odd.combining->whole);
  CHECK(odd.buffered_rows() >= 64);
  CHECK(odd.buffered_pitch() >= odd.buffered_columns() + rtile::WriteCombining::kLine);
  CHECK(odd.buffered_pitch() / rtile::WriteCombining::kLine % 2 == 1);
  CHECK(odd.operands[0].ahead % 5000 == 0);
  CHECK(odd.operands[0].ahead > 0);

  const rtile::NestPlan even = best("[3008, 5000]", "[1, 0]");
  CHECK_FALSE(even.combining);
  CHECK(even.stream);
  CHECK_FALSE(best("[300, 500]", "[1, 0]").combining);  // in a cache
  CHECK_FALSE(best("[3000, 5000]", "[1, 0]", hw::load_profile("neoverse_n1")).combining);
}

TEST_CASE("short rows that follow one another are one piece") {
  const rtile::NestPlan p = best("[64, 100, 3249]", "[0, 2, 1]");
  REQUIRE(p.combining);
  CHECK(p.combining->whole);
  CHECK(p.piece() == p.buffered_rows() * 100);
  CHECK(p.buffered_pitch() == 100);
}

TEST_CASE("each element leaves the buffer once, whoever works on which part") {
  const std::pair<const char*, const char*> shapes[] = {
      {"[83, 207]", "[1, 0]"}, {"[5, 37, 150]", "[0, 2, 1]"}, {"[3, 7, 70, 19]", "[0, 2, 3, 1]"}};
  test::Count count;
  for (const auto& [shape, perm] : shapes) {
    const ir::TensorProgram program = ir::parse_program(std::string(R"--({"op": "transpose", "dtype": "f32", "params": {"shape": )--") +
                                                        shape + R"--(, "perm": )--" + perm + "}}");
    for (const char* profile : {"zen4", "haswell_avx2"})
      for (const int threads : {1, 2, 5})
        test::simulate_plans(program, test::with_tiny_caches(hw::load_profile(profile)), threads, 200, count, combines);
  }
  CHECK(count.plans >= 60);
}

TEST_CASE("long rows go to memory from line to line, where rows that begin lines are streamed as they are") {
  const hw::Profile profile = hw::load_profile("zen4");
  for (const auto& [op, more] : {std::pair{"layernorm", ""}, {"rmsnorm", ""}, {"bias_act", R"--(, "epilogue": ["bias", "relu"])--"}}) {
    CAPTURE(op);
    const rtile::NestPlan odd = last_nest(rows(op, "[20000, 999]", more), profile);
    CHECK(odd.peeled);
    CHECK(odd.stream);
    const rtile::NestPlan even = last_nest(rows(op, "[20000, 1008]", more), profile);
    CHECK_FALSE(even.peeled);
    CHECK(even.stream);
    CHECK_FALSE(last_nest(rows(op, "[200, 999]", more), profile).stream);  // in a cache
    CHECK_FALSE(last_nest(rows(op, "[20000, 999]", more), hw::load_profile("neoverse_n1")).stream);
  }
}

TEST_CASE("every element of such a row is written once") {
  const auto peels = [](const rtile::RProgram& plan) { return plan.groups.back().nests.back().peeled; };
  test::Count count;
  for (const ir::TensorProgram& program : {rows("softmax", "[37, 77]"), rows("layernorm", "[29, 211]"),
                                           rows("bias_act", "[41, 131]", R"--(, "epilogue": ["bias"])--"), rows("rmsnorm", "[5, 3, 50]")})
    for (const char* profile : {"zen4", "haswell_avx2"})
      for (const int threads : {1, 2, 5})
        test::simulate_plans(program, test::with_tiny_caches(hw::load_profile(profile)), threads, 60, count, peels);
  CHECK(count.plans >= 40);
}
