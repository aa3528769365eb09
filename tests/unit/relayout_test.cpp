// Copies in another layout, for products of an operand that lies along the reduction, or that a GPU could not stage.
#include "rtile/relayout.h"

#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/nest_facts.h"
#include "rtile/stageable.h"

using namespace rgen;
using rtile::Rewritten;

namespace {

std::optional<Rewritten> relayout(const std::string& text, std::vector<rtile::Nest>* nests = nullptr) {
  const ir::TensorProgram program = ir::parse_program(text);
  const auto built = rtile::build_nests(program);
  if (nests) *nests = built;
  return rtile::relayout(program, built);
}
std::optional<Rewritten> stageable(const std::string& text) {
  const ir::TensorProgram program = ir::parse_program(text);
  return rtile::stageable(program, rtile::build_nests(program));
}
std::string product(const std::string& a, const std::string& b, const std::string& rest = "") {
  return R"({"inputs": {"A": {"shape": [64, 70]}, "B": {"shape": [96, 70])" + rest + R"(}}, "compute": ["C[i:64, j:96] = sum(k:70 | )" + a +
         " * " + b + ")\"]}";
}

}  // namespace

TEST_CASE("the operand along the reduction is copied once, in rows that start on lines and share no sets") {
  const auto r = relayout(product("A[i, k]", "B[j, k]"));
  REQUIRE(r);
  REQUIRE(r->nests.size() == 2);
  CHECK(r->nests[0].copies);
  CHECK_FALSE(r->nests[1].copies);
  const ir::Tensor& copy = r->program->tensors.back();
  CHECK(copy.name == "B_t");
  CHECK(copy.kind == ir::TensorKind::intermediate);
  REQUIRE(copy.shape.size() == 2);
  CHECK(copy.shape[0].value() == 70);
  CHECK(copy.shape[1].value() == 96);
  CHECK(copy.strides[0].value() == 96);
  CHECK(copy.strides[1].value() == 1);
  CHECK(rtile::nest_facts(*r->program, r->nests[1]).operands[1].coef == std::vector<int64_t>{0, 1, 96});
}

TEST_CASE("rows of a copy are no multiple of 512 bytes apart") {
  const auto r = relayout(R"({"op": "attention", "params": {"heads": 2, "seq": 128, "dim": 64}})");
  REQUIRE(r);
  const ir::Tensor& copy = r->program->tensors.back();
  CHECK(copy.strides[2].value() == 144);
  CHECK(copy.strides[1].value() == 64 * 144);
}

TEST_CASE("nothing is copied that vectors can read, or that is packed before the first call") {
  CHECK_FALSE(relayout(R"({"op": "matmul", "params": {"m": 64, "n": 64, "k": 64}})"));
  CHECK_FALSE(relayout(R"({"op": "softmax", "params": {"shape": [64, 64]}})"));
  CHECK_FALSE(relayout(product("A[i, k]", "B[j, k]", R"(, "constant": true)")));
}

TEST_CASE("a tensor that the program makes is copied behind the nest that makes it") {
  const auto r = relayout(R"x({"inputs": {"X": {"shape": [40, 24]}, "W": {"shape": [24, 24]}},
    "compute": ["K[j:40, d:24] = sum(e:24 | X[j, e] * W[e, d])", "S[i:40, j:40] = sum(d:24 | X[i, d] * K[j, d])"]})x");
  REQUIRE(r);
  REQUIRE(r->nests.size() == 3);
  CHECK_FALSE(r->nests[0].copies);
  CHECK(r->nests[1].copies);
  CHECK_FALSE(r->nests[2].copies);
}

TEST_CASE("names of copies are new") {
  const auto r = relayout(R"x({"inputs": {"B_t": {"shape": [64, 70]}, "B": {"shape": [96, 70]}},
    "compute": ["C[i:64, j:96] = sum(k:70 | B_t[i, k] * B[j, k])"]})x");
  REQUIRE(r);
  CHECK(r->program->tensors.back().name == "B_t_");
}

TEST_CASE("planes over which windows slide are copied with their channels innermost") {
  const char* depthwise = R"x({"inputs": {"X": {"shape": [2, 40, 7, 7]}, "W": {"shape": [40, 3, 3], "constant": true}},
    "compute": ["Y[n:2, c:40, p:7, q:7] = sum(r:3, s:3 | X[n, c, p + r - 1, q + s - 1 ? 0] * W[c, r, s])"], "outputs": ["Y"]})x";
  const auto r = relayout(depthwise);
  REQUIRE(r);
  REQUIRE(r->nests.size() == 2);
  CHECK(r->nests[0].copies);
  const ir::Tensor& copy = (*r->program)[r->nests[0].inner[0].tensor];
  REQUIRE(copy.shape.size() == 4);
  CHECK(copy.shape.back().value() == 40);
  CHECK(copy.strides.back().value() == 1);
  // of other convolutions every channel is summed: nothing is independent
  CHECK_FALSE(relayout(R"x({"inputs": {"X": {"shape": [40, 9, 9]}, "W": {"shape": [16, 40, 3, 3], "constant": true}},
    "compute": ["Y[k:16, p:7, q:7] = sum(c:40, r:3, s:3 | X[c, p + r, q + s] * W[k, c, r, s])"], "outputs": ["Y"]})x"));
}

