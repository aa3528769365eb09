// Documents and index notation: what they mean.
#include <doctest/doctest.h>

#include <limits>

#include "base/error.h"
#include "ir/ir.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

TensorProgram expression(const std::string& statement, const std::string& inputs = R"("A": {"shape": [4, 5]}, "B": {"shape": [5, 6]})") {
  return parse_program(R"({"name": "t", "inputs": {)" + inputs + R"(}, "compute": [")" + statement + R"("]})");
}

const Stage& last(const TensorProgram& p) { return p.stages.back(); }

/// The value of a body without accesses.
std::string printed(const TensorProgram& p) { return print_statement(p, last(p)); }

}  // namespace

TEST_CASE("the contract's example") {
  const TensorProgram p = parse_program(R"json({ "name": "mm_relu", "dims": {"M": 128, "N": 96, "K": 64},
    "inputs": { "A": {"shape": ["M","K"], "dtype": "f32"}, "B": {"shape": ["K","N"], "dtype": "f32", "constant": true} },
    "compute": [ "C[m:M, n:N] = sum(k:K | A[m,k] * B[k,n])", "D[m:M, n:N] = max(C[m,n], 0)" ], "outputs": ["D"] })json");
  CHECK(p.name == "mm_relu");
  REQUIRE(p.tensors.size() == 4);
  CHECK(p.inputs == std::vector<int>{0, 1});
  CHECK(p.outputs == std::vector<int>{3});
  CHECK_FALSE(p[0].constant);
  CHECK(p[1].constant);
  CHECK(p[2].kind == TensorKind::intermediate);
  CHECK(p[2].shape == std::vector<Size>{128, 96});
  REQUIRE(p.stages.size() == 2);
  const Stage& c = p.stages[0];
  CHECK(c.reduce == ReduceOp::sum);
  CHECK(c.n_out == 2);
  REQUIRE(c.axes.size() == 3);
  CHECK(c.axes[2].name == "k");
  CHECK(c.axes[2].extent == Size(64));
  const auto& product = std::get<Binary>(c.body->node);
  CHECK(product.op == BinaryOp::mul);
  CHECK(std::get<Access>(product.y->node).index == std::vector<Index>{Index::axis(2), Index::axis(1)});
}

TEST_CASE("a document is a spec, a list, or workloads") {
  const std::string a = R"({"name": "a", "op": "relu", "params": {"shape": [3]}})",
                    b = R"({"name": "b", "op": "relu", "params": {"shape": [0]}})";
  CHECK(parse_specs(a, "x").size() == 1);
  const auto list = parse_specs("[" + b + "," + a + ", 3]", "x");
  REQUIRE(list.size() == 3);
  CHECK(list[0].name == "b");
  CHECK_THROWS_AS(list[0].build(), Error);  // and the others still work
  CHECK(list[1].build().name == "a");
  CHECK(list[2].name.empty());
  CHECK_THROWS_AS(list[2].build(), Error);
  CHECK(parse_specs(R"({"version": 1, "notes": "n", "workloads": [)" + a + "]}", "x").size() == 1);
  CHECK_THROWS_AS(parse_program("[" + a + "," + a + "]"), Error);
}

TEST_CASE("precedence and associativity") {
  const auto same = [](const char* a, const char* b) {
    INFO(a << " = " << b);
    CHECK(equal(expression(std::string("S[i:4] = ") + a, R"("A": {"shape": [4]})"),
                expression(std::string("S[i:4] = ") + b, R"("A": {"shape": [4]})")));
  };
  same("A[i] + 2*A[i] - 3", "(A[i] + (2*A[i])) - 3");
  same("A[i]/2/4", "(A[i]/2)/4");
  same("-A[i]*3", "(-A[i])*3");
  same("A[i] - -2", "A[i] - (-2)");
  same("select(A[i] + 1 < 2*A[i], 1, 0)", "select((A[i] + 1) < (2*A[i]), 1, 0)");
  same("A[i]*1.5e1", "A[i] * 15");
  same("max(A[i], 1, 2)", "max(max(A[i], 1), 2)");
  same("A[i]*(1/2)", "A[i]*0.5");
  same("A[i]*sqrt(4)", "A[i]*2");
  same("A[i + 0*3]", "A[i]");
}

