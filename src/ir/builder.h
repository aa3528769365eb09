// A C++ builder for the programs that the JSON forms describe.
//
//   Builder b("mm_relu");
//   auto A = b.input("A", {128, 64}), B = b.input("B", {64, 32}, DType::f32, {.constant = true});
//   Ax m = b.axis("m", 128), n = b.axis("n", 32), k = b.axis("k", 64);
//   auto C = b.stage("C", {m, n}, sum({k}, A(m, k) * B(k, n)));
//   auto D = b.stage("D", {m, n}, max(C(m, n), 0));
//   ir::TensorProgram p = b.build({D});                    // verified
//
// Axes belong to the builder, may serve in any number of stages, and combine to indices: X(2*p + r, q/2). Where an access may leave its
// tensor: X.padded(0, {2*p + r - 3, q}). Symbolic extents: b.dim("M", 1, 4096). All errors are Error{invalid_spec}, most of them thrown
// by `build`.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::ir {

/// An axis, or an index made of axes.
struct Ax {
  Index index;  ///< over the builder's axes
};
inline Ax operator+(const Ax& a, const Ax& b) { return {a.index + b.index}; }
inline Ax operator+(const Ax& a, int64_t c) { return {a.index + Index::number(c)}; }
inline Ax operator+(int64_t c, const Ax& a) { return a + c; }
inline Ax operator*(const Ax& a, int64_t c) { return {a.index * c}; }
inline Ax operator*(int64_t c, const Ax& a) { return a * c; }
inline Ax operator-(const Ax& a) { return a * -1; }
inline Ax operator-(const Ax& a, const Ax& b) { return a + -b; }
inline Ax operator-(const Ax& a, int64_t c) { return a + -c; }
inline Ax operator-(int64_t c, const Ax& a) { return -a + c; }
inline Ax operator/(const Ax& a, int64_t c) { return {floor_div(a.index, c)}; }  ///< floor division
inline Ax operator%(const Ax& a, int64_t c) { return {floor_mod(a.index, c)}; }

/// A value at one point: numbers and indices convert.
struct Ex {
  ExprPtr expr;
  Ex(ExprPtr e) : expr(std::move(e)) {}            // NOLINT
  Ex(double v) : expr(constant(v)) {}              // NOLINT
  Ex(int v) : expr(constant(double(v))) {}         // NOLINT
  Ex(const Ax& a) : expr(index_value(a.index)) {}  // NOLINT
};
inline Ex operator+(const Ex& a, const Ex& b) { return binary(BinaryOp::add, a.expr, b.expr); }
inline Ex operator-(const Ex& a, const Ex& b) { return binary(BinaryOp::sub, a.expr, b.expr); }
inline Ex operator*(const Ex& a, const Ex& b) { return binary(BinaryOp::mul, a.expr, b.expr); }
inline Ex operator/(const Ex& a, const Ex& b) { return binary(BinaryOp::div, a.expr, b.expr); }
inline Ex operator-(const Ex& a) { return unary(UnaryOp::neg, a.expr); }
inline Ex operator<(const Ex& a, const Ex& b) { return binary(BinaryOp::lt, a.expr, b.expr); }
inline Ex operator<=(const Ex& a, const Ex& b) { return binary(BinaryOp::le, a.expr, b.expr); }
inline Ex operator>(const Ex& a, const Ex& b) { return binary(BinaryOp::gt, a.expr, b.expr); }
inline Ex operator>=(const Ex& a, const Ex& b) { return binary(BinaryOp::ge, a.expr, b.expr); }
inline Ex operator==(const Ex& a, const Ex& b) { return binary(BinaryOp::eq, a.expr, b.expr); }
inline Ex operator!=(const Ex& a, const Ex& b) { return binary(BinaryOp::ne, a.expr, b.expr); }
inline Ex min(const Ex& a, const Ex& b) { return binary(BinaryOp::min, a.expr, b.expr); }
inline Ex max(const Ex& a, const Ex& b) { return binary(BinaryOp::max, a.expr, b.expr); }
inline Ex pow(const Ex& a, const Ex& b) { return binary(BinaryOp::pow, a.expr, b.expr); }
inline Ex exp(const Ex& a) { return unary(UnaryOp::exp, a.expr); }
inline Ex log(const Ex& a) { return unary(UnaryOp::log, a.expr); }
inline Ex sqrt(const Ex& a) { return unary(UnaryOp::sqrt, a.expr); }
inline Ex rsqrt(const Ex& a) { return unary(UnaryOp::rsqrt, a.expr); }
inline Ex tanh(const Ex& a) { return unary(UnaryOp::tanh, a.expr); }
inline Ex erf(const Ex& a) { return unary(UnaryOp::erf, a.expr); }
inline Ex sigmoid(const Ex& a) { return unary(UnaryOp::sigmoid, a.expr); }
inline Ex abs(const Ex& a) { return unary(UnaryOp::abs, a.expr); }
inline Ex floor(const Ex& a) { return unary(UnaryOp::floor, a.expr); }
inline Ex select(const Ex& condition, const Ex& yes, const Ex& no) { return select(condition.expr, yes.expr, no.expr); }
inline Ex cast(DType dtype, const Ex& a) { return cast(dtype, a.expr); }

