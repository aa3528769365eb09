// TensorProgram: what is computed. Stages over named axes; immutable after construction.
//
//   Program ::= Dim* Tensor* Stage*                       stages in execution order, each writes one tensor once
//   Stage   ::= T[axes] = Expr  |  T[axes] = reduce(axes | Expr)      reduce ∈ {sum, prod, max, min}
//   Expr    ::= Const | Access | IndexValue | Unary | Binary | Select | Cast
//   Access  ::= T[Index, …]  [? out_of_bounds]            one Index per dimension of T
//   Index   ::= c + Σ coef·axis + Σ coef·floor(Index / d) affine; x % d is x − d·floor(x / d)
//
// Extents may depend on symbolic dimensions (`Size`); coefficients of an Index are numbers.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace rgen::ir {

/// A symbolic dimension: any multiple of `multiple_of` in [min, max]. 1 <= min <= max <= 2^31.
struct Dim {
  std::string name;
  int64_t min = 1, max = 1, multiple_of = 1;
  bool operator==(const Dim&) const = default;
};

/// A number, or an expression of symbolic dimensions, folded on construction. Division is floor division.
class Size {
 public:
  enum class Op : uint8_t { constant, dim, add, sub, mul, div, mod };
  Size(int64_t value = 0) : value_(value) {}  // NOLINT: numbers are sizes
  static Size dim(int index);                 ///< `index` into TensorProgram::dims
  static Size make(Op op, const Size& a, const Size& b);

  bool is_const() const { return op_ == Op::constant; }
  int64_t value() const;                                       ///< precondition: is_const()
  int64_t eval(const std::vector<int64_t>& dim_values) const;  ///< one value per TensorProgram::dims
  int64_t max(const std::vector<Dim>& dims) const;             ///< an upper bound over the ranges
  Op op() const { return op_; }
  int dim_index() const { return int(value_); }  ///< precondition: op() == dim
  const Size& lhs() const { return *a_; }
  const Size& rhs() const { return *b_; }
  bool operator==(const Size& o) const;

 private:
  Op op_ = Op::constant;
  int64_t value_ = 0;
  std::shared_ptr<const Size> a_, b_;
};
inline Size operator+(const Size& a, const Size& b) { return Size::make(Size::Op::add, a, b); }
inline Size operator-(const Size& a, const Size& b) { return Size::make(Size::Op::sub, a, b); }
inline Size operator*(const Size& a, const Size& b) { return Size::make(Size::Op::mul, a, b); }

/// An axis of one stage: takes the values 0 … extent−1.
struct Axis {
  std::string name;
  Size extent;
};

/// Quasi-affine integer function of a stage's axes (axis = position in Stage::axes).
struct Index {
  struct Term {
    int axis;
    int64_t coef;
    bool operator==(const Term&) const = default;
  };
  struct Floor;  ///< coef · floor(inner / divisor)
  int64_t constant = 0;
  std::vector<Term> terms;    ///< sorted by axis, no zero coefficient
  std::vector<Floor> floors;  ///< empty for an affine index

  bool is_affine() const { return floors.empty(); }
  int64_t coef(int axis) const;  ///< affine part only
  bool uses(int axis) const;     ///< in the affine part or inside a floor
  int64_t eval(const std::vector<int64_t>& axis_values) const;
  bool operator==(const Index&) const;

  static Index axis(int a, int64_t coef = 1);
  static Index number(int64_t c);
};
struct Index::Floor {
  int64_t coef;
  Index inner;
  int64_t divisor;  ///< > 0
  bool operator==(const Floor&) const = default;
};
Index operator+(const Index& a, const Index& b);
Index operator*(const Index& a, int64_t c);
Index floor_div(const Index& a, int64_t divisor);  ///< folds constants; exact multiples are divided out
Index floor_mod(const Index& a, int64_t divisor);
/// The index with every axis i replaced by `with[i]`.
Index substitute(const Index& index, const std::vector<Index>& with);
/// Smallest and largest value over 0 <= axis_i < extent_i (exact for affine indices, conservative with floors).
std::pair<int64_t, int64_t> bounds(const Index& index, const std::vector<int64_t>& extents);

/// The strides of a dense tensor whose last dimension is contiguous.
std::vector<Size> row_major(const std::vector<Size>& shape);

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

enum class UnaryOp : uint8_t { neg, exp, log, sqrt, rsqrt, tanh, erf, sigmoid, abs, floor };
enum class BinaryOp : uint8_t { add, sub, mul, div, min, max, pow, lt, le, gt, ge, eq, ne };
enum class ReduceOp : uint8_t { none, sum, prod, max, min };
std::string_view to_string(UnaryOp op);   ///< as in the grammar: "exp", … ("-" for neg)
double evaluate(UnaryOp op, double x);    ///< the function, in f64
std::string_view to_string(BinaryOp op);  ///< "+", …, "min", "pow", "<", …
std::string_view to_string(ReduceOp op);  ///< "sum", …; "" for none

