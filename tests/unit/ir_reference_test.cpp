// The oracle against values computed here, independently, or by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "ir/ir.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

using Floats = std::vector<float>;

Reference run(const TensorProgram& p, const std::vector<Floats>& inputs, const std::vector<int64_t>& dims = {},
              int64_t limit = int64_t{1} << 26) {
  std::vector<const void*> data;
  for (const Floats& f : inputs) data.push_back(f.data());
  return evaluate_reference(p, data, dims, limit);
}

/// Exactly representable values without a pattern that a wrong index would repeat.
Floats numbers(size_t n, uint32_t seed = 1) {
  Floats v(n);
  for (float& x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = float(int32_t(seed >> 20) - 2048) / 1024;
  }
  return v;
}

double at(const std::vector<double>& v, size_t i) { return v[i]; }

}  // namespace

TEST_CASE("a product of matrices, by hand") {
  const auto p = parse_short("C[m,n] = sum(k | A[m,k]*B[k,n])", {{"m", 2}, {"n", 2}, {"k", 3}});
  const Reference r = run(p, {{1, 2, 3, 4, 5, 6}, {1, -1, 0, 2, 3, 1}});
  CHECK(r.outputs[0] == std::vector<double>{10, 6, 22, 12});
  CHECK(r.magnitude[0] == std::vector<double>{10, 8, 22, 20});  // Σ|terms|
  CHECK(r.sampled[0].empty());
}

TEST_CASE("reductions") {
  const std::map<std::string, int64_t> n{{"i", 4}};
  const Floats x{3, -1, 4, 2};
  CHECK(run(parse_short("S[] = sum(i | X[i])", n), {x}).outputs[0][0] == 8);
  CHECK(run(parse_short("S[] = prod(i | X[i])", n), {x}).outputs[0][0] == -24);
  CHECK(run(parse_short("S[] = max(i | X[i])", n), {x}).outputs[0][0] == 4);
  CHECK(run(parse_short("S[] = min(i | X[i])", n), {x}).outputs[0][0] == -1);
  CHECK(run(parse_short("S[] = max(i | X[i]) / sum(i | X[i]*i)", n), {x}).outputs[0][0] == doctest::Approx(4.0 / 13));
}

TEST_CASE("scalar functions") {
  const auto value = [](const char* f, float x) { return run(parse_short(std::string("S[i] = ") + f, {{"i", 1}}), {{x}}).outputs[0][0]; };
  CHECK(value("exp(X[i])", 1.5f) == std::exp(1.5));
  CHECK(value("log(X[i])", 1.5f) == std::log(1.5));
  CHECK(value("sqrt(X[i])", 2) == std::sqrt(2.0));
  CHECK(value("rsqrt(X[i])", 4) == 0.5);
  CHECK(value("tanh(X[i])", 0.5f) == std::tanh(0.5));
  CHECK(value("erf(X[i])", 0.5f) == std::erf(0.5));
  CHECK(value("sigmoid(X[i])", 0) == 0.5);
  CHECK(value("abs(X[i])", -2) == 2);
  CHECK(value("floor(X[i])", -1.5f) == -2);
  CHECK(value("pow(X[i], 3)", 2) == 8);
  CHECK(value("min(X[i], 1) + 10*max(X[i], 1)", 2) == 21);
  CHECK(value("-X[i] - 1/X[i]", 2) == -2.5);
  CHECK(value("(X[i] < 2) + 2*(X[i] <= 2) + 4*(X[i] > 2) + 8*(X[i] >= 2) + 16*(X[i] == 2) + 32*(X[i] != 2)", 2) == 26);
  CHECK(value("select(X[i] > 1, 10, 20)", 2) == 10);
  CHECK(value("select(X[i] > 1, 10, 20)", 1) == 20);
}

TEST_CASE("casts round half to even and saturate; an output is given before its own") {
  const auto inner = [](const char* type, float x) {
    return run(parse_short(std::string("S[i] = f32(") + type + "(X[i]))", {{"i", 1}}), {{x}}).outputs[0][0];
  };
  CHECK(inner("s8", 2.5f) == 2);
  CHECK(inner("s8", 3.5f) == 4);
  CHECK(inner("s8", -1000) == -128);
  CHECK(inner("u8", -3) == 0);
  CHECK(inner("u8", 255.5f) == 255);
  CHECK(inner("bf16", 1.00390625f) == 1);         // 1 + 2^-8: a tie, to even
  CHECK(inner("bf16", 1.01171875f) == 1.015625);  // 1 + 3·2^-8: a tie, to even
  CHECK(inner("f16", 1.00048828125f) == 1);       // 1 + 2^-11
  CHECK(inner("f16", 70000) == INFINITY);
  CHECK(inner("f16", 5.9604645e-8f) == doctest::Approx(5.9604645e-8));  // the smallest subnormal
  CHECK(inner("f16", 2e-8f) == 0);
  const auto p = parse_short("S[i] = s8(X[i]); T[i] = S[i] * 2", {{"i", 1}});
  CHECK(run(p, {{2.75f}}).outputs[0][0] == 6);  // readers see the rounded value
  CHECK(run(parse_short("S[i] = s8(X[i])", {{"i", 1}}), {{2.75f}}).outputs[0][0] == 2.75);
}

