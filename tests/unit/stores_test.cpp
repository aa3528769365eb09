// Results whose rows are written by turns: what they wait for, and which tiles are chosen for that.
#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/workload.h"

using namespace rgen;

namespace {

/// 5 × 5 of bytes over one channel of 224 × `width` to 64 planes of s32.
ir::TensorProgram to_planes(int64_t width) {
  return ir::parse_program(R"({"name": "p", "op": "conv2d", "dtype": "s8", "params": {"n": 1, "h": 224, "w": )" + std::to_string(width) +
                           R"(, "ci": 1, "co": 64, "r": 5, "s": 5, "stride": 1, "pad": 2, "layout": "NCHW"}})");
}

}  // namespace

TEST_CASE("planes that share sets of the first-level cache are written fewer by turns, or by whole lines") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto chosen = [&](int64_t width) {
    return rtile::construct(to_planes(width), profile, {.threads = 1}).front().program->groups[0].nests[0];
  };
  // planes of 49 times 4 KiB; of 49 times 4 KiB and 3.5 KiB
  CHECK(chosen(224).tile[0].size() == 16);
  CHECK(chosen(228).tile[0].size() == 32);
}

TEST_CASE("results wait for the lines of planes that share sets, unless products hide it") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto waits = [&](int64_t planes, int64_t places, int64_t width) {
    const ir::TensorProgram program = to_planes(width);
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    REQUIRE(nest.axes[0].name == "co");
    REQUIRE(nest.axes[2].name == "q");
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    plan.tile[0] = {64, 16, planes}, plan.tile[2] = {width, 1, places};
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).levels[1].waits;
  };
  CHECK(waits(32, 14, 224) > 3 * waits(16, 15, 224));
  CHECK(waits(16, 15, 224) > 0);
  CHECK(waits(16, 16, 224) == 0);  // lines written whole take half as long
  CHECK(waits(32, 14, 228) == 0);
}

TEST_CASE("of a map's rows in one set, lines two by two wait less, and more rows longer") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto waits = [&](int64_t rows, int64_t places, int64_t length) {
    const ir::TensorProgram program = ir::parse_program(R"({"name": "p", "op": "transpose", "dtype": "f32", "params": {"shape": [)" +
                                                        std::to_string(length) + R"(, 320], "perm": [1, 0]}})");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    plan.tile = {{320, 1, rows}, {length, 16, places}};
    plan.loops = {{0, 1}, {1, 1}};
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).levels[1].waits;
  };
  CHECK(waits(16, 16, 1024) > 0);
  CHECK(waits(16, 32, 1024) < waits(16, 16, 1024));
  CHECK(waits(32, 16, 1024) > 2 * waits(16, 16, 1024));
  CHECK(waits(8, 16, 1024) == 0);
  CHECK(waits(32, 16, 512) < waits(32, 16, 1024));  // two sets
  CHECK(waits(32, 16, 1000) == 0);
}

TEST_CASE("what a body reads counts beside a tile's stores, if the body is all of the tile") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto waits = [&](int64_t results, int64_t channels, int64_t unrolled) {  // depthwise, 7 places of a row
    const std::string c = std::to_string(channels);
    const ir::TensorProgram program = ir::parse_program(
        R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 1, "w": 800, "ci": )" + c + R"(, "co": )" + c +
        R"(, "r": 1, "s": 7, "stride": 1, "pad": [0, 3], "groups": )" + c + R"(, "layout": "NHWC"}})");
    const rtile::Candidate candidate = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = candidate.program->groups[0].group.nests[0];
    rtile::NestPlan plan = candidate.program->groups[0].nests[0];
    plan.loops.clear();
    for (size_t a = 0; a < nest.axes.size(); ++a) {
      const std::string& name = nest.axes[a].name;
      plan.tile[a] = name == "q"    ? rtile::Blocking{800, 1, results}
                     : name == "s"  ? rtile::Blocking{7, 1, unrolled}
                     : name == "co" ? rtile::Blocking{channels, 16, 16}
                                    : plan.tile[a];
      if (name == "q") plan.loops.insert(plan.loops.begin(), {int(a), 1});
      if (name == "co") plan.loops.push_back({int(a), 1});
    }
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).levels[1].waits;
  };
  CHECK(waits(6, 1024, 7) == 0);
  CHECK(waits(10, 1024, 7) > 0);  // rows of 4 KiB: 10 and half of 16 lines for a set's 12 ways
  CHECK(waits(14, 1024, 7) > 1.5 * waits(10, 1024, 7));
  CHECK(waits(10, 1024, 1) < waits(10, 1024, 7));
  CHECK(waits(14, 1040, 7) == 0);
}
