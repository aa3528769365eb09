// Plans of form staged: thread blocks that share both factors of a product in shared memory.
#pragma once
#include <optional>
#include <vector>

#include "rtile/workload.h"

namespace rgen::rtile {

/// Can the factors of a plan of form `staged` (its atom, k and operands are chosen) be copied as its unit wants them? 16 bytes of k at a
/// time; for lanes, neighbours along k or along the rows, 4 bytes each.
bool can_stage(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// A factor as a GPU's copy unit sees it (TMA): k, contiguous; the points of the row axes, equally far apart, as one dimension; then every
/// other axis along which it moves. Extents and strides in elements.
struct TensorBox {
  std::vector<int> axes;  ///< of the dimensions after those two
  std::vector<int64_t> extents, strides;
};
/// Nothing where it cannot be: rows that bounds are checked for or that do not follow each other, strides that are no whole pieces of 16
/// bytes, more than four dimensions.
std::optional<TensorBox> tensor_box(const Nest& nest, const NestFacts::OperandFacts& facts, const std::vector<int>& row_axes, int k_axis);

/// The pixels under a convolution's window, as the copy unit walks them (im2col mode of TMA): width, then height, then images, one output
/// point after the other; a pixel beyond the image is 0.
struct PixelBox {
  /// Width and height: the axis of the output (−1: one place), that of the window (−1: one tap), what a step along each moves, the first
  /// pixel of the first place, and how far the last one lies from the end of the image.
  struct Dimension {
    int place = -1, tap = -1;
    int64_t stride = 1, dilation = 1, lower = 0, upper = 0;
  };
  Dimension dimensions[2];
  int image = -1;                         ///< the axis of the images
  std::vector<int64_t> extents, strides;  ///< channels, width, height, images; elements
};
/// Nothing where the factor is no such tensor, or the copy unit's numbers (8 bits) do not hold its.
std::optional<PixelBox> pixel_box(const Nest& nest, const NestFacts::OperandFacts& facts, const Operand& operand,
                                  const std::vector<int>& row_axes, int k_axis);

/// Its best block tiles, estimated. Pre: can_stage.
std::vector<NestPlan> plan_staged(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context);

/// L2 takes as long for a vector of 16-bit results, half a line, as for a whole one (H200: 4096 × 4096 × 64 of bf16, 18 to 20 µs, where
/// whole lines would be written in 6).
constexpr double kHalfLines = 2;

/// Less than its estimate, whatever its stages: the products of the busiest SM, and its factors' way from L2.
double least_us(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const hw::Profile& profile);
/// What a GPU does for it, but for the traffic from memory.
hw::GpuWorkload block_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const hw::Profile& profile);
/// That traffic, which costs most to know: it depends on the order of the blocks too.
void add_memory(hw::GpuWorkload& block, const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);

}  // namespace rgen::rtile
