#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/element.h"
#include "run/cache.h"
#include "run/kernel.h"

using namespace rgen;
using namespace rgen::run;

namespace {

ir::Tensor input(std::vector<ir::Size> shape, std::vector<ir::Size> strides, DType t, bool constant = false) {
  return {"X", std::move(shape), t, ir::TensorKind::input, std::move(strides), constant};
}

/// A program with these inputs and no statement.
ir::TensorProgram inputs_only(std::vector<ir::Tensor> tensors) {
  ir::TensorProgram p;
  for (size_t i = 0; i < tensors.size(); ++i) p.inputs.push_back(int(i));
  p.tensors = std::move(tensors);
  return p;
}

/// C[m] = sum(k | B[k, m]) for a constant B of 64 by 1000.
ir::TensorProgram constant_of_a_sum() {
  ir::TensorProgram p = inputs_only({input({64, 1000}, {1000, 1}, DType::f32, true)});
  p.tensors.push_back({"C", {1000}, DType::f32, ir::TensorKind::output, {1}, false});
  p.outputs = {1};
  ir::Stage s;
  s.output = 1;
  s.axes = {{"m", 1000}, {"k", 64}};
  s.n_out = 1;
  s.reduce = ir::ReduceOp::sum;
  s.body = ir::access(0, {ir::Index::axis(1), ir::Index::axis(0)});
  p.stages = {s};
  return p;
}

struct Moments {
  double mean = 0, deviation = 0, least = INFINITY, most = -INFINITY;
};
Moments moments(const Buffer& b, DType t) {
  const int64_t n = int64_t(b.size()) / size_of(t);
  Moments m;
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = load_element(b.data(), i, t);
    m.mean += v / double(n);
    squares += v * v / double(n);
    m.least = std::min(m.least, v);
    m.most = std::max(m.most, v);
  }
  m.deviation = std::sqrt(squares - m.mean * m.mean);
  return m;
}

}  // namespace

TEST_CASE("elements survive a store and a load") {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32}) {
    CAPTURE(std::string(to_string(t)));
    Buffer b(64);
    for (double v : {0.0, 1.0, -2.0, 100.0, 0.5, 3.140625, -1e30, 1e-7, 1e-40, 65520.0}) {
      store_element(b.data(), 3, t, v);
      CHECK(load_element(b.data(), 3, t) == round_to(v, t));
    }
  }
}

TEST_CASE("every 16-bit float decodes to a value that rounds to itself") {
  for (DType t : {DType::f16, DType::bf16})
    for (int bits = 0; bits < 65536; ++bits) {
      alignas(4) uint16_t word[2] = {uint16_t(bits)}, back[2] = {};
      const double v = load_element(word, 0, t);
      if (std::isnan(v)) continue;
      store_element(back, 0, t, v);
      if (back[0] != word[0]) FAIL_CHECK(to_string(t) << " " << bits << " became " << back[0]);
    }
}

TEST_CASE("rounding is to nearest even, and integers saturate") {
  CHECK(round_to(1 + 0x1p-8, DType::bf16) == 1);
  CHECK(round_to(1 + 0x3p-8, DType::bf16) == 1 + 0x1p-6);
  CHECK(round_to(65520, DType::f16) == INFINITY);
  CHECK(round_to(0x1p-25, DType::f16) == 0);
  CHECK(round_to(0x3p-25, DType::f16) == 0x1p-23);
  CHECK(round_to(2.5, DType::s8) == 2);
  CHECK(round_to(-3.5, DType::s8) == -4);
  CHECK(round_to(200, DType::s8) == 127);
  CHECK(round_to(-1, DType::u8) == 0);
  CHECK(round_to(1e10, DType::s32) == 2147483647.0);
}

TEST_CASE("the same seed gives the same bytes, on every machine") {
  const auto p = inputs_only({input({1000}, {1}, DType::f32), input({1000}, {1}, DType::bf16), input({1000}, {1}, DType::s8)});
  const auto a = make_inputs(p, 7), b = make_inputs(p, 7), c = make_inputs(p, 8);
  std::string all;
  for (size_t i = 0; i < 3; ++i) {
    CHECK(std::memcmp(a[i].data(), b[i].data(), a[i].size()) == 0);
    CHECK(std::memcmp(a[i].data(), c[i].data(), a[i].size()) != 0);
    all.append(static_cast<const char*>(a[i].data()), a[i].size());
  }
  CHECK(content_hash(all) == "9109b5878faab30afe6e7d9b05ad6af3");
}

TEST_CASE("floats are nearly normal, integers fill their range") {
  const auto p = inputs_only({input({40000}, {1}, DType::f32), input({40000}, {1}, DType::s8), input({40000}, {1}, DType::u8)});
  const auto in = make_inputs(p, 1);
  const Moments f = moments(in[0], DType::f32), s = moments(in[1], DType::s8), u = moments(in[2], DType::u8);
  CHECK(std::abs(f.mean) < 0.02);
  CHECK(f.deviation == doctest::Approx(1).epsilon(0.02));
  CHECK(f.most > 2.9);
  CHECK(s.least == -127);
  CHECK(s.most == 127);
  CHECK(std::abs(s.mean) < 2);
  CHECK(u.least == 0);
  CHECK(u.most == 255);
}

TEST_CASE("a constant of a sum of K products is scaled by K^-1/2") {
  CHECK(moments(make_inputs(constant_of_a_sum(), 1)[0], DType::f32).deviation == doctest::Approx(1.0 / 8).epsilon(0.02));
}

TEST_CASE("what lies between strided elements is poisoned") {
  const auto in = make_inputs(inputs_only({input({2, 3}, {5, 1}, DType::f32)}), 1);
  REQUIRE(in[0].size() == 8 * sizeof(float));
  const float* x = static_cast<const float*>(in[0].data());
  for (int i = 0; i < 8; ++i) CHECK(std::isnan(x[i]) == (i == 3 || i == 4));
}

TEST_CASE("symbolic extents take the values of a call") {
  ir::TensorProgram p = inputs_only({input({ir::Size::dim(0), 3}, {3, 1}, DType::f32)});
  p.dims = {{"M", 1, 100, 1}};
  CHECK(make_inputs(p, 1, {7})[0].size() == 84);
}

TEST_CASE("buffers are aligned and zeroed") {
  for (size_t n : {0, 1, 63, 1000}) {
    const Buffer b(n);
    CHECK(reinterpret_cast<uintptr_t>(b.data()) % 64 == 0);
    CHECK(b.size() == n);
    for (size_t i = 0; i < n; ++i) CHECK(static_cast<const char*>(b.data())[i] == 0);
  }
}
