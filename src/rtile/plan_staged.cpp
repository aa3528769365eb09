// Block tiles of form staged: which there are, and what each costs.
#include <algorithm>
#include <cmath>

#include "rtile/layout.h"
#include "rtile/staged.h"

namespace rgen::rtile {

namespace {

constexpr int kMostWarps = 8, kMostSums = 8;  // of a block; tiles of 16 × 32 sums that a warp's registers hold
constexpr size_t kKept = 12;                  // block tiles that go on to traffic from memory
constexpr double kPiece = 16, kRowBytes = 64;

bool guards_use(const NestFacts::OperandFacts& o, int axis) {
  return std::any_of(o.guards.begin(), o.guards.end(), [&](int d) { return o.dim_coef[size_t(d)][size_t(axis)] != 0; });
}

/// Rows along k are neighbours in memory, whole pieces of 16 bytes at multiples of 16.
bool in_pieces(const Nest& nest, const ir::TensorProgram& program, const NestFacts::OperandFacts& o, const Operand& operand, int k) {
  if (operand.placement != Placement::direct || operand.transposed || !o.affine || o.coef[size_t(k)] != 1 || guards_use(o, k)) return false;
  if (!o.guards.empty() && operand.access.out_of_bounds != 0.0) return false;
  const auto pieces = [&](int64_t elements) { return elements * o.element_bytes % int64_t(kPiece) == 0; };
  const Linear l = linearise(operand.access.index, const_sizes(program[o.tensor].strides), int(nest.axes.size()));
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (int(a) != k && !pieces(o.coef[a])) return false;
  return pieces(l.constant) && pieces(nest.axes[size_t(k)].extent);
}

/// The extents that `rows` neighbouring points of the row axes cover, and `columns` of the vector axis.
std::vector<int64_t> covered(const Nest& nest, const NestPlan& plan, int64_t rows, int64_t columns, int64_t batch) {
  std::vector<int64_t> e;
  for (const NestAxis& a : nest.axes) e.push_back(a.reduced ? a.extent : 1);
  const auto fill = [&](const std::vector<int>& axes, int64_t points) {
    for (size_t i = axes.size(); i-- > 0;) {
      int64_t& x = e[size_t(axes[i])];
      x = std::min(nest.axes[size_t(axes[i])].extent, points);
      points = ceil_div(points, x);
    }
  };
  fill(plan.staging->row_axes, rows);
  fill(plan.staging->batch_axes, batch);
  e[size_t(plan.vec)] = std::min(nest.axes[size_t(plan.vec)].extent, columns);
  return e;
}

int64_t steps_of(const Nest& nest, const NestPlan& plan) {
  int64_t steps = 1;
  for (int a : plan.reduce_order) {
    const int64_t extent = nest.axes[size_t(a)].extent;
    steps *= a == plan.k_axis ? ceil_div(extent, plan.k_step) : extent;
  }
  return steps;
}

int64_t block_rows(const Staging& s) { return s.rows.hi * s.rows.unit; }
int64_t block_columns(const NestPlan& p) { return p.tile[size_t(p.vec)].hi * p.tile[size_t(p.vec)].unit; }

/// Everything but the traffic from memory.
hw::GpuWorkload block_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& c) {
  const Staging& s = *plan.staging;
  const int64_t steps = steps_of(nest, plan), rows = block_rows(s), columns = block_columns(plan);
  const double warps = s.warps(), row_tiles = double(rows) / 16 / s.warp_rows, column_tiles = double(columns) / 32 / s.warp_columns;
  const auto& a = facts.operands[size_t(plan.operand_a)];
  const bool gathered = plan.operands[size_t(plan.operand_b)].placement == Placement::direct;
  using Unit = Staging::Unit;
  const double copies_a = double(rows) * 4 / (32 * warps), copies_b = double(columns) * 4 / (32 * warps);  // a thread's, a step
  const double vectors = 16 * row_tiles * column_tiles;                                                    // of results

  hw::GpuWorkload g;
  g.tasks = plan.tasks() * s.warps(), g.block_tasks = s.warps(), g.asynchronous = true;
  g.shared_bytes = std::max<int64_t>(int64_t(s.stages) * s.depth * (rows + columns) * int64_t(kRowBytes),
                                     int64_t(warps * column_tiles) * kFragmentTile * 4);
  // sums, both factors' fragments, a pointer and coordinates for every row that is copied
  const double pointers = copies_a * (2 + 2 * double(a.guards.size())) + (gathered ? 2 * copies_b : 2);
  const double fragments = s.unit == Unit::group ? 0 : s.unit == Unit::lane ? 16 * (row_tiles + column_tiles + 2) : 8 * row_tiles + 16;
  g.registers = int(round_up(int64_t(16 * row_tiles * column_tiles + fragments + pointers) + 40, 8));

  hw::Workload& w = g.task;
  const double lanes_bytes = 128, filled = double(rows + columns) * kRowBytes / lanes_bytes / warps;
  w.atoms = {{plan.atom.get(), row_tiles * column_tiles * double(steps)}};
  // in wavefronts of 128 bytes; a group's 64 rows meet all columns at once; lanes that read the same 16 bytes share one of every two
  const double operands = s.unit == Unit::group  ? row_tiles * (64 + double(columns)) / 2 / 4
                          : s.unit == Unit::lane ? 2 * 16 * (row_tiles + column_tiles)
                                                 : 8 * row_tiles + 16 * column_tiles;
  w.loads = operands * double(steps) + vectors;
  w.stores = filled * double(steps) + vectors;
  const double copying = copies_a * (2 + 3 * double(a.guards.size())) + copies_b * (gathered ? 3 : 2);
  double outer_loads = 0;
  for (size_t i = 0; i < facts.reads; ++i)
    if (!facts.operands[i].inner) outer_loads += vectors;
  for (const auto& [f, k] : facts.outer_functions) w.functions.push_back({f, k * vectors});
  w.loads += outer_loads, w.stores += vectors;
  const double products = s.unit == Unit::group  ? 2 * row_tiles + 4
                          : s.unit == Unit::lane ? 256 * row_tiles * column_tiles + 16 * (row_tiles + column_tiles)
                                                 : 8 * row_tiles * column_tiles + 2 * row_tiles + 4 * column_tiles;
  w.instructions = (products + copying + 14.0 / s.depth) * double(steps) + (6 + facts.outer_ops) * vectors + outer_loads +
                   16 * row_tiles * (6 + 10 * double(s.row_axes.size() - 1));
  w.levels.resize(1);
  w.levels[0] = {w.loads * lanes_bytes, w.stores * lanes_bytes};
  // a round: at the barrier the pipeline of products runs empty, but for a group's, which are still under way
  const double barrier_ns = 20 / c.profile.ghz, round_ns = s.unit == Unit::group ? 0 : barrier_ns + c.profile.levels[0].latency_ns;
  g.stalls_ns = round_ns * double(steps) / s.depth;
  // a step: the barrier, the first fragments, two dependent products
  w.chain_steps = double(steps), w.chain_latency_ns = 2 * plan.atom->latency_ns + (1.0 + 1.0 / s.depth) * c.profile.levels[0].latency_ns;
  g.rounds = 2 + double(steps) / double(s.depth * s.ahead());  // what is under way bounds the pace; the first stage, the results

  const double used_rows = std::min(1.0, double(s.rows.extent) / double(s.rows.blocks * rows));
  g.block_read_bytes = double(steps) * kRowBytes * (double(rows) * used_rows + double(columns));
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    const auto& o = facts.operands[i];
    if (int(i) == plan.operand_a || int(i) == plan.operand_b) continue;
    const bool by_row = std::any_of(s.row_axes.begin(), s.row_axes.end(), [&](int x) { return o.coef[size_t(x)] != 0; });
    const double elements = (by_row ? double(rows) * used_rows : 1) * (o.coef[size_t(plan.vec)] != 0 ? double(columns) : 1);
    (o.is_store ? g.block_write_bytes : g.block_read_bytes) += elements * o.element_bytes;
  }
  return g;
}

