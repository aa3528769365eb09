#include "support/spec_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rgen::test {

namespace {

constexpr double inf = INFINITY;
/// Sums of integers stay below this, so that no s32 overflows.
constexpr double most_integer = 1 << 30;

std::string text_of(double v) {
  std::array<char, 40> b{};
  std::snprintf(b.data(), b.size(), "%.9g", v);
  return b.data();
}

double largest(const Value& v) { return std::max(std::abs(v.lo), std::abs(v.hi)); }

Value call(const std::string& function, const Value& v, double lo, double hi) { return {function + "(" + v.text + ")", lo, hi, false}; }

}  // namespace

std::string join(const std::vector<std::string>& parts) {
  std::string s;
  for (const std::string& p : parts) s += (s.empty() ? "" : ", ") + p;
  return s;
}
std::string declare(const Axes& axes) {
  std::vector<std::string> parts;
  for (const Axis& a : axes) parts.push_back(a.name + ":" + std::to_string(a.extent));
  return join(parts);
}
std::vector<std::string> names(const Axes& axes) {
  std::vector<std::string> n;
  for (const Axis& a : axes) n.push_back(a.name);
  return n;
}
std::vector<int64_t> extents(const Axes& axes) {
  std::vector<int64_t> e;
  for (const Axis& a : axes) e.push_back(a.extent);
  return e;
}
Axes operator+(const Axes& a, const Axes& b) {
  Axes r = a;
  r.insert(r.end(), b.begin(), b.end());
  return r;
}

// ---- extents and axes ----

int64_t SpecWriter::extent(int64_t most) {
  // ones, primes, vector lengths and their neighbours
  static constexpr std::array<int16_t, 64> table = {1,  2,  3,  1,  2,  3,  4,  5,  6,  7,   7,   8,   9,   10,  11,  12,
                                                    13, 13, 14, 15, 15, 16, 16, 16, 17, 17,  17,  18,  19,  20,  23,  24,
                                                    25, 29, 31, 31, 32, 32, 33, 33, 37, 37,  40,  41,  47,  48,  48,  49,
                                                    53, 63, 64, 65, 67, 67, 80, 96, 97, 127, 127, 130, 192, 255, 257, 300};
  most = std::max<int64_t>(1, std::min(most, left_));
  size_t at = size_t(draws.below(int(table.size())));
  while (at > 0 && table[at] > most) --at;
  left_ /= table[at];
  return table[at];
}
int64_t SpecWriter::small(int64_t most) {
  const int64_t e = 1 + draws.below(int(std::max<int64_t>(1, std::min(most, left_))));
  left_ /= e;
  return e;
}
Axis SpecWriter::axis(const std::string& prefix, int64_t e) { return {prefix + std::to_string(axes_++), e}; }
Axes SpecWriter::axes(const std::string& prefix, int count) {
  Axes r;
  for (int i = 0; i < count; ++i) r.push_back(axis(prefix));
  return r;
}

// ---- tensors ----

DType SpecWriter::dtype() {
  static constexpr std::array<DType, 6> all = {DType::f32, DType::bf16, DType::f16, DType::s8, DType::u8, DType::s32};
  return all[size_t(draws.weighted({12, 4, 3, 3, 3, 2}))];
}
DType SpecWriter::float_dtype() {
  static constexpr std::array<DType, 3> all = {DType::f32, DType::bf16, DType::f16};
  return all[size_t(draws.weighted({4, 2, 2}))];
}

