// Kernels of every operator, layout, type and epilogue, and of the examples, for this machine's vector units, executed and compared with
// the f64 reference.
#include <algorithm>
#include <cstdlib>

#include "driver/compile.h"
#include "hwmodel/profile.h"
#include "support/native_plans.h"

using namespace rgen;
using namespace rgen::test;

namespace {
const std::vector<Problem>& problems() { return small_problems(RGEN_SOURCE_DIR); }
}  // namespace

TEST_CASE("AVX2: everything") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("AVX-512: everything, planned for two threads") {
  hw::Profile profile = hw::load_profile("zen5");
  std::erase(profile.isa, "avxvnni");  // nothing is written with it where AVX512-VNNI is
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile, 2);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("AVX-512 in half vectors: everything, and other plans") {
  const hw::Profile profile = *hw::load_profile("zen4").halved();
  if (!hw::missing_isa(profile).empty()) {
    MESSAGE("skipped: half of AVX-512 is not there in software");
    return;
  }
  KernelBatch batch;
  for (size_t i = 0; i < problems().size(); ++i) {
    batch.add(problems()[i], profile);
    if (i % 3 == 0) batch.add(problems()[i], profile, 1 + int(i % 4), 1 + int(i % 9));
  }
  CHECK(batch.mentioning("vf_dpbf16(") > 0);
  CHECK(batch.mentioning("vi_dpbusd(") > 0);
  check(batch, {"g++", {"-O1"}, {}, 4});
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
    if (!available(compiler)) {
      MESSAGE("skipped: there is no " << compiler);
      continue;
    }
    KernelBatch batch;
    for (size_t i = 0; i < problems().size(); i += 7) batch.add(problems()[i], profile, 2);
    check(batch, {compiler, {"-O2"}, {}, 2});
  }
}

TEST_CASE("the way users go: plan, emit, compile, load and call on a pool of threads") {
  const auto profile = std::make_shared<const hw::Profile>(hw::load_profile("haswell_avx2"));
  if (!runs_here(*profile)) return;
  const run::ThreadPool pool(3);
  for (const char* compiler : {"g++", "clang++"}) {
    if (!available(compiler)) continue;
    for (const char* name : {"mm_all", "conv_3x3_nchw", "softmax_bf16_3x5x67", "mlp_31_37_11_7_b13"}) {
      const auto problem = std::find_if(problems().begin(), problems().end(), [&](const Problem& p) { return p.program->name == name; });
      REQUIRE(problem != problems().end());
      const auto plans = driver::plan(problem->program, profile, {3, 1, "cpp"});
      const driver::Kernel kernel = driver::compile(plans.front(), {compiler, std::getenv("PATH"), ""});
      auto outputs = run::make_outputs(*problem->program);
      std::vector<run::Buffer> packed;
      std::vector<void*> args;
      for (size_t i = 0; i < problem->inputs.size(); ++i) {
        args.push_back(problem->inputs[i].data());
        if (!kernel.prepack[i]) continue;
        packed.emplace_back(size_t(kernel.prepack_bytes[i]));
        REQUIRE(kernel.prepack[i](args[i], packed.back().data()) == 0);
        args[i] = packed.back().data();
      }
      for (const run::Buffer& o : outputs) args.push_back(o.data());
      const run::Buffer workspace(size_t(kernel.workspace_bytes));
      for (const rgen_threads* threads : {pool.handle(), static_cast<const rgen_threads*>(nullptr)}) {
        REQUIRE(kernel.entry(args.data(), nullptr, kernel.workspace_bytes ? workspace.data() : nullptr, threads) == 0);
        const run::Comparison c = run::compare(*problem->program, problem->reference, outputs);
        CHECK_MESSAGE(c.ok, name << " by " << compiler << ": " << c.worst);
      }
    }
  }
}