TEST_CASE("axes are values, and with whole numbers they are indices") {
  const std::string a = R"("A": {"shape": [8]})";
  const auto body = [&](const char* text) { return last(expression(std::string("S[i:8] = A[i]*") + text, a)).body; };
  const auto factor = [&](const char* text) { return std::get<Binary>(body(text)->node).y; };
  CHECK(std::get<IndexValue>(factor("i")->node).index == Index::axis(0));
  CHECK(std::get<IndexValue>(factor("(2*i + 1)")->node).index == Index::axis(0, 2) + Index::number(1));
  CHECK(std::get<IndexValue>(factor("(i/2)")->node).index == floor_div(Index::axis(0), 2));
  CHECK(std::get<IndexValue>(factor("(i%3)")->node).index == floor_mod(Index::axis(0), 3));
  CHECK(std::get<Binary>(factor("(i/2.0)")->node).op == BinaryOp::div);
  CHECK(std::get<Binary>(factor("(i*i)")->node).op == BinaryOp::mul);
}

TEST_CASE("max and min are reductions with '|', functions without") {
  const TensorProgram p = expression("M[i:4] = max(j:5 | max(A[i,j], min(A[i,j], 0)))", R"("A": {"shape": [4, 5]})");
  REQUIRE(p.stages.size() == 1);
  CHECK(last(p).reduce == ReduceOp::max);
}

TEST_CASE("reductions inside expressions become stages over the axes they use") {
  const TensorProgram p = expression("C[i:4, n:6] = A[i,0] / sum(k:5 | A[i,k]) + prod(k:5 | B[k,n])");
  REQUIRE(p.stages.size() == 3);
  CHECK(p[p.stages[0].output].name == "C_sum");
  CHECK(p[p.stages[0].output].shape == std::vector<Size>{4});
  CHECK(p[p.stages[1].output].name == "C_prod");
  CHECK(p[p.stages[1].output].shape == std::vector<Size>{6});
  CHECK(p[p.stages[0].output].kind == TensorKind::intermediate);
}

TEST_CASE("a reduction may stand inside another") {
  const TensorProgram p = expression("S[] = sum(i:4 | A[i,0] * max(k:5 | A[i,k] + 1))", R"("A": {"shape": [4, 5]})");
  REQUIRE(p.stages.size() == 2);
  CHECK(p[p.stages[0].output].shape == std::vector<Size>{4});
  CHECK(p[p.outputs[0]].shape.empty());
}

TEST_CASE("a name made for a reduction avoids the names given") {
  const TensorProgram p = parse_program(R"json({"inputs": {"A": {"shape": [4]}},
    "compute": ["C_sum[i:4] = A[i]", "C[i:4] = C_sum[i] / sum(j:4 | A[j])"]})json");
  CHECK(p[p.stages[1].output].name == "C_sum2");
}

TEST_CASE("out_of_bounds: of the input, or of one access; needless ones go") {
  const auto access_of = [](const TensorProgram& p) { return std::get<Access>(last(p).body->node); };
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(access_of(expression("C[i:4] = A[i-1]", R"("A": {"shape": [4], "out_of_bounds": "-inf"})")).out_of_bounds == -inf);
  CHECK(access_of(expression("C[i:4] = A[i-1 ? 3]", R"("A": {"shape": [4], "out_of_bounds": 2})")).out_of_bounds == 3);
  CHECK(access_of(expression("C[i:4] = A[i+1 ? -inf]", R"("A": {"shape": [4]})")).out_of_bounds == -inf);
  CHECK(access_of(expression("C[i:4, j:5] = A[i+1 ? 0, j]", R"("A": {"shape": [4, 5]})")).out_of_bounds == 0);
  CHECK_FALSE(access_of(expression("C[i:4] = A[i ? 3]", R"("A": {"shape": [4]})")).out_of_bounds);
  CHECK_FALSE(access_of(expression("C[i:3] = A[i+1]", R"("A": {"shape": [4], "out_of_bounds": 1})")).out_of_bounds);
}

TEST_CASE("dtypes follow from inputs and casts") {
  const auto dtype = [](const char* type_a, const char* type_b, const char* value) {
    const TensorProgram p =
        parse_program(std::string(R"({"inputs": {"A": {"shape": [4], "dtype": ")") + type_a + R"("}, "B": {"shape": [4], "dtype": ")" +
                      type_b + R"("}}, "compute": "C[i:4] = )" + value + "\"}");
    return p[p.outputs[0]].dtype;
  };
  CHECK(dtype("bf16", "bf16", "A[i]*B[i]") == DType::f32);
  CHECK(dtype("s8", "u8", "A[i]*B[i] + 1") == DType::s32);
  CHECK(dtype("s8", "f32", "A[i]*B[i]") == DType::f32);
  CHECK(dtype("s8", "s8", "A[i]/B[i]") == DType::f32);
  CHECK(dtype("s8", "s8", "A[i]*B[i]*0.5") == DType::f32);
  CHECK(dtype("f32", "f32", "bf16(A[i]*B[i])") == DType::bf16);
  CHECK(dtype("s8", "s8", "f32(A[i]) + B[i]") == DType::f32);
  CHECK(dtype("s8", "s8", "select(A[i] < B[i], 1, 0)") == DType::f32);
  CHECK(dtype("s32", "s8", "select(A[i] < B[i], A[i], 0)") == DType::s32);
}

