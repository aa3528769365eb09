// Several nests over common axes on a CPU (attention, normalisations, chains of products): a loop over tiles of those axes, inside which
// the nests run one after the other and what passes between them stays in a cache.
#pragma once
#include <vector>

#include "rtile/plan_group.h"

namespace rgen::rtile {

/// Plans of the group, best first, of different tiles: several values of the innermost shared axis, one of the others. Pre: the group has
/// shared axes; the profile is a CPU's.
std::vector<GroupPlan> plan_fused(const Group& group, const PlanContext& context, const PlanNest& plan_nest);

}  // namespace rgen::rtile
