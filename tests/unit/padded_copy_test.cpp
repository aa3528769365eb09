// What products read of a copy with the padding written out.
#include <doctest/doctest.h>

#include "emit/backend.h"
#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"
#include "rtile/workload.h"

using namespace rgen;

TEST_CASE("a padded copy of bytes is read by whole groups where the last has fewer, one of floats is not") {
  const auto parts = [](const char* dtype) {
    const ir::TensorProgram program = ir::parse_program(std::string(R"({"name": "p", "op": "conv2d", "dtype": ")") + dtype +
                                                        R"(", "params": {"n": 1, "h": 30, "w": 40, "ci": 1, "co": 64, "r": 5, "s": 5,)" +
                                                        R"( "stride": 1, "pad": 2, "layout": "NCHW"}})");
    const hw::Profile profile = hw::load_profile("zen5");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::NestPlan& plan = c.program->groups.back().nests.back();
    REQUIRE(plan.form == rtile::AtomForm::group);
    REQUIRE(plan.operands[0].placement == rtile::Placement::box);
    const std::string source = emit::emit_cpp(program, c, profile).source;
    return source.find("= vi_bcast_group_n(") != std::string::npos;
  };
  CHECK_FALSE(parts("s8"));
  CHECK(parts("bf16"));
}

TEST_CASE("groups that have fewer elements cost something where they are not read whole") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto shuffles = [&](int64_t k, rtile::Placement placement) {
    const ir::TensorProgram program = ir::parse_program(
        R"({"name": "p", "op": "matmul", "dtype": "s8", "params": {"m": 60, "n": 64, "out": "s32", "k": )" + std::to_string(k) + "}}");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    REQUIRE(plan.form == rtile::AtomForm::group);
    plan.operands.change(0, [&](rtile::Operand& o) { o.placement = placement; });
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    double count = 0;
    for (const auto& [name, n] : rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).functions)
      if (name == "shuffle") count += n;
    return count;
  };
  CHECK(shuffles(41, rtile::Placement::direct) >= 60);
  CHECK(shuffles(41, rtile::Placement::box) == 0);
  CHECK(shuffles(40, rtile::Placement::direct) == 0);
}
