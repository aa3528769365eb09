#include "base/error.h"
#include "base/math.h"
#include "ir/interval.h"
#include "ir/tensor_program.h"

namespace rgen::ir {

using rgen::floor_div;  // of integers, beside those of indices
using rgen::floor_mod;

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

}  // namespace rgen::ir
