// Reductions cut into parts (split-K): where results are few and sums are long, a machine has more cores than there are tasks. The parts
// are further tasks of the nest; their sums are a tensor, over which a nest of its own sums again and does what followed the reduction.
// The order of summation follows from the plan alone, so results are the same in every run.
#pragma once
#include <optional>
#include <vector>

#include "rtile/rprogram.h"

namespace rgen::rtile {

/// The nests, each reduction in at most parts[nest] parts (1: as it is) of its longest axis, of equal length or with a short rest as one
/// part more. Nothing if none can be cut. Pre: the nests are the program's, parts[i] >= 1.
std::optional<Rewritten> split_reductions(const ir::TensorProgram& program, const std::vector<Nest>& nests,
                                          const std::vector<int64_t>& parts, bool equal);

/// Parts of each reduction that would give a GPU's schedulers `share` of four warps each, of the size that work goes best with; 1 where the
/// nest, as `plan` has it, takes less than another launch would. Pre: the plan is of these nests.
std::vector<int64_t> parts_wanted(const RProgram& plan, const std::vector<Nest>& nests, const ir::TensorProgram& program,
                                  const hw::Profile& profile, double share);

/// Parts of each reduction that would give each of the plan's threads one; 1 where they have enough to do, or the nest takes less than
/// another parallel region costs.
std::vector<int64_t> parts_for_workers(const RProgram& plan, const hw::Profile& profile);

}  // namespace rgen::rtile