TEST_CASE("for a GPU that stages, the operand across the reduction is copied, borders and all") {
  const auto image = stageable(
      R"({"op": "conv2d", "dtype": "f16", "params": {"n": 1, "h": 8, "w": 9, "ci": 32, "co": 16, "r": 3, "s": 3, "stride": 1, "pad": 1,
                           "layout": "NCHW"}})");
  REQUIRE(image);
  REQUIRE(image->nests.size() == 2);
  CHECK(image->nests[0].copies);
  CHECK(image->nests[1].stage);
  const auto factors = rtile::contraction(image->nests[1]);
  REQUIRE(factors);
  CHECK(image->program->tensors.back().shape == std::vector<ir::Size>{1, 8, 9, 32});
  CHECK((factors->x->out_of_bounds || factors->y->out_of_bounds));
  const auto both = stageable(R"x({"inputs": {"A": {"shape": [72, 64], "dtype": "f16"}, "B": {"shape": [72, 96], "dtype": "f16"}},
                                  "compute": ["C[i:64, j:96] = sum(k:72 | A[k, i] * B[k, j])"]})x");
  REQUIRE(both);
  CHECK(both->nests.size() == 3);
  CHECK_FALSE(stageable(R"({"op": "matmul", "dtype": "f16", "params": {"m": 64, "n": 64, "k": 64}})"));
}

TEST_CASE("for a GPU that stages, rows that are no whole pieces apart are copied into rows that are") {
  const auto odd = [](const std::string& of_b) {
    return stageable(R"x({"inputs": {"A": {"shape": [64, 70], "dtype": "f16"}, "B": {"shape": [96, 70], "dtype": "f16")x" + of_b +
                     R"x(}}, "compute": ["C[i:64, j:96] = sum(k:70 | A[i, k] * B[j, k])"]})x");
  };
  const auto both = odd("");  // 140 bytes
  REQUIRE(both);
  REQUIRE(both->nests.size() == 3);
  const ir::Tensor& copy = both->program->tensors.back();
  CHECK(copy.shape.back() == ir::Size(70));
  CHECK(copy.strides[0].value() * 2 % 16 == 0);
  CHECK(both->nests.back().stage);
  const auto activation = odd(R"(, "constant": true)");
  REQUIRE(activation);
  CHECK(activation->nests.size() == 2);
  const auto mm = [](int m, int n, int k) {
    return R"({"op": "matmul", "dtype": "s8", "params": {"m": )" + std::to_string(m) + ", \"n\": " + std::to_string(n) +
           ", \"k\": " + std::to_string(k) + "}}";
  };
  CHECK(stageable(mm(64, 64, 100)));
  CHECK_FALSE(stageable(mm(64, 64, 112)));
  CHECK_FALSE(stageable(mm(64, 64, 7)));  // no step of k to gain
  CHECK_FALSE(stageable(mm(64, 7, 69)));  // an element is read too seldom
  // lanes take single elements
  CHECK_FALSE(stageable(product("A[i, k]", "B[j, k]")));
  CHECK_FALSE(stageable(R"({"op": "conv2d", "params": {"n": 1, "h": 8, "w": 9, "ci": 32, "co": 16, "r": 3, "s": 3, "stride": 1, "pad": 1,
                            "layout": "NCHW"}})"));
}

TEST_CASE("for a GPU that stages, the narrower of two factors is copied into the type of the other") {
  const auto mixed = [](const std::string& p, const std::string& v) {
    return stageable(R"x({"inputs": {"P": {"shape": [40, 64], "dtype": ")x" + p + R"x("}, "V": {"shape": [64, 32], "dtype": ")x" + v +
                     R"x("}}, "compute": ["O[i:40, d:32] = sum(j:64 | P[i, j] * V[j, d])"]})x");
  };
  const auto values = mixed("f32", "f16");
  REQUIRE(values);
  REQUIRE(values->nests.size() == 2);
  CHECK(values->program->tensors.back().dtype == DType::f32);
  CHECK(values->program->tensors.back().shape == std::vector<ir::Size>{64, 32});
  const auto both = mixed("bf16", "f16");
  REQUIRE(both);
  CHECK(both->nests.size() == 3);
  const auto same = mixed("f16", "f16");
  REQUIRE(same);
  CHECK(same->program->tensors.back().dtype == DType::f16);
  CHECK(same->program->tensors.back().shape == std::vector<ir::Size>{32, 64});
}
