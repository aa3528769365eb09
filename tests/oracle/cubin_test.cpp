// Emitted CUDA through NVRTC and ptxas for the architectures of three generations: everything compiles, nothing spills, and registers and
// shared memory are what the plan reckoned with. Skipped where there is no NVRTC; needs no GPU.
#include <doctest/doctest.h>

#include <future>

#include "base/error.h"
#include "driver/cuda.h"
#include "hwmodel/profile.h"
#include "support/kernel_batch.h"

using namespace rgen;

namespace {

std::string check(const test::Problem& p, const std::shared_ptr<const hw::Profile>& profile) {
  const auto plans = driver::plan(p.program, profile, {0, 1, "cuda"});
  const driver::Emission emission = driver::emit(plans.front());
  const auto image = driver::compile_cuda(emission.code, emit::cuda_arch(*profile), run::DeviceImage::cubin, {});
  std::string wrong;
  for (const run::KernelResources& k : image.kernels) {
    if (k.spill_bytes > 0) wrong += " " + k.symbol + " spills " + std::to_string(k.spill_bytes) + " bytes;";
    if (k.shared_bytes > 0) wrong += " " + k.symbol + " has static shared memory;";
    for (const emit::Launch& l : emission.code.launches)
      if (l.symbol == k.symbol && driver::blocks_per_sm(k, l.block, l.shared_bytes, *profile) < 1)
        wrong += " " + k.symbol + " does not fit;";
  }
  return wrong.empty() ? "" : p.program->name + " on " + profile->name + ":" + wrong;
}

}  // namespace

TEST_CASE("cubins for sm_80, sm_89 and sm_90a: no spill, shared memory as planned") {
  try {
    run::Nvrtc::open({});
  } catch (const Error& e) {
    MESSAGE("skipped: " << e.what());
    return;
  }
  const auto& problems = test::small_problems(RGEN_SOURCE_DIR);
  std::vector<std::pair<const test::Problem*, std::shared_ptr<const hw::Profile>>> jobs;
  const char* devices[] = {"a100", "rtx4090", "h100"};
  std::vector<std::shared_ptr<const hw::Profile>> profiles;
  for (const char* d : devices) profiles.push_back(std::make_shared<const hw::Profile>(hw::load_profile(d)));
  for (size_t i = 0; i < problems.size(); ++i) jobs.push_back({&problems[i], profiles[i % 3]});
  const auto half = [&](size_t first) {
    std::vector<std::string> wrong;
    for (size_t i = first; i < jobs.size(); i += 2)
      if (std::string w = check(*jobs[i].first, jobs[i].second); !w.empty()) wrong.push_back(w);
    return wrong;
  };
  auto other = std::async(std::launch::async, half, size_t{1});
  for (const std::string& w : half(0)) FAIL_CHECK(w);
  for (const std::string& w : other.get()) FAIL_CHECK(w);
  MESSAGE(jobs.size() << " kernels");
}
