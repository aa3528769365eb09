// Every malformed spec is an Error{invalid_spec} that names the place, the cause and the nearest thing that would work.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/ir.h"
#include "support/check.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

/// The text of the error that a document raises; "" if it raises none.
std::string error_of(const std::string& text) {
  try {
    for (const SpecEntry& e : parse_specs(text, "spec.json")) e.build();
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::invalid_spec);
    CHECK(e.context().compare(0, 9, "spec.json") == 0);
    return e.what();
  }
  return {};
}

/// All `parts` stand in the error of `text`.
void rejects(const std::string& text, const std::vector<std::string>& parts) {
  const std::string error = error_of(text);
  INFO(text.substr(0, 300));
  INFO(error);
  CHECK_FALSE(error.empty());
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(error.find(part) != std::string::npos);
  }
}

/// A tensor expression over A[4,5] and B[5,6].
std::string with(const std::string& statement, const std::string& more = "") {
  return R"({"dims": {"M": 4, "K": 5, "N": 6}, "inputs": {"A": {"shape": ["M", "K"]}, "B": {"shape": ["K", "N"]}}, "compute": [")" +
         statement + "\"]" + more + "}";
}
std::string preset(const std::string& body) { return "{" + body + "}"; }

}  // namespace

TEST_CASE("not JSON: line and column") {
  rejects("", {"line 1, column 1"});
  rejects("{\n  \"op\": relu\n}", {"line 2, column"});
  rejects(R"({"op": "relu",})", {"line 1, column 15"});
  rejects("{\"name\": \"\x01\"}", {"line 1"});
  rejects("{\"name\": \"\xff\"}", {"line 1", "UTF-8"});
  rejects("[1, 2", {"line 1, column 6"});
  rejects(R"({"op": "relu"} x)", {"line 1"});
  rejects(R"({"op": "relu", "op": "relu"})", {"'op' stands twice"});
  rejects(R"({"name": 1e999})", {"line 1"});
}

