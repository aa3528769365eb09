// Block tiles of form staged: which there are, and the best of them.
#include <algorithm>
#include <cmath>

#include "rtile/atoms.h"
#include "rtile/layout.h"
#include "rtile/staged.h"

namespace rgen::rtile {

namespace {

constexpr int kMostWarps = 8, kMostSums = 8;  // of a block; tiles of 16 × 32 sums that a warp's registers hold
constexpr size_t kKept = 12;                  // block tiles that go on to traffic from memory
constexpr size_t kStagings = 18;              // depths and numbers of stages that each shape of them is tried with

bool guards_use(const NestFacts::OperandFacts& o, int axis) {
  return std::any_of(o.guards.begin(), o.guards.end(), [&](int d) { return o.dim_coef[size_t(d)][size_t(axis)] != 0; });
}

/// Rows along k are neighbours in memory and begin at multiples of 16 bytes, in pieces of which they are copied.
bool in_pieces(const Nest& nest, const ir::TensorProgram& program, const NestFacts::OperandFacts& o, const Operand& operand, int k) {
  if (operand.placement != Placement::direct || operand.transposed || !o.affine || o.coef[size_t(k)] != 1 || guards_use(o, k)) return false;
  if (!o.guards.empty() && operand.access.out_of_bounds != 0.0) return false;
  const auto pieces = [&](int64_t elements) { return elements * o.element_bytes % kPieceBytes == 0; };
  const Linear l = linearise(operand.access.index, const_sizes(program[o.tensor].strides), int(nest.axes.size()));
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (int(a) != k && !pieces(o.coef[a])) return false;
  return pieces(l.constant);
}

/// How a lane's factor is copied, if it can be: neighbours along k or along the rows, the last axis fastest, lie side by side, or every
/// other one does.
std::optional<Staging::Copies> element_copies(const Nest& nest, const ir::TensorProgram& program, const NestFacts::OperandFacts& o,
                                              const Operand& operand, int row_axis, int k) {
  if (operand.placement == Placement::prepack) return Staging::Copies::pieces;
  if (operand.placement != Placement::direct || operand.transposed || !o.affine || o.coef[size_t(k)] == 0 || guards_use(o, k)) return {};
  if (!o.guards.empty() && operand.access.out_of_bounds != 0.0) return {};
  if (in_pieces(nest, program, o, operand, k) && nest.axes[size_t(k)].extent * o.element_bytes % kPieceBytes == 0)
    return Staging::Copies::turned;
  if (o.coef[size_t(k)] == 1) return Staging::Copies::along_k;
  const int64_t apart = o.coef[size_t(row_axis)];
  return apart == 1 || apart == 2 ? std::optional(Staging::Copies::along_rows) : std::nullopt;
}

/// The output axes of a alone, those of more than one place.
std::vector<int> row_axes(const Nest& nest, const NestFacts& facts, const NestPlan& form) {
  std::vector<int> axes;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (!nest.axes[a].reduced && int(a) != form.vec && facts.operands[size_t(form.operand_b)].coef[a] == 0 && nest.axes[a].extent > 1)
      axes.push_back(int(a));
  return axes;
}

/// All that has to do with results.
std::vector<const NestFacts::OperandFacts*> of_results(const NestFacts& facts) {
  std::vector<const NestFacts::OperandFacts*> outer;
  for (const auto& o : facts.operands)
    if (o.is_store || !o.inner) outer.push_back(&o);
  return outer;
}

/// Does what follows the reduction read memory that it stores to?
bool reads_what_it_stores(const ir::TensorProgram& program, const NestFacts& facts) {
  const auto memory = [&](const NestFacts::OperandFacts* o) {
    return program[o->tensor].within >= 0 ? program[o->tensor].within : o->tensor;
  };
  const auto outer = of_results(facts);
  return std::any_of(outer.begin(), outer.end(), [&](const auto* store) {
    return store->is_store &&
           std::any_of(outer.begin(), outer.end(), [&](const auto* read) { return !read->is_store && memory(read) == memory(store); });
  });
}

/// Points of the last row axes, which all that has to do with results sees as one axis.
int64_t rows_of_one_axis(const Nest& nest, const NestFacts& facts, const std::vector<int>& row_axes) {
  if (row_axes.empty()) return 1;
  const auto outer = of_results(facts);
  if (!std::all_of(outer.begin(), outer.end(), [](const auto* o) { return o->affine && o->guards.empty(); })) return 1;
  const size_t last = size_t(row_axes.back());
  int64_t rows = 1;
  for (size_t i = row_axes.size(); i-- > 0;) {
    const size_t a = size_t(row_axes[i]);
    if (!std::all_of(outer.begin(), outer.end(), [&](const auto* o) { return o->coef[a] == o->coef[last] * rows; })) break;
    rows *= nest.axes[a].extent;
  }
  return rows;
}

/// Staging::line.
int64_t rows_in_line(const Nest& nest, const NestFacts& facts, int vec, const std::vector<int>& row_axes) {
  if (row_axes.empty()) return 1;
  const size_t last = size_t(row_axes.back());
  const auto outer = of_results(facts);
  const auto along = [&](const NestFacts::OperandFacts* o) {
    return o->is_store ? o->coef[last] == 1 && std::abs(o->coef[size_t(vec)]) > 1 : o->coef[last] == 0 || o->coef[last] == 1;
  };
  if (!std::all_of(outer.begin(), outer.end(), along)) return 1;
  const int64_t rows = rows_of_one_axis(nest, facts, row_axes);
  return rows < Staging::kOfLine ? 1 : rows;
}

/// An extent in blocks of `hi` units, a multiple of `times`, the last of them partly filled or empty.
Blocking whole_blocks(int64_t extent, int64_t unit, int64_t hi, int64_t times = 1) {
  Blocking b;
  b.extent = extent, b.unit = unit, b.hi = hi;
  b.blocks = b.n_hi = round_up(ceil_div(ceil_div(extent, unit), hi), times);
  return b;
}

/// Who issues an instruction of this form.
Staging::Unit unit_of(AtomForm form) {
  return form == AtomForm::vector ? Staging::Unit::lane : form == AtomForm::warp ? Staging::Unit::warp : Staging::Unit::group;
}

class BlockPlanner {
 public:
  BlockPlanner(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& c)
      : nest_(nest), facts_(facts), c_(c), plan_(form), columns_(nest.axes[size_t(form.vec)].extent) {
    plan_.form = AtomForm::staged, plan_.guarded = false, plan_.loops.clear(), plan_.staging = tried_;
    block_.unit = unit_of(find_atom_row(form.atom->name)->form);
    block_.row_axes = row_axes(nest, facts, form);
    for (int a : block_.row_axes) rows_ *= nest.axes[size_t(a)].extent;
    for (size_t a = 0; a < nest.axes.size(); ++a)
      if (!nest.axes[a].reduced && int(a) != form.vec && nest.axes[a].extent > 1 && facts.operands[size_t(form.operand_b)].coef[a] != 0)
        block_.batch_axes.push_back(int(a));
    block_.line = rows_in_line(nest, facts, form.vec, block_.row_axes);
    block_.one_axis = rows_of_one_axis(nest, facts, block_.row_axes) == rows_;
    block_.repeatable = !reads_what_it_stores(c.program, facts);
    block_.tensor_copies = in_boxes();
    if (block_.unit == Staging::Unit::lane)
      copies_a_ = copies(form.operand_a, block_.row_axes.back()), copies_b_ = copies(form.operand_b, form.vec);
  }

