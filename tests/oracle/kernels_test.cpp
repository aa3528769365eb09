// Kernels of every operator, layout, type and epilogue, and of the examples, executed and compared with the f64 reference.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "hwmodel/profile.h"
#include "support/kernel_batch.h"

using namespace rgen;
using test::KernelBatch;
using test::Problem;
using test::Toolchain;

namespace {

const std::vector<Problem>& problems() {
  static const std::vector<Problem> all = [] {
    auto programs = test::programs_in(RGEN_SOURCE_DIR "/tests/data/small_workloads.json");
    for (auto& p : test::example_programs(RGEN_SOURCE_DIR)) programs.push_back(p);
    return test::make_problems(programs);
  }();
  return all;
}

bool available(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::filesystem::exists(folder + "/" + program)) return true;
  MESSAGE("skipped: there is no " << program);
  return false;
}

bool runs_here(const hw::Profile& profile) {
  const bool here = hw::missing_isa(profile).empty();
  if (!here) MESSAGE("skipped: this machine lacks instructions of " << profile.name);
  return here;
}

void check(const KernelBatch& batch, const Toolchain& toolchain) {
  for (const std::string& failure : batch.failures(toolchain)) FAIL_CHECK(failure);
  MESSAGE(batch.size() << " kernels");
}

}  // namespace

TEST_CASE("AVX2: everything") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("NEON under an emulator") {
  if (!available("aarch64-linux-gnu-g++") || !available("qemu-aarch64")) return;
  const hw::Profile profile = hw::load_profile("neoverse_n1");
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile);
  check(batch, {"aarch64-linux-gnu-g++", {"-O1", "-static"}, {"qemu-aarch64"}, 4});
}
