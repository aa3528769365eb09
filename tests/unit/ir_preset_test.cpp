// Presets: interface, dtypes, parameters. Their values are tested in ir_reference_test.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/embedded.h"
#include "base/error.h"
#include "ir/ir.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

TensorProgram preset(const std::string& text) { return parse_program("{" + text + "}"); }

std::string read(const std::string& path) {
  std::ifstream file(std::string(RGEN_SOURCE_DIR) + "/" + path);
  REQUIRE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// "A[5,3]! B[3,7] -> out[5,7] s32": inputs in order (! marks constants), then the output.
std::string signature(const TensorProgram& p) {
  const auto tensor = [&](int id) {
    std::string s = p[id].name + "[";
    for (size_t d = 0; d < p[id].shape.size(); ++d) s += (d ? "," : "") + std::to_string(p[id].shape[d].value());
    return s + "]" + (p[id].constant ? "!" : "") + (p[id].dtype == DType::f32 ? "" : " " + std::string(to_string(p[id].dtype)));
  };
  std::string s;
  for (int i : p.inputs) s += tensor(i) + " ";
  s += "->";
  for (int o : p.outputs) s += " " + tensor(o);
  return s;
}

}  // namespace

TEST_CASE("every entry of the workload list builds, with the output 'out'") {
  const auto entries = parse_specs(read("tests/data/workloads.json"), "workloads.json");
  CHECK(entries.size() == 56);
  std::set<std::string> names;
  for (const SpecEntry& e : entries) {
    INFO(e.name);
    CHECK(names.insert(e.name).second);
    const TensorProgram p = e.build();
    REQUIRE(p.outputs.size() == 1);
    CHECK(p[p.outputs[0]].name == "out");
    CHECK(p.name == e.name);
    CHECK(equal(parse_program(print_json(p)), p));
  }
}

TEST_CASE("every document of ops/ describes itself") {
  const std::vector<PresetInfo> presets = list_presets();
  CHECK(presets.size() == embedded_ops().size());
  for (const PresetInfo& info : presets) {
    INFO(info.name);
    CHECK_FALSE(info.summary.empty());
    CHECK_FALSE(info.parameters.empty());
    for (const PresetParameter& q : info.parameters) CHECK_FALSE(q.meaning.empty());
  }
  for (const char* op : {"matmul", "conv2d", "maxpool", "avgpool", "gavgpool", "mul_add", "bias_act", "relu", "transpose", "reduce_sum",
                         "reduce_max", "reduce_mean", "softmax", "layernorm", "rmsnorm", "mlp", "attention"})
    CHECK(std::any_of(presets.begin(), presets.end(), [&](const PresetInfo& p) { return p.name == op; }));
}

TEST_CASE("interfaces: names, order, shapes, constness, dtypes") {
  const auto check = [](const char* spec, const char* expected) {
    INFO(spec);
    CHECK(signature(preset(spec)) == expected);
  };
  check(R"("op":"matmul","params":{"m":5,"n":7,"k":3},"epilogue":["bias"])", "A[5,3] B[3,7]! bias[7]! -> out[5,7]");
  check(R"("op":"matmul","params":{"m":5,"n":7,"k":3,"batch":1})", "A[1,5,3] B[1,3,7] -> out[1,5,7]");
  check(R"("op":"matmul","params":{"m":5,"n":7,"k":3,"transpose_a":true,"transpose_b":true})", "A[3,5] B[7,3]! -> out[5,7]");
  check(R"("op":"matmul","dtype":"s8","params":{"m":5,"n":7,"k":3})", "A[5,3] s8 B[3,7]! s8 -> out[5,7] s32");
  check(R"("op":"matmul","dtype":"u8","params":{"m":5,"n":7,"k":3,"out":"u8"})", "A[5,3] u8 B[3,7]! u8 -> out[5,7] u8");
  check(R"("op":"matmul","dtype":"bf16","params":{"m":5,"n":7,"k":3},"epilogue":["bias","add","mul","batchnorm"])",
        "A[5,3] bf16 B[3,7]! bf16 bias[7]! addend[5,7] bf16 factor[5,7] bf16 mean[7] var[7] scale[7] shift[7] -> out[5,7] bf16");
  check(R"("op":"matmul","dtype":"f16","params":{"m":5,"n":7,"k":3,"out":"f32"})", "A[5,3] f16 B[3,7]! f16 -> out[5,7]");
  check(R"("op":"conv2d","params":{"h":9,"w":8,"ci":4,"co":6,"r":3,"groups":2,"pad":[1,0,0,2],"stride":[2,1]},"epilogue":["bias"])",
        "X[1,9,8,4] W[6,2,3,3]! bias[6]! -> out[1,4,8,6]");
  check(R"("op":"conv2d","params":{"n":2,"h":9,"w":8,"ci":4,"co":6,"r":3,"s":1,"dilation":2,"layout":"NCHW"},"epilogue":["add"])",
        "X[2,4,9,8] W[6,4,3,1]! addend[2,6,5,8] -> out[2,6,5,8]");
  check(R"("op":"maxpool","params":{"h":9,"w":8,"c":4,"r":3,"s":2})",
        "X[1,9,8,4] -> out[1,3,4,4]");  // the stride is the window's by default
  check(R"("op":"avgpool","params":{"h":9,"w":8,"c":4,"r":3,"stride":1,"layout":"NCHW"})", "X[1,4,9,8] -> out[1,4,7,6]");
  check(R"("op":"gavgpool","params":{"n":2,"h":9,"w":8,"c":4,"layout":"NCHW"})", "X[2,4,9,8] -> out[2,4,1,1]");
  check(R"("op":"mul_add","params":{"shape":[3,4]})", "X[3,4] Y[3,4] Z[3,4] -> out[3,4]");
  check(R"("op":"bias_act","params":{"shape":[3,4]},"epilogue":["relu"])", "X[3,4] bias[4]! -> out[3,4]");
  check(R"("op":"bias_act","params":{"shape":[3,4]},"epilogue":["bias","relu"])", "X[3,4] bias[4]! -> out[3,4]");
  check(R"("op":"transpose","params":{"shape":[3,4,5],"perm":[2,0,1]})", "X[3,4,5] -> out[5,3,4]");
  check(R"("op":"reduce_max","params":{"shape":[3,4,5],"axis":[0,-1]})", "X[3,4,5] -> out[4]");
  check(R"("op":"reduce_sum","params":{"shape":[3],"axis":0})", "X[3] -> out[]");
  check(R"("op":"softmax","dtype":"bf16","params":{"shape":[3,4]})", "X[3,4] bf16 -> out[3,4] bf16");
  check(R"("op":"layernorm","dtype":"bf16","params":{"shape":[2,3,4]})", "X[2,3,4] bf16 gamma[4]! beta[4]! -> out[2,3,4] bf16");
  check(R"("op":"rmsnorm","params":{"shape":[4]})", "X[4] gamma[4]! -> out[4]");
  check(R"("op":"mlp","params":{"batch":2,"dims":[3,4,5,6]},"epilogue":["sigmoid"])",
        "X[2,3] W1[3,4]! b1[4]! W2[4,5]! b2[5]! W3[5,6]! b3[6]! -> out[2,6]");
  check(R"("op":"attention","params":{"heads":2,"seq":3,"dim":4})", "Q[1,2,3,4] K[1,2,3,4] V[1,2,3,4] -> out[1,2,3,4]");
  check(R"("op":"relu","params":{"shape":[4]},"epilogue":["add","add"])", "X[4] addend[4] addend2[4] -> out[4]");
}

