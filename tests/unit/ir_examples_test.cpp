// The files of examples/: all of them build, print and evaluate; the less obvious notations mean what they are named after.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/ir.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TensorProgram example(const std::string& name) {
  const auto path = std::filesystem::path(RGEN_SOURCE_DIR) / "examples" / (name + ".json");
  return parse_program(read(path), name);
}

struct Run {
  TensorProgram program;
  std::vector<std::vector<float>> inputs;
  Reference result;
};

/// On small whole numbers, so that sums are exact.
Run run(const std::string& name) {
  Run r{example(name), {}, {}};
  std::vector<const void*> data;
  for (int t : r.program.inputs) {
    REQUIRE(r.program[t].dtype == DType::f32);
    size_t n = 1;
    for (const Size& s : r.program[t].shape) n *= size_t(s.value());
    r.inputs.emplace_back(n);
    for (size_t i = 0; i < n; ++i) r.inputs.back()[i] = float((i * i + 3 * i + size_t(t)) % 11) - 5;
  }
  for (const auto& x : r.inputs) data.push_back(x.data());
  r.result = evaluate_reference(r.program, data);
  return r;
}

}  // namespace

TEST_CASE("every example builds and survives printing") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(RGEN_SOURCE_DIR) / "examples")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().string());
    ++count;
    for (const SpecEntry& e : parse_specs(read(entry.path()), entry.path().string())) {
      const TensorProgram p = e.build();
      CHECK(equal(parse_program(print_json(p)), p));
    }
  }
  CHECK(count >= 15);
}

TEST_CASE("the transposed convolution scatters what a convolution gathers") {
  const Run r = run("transposed_convolution");
  const int H = 13, W = 11, C = 16, O = 24;
  std::vector<double> expected(size_t(2 * H * 2 * W * O));
  for (int h = 0; h < H; ++h)
    for (int w = 0; w < W; ++w)
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) {
          const int p = 2 * h + a - 1, q = 2 * w + b - 1;
          if (p < 0 || p >= 2 * H || q < 0 || q >= 2 * W) continue;
          for (int c = 0; c < C; ++c)
            for (int o = 0; o < O; ++o)
              expected[size_t((p * 2 * W + q) * O + o)] +=
                  double(r.inputs[0][size_t((h * W + w) * C + c)]) * double(r.inputs[1][size_t(((a * 3 + b) * C + c) * O + o)]);
        }
  CHECK(r.result.outputs[0] == expected);
}

TEST_CASE("pixel shuffle moves channels to pixels") {
  const Run r = run("pixel_shuffle");
  const int W = 7, C = 5;
  for (int i = 0; i < 18; ++i)
    for (int j = 0; j < 14; ++j)
      for (int c = 0; c < C; ++c)
        CHECK(r.result.outputs[0][size_t((i * 14 + j) * C + c)] ==
              r.inputs[0][size_t(((i / 2) * W + j / 2) * C * 4 + c * 4 + (i % 2) * 2 + j % 2)]);
}

TEST_CASE("prefix and window sums") {
  const Run prefix = run("prefix_sum"), window = run("window_sum");
  double sum = 0;
  for (size_t j = 0; j < 199; ++j) CHECK(prefix.result.outputs[0][j] == (sum += prefix.inputs[0][j]));
  for (size_t i = 0; i < 1021; ++i) {
    double w = 0;
    for (size_t j = i < 15 ? 0 : i - 15; j <= i; ++j) w += window.inputs[0][j];
    CHECK(window.result.outputs[0][i] == w);
  }
}

TEST_CASE("the complex product has two outputs") {
  const Run r = run("complex_product");
  REQUIRE(r.result.outputs.size() == 2);
  double re = 0, im = 0;
  for (size_t k = 0; k < 41; ++k) {
    const double a = r.inputs[0][2 * k], b = r.inputs[0][2 * k + 1], c = r.inputs[1][k * 58], d = r.inputs[1][k * 58 + 1];
    re += a * c - b * d;
    im += a * d + b * c;
  }
  CHECK(r.result.outputs[0][0] == re);
  CHECK(r.result.outputs[1][0] == im);
}

TEST_CASE("causal scores look back only, and each row sums to one") {
  const Run r = run("causal_scores");
  const auto& p = r.result.outputs[0];
  for (size_t i = 0; i < 61; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 61; ++j) {
      if (j > i) CHECK(p[i * 61 + j] == 0);
      sum += p[i * 61 + j];
    }
    CHECK(sum == doctest::Approx(1));
  }
}
