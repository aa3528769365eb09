// The dtype of an expression.
#include <cmath>

#include "ir/ir.h"

namespace rgen::ir {

static std::optional<DType> promote(std::optional<DType> a, std::optional<DType> b) {
  if (!a || !b) return a ? a : b;
  return *a == DType::f32 ? a : b;
}

static bool keeps_integers(UnaryOp op) { return op == UnaryOp::neg || op == UnaryOp::abs || op == UnaryOp::floor; }

std::optional<DType> expr_dtype(const TensorProgram& program, const Expr& e) {
  using Result = std::optional<DType>;
  return std::visit(overloaded{[](const Const& c) -> Result { return c.value == std::floor(c.value) ? std::nullopt : Result(DType::f32); },
                               [&](const Access& a) -> Result { return accumulation(program[a.tensor].dtype); },
                               [](const IndexValue&) -> Result { return std::nullopt; },
                               [&](const Unary& u) -> Result { return keeps_integers(u.op) ? expr_dtype(program, *u.x) : DType::f32; },
                               [&](const Binary& b) -> Result {
                                 if (b.op == BinaryOp::div || b.op == BinaryOp::pow) return DType::f32;
                                 if (b.op >= BinaryOp::lt) return std::nullopt;
                                 return promote(expr_dtype(program, *b.x), expr_dtype(program, *b.y));
                               },
                               [&](const Select& s) -> Result { return promote(expr_dtype(program, *s.yes), expr_dtype(program, *s.no)); },
                               [](const Cast& c) -> Result { return accumulation(c.dtype); }},
                    e.node);
}

DType stage_dtype(const TensorProgram& program, ReduceOp reduce, const Expr& body) {
  const auto* c = std::get_if<Cast>(&body.node);
  return c && reduce == ReduceOp::none ? c->dtype : expr_dtype(program, body).value_or(DType::f32);
}

}  // namespace rgen::ir
