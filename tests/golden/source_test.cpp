// The emitted source of small kernels, as reviewed: everything after the vector primitives (which have tests of their own).
#include <doctest/doctest.h>

#include "emit/backend.h"
#include "ir/ir.h"
#include "support/golden.h"
#include "support/programs.h"

using namespace rgen;

namespace {

constexpr const char* kKernels[][2] = {
    {"matmul_relu",
     R"({"name": "matmul_relu", "op": "matmul", "dtype": "f32", "params": {"m": 17, "n": 24, "k": 40}, "epilogue": ["relu"]})"},
    {"matmul_s8", R"({"name": "matmul_s8", "op": "matmul", "dtype": "s8", "params": {"m": 4, "n": 16, "k": 10}})"},
    {"row_maximum", R"({"name": "row_maximum", "op": "reduce_max", "dtype": "f32", "params": {"shape": [5, 67], "axis": 1}})"},
    {"depthwise",
     R"({"name": "depthwise", "op": "conv2d", "dtype": "f32", "params": {"h": 6, "w": 6, "ci": 8, "co": 8, "r": 3, "pad": 1, "groups": 8}})"},
};

/// The compile line and the kernel, its content hash masked.
std::string kernel_text(const emit::Emitted& code) {
  std::string text = code.source.substr(0, code.source.find('\n') + 1) + code.source.substr(code.source.find("/// Where the tensors are."));
  const std::string hash = code.symbol.substr(code.symbol.rfind('_') + 1);
  for (size_t at; (at = text.find(hash)) != std::string::npos;) text.replace(at, hash.size(), "HASH");
  return text;
}

}  // namespace

TEST_CASE("emitted sources") {
  for (const auto& [name, spec] : kKernels)
    for (const char* profile : {"zen5", "haswell_avx2", "neoverse_n1"}) {
      const ir::TensorProgram program = ir::parse_program(spec);
      const hw::Profile hardware = hw::load_profile(profile);
      const auto code = emit::emit_cpp(program, rtile::construct(program, hardware, {1, 1}).front(), hardware);
      const std::string file = RGEN_SOURCE_DIR "/tests/golden/data/sources/" + std::string(name) + "." + profile + ".txt";
      const std::string difference = test::golden_difference(file, kernel_text(code));
      if (!difference.empty()) FAIL_CHECK(difference);
    }
}
