#include "ir/tensor_program.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/math.h"

namespace rgen::ir {

using rgen::floor_div;  // of integers, beside those of indices
using rgen::floor_mod;

// ---- Size ----

namespace {

int64_t apply(Size::Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool overflow = false;
  switch (op) {
    case Size::Op::add:
      overflow = __builtin_add_overflow(a, b, &r);
      break;
    case Size::Op::sub:
      overflow = __builtin_sub_overflow(a, b, &r);
      break;
    case Size::Op::mul:
      overflow = __builtin_mul_overflow(a, b, &r);
      break;
    case Size::Op::div:
    case Size::Op::mod:
      if (b <= 0)
        throw Error(ErrorCode::invalid_spec, "an extent is divided by " + std::to_string(b) + "; only positive divisors are allowed");
      r = op == Size::Op::div ? floor_div(a, b) : floor_mod(a, b);
      break;
    case Size::Op::constant:
    case Size::Op::dim:
      throw Error(ErrorCode::internal, "a leaf of an extent is not an operation");
  }
  if (overflow) throw Error(ErrorCode::invalid_spec, "an extent overflows 64 bits");
  return r;
}

int64_t saturate(long double v) {
  constexpr long double limit = 9.2e18L;
  return v >= limit ? INT64_MAX : v <= -limit ? INT64_MIN : int64_t(v);
}
int64_t add_sat(int64_t a, int64_t b) { return saturate((long double)a + (long double)b); }
int64_t mul_sat(int64_t a, int64_t b) { return saturate((long double)a * (long double)b); }

using Interval = std::pair<int64_t, int64_t>;
Interval sum(Interval a, Interval b) { return {add_sat(a.first, b.first), add_sat(a.second, b.second)}; }
Interval times(Interval a, int64_t c) {
  Interval r{mul_sat(a.first, c), mul_sat(a.second, c)};
  if (c < 0) std::swap(r.first, r.second);
  return r;
}
Interval intersect(Interval a, Interval b) { return {std::max(a.first, b.first), std::min(a.second, b.second)}; }
Interval hull(std::initializer_list<int64_t> values) { return {std::min(values), std::max(values)}; }

Interval range(const Size& s, const std::vector<Dim>& dims) {
  if (s.is_const()) return {s.value(), s.value()};
  if (s.op() == Size::Op::dim) {
    const Dim& d = dims.at(size_t(s.dim_index()));
    return {round_up(d.min, d.multiple_of), floor_div(d.max, d.multiple_of) * d.multiple_of};
  }
  const Interval a = range(s.lhs(), dims), b = range(s.rhs(), dims);
  switch (s.op()) {
    case Size::Op::add:
      return sum(a, b);
    case Size::Op::sub:
      return sum(a, times(b, -1));
    case Size::Op::mul:
      return hull({mul_sat(a.first, b.first), mul_sat(a.first, b.second), mul_sat(a.second, b.first), mul_sat(a.second, b.second)});
    case Size::Op::div: {
      const int64_t lo = std::max<int64_t>(b.first, 1), hi = std::max<int64_t>(b.second, 1);
      return hull({floor_div(a.first, lo), floor_div(a.first, hi), floor_div(a.second, lo), floor_div(a.second, hi)});
    }
    default: {  // mod
      const int64_t hi = std::max<int64_t>(b.second, 1) - 1;
      const bool whole = a.first >= 0 && a.second <= hi && b.first > a.second;
      return whole ? a : Interval{0, a.first >= 0 ? std::min(hi, a.second) : hi};
    }
  }
}

}  // namespace

Size Size::dim(int index) {
  Size s(index);
  s.op_ = Op::dim;
  return s;
}

Size Size::make(Op op, const Size& a, const Size& b) {
  if (a.is_const() && b.is_const()) return apply(op, a.value_, b.value_);
  const auto is = [](const Size& s, int64_t v) { return s.is_const() && s.value_ == v; };
  if ((op == Op::add && is(a, 0)) || (op == Op::mul && is(a, 1))) return b;
  if (((op == Op::add || op == Op::sub) && is(b, 0)) || ((op == Op::mul || op == Op::div) && is(b, 1))) return a;
  if ((op == Op::mul && (is(a, 0) || is(b, 0))) || (op == Op::sub && a == b) || (op == Op::mod && is(b, 1))) return 0;
  if ((op == Op::div || op == Op::mod) && b.is_const() && b.value_ <= 0) apply(op, 0, b.value_);
  Size s;
  s.op_ = op;
  s.a_ = std::make_shared<const Size>(a);
  s.b_ = std::make_shared<const Size>(b);
  return s;
}

int64_t Size::value() const {
  if (!is_const()) throw Error(ErrorCode::internal, "a symbolic extent has no single value");
  return value_;
}

int64_t Size::eval(const std::vector<int64_t>& dim_values) const {
  if (op_ == Op::constant) return value_;
  if (op_ == Op::dim) return dim_values.at(size_t(value_));
  return apply(op_, a_->eval(dim_values), b_->eval(dim_values));
}

int64_t Size::max(const std::vector<Dim>& dims) const { return range(*this, dims).second; }

bool Size::operator==(const Size& o) const {
  if (op_ != o.op_) return false;
  if (op_ == Op::constant || op_ == Op::dim) return value_ == o.value_;
  return *a_ == *o.a_ && *b_ == *o.b_;
}

std::vector<Size> row_major(const std::vector<Size>& shape) {
  std::vector<Size> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// ---- Index ----
//
// Normal form: terms sorted by axis; floors sorted by (divisor, inner), each (inner, divisor) once; no zero coefficient. Inside a
// floor nothing is a multiple of the divisor, and the coefficients and the divisor have no common factor.

namespace {

int compare(const Index& a, const Index& b);

int compare(const Index::Floor& a, const Index::Floor& b) {
  if (a.divisor != b.divisor) return a.divisor < b.divisor ? -1 : 1;
  return compare(a.inner, b.inner);
}

int compare(const Index& a, const Index& b) {
  const size_t terms = std::min(a.terms.size(), b.terms.size());
  for (size_t i = 0; i < terms; ++i) {
    if (a.terms[i].axis != b.terms[i].axis) return a.terms[i].axis < b.terms[i].axis ? -1 : 1;
    if (a.terms[i].coef != b.terms[i].coef) return a.terms[i].coef < b.terms[i].coef ? -1 : 1;
  }
  if (a.terms.size() != b.terms.size()) return a.terms.size() < b.terms.size() ? -1 : 1;
  const size_t floors = std::min(a.floors.size(), b.floors.size());
  for (size_t i = 0; i < floors; ++i) {
    if (const int c = compare(a.floors[i], b.floors[i])) return c;
    if (a.floors[i].coef != b.floors[i].coef) return a.floors[i].coef < b.floors[i].coef ? -1 : 1;
  }
  if (a.floors.size() != b.floors.size()) return a.floors.size() < b.floors.size() ? -1 : 1;
  return a.constant == b.constant ? 0 : a.constant < b.constant ? -1 : 1;
}

/// Merges two sorted lists, adding the coefficients of equal keys.
template <class T, class Compare>
std::vector<T> merge(const std::vector<T>& a, const std::vector<T>& b, Compare&& order) {
  std::vector<T> r;
  r.reserve(a.size() + b.size());
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const int c = i == a.size() ? 1 : j == b.size() ? -1 : order(a[i], b[j]);
    if (c < 0) {
      r.push_back(a[i++]);
    } else if (c > 0) {
      r.push_back(b[j++]);
    } else {
      T both = a[i++];
      if ((both.coef += b[j++].coef) != 0) r.push_back(std::move(both));
    }
  }
  return r;
}

/// What is left of `a` after the part divisible by `d` went to `quotient`: a = d·quotient + remainder.
Index split_multiples(const Index& a, int64_t d, Index& quotient) {
  Index rest;
  quotient.constant = floor_div(a.constant, d);
  rest.constant = floor_mod(a.constant, d);
  for (const Index::Term& t : a.terms)
    if (t.coef % d == 0)
      quotient.terms.push_back({t.axis, t.coef / d});
    else
      rest.terms.push_back(t);
  for (const Index::Floor& f : a.floors)
    if (f.coef % d == 0)
      quotient.floors.push_back({f.coef / d, f.inner, f.divisor});
    else
      rest.floors.push_back(f);
  return rest;
}

}  // namespace

int64_t Index::coef(int a) const {
  for (const Term& t : terms)
    if (t.axis == a) return t.coef;
  return 0;
}

bool Index::uses(int a) const {
  return coef(a) != 0 || std::any_of(floors.begin(), floors.end(), [&](const Floor& f) { return f.inner.uses(a); });
}

int64_t Index::eval(const std::vector<int64_t>& axis_values) const {
  int64_t v = constant;
  for (const Term& t : terms) v += t.coef * axis_values[size_t(t.axis)];
  for (const Floor& f : floors) v += f.coef * floor_div(f.inner.eval(axis_values), f.divisor);
  return v;
}

bool Index::operator==(const Index& o) const { return constant == o.constant && terms == o.terms && floors == o.floors; }

Index Index::axis(int a, int64_t coef) {
  Index r;
  if (coef != 0) r.terms.push_back({a, coef});
  return r;
}

Index Index::number(int64_t c) {
  Index r;
  r.constant = c;
  return r;
}

Index operator+(const Index& a, const Index& b) {
  Index r;
  r.constant = a.constant + b.constant;
  r.terms = merge(a.terms, b.terms, [](const Index::Term& x, const Index::Term& y) {
    return x.axis == y.axis ? 0 : x.axis < y.axis ? -1 : 1;
  });
  r.floors = merge(a.floors, b.floors, [](const Index::Floor& x, const Index::Floor& y) { return compare(x, y); });
  return r;
}

Index operator*(const Index& a, int64_t c) {
  if (c == 0) return {};
  Index r = a;
  r.constant *= c;
  for (Index::Term& t : r.terms) t.coef *= c;
  for (Index::Floor& f : r.floors) f.coef *= c;
  return r;
}

Index floor_div(const Index& a, int64_t divisor) {
  if (divisor <= 0)
    throw Error(ErrorCode::invalid_spec, "an index is divided by " + std::to_string(divisor) + "; only positive divisors are allowed");
  Index quotient;
  Index rest = split_multiples(a, divisor, quotient);
  if (rest.terms.empty() && rest.floors.empty()) return quotient;
  int64_t common = divisor;
  for (const Index::Term& t : rest.terms) common = std::gcd(common, t.coef);
  for (const Index::Floor& f : rest.floors) common = std::gcd(common, f.coef);
  if (common > 1) {  // floor((g·y + c) / (g·e)) = floor((y + floor(c / g)) / e)
    rest.constant = floor_div(rest.constant, common);
    for (Index::Term& t : rest.terms) t.coef /= common;
    for (Index::Floor& f : rest.floors) f.coef /= common;
    divisor /= common;
  }
  if (rest.terms.empty() && rest.floors.size() == 1 &&
      rest.floors[0].coef == 1) {  // floor((floor(x / a) + c) / b) = floor((x + c·a) / (a·b))
    const Index::Floor inner = rest.floors[0];
    int64_t product = 0;
    if (!__builtin_mul_overflow(inner.divisor, divisor, &product))
      return quotient + floor_div(inner.inner + Index::number(rest.constant * inner.divisor), product);
  }
  Index floored;
  floored.floors.push_back({1, std::move(rest), divisor});
  return quotient + floored;
}

Index floor_mod(const Index& a, int64_t divisor) { return a + floor_div(a, divisor) * -divisor; }

Index substitute(const Index& index, const std::vector<Index>& with) {
  Index r = Index::number(index.constant);
  for (const Index::Term& t : index.terms) r = r + with[size_t(t.axis)] * t.coef;
  for (const Index::Floor& f : index.floors) r = r + floor_div(substitute(f.inner, with), f.divisor) * f.coef;
  return r;
}

static Interval affine_bounds(const Index& index, const std::vector<int64_t>& extents) {
  Interval r{index.constant, index.constant};
  for (const Index::Term& t : index.terms) r = sum(r, times({0, extents[size_t(t.axis)] - 1}, t.coef));
  return r;
}

/// `fuel` bounds the alternatives tried: a floor may be bounded as it stands, or, where m·x stands beside it, as part of
/// m·x + c·floor(x / d) = m·(x mod d) + (c + m·d)·floor(x / d), which keeps x % d inside [0, d).
static Interval bounds_with(const Index& index, const std::vector<int64_t>& extents, int& fuel) {
  if (index.is_affine()) return affine_bounds(index, extents);
  Index rest = index;
  const Index::Floor f = rest.floors.back();
  rest.floors.pop_back();
  const Interval inner = bounds_with(f.inner, extents, fuel);
  const Interval quotient{floor_div(inner.first, f.divisor), floor_div(inner.second, f.divisor)};
  Interval r = sum(bounds_with(rest, extents, fuel), times(quotient, f.coef));
  if (f.inner.terms.empty() || --fuel < 0) return r;
  const Index::Term& lead = f.inner.terms.front();
  const int64_t beside = rest.coef(lead.axis), m = beside / lead.coef;
  if (m == 0 || beside % lead.coef != 0) return r;
  const Interval mod = quotient.first == quotient.second
                           ? Interval{inner.first - quotient.first * f.divisor, inner.second - quotient.first * f.divisor}
                           : Interval{0, f.divisor - 1};
  const Interval other = sum(sum(bounds_with(rest + f.inner * -m, extents, fuel), times(mod, m)), times(quotient, f.coef + m * f.divisor));
  return intersect(r, other);
}

std::pair<int64_t, int64_t> bounds(const Index& index, const std::vector<int64_t>& extents) {
  int fuel = 64;
  return bounds_with(index, extents, fuel);
}

// ---- expressions ----

namespace {

ExprPtr make(auto node) { return std::make_shared<const Expr>(Expr{std::move(node)}); }

bool is_number(const Index& i) { return i.terms.empty() && i.floors.empty(); }

/// Sums and differences of indices are indices, so that i - j has one form.
ExprPtr fold_indices(BinaryOp op, const Expr& x, const Expr& y) {
  const auto *a = std::get_if<IndexValue>(&x.node), *b = std::get_if<IndexValue>(&y.node);
  if (!a || !b || (op != BinaryOp::add && op != BinaryOp::sub)) return nullptr;
  return index_value(a->index + b->index * (op == BinaryOp::add ? 1 : -1));
}

double apply(UnaryOp op, double x) {
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
    if (const double v = apply(op, c->value); std::isfinite(v)) return constant(v);
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
