#include "ir/normalise.h"

#include <algorithm>

namespace rgen::ir {

ExprPtr without_needless_bounds(const TensorProgram& program, const std::vector<Axis>& axes, const ExprPtr& body) {
  std::vector<int64_t> extents;  // 0: symbolic
  for (const Axis& a : axes) extents.push_back(a.extent.is_const() ? a.extent.value() : 0);
  const auto inside = [&](const Index& index, const Size& extent) {
    for (size_t a = 0; a < axes.size(); ++a)
      if (extents[a] == 0 && index.uses(int(a))) return false;
    const auto [lo, hi] = bounds(index, extents);
    return extent.is_const() && lo >= 0 && hi < extent.value();
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
