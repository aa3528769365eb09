// Copies in another layout, for products of an operand that lies along the reduction.
#include "rtile/relayout.h"

#include <doctest/doctest.h>

#include "ir/ir.h"
#include "rtile/nest_facts.h"

using namespace rgen;
using rtile::Rewritten;

namespace {

std::optional<Rewritten> relayout(const std::string& text, std::vector<rtile::Nest>* nests = nullptr) {
  const ir::TensorProgram program = ir::parse_program(text);
  const auto built = rtile::build_nests(program);
  if (nests) *nests = built;
  return rtile::relayout(program, built);
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
  const auto of = [](const std::string& text) {
    const ir::TensorProgram program = ir::parse_program(text);
    return rtile::relayout(program, rtile::build_nests(program), true);
  };
  const auto image = of(R"({"op": "conv2d", "params": {"n": 1, "h": 8, "w": 9, "ci": 32, "co": 16, "r": 3, "s": 3, "stride": 1, "pad": 1,
                           "layout": "NCHW"}})");
  REQUIRE(image);
  REQUIRE(image->nests.size() == 2);
  CHECK(image->nests[0].copies);
  CHECK(image->nests[1].stage);
  const auto factors = rtile::contraction(image->nests[1]);
  REQUIRE(factors);
  CHECK(image->program->tensors.back().shape == std::vector<ir::Size>{1, 8, 9, 32});
  CHECK((factors->x->out_of_bounds || factors->y->out_of_bounds));
  const auto both = of(R"x({"inputs": {"A": {"shape": [70, 64]}, "B": {"shape": [70, 96]}},
                           "compute": ["C[i:64, j:96] = sum(k:70 | A[k, i] * B[k, j])"]})x");
  REQUIRE(both);
  CHECK(both->nests.size() == 3);
  CHECK_FALSE(of(product("A[i, k]", "B[j, k]")));
  CHECK_FALSE(of(R"({"op": "matmul", "params": {"m": 64, "n": 64, "k": 64}})"));
}
