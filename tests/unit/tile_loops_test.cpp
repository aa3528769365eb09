// The loops around register tiles as they are emitted: one for each run of tiles that are alike, one base for what a tile addresses.
#include <doctest/doctest.h>

#include <algorithm>

#include "emit/backend.h"
#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

bool has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("tiles of two sizes have a loop each, and no choice in it") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram program = ir::parse_program(
      R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 60, "w": 60, "ci": 96, "co": 96, "r": 3, "s": 3, "stride": 1, "pad": 1, "groups": 96, "layout": "NHWC"}})");
  size_t seen = 0;
  for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 1, .top_k = 40})) {
    const rtile::NestPlan& p = c.program->groups[0].nests[0];
    const int last = p.loops.back().axis;
    if (p.loops.back().step != 1 || p.tile[size_t(last)].blocks < 3 || p.runs(last).size() != 2) continue;
    const std::string source = emit::emit_cpp(program, c, profile).source,
                      name = c.program->groups[0].group.nests[0].axes[size_t(last)].name;
    const int64_t longer = p.runs(last)[0].to;
    INFO(c.explanation);
    CHECK(!has(source, "if (" + name + "_block"));
    CHECK(!has(source, "short_"));
    if (longer > 1) CHECK(has(source, name + "_block = 0; " + name + "_block < " + std::to_string(longer) + ";"));
    ++seen;
  }
  CHECK(seen > 0);
}

TEST_CASE("of two workers each has its blocks of both sizes") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": 127, "n": 96, "k": 64}})");
  size_t seen = 0;
  for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 2, .top_k = 60})) {
    const rtile::NestPlan& p = c.program->groups[0].nests[0];
    if (p.parallel.size() != 1 || p.loops.back().axis != p.parallel[0].axis || p.loops.back().step != 1) continue;
    const int axis = p.parallel[0].axis;
    if (axis == p.run_axis() || p.runs(axis).size() != 2 || p.tile[size_t(axis)].blocks < 5) continue;
    const std::string name = c.program->groups[0].group.nests[0].axes[size_t(axis)].name;
    INFO(c.explanation);
    CHECK(!has(emit::emit_cpp(program, c, profile).source, "if (" + name + "_block"));
    ++seen;
  }
  CHECK(seen > 0);
}

TEST_CASE("what a tile addresses at many places has one base") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto source = [&](const std::string& spec) {
    const ir::TensorProgram program = ir::parse_program(spec);
    return emit::emit_cpp(program, rtile::construct(program, profile, {.threads = 1}).front(), profile).source;
  };
  // 27 gathers of two loads each
  CHECK(has(
      source(
          R"({"op": "maxpool", "dtype": "f32", "params": {"n": 1, "h": 32, "w": 32, "c": 797, "r": 3, "s": 3, "stride": 2, "pad": 0, "layout": "NCHW"}})"),
      "= base(t->X"));
  CHECK(!has(source(R"({"op": "mul_add", "dtype": "f32", "params": {"shape": [1000]}})"), "= base("));
}

TEST_CASE("neighbours are taken apart once for all steps of a product that use them, also where rows slide") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram program = ir::parse_program(
      R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 28, "w": 28, "ci": 256, "co": 256, "r": 3, "s": 3, "stride": 1, "pad": 1, "groups": 32, "layout": "NHWC"}})");
  size_t seen = 0;
  for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 1, .top_k = 20})) {
    const rtile::NestPlan& p = c.program->groups[0].nests[0];
    if (std::none_of(p.operands.begin(), p.operands.end(), [](const rtile::Operand& o) { return o.neighbours == 8; })) continue;
    const std::string source = emit::emit_cpp(program, c, profile).source, call = "  vf_deinterleave<8>(";
    INFO(c.explanation);
    for (size_t at = source.find(call); at != std::string::npos; at = source.find(call, at + 1)) {
      const size_t begin = at + call.size();
      CHECK(has(source, source.substr(begin, source.find(')', begin) - begin) + "[7], "));
      ++seen;
    }
  }
  CHECK(seen > 0);
}
