// Loop programs simulated on random profiles, of random programs, and in a GPU's warps.
#include "support/random_program.h"
#include "support/simulated_plans.h"

using namespace rgen;
using test::Count, test::simulate_plans, test::small_programs, test::summary;

namespace {

/// Several nests in a GPU's warps, and no fragments, whose memory is not followed.
bool in_warps(const rtile::RProgram& plan) {
  bool any = false, fragments = false;
  for (const rtile::GroupPlan& g : plan.groups) {
    any |= g.block_tasks > 0;
    for (const rtile::NestPlan& n : g.nests) fragments |= n.tiled() || n.staging;
  }
  return any && !fragments;
}

}  // namespace

TEST_CASE("plans on random profiles") {
  Count count;
  uint32_t seed = 0;
  for (const auto& program : small_programs())
    for (int i = 0; i < 3; ++i) {
      ++seed;
      simulate_plans(*program, test::random_profile(seed), 1 + int(seed % 7), 4, count);
    }
  MESSAGE(summary(count));
  for (int64_t kind :
       {count.chunked, count.cache_tiles, count.fused, count.transposed, count.separated, count.packed, count.padded, count.groups})
    CHECK(kind > 0);
}

TEST_CASE("plans of random programs on random profiles") {
  Count count;
  for (uint32_t seed = 1; seed <= 250; ++seed)
    simulate_plans(test::random_program(seed, {.work = 1 << 17}), test::random_profile(seed), 1 + int(seed % 5), 4, count);
  MESSAGE(summary(count));
}

TEST_CASE("plans of several nests in a GPU's warps") {
  Count count;
  for (const auto& program : small_programs()) simulate_plans(*program, hw::load_profile("a100"), 0, 20, count, in_warps);
  for (uint32_t seed = 1; seed <= 250; ++seed)
    simulate_plans(test::random_program(seed, {.work = 1 << 17}), hw::load_profile(seed % 2 ? "h100" : "v100"), 0, 4, count, in_warps);
  MESSAGE(summary(count));
  CHECK(count.fused >= 50);
}