TEST_CASE("an output's dtype may be asked for") {
  const std::string inputs = R"({"inputs": {"A": {"shape": [4, 5]}}, "compute": ")";
  const TensorProgram sum = parse_program(inputs + R"json(D[i:4] = sum(k:5 | A[i,k])", "outputs": [{"name": "D", "dtype": "bf16"}]
})json");
  REQUIRE(sum.stages.size() == 2);  // a reduction and its cast
  CHECK(sum[sum.outputs[0]].dtype == DType::bf16);
  CHECK(sum[sum.stages[0].output].dtype == DType::f32);
  const TensorProgram plain = parse_program(inputs + R"(D[i:4] = A[i,0]*2", "outputs": [{"name": "D", "dtype": "s8"}]})");
  REQUIRE(plain.stages.size() == 1);
  CHECK(plain[plain.outputs[0]].dtype == DType::s8);
}

TEST_CASE("statements are ordered by what they read") {
  const TensorProgram p =
      parse_program(R"({"inputs": {"A": {"shape": [4]}}, "compute": ["C[i:4] = B[i]*2", "B[i:4] = A[i]+1"], "outputs": ["C", "B"]})");
  CHECK(p[p.stages[0].output].name == "B");
  CHECK(p[p.outputs[0]].name == "C");
  CHECK(p[p.outputs[1]].name == "B");
}

TEST_CASE("symbolic dimensions stay, fixed ones fold") {
  const TensorProgram p = parse_program(R"({"dims": {"M": {"min": 2, "max": 64, "multiple_of": 2}, "K": 3, "P": "(M+2*1-K)/1+1"},
    "inputs": {"A": {"shape": ["M", "K"], "strides": ["K+1", 1]}}, "compute": ["R[m:P] = sum(k:K | A[m,k]) / M"]})");
  REQUIRE(p.dims.size() == 1);
  CHECK(p.dims[0] == Dim{"M", 2, 64, 2});
  CHECK(p[0].shape[0] == Size::dim(0));
  CHECK(p[0].strides[0] == Size(4));
  CHECK(p[p.outputs[0]].shape[0].eval({10}) == 10);
  REQUIRE(p.stages.size() == 3);  // the sum, M as a value, the quotient
}

TEST_CASE("the short form") {
  const TensorProgram p = parse_short("C[m,n] = sum(k | A[m,k]*B[k,n]); D[m,n] = max(C[m,n], 0)", {{"m", 3}, {"n", 4}, {"k", 5}});
  CHECK(p.inputs.size() == 2);
  CHECK(p[p.inputs[1]].shape == std::vector<Size>{5, 4});
  CHECK(p[p.outputs[0]].name == "D");
  CHECK(p.outputs.size() == 1);
  CHECK(parse_short("S[] = sum(i:7 | A[i])", {{"i", 7}}).stages.size() == 1);
  CHECK_THROWS_AS(parse_short("C[m] = A[m+1]", {{"m", 3}}), Error);
  CHECK_THROWS_AS(parse_short("C[m,n] = A[m,n]", {{"m", 3}}), Error);
  CHECK_THROWS_AS(parse_short("C[m] = A[m]", {{"m", 0}}), Error);
  CHECK_THROWS_AS(parse_short("", {}), Error);
}

TEST_CASE("math modes") {
  const auto math = [](const char* name) {
    return parse_program(std::string(R"({"op": "relu", "params": {"shape": [3]}, "math": ")") + name + "\"}").math;
  };
  CHECK(math("ieee") == Math::ieee);
  CHECK(math("tf32") == Math::tf32);
  CHECK(math("bf16x3") == Math::bf16x3);
}

TEST_CASE("statements print as they are written") {
  CHECK(printed(expression("C[m:4, n:6] = sum(k:5 | A[m, k] * B[k, n])")) == "C[m:4, n:6] = sum(k:5 | A[m, k] * B[k, n])");
  CHECK(printed(expression("C[p:3] = A[2*p - 3 ? -inf]", R"("A": {"shape": [4]})")) == "C[p:3] = A[2*p - 3 ? -inf]");
  CHECK(printed(expression("C[i:4] = select(i < 2, exp(-A[i]), A[i/2])", R"("A": {"shape": [4]})")) ==
        "C[i:4] = select(i < 2, exp(-A[i]), A[i/2])");
}
