// Emitted CUDA, executed on the CPU by the shim, against the f64 reference: every family of the small workloads and the examples, at odd
// extents. Each kernel runs twice, under two schedules, and must give the same bits.
#include <doctest/doctest.h>

#include "hwmodel/profile.h"
#include "support/kernel_batch.h"

using namespace rgen;
using test::KernelBatch;

namespace {

void check(const KernelBatch& batch) {
  MESSAGE(batch.size() << " kernels");
  for (const std::string& failure : batch.failures({"g++", {"-O1"}, {}, 2})) FAIL_CHECK(failure);
}

}  // namespace

TEST_CASE("CUDA kernels in the shim: everything, as planned for an A100") {
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("a100");
  for (const test::Problem& p : test::small_problems(RGEN_SOURCE_DIR)) batch.add(p, profile);
  check(batch);
}

TEST_CASE("CUDA kernels in the shim: plans that were not the first choice") {
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("v100");
  for (const test::Problem& p : test::small_problems(RGEN_SOURCE_DIR)) batch.add(p, profile, 0, 7);
  check(batch);
}
