// How often a plan's tiles run, and how far their axes go: what the counts of instructions and of traffic have in common.
#pragma once
#include <algorithm>

#include "rtile/workload.h"

namespace rgen::rtile {

struct TileCounts {
  struct Axis {
    double mean = 0;      ///< output axis: mean size of a tile, in units
    double trips = 1;     ///< reduced axis: iterations of its loop inside the tile
    int64_t unroll = 1;   ///< ... and units per iteration
    int64_t covered = 0;  ///< elements that the busiest worker covers
  };
  std::vector<Axis> axes;
  double calls = 1;              ///< tiles of the busiest worker (chunks counted)
  double points = 1, steps = 1;  ///< per tile: vectors of results, steps of the reduction
  double chunks = 1;
  double inside = 1;  ///< share of the points of a step that are computed: others read padding
};
/// Of a CPU's busiest worker; of a GPU's tasks in the mean.
TileCounts count_tiles(const Nest& nest, const NestPlan& plan, const PlanContext& context);

/// One plan, for those who count what it does. What it is made of lives as long as this.
class CountedPlan {
 public:
  /// Pre: the plan's operands are placed.
  CountedPlan(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, const TileCounts& counts)
      : nest_(nest), facts_(facts), plan_(plan), c_(context), n_(nest.axes.size()), counts_(counts) {}

  bool placed(size_t operand, Placement p) const { return operand < facts_.reads && plan_.operands[operand].placement == p; }
  bool packed(size_t operand) const { return operand < facts_.reads && plan_.operands[operand].packed(); }

 protected:
  const Nest& nest_;
  const NestFacts& facts_;
  const NestPlan& plan_;
  const PlanContext& c_;
  const size_t n_;
  const TileCounts& counts_;
  const std::vector<TileCounts::Axis>& axes_ = counts_.axes;

  bool reduced(size_t a) const { return nest_.axes[a].reduced; }
  /// Elements between neighbours along each axis, where the plan puts the operand.
  const std::vector<int64_t>& placed_coef(size_t i) const {
    const auto& o = facts_.operands[i];
    if (!placed(i, Placement::box)) return o.coef;
    const std::vector<int64_t>& coef = o.box(plan_.operands[i]).coef;
    return coef.empty() ? o.coef : coef;
  }
  /// That are active at once.
  int workers() const { return int(std::max<int64_t>(c_.sharers, std::min<int64_t>(plan_.tasks(), c_.threads))); }
  static constexpr int kSum = 4;  ///< bytes
  /// Partial sums have a place of their own, vectors side by side, because their results are narrower or not contiguous.
  bool sums_apart(const NestFacts::OperandFacts& o) const {
    return counts_.chunks > 1 && o.is_store && (o.element_bytes < kSum || o.coef[size_t(plan_.vec)] != 1);
  }
  /// Elements of a step of 1 of a loop over the axis.
  int64_t step_unit(size_t a) const { return reduced(a) ? 1 : plan_.tile[a].size(); }
  /// Of its axis by the loop: all that the worker does, or a step of the loop around it.
  int64_t covered_by(size_t loop) const {
    const size_t a = size_t(plan_.loops[loop].axis);
    int64_t within = axes_[a].covered;
    for (size_t outer = 0; outer < loop; ++outer)
      if (size_t(plan_.loops[outer].axis) == a) within = std::min(within, plan_.loops[outer].step * step_unit(a));
    return within;
  }
  /// Iterations of a loop, by the busiest worker, each time that it runs.
  double trips_of(size_t loop) const {
    return double(ceil_div(covered_by(loop), plan_.loops[loop].step * step_unit(size_t(plan_.loops[loop].axis))));
  }
  bool gpu() const { return c_.profile.kind == hw::Profile::Kind::gpu; }
};

/// The busiest worker's instructions, dependency chains and what tiles cost beside them. Adds to `w`: all but levels, workers and regions.
void count_instructions(const CountedPlan& plan, hw::Workload& w);
/// What crosses each level, of the busiest worker: fills levels[1…] (towards the registers: levels[0], not touched). Pre: levels has the
/// profile's size.
void count_traffic(const CountedPlan& plan, std::vector<hw::LevelTraffic>& levels);

}  // namespace rgen::rtile
