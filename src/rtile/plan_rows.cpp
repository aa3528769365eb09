#include "rtile/plan_rows.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace rgen::rtile {

namespace {

/// Rows of a tile that are tried; several only up to so many points, beyond which one has enough for a warp's lanes and the loads that it
/// has under way.
constexpr int64_t kRows[] = {1, 2, 4, 8, 32}, kPoints = 4096;
/// Warps of a tile that are tried: several for a row, or for one of each lane.
constexpr int kTileWarps[] = {1, 2, 4, 8, 16, 32};
constexpr double kSlower = 1.05;      ///< than the best so far: then no more are tried
constexpr int64_t kPartialBytes = 4;  // f32 or s32

/// One plan: tiles of `rows` along the last shared axis, one value of the others, each of so many warps.
class RowPlanner {
 public:
  RowPlanner(const Group& g, const PlanContext& c, const PlanNest& plan_nest, int64_t rows, int tile_warps)
      : g_(g), c_(c), plan_nest_(plan_nest), in_warp_(c) {
    plan_.group.local = g.local;
    plan_.tile_warps = in_warp_.tile_warps = tile_warps;
    plan_.group.shared.assign(g.shared.size(), {});
    for (size_t k = 0; k < g.shared.size(); ++k) {
      plan_.shared.emplace_back(g.shared_axis(k).extent, 1, k + 1 == g.shared.size() ? rows : 1);
      plan_.tasks *= plan_.shared.back().blocks;
    }
    in_warp_.warps = plan_.tasks;
    in_warp_.register_tiles = 3;  // of several nests for each of several tiles
    std::fill(in_warp_.prepackable.begin(), in_warp_.prepackable.end(), false);
    reads_.assign(c.program.tensors.size(), 0), read_before_.assign(reads_.size(), false);
  }

