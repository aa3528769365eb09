#include "ir/tensor_program.h"

#include <cmath>

namespace rgen::ir {

namespace {

ExprPtr make(auto node) { return std::make_shared<const Expr>(Expr{std::move(node)}); }

bool is_number(const Index& i) { return i.terms.empty() && i.floors.empty(); }

/// Sums and differences of indices are indices, so that i - j has one form.
ExprPtr fold_indices(BinaryOp op, const Expr& x, const Expr& y) {
  const auto *a = std::get_if<IndexValue>(&x.node), *b = std::get_if<IndexValue>(&y.node);
  if (!a || !b || (op != BinaryOp::add && op != BinaryOp::sub)) return nullptr;
  return index_value(a->index + b->index * (op == BinaryOp::add ? 1 : -1));
}

ExprPtr fold_numbers(BinaryOp op, const Expr& x, const Expr& y) {
  const auto *a = std::get_if<Const>(&x.node), *b = std::get_if<Const>(&y.node);
  if (!a || !b) return nullptr;
  const double v = op == BinaryOp::add   ? a->value + b->value
                   : op == BinaryOp::sub ? a->value - b->value
                   : op == BinaryOp::mul ? a->value * b->value
                   : op == BinaryOp::div ? a->value / b->value
                   : op == BinaryOp::pow ? std::pow(a->value, b->value)
                                         : std::nan("");
  return std::isfinite(v) ? constant(v) : nullptr;
}

}  // namespace

double evaluate(UnaryOp op, double x) {
  switch (op) {
    case UnaryOp::neg:
      return -x;
    case UnaryOp::exp:
      return std::exp(x);
    case UnaryOp::log:
      return std::log(x);
    case UnaryOp::sqrt:
      return std::sqrt(x);
    case UnaryOp::rsqrt:
      return 1 / std::sqrt(x);
    case UnaryOp::tanh:
      return std::tanh(x);
    case UnaryOp::erf:
      return std::erf(x);
    case UnaryOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryOp::abs:
      return std::abs(x);
    case UnaryOp::floor:
      return std::floor(x);
  }
  return x;
}

ExprPtr constant(double v) { return make(Const{v}); }
ExprPtr access(int tensor, std::vector<Index> index, std::optional<double> out_of_bounds) {
  return make(Access{tensor, std::move(index), out_of_bounds});
}
ExprPtr index_value(Index i) {
  if (is_number(i)) return constant(double(i.constant));
  return make(IndexValue{std::move(i)});
}
ExprPtr unary(UnaryOp op, ExprPtr x) {
  if (op == UnaryOp::neg) {
    if (const auto* c = std::get_if<Const>(&x->node)) return constant(-c->value);
    if (const auto* i = std::get_if<IndexValue>(&x->node)) return index_value(i->index * -1);
  } else if (const auto* c = std::get_if<Const>(&x->node)) {
    if (const double v = evaluate(op, c->value); std::isfinite(v)) return constant(v);
  }
  return make(Unary{op, std::move(x)});
}
ExprPtr binary(BinaryOp op, ExprPtr x, ExprPtr y) {
  if (ExprPtr folded = fold_indices(op, *x, *y)) return folded;
  if (ExprPtr folded = fold_numbers(op, *x, *y)) return folded;
  return make(Binary{op, std::move(x), std::move(y)});
}
ExprPtr select(ExprPtr condition, ExprPtr yes, ExprPtr no) { return make(Select{std::move(condition), std::move(yes), std::move(no)}); }
ExprPtr cast(DType dtype, ExprPtr x) { return make(Cast{dtype, std::move(x)}); }

std::string_view to_string(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
      return "-";
    case UnaryOp::exp:
      return "exp";
    case UnaryOp::log:
      return "log";
    case UnaryOp::sqrt:
      return "sqrt";
    case UnaryOp::rsqrt:
      return "rsqrt";
    case UnaryOp::tanh:
      return "tanh";
    case UnaryOp::erf:
      return "erf";
    case UnaryOp::sigmoid:
      return "sigmoid";
    case UnaryOp::abs:
      return "abs";
    case UnaryOp::floor:
      return "floor";
  }
  return "?";
}

std::string_view to_string(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::sub:
      return "-";
    case BinaryOp::mul:
      return "*";
    case BinaryOp::div:
      return "/";
    case BinaryOp::min:
      return "min";
    case BinaryOp::max:
      return "max";
    case BinaryOp::pow:
      return "pow";
    case BinaryOp::lt:
      return "<";
    case BinaryOp::le:
      return "<=";
    case BinaryOp::gt:
      return ">";
    case BinaryOp::ge:
      return ">=";
    case BinaryOp::eq:
      return "==";
    case BinaryOp::ne:
      return "!=";
  }
  return "?";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::none:
      return "";
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::prod:
      return "prod";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  return "?";
}

}  // namespace rgen::ir
