#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/element.h"
#include "run/kernel.h"

using namespace rgen;
using namespace rgen::run;

namespace {

using ir::ExprPtr;

/// out[m] = reduce(k | body) over x[m, k], as the body says; x is f32 or integer.
ir::TensorProgram program(DType in, DType out, int64_t m, int64_t k, ExprPtr body) {
  ir::TensorProgram p;
  p.tensors = {{"x", {m, k}, in, ir::TensorKind::input, {k, 1}, false}, {"out", {m}, out, ir::TensorKind::output, {1}, false}};
  p.inputs = {0};
  p.outputs = {1};
  ir::Stage s;
  s.output = 1;
  s.axes = {{"m", m}};
  s.n_out = 1;
  if (k > 1) {
    s.axes.push_back({"k", k});
    s.reduce = ir::ReduceOp::sum;
  }
  s.body = std::move(body);
  p.stages = {s};
  return p;
}
ExprPtr x(int64_t k) { return ir::access(0, {ir::Index::axis(0), k > 1 ? ir::Index::axis(1) : ir::Index::number(0)}); }
ExprPtr square(int64_t k) { return ir::binary(ir::BinaryOp::mul, x(k), x(k)); }

Buffer buffer(DType t, const std::vector<double>& values) {
  Buffer b(values.size() * size_t(size_of(t)));
  for (size_t i = 0; i < values.size(); ++i) store_element(b.data(), int64_t(i), t, values[i]);
  return b;
}

Comparison check(const ir::TensorProgram& p, std::vector<double> want, std::vector<double> magnitude, const std::vector<double>& got,
                 std::vector<int64_t> sampled = {}) {
  std::vector<Buffer> outputs;
  outputs.push_back(buffer(p[1].dtype, got));
  return compare(p, {{std::move(want)}, {std::move(magnitude)}, {std::move(sampled)}}, outputs);
}

/// Sums of k squares of the seeded inputs: in f64, and in f32 in the order of the terms, `skip` left out of element 0.
struct Sums {
  std::vector<double> exact, computed;
};
Sums sums(const ir::TensorProgram& p, int64_t m, int64_t k, int64_t skip = -1) {
  const std::vector<Buffer> in = make_inputs(p, 3);
  Sums s;
  for (int64_t i = 0; i < m; ++i) {
    double exact = 0;
    float computed = 0;
    for (int64_t j = 0; j < k; ++j) {
      const float v = static_cast<const float*>(in[0].data())[i * k + j];
      exact += double(v) * v;
      if (i != 0 || j != skip) computed += v * v;
    }
    s.exact.push_back(exact);
    s.computed.push_back(double(computed));
  }
  return s;
}

}  // namespace

TEST_CASE("a sum computed in f32 passes, one with a missing term does not") {
  for (int64_t k : {3, 64, 1000, 20000}) {
    CAPTURE(k);
    const auto p = program(DType::f32, DType::f32, 16, k, square(k));
    const Sums right = sums(p, 16, k);
    const Comparison good = check(p, right.exact, right.exact, right.computed);
    CHECK(good.ok);
    CHECK(good.max_rel_err <= good.tolerance);
    const Comparison bad = check(p, right.exact, right.exact, sums(p, 16, k, 0).computed);
    CHECK_FALSE(bad.ok);
    CHECK(bad.max_rel_err > good.max_rel_err);
    CHECK(bad.worst.find("out[0]: got ") == 0);
  }
}

TEST_CASE("exchanged elements are seen") {
  const auto p = program(DType::f32, DType::f32, 16, 64, square(64));
  Sums s = sums(p, 16, 64);
  std::swap(s.computed[3], s.computed[4]);
  CHECK_FALSE(check(p, s.exact, s.exact, s.computed).ok);
}

TEST_CASE("moves and maxima must be exact up to the output's rounding") {
  const auto p = program(DType::f32, DType::f32, 2, 1, x(1));
  const float v = 0.1f;
  CHECK(check(p, {v, 2}, {v, 2}, {v, 2}).ok);
  CHECK_FALSE(check(p, {v, 2}, {v, 2}, {std::nextafter(v, 1.0f), 2}).ok);
  const auto rounded = program(DType::f32, DType::bf16, 1, 1, x(1));
  CHECK(check(rounded, {1.001}, {1.001}, {1.0}).ok);
  CHECK_FALSE(check(rounded, {1.001}, {1.001}, {1.0078125}).ok);
}

