// Several nests over common rows on a GPU (softmax, normalisations): one kernel, in which a warp, or the warps of a block
// together, take a tile of the shared axes through all nests.
#pragma once
#include <vector>

#include "rtile/plan_group.h"

namespace rgen::rtile {

/// Is each factor of a product used along an axis of its own? A block's warps share such factors; a warp's rows would not.
bool multiplies_matrices(const Nest& nest);

/// Plans of the group, best first, of different tiles; none if a tile's local tensors do not fit shared memory. Pre: the group has shared
/// axes; the profile is a GPU's; the context has no threads.
std::vector<GroupPlan> plan_rows(const Group& group, const PlanContext& context, const PlanNest& plan_nest);

}  // namespace rgen::rtile
