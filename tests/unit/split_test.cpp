// Reductions cut into parts: what becomes of the nests.
#include "rtile/split.h"

#include <doctest/doctest.h>

#include "hwmodel/profile.h"
#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/nest_facts.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

ir::TensorProgram product(int k, const std::string& type = "f32") {
  return ir::parse_program("{\"name\": \"mm\", \"op\": \"matmul\", \"dtype\": \"" + type +
                           "\", \"params\": {\"m\": 3, \"n\": 5, \"k\": " + std::to_string(k) + "}, \"epilogue\": [\"bias\", \"relu\"]}");
}

}  // namespace

TEST_CASE("the parts are one nest, their sum and the epilogue another") {
  const ir::TensorProgram p = product(96, "bf16");
  const auto nests = rtile::build_nests(p);
  REQUIRE(nests.size() == 1);
  const auto split = rtile::split_reductions(p, nests, {4}, true);
  REQUIRE(split);
  REQUIRE(split->nests.size() == 2);
  const rtile::Nest &part = split->nests[0], &rest = split->nests[1];
  const ir::Tensor& sums = split->program->tensors.back();
  CHECK(sums.dtype == DType::f32);  // of bf16 factors
  CHECK(sums.shape == std::vector<ir::Size>{3, 3, 5});
  CHECK(sums.kind == ir::TensorKind::intermediate);
  CHECK(part.stage);
  CHECK(part.axes.back().extent == 3);  // whole steps of 16: not 4 parts of 24
  CHECK_FALSE(part.axes.back().reduced);
  CHECK(part.outer.empty());
  CHECK(part.points() == 3 * 5 * 96);
  CHECK_FALSE(rest.stage);
  CHECK(rest.points() == 3 * 5 * 3);
  CHECK(rest.outer.size() == nests[0].outer.size());
  const auto factors = rtile::contraction(part);
  REQUIRE(factors);
  const ir::Index& k = factors->x->index.back();  // 32·part + k
  CHECK(k.coef(int(part.axes.size()) - 1) == 32);
}

TEST_CASE("what cannot be cut stays whole") {
  const ir::TensorProgram p = product(96);
  CHECK_FALSE(rtile::split_reductions(p, rtile::build_nests(p), {1}, true));
  const ir::TensorProgram prime = product(97);
  CHECK_FALSE(rtile::split_reductions(prime, rtile::build_nests(prime), {8}, true));
  const ir::TensorProgram map = ir::parse_program(R"({"name": "r", "op": "relu", "dtype": "f32", "params": {"shape": [64, 64]}})");
  CHECK_FALSE(rtile::split_reductions(map, rtile::build_nests(map), {8}, true));
}

TEST_CASE("parts of nearly equal length, and what is left of whole steps") {
  const ir::TensorProgram p = product(1003);
  const auto split = rtile::split_reductions(p, rtile::build_nests(p), {4}, false);
  REQUIRE(split);
  REQUIRE(split->nests.size() == 3);
  const rtile::Nest &part = split->nests[0], &left = split->nests[1], &rest = split->nests[2];
  CHECK(part.points() == 3 * 5 * 960);  // 4 parts of 15 steps of 16
  CHECK(left.points() == 3 * 5 * 43);
  CHECK(left.inner[0].index[0] == ir::Index::number(4));
  CHECK(rtile::contraction(left)->x->index.back().constant == 960);
  CHECK(split->program->tensors.back().shape == std::vector<ir::Size>{5, 3, 5});
  CHECK(rest.points() == 3 * 5 * 5);
}

TEST_CASE("threads cut sums that would leave them idle, and no others") {
  const auto groups = [](const std::string& shape, int axis, int threads) {
    const ir::TensorProgram p = ir::parse_program(R"({"name": "s", "op": "reduce_sum", "dtype": "f32", "params": {"shape": )" + shape +
                                                  ", \"axis\": " + std::to_string(axis) + "}}");
    return rtile::construct(p, hw::load_profile("zen5"), {threads, 1}).front().program->groups.size();
  };
  CHECK(groups("[1, 200003]", 1, 1) == 1);
  CHECK(groups("[1, 200003]", 1, 2) == 3);
  CHECK(groups("[1, 200000]", 1, 5) == 2);
  CHECK(groups("[1, 2003]", 1, 2) == 1);     // sooner done than begun
  CHECK(groups("[2000, 2000]", 1, 2) == 1);  // a thread each
}

TEST_CASE("a GPU cuts sums that leave it idle, and no others") {
  const auto parts = [](const std::string& shape) {
    const auto p = std::make_shared<const ir::TensorProgram>(
        ir::parse_program(R"({"name": "s", "op": "reduce_sum", "dtype": "f32", "params": {"shape": )" + shape + R"(, "axis": 0}})"));
    const auto plans = rtile::construct(*p, hw::load_profile("a100"), {});
    return plans.front().program->groups.size();
  };
  CHECK(parts("[8192, 512]") == 2);
  CHECK(parts("[8, 1000000]") == 1);
}
