// Intermediates that lie where an output will, and divisions that many results have in common.
#include "rtile/in_place.h"

#include <doctest/doctest.h>

#include "ir/ir.h"
#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/residence.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

/// The names of those that have a place, each with its output's.
std::string placed(const std::string& compute, const std::string& outputs = R"--("Y")--") {
  const ir::TensorProgram program =
      ir::parse_program(R"--({"inputs": {"X": {"shape": [40, 30]}}, "outputs": [)--" + outputs + R"--(], "compute": [)--" + compute + "]}");
  const auto r = rtile::in_place(program, rtile::build_nests(program));
  std::string found;
  if (!r) return found;
  for (const ir::Tensor& t : r->program->tensors)
    if (t.within >= 0) found += t.name + ">" + (*r->program)[t.within].name + " ";
  return found;
}
const std::string kRows =
    R"--("M[i:40] = max(j:30 | X[i, j])", "E[i:40, j:30] = exp(X[i, j] - M[i])", "S[i:40] = sum(j:30 | E[i, j])", )--";

/// The value of the only output's statement.
ir::ExprPtr value(const std::string& compute) {
  std::string inputs;
  for (const auto& [name, shape] : {std::pair{"X", "40, 30"}, {"D", "40"}, {"Q", "40, 30"}})
    if (compute.find(name + std::string("[")) != std::string::npos)
      inputs += (inputs.empty() ? "\"" : ", \"") + std::string(name) + "\": {\"shape\": [" + shape + "]}";
  const ir::TensorProgram program = ir::parse_program("{\"inputs\": {" + inputs + "}, \"compute\": [\"" + compute + "\"]}");
  const auto nests = rtile::build_nests(program);
  const rtile::Nest& n = nests.back();
  return (n.outer.empty() ? n.inner : n.outer).back().value;
}
ir::BinaryOp outermost(const std::string& compute) { return std::get<ir::Binary>(value(compute)->node).op; }

}  // namespace

TEST_CASE("what is made over again into an output lies in it") {
  CHECK(placed(kRows + R"--("Y[i:40, j:30] = E[i, j] / S[i]")--") == "E>Y ");
  CHECK(placed(kRows + R"--("Y[i:40, j:30] = E[i, j] / S[i]", "Z[i:40] = sum(j:30 | Y[39 - i, j])")--", R"--("Y", "Z")--") == "E>Y ");
}

TEST_CASE("and not where somebody needs it afterwards, or elsewhere, or in another form") {
  CHECK(placed(kRows + R"--("Y[i:40, j:30] = E[i, j] / S[i]", "Z[i:40] = max(j:30 | E[i, j] * Y[i, j])")--", R"--("Y", "Z")--") == "");
  CHECK(placed(kRows + R"--("Y[i:40, j:30] = E[39 - i, j] / S[i]")--") == "");
  CHECK(placed(kRows + R"--("Y[i:40, j:30] = E[i, j] / S[i] + E[i, 0]")--") == "");
  CHECK(placed(kRows + R"--("Y[j:30, i:40] = E[i, j] / S[i]")--") == "");
  CHECK(placed(kRows + R"--("Y[i:40, j:30] = bf16(E[i, j] / S[i])")--") == "");
  CHECK(placed(kRows + R"--("Y[i:40, j:30] = E[i, j] / S[i]")--", R"--("Y", "E")--") == "");
}

TEST_CASE("a division by what stays the same along an axis is done once, and multiplied") {
  CHECK(outermost("Y[i:40, j:30] = X[i, j] / D[i]") == ir::BinaryOp::mul);
  CHECK(outermost("Y[i:40, j:30] = X[i, j] / 9") == ir::BinaryOp::mul);
  CHECK(std::get<ir::Const>(std::get<ir::Binary>(value("Y[i:40, j:30] = X[i, j] / 8")->node).y->node).value == 0.125);
  CHECK(outermost("Y[i:40, j:30] = X[i, j] / Q[i, j]") == ir::BinaryOp::div);
  CHECK(outermost("Y[i:40, j:30] = D[i] / Q[i, j]") == ir::BinaryOp::div);
  CHECK(outermost("Y[i:40] = D[i] / (D[i] + 1)") == ir::BinaryOp::div);
  CHECK(outermost("Y[i:40, j:30] = X[i, j] / 1e-42") == ir::BinaryOp::div);  // whose reciprocal overflows
}

TEST_CASE("plans in place compute each element from what was written before") {
  const ir::TensorProgram program = ir::parse_program(R"--({"op": "softmax", "params": {"shape": [37, 75]}})--");
  int found = 0;
  for (const char* name : {"zen4", "haswell_avx2", "neoverse_n1"})
    for (int threads : {1, 3})
      for (const rtile::Candidate& c : rtile::construct(program, hw::load_profile(name), {threads, 100})) {
        const auto& tensors = c.program->planned(program).tensors;
        if (std::none_of(tensors.begin(), tensors.end(), [](const ir::Tensor& t) { return t.within >= 0; })) continue;
        CHECK(c.explanation.find(" in the place of out\n") != std::string::npos);
        const lower::LoopProgram loops = lower::lower(program, *c.program);
        for (const auto& b : loops.buffers) CHECK(b.name != "e");
        const lower::Simulation s = lower::simulate(loops, int64_t{1} << 26);
        CHECK(s.complete);
        for (const std::string& v : s.violations) FAIL_CHECK(v);
        ++found;
      }
  CHECK(found >= 12);
}

TEST_CASE("tensors of a fused group's tiles take no place in a level") {
  // scores of 64 MiB that never leave a tile, beside 3 MiB of inputs
  const ir::TensorProgram program = ir::parse_program(R"--({"op": "attention", "params": {"heads": 4, "seq": 2048, "dim": 32}})--");
  const auto nests = rtile::build_nests(program);
  const auto groups = rtile::build_groups(program, nests, [](const rtile::Nest&) { return true; });
  REQUIRE(groups.size() < nests.size());
  const hw::Profile zen4 = hw::load_profile("zen4");
  CHECK(rtile::residence(program, nests, zen4, 1).home.front() == 3);
  CHECK(rtile::residence(program, groups, zen4, 1).home.front() == 2);
}