struct Const {
  double value;
};
struct Access {
  int tensor;                           ///< index into TensorProgram::tensors
  std::vector<Index> index;             ///< one per dimension
  std::optional<double> out_of_bounds;  ///< value outside the shape (±infinity allowed); absent: must be inside
};
struct IndexValue {
  Index index;
};  ///< an index used as a number: select(i < j, …)
struct Unary {
  UnaryOp op;
  ExprPtr x;
};
struct Binary {
  BinaryOp op;
  ExprPtr x, y;
};  ///< comparisons give 1 or 0
struct Select {
  ExprPtr condition, yes, no;
};  ///< condition != 0; both arms are pure
struct Cast {
  DType dtype;
  ExprPtr x;
};  ///< to integers: round half to even, saturate; to bf16/f16: round to nearest even
struct Expr {
  std::variant<Const, Access, IndexValue, Unary, Binary, Select, Cast> node;
};

ExprPtr constant(double v);
ExprPtr access(int tensor, std::vector<Index> index, std::optional<double> out_of_bounds = {});
ExprPtr index_value(Index i);
ExprPtr unary(UnaryOp op, ExprPtr x);
ExprPtr binary(BinaryOp op, ExprPtr x, ExprPtr y);
ExprPtr select(ExprPtr condition, ExprPtr yes, ExprPtr no);
ExprPtr cast(DType dtype, ExprPtr x);
/// `f` on every Access of `e`, left to right.
template <class F>
void for_each_access(const Expr& e, F&& f);
/// `e` with every node mapped bottom-up; `f` returns a replacement or nullptr to keep it.
template <class F>
ExprPtr transform(const ExprPtr& e, F&& f);

enum class TensorKind : uint8_t { input, output, intermediate };
struct Tensor {
  std::string name;
  std::vector<Size> shape;  ///< extents, outermost first; empty = scalar
  DType dtype = DType::f32;
  TensorKind kind = TensorKind::intermediate;
  std::vector<Size> strides;     ///< in elements, one per dimension (row-major unless the input says otherwise)
  bool constant = false;         ///< an input that may be prepacked once
  int widens = -1;               ///< >= 0: that constant input in a wider type, or another view; it exists only where it is prepacked
  std::vector<Index> view = {};  ///< ... of which element, as functions of this tensor's dimensions; empty: the same
  int within = -1;               ///< >= 0: an intermediate that lies where that output will be written
};

struct Stage {
  int output;              ///< index into TensorProgram::tensors
  std::vector<Axis> axes;  ///< the first `n_out` index the output in order; the rest are reduced
  int n_out = 0;
  ReduceOp reduce = ReduceOp::none;  ///< none exactly when axes.size() == n_out
  ExprPtr body;                      ///< one point's value, in the accumulation dtype
  int n_reduce() const { return int(axes.size()) - n_out; }
};

/// How products of floating-point numbers may be computed.
enum class Math : uint8_t { ieee, tf32, bf16x3 };

struct TensorProgram {
  std::string name;
  std::vector<Dim> dims;  ///< symbolic dimensions only; fixed ones are folded
  std::vector<Tensor> tensors;
  std::vector<Stage> stages;
  std::vector<int> inputs, outputs;  ///< tensor indices in the order of the kernel's arguments
  Math math = Math::ieee;

  bool is_static() const { return dims.empty(); }
  const Tensor& operator[](int tensor) const { return tensors[size_t(tensor)]; }
};

// ---- templates ----

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

template <class F>
void for_each_access(const Expr& e, F&& f) {
  std::visit(overloaded{[&](const Access& a) { f(a); }, [](const Const&) {}, [](const IndexValue&) {},
                        [&](const Unary& u) { for_each_access(*u.x, f); },
                        [&](const Binary& b) {
                          for_each_access(*b.x, f);
                          for_each_access(*b.y, f);
                        },
                        [&](const Select& s) {
                          for_each_access(*s.condition, f);
                          for_each_access(*s.yes, f);
                          for_each_access(*s.no, f);
                        },
                        [&](const Cast& c) { for_each_access(*c.x, f); }},
             e.node);
}

template <class F>
ExprPtr transform(const ExprPtr& e, F&& f) {
  ExprPtr r = std::visit(overloaded{[&](const Const&) { return e; }, [&](const Access&) { return e; }, [&](const IndexValue&) { return e; },
                                    [&](const Unary& u) {
                                      auto x = transform(u.x, f);
                                      return x == u.x ? e : unary(u.op, x);
                                    },
                                    [&](const Binary& b) {
                                      auto x = transform(b.x, f), y = transform(b.y, f);
                                      return x == b.x && y == b.y ? e : binary(b.op, x, y);
                                    },
                                    [&](const Select& s) {
                                      auto c = transform(s.condition, f), y = transform(s.yes, f), n = transform(s.no, f);
                                      return c == s.condition && y == s.yes && n == s.no ? e : select(c, y, n);
                                    },
                                    [&](const Cast& c) {
                                      auto x = transform(c.x, f);
                                      return x == c.x ? e : cast(c.dtype, x);
                                    }},
                         e->node);
  ExprPtr replaced = f(r);
  return replaced ? replaced : r;
}

}  // namespace rgen::ir