TEST_CASE("all dtypes are decoded") {
  const auto value = [](const char* type, const void* data) {
    const auto p = parse_program(std::string(R"({"inputs": {"X": {"shape": [2], "dtype": ")") + type +
                                 R"json("}}, "compute": "S[i:1] = f32(X[i+1])"})json");
    const void* inputs[] = {data};
    return evaluate_reference(p, inputs).outputs[0][0];
  };
  const uint16_t bf16[] = {0, 0xc049}, f16[] = {0, 0x3555}, f16_subnormal[] = {0, 0x8001};
  const int8_t s8[] = {0, -7};
  const uint8_t u8[] = {0, 200};
  const int32_t s32[] = {0, -2147483647};
  CHECK(value("bf16", bf16) == -3.140625);
  CHECK(value("f16", f16) == 0.333251953125);
  CHECK(value("f16", f16_subnormal) == -std::ldexp(1.0, -24));
  CHECK(value("s8", s8) == -7);
  CHECK(value("u8", u8) == 200);
  CHECK(value("s32", s32) == -2147483647);
}

TEST_CASE("strides and values outside") {
  const auto p = parse_program(R"json({"inputs": {"X": {"shape": [2, 3], "strides": [5, 1]}, "r": {"shape": [2, 3], "strides": [0, 2]}},
    "compute": "S[i:2, j:4] = X[i, j-1 ? 7] + select(j < 3, r[i, j ? 0], 0)"})json");
  const Reference r = run(p, {{1, 2, 3, 99, 99, 4, 5, 6}, {10, 0, 20, 0, 30}});
  CHECK(r.outputs[0] == std::vector<double>{17, 21, 32, 3, 17, 24, 35, 6});
}

TEST_CASE("symbolic dimensions take their values at the call") {
  const auto p = parse_program(
      R"json({"dims": {"M": {"min": 1, "max": 9}}, "inputs": {"X": {"shape": ["M", 2]}}, "compute": "S[j:2] = sum(m:M | X[m,j]) / M"})json");
  CHECK(run(p, {{1, 2, 3, 6, 5, 1}}, {3}).outputs[0] == std::vector<double>{3, 3});
  CHECK(run(p, {{1, 2}}, {1}).outputs[0] == std::vector<double>{1, 2});
  CHECK_THROWS_AS(run(p, {{1, 2}}, {}), Error);
}

TEST_CASE("a grouped, strided, dilated, padded convolution against six loops") {
  const auto p = parse_program(
      R"({"op": "conv2d", "params": {"n": 2, "h": 7, "w": 8, "ci": 4, "co": 6, "r": 3, "s": 2, "stride": [2, 1], "pad": [1, 0, 2, 1],
    "dilation": [1, 2], "groups": 2, "layout": "NCHW"}, "epilogue": ["bias", "relu"]})");
  const Floats x = numbers(2 * 4 * 7 * 8), w = numbers(6 * 2 * 3 * 2, 2), bias = numbers(6, 3);
  const int P = 4, Q = 7;
  const Reference r = run(p, {x, w, bias});
  REQUIRE(r.outputs[0].size() == size_t(2 * 6 * P * Q));
  for (int n = 0; n < 2; ++n)
    for (int co = 0; co < 6; ++co)
      for (int i = 0; i < P; ++i)
        for (int j = 0; j < Q; ++j) {
          double sum = bias[size_t(co)];
          for (int c = 0; c < 2; ++c)
            for (int a = 0; a < 3; ++a)
              for (int b = 0; b < 2; ++b) {
                const int h = 2 * i + a - 1, v = j + 2 * b, ci = co / 3 * 2 + c;
                if (h < 0 || h >= 7 || v >= 8) continue;
                sum += double(x[size_t(((n * 4 + ci) * 7 + h) * 8 + v)]) * double(w[size_t(((co * 2 + c) * 3 + a) * 2 + b)]);
              }
          CHECK(r.outputs[0][size_t(((n * 6 + co) * P + i) * Q + j)] == doctest::Approx(std::max(sum, 0.0)));
        }
}

