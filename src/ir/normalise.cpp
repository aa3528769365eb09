#include "ir/normalise.h"

#include <algorithm>

namespace rgen::ir {

ExprPtr without_needless_bounds(const TensorProgram& program, const std::vector<Axis>& axes, const ExprPtr& body) {
  std::vector<int64_t> extents;
  for (const Axis& a : axes) {
    if (!a.extent.is_const()) return body;
    extents.push_back(a.extent.value());
  }
  const auto inside = [&](const Index& index, const Size& extent) {
    if (!extent.is_const()) return false;
    const auto [lo, hi] = bounds(index, extents);
    return lo >= 0 && hi < extent.value();
  };
  return transform(body, [&](const ExprPtr& e) -> ExprPtr {
    const auto* a = std::get_if<Access>(&e->node);
    if (!a || !a->out_of_bounds) return nullptr;
    const std::vector<Size>& shape = program[a->tensor].shape;
    for (size_t d = 0; d < a->index.size(); ++d)
      if (!inside(a->index[d], shape[d])) return nullptr;
    return access(a->tensor, a->index);
  });
}

}  // namespace rgen::ir
