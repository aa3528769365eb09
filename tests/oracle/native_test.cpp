// Kernels of every operator, layout, type and epilogue, and of the examples, for this machine's vector units, executed and compared with
// the f64 reference.
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

bool runs_here(const hw::Profile& profile) {
  const bool here = hw::missing_isa(profile).empty();
  if (!here) MESSAGE("skipped: this machine lacks instructions of " << profile.name);
  return here;
}

}  // namespace

TEST_CASE("AVX2: everything") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("AVX-512: everything, planned for two threads") {
  const hw::Profile profile = hw::load_profile("zen5");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile, 2);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("AMX in software: products and convolutions of small types") {
  hw::Profile profile = hw::load_profile("sapphire_rapids");
  std::erase_if(profile.isa, [](const std::string& f) { return f.rfind("amx", 0) == 0 || f == "avx512fp16"; });
  if (!runs_here(profile)) return;
  profile = hw::load_profile("sapphire_rapids");
  KernelBatch batch;
  for (const Problem& p : problems()) {
    const ir::Tensor& first = (*p.program)[p.program->inputs[0]];
    if (first.dtype == DType::bf16 || first.dtype == DType::s8 || first.dtype == DType::u8)
      batch.add(p, profile, 1, 0, {.emulate_amx = true});
  }
  CHECK(batch.mentioning("tile_dpbf16(") > 0);
  CHECK(batch.mentioning("tile_dpbssd(") > 0);
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("plans that were not the first choice") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (size_t i = 0; i < problems().size(); ++i) batch.add(problems()[i], profile, 1 + int(i % 5), 1 + int(i % 9));
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("as users compile: -O2, GCC and Clang") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  for (const char* compiler : {"g++", "clang++"}) {
    if (!test::available(compiler)) {
      MESSAGE("skipped: there is no " << compiler);
      continue;
    }
    KernelBatch batch;
    for (size_t i = 0; i < problems().size(); i += 7) batch.add(problems()[i], profile, 2);
    check(batch, {compiler, {"-O2"}, {}, 2});
  }
}
