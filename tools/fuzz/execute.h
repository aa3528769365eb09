// A compiled kernel run as its contract allows, between guards.
#pragma once
#include "fuzz/prepare.h"
#include "run/kernel.h"

namespace rgen::fuzz {

/// Runs the kernel serially, on three threads and with its tasks in reverse, each time in fresh memory: inputs and packings read-only,
/// workspace and outputs full of garbage, inaccessible pages around all. All results must be bit-identical and near the reference.
/// Returns what is wrong; "" = nothing. Faults where the kernel leaves its arguments.
std::string execute(const Case& c, const run::Module& module, uint64_t seed);

}  // namespace rgen::fuzz
