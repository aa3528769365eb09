// Traffic of a GPU's launch: the footprints of a task, a block, a wave and the whole nest.
#include <algorithm>
#include <cmath>

#include "rtile/staged.h"

namespace rgen::rtile {

namespace {

/// Load instructions that a thread has under way before it needs the first: the compiler moves few ahead of their users, and fewer past
/// the branch that guards each of them (as compiled kernels show).
constexpr double kLoadsAhead = 12, kGuardedAhead = 5;

/// Cycles of a barrier of a block whose warps come at once, and of a shuffle whose result the next one waits for.
constexpr double kBarrierCycles = 30, kShuffleCycles = 24;

/// Extents that the first `tasks` tasks cover together: along the last parallel axis first, but a block is a rectangle.
std::vector<int64_t> covered(const Nest& nest, const NestPlan& plan, int64_t tasks) {
  const bool block = plan.block_rows > 1 && tasks == plan.block_tasks;
  std::vector<int64_t> e;
  e.reserve(nest.axes.size());
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

/// Pointers, indices, and loads that the compiler moves forward: as compiled kernels show.
int registers(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& c) {
  const int needed = registers_needed(nest, facts, plan);
  // where nothing is reused, as in rows of several nests, compilers need few beside, and keep to what the launch's bounds leave them
  const bool rows = c.warps > 0 && plan.form == AtomForm::vector;
  int count = rows ? needed + 32 : needed + needed * 3 / 8 + 40;
  const bool transposes = plan.store_transpose_axis >= 0 ||
                          std::any_of(plan.operands.begin(), plan.operands.end(), [](const Operand& o) { return o.transposed; });
  if (transposes) {  // all of a tile is loaded before any of it is stored
    int64_t vectors = 1;
    for (size_t a = 0; a < plan.tile.size(); ++a)
      if (!nest.axes[a].reduced) vectors *= plan.tile[a].hi;
    count = std::max(count, int(vectors) + 40);
  }
  return std::min(c.profile.gpu.max_registers_per_thread, int(round_up(count, 8)));
}

/// Of loads that wait for those before: `tiles` register tiles one after the other.
double rounds(const NestPlan& plan, const hw::Workload& task, double tiles) {
  double trips = tiles;
  for (int a : plan.reduce_order) {
    const Blocking& t = plan.tile[size_t(a)];
    const int64_t units = a == plan.dealt_axis() ? ceil_div(t.units(), plan.parallel.front().parts) : t.units();
    trips *= std::ceil(double(units) / double(t.hi));
  }
  const double loads = (task.loads - task.guarded_loads) / (plan.form == AtomForm::warp ? 4 : 1);  // of 16 bytes a thread
  return std::max(trips, loads / kLoadsAhead + task.guarded_loads / kGuardedAhead);
}

/// The operand's vectors wait in registers: they are not loaded.
void keep(const Nest& nest, const NestPlan& plan, const NestFacts::OperandFacts& o, const PlanContext& c, hw::GpuWorkload& w) {
  constexpr int64_t kBeside = 32;  // registers for everything else
  double vectors = 1.0 / double(c.tile_warps);
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (o.coef[a] != 0) vectors *= double(plan.tile[a].units());
  w.task.loads = std::max(0.0, w.task.loads - vectors), w.task.instructions -= std::min(vectors, w.task.instructions);
  hw::LevelTraffic& near = w.task.levels[0];
  near.read_bytes = std::max(0.0, near.read_bytes - vectors * c.profile.vector_bits / 8);
  w.registers = std::max(w.registers, std::min(c.profile.gpu.max_registers_per_thread, int(round_up(int64_t(vectors) + kBeside, 8))));
}

/// The warps of a tile meet once for each of `blocks` register tiles: their results go through shared memory, and all of them combine those
/// of all.
void meet(const Nest& nest, const NestPlan& plan, double blocks, const hw::Profile& profile, hw::GpuWorkload& w) {
  constexpr double kInstructions = 16, kShuffles = 5;  // of a number that lanes combine
  double results = blocks;                             // vectors
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (!nest.axes[a].reduced) results *= double(plan.tile[a].hi);
  results *= double(std::count_if(nest.inner.begin(), nest.inner.end(), [](const Statement& s) { return s.reduce != ir::ReduceOp::none; }));
  const bool numbers = nest.axes[size_t(plan.vec)].reduced || plan.lanes == 1;
  const double loads = numbers ? 1 : w.together;
  w.task.stores += results, w.task.loads += loads * results;
  w.task.instructions += results * (numbers ? kInstructions : 2 * loads + 2) + 2 * blocks;
  // a result goes through shared memory and, if lanes combine it, through their shuffles
  const double shuffles_ns = numbers ? kShuffles * kShuffleCycles / profile.ghz : 0;
  w.stalls_ns = blocks * (kBarrierCycles / profile.ghz + profile.levels[0].latency_ns + shuffles_ns);
}

}  // namespace

bool takes_whole(const Nest& nest, const NestPlan& plan, int tile_warps) {
  if (tile_warps > 1 && plan.dealt_axis() != plan.vec) return false;
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const Blocking& t = plan.tile[a];
    const int64_t parts = int(a) == plan.dealt_axis() ? tile_warps : 1;
    if (t.units() % parts || t.hi * parts != t.units() || (parts > 1 && t.extent % t.unit)) return false;
  }
  return true;
}

hw::GpuWorkload workload_in_warp(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& c, int block_tasks) {
  hw::GpuWorkload w;
  w.task = workload(nest, facts, plan, c);
  w.together = c.tile_warps;
  const int64_t tiles = w.together > 1 ? 1 : std::min<int64_t>(block_tasks, c.warps);  // of a block
  w.tasks = c.warps * w.together, w.block_tasks = int(tiles * w.together);
  w.registers = registers(nest, facts, plan, c);
  double blocks = 1;  // of the register tile
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (!nest.axes[a].reduced)
      blocks *= double(int(a) == plan.dealt_axis() ? ceil_div(plan.tile[a].blocks, w.together) : plan.tile[a].blocks);
  const bool whole = !c.kept.empty() && takes_whole(nest, plan, c.tile_warps);
  const auto in_registers = [&](const NestFacts::OperandFacts& o) {
    return whole && c.kept[size_t(o.tensor)] == nest.axes[size_t(plan.vec)].extent && !o.is_store && o.coef[size_t(plan.vec)] == 1;
  };
  for (const NestFacts::OperandFacts& o : facts.operands)
    if (in_registers(o)) keep(nest, plan, o, c, w);
  w.rounds = rounds(plan, w.task, blocks);
  if (in_parts(nest, plan)) meet(nest, plan, blocks, c.profile, w);
  const std::vector<int64_t>&here = facts.extents, &all = facts.full_extents;
  const int line = c.profile.levels[1].line_bytes;
  for (const NestFacts::OperandFacts& o : facts.operands) {
    const int home = c.home[size_t(o.tensor)];
    if (home == 0 || in_registers(o)) continue;
    bool common = true;  // to all tiles: a block's warps meet in the first-level cache
    for (size_t a = 0; a < here.size(); ++a) common &= here[a] == all[a] || o.coef[a] == 0;
    const double of_block = footprint_bytes(o, here, line, Fetch::sectors) * double(common ? 1 : tiles);
    (o.is_store ? w.block_write_bytes : w.block_read_bytes) += of_block;
    if (home == 2) (o.is_store ? w.dram_write_bytes : w.dram_read_bytes) += footprint_bytes(o, all, line, Fetch::sectors);
  }
  return w;
}

bool stays_in_l2(double once, double total, const PlanContext& c) {
  const double capacity = double(c.profile.levels[1].capacity_bytes);
  return total <= 0.8 * capacity || once <= 0.4 * capacity;
}

GpuTile::GpuTile(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context)
    : nest_(nest), facts_(facts), c_(context) {
  w_.task = workload(nest, facts, plan, context);
  w_.issue_ns = hw::issue_ns(w_.task, context.profile);
  w_.tasks = plan.tasks();
  w_.registers = registers(nest, facts, plan, context);
  w_.rounds = rounds(plan, w_.task, 1);
  of_task_.reserve(facts.operands.size()), once_.reserve(facts.operands.size());
  const auto task = covered(nest, plan, 1), all = covered(nest, plan, plan.tasks());
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    of_task_.push_back(bytes(i, plan, task));
    once_.push_back(bytes(i, plan, all));
    total_ += once_.back();
  }
}

