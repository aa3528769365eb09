#include "rtile/relayout.h"

#include <algorithm>

#include "base/math.h"
#include "rtile/layout.h"
#include "rtile/nest_facts.h"

namespace rgen::rtile {

namespace {

/// Points of an unreduced axis from which a copy can pay.
constexpr int64_t kWorthwhile = 8;

/// The axis that vectors of the results lie along; −1: none.
int contiguous_axis(const ir::TensorProgram& program, const Nest& nest) {
  int axis = -1;
  nest.for_each_statement([&](const Statement& s) {
    if (s.store && !s.index.empty() && program[s.tensor].strides.back().value() == 1) axis = single_axis(s.index.back());
  });
  return axis;
}

/// The dimension of the operand along which the results' vectors lie, if the operand lies along the reduction and is read often enough; −1:
/// leave it.
int strided_dimension(const ir::TensorProgram& program, const Nest& nest, const ir::Access& a) {
  const ir::Tensor& t = program[a.tensor];
  const int axis = contiguous_axis(program, nest);
  if (axis < 0 || nest.axes[size_t(axis)].reduced || nest.axes[size_t(axis)].extent < kWorthwhile) return -1;
  if (a.index.size() < 2 || t.strides.back().value() != 1) return -1;
  if (!guarded_dims(program, a, nest.extents()).empty()) return -1;
  const int innermost = single_axis(a.index.back());
  if (innermost < 0 || !nest.axes[size_t(innermost)].reduced || nest.axes[size_t(innermost)].extent == 1) return -1;
  int dimension = -1;
  for (size_t d = 0; d + 1 < a.index.size(); ++d) {
    if (!a.index[d].uses(axis)) continue;
    if (dimension >= 0 || single_axis(a.index[d]) != axis) return -1;
    dimension = int(d);
  }
  return read_often(nest, a) ? dimension : -1;
}

/// The dimension along which the sums are independent (the channels of a depthwise convolution), if windows slide along the last one:
/// planes of a few places fill no vectors, and shifted vectors of them no lines. −1: leave the operand.
int independent_dimension(const ir::TensorProgram& program, const Nest& nest, const ir::Access& a, const ir::Access& other) {
  if (a.index.size() < 2 || program[a.tensor].strides.back().value() != 1 || !rtile::is_affine(a.index)) return -1;
  int dimension = -1;
  bool reduced = false, unreduced = false;
  for (int i = 0; i < int(nest.axes.size()); ++i) {
    const NestAxis& axis = nest.axes[size_t(i)];
    if (a.index.back().uses(i)) (axis.reduced ? reduced : unreduced) |= axis.extent > 1;
    const bool shared = uses(other, i);
    if (axis.reduced || !shared || axis.extent < kWorthwhile) continue;
    for (size_t d = 0; d + 1 < a.index.size(); ++d)
      if (single_axis(a.index[d]) == i) dimension = int(d);
  }
  return reduced && unreduced ? dimension : -1;
}

/// The dimension that a reduced axis of both factors walks one by one, alone but for axes that both have (groups), if it is not the last,
/// which outputs walk, and the other factor has vectors to load; −1: leave the operand.
int reduction_dimension(const ir::TensorProgram& program, const Nest& nest, const ir::Access& a, const ir::Access& other) {
  const ir::Tensor& t = program[a.tensor];
  if (a.index.size() < 2 || other.index.empty() || t.strides.back().value() != 1) return -1;
  if (!rtile::is_affine(a.index) || !read_often(nest, a)) return -1;
  const auto by_output = [&](const ir::Index::Term& term) {
    const NestAxis& axis = nest.axes[size_t(term.axis)];
    return axis.extent > 1 && !axis.reduced;
  };
  const std::vector<ir::Index::Term>&last = a.index.back().terms, &others = other.index.back().terms;
  const auto alone = [&](const ir::Index::Term& term) { return by_output(term) && !uses(other, term.axis); };
  if (std::none_of(last.begin(), last.end(), alone)) return -1;
  if (!program[other.tensor].constant && std::none_of(others.begin(), others.end(), by_output)) return -1;
  int dimension = -1;
  int64_t longest = size_of(t.dtype) < 4 ? 1 : kWorthwhile - 1;  // small elements of few channels are neighbours with their places
  for (size_t d = 0; d + 1 < a.index.size(); ++d) {
    int walked = -1, others_too = 0;
    for (const ir::Index::Term& term : a.index[d].terms) {
      const NestAxis& axis = nest.axes[size_t(term.axis)];
      if (axis.reduced && term.coef == 1 && uses(other, term.axis))
        walked = term.axis;
      else
        others_too += axis.extent > 1 && (axis.reduced || alone(term));
    }
    if (walked >= 0 && others_too == 0 && nest.axes[size_t(walked)].extent > longest)
      dimension = int(d), longest = nest.axes[size_t(walked)].extent;
  }
  return dimension;
}

ir::Tensor copied(const ir::Tensor& t, const FactorCopy& form, std::string name) {
  ir::Tensor c{std::move(name), t.shape, form.dtype, ir::TensorKind::intermediate, {}, false};
  std::rotate(c.shape.begin() + std::ptrdiff_t(form.dimension), c.shape.begin() + std::ptrdiff_t(form.dimension) + 1, c.shape.end());
  c.strides = copied_strides(c.shape, form.dtype, form.dense);
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

std::vector<ir::Size> copied_strides(const std::vector<ir::Size>& shape, DType dtype, bool dense) {
  constexpr int64_t kLine = 64;  // bytes
  std::vector<ir::Size> strides(shape.size(), ir::Size(1));
  const int64_t row = shape.back().value();
  int64_t stride = dense && row * size_of(dtype) < kLine ? row : padded_row(row, dtype);
  for (size_t d = strides.size() - 1; d-- > 0; stride *= shape[d].value()) strides[d] = ir::Size(stride);
  return strides;
}

void replace_reads(Nest& nest, const ir::Access& a, const ir::Access& with) {
  Statement& sum = nest.inner[0];
  sum.value = ir::transform(sum.value, [&](const ir::ExprPtr& x) -> ir::ExprPtr {
    const ir::Access* read = std::get_if<ir::Access>(&x->node);
    return read && read->tensor == a.tensor && read->index == a.index ? ir::access(with.tensor, with.index, with.out_of_bounds) : nullptr;
  });
}

int copying_nest(const std::vector<Nest>& nests, int tensor) {
  for (size_t n = 0; n < nests.size(); ++n)
    if (nests[n].copies && nests[n].inner[0].tensor == tensor) return int(n);
  return -1;
}

void copy_before(size_t reader, const ir::Access& a, const FactorCopy& form, ir::TensorProgram& program, std::vector<Nest>& nests) {
  const int to = int(program.tensors.size());
  const size_t dimension = form.dimension;
  const std::string suffix = form.dtype == program[a.tensor].dtype ? "_t" : "_" + std::string(to_string(form.dtype));
  program.tensors.push_back(copied(program[a.tensor], form, unused_name(program, program[a.tensor].name + suffix)));
  ir::Access moved{to, a.index, a.out_of_bounds};
  std::rotate(moved.index.begin() + std::ptrdiff_t(dimension), moved.index.begin() + std::ptrdiff_t(dimension) + 1, moved.index.end());
  replace_reads(nests[reader], a, moved);
  // a tensor that an earlier nest makes is copied behind it, so that the nests after it can still be fused
  size_t at = 0;
  for (size_t n = 0; n < reader; ++n)
    nests[n].for_each_statement([&](const Statement& s) {
      if (s.tensor == a.tensor) at = n + 1;
    });
  nests.insert(nests.begin() + std::ptrdiff_t(at), copy(program, a.tensor, moved, dimension, nests[reader]));
}

bool read_often(const Nest& nest, const ir::Access& a) {
  int64_t readings = 1;
  for (int i = 0; i < int(nest.axes.size()); ++i) {
    const bool walks = uses(a, i);
    if (!walks && !nest.axes[size_t(i)].reduced) readings *= nest.axes[size_t(i)].extent;
  }
  return readings >= kWorthCopying;
}

std::optional<Rewritten> copy_factors(
    const ir::TensorProgram& program, const std::vector<Nest>& nests, bool stage,
    const std::function<std::optional<FactorCopy>(const Nest&, const ir::Access&, const ir::Access&)>& wanted) {
  auto extended = std::make_shared<ir::TensorProgram>(program);
  std::vector<Nest> all = nests;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto product = contraction(all[i]);
    if (!product) continue;
    const ir::Access x = *product->x, y = *product->y;
    for (const auto& [a, other] : {std::pair{x, y}, std::pair{y, x}}) {
      if (program[a.tensor].constant) continue;  // packed before the first call
      const auto form = wanted(all[i], a, other);
      if (!form) continue;
      copy_before(i++, a, *form, *extended, all);
      all[i].stage = stage;
      if (!stage) break;
    }
  }
  if (extended->tensors.size() == program.tensors.size()) return {};
  return Rewritten{std::move(extended), std::move(all)};
}

std::optional<Rewritten> relayout(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  return copy_factors(program, nests, false, [&](const Nest& nest, const ir::Access& a, const ir::Access& other) {
    int dimension = strided_dimension(program, nest, a);
    if (dimension < 0) dimension = independent_dimension(program, nest, a, other);
    return dimension < 0 ? std::nullopt : std::optional(FactorCopy{size_t(dimension), program[a.tensor].dtype});
  });
}

std::optional<Rewritten> reduction_innermost(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  return copy_factors(program, nests, false, [&](const Nest& nest, const ir::Access& a, const ir::Access& other) {
    const int dimension = reduction_dimension(program, nest, a, other);
    return dimension < 0 ? std::nullopt : std::optional(FactorCopy{size_t(dimension), program[a.tensor].dtype, true});
  });
}

}  // namespace rgen::rtile
