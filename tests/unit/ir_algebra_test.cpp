// Sizes and indices: values against direct evaluation, and the normal forms.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/math.h"
#include "ir/ir.h"
#include "ir/nonpositive.h"
#include "ir/tensor_program.h"

using namespace rgen;
using namespace rgen::ir;

TEST_CASE("sizes fold constants and identities") {
  const Size m = Size::dim(0);
  CHECK(Size(6) * Size(7) == Size(42));
  CHECK(Size::make(Size::Op::div, 7, 2).value() == 3);
  CHECK(Size::make(Size::Op::div, -7, 2).value() == -4);
  CHECK(Size::make(Size::Op::mod, -7, 2).value() == 1);
  CHECK(m * Size(1) == m);
  CHECK(m + Size(0) == m);
  CHECK(m - m == Size(0));
  CHECK((m * Size(0)).is_const());
  CHECK_FALSE(m + Size(1) == m);
  CHECK_THROWS_AS(Size::make(Size::Op::div, m, 0), Error);
  CHECK_THROWS_AS(Size(INT64_MAX) + Size(1), Error);
  CHECK_THROWS_AS(Size(int64_t{1} << 40) * Size(int64_t{1} << 40), Error);
}

TEST_CASE("a size evaluates, and its maximum bounds every value of the range") {
  const std::vector<Dim> dims{{"H", 7, 100, 1}, {"S", 1, 3, 1}};
  const Size h = Size::dim(0), s = Size::dim(1);
  const Size p = Size::make(Size::Op::div, h + Size(2) - Size(3), s) + Size(1);
  CHECK(p.eval({100, 1}) == 100);
  CHECK(p.eval({7, 3}) == 3);
  const Size sizes[] = {p, h * s, h - s, Size::make(Size::Op::mod, h, 16), Size::make(Size::Op::mod, h, s), h * h - s};
  for (const Size& x : sizes)
    for (int64_t a = 7; a <= 100; ++a)
      for (int64_t b = 1; b <= 3; ++b) CHECK(x.eval({a, b}) <= x.max(dims));
  CHECK(p.max(dims) == 100);
  CHECK(Size::dim(0).max({{"M", 5, 103, 8}}) == 96);
}

TEST_CASE("row-major strides") {
  CHECK(row_major({2, 3, 5}) == std::vector<Size>{15, 5, 1});
  CHECK(row_major({}).empty());
  CHECK(row_major({Size::dim(0), 4})[0] == Size(4));
}

namespace {
const Index i = Index::axis(0), j = Index::axis(1);
Index number(int64_t c) { return Index::number(c); }
}  // namespace

TEST_CASE("index sums have one form") {
  CHECK(i + j * 2 + number(3) == number(3) + j * 2 + i);
  CHECK((i + i * -1) == Index{});
  CHECK((i * 3).coef(0) == 3);
  CHECK((i * 3).coef(1) == 0);
  CHECK((i * 0) == Index{});
}

TEST_CASE("floor division divides multiples out and folds constants") {
  CHECK(floor_div(i * 6 + number(9), 3) == i * 2 + number(3));
  CHECK(floor_div(i * 4 + j, 4) == i + floor_div(j, 4));
  CHECK(floor_div(number(-7), 2) == number(-4));
  CHECK(floor_div(i, 1) == i);
  CHECK(floor_div(floor_div(i, 2), 3) == floor_div(i, 6));
  CHECK(floor_div(i * 2 + number(1), 4) == floor_div(i, 2));  // floor((2i + 1) / 4)
  CHECK(floor_mod(i * 16 + j, 16) == floor_mod(j, 16));
  CHECK(floor_mod(i * 8, 4) == Index{});
  CHECK(floor_div(i, 2) + floor_div(j, 3) == floor_div(j, 3) + floor_div(i, 2));
  CHECK_THROWS_AS(floor_div(i, 0), Error);
  CHECK_THROWS_AS(floor_mod(i, -2), Error);
}