  /// Shapes in the order of what they take at least, until that is more than what the last of the best takes.
  std::vector<NestPlan> run() {
    shapes();
    std::stable_sort(shapes_.begin(), shapes_.end(), [](const Shaped& a, const Shaped& b) { return a.least < b.least; });
    for (const Shaped& s : shapes_) {
      if (best_.size() == kKept && s.least > best_.back().us) break;
      block_ = s.block, plan_.tile[size_t(plan_.vec)] = s.columns, number_ = s.number;
      deal_out();
      stages();
    }
    std::vector<NestPlan> plans;
    for (const Tried& t : best_) rasters(t.plan, plans);
    return plans;
  }

 private:
  struct Tried {
    NestPlan plan;
    double us;
    size_t number;  ///< of equal ones the first is best: in the order of shapes, then few barriers, copies far ahead
  };
  struct Shaped {
    Staging block;
    Blocking columns;
    double least;
    size_t number;
  };

  const Nest& nest_;
  const NestFacts& facts_;
  const PlanContext& c_;
  NestPlan plan_;
  Staging block_;
  Staging::Copies copies_a_ = Staging::Copies::pieces, copies_b_ = copies_a_;  ///< unit lane: how factors can be copied
  const std::shared_ptr<Staging> tried_ = std::make_shared<Staging>();         ///< plan_'s
  int64_t rows_ = 1, columns_;
  std::vector<Shaped> shapes_;
  std::vector<Tried> best_;  ///< ascending
  size_t number_ = 0;        ///< of what is tried

