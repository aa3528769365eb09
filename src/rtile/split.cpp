#include "rtile/split.h"

#include <algorithm>

#include "rtile/nest_facts.h"

namespace rgen::rtile {

namespace {

constexpr int64_t kTogether = 16;  // neighbours in memory that stay together: a step of a product, a row of a stage

/// A reduction as `parts` parts of `length` and a rest of `left` elements.
struct Cut {
  int axis = -1;
  int64_t parts = 1, length = 1, left = 0;

  int64_t rows() const { return parts + (left > 0 ? 1 : 0); }  ///< of the results of the parts
};

bool reduces(const Statement& s) { return s.reduce != ir::ReduceOp::none; }
const Statement& reduction(const Nest& n) { return *std::find_if(n.inner.begin(), n.inner.end(), reduces); }

bool neighbours_along(const Nest& nest, int axis) {
  bool neighbours = false;
  ir::for_each_access(*reduction(nest).value, [&](const ir::Access& a) { neighbours |= !a.index.empty() && a.index.back().uses(axis); });
  return neighbours;
}

/// The most parts of equal length, up to `most`.
Cut equal_parts(const Nest& nest, int axis, int64_t most) {
  const int64_t extent = nest.axes[size_t(axis)].extent;
  const int64_t unit = neighbours_along(nest, axis) && extent % kTogether == 0 ? kTogether : 1;
  for (int64_t n = std::min(most, extent / unit); n > 1; --n)
    if (extent % (n * unit) == 0) return {axis, n, extent / n, 0};
  return {};
}

/// The parts, up to `most`, with which one of them and the rest are shortest.
Cut nearly_equal_parts(const Nest& nest, int axis, int64_t most) {
  const int64_t extent = nest.axes[size_t(axis)].extent, unit = neighbours_along(nest, axis) ? kTogether : 1;
  Cut best{axis, 1, extent, 0};
  for (int64_t n = 2; n <= std::min(most, extent / unit); ++n) {
    const int64_t length = extent / n / unit * unit, left = extent - n * length;
    if (length + left < best.length + best.left) best = {axis, n, length, left};
  }
  return best;
}

/// One reduction, over values that are made where they are summed; they may be kept, too.
bool can_split(const Nest& n) { return std::count_if(n.inner.begin(), n.inner.end(), reduces) == 1; }

int longest_reduced(const Nest& n) {
  int longest = -1;
  for (size_t a = 0; a < n.axes.size(); ++a)
    if (n.axes[a].reduced && (longest < 0 || n.axes[a].extent > n.axes[size_t(longest)].extent)) longest = int(a);
  return longest;
}

/// Where the results of the parts are: those of the reduction, one after the other.
ir::Tensor of_parts(const ir::TensorProgram& program, const Statement& sum, int64_t rows) {
  const ir::Tensor& t = program[sum.tensor];
  ir::Tensor p{unused_name(program, t.name + "_parts"), t.shape, accumulation(t.dtype), ir::TensorKind::intermediate, {}, false};
  p.shape.insert(p.shape.begin(), ir::Size(rows));
  p.strides = ir::row_major(p.shape);
  return p;
}

/// `length` steps of the reduction from `start` on, their results in the row `row` of `tensor`.
Nest piece(const Nest& nest, int axis, int64_t length, const ir::Index& start, const ir::Index& row, int tensor) {
  Nest n = nest;
  n.outer.clear();
  n.axes[size_t(axis)].extent = length;
  std::vector<ir::Index> with;
  for (size_t a = 0; a < n.axes.size(); ++a) with.push_back(ir::Index::axis(int(a)));
  with[size_t(axis)] = ir::Index::axis(axis) + start;
  for (Statement& s : n.inner) {
    s.value = substitute_axes(s.value, with);
    for (ir::Index& i : s.index) i = ir::substitute(i, with);
    if (!reduces(s)) continue;
    s.tensor = tensor, s.store = true;
    s.index.insert(s.index.begin(), row);
  }
  return n;
}

/// The parts: `axis` is what is left of the reduction's, the last axis their number.
Nest of_equal_length(const Nest& nest, const Cut& cut, int tensor) {
  const int number = int(nest.axes.size());
  Nest n = piece(nest, cut.axis, cut.length, ir::Index::axis(number, cut.length), ir::Index::axis(number), tensor);
  n.axes.push_back({"part", cut.parts, false});
  n.stage = true;
  return n;
}

/// What remains to be done: the reduction over the parts, then what followed it.
Nest over_parts(const Nest& nest, const Cut& cut, int tensor) {
  Nest n = nest;
  for (NestAxis& a : n.axes)
    if (a.reduced) a.extent = 1;
  n.axes[size_t(cut.axis)].extent = cut.rows();
  n.inner = {reduction(nest)};
  Statement& s = n.inner[0];
  std::vector<ir::Index> index = s.index;
  index.insert(index.begin(), ir::Index::axis(cut.axis));
  s.value = ir::access(tensor, std::move(index));
  return n;
}

}  // namespace

std::optional<Rewritten> split_reductions(const ir::TensorProgram& program, const std::vector<Nest>& nests,
                                          const std::vector<int64_t>& parts, bool equal) {
  if (std::all_of(parts.begin(), parts.end(), [](int64_t n) { return n == 1; })) return {};
  auto extended = std::make_shared<ir::TensorProgram>(program);
  std::vector<Nest> all;
  for (size_t i = 0; i < nests.size(); ++i) {
    const Nest& n = nests[i];
    const int axis = can_split(n) ? longest_reduced(n) : -1;
    const Cut cut = axis < 0 ? Cut{} : equal ? equal_parts(n, axis, parts[i]) : nearly_equal_parts(n, axis, parts[i]);
    if (cut.parts == 1) {
      all.push_back(n);
      continue;
    }
    const int tensor = int(extended->tensors.size());
    extended->tensors.push_back(of_parts(*extended, reduction(n), cut.rows()));
    all.push_back(of_equal_length(n, cut, tensor));
    if (cut.left > 0)
      all.push_back(piece(n, axis, cut.left, ir::Index::number(cut.parts * cut.length), ir::Index::number(cut.parts), tensor));
    all.push_back(over_parts(n, cut, tensor));
  }
  if (all.size() == nests.size()) return {};
  return Rewritten{std::move(extended), std::move(all)};
}

std::vector<int64_t> parts_wanted(const RProgram& plan, const std::vector<Nest>& nests, const ir::TensorProgram& program,
                                  const hw::Profile& profile, double share) {
  std::vector<int64_t> parts(nests.size(), 1);
  size_t i = 0;
  for (const GroupPlan& g : plan.groups)
    for (const NestPlan& p : g.nests) {
      const Nest& n = nests[i++];
      if (!g.shared.empty() || p.estimate.us < 2 * profile.call_us) continue;
      const int64_t results_of_warp = nest_facts(program, n).products > 0 ? 512 : 64;
      int64_t results = 1;
      for (const NestAxis& a : n.axes) results *= a.reduced ? 1 : a.extent;
      const double warps = share * profile.cores * profile.gpu.schedulers * 4;
      parts[i - 1] = std::max<int64_t>(1, int64_t(warps) / ceil_div(results, results_of_warp));
    }
  return parts;
}

std::vector<int64_t> parts_for_workers(const RProgram& plan, const hw::Profile& profile) {
  std::vector<int64_t> parts;
  for (const GroupPlan& g : plan.groups)
    for (const NestPlan& p : g.nests) {
      const int64_t tasks = g.shared.empty() ? p.tasks() : g.tasks;
      const double us = g.shared.empty() ? p.estimate.us : g.estimate.us;
      parts.push_back(us < 2 * profile.fork_join_us ? 1 : std::max<int64_t>(1, plan.threads / tasks));
    }
  return parts;
}

}  // namespace rgen::rtile
