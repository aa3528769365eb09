#include "support/native_plans.h"

#include <algorithm>

#include "hwmodel/profile.h"
#include "rtile/rprogram.h"

namespace rgen::test {

void add_preset(std::vector<ProgramPtr>& programs, const std::string& op, const std::string& dtype, const std::string& params,
                const std::string& epilogue) {
  programs.push_back(std::make_shared<const ir::TensorProgram>(
      ir::parse_program("{\"name\": \"" + op + "_" + dtype + "_" + std::to_string(programs.size()) + "\", \"op\": \"" + op +
                        "\", \"dtype\": \"" + dtype + "\", \"params\": {" + params + "}, \"epilogue\": [" + epilogue + "]}")));
}

hw::Profile flipping_profile() {
  hw::Profile p = portable_profile();
  hw::Atom atom = p.atoms.back();
  atom.name = "vpdpbusd", atom.a = DType::u8, atom.b = DType::s8, atom.m = 1, atom.n = 4, atom.k = 4;
  std::erase_if(p.atoms, [](const hw::Atom& a) { return a.b == DType::s8; });
  p.atoms.push_back(atom);
  return p;
}

hw::Profile amx_profile() {
  hw::Profile p = hw::load_profile("sapphire_rapids");
  std::erase_if(p.isa, [](const std::string& f) { return f == "avx512fp16" || f == "avxvnni"; });
  return p;
}

bool runs_here(const hw::Profile& profile) {
  const std::vector<std::string> missing = hw::missing_isa(profile);
  const bool no_avx512 = std::find(missing.begin(), missing.end(), "avx512f") != missing.end();
  const bool here = std::all_of(missing.begin(), missing.end(),
                                [&](const std::string& f) { return f.starts_with("amx") || (no_avx512 && f.starts_with("avx512")); });
  if (!here) MESSAGE("skipped: this machine lacks instructions of " << profile.name);
  return here;
}

emit::CppOptions stood_for(const hw::Profile& profile) {
  const std::vector<std::string> missing = hw::missing_isa(profile);
  return {.emulate_amx = std::any_of(missing.begin(), missing.end(), [](const std::string& f) { return f.starts_with("amx"); })};
}

hw::Profile profile_here(const std::string& name) {
  hw::Profile p = hw::load_profile(name);
  if (!hw::missing_isa(p).empty()) p.halves = 1;
  return p;
}

void add_plans(KernelBatch& batch, const Problem& problem, hw::Profile profile, int threads, const std::string& text,
               const std::string& label, int most, const emit::CppOptions& options) {
  profile.halves = 1;  // whole vectors: half vectors have a test of their own, and would take the place of plans of the form
  int taken = 0;
  for (const rtile::Candidate& c : rtile::construct(*problem.program, profile, {threads, 60})) {
    if (c.explanation.find(text) == std::string::npos) continue;
    batch.add(problem, profile, c, label, options);
    if (++taken == most) break;
  }
}

void check(const KernelBatch& batch, const Toolchain& toolchain) {
  for (const std::string& failure : batch.failures(toolchain)) FAIL_CHECK(failure);
  MESSAGE(batch.size() << " kernels");
}

void check_in_memory(const std::vector<ProgramPtr>& programs, const std::string& text,
                     const std::function<void(const KernelBatch&)>& enough) {
  const std::vector<Problem> all = make_problems(programs);
  for (const char* name : {"zen4", "zen5", "haswell_avx2"}) {
    const hw::Profile profile = with_tiny_caches(profile_here(name));
    if (!runs_here(profile)) continue;
    KernelBatch batch;
    for (const Problem& p : all)
      for (int threads = 1; threads <= 3; ++threads) add_plans(batch, p, profile, threads, text, "in memory", 2);
    enough(batch);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

}  // namespace rgen::test
