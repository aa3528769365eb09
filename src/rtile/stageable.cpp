#include "rtile/stageable.h"

#include <algorithm>

#include "rtile/layout.h"
#include "rtile/nest_facts.h"
#include "rtile/relayout.h"

namespace rgen::rtile {

namespace {

/// Steps along the reduction from which a product can gain.
constexpr int64_t kWorthwhile = 8;
constexpr int64_t kPiece = 16;  // bytes that a thread copies at a time

/// The dimension of which the axis alone is the index; −1: there is none, or the axis walks others too.
int dimension_of(const ir::Access& a, int axis) {
  int dimension = -1;
  for (size_t d = 0; d < a.index.size(); ++d) {
    if (!a.index[d].uses(axis)) continue;
    if (dimension >= 0 || single_axis(a.index[d]) != axis) return -1;
    dimension = int(d);
  }
  return dimension;
}

/// The dimension along which the longest reduced axis of both factors walks; −1: they can be staged in no way.
int along_reduction(const Nest& nest, const ir::Access& a, const ir::Access& other) {
  int longest = -1;
  for (int k = 0; k < int(nest.axes.size()); ++k) {
    const bool shared = uses(other, k);
    if (!nest.axes[size_t(k)].reduced || !shared || dimension_of(a, k) < 0) continue;
    if (longest < 0 || nest.axes[size_t(k)].extent > nest.axes[size_t(longest)].extent) longest = k;
  }
  return longest < 0 || nest.axes[size_t(longest)].extent < kWorthwhile ? -1 : dimension_of(a, longest);
}

bool rows_in_pieces(const ir::Tensor& t) {
  return std::all_of(t.strides.begin(), t.strides.end() - 1, [&](const ir::Size& s) { return s.value() * size_of(t.dtype) % kPiece == 0; });
}

bool read_often(const Nest& nest, const ir::Access& a) {
  int64_t readings = 1;
  for (int i = 0; i < int(nest.axes.size()); ++i) {
    const bool walks = uses(a, i);
    if (!walks && !nest.axes[size_t(i)].reduced) readings *= nest.axes[size_t(i)].extent;
  }
  return readings >= kWorthCopying;
}

/// How a factor should lie.
struct Rows {
  int dimension;  ///< innermost
  DType dtype;
};
std::optional<Rows> rows_wanted(const ir::TensorProgram& program, const Nest& nest, const ir::Access& a, const ir::Access& other) {
  const ir::Tensor& t = program[a.tensor];
  if (t.constant || a.index.empty() || t.strides.back().value() != 1) return {};  // a constant is packed before the first call
  const DType its = program[other.tensor].dtype;
  const bool mixed = is_float(t.dtype) && is_float(its) && t.dtype != its;  // there is no instruction for that
  Rows wanted{along_reduction(nest, a, other), mixed ? DType::f32 : t.dtype};
  if (wanted.dimension < 0) return {};
  if (wanted.dtype == DType::f32 && program.math != ir::Math::tf32) {  // lanes take them one by one, as they lie
    if (!mixed || t.dtype == DType::f32 || !read_often(nest, a)) return {};
    wanted.dimension = int(a.index.size()) - 1;
    return wanted;
  }
  const bool lies_so = wanted.dimension + 1 == int(a.index.size()) && wanted.dtype == t.dtype;
  if (lies_so && (rows_in_pieces(t) || !read_often(nest, a))) return {};
  return wanted;
}

}  // namespace

std::optional<Rewritten> stageable(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  auto extended = std::make_shared<ir::TensorProgram>(program);
  std::vector<Nest> all = nests;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto product = contraction(all[i]);
    if (!product) continue;
    const ir::Access x = *product->x, y = *product->y;
    for (const auto& [a, other] : {std::pair{x, y}, std::pair{y, x}}) {
      const auto rows = rows_wanted(program, all[i], a, other);
      if (!rows) continue;
      copy_before(i++, a, size_t(rows->dimension), rows->dtype, *extended, all);
      all[i].stage = true;
    }
  }
  if (extended->tensors.size() == program.tensors.size()) return {};
  return Rewritten{std::move(extended), std::move(all)};
}

}  // namespace rgen::rtile