TEST_CASE("integers computed from integers must be equal") {
  const auto p = program(DType::s8, DType::s32, 1, 100, square(100));
  CHECK(check(p, {123456}, {123456}, {123456}).ok);
  const Comparison off = check(p, {123456}, {123456}, {123457});
  CHECK_FALSE(off.ok);
  CHECK(off.worst == "out[0]: got 123457, expected 123456, allowed 0");
  const auto narrow = program(DType::s8, DType::s8, 1, 100, square(100));
  CHECK(check(narrow, {1000}, {1000}, {127}).ok);
}

TEST_CASE("integers added in f32 are exact only while they are small") {
  const ExprPtr in_f32 = ir::cast(DType::f32, square(100));
  CHECK_FALSE(check(program(DType::s8, DType::f32, 1, 100, in_f32), {123456}, {123456}, {123457}).ok);  // at most 100 * 128 * 128
  const double want = 69296022;
  CHECK(check(program(DType::u8, DType::f32, 1, 10000, ir::cast(DType::f32, square(10000))), {want}, {want}, {69296016}).ok);
}

TEST_CASE("integers computed from floats may go to the neighbour only at a tie") {
  const auto p = program(DType::f32, DType::s8, 1, 1, square(1));
  CHECK(check(p, {2.5000001}, {2.5}, {2}).ok);
  CHECK(check(p, {2.5000001}, {2.5}, {3}).ok);
  CHECK_FALSE(check(p, {2.6}, {2.6}, {2}).ok);
  CHECK_FALSE(check(p, {2.5000001}, {2.5}, {4}).ok);
}

TEST_CASE("NaN and infinity must be where the reference has them") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto p = program(DType::f32, DType::f32, 1, 1, square(1));
  CHECK(check(p, {nan}, {nan}, {nan}).ok);
  CHECK_FALSE(check(p, {1}, {1}, {nan}).ok);
  CHECK_FALSE(check(p, {nan}, {nan}, {1}).ok);
  CHECK(check(p, {inf}, {inf}, {inf}).ok);
  CHECK_FALSE(check(p, {inf}, {inf}, {-inf}).ok);
  CHECK_FALSE(check(p, {1}, {1}, {inf}).ok);
  const auto narrow = program(DType::f32, DType::f16, 1, 1, square(1));
  CHECK(check(narrow, {70000}, {70000}, {inf}).ok);
  CHECK_FALSE(check(narrow, {60000}, {60000}, {inf}).ok);
}

TEST_CASE("only sampled positions are compared where the reference is a sample") {
  const auto p = program(DType::f32, DType::f32, 4, 1, x(1));
  CHECK(check(p, {0, 7, 0, 9}, {0, 7, 0, 9}, {5, 7, 5, 9}, {1, 3}).ok);
  const Comparison bad = check(p, {0, 7, 0, 9}, {0, 7, 0, 9}, {5, 7, 5, 8}, {1, 3});
  CHECK_FALSE(bad.ok);
  CHECK(bad.worst.find("out[3]") == 0);
}

TEST_CASE("reduced-precision products widen the bound, and only as far as their format") {
  auto p = program(DType::f32, DType::f32, 1, 64, square(64));
  const double want = 1, tf32_error = 5e-4;
  CHECK_FALSE(check(p, {want}, {want}, {want + tf32_error}).ok);
  p.math = ir::Math::bf16x3;
  CHECK(check(p, {want}, {want}, {want + 2e-5}).ok);
  CHECK_FALSE(check(p, {want}, {want}, {want + tf32_error}).ok);
  p.math = ir::Math::tf32;
  CHECK(check(p, {want}, {want}, {want + tf32_error}).ok);
  CHECK_FALSE(check(p, {want}, {want}, {want + 1e-2}).ok);
}
