// Plans of form staged: thread blocks that share both factors of a product in shared memory.
#pragma once
#include <vector>

#include "rtile/workload.h"

namespace rgen::rtile {

/// Can the factors of a plan of form `staged` (its atom, k and operands are chosen) be copied 16 bytes at a time?
bool can_stage(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// Its best block tiles, estimated. Pre: can_stage.
std::vector<NestPlan> plan_staged(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// What a GPU does for it, but for the traffic from memory.
hw::GpuWorkload block_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const hw::Profile& profile);
/// That traffic, which costs most to know: it depends on the order of the blocks too.
void add_memory(hw::GpuWorkload& block, const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);

}  // namespace rgen::rtile
