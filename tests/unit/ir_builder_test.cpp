#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ir.h"

using namespace rgen;
using namespace rgen::ir;

TEST_CASE("the builder makes what the JSON form makes") {
  Builder b("mm_relu");
  const TensorRef A = b.input("A", {128, 64}), B = b.input("B", {64, 32}, DType::f32, {.constant = true});
  const Ax m = b.axis("m", 128), n = b.axis("n", 32), k = b.axis("k", 64);
  const TensorRef C = b.stage("C", {m, n}, sum({k}, A(m, k) * B(k, n)));
  const TensorRef D = b.stage("D", {m, n}, max(C(m, n), 0));
  CHECK(equal(b.build({D}),
              parse_program(R"json({"name": "mm_relu", "inputs": {"A": {"shape": [128, 64]}, "B": {"shape": [64, 32], "constant": true}},
    "compute": ["C[m:128, n:32] = sum(k:64 | A[m,k]*B[k,n])", "D[m:128, n:32] = max(C[m,n], 0)"]
})json")));
}

TEST_CASE("indices, padding, symbolic dimensions and casts") {
  Builder b("conv");
  const Size M = b.dim("M", 1, 64);
  const TensorRef X = b.input("X", {M, 20}, DType::bf16), W = b.input("W", {3});
  const Ax i = b.axis("i", M), p = b.axis("p", 10), r = b.axis("r", 3);
  const TensorRef Y = b.stage("Y", {i, p}, sum({r}, X.padded(0, {i, 2 * p + r - 1}) * W(r)));
  const TensorRef Z = b.stage("Z", {i, p}, cast(DType::bf16, select(p % 2 == 0, Y(i, p / 2), tanh(Y(i, p)) + i)));
  const TensorProgram program = b.build({Z});
  CHECK(equal(program, parse_program(R"json({"name": "conv", "dims": {"M": {"min": 1, "max": 64}},
    "inputs": {"X": {"shape": ["M", 20], "dtype": "bf16"}, "W": {"shape": [3]}},
    "compute": ["Y[i:M, p:10] = sum(r:3 | X[i, 2*p + r - 1 ? 0] * W[r])", "Z[i:M, p:10] = bf16(select(p%2 == 0, Y[i, p/2], tanh(Y[i,p]) + i))"]
})json")));
}

TEST_CASE("the builder refuses what the language refuses") {
  Builder b("bad");
  const TensorRef A = b.input("A", {4});
  const Ax i = b.axis("i", 4), j = b.axis("j", 4);
  CHECK_THROWS_AS(b.stage("S", {i}, A(j)), Error);      // not an axis of the stage
  CHECK_THROWS_AS(b.stage("S", {i}, A(i, i)), Error);   // rank
  CHECK_THROWS_AS(b.stage("S", {i + 1}, A(0)), Error);  // no plain axis
  CHECK_THROWS_AS(b.axis("1", 4), Error);
  CHECK_THROWS_AS(b.dim("N", 0, 4), Error);
  const TensorRef S = b.stage("S", {i}, A(i + 1));
  CHECK_THROWS_AS(b.build({S}), Error);  // outside
  CHECK_THROWS_AS(b.build({A}), Error);
  CHECK_THROWS_AS(b.input("late", {4}), Error);
}