Tensor SpecWriter::input(const std::string& prefix, const std::vector<int64_t>& shape, DType dtype, bool constant) {
  Tensor t{prefix + std::to_string(tensors_++), shape, -3.5, 3.5, !is_float(dtype)};
  if (dtype == DType::s8) t.lo = -127, t.hi = 127;
  if (dtype == DType::u8) t.lo = 0, t.hi = 255;
  if (dtype == DType::s32) t.lo = -1000, t.hi = 1000;
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1);
  const int layout = rank == 0 ? 0 : draws.weighted({16, 3, 1, 1, 1});
  const auto dense = [&](int64_t first, int64_t pitch) {
    int64_t s = first;
    for (size_t d = rank; d-- > 0;) strides[d] = s, s *= shape[d] + (d + 1 == rank ? pitch : 0);
  };
  if (layout == 1) dense(1, 1 + draws.below(19));                             // rows further apart than they are long
  if (layout == 2) dense(2, 0);                                               // every other element
  if (layout == 3) dense(1, 0), strides[size_t(draws.below(int(rank)))] = 0;  // one dimension repeats
  if (layout == 4) {                                                          // the first dimension is contiguous
    int64_t s = 1;
    for (size_t d = 0; d < rank; ++d) strides[d] = s, s *= shape[d];
  }
  const auto list = [](const std::vector<int64_t>& v) {
    std::vector<std::string> parts;
    for (int64_t x : v) parts.push_back(std::to_string(x));
    return "[" + join(parts) + "]";
  };
  inputs_ += (inputs_.empty() ? "" : ",\n") + ("    \"" + t.name) + "\": {\"shape\": " + list(shape) + ", \"dtype\": \"" +
             std::string(to_string(dtype)) + "\"" + (layout ? ", \"strides\": " + list(strides) : "") +
             (constant ? ", \"constant\": true" : "") + "}";
  return t;
}

Tensor SpecWriter::statement(const std::string& prefix, const Axes& out, const Value& body) {
  Tensor t{prefix + std::to_string(tensors_++), extents(out), body.lo, body.hi, body.integer};
  compute_ += (compute_.empty() ? "" : ",\n") + ("    \"" + t.name) + "[" + declare(out) + "] = " + body.text + "\"";
  return t;
}

Tensor SpecWriter::reduction(const std::string& prefix, const Axes& out, const std::string& op, const Axes& reduced, const Value& body) {
  double n = 1;
  for (const Axis& a : reduced) n *= double(a.extent);
  Value v = body;
  if (op == "sum" && v.integer && largest(v) * n > most_integer) v = call("f32", v, v.lo, v.hi);
  if (op == "prod" && (!v.integer || std::pow(largest(v), n) > most_integer)) {
    v = tame(v);
    v = {"(" + v.text + ")*0.2 + 1", 0.2, 1.8, false};
  }
  v.text = op + "(" + declare(reduced) + " | " + v.text + ")";
  if (op == "sum") v.lo *= n, v.hi *= n;
  if (op == "prod") v.hi = std::pow(largest(v), n), v.lo = -v.hi;
  return statement(prefix, out, v);
}

std::string SpecWriter::json(const std::string& name) const {
  std::string outputs;
  std::vector<std::string> seen;
  for (const std::string& o : outputs_)
    if (std::find(seen.begin(), seen.end(), o) == seen.end()) seen.push_back(o), outputs += (outputs.empty() ? "\"" : ", \"") + o + "\"";
  return "{\n  \"name\": \"" + name + "\",\n  \"inputs\": {\n" + inputs_ + "\n  },\n  \"compute\": [\n" + compute_ +
         "\n  ],\n  \"outputs\": [" + outputs + "]\n}\n";
}

// ---- values ----

Value SpecWriter::read(const Tensor& t, const std::vector<std::string>& index) const {
  return {t.name + "[" + join(index) + "]", t.lo, t.hi, t.integer};
}
Value SpecWriter::read(const Tensor& t, const Axes& axes) const { return read(t, names(axes)); }
Value SpecWriter::read_padded(const Tensor& t, const std::vector<std::string>& index, const std::string& fill) const {
  const double f = fill == "inf" ? inf : fill == "-inf" ? -inf : std::stod(fill);
  const bool whole = std::isinf(f) || f == std::floor(f);
  return {t.name + "[" + join(index) + " ? " + fill + "]", std::min(t.lo, f), std::max(t.hi, f), t.integer && whole};
}
std::string SpecWriter::random_fill(const Tensor& t) {
  static constexpr std::array<const char*, 4> of_floats = {"0", "1", "-2", "0.1"}, of_integers = {"0", "1", "-2", "300"};
  return (t.integer ? of_integers : of_floats)[size_t(draws.weighted({8, 1, 1, 1}))];
}
Value SpecWriter::number(double v) {
  const std::string s = text_of(v);
  return {v < 0 ? "(" + s + ")" : s, v, v, v == std::floor(v)};
}
Value SpecWriter::random_number() {
  static constexpr std::array<double, 10> all = {1, 2, 0.5, -1, 3, 0.1, -0.75, 1.5, 0, 7};
  return number(all[size_t(draws.below(int(all.size())))]);
}

