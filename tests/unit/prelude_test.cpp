// The text that emitted sources get: complete, ordered, and no more than what is used.
#include "emit/prelude.h"

#include <algorithm>

#include "base/error.h"
#include "prelude_drivers/run_driver.h"
#include "support/check.h"

using rgen::emit::Simd;
using namespace rgen::emit;

namespace {

constexpr Simd kAll[] = {Simd::avx512, Simd::avx512vl, Simd::avx2, Simd::neon, Simd::portable};

size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// Each name's text in a namespace of its own: what it needs and does not bring is then missing.
std::string one_namespace_each(Simd simd) {
  std::string includes, body;
  for (const std::string& name : prelude_names(simd)) {
    std::istringstream text(prelude_text(simd, {name}));
    body += "namespace alone_" + name + " {\n";
    for (std::string line; std::getline(text, line);) {
      const bool include = line.rfind("#include", 0) == 0;
      // OpenMP's is behind an #if, and not every compiler has it
      if (include && line.find("omp.h") == std::string::npos && includes.find(line + '\n') == std::string::npos) includes += line + '\n';
      if (!include) body += line + '\n';
    }
    body += "}\n";
  }
  return includes + body;
}

}  // namespace

TEST_CASE("lanes are 32-bit elements of a vector") {
  CHECK(lanes(Simd::avx512) == 16);
  CHECK(lanes(Simd::avx512vl) == 8);
  CHECK(lanes(Simd::avx2) == 8);
  CHECK(lanes(Simd::neon) == 4);
  CHECK(lanes(Simd::portable) == 4);
}

TEST_CASE("an unknown primitive is named") {
  CHECK_FALSE(prelude_has(Simd::avx2, "vf_frobnicate"));
  const auto text = [] { prelude_text(Simd::avx2, {"vf_add", "vf_frobnicate"}); };
  CHECK(rgen::test::contains(rgen::test::error_of(rgen::ErrorCode::internal, text), "vf_add"));
}

TEST_CASE("a text has what is used, what that needs, and nothing else") {
  for (Simd simd : kAll) {
    const std::string text = prelude_text(simd, {"vf_sigmoid"});
    CHECK(count_of(text, "vf vf_sigmoid(") == 1);
    CHECK(text.find("exp_below(vf") < text.find("vf vf_sigmoid("));
    CHECK(count_of(text, "vf_tanh") == 0);
    CHECK(count_of(text, "//@") == 0);
    CHECK(text == prelude_text(simd, {"vf_sigmoid", "exp_below"}));
  }
}

TEST_CASE("every vector unit has the same primitives") {
  const std::vector<std::string> portable = prelude_names(Simd::portable);
  for (Simd simd : kAll) {
    for (const std::string& name : portable) {
      const bool visible = name.rfind("vf_", 0) == 0 || name.rfind("vi_", 0) == 0 || name == "parallel_for" || name == "stream_fence";
      if (visible) CHECK_MESSAGE(prelude_has(simd, name), name);
    }
    for (const std::string& name : prelude_names(simd))
      if (name.rfind("vf_", 0) == 0 || name.rfind("vi_", 0) == 0) CHECK_MESSAGE(prelude_has(Simd::portable, name), name);
  }
}

TEST_CASE("features beyond the base are reported with what uses them") {
  CHECK(prelude_features(Simd::avx512, {"vf_exp", "vf_store_bf16"}).empty());
  CHECK(prelude_features(Simd::avx512, {"tile_load", "tile_dpbf16"}) == std::vector<std::string>{"amx-bf16", "amx-tile"});
  CHECK(prelude_optional_features(Simd::avx512, {"vf_store_bf16"}) == std::vector<std::string>{"avx512bf16"});
  CHECK(prelude_optional_features(Simd::avx2, {"vf_store_bf16"}).empty());
  CHECK(prelude_optional_features(Simd::neon, {"vi_dpbssd"}) == std::vector<std::string>{"dotprod"});
}

TEST_CASE("each primitive's text compiles without any other") {
  for (const rgen::test::DriverTarget& target : rgen::test::driver_targets(true)) {
    const rgen::test::Toolchain tools = rgen::test::toolchain_for(target.simd);
    const rgen::test::TemporaryDirectory directory;
    const std::string source = directory.path() / "alone.cpp";
    std::ofstream(source) << one_namespace_each(target.simd);
    for (const std::string& compiler : tools.compilers) {
      if (target.extra && compiler != tools.compilers.front()) continue;
      CAPTURE(target.name);
      CAPTURE(compiler);
      std::vector<std::string> command = {compiler,  "-std=c++17",  "-O2",           "-Wall", "-Wextra",
                                          "-Werror", "-Wno-unused", "-fsyntax-only", source};
      command.insert(command.end(), target.flags.begin(), target.flags.end());
      if (target.simd == Simd::avx512) command.insert(command.end(), {"-mamx-tile", "-mamx-bf16", "-mamx-int8"});
      const rgen::test::ProcessResult compiled = rgen::test::run_process(command);
      CHECK_MESSAGE(compiled.status == 0, compiled.err);
    }
    if (tools.compilers.empty()) MESSAGE("skipped: no compiler here for ", target.name);
  }
}
