#include "run/tolerance.h"

#include <algorithm>
#include <cmath>

#include "base/element.h"
#include "ir/ir.h"

namespace rgen::run {

namespace {

using namespace ir;

/// A value on the way to an output: its roundings, and whether it is an integer that both the reference and the kernel compute exactly.
struct Value {
  double roundings = 0;
  bool integer = false;
  double bound = INFINITY;  ///< of an integer: the largest magnitude it can have
};

/// Integers up to here are exact in f32.
constexpr double exact_in_f32 = 0x1p24;

double largest(DType t) {
  switch (t) {
    case DType::s8:
      return 128;
    case DType::u8:
      return 255;
    case DType::s32:
      return 0x1p31;
    default:
      return INFINITY;
  }
}

/// Polynomials and approximations of the emitted vector math: 4 ulp, each two unit roundoffs.
constexpr double function_roundings = 8;

/// Products in reduced precision round their operands first (in f32 roundoffs): tf32 keeps 11 bits, three bf16 parts lose the low·low one.
double product_roundings(Math math) {
  switch (math) {
    case Math::ieee:
      return 1;
    case Math::tf32:
      return 2 * 0x1p13 + 1;
    case Math::bf16x3:
      return 0x1p9;
  }
  return 1;
}

/// A sum of n terms in any order. n roundings are the worst case; rounding errors are independent, and random walks stay within
/// twice their root.
double sum_roundings(double n) { return std::min(n, 2 * std::sqrt(n)); }

class Analysis {
 public:
  Analysis(const TensorProgram& program, const std::vector<int64_t>& dim_values) : program_(program), tensors_(program.tensors.size()) {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const DType type = program.tensors[t].dtype;
      tensors_[t] = {0, !is_float(type), largest(type)};
    }
    for (const Stage& stage : program.stages) tensors_[size_t(stage.output)] = reduced(stage, dim_values);
  }
  const std::vector<Value>& tensors() const { return tensors_; }

 private:
  Value reduced(const Stage& stage, const std::vector<int64_t>& dim_values) const {
    const Value body = value(*stage.body);
    double n = 1;
    for (size_t a = size_t(stage.n_out); a < stage.axes.size(); ++a) n *= double(stage.axes[a].extent.eval(dim_values));
    const Value rounded_sum{body.roundings + sum_roundings(n), false}, rounded_product{n * (body.roundings + 1), false};
    const bool in_f32 = is_float(program_[stage.output].dtype);
    if (stage.reduce == ReduceOp::sum) return body.integer ? integer(n * body.bound, in_f32, rounded_sum) : rounded_sum;
    if (stage.reduce == ReduceOp::prod) return body.integer ? integer(std::pow(body.bound, n), in_f32, rounded_product) : rounded_product;
    return body;
  }

  /// An operation on integers: exact, unless it is done in f32 and the result may be too large for that.
  static Value integer(double bound, bool in_f32, const Value& otherwise) {
    return in_f32 && bound > exact_in_f32 ? otherwise : Value{0, true, bound};
  }
  bool in_f32(const Expr& e) const { return expr_dtype(program_, e) == DType::f32; }

  Value value(const Expr& e) const {
    const bool f32 = in_f32(e);
    return std::visit(overloaded{[&](const Const& c) { return constant_value(c.value); },
                                 [&](const Access& a) {
                                   const Value v = tensors_[size_t(a.tensor)];
                                   return a.out_of_bounds ? joined(v, constant_value(*a.out_of_bounds)) : v;
                                 },
                                 [&](const IndexValue&) {
                                   return Value{0, true, exact_in_f32};
                                 },
                                 [&](const Unary& u) { return unary_value(u); }, [&](const Binary& b) { return binary_value(b, f32); },
                                 [&](const Select& s) { return chosen(value(*s.condition), joined(value(*s.yes), value(*s.no))); },
                                 [&](const Cast& c) { return cast_value(c); }},
                      e.node);
  }

  static Value constant_value(double c) {
    const bool exact = std::isinf(c) || double(float(c)) == c;
    return {exact ? 0.0 : 1.0, std::isinf(c) || std::floor(c) == c, std::abs(c)};
  }
  /// Either of two values.
  static Value joined(Value x, Value y) { return {std::max(x.roundings, y.roundings), x.integer && y.integer, std::max(x.bound, y.bound)}; }
  /// A jump taken by a computed value: the reference's magnitude has its height where it is in doubt, which one rounding covers.
  static Value chosen(Value by, Value result) {
    return by.roundings > 0 ? Value{std::max(1.0, std::max(by.roundings, result.roundings)), false} : result;
  }

  Value unary_value(const Unary& u) const {
    const Value x = value(*u.x);
    switch (u.op) {
      case UnaryOp::neg:
      case UnaryOp::abs:
        return x;
      case UnaryOp::floor:
        return chosen(x, {0, true, x.bound});
      case UnaryOp::sqrt:
        return {std::max(x.roundings, 1.0), false};
      default:
        return {std::max(x.roundings, function_roundings), false};
    }
  }

  Value binary_value(const Binary& b, bool f32) const {
    const Value x = value(*b.x), y = value(*b.y);
    const Value both = joined(x, y);
    switch (b.op) {
      case BinaryOp::add:
      case BinaryOp::sub:
        return both.integer ? integer(x.bound + y.bound, f32, {1, false}) : Value{both.roundings + 1, false};
      case BinaryOp::mul:
        return both.integer ? integer(x.bound * y.bound, f32, {1, false})
                            : Value{x.roundings + y.roundings + product_roundings(program_.math), false};
      case BinaryOp::div:
        return {x.roundings + y.roundings + 2, false};
      case BinaryOp::pow:
        return {std::max(x.roundings + y.roundings, 2 * function_roundings), false};
      case BinaryOp::min:
      case BinaryOp::max:
        return both;
      default:  // comparisons
        return chosen(both, {0, true, 1});
    }
  }

  Value cast_value(const Cast& c) const {
    const Value x = value(*c.x);
    if (c.dtype == DType::f32) return x.integer ? integer(x.bound, true, {1, false}) : x;
    return chosen(x, {0, !is_float(c.dtype), std::min(x.bound, largest(c.dtype))});
  }

  const TensorProgram& program_;
  std::vector<Value> tensors_;
};

}  // namespace

std::vector<double> roundings(const TensorProgram& program, const std::vector<int64_t>& dim_values) {
  const Analysis analysis(program, dim_values);
  std::vector<double> all;
  for (const Value& v : analysis.tensors()) all.push_back(v.integer ? 0 : v.roundings);
  return all;
}

}  // namespace rgen::run
