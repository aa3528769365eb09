// Kernels for other machines than this one: AArch64 under an emulator, and portable C++.
#include <doctest/doctest.h>

#include "base/error.h"
#include "hwmodel/profile.h"
#include "support/kernel_batch.h"

using namespace rgen;
using test::KernelBatch;
using test::Problem;

namespace {

const std::vector<Problem>& problems() { return test::small_problems(RGEN_SOURCE_DIR); }

void check(const KernelBatch& batch, const test::Toolchain& toolchain) {
  for (const std::string& failure : batch.failures(toolchain)) FAIL_CHECK(failure);
  MESSAGE(batch.size() << " kernels");
}

}  // namespace

TEST_CASE("NEON under an emulator: everything") {
  for (const char* needed : {"aarch64-linux-gnu-g++", "qemu-aarch64"})
    if (!test::available(needed)) {
      MESSAGE("skipped: there is no " << needed);
      return;
    }
  const hw::Profile profile = hw::load_profile("neoverse_n1");
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile);
  check(batch, {"aarch64-linux-gnu-g++", {"-O1", "-static"}, {"qemu-aarch64"}, 4});
}

TEST_CASE("no vector unit that the emitter knows: portable C++") {
  const hw::Profile profile = test::portable_profile();
  KernelBatch batch;
  for (size_t i = 0; i < problems().size(); i += 3) batch.add(problems()[i], profile, 3);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("a width of vectors that the emitter has not is refused") {
  hw::Profile profile = test::portable_profile();
  profile.vector_bits = 256;
  KernelBatch batch;
  CHECK_THROWS_WITH_AS(batch.add(problems()[0], profile), doctest::Contains("vectors of 128 bits"), Error);
}
