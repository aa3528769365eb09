// `run` and `bench` with a GPU's profile, on the fake driver: what works, and every way in which a device can be missing.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "error/cli.h"

using namespace rgen::test;
using nlohmann::json;

namespace {

ProcessOptions faked() {
  ProcessOptions o;
  o.env["RGEN_CUDA"] = RGEN_FAKE_CUDA;
  o.env["RGEN_NVRTC"] = RGEN_FAKE_NVRTC;
  return o;
}

/// A report of the fake driver as a map.
json counts(const std::string& file) {
  json all;
  std::istringstream in(*rgen::run::read_file(file));
  std::string what;
  for (long n = 0; in >> what >> n;) all[what] = n;
  return all;
}

}  // namespace

TEST_CASE("run and bench on a device: verified, timed, nothing left there") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  ProcessOptions options = faked();
  options.env["FAKE_CUDA_REPORT"] = rgen.path("report");
  for (const char* verb : {"run", "bench"}) {
    CAPTURE(verb);
    const ProcessResult r = rgen({verb, "--hw", "a100", spec, "--seconds", "0.001", "--top-k", "2", "--json"}, options);
    CAPTURE(r.err);
    REQUIRE(r.status == 0);
    const json entry = json::parse(r.out)["results"][0];
    CHECK(entry["verified"] == true);
    CHECK(entry["measured_us"] > 0);
    CHECK(entry["predicted_us"] > 0);
    CHECK(entry["compiler"] == "nvrtc");
    CHECK(entry["device"] == "device 0 (Fake GPU, sm_80)");
    CHECK(entry.contains("registers"));
    const json left = counts(rgen.path("report"));
    for (const char* what : {"allocations", "modules", "streams", "events", "primaries", "misuses"}) {
      CAPTURE(what);
      CHECK(left[what] == 0);
    }
    CHECK(left["launches"] > 2);
  }
  const ProcessResult text = rgen({"run", "--hw", "a100", spec, "--seconds", "0.001"}, options);
  CHECK(text.status == 0);
  CHECK(contains(text.out, "device 0 (Fake GPU, sm_80)"));
}

TEST_CASE("no driver: exit status 7, what was looked for, what works without") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  ProcessOptions options = faked();
  options.env["RGEN_CUDA"] = "/no/such/libcuda.so.1";
  for (const char* verb : {"run", "bench"}) {
    const ProcessResult r = rgen({verb, "--hw", "a100", spec}, options);
    CHECK(r.status == 7);
    CHECK(contains(r.err, "profile 'a100' is of a GPU"));
    CHECK(contains(r.err, "/no/such/libcuda.so.1"));
    CHECK(contains(r.err, "--emit cuda, cubin, ptx"));
  }
}

TEST_CASE("no device, none of that number, one of another architecture, one that fails: exit status 7") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  const auto run = [&](const std::string& name, const std::string& value, const std::string& profile, const std::string& expected,
                       const std::string& device = "0") {
    CAPTURE(name);
    ProcessOptions options = faked();
    options.env[name] = value;
    const ProcessResult r = rgen({"run", "--hw", profile, spec, "--device", device, "--seconds", "0.001", "--json"}, options);
    CHECK(r.status == 7);
    CAPTURE(r.err);
    CHECK(contains(r.err, expected));
    CHECK(json::parse(r.out)["results"][0]["error"]["code"] == "device");
  };
  run("FAKE_CUDA_DEVICES", "0", "a100", "CUDA_ERROR_NO_DEVICE");
  run("FAKE_CUDA_DEVICES", "2", "a100", "no device 2: there are devices 0 to 1", "2");
  run("FAKE_CUDA_CC", "8.0", "h100", "code for sm_90a runs on compute capability 9.0 alone");
  run("FAKE_CUDA_MEMORY", "100", "a100", "CUDA_ERROR_OUT_OF_MEMORY");
  run("FAKE_CUDA_FAIL", "cuLaunchKernel:700:1", "a100", "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_CASE("a kernel that gives wrong results on a device: exit status 6") {
  const Cli rgen;
  ProcessOptions options = faked();
  // The download leaves out nothing but says that it succeeded: the buffers of the host stay zero.
  options.env["FAKE_CUDA_FAIL"] = "cuMemcpyDtoHAsync_v2:0:1";
  const ProcessResult r = rgen({"run", "--hw", "a100", rgen.file("spec.json", matmul_spec), "--json"}, options);
  CHECK(r.status == 6);
  CHECK(json::parse(r.out)["results"][0]["verified"] == false);
}

TEST_CASE("profile new --device: a profile that can be planned with; without a driver exit status 7") {
  const Cli rgen;
  const std::string file = rgen.path("gpu.json");
  ProcessOptions options = faked();
  options.env["FAKE_CUDA_REPORT"] = rgen.path("report");
  REQUIRE(rgen({"profile", "new", "--device", "0", "-o", file}, options).status == 0);
  CHECK(counts(rgen.path("report"))["misuses"] == 0);
  CHECK(counts(rgen.path("report"))["primaries"] == 0);
  CHECK(rgen({"profile", "check", file}).status == 0);
  CHECK(rgen({"predict", "--hw", file, rgen.file("spec.json", matmul_spec)}).status == 0);
  const ProcessResult told = rgen({"profile", "new", "--device", "0", "--no-measure"}, options);
  CHECK(json::parse(told.out)["cores"]["note"] == "driver attribute");
  options.env["RGEN_CUDA"] = "/no/such/libcuda.so.1";
  const ProcessResult r = rgen({"profile", "new", "--device", "0"}, options);
  CHECK(r.status == 7);
  CHECK(contains(r.err, "/no/such/libcuda.so.1"));
}
