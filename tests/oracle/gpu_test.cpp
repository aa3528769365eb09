// Emitted CUDA, executed on the CPU by the shim, against the f64 reference: every family of the small workloads and the examples, at odd
// extents. Each kernel runs twice, under two schedules, and must give the same bits.
#include <doctest/doctest.h>

#include <tuple>

#include "hwmodel/profile.h"
#include "support/kernel_batch.h"
#include "support/random_program.h"

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

TEST_CASE("CUDA kernels in the shim: random programs, random plans") {
  constexpr uint64_t kSeed = 50000;
  constexpr int kPrograms = 120;
  std::vector<test::ProgramPtr> programs;
  for (int i = 0; i < kPrograms; ++i)
    programs.push_back(std::make_shared<const ir::TensorProgram>(test::random_program(kSeed + uint64_t(i), {.work = 1 << 17})));
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("a100");
  for (int i = 0; i < kPrograms; ++i) batch.add(problems[size_t(i)], profile, 0, i % 5);
  CHECK(batch.mentioning("__dp4a") >= 1);
  check(batch);
}

TEST_CASE("products on tensor cores in the shim: every type, odd extents, several tiles") {
  std::vector<test::ProgramPtr> programs;
  for (const char* type : {"f16", "bf16", "s8"})
    for (const auto& [m, n, k] : {std::tuple{64, 96, 128}, {33, 65, 72}, {17, 200, 129}, {100, 31, 64}, {5, 64, 320}}) {
      const std::string spec = "{\"name\": \"mm_" + std::string(type) + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" +
                               std::to_string(k) + "\", \"op\": \"matmul\", \"dtype\": \"" + type +
                               "\", \"params\": {\"m\": " + std::to_string(m) + ", \"n\": " + std::to_string(n) +
                               ", \"k\": " + std::to_string(k) + "}, \"epilogue\": [\"bias\", \"relu\"]}";
      programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(spec)));
    }
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("a100");
  for (const test::Problem& p : problems)
    for (int rank : {0, 9}) batch.add(p, profile, 0, rank);
  CHECK(batch.mentioning("mma_") >= problems.size());
  check(batch);
}
