// Every loop program that the planner may choose, run element by element: inside the buffers, each output element computed once and
// from what was written before, and no races. On the small workloads, the examples, and random profiles.
#include <doctest/doctest.h>

#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "support/programs.h"
#include "support/random_program.h"

using namespace rgen;

namespace {

struct Count {
  int64_t plans = 0, steps = 0;
};

/// The ranked plans of a program, simulated; `ranks`: how many.
void simulate_plans(const ir::TensorProgram& program, const hw::Profile& profile, int threads, int ranks, Count& count) {
  const auto candidates = rtile::construct(program, profile, {threads, ranks});
  for (size_t rank = 0; rank < candidates.size(); ++rank) {
    const lower::LoopProgram loops = lower::lower(program, *candidates[rank].program);
    const lower::Simulation s = lower::simulate(loops, int64_t{1} << 28);
    ++count.plans, count.steps += s.steps;
    INFO(program.name << " on " << profile.name << ", " << threads << " threads, rank " << rank << "\n" << candidates[rank].explanation);
    CHECK(s.complete);
    for (const std::string& v : s.violations) FAIL_CHECK(v);
    if (!s.violations.empty()) return;
  }
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
  MESSAGE(count.plans << " plans, " << count.steps << " steps");
}

TEST_CASE("plans on random profiles") {
  Count count;
  uint32_t seed = 0;
  for (const auto& program : small_programs()) {
    ++seed;
    simulate_plans(*program, test::random_profile(seed), 1 + int(seed % 7), 3, count);
  }
  MESSAGE(count.plans << " plans, " << count.steps << " steps");
}

TEST_CASE("plans of random programs on random profiles") {
  Count count;
  for (uint32_t seed = 1; seed <= 250; ++seed)
    simulate_plans(test::random_program(seed, {.work = 1 << 17}), test::random_profile(seed), 1 + int(seed % 5), 4, count);
  MESSAGE(count.plans << " plans, " << count.steps << " steps");
}
