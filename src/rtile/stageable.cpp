#include "rtile/stageable.h"

#include <algorithm>

#include "rtile/layout.h"
#include "rtile/relayout.h"
#include "rtile/rprogram.h"

namespace rgen::rtile {

namespace {

/// Steps along the reduction from which a product can gain.
constexpr int64_t kWorthwhile = 8;

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
  return std::all_of(t.strides.begin(), t.strides.end() - 1,
                     [&](const ir::Size& s) { return s.value() * size_of(t.dtype) % kPieceBytes == 0; });
}

std::optional<FactorCopy> rows_wanted(const ir::TensorProgram& program, const Nest& nest, const ir::Access& a, const ir::Access& other) {
  const ir::Tensor& t = program[a.tensor];
  if (a.index.empty() || t.strides.back().value() != 1) return {};
  const int dimension = along_reduction(nest, a, other);
  if (dimension < 0) return {};
  const size_t last = a.index.size() - 1;
  const DType its = program[other.tensor].dtype;
  const bool mixed = is_float(t.dtype) && is_float(its) && t.dtype != its;  // there is no instruction for that
  const DType dtype = mixed ? DType::f32 : t.dtype;
  if (dtype == DType::f32 && program.math != ir::Math::tf32)  // lanes take them one by one, as they lie
    return t.dtype != DType::f32 && read_often(nest, a) ? std::optional(FactorCopy{last, dtype}) : std::nullopt;
  const bool lies_so = size_t(dimension) == last && dtype == t.dtype;
  if (lies_so && (rows_in_pieces(t) || !read_often(nest, a))) return {};
  return FactorCopy{size_t(dimension), dtype};
}

}  // namespace

std::optional<Rewritten> stageable(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  return copy_factors(program, nests, true,
                      [&](const Nest& nest, const ir::Access& a, const ir::Access& other) { return rows_wanted(program, nest, a, other); });
}

}  // namespace rgen::rtile
