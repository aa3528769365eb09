// Every loop program that the planner may choose, simulated: the small workloads and the examples, on shipped profiles.
#include "support/simulated_plans.h"

using namespace rgen;
using test::Count, test::simulate_plans, test::small_programs, test::summary;

TEST_CASE("plans in half vectors") {
  Count count;
  int threads = 1;
  const hw::Profile halved = *hw::load_profile("zen4").halved();
  for (const auto& program : small_programs()) simulate_plans(*program, halved, threads = threads % 3 + 1, 6, count);
  MESSAGE(summary(count));
}

TEST_CASE("plans of every operator, layout and example") {
  Count count;
  const int threads[] = {1, 2, 3, 5};
  size_t turn = 0;
  for (const auto& program : small_programs())
    for (const char* profile : {"zen5", "sapphire_rapids", "haswell_avx2", "neoverse_n1"})
      simulate_plans(*program, hw::load_profile(profile), threads[turn++ % 4], 10, count);
  MESSAGE(summary(count));
}
