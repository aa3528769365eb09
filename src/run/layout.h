// A tensor with its symbolic extents replaced by numbers, and a walk over its elements.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::run {

struct Layout {
  std::vector<int64_t> shape, strides;  ///< in elements, outermost first

  Layout(const ir::Tensor& t, const std::vector<int64_t>& dim_values) {
    for (const ir::Size& s : t.shape) shape.push_back(s.eval(dim_values));
    for (const ir::Size& s : t.strides) strides.push_back(s.eval(dim_values));
  }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return n;
  }
  /// Elements from the first to the last, gaps included; 0 when there is none.
  int64_t span() const {
    int64_t last = 0;
    for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
    return elements() == 0 ? 0 : last + 1;
  }
  /// The coordinates of a row-major position.
  std::vector<int64_t> coordinates(int64_t flat) const {
    std::vector<int64_t> at(shape.size());
    for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) at[d] = flat % shape[d];
    return at;
  }
  /// The element of a row-major position within the buffer.
  int64_t offset(int64_t flat) const {
    int64_t o = 0;
    for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) o += flat % shape[d] * strides[d];
    return o;
  }
};

}  // namespace rgen::run
