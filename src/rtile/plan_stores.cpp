// Results that go past the caches: whole rows, or where they do not begin lines, from line to line of each or by way of a buffer.
#include <algorithm>
#include <cmath>

#include "rtile/layout.h"
#include "rtile/planner.h"

namespace rgen::rtile {

namespace {
constexpr int64_t kShortestPeeled = 3;  ///< vectors
constexpr int64_t kShortRow = 512;      ///< elements: shorter ones, if they follow one another, are collected whole
}  // namespace

/// Every row begins a line. Else it has vectors in two lines each, which cannot be streamed: a softmax of 4096 × 1000 whose rows alternate
/// takes 2.1 ms on Zen 4, stored as usual 1.5. The nest may be that of one row, its place unknown.
bool Planner::rows_on_lines(const NestFacts::OperandFacts& o, size_t along) const {
  const std::vector<int64_t> strides = row_major(o.shape);
  for (size_t d = 0; d < strides.size(); ++d)
    if (strides[d] >= o.coef[along] * extent(int(along)) && o.shape[d] > 1 &&
        strides[d] * o.element_bytes % c_.profile.levels[0].line_bytes != 0)
      return false;
  return true;
}

bool Planner::streams(const NestPlan& p) const {
  if (c_.profile.arch != "x86-64" || p.chunked()) return false;
  const int along = p.store_transpose_axis >= 0 && p.store_neighbours == 0 ? p.store_transpose_axis : p.vec;
  const int64_t step = std::max<int64_t>(1, p.store_neighbours);
  if (p.tile[size_t(along)].size() % W_ != 0) return false;  // parts of lines are stored as usual
  for (size_t i = facts_.reads; i < facts_.operands.size(); ++i) {
    const auto& o = facts_.operands[i];
    if (c_.program[o.tensor].kind == ir::TensorKind::intermediate && c_.makes_beside(o.tensor)) continue;  // the next nest reads it
    if (c_.beyond_caches(o.tensor) && c_.program[o.tensor].dtype == DType::f32 && o.coef[size_t(along)] == step &&
        rows_on_lines(o, size_t(along)))
      return true;
  }
  return false;
}

bool Planner::rows_inside_lines(size_t along) const {
  const auto& o = facts_.operands.back();
  const ir::Tensor& t = c_.program[o.tensor];
  return c_.profile.arch == "x86-64" && !nest_.has_reduction() && facts_.operands.size() == facts_.reads + 1 && o.coef[along] == 1 &&
         t.kind == ir::TensorKind::output && t.dtype == DType::f32 && c_.beyond_caches(o.tensor) && !rows_on_lines(o, along);
}

bool Planner::peels(const NestPlan& p) const {
  const auto& o = facts_.operands.back();
  if (p.lanes != W_ || p.guarded || transposes(p) || extent(p.vec) < kShortestPeeled * W_ || !rows_inside_lines(size_t(p.vec)))
    return false;
  if (p.loops.empty() || p.loops.back().axis != p.vec) return false;
  if (std::count_if(p.loops.begin(), p.loops.end(), [&](const Loop& l) { return l.axis == p.vec; }) != 1) return false;
  if (std::any_of(p.parallel.begin(), p.parallel.end(), [&](const Parallel& x) { return x.axis == p.vec && x.parts > 1; })) return false;
  for (int a : outputs_)
    if (a != p.vec && p.tile[size_t(a)].size() > 1) return false;
  return std::none_of(facts_.operands.begin(), facts_.operands.end(),
                      [&](const auto& x) { return !x.affine || c_.program[x.tensor].within == o.tensor; });
}

std::optional<WriteCombining> Planner::pieces(const NestPlan& p) const {
  const auto& o = facts_.operands.back();
  WriteCombining w{p.store_transpose_axis >= 0 ? p.store_transpose_axis : p.vec, -1};
  if (nest_.fused() || p.lanes == 1 || p.store_neighbours > 0 || !rows_inside_lines(size_t(w.along))) return {};
  for (size_t i = 0; i < facts_.reads; ++i)  // the axis along which rows are read, if it is another one
    for (int a : outputs_)
      if (a != w.along && extent(a) > 1 && facts_.operands[i].coef[size_t(a)] == 1) w.rows = a;
  if (w.rows < 0 || o.coef[size_t(w.rows)] <= 0) return {};
  for (int a : outputs_)
    if (a != w.along && a != w.rows && p.tile[size_t(a)].size() > 1) return {};
  for (size_t i = 0; i < facts_.reads; ++i)  // lane by lane, each waits for its line
    if (const int64_t step = facts_.operands[i].coef[size_t(p.vec)]; step != 0 && step != 1 && !p.operands[i].transposed) return {};
  w.whole = o.coef[size_t(w.rows)] == extent(w.along) && extent(w.along) < kShortRow;
  return w;
}

std::vector<NestPlan> Planner::combining(const NestPlan& base) const {
  constexpr int64_t kColumns[] = {64, 128, 256}, kRows[] = {64, 128, 256, 512}, kOfWhole[] = {4096, 16384, 65536};  // elements
  const std::optional<WriteCombining> w = pieces(base);
  if (!w) return {};
  std::vector<NestPlan> all;
  const auto add = [&](int64_t rows, int64_t columns) {
    const auto blocks = [&](int axis, int64_t n) {
      const Blocking& t = base.tile[size_t(axis)];
      return std::min(std::max<int64_t>(2, n / t.size()), t.blocks);
    };
    const Loop buffer{w->rows, blocks(w->rows, rows)}, pieces{w->along, blocks(w->along, columns)};
    for (const NestPlan& p : all)
      if (p.loops[p.loops.size() - 4].step == buffer.step && p.loops[p.loops.size() - 3].step == pieces.step) return;
    NestPlan p = base;
    p.combining = w, p.stream = true;
    for (int a : outputs_)
      if (a != w->along && a != w->rows) p.loops.push_back({a, 1});
    p.loops.insert(p.loops.end(), {buffer, pieces, {w->along, 1}, {w->rows, 1}});
    fetch_next_rows(p);
    all.push_back(std::move(p));
  };
  if (w->whole)
    for (const int64_t n : kOfWhole) add(n / extent(w->along), extent(w->along) + base.tile[size_t(w->along)].size());
  else
    for (const int64_t rows : kRows)
      for (const int64_t columns : kColumns) add(rows, columns);
  return all;
}

void Planner::fetch_next_rows(NestPlan& p) const {
  const size_t along = size_t(p.combining->along), rows = size_t(p.combining->rows);
  for (size_t i = 0; i < facts_.reads; ++i) {
    const auto& o = facts_.operands[i];
    if (p.operands[i].placement != Placement::direct || o.coef[rows] != 1 || o.coef[along] <= 1 || !c_.beyond_caches(o.tensor)) continue;
    const int64_t step = p.tile[along].size();
    const double bytes = double(step * p.buffered_rows() * o.element_bytes);
    const int64_t next = step * int64_t(std::ceil(2 * under_way() / bytes));
    // where the rows end before that, other columns of them come next
    const int64_t ahead = 2 * next <= extent(int(along)) ? o.coef[along] * next : p.buffered_rows();
    p.operands.change(i, [&](Operand& x) { x.ahead = ahead; });
  }
}

bool Planner::combines_along(const NestPlan& p, const std::vector<Parallel>& split) const {
  return !p.combining || !p.combining->whole ||
         std::none_of(split.begin(), split.end(), [&](const Parallel& x) { return x.axis == p.combining->along && x.parts > 1; });
}

}  // namespace rgen::rtile
