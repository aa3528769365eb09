// Plans whose kernels this machine executes: programs of the presets, profiles, and the plans that have the form under test.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "rtile/construct.h"
#include "support/kernel_batch.h"

namespace rgen::test {

/// An operator of the presets, numbered by its place; `epilogue`: what its list holds.
void add_preset(std::vector<ProgramPtr>& programs, const std::string& op, const std::string& dtype, const std::string& params,
                const std::string& epilogue = "");

/// Portable vectors that multiply unsigned bytes by signed ones: signed factors are flipped, and their sums lie behind each panel.
hw::Profile flipping_profile();
/// Sapphire Rapids without what others with AVX-512 lack, but for AMX.
hw::Profile amx_profile();
/// On this processor, its tile registers emulated (stood_for) where they are missing, and its AVX-512 in plain C++ (avx512_software.h)
/// where there is none at all; says so where not.
bool runs_here(const hw::Profile& profile);
/// Options for a profile that runs here.
emit::CppOptions stood_for(const hw::Profile& profile);

/// The shipped profile; of whole vectors alone where the machine's AVX-512 is software, which has no halves.
hw::Profile profile_here(const std::string& name);

/// The first plans of the problem, `most` of sixty, whose explanation has the text.
void add_plans(KernelBatch& batch, const Problem& problem, hw::Profile profile, int threads, const std::string& text,
               const std::string& label, int most = 3, const emit::CppOptions& options = {});

/// Compiles and runs the kernels: each must be near the reference.
void check(const KernelBatch& batch, const Toolchain& toolchain);
/// Plans of programs that no cache holds whose explanation has the text, of one to three threads; `enough` looks at each machine's kernels.
void check_in_memory(const std::vector<ProgramPtr>& programs, const std::string& text,
                     const std::function<void(const KernelBatch&)>& enough);

}  // namespace rgen::test
