#include "rtile/plan_rows.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace rgen::rtile {

namespace {

/// Rows of a tile that are tried; several only up to so many points, beyond which one has enough for a warp's lanes and the loads that it
/// has under way.
constexpr int64_t kRows[] = {1, 2, 4, 8, 32}, kPoints = 4096;

/// One plan: tiles of `rows` along the last shared axis, one value of the others.
class RowPlanner {
 public:
  RowPlanner(const Group& g, const PlanContext& c, const PlanNest& plan_nest, int64_t rows)
      : g_(g), c_(c), plan_nest_(plan_nest), in_warp_(c) {
    plan_.group.local = g.local;
    plan_.group.shared.assign(g.shared.size(), {});
    for (size_t k = 0; k < g.shared.size(); ++k) {
      plan_.shared.emplace_back(g.shared_axis(k).extent, 1, k + 1 == g.shared.size() ? rows : 1);
      plan_.tasks *= plan_.shared.back().blocks;
    }
    in_warp_.warps = plan_.tasks;
    in_warp_.register_tiles = 3;  // of several nests for each of several tiles
    std::fill(in_warp_.prepackable.begin(), in_warp_.prepackable.end(), false);
    reads_.assign(c.program.tensors.size(), 0);
  }

  std::optional<GroupPlan> run() {
    for (int& home : in_warp_.home) home = std::max(1, home);  // no SM's first level keeps anything between calls
    for (int t : g_.local) in_warp_.home[size_t(t)] = 0;
    for (size_t n = 0; n < g_.nests.size(); ++n)
      if (!add_nest(n)) return {};
    plan_.estimate.us = std::numeric_limits<double>::infinity();
    for (int warps : {4, 8, 16, 2, 1})  // the first of equals
      if (warps * c_.profile.gpu.warp <= c_.profile.gpu.max_threads_per_block) launch(warps);
    if (plan_.block_tasks == 0) return {};
    for (NestPlan& n : plan_.nests) n.block_tasks = plan_.block_tasks;
    return std::move(plan_);
  }

 private:
  const Group& g_;
  const PlanContext& c_;
  const PlanNest& plan_nest_;
  PlanContext in_warp_;  ///< the rows that earlier nests have read are in the first-level cache
  GroupPlan plan_;
  std::vector<NestFacts> facts_;
  std::vector<PlanContext> contexts_;  ///< of each nest, as it was planned
  std::vector<int> reads_;             ///< per tensor: nests that read it
  int registers_ = 0;                  ///< of a thread, in the nest that needs most
  double read_again_ = 0;              ///< bytes of a tile that several nests read

  bool local(int tensor) const { return std::find(g_.local.begin(), g_.local.end(), tensor) != g_.local.end(); }

  bool add_nest(size_t n) {
    const PlannedNest& planned = plan_nest_(nest_in_tile(g_, n, plan_.shared), g_.shared_axes_of(n), in_warp_);
    for (size_t k = 0; k < g_.shared.size(); ++k) plan_.group.shared[k].push_back(planned.kept[k]);
    contexts_.push_back(in_warp_);
    plan_.nests.push_back(planned.plans.front());
    for (const Operand& o : plan_.nests.back().operands)
      if (o.placement == Placement::box) return false;  // padded copies are made by regions of their own
    facts_.push_back(nest_facts(c_.program, planned.nest));
    registers_ = std::max(registers_, workload_in_warp(planned.nest, facts_.back(), planned.plans.front(), in_warp_, 1).registers);
    pass(planned.nest);
    plan_.group.nests.push_back(planned.nest);
    return true;
  }

  /// What the nest has read is near for those after it. What it has written for others than the group too has gone through to L2.
  void pass(const Nest& nest) {
    const std::vector<int64_t> extents = nest.extents();
    std::vector<bool> seen(reads_.size(), false);
    for (const NestFacts::OperandFacts& o : facts_.back().operands) {
      const size_t t = size_t(o.tensor);
      if (seen[t] || local(o.tensor)) continue;
      seen[t] = true;
      in_warp_.home[t] = o.is_store ? std::min(in_warp_.home[t], 1) : 0;
      if (!o.is_store && ++reads_[t] == 2) read_again_ += footprint_bytes(o, extents, c_.profile.levels[1].line_bytes, Fetch::sectors);
    }
  }