TEST_CASE("pools: maxima ignore the padding, means count it") {
  const Floats x{-1, -2, -3, -4};
  const char* window = R"("params": {"h": 2, "w": 2, "c": 1, "r": 2, "stride": 2, "pad": 1}})";
  CHECK(run(parse_program(std::string(R"({"op": "maxpool", )") + window), {x}).outputs[0] == std::vector<double>{-1, -2, -3, -4});
  CHECK(run(parse_program(std::string(R"({"op": "avgpool", )") + window), {x}).outputs[0] == std::vector<double>{-0.25, -0.5, -0.75, -1});
  CHECK(run(parse_program(R"({"op": "gavgpool", "params": {"h": 2, "w": 2, "c": 1}})"), {x}).outputs[0] == std::vector<double>{-2.5});
}

TEST_CASE("normalisations") {
  const Floats x{1, 2, 3, 6}, gamma{1, 2, 1, 1}, beta{0, 0, 0, 5};
  const Reference soft = run(parse_program(R"({"op": "softmax", "params": {"shape": [2, 2]}})"), {x});
  CHECK(soft.outputs[0][0] == doctest::Approx(1 / (1 + std::exp(1.0))));
  CHECK(soft.outputs[0][2] + soft.outputs[0][3] == doctest::Approx(1));
  const Reference layer = run(parse_program(R"({"op": "layernorm", "params": {"shape": [1, 4], "eps": 0.5}})"), {x, gamma, beta});
  const double inverse = 1 / std::sqrt(3.5 + 0.5);
  CHECK(layer.outputs[0][0] == doctest::Approx(-2 * inverse));
  CHECK(layer.outputs[0][1] == doctest::Approx(-2 * inverse));
  CHECK(layer.outputs[0][3] == doctest::Approx(3 * inverse + 5));
  const Reference rms = run(parse_program(R"({"op": "rmsnorm", "params": {"shape": [4], "eps": 0}})"), {x, gamma});
  CHECK(rms.outputs[0][1] == doctest::Approx(4 / std::sqrt(12.5)));
}

TEST_CASE("every step of an epilogue") {
  const float x = -1.25f;
  const auto value = [&](const char* step, const std::vector<Floats>& more = {}, const char* params = "") {
    std::vector<Floats> inputs{{x}};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return run(parse_program(std::string(R"({"op": "transpose", "params": {"shape": [1], "perm": [0])") + params + R"(}, "epilogue": [")" +
                             step + "\"]}"),
               inputs)
        .outputs[0][0];
  };
  const double y = x;
  CHECK(value("relu") == 0);
  CHECK(value("relu6") == 0);
  CHECK(value("gelu_erf") == doctest::Approx(0.5 * y * (1 + std::erf(y / std::sqrt(2.0)))));
  CHECK(value("gelu_tanh") == doctest::Approx(0.5 * y * (1 + std::tanh(std::sqrt(2 / 3.14159265358979324) * (y + 0.044715 * y * y * y)))));
  CHECK(value("silu") == doctest::Approx(y / (1 + std::exp(-y))));
  CHECK(value("sigmoid") == doctest::Approx(1 / (1 + std::exp(-y))));
  CHECK(value("hardswish") == doctest::Approx(y * (y + 3) / 6));
  CHECK(value("tanh") == doctest::Approx(std::tanh(y)));
  CHECK(value("bias", {{2}}) == y + 2);
  CHECK(value("add", {{3}}) == y + 3);
  CHECK(value("mul", {{3}}) == y * 3);
  CHECK(value("scale", {}, ", \"scale\": 0.5") == y / 2);
  CHECK(value("batchnorm", {{1}, {3}, {2}, {5}}, ", \"eps\": 1") == doctest::Approx((y - 1) / 2 * 2 + 5));
}

TEST_CASE("attention against its definition") {
  const int H = 2, T = 5, D = 3;
  const Floats q = numbers(size_t(H * T * D)), k = numbers(size_t(H * T * D), 2), v = numbers(size_t(H * T * D), 3);
  const Reference r = run(parse_program(R"({"op": "attention", "params": {"heads": 2, "seq": 5, "dim": 3}})"), {q, k, v});
  const auto element = [&](const Floats& x, int h, int t, int d) { return double(x[size_t((h * T + t) * D + d)]); };
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < T; ++i) {
      std::vector<double> e(size_t(T), 0);
      double total = 0;
      for (int j = 0; j < T; ++j) {
        double s = 0;
        for (int d = 0; d < D; ++d) s += element(q, h, i, d) * element(k, h, j, d);
        total += e[size_t(j)] = std::exp(s / std::sqrt(double(D)));
      }
      for (int d = 0; d < D; ++d) {
        double o = 0;
        for (int j = 0; j < T; ++j) o += e[size_t(j)] * element(v, h, j, d) / total;
        CHECK(at(r.outputs[0], size_t((h * T + i) * D + d)) == doctest::Approx(o));
      }
    }
}

