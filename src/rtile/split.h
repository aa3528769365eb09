// Reductions cut into parts (split-K): where results are few and sums are long, a device has more cores than there are tasks. The parts
// are further tasks of the nest; their sums are a tensor, over which a nest of its own sums again and does what followed the reduction.
// The order of summation follows from the plan alone, so results are the same in every run.
#pragma once
#include <optional>
#include <vector>

#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests, each reduction in at most parts[nest] parts (1: as it is) of its longest axis. Nothing if none can be cut.
/// Pre: the nests are the program's, parts[i] >= 1.
std::optional<Rewritten> split_reductions(const ir::TensorProgram& program, const std::vector<Nest>& nests,
                                          const std::vector<int64_t>& parts);

}  // namespace rgen::rtile
