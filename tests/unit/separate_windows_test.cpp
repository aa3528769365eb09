// Windows reduced by rows, then by columns of what that leaves.
#include "rtile/separate_windows.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ir/ir.h"
#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

ir::TensorProgram program_of(const std::string& compute, const std::string& dtype = "f32") {
  return ir::parse_program(R"--({"inputs": {"X": {"shape": [3, 40, 30], "dtype": ")--" + dtype + R"--("}}, "compute": [)--" + compute +
                           "]}");
}

/// Name, type and shape of the tensor between the nests; "": the window is not divided.
std::string between(const std::string& compute, const std::string& dtype = "f32") {
  const ir::TensorProgram program = program_of(compute, dtype);
  const auto r = rtile::separate_windows(program, rtile::build_nests(program));
  if (!r) return "";
  const ir::Tensor& t = r->program->tensors.back();
  std::string found = t.name + " " + std::string(to_string(t.dtype));
  for (size_t d = 0; d < t.shape.size(); ++d) found += (d ? "x" : " ") + std::to_string(t.shape[d].value());
  return found;
}

/// Pools of 6 × 5 over 40 × 30 and their kind: p and q the places, r and s in the window.
std::string pool(const std::string& reduce, const std::string& row = "p + r", const std::string& column = "q + s",
                 const std::string& out = "c:3, p:35, q:26") {
  return "\"Y[" + out + "] = " + reduce + "(r:6, s:5 | X[c, " + row + ", " + column + "])\"";
}

std::string preset(const std::string& op, const std::string& dtype, const std::string& params) {
  return R"({"op": ")" + op + R"(", "dtype": ")" + dtype + R"(", "params": {)" + params + "}}";
}

}  // namespace

TEST_CASE("large windows are reduced by rows, and those of the image that are left by columns") {
  CHECK(between(pool("max")) == "X_rows f32 3x40x26");
  CHECK(between(pool("min")) == "X_rows f32 3x40x26");
  CHECK(between(pool("sum")) == "X_rows f32 3x40x26");
  CHECK(between(pool("max"), "bf16") == "X_rows bf16 3x40x26");
  CHECK(between(pool("sum"), "bf16") == "X_rows f32 3x40x26");
  CHECK(between(pool("max"), "u8") == "X_rows u8 3x40x26");
  CHECK(between(pool("max", "p + r", "2 * q + s", "c:3, p:35, q:13")) == "X_rows f32 3x40x13");
  CHECK(between(pool("max", "p + r - 2 ? 0", "q + s - 2", "c:3, p:39, q:30")) == "X_rows f32 3x40x30");
}

TEST_CASE("and not small ones, or what is no window, or where a value outside would become another") {
  CHECK(between(R"--("Y[c:3, p:38, q:28] = max(r:3, s:3 | X[c, p + r, q + s])")--") == "");
  CHECK(between(pool("max", "3 * p + r", "q + s", "c:3, p:12, q:26")) == "");  // rows of which few windows share one
  CHECK(between(pool("prod")) == "");
  CHECK(between(pool("sum"), "s8") == "");
  CHECK(between(pool("sum", "p + r - 2 ? 1", "q + s - 2", "c:3, p:39, q:30")) == "");
  CHECK(between(pool("sum", "p + r - 2 ? 0", "q + s - 2", "c:3, p:39, q:30")) == "X_rows f32 3x40x30");
  CHECK(between(pool("max", "p + r + s", "q", "c:3, p:31, q:30")) == "");
  CHECK(between(pool("max", "p - r + 5")) == "");
  CHECK(between(R"--("Y[p:35, q:26] = max(c:3, r:6, s:5 | X[c, p + r, q + s])")--") == "");
  CHECK(between(R"--("Y[c:3, p:35, q:26] = max(r:6, s:5 | X[c, p + r, q + s] * r)")--") == "");
}

TEST_CASE("plans with both nests write each result once, from rows that are there") {
  int found = 0;
  for (const char* profile : {"zen5", "haswell_avx2", "neoverse_n1"})
    for (const std::string& spec :
         {preset("maxpool", "f32", R"("n": 2, "h": 17, "w": 19, "c": 5, "r": 9, "s": 7, "stride": 1, "pad": [4, 3], "layout": "NHWC")"),
          preset("avgpool", "f32", R"("n": 1, "h": 18, "w": 37, "c": 3, "r": 7, "s": 6, "stride": [1, 2], "pad": 2, "layout": "NCHW")")}) {
      const ir::TensorProgram program = ir::parse_program(spec);
      for (int threads : {1, 3})
        for (const rtile::Candidate& c : rtile::construct(program, hw::load_profile(profile), {threads, 12})) {
          const auto& tensors = c.program->planned(program).tensors;
          if (std::none_of(tensors.begin(), tensors.end(), [](const ir::Tensor& t) { return t.name == "X_rows"; })) continue;
          const lower::Simulation s = lower::simulate(lower::lower(program, *c.program), int64_t{1} << 26);
          CHECK(s.complete);
          for (const std::string& v : s.violations) FAIL_CHECK(v);
          ++found;
        }
    }
  CHECK(found >= 12);
}

TEST_CASE("the model takes it for large windows, and not for small ones") {
  const auto chosen = [](int window) {
    const std::string r = std::to_string(window), pad = std::to_string(window / 2);
    const ir::TensorProgram program = ir::parse_program(
        preset("maxpool", "f32",
               R"("n": 1, "h": 20, "w": 20, "c": 256, "r": )" + r + R"(, "stride": 1, "pad": )" + pad + R"(, "layout": "NHWC")"));
    for (const char* profile : {"zen3", "zen5", "sapphire_rapids"}) {
      const rtile::Candidate best = rtile::construct(program, hw::load_profile(profile), {1, 1}).front();
      const bool said = best.explanation.find("windows of X by rows, then by columns; register tile") != std::string::npos;
      CHECK(said == (best.program->extended != nullptr));
      if (!said) return false;
    }
    return true;
  };
  CHECK(chosen(9));
  CHECK(chosen(5));
  CHECK_FALSE(chosen(3));
}
