// Traffic of a GPU's launch: the footprints of a task, a block, a wave and the whole nest.
#include <algorithm>
#include <cmath>

#include "rtile/workload.h"

namespace rgen::rtile {

namespace {

/// Load instructions that a thread has under way before it needs the first: the compiler moves few ahead of their users, and fewer past
/// the branch that guards each of them (as compiled kernels show).
constexpr double kLoadsAhead = 12, kGuardedAhead = 5;

/// Extents that the first `tasks` tasks cover together: along the last parallel axis first, but a block is a rectangle.
std::vector<int64_t> covered(const Nest& nest, const NestPlan& plan, int64_t tasks) {
  const bool block = plan.block_rows > 1 && tasks == plan.block_tasks;
  std::vector<int64_t> e;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    e.push_back(nest.axes[a].reduced ? nest.axes[a].extent : std::min(nest.axes[a].extent, plan.tile[a].size()));
  for (size_t i = plan.parallel.size(); i-- > 0 && tasks > 1;) {
    const size_t a = size_t(plan.parallel[i].axis);
    const int64_t most = block && i + 1 == plan.parallel.size() ? plan.block_tasks / plan.block_rows : plan.parallel[i].parts;
    const int64_t blocks = std::min(most, tasks);
    e[a] = std::min(nest.axes[a].extent, e[a] * blocks);
    tasks = ceil_div(tasks, blocks);
  }
  return e;
}

}  // namespace

void add_memory_traffic(hw::GpuWorkload& g, const NestFacts& facts, const NestPlan& plan, const PlanContext& c,
                        const std::vector<int64_t>& all, const std::vector<int64_t>& in_wave, double waves) {
  const hw::MemoryLevel& l2 = c.profile.levels[1];
  const auto bytes = [&](size_t i, const std::vector<int64_t>& extents) {
    const bool packed = i < facts.reads && plan.operands[i].placement == Placement::prepack;
    return footprint_bytes(facts.operands[i], extents, l2.line_bytes, packed, true);
  };
  double total = 0;
  for (size_t i = 0; i < facts.operands.size(); ++i) total += bytes(i, all);
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    const auto& o = facts.operands[i];
    if (c.home[size_t(o.tensor)] < 2) continue;  // it stays in L2 between calls
    const double once = bytes(i, all);
    const bool stays = total <= 0.8 * double(l2.capacity_bytes) || once <= 0.4 * double(l2.capacity_bytes);
    (o.is_store ? g.dram_write_bytes : g.dram_read_bytes) += stays ? once : std::max(once, waves * bytes(i, in_wave));
  }
}

hw::GpuWorkload gpu_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& c) {
  hw::GpuWorkload g;
  g.task = workload(nest, facts, plan, c);
  g.tasks = plan.tasks(), g.block_tasks = plan.block_tasks;
  g.shared_bytes = shared_bytes(plan) * plan.block_tasks;
  // pointers, indices, and loads that the compiler moves forward: as compiled kernels show
  const int needed = registers_needed(nest, facts, plan);
  g.registers = std::min(c.profile.gpu.max_registers_per_thread, int(round_up(needed + needed / 5 + 32, 8)));
  for (int a : plan.reduce_order) {
    const Blocking& t = plan.tile[size_t(a)];
    g.rounds *= std::ceil(double(t.units()) / double(t.hi));
  }
  const double loads = (g.task.loads - g.task.guarded_loads) / (plan.form == AtomForm::warp ? 4 : 1);  // of 16 bytes a thread
  g.rounds = std::max(g.rounds, loads / kLoadsAhead + g.task.guarded_loads / kGuardedAhead);

  const hw::MemoryLevel &l2 = c.profile.levels[1], &first = c.profile.levels[0];
  const int64_t resident = hw::resident_blocks(plan.block_tasks * c.profile.gpu.warp, g.registers, g.shared_bytes, c.profile);
  const int64_t wave = std::max<int64_t>(1, resident) * c.profile.cores * plan.block_tasks;
  const auto task_extents = covered(nest, plan, 1), block = covered(nest, plan, plan.block_tasks);
  const auto bytes = [&](size_t i, const std::vector<int64_t>& extents) {
    const bool packed = i < facts.reads && plan.operands[i].placement == Placement::prepack;
    return footprint_bytes(facts.operands[i], extents, l2.line_bytes, packed, true);
  };
  // what the tasks of a block share counts once if they meet in the first-level cache: one round of their loads must fit
  const double step = g.task.levels[0].read_bytes / g.rounds * plan.block_tasks * double(std::max<int64_t>(1, resident));
  const bool shared = step <= double(first.capacity_bytes);
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    const auto& o = facts.operands[i];
    const double of_block = shared ? bytes(i, block) : bytes(i, task_extents) * plan.block_tasks;
    (o.is_store ? g.block_write_bytes : g.block_read_bytes) += of_block;
  }
  add_memory_traffic(g, facts, plan, c, covered(nest, plan, plan.tasks()), covered(nest, plan, wave),
                     std::ceil(double(g.tasks) / double(wave)));
  return g;
}

}  // namespace rgen::rtile
