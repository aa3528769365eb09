#include "ir/equal.h"

#include <algorithm>
#include <functional>

#include "ir/ir.h"

namespace rgen::ir {

static bool equal(const Expr& a, const Expr& b) {
  const auto accesses = [](const Access& x, const Access& y) {
    return x.tensor == y.tensor && x.index == y.index && x.out_of_bounds == y.out_of_bounds;
  };
  return equal(a, b, accesses, std::equal_to<>());
}

static bool equal(const Tensor& a, const Tensor& b) {
  return a.name == b.name && a.shape == b.shape && a.dtype == b.dtype && a.kind == b.kind && a.strides == b.strides &&
         a.constant == b.constant;
}

static bool equal(const Stage& a, const Stage& b) {
  const auto same_axis = [](const Axis& x, const Axis& y) { return x.name == y.name && x.extent == y.extent; };
  return a.output == b.output && a.n_out == b.n_out && a.reduce == b.reduce &&
         std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(), same_axis) && equal(*a.body, *b.body);
}

bool equal(const TensorProgram& a, const TensorProgram& b) {
  const auto all = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& p, const auto& q) { return equal(p, q); });
  };
  return a.name == b.name && a.dims == b.dims && a.inputs == b.inputs && a.outputs == b.outputs && a.math == b.math &&
         all(a.tensors, b.tensors) && all(a.stages, b.stages);
}

}  // namespace rgen::ir