TEST_CASE("above its limit the reference computes a sample, with the same values") {
  const char* specs[] = {R"({"op": "matmul", "params": {"m": 67, "n": 83, "k": 37}, "epilogue": ["bias", "gelu_erf"]})",
                         R"({"op": "softmax", "params": {"shape": [113, 41]}})"};
  const std::vector<std::vector<Floats>> inputs{{numbers(67 * 37), numbers(37 * 83, 2), numbers(83, 3)}, {numbers(113 * 41)}};
  for (size_t s = 0; s < 2; ++s) {
    const TensorProgram p = parse_program(specs[s]);
    const Reference all = run(p, inputs[s]), some = run(p, inputs[s], {}, s == 0 ? 40000 : 12000);
    CHECK(all.sampled[0].empty());
    const auto& sampled = some.sampled[0];
    REQUIRE(sampled.size() > 100);
    CHECK(sampled.size() < all.outputs[0].size());
    CHECK(std::is_sorted(sampled.begin(), sampled.end()));
    CHECK(std::adjacent_find(sampled.begin(), sampled.end()) == sampled.end());
    CHECK(sampled.front() == 0);  // the corners
    CHECK(sampled.back() == int64_t(all.outputs[0].size()) - 1);
    for (int64_t i : sampled) {
      CHECK(some.outputs[0][size_t(i)] == all.outputs[0][size_t(i)]);
      CHECK(some.magnitude[0][size_t(i)] == all.magnitude[0][size_t(i)]);
    }
  }
}

TEST_CASE("the sample holds every border that the limit allows") {
  const TensorProgram p = parse_program(R"({"op": "relu", "params": {"shape": [300, 500]}})");
  const Reference r = run(p, {numbers(300 * 500)}, {}, 100000);
  std::vector<bool> seen(300 * 500);
  for (int64_t i : r.sampled[0]) seen[size_t(i)] = true;
  for (size_t i = 0; i < 300; ++i) CHECK((seen[i * 500] && seen[i * 500 + 499]));
  for (size_t j = 0; j < 500; ++j) CHECK((seen[j] && seen[299 * 500 + j]));
}

TEST_CASE("magnitudes bound what f32 loses") {
  // 4096 terms around 1000 that nearly cancel: the result says nothing about the error, the magnitude does.
  Floats x(4096);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (i % 2 ? -1000.0f : 1000.0f) + float(i % 7) * 0.125f;
  const Reference r = run(parse_short("S[] = sum(i | X[i]*X[i]*X[i])", {{"i", 4096}}), {x});
  float sum = 0;
  for (float v : x) sum += v * v * v;
  CHECK(std::abs(double(sum) - r.outputs[0][0]) <= 4096 * 0x1p-24 * r.magnitude[0][0]);
  CHECK(r.magnitude[0][0] > 1e12);
}

TEST_CASE("jumps: exact operands are certain, computed ones near a jump are not") {
  const auto magnitude = [](const char* text, float x) {
    return run(parse_short(std::string("S[i] = ") + text, {{"i", 1}}), {{x}}).magnitude[0][0];
  };
  CHECK(magnitude("select(X[i] > 1, 3, 5)", 1) == 5);
  CHECK(magnitude("floor(X[i])", 3) == 3);
  CHECK(magnitude("floor(X[i]*0.1*10)", 3) > 0x1p23);            // 3 or just below
  CHECK(magnitude("floor(X[i]*0.1*10)", 3.5f) == 3);             // far from a jump
  CHECK(magnitude("select(X[i]*0.1 > 0.3, 3, 5)", 3) > 0x1p23);  // the arms differ by 2
  CHECK(magnitude("select(X[i]*0.1 > 0.3, 5, 5)", 3) == 5);      // the arms do not differ
}

TEST_CASE("infinities outside a tensor are not errors") {
  const Reference r = run(parse_short("S[i] = exp(select(i < 1, X[i], -inf))", {{"i", 2}}), {{1, 1}});
  CHECK(r.outputs[0][1] == 0);
  CHECK(r.magnitude[0][1] == 0);
}