void add_memory(hw::GpuWorkload& g, const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& c) {
  const Staging& s = *plan.staging;
  const int64_t resident = hw::resident_blocks(g.block_tasks * c.profile.gpu.warp, g.registers, g.shared_bytes, c.profile);
  const int64_t wave = std::max<int64_t>(1, resident) * c.profile.cores, columns = plan.tile[size_t(plan.vec)].blocks;
  const int64_t deep = std::min(columns, ceil_div(wave, s.raster));  // column blocks that a wave walks, then its row blocks
  const int64_t wide = std::min(s.rows.blocks, s.raster * ceil_div(wave, s.raster * columns));
  int64_t batches = 1;
  for (int a : s.batch_axes) batches *= nest.axes[size_t(a)].extent;
  const auto in_wave =
      covered(nest, plan, wide * block_rows(s), deep * block_columns(plan), std::min(batches, ceil_div(wave, s.rows.blocks * columns)));
  const auto all = covered(nest, plan, s.rows.extent, nest.axes[size_t(plan.vec)].extent, batches);
  const double waves = std::ceil(double(plan.tasks()) / double(wave));
  const auto bytes = [&](size_t i, const std::vector<int64_t>& extents) {
    const bool packed = i < facts.reads && plan.operands[i].placement == Placement::prepack;
    return footprint_bytes(facts.operands[i], extents, c.profile.levels[1].line_bytes, packed, true);
  };
  double total = 0;
  for (size_t i = 0; i < facts.operands.size(); ++i) total += bytes(i, all);
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    const auto& o = facts.operands[i];
    if (c.home[size_t(o.tensor)] < 2) continue;  // it stays in L2 between calls
    const double once = bytes(i, all);
    (o.is_store ? g.dram_write_bytes : g.dram_read_bytes) += stays_in_l2(once, total, c) ? once : std::max(once, waves * bytes(i, in_wave));
  }
}