Value SpecWriter::cast(DType to, const Value& v) const {
  Value r = call(std::string(to_string(to)), v, v.lo, v.hi);
  r.integer = !is_float(to);
  if (to == DType::s8) r.lo = std::clamp(v.lo, -128.0, 127.0), r.hi = std::clamp(v.hi, -128.0, 127.0);
  if (to == DType::u8) r.lo = std::clamp(v.lo, 0.0, 255.0), r.hi = std::clamp(v.hi, 0.0, 255.0);
  return r;
}

Value SpecWriter::tame(const Value& v) {
  const double b = largest(v);
  if (b <= 4.5) return v;
  // scaling keeps all values apart; where sums only could be that large, most are not
  if (b <= 4096) return {"(" + v.text + ") * " + text_of(std::exp2(-std::ceil(std::log2(b / 4)))), -4, 4, false};
  return {"min(max(" + v.text + ", -4), 4)", -4, 4, v.integer};
}

Value SpecWriter::random_unary(const Value& raw) {
  const int which = draws.weighted({6, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2});
  if (which == 0) return {"max(" + raw.text + ", 0)", std::max(raw.lo, 0.0), std::max(raw.hi, 0.0), raw.integer};
  const Value v = tame(raw);
  const std::string x = "(" + v.text + ")", away = "abs(" + v.text + ") + 0.5";
  switch (which) {
    case 1:
      return {"-" + x, -v.hi, -v.lo, v.integer};
    case 2:
      return {"abs(" + v.text + ")", 0, 4.5, v.integer};
    case 3:
      return {x + "*" + x, 0, 20.25, v.integer};
    case 4:
      return call("exp", v, 0, 91);
    case 5:
      return call("tanh", v, -1, 1);
    case 6:
      return call("sigmoid", v, 0, 1);
    case 7:
      return call("erf", v, -1, 1);
    case 8:
      return {"sqrt(" + away + ")", 0.7, 2.3, false};
    case 9:
      return {"rsqrt(" + away + ")", 0.4, 1.5, false};
    case 10:
      return {"log(" + away + ")", -0.7, 1.7, false};
    case 11:
      return {"1/(" + away + ")", 0.2, 2, false};
    case 12:
      return {"pow(" + away + ", 1.5)", 0.3, 12, false};
    case 13:
      return {x + "*sigmoid(" + v.text + ")", -0.3, 4.5, false};
    case 14:
      return {"min(max(" + v.text + ", -1), 2)", std::clamp(v.lo, -1.0, 2.0), std::clamp(v.hi, -1.0, 2.0), v.integer};
    case 15:
      return {"floor(" + x + "*1.5)", -7, 7, false};
    default:
      return {"select(" + v.text + " > 0, " + v.text + ", " + x + "*0.25)", v.lo, v.hi, false};
  }
}

std::string SpecWriter::comparison() {
  static constexpr std::array<const char*, 6> all = {" < ", " <= ", " > ", " >= ", " == ", " != "};
  return all[size_t(draws.below(int(all.size())))];
}

