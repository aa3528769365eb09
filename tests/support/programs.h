// Programs and profiles that several tests share.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hwmodel/profile.h"
#include "ir/tensor_program.h"

namespace rgen::test {

using ProgramPtr = std::shared_ptr<const ir::TensorProgram>;

/// All programs of a JSON file of specs, in order.
std::vector<ProgramPtr> programs_in(const std::string& file);
/// Those of every examples/*.json, sorted by file; without those of symbolic extents.
std::vector<ProgramPtr> example_programs(const std::string& source_dir);

/// A machine without a vector unit that the emitter knows: 128-bit vectors in portable C++.
hw::Profile portable_profile();
/// The profile with caches of 4, 8 and 16 KiB, so that small tensors are in memory.
hw::Profile with_tiny_caches(hw::Profile profile);
/// A shipped CPU profile with its capacities, widths of memory, registers and rates varied at random. Same seed, same profile.
hw::Profile random_profile(uint32_t seed);

}  // namespace rgen::test