  bool group() const { return block_.unit == Staging::Unit::group; }

  Staging::Copies copies(int operand, int row_axis) const {
    return *element_copies(nest_, c_.program, facts_.operands[size_t(operand)], plan_.operands[size_t(operand)], row_axis, plan_.k_axis);
  }
  /// Few rows are not turned: some threads would have none.
  Staging::Copies copies_of(int64_t rows, Staging::Copies copies) const {
    return copies == Staging::Copies::turned && !shared_out(rows, copies) ? Staging::Copies::along_k : copies;
  }
  /// Does every thread copy as much of so many rows as the others?
  bool shared_out(int64_t rows, Staging::Copies copies) const {
    constexpr int64_t kStep = kStepBytes / 4;  // of k
    const int64_t warps = block_.warps(), groups = rows / 32;
    switch (copies) {
      case Staging::Copies::pieces:
        return rows * kStepBytes / kPieceBytes % (32 * warps) == 0;
      case Staging::Copies::along_k:
        return rows % (4 * warps) == 0;
      case Staging::Copies::turned:
        return rows % (8 * warps) == 0;
      case Staging::Copies::along_rows:
        return rows % 32 == 0 && (groups % warps == 0 || (warps % groups == 0 && kStep % (warps / groups) == 0));
    }
    return false;
  }

  bool in_boxes() const {
    const auto box = [&](int i, const std::vector<int>& rows) {
      const auto& o = facts_.operands[size_t(i)];
      return tensor_box(nest_, o, rows, plan_.k_axis) || pixel_box(nest_, o, plan_.operands[size_t(i)], rows, plan_.k_axis);
    };
    const bool packed = plan_.operands[size_t(plan_.operand_b)].placement == Placement::prepack;
    return group() && c_.profile.has("tma") && box(plan_.operand_a, block_.row_axes) && (packed || box(plan_.operand_b, {plan_.vec}));
  }

  void shapes() {
    const bool packed = plan_.operands[size_t(plan_.operand_b)].placement == Placement::prepack;
    for (block_.warp_rows = group() ? 4 : 1; block_.warp_rows <= kMostWarps; block_.warp_rows *= 2)
      for (block_.warp_columns = 1; block_.task_warps() <= kMostWarps && (block_.warp_columns == 1 || !group()); ++block_.warp_columns)
        for (block_.turns = 1; block_.turns <= (group() && block_.warp_rows == 4 ? 2 : 1); ++block_.turns)
          for (block_.cluster = 1; block_.cluster <= (group() && packed ? 2 : 1); ++block_.cluster)
            for (block_.parts = 1; block_.parts <= most_parts(); block_.parts *= 2) warp_tiles();
  }

  /// Sums wait in registers until all parts have theirs, of one task alone.
  int most_parts() const { return group() && block_.cluster == 1 && block_.turns == 1 ? 4 : 1; }

  /// Worth it where tasks alone leave SMs idle, and all blocks run at once. A cluster lies in one GPC, whose SMs are no multiple of four
  /// (H200: 30 clusters of four on 132 SMs, 66 of two).
  bool parts_fit() const {
    const double usable = c_.profile.cores * (block_.parts > 2 ? 10.0 / 11 : 1);
    return block_.parts == 1 || double(plan_.tasks() * block_.parts) <= usable;
  }