  std::optional<GroupPlan> run() {
    for (int& home : in_warp_.home) home = std::max(1, home);  // no SM's first level keeps anything between calls
    for (int t : g_.local) in_warp_.home[size_t(t)] = 0;
    in_warp_.kept.assign(reads_.size(), 0);
    for (size_t n = 0; n < g_.nests.size(); ++n)
      if (!add_nest(n)) return {};
    plan_.estimate.us = std::numeric_limits<double>::infinity();
    if (plan_.tile_warps > 1) {
      launch(1);
    } else {
      for (int tiles : {4, 8, 16, 2, 1})  // the first of equals
        if (tiles * c_.profile.gpu.warp <= c_.profile.gpu.max_threads_per_block) launch(tiles);
    }
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
  std::vector<PlanContext> contexts_;             ///< of each nest, as it was planned
  std::vector<bool> read_before_;                 ///< per tensor: by a nest so far
  std::vector<std::vector<bool>> read_again_by_;  ///< ... before each nest
  std::vector<int> reads_;                        ///< per tensor: nests that read it
  int registers_ = 0;                             ///< of a thread, in the nest that needs most
  double read_again_ = 0;                         ///< bytes of a tile that several nests read

  bool local(int tensor) const { return std::find(g_.local.begin(), g_.local.end(), tensor) != g_.local.end(); }

  bool add_nest(size_t n) {
    const PlannedNest& planned = plan_nest_(nest_in_tile(g_, n, plan_.shared), g_.shared_axes_of(n), in_warp_);
    for (size_t k = 0; k < g_.shared.size(); ++k) plan_.group.shared[k].push_back(planned.kept[k]);
    contexts_.push_back(in_warp_), read_again_by_.push_back(read_before_);
    plan_.nests.push_back(planned.plans.front());
    for (const Operand& o : plan_.nests.back().operands)
      if (o.placement == Placement::box) return false;  // padded copies are made by regions of their own
    facts_.push_back(nest_facts(c_.program, planned.nest));
    registers_ = std::max(registers_, workload_in_warp(planned.nest, facts_.back(), planned.plans.front(), in_warp_, 1).registers);
    pass(planned.nest, planned.plans.front());
    plan_.group.nests.push_back(planned.nest);
    return true;
  }

  /// Would the first-level cache keep the operand's part of all tiles that the SM's warps may have at once?
  bool stays_near(const NestFacts::OperandFacts& o, const std::vector<int64_t>& extents) const {
    const hw::Profile::Gpu& gpu = c_.profile.gpu;
    const double tiles = double(gpu.max_threads_per_sm) / (gpu.warp * plan_.tile_warps);
    const double bytes = footprint_bytes(o, extents, c_.profile.levels[1].line_bytes, Fetch::sectors);
    return tiles * bytes <= 0.75 * double(c_.profile.levels[0].capacity_bytes);
  }

  /// What the nest has read is near for those after it. What it has written for others than the group too has gone through to L2.
  void pass(const Nest& nest, const NestPlan& plan) {
    const bool whole = takes_whole(nest, plan, plan_.tile_warps);
    const std::vector<int64_t> extents = nest.extents();
    std::vector<bool> seen(reads_.size(), false);
    for (const NestFacts::OperandFacts& o : facts_.back().operands) {
      const size_t t = size_t(o.tensor);
      if (seen[t] || local(o.tensor)) continue;
      seen[t] = true;
      in_warp_.home[t] = o.is_store ? std::min(in_warp_.home[t], 1) : stays_near(o, extents) ? 0 : 1;
      read_before_[t] = read_before_[t] || !o.is_store;
      const bool in_lanes = whole && !o.is_store && o.coef[size_t(plan.vec)] == 1;
      const int64_t along = in_lanes ? nest.axes[size_t(plan.vec)].extent : 0;
      if (in_lanes && in_warp_.kept[t] == along) continue;  // read from registers
      in_warp_.kept[t] = along;
      if (!o.is_store && ++reads_[t] == 2) read_again_ += footprint_bytes(o, extents, c_.profile.levels[1].line_bytes, Fetch::sectors);
    }
  }

  /// Shared memory of a tile: the local tensors, those of which each warp has its own as often; and what warps have reduced of its parts.
  int64_t tile_bytes() const {
    int64_t bytes = 0;
    for (size_t n = 0; n < plan_.nests.size(); ++n) {
      const Nest& nest = plan_.group.nests[n];
      const NestPlan& p = plan_.nests[n];
      nest.for_each_statement([&](const Statement& s) {
        if (s.store && local(s.tensor)) bytes += (by_all_warps(nest, p, s) ? plan_.tile_warps : 1) * local_bytes(s.tensor);
        if (in_parts(nest, p) && s.reduce != ir::ReduceOp::none)
          bytes += round_up(kPartialBytes * partial_results(nest, p, plan_.tile_warps), kWarpAlignment);
      });
    }
    return bytes;
  }
  int64_t local_bytes(int tensor) const {
    int64_t elements = 1;
    for (const ir::Size& s : c_.program[tensor].shape) elements *= s.value();
    for (size_t k = 0; k < plan_.shared.size(); ++k) elements = elements / g_.shared_axis(k).extent * plan_.shared[k].hi;
    return round_up(elements * size_of(c_.program[tensor].dtype), kWarpAlignment);
  }

  /// Where what a tile reads again comes from: shares of it in the first-level cache, which has all of it where the tiles of an SM's blocks
  /// take no more than half of what shared memory leaves of it, and nothing where they take all of that; of the rest, in L2, likewise.
  struct Found {
    double near, in_l2;
  };
  Found found(int tiles, int64_t shared) const {
    const auto share = [](double wanted, double capacity) { return capacity <= 0 ? 0 : std::clamp(2 - 2 * wanted / capacity, 0.0, 1.0); };
    const int64_t resident = hw::resident_blocks(tiles * plan_.tile_warps * c_.profile.gpu.warp, registers_, shared, c_.profile);
    const int64_t all = ceil_div(plan_.tasks, tiles), blocks = std::min(resident, ceil_div(all, c_.profile.cores));
    const double left = double(c_.profile.levels[0].capacity_bytes - blocks * shared);
    const double together = double(std::min(all, resident * c_.profile.cores) * tiles) * read_again_;
    return {share(double(blocks * tiles) * read_again_, left), share(together, double(c_.profile.levels[1].capacity_bytes))};
  }
  /// ... all of it from that level, or from memory if it comes from there at all.
  std::vector<hw::GpuWorkload> parts(int tiles, int level) const {
    std::vector<hw::GpuWorkload> all;
    for (size_t n = 0; n < facts_.size(); ++n) {
      PlanContext c = contexts_[n];
      for (size_t t = 0; t < c.home.size(); ++t)
        if (read_again_by_[n][t] && !local(int(t))) c.home[t] = std::min(level, std::max(1, c_.home[t]));
      all.push_back(workload_in_warp(plan_.group.nests[n], facts_[n], plan_.nests[n], c, tiles));
    }
    return all;
  }

  /// The group with so many tiles in a block, if that is faster.
  void launch(int tiles) {
    const int64_t shared = tiles * tile_bytes();
    const Found at = found(tiles, shared);
    const std::vector<hw::GpuWorkload> near = parts(tiles, 0);
    std::vector<hw::GpuWorkload> all = near;
    const auto add = [&](double share, int level) {
      if (share <= 0) return;
      const std::vector<hw::GpuWorkload> far = parts(tiles, level);
      for (size_t n = 0; n < all.size(); ++n) {
        all[n].block_read_bytes += share * (far[n].block_read_bytes - near[n].block_read_bytes);
        all[n].dram_read_bytes += share * (far[n].dram_read_bytes - near[n].dram_read_bytes);
      }
    };
    add((1 - at.near) * at.in_l2, 1), add((1 - at.near) * (1 - at.in_l2), 2);
    all.front().shared_bytes = shared;
    hw::Estimate e = hw::estimate(all, c_.profile);
    if (e.us < plan_.estimate.us) plan_.estimate = std::move(e), plan_.block_tasks = all.front().block_tasks / plan_.tile_warps;
  }
};

/// Rows lie side by side in some tensor: lanes may have one each.
bool lanes_across_rows(const Group& g, const ir::TensorProgram& program) {
  for (size_t n = 0; n < g.nests.size(); ++n) {
    const NestFacts facts = nest_facts(program, g.nests[n]);
    const size_t axis = size_t(g.shared.back()[n]);
    const auto across = [&](const NestFacts::OperandFacts& o) {  // and not a number of each row alone
      return o.coef[axis] == 1 && std::any_of(o.coef.begin(), o.coef.end(), [](int64_t c) { return c > 1; });
    };
    if (std::any_of(facts.operands.begin(), facts.operands.end(), across)) return true;
  }
  return false;
}

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
  const hw::Profile::Gpu& gpu = context.profile.gpu;
  const bool across = lanes_across_rows(group, context.program);
  for (int64_t rows : kRows) {
    const int64_t equal = Blocking(extent, 1, rows).hi;
    if (std::find(tried.begin(), tried.end(), equal) != tried.end()) continue;
    tried.push_back(equal);
    const bool shares = equal == 1 || (across && (equal == extent || equal >= gpu.warp));
    double best = std::numeric_limits<double>::infinity();
    for (int warps : kTileWarps) {
      if (warps > 1 && (!shares || warps * gpu.warp > std::min<int64_t>(equal * points, gpu.max_threads_per_block))) break;
      if (equal > 1 && equal * points > kPoints * warps) continue;
      auto p = RowPlanner(group, context, plan_nest, equal, warps).run();
      if (!p) continue;
      const double us = p->estimate.us;
      all.push_back(std::move(*p));
      if (us > kSlower * best && context.breadth == 1) break;  // and more warps would be slower still
      best = std::min(best, us);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const GroupPlan& a, const GroupPlan& b) { return a.estimate.us < b.estimate.us; });
  return all;
}

}  // namespace rgen::rtile