  /// Shared memory of a warp: the tiles of the local tensors.
  int64_t tile_bytes() const {
    int64_t bytes = 0;
    for (int t : g_.local) {
      int64_t elements = 1;
      for (const ir::Size& s : c_.program[t].shape) elements *= s.value();
      for (size_t k = 0; k < plan_.shared.size(); ++k) elements = elements / g_.shared_axis(k).extent * plan_.shared[k].hi;
      bytes += round_up(elements * size_of(c_.program[t].dtype), kWarpAlignment);
    }
    return bytes;
  }

  /// The share of what a tile reads again that the first-level cache still has: all where the rows of an SM's warps take no more than half
  /// of what shared memory leaves of it, nothing where they take all of that. The rest comes from L2 again.
  double near(int warps, int64_t shared) const {
    const int64_t resident = hw::resident_blocks(warps * c_.profile.gpu.warp, registers_, shared, c_.profile);
    const int64_t blocks = std::min(resident, ceil_div(ceil_div(plan_.tasks, warps), c_.profile.cores));
    const double left = double(c_.profile.levels[0].capacity_bytes - blocks * shared);
    return left <= 0 ? 0 : std::clamp(2 - double(blocks * warps) * read_again_ / (0.5 * left), 0.0, 1.0);
  }
  std::vector<hw::GpuWorkload> parts(int warps, bool near) const {
    std::vector<hw::GpuWorkload> all;
    for (size_t n = 0; n < facts_.size(); ++n) {
      PlanContext c = contexts_[n];
      for (size_t t = 0; t < c.home.size() && !near; ++t)
        if (c.home[t] == 0 && !local(int(t))) c.home[t] = 1;
      all.push_back(workload_in_warp(plan_.group.nests[n], facts_[n], plan_.nests[n], c, warps));
    }
    return all;
  }

  /// The group with so many warps in a block, if that is faster.
  void launch(int warps) {
    const int64_t shared = warps * tile_bytes();
    const double found = near(warps, shared);
    std::vector<hw::GpuWorkload> all = parts(warps, true);
    if (found < 1) {
      const std::vector<hw::GpuWorkload> far = parts(warps, false);
      for (size_t n = 0; n < all.size(); ++n) all[n].block_read_bytes += (1 - found) * (far[n].block_read_bytes - all[n].block_read_bytes);
    }
    all.front().shared_bytes = shared;
    hw::Estimate e = hw::estimate(all, c_.profile);
    if (e.us < plan_.estimate.us) plan_.estimate = std::move(e), plan_.block_tasks = all.front().block_tasks;
  }
};

}  // namespace

bool multiplies_matrices(const Nest& nest) {
  const std::optional<Contraction> factors = contraction(nest);
  if (!factors) return false;
  const auto reused = [&](const ir::Access& a) {  // along some axis of the results
    for (size_t axis = 0; axis < nest.axes.size(); ++axis)
      if (!nest.axes[axis].reduced && std::none_of(a.index.begin(), a.index.end(), [&](const ir::Index& i) { return i.uses(int(axis)); }))
        return true;
    return false;
  };
  return reused(*factors->x) && reused(*factors->y);
}

std::vector<GroupPlan> plan_rows(const Group& group, const PlanContext& context, const PlanNest& plan_nest) {
  std::vector<GroupPlan> all;
  std::vector<int64_t> tried;
  const int64_t extent = group.shared_axis(group.shared.size() - 1).extent;
  int64_t points = 0;  // of a row, in the largest nest
  for (const Nest& n : group.nests) points = std::max(points, n.points());
  for (size_t k = 0; k < group.shared.size(); ++k) points /= group.shared_axis(k).extent;
  for (int64_t rows : kRows) {
    const int64_t equal = Blocking(extent, 1, rows).hi;
    if (equal > 1 && equal * points > kPoints) break;
    if (std::find(tried.begin(), tried.end(), equal) != tried.end()) continue;
    tried.push_back(equal);
    if (auto p = RowPlanner(group, context, plan_nest, equal).run()) all.push_back(std::move(*p));
  }
  std::stable_sort(all.begin(), all.end(), [](const GroupPlan& a, const GroupPlan& b) { return a.estimate.us < b.estimate.us; });
  return all;
}

}  // namespace rgen::rtile