double GpuTile::bytes(size_t operand, const NestPlan& plan, const std::vector<int64_t>& extents) const {
  return footprint_bytes(facts_.operands[operand], extents, c_.profile.levels[1].line_bytes,
                         fetch_of(facts_, plan, operand, Fetch::sectors));
}

/// How many times its bytes a tile's stores move: each goes to L2 by itself, in whole lines, and neighbours that another store of the same
/// lines brings (the next row of the tile, the next task) do not meet it before.
double GpuTile::stored_apart(const NestFacts::OperandFacts& o, const NestPlan& plan) const {
  if (plan.form == AtomForm::warp && o.element_bytes == 2) return kHalfLines;
  const int along = plan.store_transpose_axis >= 0 ? plan.store_transpose_axis : plan.vec;
  const double line = double(c_.profile.levels[1].line_bytes) / o.element_bytes;
  double neighbours = 1;  // of an element's line that its task stores too
  for (size_t a = 0; a < plan.tile.size(); ++a)
    if (int(a) != along && std::abs(o.coef[a]) == 1) neighbours = std::min(line, double(plan.tile[a].size()));
  return std::abs(o.coef[size_t(along)]) > 1 ? neighbours : 1;
}

const hw::GpuWorkload& GpuTile::launch(const NestPlan& plan) {
  w_.block_tasks = plan.block_tasks;
  w_.shared_bytes = shared_bytes(plan) * plan.block_tasks;
  w_.block_read_bytes = w_.block_write_bytes = w_.dram_read_bytes = w_.dram_write_bytes = 0;
  const hw::MemoryLevel& first = c_.profile.levels[0];
  const int64_t resident = hw::resident_blocks(plan.block_tasks * c_.profile.gpu.warp, w_.registers, w_.shared_bytes, c_.profile);
  const int64_t wave = std::max<int64_t>(1, resident) * c_.profile.cores * plan.block_tasks;
  const auto block = covered(nest_, plan, plan.block_tasks), in_wave = covered(nest_, plan, wave);
  const double waves = std::ceil(double(w_.tasks) / double(wave));
  // what the tasks of a block share counts once if they meet in the first-level cache: one round of their loads must fit
  const double step = w_.task.levels[0].read_bytes / w_.rounds * plan.block_tasks * double(std::max<int64_t>(1, resident));
  const bool shared = step <= double(first.capacity_bytes);
  for (size_t i = 0; i < facts_.operands.size(); ++i) {
    const auto& o = facts_.operands[i];
    if (o.is_store)
      w_.block_write_bytes += of_task_[i] * stored_apart(o, plan) * plan.block_tasks;
    else
      w_.block_read_bytes += shared ? bytes(i, plan, block) : of_task_[i] * plan.block_tasks;
    if (c_.home[size_t(o.tensor)] < 2) continue;  // it stays in L2 between calls
    const double moved = stays_in_l2(once_[i], total_, c_) ? once_[i] : std::max(once_[i], waves * bytes(i, plan, in_wave));
    (o.is_store ? w_.dram_write_bytes : w_.dram_read_bytes) += moved;
  }
  return w_;
}

}  // namespace rgen::rtile
