// Products of two activations: packed in groups before each call where the processor multiplies groups.
#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

ir::TensorProgram batched(const std::string& dtype, int m, const std::string& more = "") {
  return ir::parse_program(R"({"op": "matmul", "dtype": ")" + dtype + R"(", "params": {"batch": 6, "m": )" + std::to_string(m) +
                           R"(, "n": 128, "k": 64)" + more + "}}");
}
struct First {
  std::string atom;
  bool repacks;
};
First first(const ir::TensorProgram& program, const char* profile) {
  const auto plans = rtile::construct(program, hw::load_profile(profile), {1, 1});
  const rtile::NestPlan& p = plans.front().program->groups.back().nests.back();
  return {p.atom->name, p.repacks_b()};
}

}  // namespace

TEST_CASE("products of two activations use what the processor has") {
  for (const char* transposed : {"", R"(, "transpose_b": true)"}) {
    for (const auto& [profile, bf16, s8] :
         {std::tuple{"zen4", "vdpbf16ps", "vpdpbusd"}, {"sapphire_rapids", "tdpbf16ps", "tdpbssd"}, {"neoverse_v1", "bfdot", "sdot"}}) {
      CAPTURE(profile);
      const First halves = first(batched("bf16", 128, transposed), profile), bytes = first(batched("s8", 128, transposed), profile);
      CHECK(halves.atom == bf16);
      CHECK(halves.repacks);
      CHECK(bytes.atom == s8);
      CHECK(bytes.repacks);
    }
    CHECK(first(batched("s8", 128, transposed), "zen3").atom == "vpmaddwd");
    CHECK(first(batched("s8", 128, transposed), "zen3").repacks);
  }
}

TEST_CASE("nothing is packed that is read a few times, or for lanes that multiply one element each") {
  CHECK_FALSE(first(batched("s8", 4), "zen4").repacks);
  CHECK_FALSE(first(batched("f32", 128), "zen4").repacks);
  CHECK_FALSE(first(batched("bf16", 128), "zen3").repacks);
}

TEST_CASE("keys are packed before the heads' tiles, for all of them") {
  const ir::TensorProgram attention =
      ir::parse_program(R"({"op": "attention", "dtype": "bf16", "params": {"heads": 12, "seq": 1024, "dim": 64}})");
  const auto plans = rtile::construct(attention, hw::load_profile("zen4"), {1, 1});
  const rtile::GroupPlan& group = plans.front().program->groups.front();
  CHECK_FALSE(group.shared.empty());
  CHECK(group.nests.front().repacks_b());
}