Value SpecWriter::random_binary(const Value& a0, const Value& b0) {
  const int which = draws.weighted({6, 5, 5, 3, 3, 2, 2, 1});
  const bool big = largest(a0) * largest(b0) > 1e6;
  const Value a = big ? tame(a0) : a0, b = big ? tame(b0) : b0;
  const bool integer = a.integer && b.integer;
  const std::string x = "(" + a.text + ")", y = "(" + b.text + ")";
  switch (which) {
    case 0:
      return {x + " + " + y, a.lo + b.lo, a.hi + b.hi, integer};
    case 1: {
      const double m = largest(a) * largest(b);
      return {x + " * " + y, -m, m, integer};
    }
    case 2:
      return {x + " - " + y, a.lo - b.hi, a.hi - b.lo, integer};
    case 3:
      return {"max(" + a.text + ", " + b.text + ")", std::max(a.lo, b.lo), std::max(a.hi, b.hi), integer};
    case 4:
      return {"min(" + a.text + ", " + b.text + ")", std::min(a.lo, b.lo), std::min(a.hi, b.hi), integer};
    case 5:
      return {"select(" + x + comparison() + y + ", " + a.text + ", " + b.text + ")", std::min(a.lo, b.lo), std::max(a.hi, b.hi), integer};
    case 6:
      return {x + "/(abs(" + b.text + ") + 1)", -largest(a), largest(a), false};
    default:
      return {"(" + x + comparison() + y + ") + " + x, a.lo, a.hi + 1, a.integer};
  }
}

Value SpecWriter::expression(std::vector<Value> leaves) {
  Value v = leaves[0];
  if (draws.one_in(3)) v = random_unary(v);
  for (size_t i = 1; i < leaves.size(); ++i) {
    v = random_binary(v, draws.one_in(4) ? random_unary(leaves[i]) : leaves[i]);
    if (draws.one_in(4)) v = random_unary(v);
  }
  return v;
}

void SpecWriter::finish(const Tensor& result, const Axes& axes) {
  Tensor t = result;
  const bool unbounded = std::isinf(t.lo) || std::isinf(t.hi);
  for (int steps = draws.weighted({3, 3, 3, 2}); steps > 0; --steps) {
    maybe_output(t);
    const Value x = read(t, axes);
    const int which = unbounded ? 0 : draws.weighted({4, 5, 3, 2, 3, 2});
    Value v;
    if (which == 0) {
      v = {"max(" + x.text + ", 0)", std::max(x.lo, 0.0), std::max(x.hi, 0.0), x.integer};
    } else if (which == 1 && !axes.empty()) {  // a bias along one axis
      const Axis& a = axes[axes.size() - 1 - size_t(draws.below(int(axes.size())))];
      const Tensor bias = input("bias", {a.extent}, x.integer ? DType::s32 : DType::f32, draws.one_in(2));
      const Value b = read(bias, {a.name});
      v = {x.text + " + " + b.text, x.lo + b.lo, x.hi + b.hi, x.integer && b.integer};
    } else if (which == 2 || which == 3) {  // a second tensor, in its own order of dimensions
      Axes order = axes;
      if (draws.one_in(4)) shuffle(order);
      const DType type = dtype();
      const Tensor other = input("Y", extents(order), type, draws.one_in(5));
      v = which == 2 ? Value{x.text + " + " + read(other, order).text, x.lo + other.lo, x.hi + other.hi, x.integer && other.integer}
                     : random_binary(x, read(other, order));
    } else if (which == 4) {
      const Value c = random_number();
      const double m = largest(x) * largest(c);
      v = {x.text + " * " + c.text, -m, m, x.integer && c.integer};
    } else {
      v = random_unary(x);
    }
    if (v.integer && largest(v) > most_integer) v = random_unary(tame(x));
    t = statement("E", axes, v);
  }
  static constexpr std::array<DType, 5> types = {DType::f32, DType::bf16, DType::f16, DType::s8, DType::u8};
  if (const int to = draws.weighted({12, 4, 2, 2, 2}); to > 0) {
    maybe_output(t);
    t = statement("R", axes, cast(types[size_t(to)], read(t, axes)));
  }
  output(t);
}

}  // namespace rgen::test
