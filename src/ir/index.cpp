#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "ir/interval.h"
#include "ir/tensor_program.h"

namespace rgen::ir {

using rgen::floor_div;  // of integers, beside those of indices
using rgen::floor_mod;

// The algebra of indices.
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

}  // namespace rgen::ir