TEST_CASE("nested brackets are refused at once") {
  const auto start = std::chrono::steady_clock::now();
  rejects(std::string(size_t{100} << 20, '['), {"nested deeper than 64", "line 1, column 65"});
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  rejects(objects, {"nested deeper than 64"});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

TEST_CASE("deeply nested expressions are refused, not recursed into") {
  rejects(with("C[m:M] = " + std::string(20000, '(')), {"column", "nested too deeply"});
  rejects(with("C[m:M] = " + std::string(20000, '-') + "1"), {"nested too deeply"});
  std::string sum = "C[m:M] = A[m,0]";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  rejects(with(sum), {"nested too deeply"});
  rejects(with("C[m:M] = " + std::string(100000, ' ') + "1"), {"longer than"});
  rejects(R"({"dims": {"M": ")" + std::string(20000, '(') + R"("}, "compute": "C[m:M] = 1"})", {"/dims/M", "nested too deeply"});
}

TEST_CASE("documents of the wrong shape") {
  rejects("3", {"expected an object"});
  rejects("[]", {"empty"});
  rejects(R"({"workloads": []})", {"empty"});
  rejects(R"({"workloads": {}})", {"/workloads", "array"});
  rejects(R"({"workloads": [], "workload": 1})", {"unknown key 'workload'", "did you mean 'workloads'"});
  rejects("{}", {"neither"});
  rejects(R"({"op": "relu", "compute": []})", {"not both"});
  rejects(R"({"op": 3})", {"/op", "expected a string"});
  rejects(R"({"op": "relu", "name": 3, "params": {"shape": [1]}})", {"/name", "expected a string"});
  rejects(R"({"op": "relu", "name": "a/b", "params": {"shape": [1]}})", {"/name"});
  rejects(R"([{"op": "relu", "params": {"shape": [1]}}, {"op": "relu", "params": {"shape": [2.5]}}])",
          {"spec.json: /1/params/shape/0", "whole number"});
  rejects(R"({"workloads": [{"op": "relu", "params": 1}]})", {"/workloads/0/params"});
}

TEST_CASE("unknown keys name the nearest") {
  rejects(R"({"opp": "relu"})", {"/opp", "unknown key 'opp'", "did you mean 'op'"});
  rejects(preset(R"("op": "relu", "parms": {})"), {"/parms", "did you mean 'params'"});
  rejects(preset(R"("op": "matmul", "params": {"m": 1, "n": 1, "kk": 1})"), {"/params/kk", "did you mean 'k'"});
  rejects(preset(R"("op": "conv2d", "params": {"stride_h": 1})"), {"unknown key 'stride_h'"});
  rejects(with("C[m:M] = A[m,0]", R"(, "output": ["C"])"), {"/output", "did you mean 'outputs'"});
  rejects(R"({"inputs": {"A": {"shpe": [1]}}, "compute": "C[i:1] = A[i]"})", {"/inputs/A/shpe", "did you mean 'shape'"});
  rejects(R"({"dims": {"M": {"min": 1, "mx": 2}}, "compute": "C[i:M] = 1"})", {"/dims/M/mx", "did you mean 'max'"});
  rejects(with("C[m:M] = A[m,0]", R"(, "outputs": [{"nme": "C"}])"), {"/outputs/0/nme", "did you mean 'name'"});
}

TEST_CASE("unknown names") {
  rejects(preset(R"("op": "softmx", "params": {})"), {"/op", "unknown op 'softmx'", "did you mean 'softmax'"});
  rejects(preset(R"("op": "relu", "dtype": "f23", "params": {"shape": [1]})"), {"/dtype", "did you mean 'f32'"});
  rejects(preset(R"("op": "relu", "params": {"shape": [1]}, "epilogue": ["gelu_tan"])"), {"/epilogue/0", "did you mean 'gelu_tanh'"});
  rejects(preset(R"("op": "relu", "params": {"shape": [1]}, "math": "ieeee")"), {"/math", "did you mean 'ieee'"});
  rejects(preset(R"("op": "maxpool", "params": {"h": 4, "w": 4, "c": 1, "r": 2, "layout": "NHCW"})"), {"/params/layout", "did you mean"});
  rejects(with("C[m:M] = AA[m,0]"), {"/compute/0: column 10", "unknown tensor 'AA'", "did you mean 'A'"});
  rejects(with("C[row:M] = A[rwo,0]"), {"/compute/0: column 14", "unknown axis 'rwo'", "did you mean 'row'"});
  rejects(with("C[m:M] = A[m,0] * mm"), {"column 19", "unknown axis 'mm'", "did you mean 'm'"});
  rejects(with("C[m:MM] = A[m,0]"), {"column 5", "unknown dimension 'MM'", "did you mean 'M'"});
  rejects(with("C[m:M] = exq(A[m,0])"), {"column 10", "unknown function 'exq'", "did you mean 'exp'"});
  rejects(with("C[m:M] = A[m,0]", R"(, "outputs": ["D"])"), {"/outputs/0", "output 'D' is never written", "did you mean 'C'"});
  rejects(R"({"inputs": {"A": {"shape": ["N"]}}, "compute": "C[i:1] = A[i]"})", {"/inputs/A/shape/0", "unknown dimension 'N'"});
}

TEST_CASE("ranks, dtypes and types") {
  rejects(with("C[m:M] = A[m]"), {"/compute/0: column 10", "2 dimensions", "1 indices"});
  rejects(with("C[m:M] = A"), {"column 10", "A[…]"});
  rejects(with("C[m:M] = A(m, 0)"), {"column 10", "brackets"});
  rejects(with("C[m:M] = exp(A[m,0], 1)"), {"column 10", "takes 1 argument, not 2"});
  rejects(with("C[m:M] = select(A[m,0], 1)"), {"takes 3 arguments"});
  rejects(R"({"inputs": {"A": {"shape": [4], "strides": [1, 2]}}, "compute": "C[i:4] = A[i]"})",
          {"/inputs/A/strides", "1 dimensions but 2 strides"});
  rejects(R"({"inputs": {"A": {"shape": [4], "strides": [-1]}}, "compute": "C[i:4] = A[i]"})", {"/inputs/A", "stride"});
  rejects(R"({"inputs": {"A": {"shape": [4], "dtype": "f64"}}, "compute": "C[i:4] = A[i]"})", {"/inputs/A/dtype", "unknown dtype 'f64'"});
  rejects(R"({"inputs": {"A": {"shape": [4], "constant": 1}}, "compute": "C[i:4] = A[i]"})", {"/inputs/A/constant", "true or false"});
  rejects(R"({"inputs": {"A": {"shape": [4], "out_of_bounds": "infinity"}}, "compute": "C[i:4] = A[i]"})",
          {"/inputs/A/out_of_bounds", "inf"});
  rejects(R"({"inputs": {"A": {"dtype": "f32"}}, "compute": "C[i:4] = A[i]"})", {"/inputs/A", "no \"shape\""});
  rejects(preset(R"("op": "matmul", "params": {"m": "8", "n": 1, "k": 1})"), {"/params/m", "whole number"});
  rejects(preset(R"("op": "matmul", "params": {"m": 8, "n": 1})"), {"/params", "lacks 'k'"});
  rejects(preset(R"("op": "matmul", "params": {"m": 8, "n": 1, "k": 1, "transpose_a": 1})"), {"/params/transpose_a", "true or false"});
}

TEST_CASE("a stage whose dtype is not its tensor's") {
  TensorProgram p = parse_short("C[i] = A[i]*2", {{"i", 4}});
  p.tensors[1].dtype = DType::bf16;
  CHECK_THROWS_WITH_AS(verify(p, "here"), "here: 'C' is bf16 but its stage computes f32; add a cast: bf16(…)", Error);
}

TEST_CASE("extents: 0, negative, above 2^31, overflowing") {
  for (const char* m : {"0", "-1", "2147483649", "9223372036854775807", "18446744073709551616", "1e30", "2.5"}) {
    rejects(preset(std::string(R"("op": "matmul", "params": {"n": 1, "k": 1, "m": )") + m + "}"), {"/params/m"});
    rejects(std::string(R"({"inputs": {"A": {"shape": [1, )") + m + R"(]}}, "compute": "C[i:1] = A[i,0]"})", {"/inputs/A/shape/1"});
  }
  rejects(R"({"dims": {"M": 0}, "inputs": {"A": {"shape": ["M"]}}, "compute": "C[i:1] = A[0]"})", {"/inputs/A/shape/0", "is 0"});
  rejects(R"({"dims": {"M": -3}, "inputs": {"A": {"shape": ["M"]}}, "compute": "C[i:1] = A[0]"})", {"/dims/M", "is -3"});
  rejects(with("C[m:M-4] = A[m,0]"), {"/compute/0: column 3", "is 0"});
  rejects(with("C[m:0] = A[m,0]"), {"column 3", "is 0"});
  rejects(with("C[m:2147483649] = 1"), {"column 3", "2147483649"});
  rejects(with("C[m:M/0] = A[m,0]"), {"column", "divided by 0"});
  rejects(R"({"dims": {"M": {"min": 0, "max": 4}}, "compute": "C[i:M] = 1"})", {"/dims/M", "1 <= min"});
  rejects(R"({"dims": {"M": {"min": 5, "max": 4}}, "compute": "C[i:M] = 1"})", {"/dims/M"});
  rejects(R"({"dims": {"M": {"min": 5, "max": 7, "multiple_of": 4}}, "compute": "C[i:M] = 1"})", {"/dims/M", "multiple"});
  rejects(R"({"dims": {"M": {"min": 1, "max": 9}}, "inputs": {"A": {"shape": ["M-1"]}}, "compute": "C[i:1] = A[0]"})",
          {"/inputs/A", "is 0 where M = 1"});
  rejects(preset(R"("op": "relu", "params": {"shape": [2147483648, 2147483648]})"), {"2^40"});
  rejects(preset(R"("op": "relu", "params": {"shape": [2147483648, 2147483648, 2147483648, 2147483648]})"), {"overflow"});
  rejects(R"json({"compute": "C[] = sum(i:2147483648, j:2147483648, k:2147483648 | i + j + k)"})json", {"2^62"});
  CHECK(error_of(R"({"inputs": {"A": {"shape": [2147483648]}}, "compute": "C[i:2147483648] = A[i]"})").empty());
}

TEST_CASE("indices outside their tensor") {
  rejects(with("C[m:M] = A[m+1,0]"), {"/compute/0: column 10", "index 0 of 'A' runs from 1 to 4", "outside 0 to 3", "out_of_bounds"});
  rejects(with("C[m:M] = A[m-1,0]"), {"runs from -1 to 2"});
  rejects(with("C[m:M] = 1 + A[m,5]"), {"column 14", "index 1"});
  rejects(with("C[m:M, n:N] = sum(k:K | A[m,k]*B[n,k])"), {"column 32", "index 0 of 'B' runs from 0 to 5"});
  rejects(with("C[m:M] = A[2*m/2 + m%2*3, 0]"), {"index 0"});
  rejects(with("C[m:4] = A[m,0]; D[m:5] = C[m]"), {"column"});
  rejects(R"({"dims": {"M": {"min": 1, "max": 9}}, "inputs": {"A": {"shape": ["M"]}}, "compute": "C[i:M] = A[i+1]"})", {"where M = "});
  rejects(with("C[m:M] = A[m+1 ? 0, 0 ? 1]"), {"column", "two values"});
  CHECK(error_of(R"({"inputs": {"A": {"shape": [8]}}, "compute": "C[i:32] = A[i%4 + i/16*4]"})").empty());
  CHECK(error_of(R"({"dims": {"M": {"min": 3, "max": 9}}, "inputs": {"A": {"shape": ["M"]}}, "compute": "C[i:M-2] = A[i+2]"})").empty());
}

TEST_CASE("indices that are no indices") {
  rejects(with("C[m:M] = A[m*m, 0]"), {"column", "affine"});
  rejects(with("C[m:M] = A[m/0, 0]"), {"column", "positive"});
  rejects(with("C[m:M] = A[m/m, 0]"), {"positive whole numbers"});
  rejects(with("C[m:M] = A[m*0.5, 0]"), {"whole numbers"});
  rejects(with("C[m:M] = A[exp(m), 0]"), {"axes, whole numbers"});
  rejects(with("C[m:M] = A[4294967296*m, 0]"), {"2^31"});
  rejects(R"({"dims": {"M": {"min": 1, "max": 9}}, "inputs": {"A": {"shape": ["M"]}}, "compute": "C[i:M] = A[M-1-i]"})",
          {"symbolic dimension 'M'"});
  rejects(with("C[m:M] = A[m,0] % 2"), {"column 17", "'%'"});
}

TEST_CASE("axes") {
  rejects(with("C[k:K] = sum(k:K | A[0,k])"), {"/compute/0: column 14", "axis 'k' is reduced here", "on the left"});
  rejects(with("C[m:M] = sum(k:K | A[m,k] * sum(k:K | A[m,k]))"), {"axis 'k' is reduced here"});
  rejects(with("C[m:M] = sum(k:K, k:K | A[m,k])"), {"named twice"});
  rejects(with("C[m:M, m:M] = A[m,0]"), {"column 8", "named twice"});
  rejects(with("C[m] = A[m,0]"), {"column 3", "axis 'm' has no range"});
  rejects(with("C[m:M] = sum(k:K, j:M | A[m,k])"), {"column 19", "axis 'j' is reduced but never used"});
  rejects(with("C[m:M] = sum(k:K | A[m,k]) + sum(k:M | A[k,0])"), {"two different ranges"});
}

TEST_CASE("statements that do not parse") {
  rejects(with("C[m:M] = "), {"/compute/0: column 10", "the end"});
  rejects(with("C[m:M] A[m,0]"), {"column 8", "expected '='"});
  rejects(with("C = A[0,0]"), {"column 3", "expected '['"});
  rejects(with("[m:M] = A[m,0]"), {"column 1"});
  rejects(with("C[m:M] = A[m,0"), {"column 15"});
  rejects(with("C[m:M] = A[m,0])"), {"column 16", "unexpected ')'"});
  rejects(with("C[m:M] = A[m,0] $ 2"), {"column 17", "unexpected character '$'"});
  rejects(with("C[m:M] = A[m,0] × 2"), {"column 17", "ASCII"});
  rejects(with("C[m:M] = 1e999"), {"column 10", "range"});
  rejects(with("C[m:M] = sum(A[m,0])"), {"expected"});
  rejects(with("C[m:M] = A[m ? x, 0]"), {"expected a number"});
  rejects(with("inf[m:M] = A[m,0]"), {"name 'inf'"});
  rejects(R"({"compute": []})", {"no statement"});
  rejects(R"({"compute": [3]})", {"/compute/0", "expected a string"});
}

TEST_CASE("programs that do not fit together") {
  const auto program = [](const std::string& statements, const std::string& outputs) {
    return R"({"inputs": {"A": {"shape": [4]}}, "compute": [)" + statements + R"(], "outputs": )" + outputs + "}";
  };
  rejects(program(R"("C[i:4] = D[i]", "D[i:4] = C[i] + A[i]")", R"(["C"])"), {"cycle", "C → D → C"});
  rejects(program(R"("C[i:4] = C[i] + A[i]")", R"(["C"])"), {"cycle", "C → C"});
  rejects(program(R"("C[i:4] = A[i]", "C[i:4] = A[i]")", R"(["C"])"), {"/compute/1", "written twice"});
  rejects(program(R"("A[i:4] = 1")", R"(["A"])"), {"/compute/0", "'A' is an input"});
  rejects(program(R"("C[i:4] = A[i]", "D[i:4] = A[i]")", R"(["C"])"), {"/compute/1", "'D' is neither read nor an output"});
  rejects(program(R"("C[i:4] = i")", R"(["C"])"), {"/inputs/A", "input 'A' is never read"});
  rejects(program(R"("C[i:4] = A[i]")", R"(["C", "C"])"), {"/outputs/1", "listed twice"});
  rejects(program(R"("C[i:4] = A[i]")", R"(["A"])"), {"/outputs/0", "never written"});
  rejects(program(R"("C[i:4] = A[i]")", "[]"), {"/outputs", "no output"});
}

TEST_CASE("parameters that contradict each other") {
  rejects(preset(R"("op": "conv2d", "params": {"h": 4, "w": 4, "ci": 4, "co": 6, "r": 3, "groups": 3})"),
          {"/params", "groups must divide ci"});
  rejects(preset(R"("op": "conv2d", "params": {"h": 4, "w": 4, "ci": 6, "co": 4, "r": 3, "groups": 3})"), {"groups must divide co"});
  rejects(preset(R"("op": "conv2d", "params": {"h": 2, "w": 9, "ci": 1, "co": 1, "r": 3})"), {"/params", "extent P", "is 0"});
  rejects(preset(R"("op": "conv2d", "params": {"h": 9, "w": 9, "ci": 1, "co": 1, "r": 3, "stride": 0})"), {"/params/stride"});
  rejects(preset(R"("op": "conv2d", "params": {"h": 9, "w": 9, "ci": 1, "co": 1, "r": 3, "pad": -1})"), {"/params/pad"});
  rejects(preset(R"("op": "conv2d", "params": {"h": 9, "w": 9, "ci": 1, "co": 1, "r": 3, "pad": [1, 2, 3]})"),
          {"/params/pad", "list of 2 or 4"});
  rejects(preset(R"("op": "transpose", "params": {"shape": [2, 3], "perm": [0, 0]})"), {"/params/perm/1", "named twice"});
  rejects(preset(R"("op": "transpose", "params": {"shape": [2, 3], "perm": [0]})"), {"/params/perm", "permutation"});
  rejects(preset(R"("op": "reduce_sum", "params": {"shape": [2, 3], "axis": 2})"), {"/params/axis", "dimension 2 does not exist"});
  rejects(preset(R"("op": "reduce_sum", "params": {"shape": [2, 3], "axis": []})"), {"/params/axis", "no dimension"});
  rejects(preset(R"("op": "relu", "params": {"shape": []})"), {"/params/shape"});
  rejects(preset(R"("op": "mlp", "params": {"dims": [3]})"), {"at least one layer"});
  rejects(preset(R"("op": "relu", "params": {"shape": [3]}, "epilogue": ["scale"])"), {"scale"});
  rejects(preset(R"("op": "reduce_sum", "params": {"shape": [3], "axis": 0}, "epilogue": ["bias"])"), {"scalar"});
}

TEST_CASE("the short form") {
  const auto message = [](const char* text, const std::map<std::string, int64_t>& extents) {
    return test::error_of(ErrorCode::invalid_spec, [&] { parse_short(text, extents); });
  };
  CHECK(message("C[m] = A[m]; D[m] = E[m", {{"m", 3}}).find("expression: column 24") == 0);
  CHECK(message("C[m] = A[n]", {{"m", 3}}).find("unknown dimension 'n'") != std::string::npos);
  CHECK(message("C[m] = A[2*m]", {{"m", 3}}).find("JSON form") != std::string::npos);
  CHECK(message("C[m] = A[m]", {{"m", -3}}).find("extent of 'm'") != std::string::npos);
}