TEST_CASE("a contraction and its epilogue are two stages, a plain one is one") {
  CHECK(preset(R"("op":"matmul","params":{"m":5,"n":7,"k":3})").stages.size() == 1);
  const TensorProgram p = preset(R"("op":"matmul","params":{"m":5,"n":7,"k":3},"epilogue":["bias","relu"])");
  REQUIRE(p.stages.size() == 2);
  CHECK(p.stages[0].reduce == ReduceOp::sum);
  CHECK(p.stages[1].reduce == ReduceOp::none);
  CHECK(preset(R"("op":"matmul","dtype":"bf16","params":{"m":5,"n":7,"k":3})").stages.size() == 2);  // the sum, its rounding
}

TEST_CASE("groups choose the channels that a convolution reads") {
  const auto statement = [](const char* params) {
    const TensorProgram p = preset(std::string(R"("op":"conv2d","params":{"h":5,"w":5,"r":3,"pad":1,)") + params + "}");
    return print_statement(p, p.stages[0]);
  };
  CHECK(statement(R"("ci":4,"co":6)") ==
        "out[n:1, p:5, q:5, co:6] = sum(c:4, r:3, s:3 | X[n, p + r - 1, q + s - 1, c ? 0] * W[co, c, r, s])");
  CHECK(statement(R"("ci":6,"co":6,"groups":6)") ==
        "out[n:1, p:5, q:5, co:6] = sum(r:3, s:3 | X[n, p + r - 1, q + s - 1, co ? 0] * W[co, 0, r, s])");
  CHECK(statement(R"("ci":6,"co":12,"groups":3)") ==
        "out[n:1, p:5, q:5, co:12] = sum(c:2, r:3, s:3 | X[n, p + r - 1, q + s - 1, c + 2*(co/4) ? 0] * W[co, c, r, s])");
}

TEST_CASE("a preset's extent may be a range") {
  const TensorProgram p = preset(R"("op":"matmul","params":{"m":{"min":1,"max":64},"n":7,"k":3},"epilogue":["bias"])");
  REQUIRE(p.dims.size() == 1);
  CHECK(p.dims[0].name == "M");
  CHECK(p[p.outputs[0]].shape[0] == Size::dim(0));
  CHECK(preset(R"("op":"softmax","params":{"shape":[{"max":9},4]})").dims.size() == 1);
}

TEST_CASE("long chains of activations stay small") {
  std::string chain = "\"gelu_tanh\"";
  for (int i = 0; i < 15; ++i) chain += ",\"gelu_tanh\"";
  const TensorProgram p = preset(R"("op":"relu","params":{"shape":[4]},"epilogue":[)" + chain + "]");
  CHECK(print_json(p).size() < 100000);
}
