#include "rtile/split.h"

#include <algorithm>

#include "rtile/nest_facts.h"

namespace rgen::rtile {

namespace {

constexpr int64_t kTogether = 16;  // neighbours in memory that stay together: a step of a product, a row of a stage

/// The most parts of equal length, up to `most`.
int64_t equal_parts(const Nest& nest, int axis, int64_t most) {
  bool neighbours = false;
  ir::for_each_access(*nest.inner[0].value, [&](const ir::Access& a) { neighbours |= !a.index.empty() && a.index.back().uses(axis); });
  const int64_t extent = nest.axes[size_t(axis)].extent, unit = neighbours && extent % kTogether == 0 ? kTogether : 1;
  for (int64_t n = std::min(most, extent / unit); n > 1; --n)
    if (extent % (n * unit) == 0) return n;
  return 1;
}

/// One reduction over values that are made where they are summed.
bool can_split(const Nest& n) { return n.inner.size() == 1 && n.inner[0].reduce != ir::ReduceOp::none; }

int longest_reduced(const Nest& n) {
  int longest = -1;
  for (size_t a = 0; a < n.axes.size(); ++a)
    if (n.axes[a].reduced && (longest < 0 || n.axes[a].extent > n.axes[size_t(longest)].extent)) longest = int(a);
  return longest;
}

/// Where the results of the parts are: those of the reduction, one after the other.
ir::Tensor of_parts(const ir::TensorProgram& program, const Statement& sum, int64_t parts) {
  const ir::Tensor& t = program[sum.tensor];
  ir::Tensor p{unused_name(program, t.name + "_parts"), t.shape, accumulation(t.dtype), ir::TensorKind::intermediate, {}, false};
  p.shape.insert(p.shape.begin(), ir::Size(parts));
  p.strides = ir::row_major(p.shape);
  return p;
}

/// The parts: `axis` is what is left of the reduction's, the last axis their number.
Nest part(const Nest& nest, int axis, int64_t parts, int tensor) {
  Nest n = nest;
  n.outer.clear();
  n.stage = true;
  const int number = int(n.axes.size());
  const int64_t length = n.axes[size_t(axis)].extent /= parts;
  n.axes.push_back({"part", parts, false});
  std::vector<ir::Index> with;
  for (int a = 0; a < number; ++a) with.push_back(ir::Index::axis(a));
  with[size_t(axis)] = ir::Index::axis(axis) + ir::Index::axis(number, length);
  Statement& s = n.inner[0];
  s.value = substitute_axes(s.value, with);
  s.tensor = tensor, s.store = true;
  s.index.insert(s.index.begin(), ir::Index::axis(number));
  return n;
}

/// What is left to do: the reduction over the parts, then what followed it.
Nest rest(const Nest& nest, int axis, int64_t parts, int tensor) {
  Nest n = nest;
  for (NestAxis& a : n.axes)
    if (a.reduced) a.extent = 1;
  n.axes[size_t(axis)].extent = parts;
  Statement& s = n.inner[0];
  std::vector<ir::Index> index = s.index;
  index.insert(index.begin(), ir::Index::axis(axis));
  s.value = ir::access(tensor, std::move(index));
  return n;
}

}  // namespace

std::optional<Rewritten> split_reductions(const ir::TensorProgram& program, const std::vector<Nest>& nests,
                                          const std::vector<int64_t>& parts) {
  auto extended = std::make_shared<ir::TensorProgram>(program);
  std::vector<Nest> all;
  for (size_t i = 0; i < nests.size(); ++i) {
    const Nest& n = nests[i];
    const int axis = can_split(n) ? longest_reduced(n) : -1;
    const int64_t of = axis < 0 ? 1 : equal_parts(n, axis, parts[i]);
    if (of == 1) {
      all.push_back(n);
      continue;
    }
    const int tensor = int(extended->tensors.size());
    extended->tensors.push_back(of_parts(*extended, n.inner[0], of));
    all.push_back(part(n, axis, of, tensor));
    all.push_back(rest(n, axis, of, tensor));
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

}  // namespace rgen::rtile
