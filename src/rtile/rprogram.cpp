#include "rtile/rprogram.h"

#include <iterator>

#include "rtile/layout.h"

namespace rgen::rtile {

namespace {

bool same(const ir::Access& a, const ir::Access& b) {
  return a.tensor == b.tensor && a.index == b.index && a.out_of_bounds == b.out_of_bounds;
}

}  // namespace

int find_operand(const Operands& operands, const ir::Access& access) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (same(operands[i].access, access)) return int(i);
  return -1;
}

std::vector<Operand> collect_operands(const Nest& nest) {
  std::vector<Operand> operands;
  std::vector<int> made;
  nest.for_each_statement([&](const Statement& s) { made.push_back(s.tensor); });
  nest.for_each_statement([&](const Statement& s) {
    ir::for_each_access(*s.value, [&](const ir::Access& a) {
      if (std::find(made.begin(), made.end(), a.tensor) != made.end()) return;
      if (std::none_of(operands.begin(), operands.end(), [&](const Operand& o) { return same(o.access, a); }))
        operands.push_back({.access = a});
    });
  });
  return operands;
}

std::vector<int64_t> NestPlan::row_tiles(const std::vector<int64_t>& size, const Nest& nest) const {
  std::vector<int64_t> rows{atom->m};  // in the order of the register tile's points: axis by axis
  for (size_t a = 0; a < size.size(); ++a) {
    if (nest.axes[a].reduced || int(a) == vec) continue;
    const bool along = int(a) == m_axis;
    std::vector<int64_t> finer;
    for (int64_t r : rows)
      for (int64_t x = 0; x < size[a]; x += along ? atom->m : 1) finer.push_back(along ? std::min<int64_t>(atom->m, size[a] - x) : r);
    rows = std::move(finer);
  }
  return rows;
}

std::vector<int64_t> NestPlan::row_tiles(const Nest& nest) const {
  std::vector<int64_t> size;
  for (const Blocking& t : tile) size.push_back(t.hi);
  return row_tiles(size, nest);
}

std::vector<int> NestPlan::point_axes(const Nest& nest) const {
  std::vector<int> axes;
  axes.reserve(nest.axes.size());
  for (int a = 0; a < int(nest.axes.size()); ++a)
    if (!nest.axes[size_t(a)].reduced && a != vec) axes.push_back(a);
  if (!tiled() && form != AtomForm::staged && lanes < 32)  // a GPU's compiler orders for itself
    std::sort(axes.begin(), axes.end(), [&](int a, int b) {
      const int64_t x = tile[size_t(a)].hi, y = tile[size_t(b)].hi;
      return x != y ? x > y : a < b;
    });
  if (!nest.axes[size_t(vec)].reduced) axes.push_back(vec);
  return axes;
}

int64_t NestPlan::k_steps(const Nest& nest) const {
  int64_t steps = 1;
  for (int a : reduce_order) steps *= steps_along(nest, a);
  return steps;
}

int64_t NestPlan::partial_step(const Nest& nest) const {
  return operands[size_t(operand_a)].whole_steps ? 0 : nest.axes[size_t(k_axis)].extent % k_step;
}

int64_t NestPlan::steps_along(const Nest& nest, int axis) const {
  const int64_t extent = nest.axes[size_t(axis)].extent;
  return axis == k_axis ? round_up(ceil_div(extent, k_step), k_multiple) : extent;
}

int NestPlan::innermost_axis() const {
  const auto last = std::find_if(loops.rbegin(), loops.rend(), [&](const Loop& l) { return tile[size_t(l.axis)].blocks > 1; });
  return last == loops.rend() ? -1 : last->axis;
}

int NestPlan::run_axis() const { return form != AtomForm::matrix || chunked() || guarded || combining || peeled ? -1 : innermost_axis(); }

std::vector<NestPlan::Run> NestPlan::runs(int axis) const {
  const Blocking& t = tile[size_t(axis)];
  const bool tail = axis == vec && t.tail() != t.unit;
  const int64_t whole = t.blocks - int64_t(tail), full = std::min(t.n_hi, whole);
  const std::vector<Run> all{{0, full, t.hi, false}, {full, whole, t.hi - 1, false}, {whole, t.blocks, t.ragged() ? t.hi - 1 : t.hi, tail}};
  std::vector<Run> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [](const Run& r) { return r.length() > 0; });
  return some;
}

int64_t Blocking::most_units(int64_t parts) const {
  if (parts >= blocks) return hi;
  int64_t most = 0;
  for (int64_t part = 0; part < parts; ++part) most = std::max(most, start(blocks * (part + 1) / parts) - start(blocks * part / parts));
  return most / unit;
}

NestPlan::LeftOut NestPlan::left_out(const PaddedTaps& t) const {
  const Blocking &steps = tile[size_t(t.reduced)], &size = tile[size_t(t.output)];
  if (t.reduced == vec || t.reduced == k_axis || offset_a) return LeftOut::nowhere;  // (packed sums of a signed factor count every step)
  const bool loop = steps.hi == 1, whole = steps.hi >= steps.extent;
  const bool by_points = t.output != vec && !tiled() && t.share(1) < 0.99;
  if (by_points && (loop ? size.hi > 1 && t.taps <= 7 : whole && size.blocks == 1)) return LeftOut::points;
  if (!loop && whole && t.output != vec && size.size() == 1 && !tiled()) return LeftOut::steps;
  return loop ? LeftOut::tiles : LeftOut::nowhere;
}

const PaddedTaps* NestPlan::taps_along(int axis) const {
  if (taps)
    for (const PaddedTaps& t : *taps)
      if (t.reduced == axis && left_out(t) != LeftOut::nowhere) return &t;
  return nullptr;
}

bool NestPlan::chunked() const {
  for (const Loop& l : loops)
    if (std::find(reduce_order.begin(), reduce_order.end(), l.axis) != reduce_order.end()) return true;
  return false;
}

bool in_parts(const Nest& nest, const NestPlan& plan) { return plan.dealt_axis() >= 0 && nest.axes[size_t(plan.dealt_axis())].reduced; }

bool by_all_warps(const Nest& nest, const NestPlan& plan, const Statement& s) {
  const bool inner = !nest.inner.empty() && &s >= &nest.inner.front() && &s <= &nest.inner.back();
  const bool at_points = inner && s.reduce == ir::ReduceOp::none;
  return plan.dealt_axis() < 0 || (in_parts(nest, plan) && !at_points);
}

int64_t partial_results(const Nest& nest, const NestPlan& plan, int warps) {
  int64_t results = warps;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (!nest.axes[a].reduced) results *= int(a) == plan.vec ? round_up(nest.axes[a].extent, plan.lanes) : nest.axes[a].extent;
  return results;
}

std::vector<int> count_reads(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  std::vector<int> reads(program.tensors.size(), 0);
  for (const Nest& n : nests)
    for (const Operand& o : collect_operands(n)) ++reads[size_t(o.access.tensor)];
  return reads;
}

bool packable(const ir::TensorProgram& program, const Nest& nest, const ir::Access& access, const std::vector<int>& reads) {
  if (!program[access.tensor].constant || reads[size_t(access.tensor)] != 1 || !is_affine(access.index)) return false;
  if (!guarded_dims(program, access, nest.full_extents()).empty()) return false;
  bool by_reduced = false, by_output = false;
  for (size_t i = 0; i < nest.axes.size(); ++i)
    if (uses(access, int(i))) (nest.axes[i].reduced ? by_reduced : by_output) = true;
  return by_reduced && by_output;
}

}  // namespace rgen::rtile
