// What the planners of groups have in common: plan_fused (a CPU's) and plan_rows (a GPU's).
#pragma once
#include <functional>
#include <vector>

#include "rtile/workload.h"

namespace rgen::rtile {

/// A nest with simplified axes, the new numbers of those that were to stay, and its plans.
struct PlannedNest {
  Nest nest;
  std::vector<int> kept;
  std::vector<NestPlan> plans;
};
using PlanNest = std::function<const PlannedNest&(const Nest& nest, const std::vector<int>& keep, const PlanContext& context)>;

/// Nest n of the group inside one tile of the shared axes.
inline Nest nest_in_tile(const Group& group, size_t n, const std::vector<Blocking>& shared) {
  Nest nest = group.nests[n];
  for (size_t k = 0; k < shared.size(); ++k) {
    NestAxis& a = nest.axes[size_t(group.shared[k][n])];
    a.full = a.extent, a.extent = shared[k].hi;
  }
  return nest;
}

}  // namespace rgen::rtile
