// What the families of random programs are written with: inputs in odd layouts, axes of odd extents, and expressions whose values are
// known to stay in a range.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "support/draws.h"

namespace rgen::test {

struct Axis {
  std::string name;
  int64_t extent = 1;
};
using Axes = std::vector<Axis>;

/// A number as text, and the range of its values. `integer`: computed in s32.
struct Value {
  std::string text;
  double lo = 0, hi = 0;
  bool integer = false;
};

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  double lo = 0, hi = 0;
  bool integer = false;
};

class SpecWriter {
 public:
  SpecWriter(Draws& d, int64_t work) : draws(d), left_(work) {}

  Draws& draws;

  // ---- extents and axes ----
  /// The next extents multiply up to at most `points`.
  void budget(int64_t points) { left_ = points > 1 ? points : 1; }
  int64_t left() const { return left_; }
  int64_t extent(int64_t most = 400);
  int64_t small(int64_t most);  ///< in [1, most], uniform
  Axis axis(const std::string& prefix, int64_t e);
  Axis axis(const std::string& prefix) { return axis(prefix, extent()); }
  Axes axes(const std::string& prefix, int count);
  template <class T>
  void shuffle(std::vector<T>& v) {
    for (size_t i = 1; i < v.size(); ++i) std::swap(v[i], v[i - size_t(draws.below(int(i) + 1))]);
  }

  // ---- tensors ----
  DType dtype();
  /// A dtype of values that are read as floats: f32 for a half of the draws.
  DType float_dtype();
  Tensor input(const std::string& prefix, const std::vector<int64_t>& shape, DType dtype, bool constant = false);
  Tensor statement(const std::string& prefix, const Axes& out, const Value& body);
  /// The range of the result follows from the operator: sum, prod, max, min.
  Tensor reduction(const std::string& prefix, const Axes& out, const std::string& op, const Axes& reduced, const Value& body);
  void output(const Tensor& t) { outputs_.push_back(t.name); }
  /// Now and then a tensor on the way is an output too.
  void maybe_output(const Tensor& t) {
    if (draws.one_in(12)) output(t);
  }

  // ---- values ----
  Value read(const Tensor& t, const std::vector<std::string>& index) const;
  Value read(const Tensor& t, const Axes& axes) const;
  /// With `fill` read outside the tensor ("inf" and "-inf" too).
  Value read_padded(const Tensor& t, const std::vector<std::string>& index, const std::string& fill) const;
  /// A value to read outside a tensor: mostly 0, else something that its dtype may not hold.
  std::string random_fill(const Tensor& t);
  static Value number(double v);
  Value random_number();
  /// The value scaled and clamped into about ±4, as a float.
  Value tame(const Value& v);
  Value random_unary(const Value& v);
  Value random_binary(const Value& a, const Value& b);
  /// An expression of all the leaves.
  Value expression(std::vector<Value> leaves);
  Value cast(DType to, const Value& v) const;
  /// What is often done to a result, one stage each: bias, activation, addition, scaling, a cast. Marks the last as an output.
  void finish(const Tensor& t, const Axes& axes);

  std::string json(const std::string& name) const;

 private:
  std::string comparison();

  int64_t left_;
  int axes_ = 0, tensors_ = 0;
  std::string inputs_, compute_;
  std::vector<std::string> outputs_;
};

std::string join(const std::vector<std::string>& parts);
std::string declare(const Axes& axes);
std::vector<std::string> names(const Axes& axes);
std::vector<int64_t> extents(const Axes& axes);
Axes operator+(const Axes& a, const Axes& b);

}  // namespace rgen::test