TEST_CASE("an index knows the axes inside its floors") {
  const Index x = floor_div(i + number(1), 2);
  CHECK(x.uses(0));
  CHECK_FALSE(x.uses(1));
  CHECK(x.coef(0) == 0);
  CHECK_FALSE(x.is_affine());
  CHECK(x.eval({4, 0}) == 2);
  CHECK(x.eval({5, 0}) == 3);
}

TEST_CASE("substitution replaces axes everywhere") {
  const Index x = floor_mod(i * 3 + j, 4) + j;
  const Index y = substitute(x, {j + number(2), i * 5});
  for (int64_t a = 0; a < 9; ++a)
    for (int64_t b = 0; b < 9; ++b) CHECK(y.eval({a, b}) == x.eval({b + 2, a * 5}));
}

TEST_CASE("bounds are exact for affine indices and for remainders") {
  CHECK(bounds(i * 2 + j * -1 + number(-3), {5, 4}) == std::pair<int64_t, int64_t>{-6, 5});
  CHECK(bounds(floor_mod(i, 4), {100}) == std::pair<int64_t, int64_t>{0, 3});
  CHECK(bounds(floor_mod(i, 16), {4}) == std::pair<int64_t, int64_t>{0, 3});
  CHECK(bounds(floor_mod(i + number(5), 16), {4}) == std::pair<int64_t, int64_t>{5, 8});
  CHECK(bounds(floor_div(i + number(1), 2), {9}) == std::pair<int64_t, int64_t>{0, 4});
  CHECK(bounds(floor_mod(i, 4) * 8 + floor_div(i, 4), {32}) == std::pair<int64_t, int64_t>{0, 31});  // a transposed reshape
}

TEST_CASE("an element less the largest of its row is not positive, and nothing else is known to be so") {
  const auto last = [](const std::string& compute) {
    std::string inputs;
    for (const auto& [name, shape] : {std::pair{"X", "[6, 5, 8]"}, std::pair{"Y", "[6, 5, 8]"}, std::pair{"S", "[8, 8]"}})
      if (compute.find(std::string(name) + "[") != std::string::npos)
        inputs += (inputs.empty() ? "\"" : ", \"") + std::string(name) + "\": {\"shape\": " + shape + "}";
    const TensorProgram p = parse_program("{\"inputs\": {" + inputs + "}, \"compute\": [" + compute + "], \"outputs\": [\"E\"]}");
    return never_positive(p, *std::get<Unary>(p.stages.back().body->node).x);
  };
  const std::string rows = R"--("L[i:6, j:5] = max(c:8 | X[i, j, c])", )--";
  CHECK(last(rows + R"--("E[i:6, j:5, c:8] = exp(X[i, j, c] - L[i, j])")--"));
  CHECK(last(R"--("L[i:6] = max(j:5, c:8 | X[i, j, c] * 0.5)", "E[i:6, c:8] = exp(X[i, 3, c] * 0.5 - L[i])")--"));
  CHECK_FALSE(last(rows + R"--("E[i:6, j:5, c:8] = exp(L[i, j] - X[i, j, c])")--"));
  CHECK_FALSE(last(rows + R"--("E[i:6, j:5, c:8] = exp(X[i, j, c] + L[i, j])")--"));
  CHECK_FALSE(last(rows + R"--("E[i:6, j:5, c:8] = exp(Y[i, j, c] - L[i, j])")--"));
  CHECK_FALSE(last(rows + R"--("E[i:6, j:4, c:8] = exp(X[i, j, c] - L[i, j + 1])")--"));
  CHECK_FALSE(last(rows + R"--("E[i:6, j:5, c:8] = exp(2 * X[i, j, c] - L[i, j])")--"));
  CHECK_FALSE(last(R"--("L[i:6, j:5] = min(c:8 | X[i, j, c])", "E[i:6, j:5, c:8] = exp(X[i, j, c] - L[i, j])")--"));
  CHECK_FALSE(last(R"--("L[i:6, j:5] = max(c:7 | X[i, j, c])", "E[i:6, j:5, c:8] = exp(X[i, j, c] - L[i, j])")--"));
  CHECK_FALSE(last(R"--("L[] = max(c:8 | S[c, c])", "E[i:8, j:8] = exp(S[i, j] - L[])")--"));
}
