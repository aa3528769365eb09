// Plans of form staged: thread blocks that share both factors of a product in shared memory.
#pragma once
#include <optional>
#include <vector>

#include "rtile/workload.h"

namespace rgen::rtile {

/// Can the factors of a plan of form `staged` (its atom, k and operands are chosen) be copied 16 bytes at a time?
bool can_stage(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// A factor as a GPU's copy unit sees it (TMA): k, contiguous; the points of the row axes, equally far apart, as one dimension; then every
/// other axis along which it moves. Extents and strides in elements.
struct TensorBox {
  std::vector<int> axes;  ///< of the dimensions after those two
  std::vector<int64_t> extents, strides;
};
/// Nothing where it cannot be: rows that bounds are checked for or that do not follow each other, strides that are no whole pieces of 16
/// bytes, more than four dimensions. `coef`: of the factor's address, by axis.
std::optional<TensorBox> tensor_box(const Nest& nest, const std::vector<int64_t>& coef, const std::vector<int>& row_axes, int k_axis,
                                    int element_bytes);

/// Its best block tiles, estimated. Pre: can_stage.
std::vector<NestPlan> plan_staged(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// What a GPU does for it, but for the traffic from memory.
hw::GpuWorkload block_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const hw::Profile& profile);
/// That traffic, which costs most to know: it depends on the order of the blocks too.
void add_memory(hw::GpuWorkload& block, const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);

}  // namespace rgen::rtile
