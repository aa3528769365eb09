// A fixed sample of what rgen-fuzz draws: 200 random programs under random plans, run between inaccessible pages, against the reference.
#include <doctest/doctest.h>

#include "support/process.h"

using namespace rgen;

TEST_CASE("200 random programs agree with the reference") {
  test::ProcessOptions options;
  options.timeout = std::chrono::minutes(10);
  options.working_directory = RGEN_BINARY_DIR;
  const test::ProcessResult r =
      test::run_process({RGEN_BINARY_DIR "/bin/rgen-fuzz", "--count", "200", "--seed", "1", "--failures", "3"}, options);
  INFO(r.out);
  INFO(r.err);
  CHECK_FALSE(r.timed_out);
  CHECK(r.status == 0);
  // the last line counts: nearly all must have been run, not refused
  const size_t ok = r.out.rfind("ok ");
  REQUIRE(ok != std::string::npos);
  CHECK(std::stoi(r.out.substr(ok + 3)) >= 190);
}
