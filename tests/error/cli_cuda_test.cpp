// GPUs from the command line: what is missing, and what works without one.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "error/cli.h"
#include "run/nvrtc.h"

using namespace rgen::test;
using nlohmann::json;

namespace {

std::shared_ptr<const rgen::run::Nvrtc> nvrtc() {
  try {
    return rgen::run::Nvrtc::open();
  } catch (const rgen::Error& e) {
    MESSAGE("skipped: " << std::string(e.what()));
    return nullptr;
  }
}

}  // namespace

TEST_CASE("run and bench with a GPU's profile need its device") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  for (const char* verb : {"run", "bench"}) {
    const ProcessResult r = rgen({verb, "--hw", "a100", spec});
    CHECK(r.status == 7);
    CHECK(contains(r.err, "profile 'a100' is of a GPU"));
    CHECK(contains(r.err, "'predict' and 'explain' need no device"));
  }
  const ProcessResult r = rgen({"run", "--hw", "a100", spec, "--json"});
  CHECK(json::parse(r.out)["results"][0]["error"]["code"] == "device");
  CHECK(rgen({"predict", "--hw", "a100", spec}).status == 0);
}

TEST_CASE("a missing NVRTC: exit status 7, what would help, and no file") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec), out = rgen.path("out");
  ProcessOptions options;
  options.env["RGEN_NVRTC"] = "/no/such/libnvrtc.so";
  const ProcessResult r = rgen({"gen", "--hw", "a100", spec, "--emit", "cubin", "-o", out}, options);
  CHECK(r.status == 7);
  CHECK(contains(r.err, "/no/such/libnvrtc.so"));
  CHECK(contains(r.err, "nvidia-cuda-nvrtc"));
  CHECK(contains(r.err, "--emit cuda"));
  CHECK(std::filesystem::is_empty(out));
  CHECK(rgen({"gen", "--hw", "a100", spec, "-o", out}, options).status == 0);  // the source needs none
}

TEST_CASE("forms for the other kind of machine exit with 4") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  for (const auto& [profile, form] : {std::pair{"zen5", "ptx"}, {"zen5", "cuda"}, {"a100", "so"}, {"a100", "cpp"}}) {
    CAPTURE(form);
    const ProcessResult r = rgen({"gen", "--hw", profile, spec, "--emit", form, "-o", rgen.path("out")});
    CHECK(r.status == 4);
    CHECK(contains(r.err, "takes '"));
  }
}

TEST_CASE("an architecture that the NVRTC lacks: exit status 7") {
  const auto rtc = nvrtc();
  if (!rtc || rtc->supported_archs().front() <= 70) return;
  const Cli rgen;
  const ProcessResult r = rgen({"gen", "--hw", "v100", rgen.file("spec.json", matmul_spec), "--emit", "cubin", "-o", rgen.path("out")});
  CHECK(r.status == 7);
  CHECK(contains(r.err, "nvidia-cuda-nvrtc-cu12"));
  CHECK(std::filesystem::is_empty(rgen.path("out")));
}

TEST_CASE("a cubin is written with its manifest, and its figures are told") {
  if (!nvrtc()) return;
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  const auto gen = [&](const std::string& form) {
    const ProcessResult r = rgen({"gen", "--hw", "a100", spec, "--emit", form, "-o", rgen.path("out"), "--json"});
    CAPTURE(r.err);
    REQUIRE(r.status == 0);
    return json::parse(r.out)["results"][0];
  };
  const json first = gen("cubin"), again = gen("cubin"), ptx = gen("ptx"), source = gen("cuda");
  CHECK(first["target"] == "cuda");
  CHECK(first["compiler"] == "nvrtc");
  CHECK(first["cache"] == "miss");
  CHECK(again["cache"] == "hit");
  for (const char* key : {"registers", "spill_bytes", "shared_bytes", "blocks_per_sm"}) {
    CAPTURE(key);
    CHECK(first.at(key).is_number_integer());
    CHECK(again.at(key) == first.at(key));
    CHECK_FALSE(ptx.contains(key));
    CHECK_FALSE(source.contains(key));
  }
  CHECK(first["registers"] > 0);
  CHECK(first["blocks_per_sm"] > 0);
  CHECK(ptx.contains("compile_ms"));
  CHECK_FALSE(source.contains("compile_ms"));
  for (const char* file : {"mm.cubin", "mm.ptx", "mm.cu"}) CHECK(std::filesystem::exists(rgen.path(std::string("out/") + file)));
  const json manifest = json::parse(*rgen::run::read_file(rgen.path("out/mm.manifest.json")));
  CHECK(manifest["arch"] == "sm_80");
  REQUIRE_FALSE(manifest["launch"].empty());
  CHECK(manifest["launch"][0]["grid"].size() == 3);
}
