#include "rtile/layout.h"

#include <algorithm>

#include "base/math.h"

namespace rgen::rtile {

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> s(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) s[d - 1] = s[d] * shape[d];
  return s;
}
std::vector<int64_t> row_major(const std::vector<int64_t>& shape, size_t innermost) {
  std::vector<int64_t> s(shape.size(), 1);
  int64_t inside = shape[innermost];
  for (size_t d = shape.size(); d-- > 0;)
    if (d != innermost) s[d] = inside, inside *= shape[d];
  return s;
}
size_t dimension_along(const std::vector<ir::Index>& index, int axis) {
  size_t d = 0;
  while (d + 1 < index.size() && single_axis(index[d]) != axis) ++d;
  return d;
}
std::vector<int64_t> const_sizes(const std::vector<ir::Size>& sizes) {
  std::vector<int64_t> v;
  for (const ir::Size& s : sizes) v.push_back(s.value());
  return v;
}
int single_axis(const ir::Index& i) {
  return i.floors.empty() && i.constant == 0 && i.terms.size() == 1 && i.terms[0].coef == 1 ? i.terms[0].axis : -1;
}
bool uses(const ir::Access& access, int axis) {
  return std::any_of(access.index.begin(), access.index.end(), [&](const ir::Index& i) { return i.uses(axis); });
}
bool is_affine(const std::vector<ir::Index>& index) {
  return std::all_of(index.begin(), index.end(), [](const ir::Index& i) { return i.is_affine(); });
}
Linear linearise(const std::vector<ir::Index>& index, const std::vector<int64_t>& strides, int n_axes) {
  Linear l{std::vector<int64_t>(size_t(n_axes), 0), 0};
  for (size_t d = 0; d < index.size(); ++d) {
    l.constant += strides[d] * index[d].constant;
    for (const ir::Index::Term& t : index[d].terms) l.coef[size_t(t.axis)] += strides[d] * t.coef;
  }
  return l;
}
bool share_sets(int64_t stride_bytes, int64_t rows, int64_t most) {
  constexpr int64_t kHalfWay = 2048;  // bytes
  return rows > most && stride_bytes % kHalfWay == 0;
}
int64_t padded_row(int64_t elements, DType dtype) {
  const int64_t line = 64 / size_of(dtype), row = round_up(elements, line);
  return row % (8 * line) == 0 ? row + line : row;
}
BoxLayout box_layout(const ir::Tensor& tensor, const ir::Access& access, const std::vector<int64_t>& extents, bool on_lines) {
  const std::vector<int64_t> source = const_sizes(tensor.strides);
  const size_t rank = source.size();
  BoxLayout b;
  b.shape = const_sizes(tensor.shape), b.lo.resize(rank), b.count.resize(rank), b.strides.resize(rank);
  for (size_t d = rank; d-- > 0;) {
    const auto [first, last] = ir::bounds(access.index[d], extents);
    for (size_t o = d; o-- > 0 && last >= b.shape[d] && !access.out_of_bounds;) {
      const ir::Index& outer = access.index[o];
      if (!outer.is_affine() || !outer.terms.empty() || outer.constant != 0 || source[o] != source[d] * b.shape[d]) break;
      b.shape[d] *= b.shape[o], b.shape[o] = 1;
    }
    b.lo[d] = std::min<int64_t>(first, 0), b.count[d] = std::max(last + 1, b.shape[d]) - b.lo[d];
  }
  // trailing dimensions that lie one after the other in memory are copied as one run, but for more rows than a set has ways that would
  // share one
  const int64_t element = size_of(tensor.dtype), line = 64, ways = 8;
  b.run = rank - 1;
  while (b.run > 0 && b.count[b.run] == b.shape[b.run] && source[b.run] == b.inner && source[b.run - 1] == b.inner * b.shape[b.run] &&
         !share_sets(b.inner * b.shape[b.run] * element, b.shape[b.run - 1], ways) &&
         !(on_lines && b.inner * b.shape[b.run] * element % line != 0))
    b.inner *= b.shape[b.run--];
  for (size_t d = rank; d-- > 0;) {
    b.strides[d] = d + 1 == rank ? 1 : b.strides[d + 1] * b.count[d + 1];
    if (d + 1 == b.run) b.strides[d] = padded_row(b.inner * b.count[b.run], tensor.dtype);
    if (d + 1 < b.run && share_sets(b.strides[d] * element, b.count[d], ways)) b.strides[d] += 64 / element;
  }
  b.elements = b.run == 0 ? b.inner * b.count[0] : b.strides[0] * b.count[0];
  return b;
}
std::vector<int> guarded_dims(const ir::TensorProgram& program, const ir::Access& access, const std::vector<int64_t>& extents) {
  std::vector<int> dims;
  if (!access.out_of_bounds) return dims;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const auto [lo, hi] = ir::bounds(access.index[d], extents);
    if (lo < 0 || hi >= program[access.tensor].shape[d].value()) dims.push_back(int(d));
  }
  return dims;
}

}  // namespace rgen::rtile
