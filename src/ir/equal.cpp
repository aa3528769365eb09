#include <algorithm>

#include "ir/ir.h"

namespace rgen::ir {

static bool equal(const Expr& a, const Expr& b) {
  if (a.node.index() != b.node.index()) return false;
  return std::visit(overloaded{[&](const Const& x) { return x.value == std::get<Const>(b.node).value; },
                               [&](const Access& x) {
                                 const auto& y = std::get<Access>(b.node);
                                 return x.tensor == y.tensor && x.index == y.index && x.out_of_bounds == y.out_of_bounds;
                               },
                               [&](const IndexValue& x) { return x.index == std::get<IndexValue>(b.node).index; },
                               [&](const Unary& x) {
                                 const auto& y = std::get<Unary>(b.node);
                                 return x.op == y.op && equal(*x.x, *y.x);
                               },
                               [&](const Binary& x) {
                                 const auto& y = std::get<Binary>(b.node);
                                 return x.op == y.op && equal(*x.x, *y.x) && equal(*x.y, *y.y);
                               },
                               [&](const Select& x) {
                                 const auto& y = std::get<Select>(b.node);
                                 return equal(*x.condition, *y.condition) && equal(*x.yes, *y.yes) && equal(*x.no, *y.no);
                               },
                               [&](const Cast& x) {
                                 const auto& y = std::get<Cast>(b.node);
                                 return x.dtype == y.dtype && equal(*x.x, *y.x);
                               }},
                    a.node);
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
