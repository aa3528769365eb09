#include "rtile/relayout.h"

#include <algorithm>

#include "base/math.h"
#include "rtile/layout.h"
#include "rtile/nest_facts.h"

namespace rgen::rtile {

namespace {

/// Points of an unreduced axis, or of the axes that reuse an operand, from which a copy can pay.
constexpr int64_t kWorthwhile = 8;

/// The axis that vectors of the results lie along; −1: none.
int contiguous_axis(const ir::TensorProgram& program, const Nest& nest) {
  int axis = -1;
  nest.for_each_statement([&](const Statement& s) {
    if (s.store && !s.index.empty() && program[s.tensor].strides.back().value() == 1) axis = single_axis(s.index.back());
  });
  return axis;
}

/// The dimension of the operand along which `axis` walks, if the operand lies along the reduction and is read often enough; −1: leave it.
int strided_dimension(const ir::TensorProgram& program, const Nest& nest, const ir::Access& a, int axis) {
  const ir::Tensor& t = program[a.tensor];
  if (a.index.size() < 2 || t.strides.back().value() != 1) return -1;
  if (!guarded_dims(program, a, nest.extents()).empty()) return -1;
  const int innermost = single_axis(a.index.back());
  if (innermost < 0 || !nest.axes[size_t(innermost)].reduced || nest.axes[size_t(innermost)].extent == 1) return -1;
  int dimension = -1;
  int64_t reuse = 1;
  for (int i = 0; i < int(nest.axes.size()); ++i) {
    const bool used = std::any_of(a.index.begin(), a.index.end(), [&](const ir::Index& x) { return x.uses(i); });
    if (!used && !nest.axes[size_t(i)].reduced) reuse *= nest.axes[size_t(i)].extent;
  }
  for (size_t d = 0; d + 1 < a.index.size(); ++d) {
    if (!a.index[d].uses(axis)) continue;
    if (dimension >= 0 || single_axis(a.index[d]) != axis) return -1;
    dimension = int(d);
  }
  return reuse >= kWorthwhile ? dimension : -1;
}

ir::Tensor copied(const ir::Tensor& t, size_t dimension, std::string name) {
  ir::Tensor c{std::move(name), t.shape, t.dtype, ir::TensorKind::intermediate, {}, false};
  std::rotate(c.shape.begin() + std::ptrdiff_t(dimension), c.shape.begin() + std::ptrdiff_t(dimension) + 1, c.shape.end());
  int64_t stride = padded_row(c.shape.back().value(), t.dtype);
  std::vector<int64_t> strides(c.shape.size(), 1);
  for (size_t d = strides.size() - 1; d-- > 0; stride *= c.shape[d].value()) strides[d] = stride;
  c.strides.assign(strides.begin(), strides.end());
  return c;
}

/// The nest that fills `to` with `from`, whose `dimension` goes innermost. Axes are named after those of the reading `nest`.
Nest copy(const ir::TensorProgram& program, int from, const ir::Access& to, size_t dimension, const Nest& nest) {
  Nest n;
  Statement s{to.tensor, {}, ir::ReduceOp::none, nullptr, true};
  for (size_t d = 0; d < to.index.size(); ++d) {
    const int axis = single_axis(to.index[d]);
    n.axes.push_back({axis < 0 ? "d" + std::to_string(d) : nest.axes[size_t(axis)].name, program[to.tensor].shape[d].value(), false});
    s.index.push_back(ir::Index::axis(int(d)));
  }
  std::vector<ir::Index> read = s.index;
  std::rotate(read.begin() + std::ptrdiff_t(dimension), read.end() - 1, read.end());
  s.value = ir::access(from, std::move(read));
  n.inner.push_back(std::move(s));
  n.copies = true;
  return n;
}

}  // namespace

std::optional<Rewritten> relayout(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  auto extended = std::make_shared<ir::TensorProgram>(program);
  std::vector<Nest> all = nests;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto product = contraction(all[i]);
    const int axis = contiguous_axis(program, all[i]);
    if (!product || axis < 0 || all[i].axes[size_t(axis)].reduced || all[i].axes[size_t(axis)].extent < kWorthwhile) continue;
    for (const ir::Access* operand : {product->x, product->y}) {
      const ir::Access a = *operand;
      if (program[a.tensor].constant) continue;  // packed before the first call
      const int dimension = strided_dimension(program, all[i], a, axis);
      if (dimension < 0) continue;
      const int to = int(extended->tensors.size());
      extended->tensors.push_back(copied(program[a.tensor], size_t(dimension), unused_name(*extended, program[a.tensor].name + "_t")));
      ir::Access moved{to, a.index, {}};
      std::rotate(moved.index.begin() + dimension, moved.index.begin() + dimension + 1, moved.index.end());
      Statement& sum = all[i].inner[0];
      sum.value = ir::transform(sum.value, [&](const ir::ExprPtr& x) -> ir::ExprPtr {
        const ir::Access* read = std::get_if<ir::Access>(&x->node);
        return read && read->tensor == a.tensor && read->index == a.index ? ir::access(to, moved.index) : nullptr;
      });
      // a tensor that an earlier nest makes is copied behind it, so that the nests after it can still be fused
      size_t at = 0;
      for (size_t n = 0; n < i; ++n)
        all[n].for_each_statement([&](const Statement& s) {
          if (s.tensor == a.tensor) at = n + 1;
        });
      all.insert(all.begin() + std::ptrdiff_t(at), copy(*extended, a.tensor, moved, size_t(dimension), all[i]));
      ++i;
      break;  // the product's other operand has another axis
    }
  }
  if (extended->tensors.size() == program.tensors.size()) return {};
  return Rewritten{std::move(extended), std::move(all)};
}

}  // namespace rgen::rtile
