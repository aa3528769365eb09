#include "fuzz/task.h"

#include "fuzz/profiles.h"
#include "support/random_program.h"

namespace rgen::fuzz {

constexpr int kPlans = 20;

std::string_view to_string(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::unsupported:
      return "unsupported";
    case Status::wrong:
      return "wrong";
    case Status::crash:
      return "crash";
    case Status::error:
      return "error";
  }
  return "?";
}

std::string spec_of(const Task& task) {
  if (task.spec) return *task.spec;
  test::Draws draws = task.draws ? test::Draws(*task.draws) : test::Draws(task.seed);
  return test::random_spec(draws, "fuzz_" + std::to_string(task.seed));
}

Setting draw_setting(uint64_t seed, const std::vector<std::string>& profiles, const std::vector<int>& threads) {
  test::Draws block(seed / 25 * 7919 + 1), own(seed * 104729 + 2);
  Setting s;
  s.profile = profiles[size_t(block.below(int(profiles.size())))];
  s.threads = threads[size_t(own.below(int(threads.size())))];
  s.rank = own.below(2) ? own.below(kPlans) : 0;
  return s;
}

}  // namespace rgen::fuzz