  void warp_tiles() {
    for (int64_t row_tiles = 1; row_tiles <= kMostSums; ++row_tiles) {
      if ((row_tiles * block_.cluster - 1) * 16 * block_.warp_rows >= rows_ && row_tiles * block_.cluster > 1) break;
      for (int64_t column_tiles = 1; row_tiles * column_tiles <= kMostSums; ++column_tiles) {
        if (column_tiles > 1 && (column_tiles - 1) * 32 * block_.warp_columns >= columns_) break;
        if (block_.unit == Staging::Unit::lane)
          block_.copies_a = copies_of(16 * row_tiles * block_.warp_rows, copies_a_),
          block_.copies_b = copies_of(32 * column_tiles * block_.warp_columns, copies_b_);
        if (!group() && !(shared_out(16 * row_tiles * block_.warp_rows, block_.copies_a) &&
                          shared_out(32 * column_tiles * block_.warp_columns, block_.copies_b)))
          continue;
        block_.rows = whole_blocks(rows_, 16, row_tiles * block_.warp_rows, block_.cluster);
        plan_.tile[size_t(plan_.vec)] = whole_blocks(columns_, 32, column_tiles * block_.warp_columns);
        deal_out();
        if (!parts_fit()) continue;
        *tried_ = block_;
        shapes_.push_back({block_, plan_.tile[size_t(plan_.vec)], least_us(nest_, facts_, plan_, c_.profile), kStagings * shapes_.size()});
      }
    }
  }

  void deal_out() {
    plan_.parallel.clear();
    for (int a : block_.batch_axes) plan_.parallel.push_back({a, nest_.axes[size_t(a)].extent});
    if (block_.rows.blocks > 1) plan_.parallel.push_back({block_.row_axes.back(), block_.rows.blocks});
    if (plan_.tile[size_t(plan_.vec)].blocks > 1) plan_.parallel.push_back({plan_.vec, plan_.tile[size_t(plan_.vec)].blocks});
  }

  void stages() {
    // lanes copy through the first-level cache, for which the stages leave the more room the fewer they are
    constexpr int few_first[] = {4, 3, 6, 5, 8, 2}, many_first[] = {8, 6, 5, 4, 3, 2}, fewest[] = {2, 3, 4, 5, 6, 8};
    for (int depth : {2, 4, 1})
      for (int stages : group() ? many_first : block_.unit == Staging::Unit::lane ? fewest : few_first) {
        block_.stages = stages, block_.depth = depth, ++number_;
        // a box has rows of 128 bytes, at most 256 of them
        if (block_.tensor_copies && (depth == 1 || block_.block_rows() > 256)) continue;
        make_up_k();
        const int64_t bytes =
            stages * depth * kStepBytes *
            (Staging::pitch(block_.block_rows(), block_.copies_a) + Staging::pitch(plan_.block_columns(), block_.copies_b));
        if (bytes <= c_.profile.gpu.smem_per_block && block_.ahead() >= 1 && block_.ahead() <= rounds_of_block() && sums_fit()) consider();
      }
  }

  /// Sums that are given to others take the stages' place.
  bool sums_fit() const {
    const int64_t sums = block_.block_rows() * plan_.block_columns() * 4;
    return block_.parts == 1 || sums <= block_.stages * block_.depth * kStepBytes * (block_.block_rows() + plan_.block_columns());
  }

  /// Of all its tasks: no more can be under way. Boxes of the next task are asked for during the last, threads copy a task's alone.
  int64_t rounds_of_block() const {
    const bool on = block_.tensor_copies && block_.parts == 1;
    return plan_.k_steps(nest_) / block_.depth / block_.parts * (on ? ceil_div(plan_.tasks(), c_.profile.cores) : 1);
  }

  /// What a thread turns of a stage waits in registers, of which there are few.
  int turned_pieces() const {
    const auto pieces = [&](Staging::Copies copies, int64_t rows) {
      return copies == Staging::Copies::turned ? int(rows * block_.depth / (8 * block_.warps())) : 0;
    };
    return pieces(block_.copies_a, block_.block_rows()) + pieces(block_.copies_b, plan_.block_columns());
  }

  /// The fewest steps of k of which stages are filled to the end; a row of a box is two, which are neighbours.
  void make_up_k() {
    const auto filled = [&] {
      return plan_.k_steps(nest_) % (block_.depth * block_.parts) == 0 &&
             !(block_.tensor_copies && plan_.steps_along(nest_, plan_.k_axis) % 2);
    };
    for (plan_.k_multiple = 1; !filled();) plan_.k_multiple *= 2;
  }