/// What a stage sums (or multiplies, or takes the largest or smallest of) over `axes`.
struct Reduction {
  ReduceOp op;
  std::vector<Ax> axes;
  Ex body;
};
inline Reduction sum(std::vector<Ax> axes, Ex body) { return {ReduceOp::sum, std::move(axes), std::move(body)}; }
inline Reduction prod(std::vector<Ax> axes, Ex body) { return {ReduceOp::prod, std::move(axes), std::move(body)}; }
inline Reduction max(std::vector<Ax> axes, Ex body) { return {ReduceOp::max, std::move(axes), std::move(body)}; }
inline Reduction min(std::vector<Ax> axes, Ex body) { return {ReduceOp::min, std::move(axes), std::move(body)}; }

/// A tensor of the builder; calling it reads one element.
class TensorRef {
 public:
  template <class... Indices>
  Ex operator()(const Indices&... indices) const {
    return access(id_, {as_index(indices)...});
  }
  /// Reads `outside` wherever an index leaves the shape.
  Ex padded(double outside, const std::vector<Ax>& indices) const;
  int id() const { return id_; }

 private:
  friend class Builder;
  explicit TensorRef(int id) : id_(id) {}
  static Index as_index(const Ax& a) { return a.index; }
  static Index as_index(int64_t c) { return Index::number(c); }
  int id_;
};

struct InputOptions {
  bool constant = false;
  std::vector<Size> strides = {};  ///< in elements; empty = row-major
};

class Builder {
 public:
  explicit Builder(std::string name, Math math = Math::ieee);

  Size dim(const std::string& name, int64_t min, int64_t max, int64_t multiple_of = 1);
  Ax axis(const std::string& name, const Size& extent);
  TensorRef input(const std::string& name, std::vector<Size> shape, DType dtype = DType::f32, InputOptions options = {});
  /// Pre: `axes` are plain axes of this builder. The tensor's dtype is that of the body's outermost cast, else its accumulation dtype.
  TensorRef stage(const std::string& name, const std::vector<Ax>& axes, const Ex& body);
  TensorRef stage(const std::string& name, const std::vector<Ax>& axes, const Reduction& reduction);
  /// The program, verified. The builder may go on afterwards.
  TensorProgram build(const std::vector<TensorRef>& outputs) const;

 private:
  TensorRef add_stage(const std::string& name, const std::vector<Ax>& axes, size_t n_out, ReduceOp reduce, const ExprPtr& body);

  TensorProgram program_;
  std::vector<Axis> axes_;
};

}  // namespace rgen::ir