/// An extent in whole blocks of `hi` units, the last partly filled.
Blocking whole_blocks(int64_t extent, int64_t unit, int64_t hi) {
  Blocking b;
  b.extent = extent, b.unit = unit, b.hi = hi;
  b.blocks = b.n_hi = ceil_div(ceil_div(extent, unit), hi);
  return b;
}

}  // namespace

bool can_stage(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& c) {
  if (!c.profile.has("cp.async")) return false;
  const auto piecewise = [&](int i) {
    return in_pieces(nest, c.program, facts.operands[size_t(i)], form.operands[size_t(i)], form.k_axis);
  };
  const bool packed = form.operands[size_t(form.operand_b)].placement == Placement::prepack;
  if (!piecewise(form.operand_a) || !(packed || (piecewise(form.operand_b) && facts.operands[size_t(form.operand_b)].guards.empty())))
    return false;
  bool rows = false;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    rows |= !nest.axes[a].reduced && int(a) != form.vec && facts.operands[size_t(form.operand_b)].coef[a] == 0 && nest.axes[a].extent > 1;
  return rows;
}

hw::GpuWorkload staged_workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& c) {
  hw::GpuWorkload g = block_workload(nest, facts, plan, c);
  add_memory(g, nest, facts, plan, c);
  return g;
}

