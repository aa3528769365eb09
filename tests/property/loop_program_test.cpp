// Every loop program that the planner may choose, run element by element: inside the buffers, each output element computed once and
// from what was written before, and no races. On the small workloads, the examples, and random profiles.
#include <doctest/doctest.h>

#include <algorithm>

#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"
#include "support/programs.h"
#include "support/random_program.h"

using namespace rgen;

namespace {

struct Count {
  int64_t plans = 0, steps = 0;
  int64_t chunked = 0, cache_tiles = 0, fused = 0, transposed = 0, packed = 0, padded = 0, groups = 0;  ///< plans with such a nest
};

/// What the plan is made of: a property that no plan has is not tested.
void note(const rtile::RProgram& plan, Count& count) {
  bool chunked = false, tiles = false, fused = false, transposed = false, packed = false, padded = false, groups = false;
  for (const rtile::GroupPlan& g : plan.groups) {
    fused |= !g.shared.empty();
    for (const rtile::NestPlan& n : g.nests) {
      chunked |= n.chunked();
      groups |= n.form != rtile::AtomForm::vector;
      transposed |= n.store_transpose_axis >= 0;
      for (const rtile::Loop& l : n.loops) tiles |= l.step > 1 && !std::count(n.reduce_order.begin(), n.reduce_order.end(), l.axis);
      for (const rtile::Operand& o : n.operands) {
        transposed |= o.transposed;
        packed |= o.placement == rtile::Placement::prepack;
        padded |= o.placement == rtile::Placement::box;
      }
    }
  }
  count.chunked += chunked, count.cache_tiles += tiles, count.fused += fused, count.transposed += transposed;
  count.packed += packed, count.padded += padded, count.groups += groups;
}
std::string summary(const Count& c) {
  return std::to_string(c.plans) + " plans, " + std::to_string(c.steps) + " steps; " + std::to_string(c.chunked) +
         " with chunks of a reduction, " + std::to_string(c.cache_tiles) + " with cache tiles, " + std::to_string(c.fused) + " fused, " +
         std::to_string(c.transposed) + " transposing, " + std::to_string(c.packed) + " packing, " + std::to_string(c.padded) +
         " padding, " + std::to_string(c.groups) + " with dot products or matrix tiles";
}

/// The ranked plans of a program that are wanted, simulated; `ranks`: how many.
void simulate_plans(const ir::TensorProgram& program, const hw::Profile& profile, int threads, int ranks, Count& count,
                    bool (*wanted)(const rtile::RProgram&) = nullptr) {
  const auto candidates = rtile::construct(program, profile, {threads, ranks});
  for (size_t rank = 0; rank < candidates.size(); ++rank) {
    if (wanted && !wanted(*candidates[rank].program)) continue;
    const lower::LoopProgram loops = lower::lower(program, *candidates[rank].program);
    const lower::Simulation s = lower::simulate(loops, int64_t{1} << 28);
    ++count.plans, count.steps += s.steps;
    note(*candidates[rank].program, count);
    INFO(program.name << " on " << profile.name << ", " << threads << " threads, rank " << rank << "\n" << candidates[rank].explanation);
    CHECK(s.complete);
    for (const std::string& v : s.violations) FAIL_CHECK(v);
    if (!s.violations.empty()) return;
  }
}

/// Several nests in a GPU's warps, and no fragments, whose memory is not followed.
bool in_warps(const rtile::RProgram& plan) {
  bool any = false, fragments = false;
  for (const rtile::GroupPlan& g : plan.groups) {
    any |= g.block_tasks > 0;
    for (const rtile::NestPlan& n : g.nests) fragments |= n.tiled() || n.staging;
  }
  return any && !fragments;
}

std::vector<test::ProgramPtr> small_programs() {
  auto programs = test::programs_in(RGEN_SOURCE_DIR "/tests/data/small_workloads.json");
  for (auto& p : test::example_programs(RGEN_SOURCE_DIR)) programs.push_back(p);
  return programs;
}

}  // namespace

TEST_CASE("plans of every operator, layout and example") {
  Count count;
  const int threads[] = {1, 2, 3, 5};
  size_t turn = 0;
  for (const auto& program : small_programs())
    for (const char* profile : {"zen5", "sapphire_rapids", "haswell_avx2", "neoverse_n1"})
      simulate_plans(*program, hw::load_profile(profile), threads[turn++ % 4], 10, count);
  MESSAGE(summary(count));
}

TEST_CASE("plans on random profiles") {
  Count count;
  uint32_t seed = 0;
  for (const auto& program : small_programs())
    for (int i = 0; i < 3; ++i) {
      ++seed;
      simulate_plans(*program, test::random_profile(seed), 1 + int(seed % 7), 4, count);
    }
  MESSAGE(summary(count));
  for (int64_t kind : {count.chunked, count.cache_tiles, count.fused, count.transposed, count.packed, count.padded, count.groups})
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
