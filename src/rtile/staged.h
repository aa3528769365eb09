// Plans of form staged: thread blocks that share both factors of a product in shared memory.
#pragma once
#include <vector>

#include "rtile/workload.h"

namespace rgen::rtile {

/// Can the factors of a plan of form `staged` (its atom, k and operands are chosen) be copied 16 bytes at a time?
bool can_stage(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// Its best block tiles, estimated. Pre: can_stage.
std::vector<NestPlan> plan_staged(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// What a GPU does for it: copies to shared memory, products, epilogue; bytes from L2 and DRAM.
hw::GpuWorkload staged_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);

}  // namespace rgen::rtile