std::vector<NestPlan> plan_staged(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& c) {
  Staging s;
  int64_t rows = 1, batches = 1;
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    if (nest.axes[a].reduced || int(a) == form.vec || nest.axes[a].extent == 1) continue;
    const bool batch = facts.operands[size_t(form.operand_b)].coef[a] != 0;
    (batch ? s.batch_axes : s.row_axes).push_back(int(a));
    (batch ? batches : rows) *= nest.axes[a].extent;
  }
  const int64_t columns = nest.axes[size_t(form.vec)].extent, steps = steps_of(nest, form);
  struct Tried {
    NestPlan plan;
    Staging staging;
    double us;
  };
  std::vector<Tried> best;
  Staging* trial = nullptr;
  const auto place = [&](NestPlan& p) {
    p.parallel.clear();
    for (int a : s.batch_axes) p.parallel.push_back({a, nest.axes[size_t(a)].extent});
    if (trial->rows.blocks > 1) p.parallel.push_back({s.row_axes.back(), trial->rows.blocks});
    if (p.tile[size_t(p.vec)].blocks > 1) p.parallel.push_back({p.vec, p.tile[size_t(p.vec)].blocks});
  };
  NestPlan p = form;
  p.form = AtomForm::staged, p.guarded = false, p.loops.clear();
  s.unit = p.atom->name == "wgmma" ? Staging::Unit::group : p.atom->name == "fma" ? Staging::Unit::lane : Staging::Unit::warp;
  const bool group = s.unit == Staging::Unit::group;
  const auto consider = [&](int64_t row_tiles, int64_t column_tiles) {
    auto shared = std::make_shared<Staging>(s);
    trial = shared.get();
    p.staging = shared;
    trial->rows = whole_blocks(rows, 16, row_tiles * s.warp_rows);
    p.tile[size_t(p.vec)] = whole_blocks(columns, 32, column_tiles * s.warp_columns);
    place(p);
    const int64_t stage = (block_rows(*trial) + block_columns(p)) * int64_t(kRowBytes);
    for (int depth : {2, 4, 1}) {  // of equal ones the first: few barriers, copies far ahead
      if (steps % depth) continue;
      for (int stages : {4, 3, 6, 2}) {
        trial->stages = stages, trial->depth = depth;
        if (trial->ahead() > steps / depth || stages * depth * stage > c.profile.gpu.smem_per_block || trial->ahead() < 1) continue;
        const hw::GpuWorkload g = block_workload(nest, facts, p, c);
        if (g.registers > c.profile.gpu.max_registers_per_thread) return;
        const double us = hw::estimate(g, c.profile).us;
        if (best.size() == kKept && us >= best.back().us) continue;
        Tried t{p, *trial, us};
        best.insert(std::upper_bound(best.begin(), best.end(), us, [](double x, const Tried& y) { return x < y.us; }), std::move(t));
        if (best.size() > kKept) best.pop_back();
      }
    }
  };
  for (s.warp_rows = group ? 4 : 1; s.warp_rows <= kMostWarps; s.warp_rows *= 2)
    for (s.warp_columns = 1; s.warps() <= kMostWarps && (s.warp_columns == 1 || !group); ++s.warp_columns)
      for (int64_t row_tiles = 1; row_tiles <= kMostSums; ++row_tiles) {
        if (row_tiles > 1 && (row_tiles - 1) * 16 * s.warp_rows >= rows) break;
        for (int64_t column_tiles = 1; row_tiles * column_tiles <= kMostSums; ++column_tiles) {
          if (column_tiles > 1 && (column_tiles - 1) * 32 * s.warp_columns >= columns) break;
          // every thread copies as many pieces
          if (2 * row_tiles % s.warp_columns == 0 && 4 * column_tiles % s.warp_rows == 0) consider(row_tiles, column_tiles);
        }
      }
  std::vector<NestPlan> plans;
  for (Tried& t : best)
    for (int64_t raster : {1, 2, 4, 8, 16}) {
      if (t.staging.rows.blocks % raster) break;
      NestPlan q = t.plan;
      auto staging = std::make_shared<Staging>(t.staging);
      staging->raster = raster;
      q.staging = staging;
      q.estimate = hw::estimate(staged_workload(nest, facts, q, c), c.profile);
      if (raster == 1 || q.estimate.us < plans.back().estimate.us * 0.999) plans.push_back(std::move(q));
    }
  return plans;
}

}  // namespace rgen::rtile
