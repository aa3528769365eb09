// What a planned nest is counted to do: tensors that wait in memory, loads that split lines, borders that need no copy.
#include "rtile/workload.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "emit/backend.h"
#include "ir/ir.h"
#include "rtile/construct.h"

using namespace rgen;

namespace {

/// A sum of each row of 64, rows so many elements apart.
ir::TensorProgram row_sums(int apart) {
  return ir::parse_program(R"({"inputs": {"X": {"shape": [40, 64], "strides": [)" + std::to_string(apart) +
                           R"(, 1]}}, "compute": ["Y[i:40, j:64] = X[i, j] + 1"], "outputs": ["Y"]})");
}

double loads(const ir::TensorProgram& program, const rtile::Nest& nest, const rtile::NestPlan& plan, const hw::Profile& profile) {
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).loads;
}

std::string source(const std::string& spec, const hw::Profile& profile) {
  const ir::TensorProgram program = ir::parse_program(spec);
  return emit::emit_cpp(program, rtile::construct(program, profile, {.threads = 1}).front(), profile).source;
}

}  // namespace

TEST_CASE("a load that ends in the next line counts twice") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram aligned = row_sums(80), halves = row_sums(72), odd = row_sums(65);
  const rtile::Candidate c = rtile::construct(aligned, profile, {.threads = 1}).front();
  const rtile::Nest& nest = c.program->groups[0].group.nests[0];
  const rtile::NestPlan& plan = c.program->groups[0].nests[0];
  const double once = loads(aligned, nest, plan, profile);
  CHECK(once == 40 * 64 / 16);
  CHECK(loads(halves, nest, plan, profile) == doctest::Approx(1.5 * once));
  CHECK(loads(odd, nest, plan, profile) == doctest::Approx((1 + 15.0 / 16) * once));
}

TEST_CASE("what a nest makes and reads in registers is not in memory") {
  const ir::TensorProgram program = ir::parse_program(
      R"--({"inputs": {"X": {"shape": [4, 8]}}, "compute": ["S[i:4] = sum(j:8 | X[i, j])", "Y[i:4] = max(S[i], 0)"], "outputs": ["Y"]})--");
  const std::vector<rtile::Nest> nests = rtile::build_nests(program);
  REQUIRE(nests.size() == 1);
  std::vector<std::string> names;
  for (int t : rtile::tensors_in_memory(nests[0])) names.push_back(program[t].name);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"X", "Y"});
}

TEST_CASE("narrow images are not copied for the sake of their borders") {
  const std::string code = source(
      R"--({"inputs": {"X": {"shape": [3, 40, 13, 14]}, "W": {"shape": [1, 40, 3, 3], "constant": true}},
        "compute": ["Y[n:3, o:1, p:13, q:14] = sum(c:40, r:3, s:3 | X[n, c, p + 2*r - 2, q + 2*s - 2 ? 0] * W[o, c, r, s])"], "outputs": ["Y"]})--",
      hw::load_profile("zen5"));
  CHECK(code.find("padded copy") == std::string::npos);
}

TEST_CASE("inside of a branch over a tap, nothing asks again whether its row is there") {
  const std::string code = source(
      R"--({"inputs": {"X": {"shape": [1, 28, 28, 64]}, "W": {"shape": [3, 3, 64], "constant": true}},
        "compute": ["Y[n:1, p:28, q:28, c:64] = sum(r:3, s:3 | X[n, p + r - 1, q + s - 1, c ? 0] * W[r, s, c])"], "outputs": ["Y"]})--",
      hw::load_profile("zen5"));
  CHECK(code.find("_border(") != std::string::npos);
  CHECK(code.find("_range(X") == std::string::npos);  // whole vectors of channels, or nothing
}

TEST_CASE("a padded copy takes the place of its borders and of what lies between rows") {
  const ir::TensorProgram program = ir::parse_program(
      R"--({"inputs": {"X": {"shape": [5, 7, 7]}, "W": {"shape": [5, 3, 3], "constant": true}},
        "compute": ["Y[p:7, q:7] = sum(c:5, r:3, s:3 | X[c, p + r - 1, q + s - 1 ? 0] * W[c, r, s])"], "outputs": ["Y"]})--");
  const rtile::Nest nest = rtile::build_nests(program).front();
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  REQUIRE(program[facts.operands[0].tensor].name == "X");
  CHECK(facts.operands[0].box_spread == doctest::Approx(9.0 * 16 / (7 * 7)));  // rows of 9 floats, a line apart
}

TEST_CASE("matrices in memory are read from end to end of a few rows") {
  const auto plan = [](const std::string& compute, const hw::Profile& profile) {
    const ir::TensorProgram program =
        ir::parse_program(R"({"inputs": {"X": {"shape": [4096, 4096]}}, "compute": [")" + compute + R"("], "outputs": ["Y"]})");
    const rtile::Candidate best = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::GroupPlan& g = best.program->groups.front();
    return std::pair{g.group.nests.front(), g.nests.front()};
  };
  for (const char* name : {"zen4", "zen5"}) {
    CAPTURE(name);
    const hw::Profile profile = hw::load_profile(name);
    const auto [sums, of_columns] = plan("Y[j:4096] = sum(i:4096 | X[i, j])", profile);
    REQUIRE(of_columns.chunked());
    for (const rtile::Loop& l : of_columns.loops)
      if (sums.axes[size_t(l.axis)].reduced) CHECK(l.step <= 16);
    CHECK(of_columns.loops.back().axis == of_columns.vec);
    // nothing waits for pieces of lines that are written past the caches, but for those that are read
    const auto [copy, transposed] = plan("Y[i:4096, j:4096] = X[j, i]", profile);
    CHECK(transposed.stream);
    CHECK(copy.axes[size_t(transposed.loops.back().axis)].name == "i");
    // what is streamed goes to one row after the other
    const auto [map, by_rows] = plan("Y[i:4096, j:4096] = X[i, j] * X[i, j] + X[0, j]", profile);
    REQUIRE(map.axes.size() == 2);
    REQUIRE(by_rows.stream);
    CHECK(by_rows.tile[0].size() == 1);
  }
}