  void consider() {
    constexpr int kMostTurned = 8;
    if (turned_pieces() > kMostTurned) return;
    *tried_ = block_;
    const hw::GpuWorkload g = block_workload(nest_, facts_, plan_, c_.profile);
    if (g.registers + spare() > c_.profile.gpu.max_registers_per_thread || g.shared_bytes > c_.profile.gpu.smem_per_block) return;
    block_.factor_sets = factor_sets(g.registers);
    const double us = hw::times(g, c_.profile).us;
    if (!std::isfinite(us)) return;
    const auto before = [&](const Tried& t) { return std::pair(us, number_) < std::pair(t.us, t.number); };
    if (best_.size() == kKept && !before(best_.back())) return;
    best_.insert(std::find_if(best_.begin(), best_.end(), before), {plan_, us, number_})->plan.staging = std::make_shared<Staging>(block_);
    if (best_.size() > kKept) best_.pop_back();
  }

  /// Registers that compilers take beside those that are counted, where the limit is near: an address of each element's row that is copied
  /// (ptxas spills 296 bytes of a block of 64 threads for 64 × 128 sums whose factors both come so).
  int spare() const {
    constexpr int64_t kNear = 8;
    const auto rows = [&](Staging::Copies copies, int64_t all) {
      return copies == Staging::Copies::along_k ? all * 8 / (32 * block_.warps()) : 0;
    };
    if (block_.unit != Staging::Unit::lane) return 0;
    return int(kNear + rows(block_.copies_a, block_.block_rows()) + rows(block_.copies_b, plan_.block_columns()));
  }
  /// Of few sums two would gain nothing, and compilers mix up the banks (H200, 4 tiles: 9 % slower).
  int factor_sets(int registers) const {
    constexpr int64_t kFew = 4, kSpare = 8;
    const int64_t rows = block_.row_tiles(), columns = plan_.column_tiles();
    const bool room = registers + 4 * (rows + columns) + kSpare <= c_.profile.gpu.max_registers_per_thread;
    return block_.unit == Staging::Unit::lane && rows * columns > kFew && room ? 2 : 1;
  }

  /// The orders of its blocks, each if it is better than those before.
  void rasters(const NestPlan& plan, std::vector<NestPlan>& plans) const {
    const hw::GpuWorkload block = block_workload(nest_, facts_, plan, c_.profile);
    const int cluster = plan.staging->cluster;
    for (int64_t raster = cluster; raster <= 16; raster *= 2) {
      if (plan.staging->rows.blocks % raster) return;
      NestPlan p = plan;
      auto staging = std::make_shared<Staging>(*plan.staging);
      staging->raster = raster;
      p.staging = staging;
      hw::GpuWorkload launch = block;
      add_memory(launch, nest_, facts_, p, c_);
      p.estimate = hw::estimate(launch, c_.profile);
      staging->grid = staging->parts > 1
                          ? p.tasks() * staging->parts
                          : std::min<int64_t>(p.tasks(), int64_t(p.estimate.resident) * c_.profile.cores / cluster * cluster);
      if (raster == cluster || p.estimate.us < plans.back().estimate.us * 0.999) plans.push_back(std::move(p));
    }
  }
};

}  // namespace

bool can_stage(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& c) {
  if (!c.profile.has("cp.async")) return false;
  const std::vector<int> rows = row_axes(nest, facts, form);
  // a product of one row: all threads that copied would have nothing to do but one
  if (rows.empty() && (find_atom_row(form.atom->name)->form != AtomForm::staged || !c.profile.has("tma") ||
                       !tensor_box(nest, facts.operands[size_t(form.operand_a)], rows, form.k_axis)))
    return false;
  const bool lanes = form.form == AtomForm::vector;
  const auto copied = [&](int i, int row_axis) {
    const NestFacts::OperandFacts& o = facts.operands[size_t(i)];
    const Operand& operand = form.operands[size_t(i)];
    return lanes ? element_copies(nest, c.program, o, operand, row_axis, form.k_axis).has_value()
                 : in_pieces(nest, c.program, o, operand, form.k_axis);
  };
  const bool packed = form.operands[size_t(form.operand_b)].placement == Placement::prepack;
  return copied(form.operand_a, rows.empty() ? -1 : rows.back()) &&
         (packed || (copied(form.operand_b, form.vec) && facts.operands[size_t(form.operand_b)].guards.empty()));
}

std::vector<NestPlan> plan_staged(const Nest& nest, const NestFacts& facts, const NestPlan& form, const PlanContext& context) {
  return BlockPlanner(nest, facts, form, context).run();
}

}  // namespace rgen::rtile
