// Plans of form staged: thread blocks that share both factors of a product in shared memory.
#pragma once
#include <vector>

#include "rtile/workload.h"

namespace rgen::rtile {

/// Can the factors of a plan of form `staged` (its atom, k and operands are chosen) be copied 16 bytes at a time?
bool can_stage(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// Its best block tiles, estimated. Pre: can_stage.
std::vector<NestPlan> plan_staged(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// Steps of k of such a plan, over all reduced axes; sums of a block.
int64_t steps_of(const Nest& nest, const NestPlan& plan);
int64_t block_rows(const Staging& staging);
int64_t block_columns(const NestPlan& plan);

/// What a GPU does for it; the first without the traffic from memory, which costs most to know.
hw::GpuWorkload block_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);
hw::GpuWorkload staged_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);

}  // namespace rgen::rtile
