// Workload of a planned nest: instruction counts, streams per memory level, dependency chains. The analytical heart: footprints of the
// tile at every depth of the loops, and what must cross each level because it does not fit.
#pragma once
#include <cstdlib>

#include "rtile/nest_facts.h"
#include "rtile/residence.h"

namespace rgen::rtile {

/// How a program's nests divide an intermediate tensor among their workers: what one has written comes from its caches to the others.
struct Exchange {
  bool made = false;  ///< an earlier nest has made it
  /// part_of_worker of the nest that has made it, and of the one that will read it; 0, too: not planned yet, which will do the same.
  int64_t made_parts = 0, read_parts = 0;

  /// Neither is whole, or still to be planned, and they are not the same but for what rounding and windows make of them.
  bool other_parts() const {
    if (made_parts == 0 || read_parts == 0) return false;
    if (made_parts < 0 || read_parts < 0) return made_parts != read_parts;
    return 4 * std::abs(made_parts - read_parts) > made_parts;
  }
};

/// What planning knows beside the nest itself.
struct PlanContext : Residence {
  const ir::TensorProgram& program;
  const hw::Profile& profile;
  int threads = 1;                       ///< workers the nest may use
  int sharers = 1;                       ///< workers active at once (a fused group's nests run inside its tasks)
  std::vector<bool> prepackable = {};    ///< per tensor: a constant read in one place only
  std::vector<bool> made_beside = {};    ///< per tensor (empty: none): nests of the same fused group make it, tile by tile
  int breadth = 1;                       ///< ConstructOptions::breadth
  int register_tiles = 18;               ///< that go on to loops and placement
  bool near = false;                     ///< what is not copied first waits in the nearest cache, whatever `home` says
  double ahead_bytes = 0;                ///< that the nest fetches from memory beside its own work, for the next tile of a fused group
  std::vector<Exchange> exchanged = {};  ///< per tensor (empty: nothing; so one worker's, a fused group's and a GPU's)
  std::vector<bool> continued = {};      ///< per tensor (empty: none): the next tile of a fused group begins where this one ends
  int64_t warps = 0;                     ///< > 0: a GPU's nest that runs inside each of so many tasks of a warp, as one of several
  /// Per tensor (empty: none): ... an earlier one has read the task's part in one step (takes_whole), in vectors along an axis of this
  /// extent; 0: it has not.
  std::vector<int64_t> kept = {};
  int tile_warps = 1;  ///< ... or of so many warps, which share the task

  /// Between calls the tensor waits in memory.
  bool beyond_caches(int tensor) const { return home[size_t(tensor)] + 1 == int(profile.levels.size()); }
  bool makes_beside(int tensor) const { return !made_beside.empty() && made_beside[size_t(tensor)]; }
};

/// What a GPU does for a nest whose register tiles are warps' tasks in the order of the plan's parallel axes: neighbouring tasks of a
/// block share what they read through the first-level cache, those of a wave through L2. What all launches of a tile have in common is
/// counted once.
class GpuTile {
 public:
  /// Pre: every block of the output axes is a task.
  GpuTile(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);
  /// Of that plan, or one that differs in the order of its tasks and in its blocks alone. Valid until the next call.
  const hw::GpuWorkload& launch(const NestPlan& plan);
  /// Less than the estimate of any of its launches.
  double least_us() const { return c_.profile.call_us + double(w_.tasks) * w_.issue_ns / c_.profile.cores / 1e3; }

 private:
  const Nest& nest_;
  const NestFacts& facts_;
  const PlanContext& c_;
  hw::GpuWorkload w_;
  std::vector<double> of_task_, once_;  ///< per operand: bytes that a task touches, and that all do
  double total_ = 0;

  double bytes(size_t operand, const NestPlan& plan, const std::vector<int64_t>& extents) const;
  double stored_apart(const NestFacts::OperandFacts& o, const NestPlan& plan) const;
};
/// Of a nest that is a part of each of `context.warps` tasks, `block_tasks` of them in a block. What waits in level 0 is the warp's own or
/// was read by it before.
hw::GpuWorkload workload_in_warp(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context,
                                 int block_tasks);
/// Each of the warps that share a tile takes its part of the nest in one step, without loops, and all parts are equal: what other such
/// nests of the tile have read is still in the same lanes' registers.
bool takes_whole(const Nest& nest, const NestPlan& plan, int tile_warps);
/// Does an operand wait in L2 for the next wave? `once`: its bytes; `total`: all operands'.
bool stays_in_l2(double once, double total, const PlanContext& context);

/// NestPlan::copies_alone: one worker makes the padded copies sooner than all of them could be started. Pre: a CPU's plan.
bool copied_alone(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);

/// Elements of the operand's tensor from one worker's part to the next one's; 0: each has all of it; −1: there is one worker.
int64_t part_of_worker(const NestFacts::OperandFacts& o, const Nest& nest, const NestPlan& plan);

/// The busiest worker's workload.
hw::Workload workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context);

}  // namespace rgen::rtile
