// Expressions of the same structure: one walk for those who compare them, each with its own notion of equal accesses.
#pragma once
#include "ir/tensor_program.h"

namespace rgen::ir {

/// The same nodes, operators, types and constants, accesses equal by `accesses(of a, of b)` and indices used as numbers by `indices`.
template <class Accesses, class Indices>
bool equal(const Expr& a, const Expr& b, const Accesses& accesses, const Indices& indices) {
  if (a.node.index() != b.node.index()) return false;
  const auto same = [&](const ExprPtr& x, const ExprPtr& y) { return equal(*x, *y, accesses, indices); };
  return std::visit(overloaded{[&](const Const& x) { return x.value == std::get<Const>(b.node).value; },
                               [&](const Access& x) { return accesses(x, std::get<Access>(b.node)); },
                               [&](const IndexValue& x) { return indices(x.index, std::get<IndexValue>(b.node).index); },
                               [&](const Unary& x) {
                                 const auto& y = std::get<Unary>(b.node);
                                 return x.op == y.op && same(x.x, y.x);
                               },
                               [&](const Binary& x) {
                                 const auto& y = std::get<Binary>(b.node);
                                 return x.op == y.op && same(x.x, y.x) && same(x.y, y.y);
                               },
                               [&](const Select& x) {
                                 const auto& y = std::get<Select>(b.node);
                                 return same(x.condition, y.condition) && same(x.yes, y.yes) && same(x.no, y.no);
                               },
                               [&](const Cast& x) {
                                 const auto& y = std::get<Cast>(b.node);
                                 return x.dtype == y.dtype && same(x.x, y.x);
                               }},
                    a.node);
}

}  // namespace rgen::ir
