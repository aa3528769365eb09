// Profiles of GPUs that are here: from attributes, from figures, and measured on the fake driver (where the numbers mean nothing).
#include "driver/gpu_profile.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "hwmodel/profile.h"
#include "support/fake_cuda.h"

using namespace rgen;
using namespace rgen::driver;
using nlohmann::json;
using test::FakeCounts;
using test::FakeCuda;

namespace {

GpuAttributes h100() {
  return {"NVIDIA H100 80GB HBM3", 9, 0, 132, 1980, 2619, 5120, 50 << 20, 228 << 10, 227 << 10, 2048, 32, 1024, 65536};
}
GpuAttributes with_capability(int major, int minor) {
  GpuAttributes a = h100();
  a.major = major, a.minor = minor;
  return a;
}

const json& member(const json& all, const std::string& key, const std::string& value, const std::string& type = "") {
  for (const json& one : all)
    if (one[key] == value && (type.empty() || one["a"] == type)) return one;
  FAIL("no " << value);
  return all;
}

/// The text of one entry of a PTX.
std::string entry(const std::string& ptx, const std::string& name) {
  const size_t at = ptx.find(".entry " + name + "(");
  REQUIRE(at != std::string::npos);
  return ptx.substr(at, ptx.find(".entry ", at + 1) - at);
}
int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("attributes make a profile over the nearest one") {
  const json p = json::parse(gpu_profile_text(h100(), nullptr));
  CHECK(p["name"] == "nvidia_h100_80gb_hbm3");
  CHECK(p["arch"] == "sm_90");
  CHECK(p["clock"]["value"] == 1980);
  CHECK(p["cores"]["note"] == "driver attribute");
  CHECK(p["levels"][1]["capacity"]["value"] == 50 << 10);
  CHECK(p["gpu"]["smem_per_block"]["value"] == 227);
  CHECK(p["fork_join"]["note"] == "from h100");
  CHECK(p["fork_join"]["source"] == "estimated");
  const json all = p["levels"][2]["read"]["per_sharer"].back();
  CHECK(all["sharers"] == 132);
  CHECK(all["value"].get<double>() * 132 == doctest::Approx(0.92 * 2 * 2619 * 5120 / 8e3).epsilon(1e-3));
  CHECK(hw::parse_profile(p.dump(), "p").has("wgmma"));
}

TEST_CASE("the nearest profile: architecture, then SMs and bandwidth") {
  const auto base = [](const GpuAttributes& a) {
    return json::parse(gpu_profile_text(a, nullptr))["fork_join"]["note"].get<std::string>();
  };
  GpuAttributes a = h100();
  CHECK(base(a) == "from h100");
  a.memory_mhz = 3201, a.bus_bits = 6144;
  CHECK(base(a) == "from h200");
  a.sms = 114, a.memory_mhz = 1593, a.bus_bits = 5120;
  CHECK(base(a) == "from h100_pcie");
  CHECK(json::parse(gpu_profile_text(a, nullptr))["levels"][1]["read"]["per_sharer"].back()["sharers"] == 114);
  CHECK(base(with_capability(10, 3)) == "from b200");
  CHECK_THROWS_WITH_AS(gpu_profile_text(with_capability(12, 0), nullptr), doctest::Contains("compute capability 12.0"), Error);
  CHECK_THROWS_WITH_AS(gpu_profile_text(with_capability(6, 1), nullptr), doctest::Contains("compute capability 6.1: there are sm_"), Error);
}

TEST_CASE("figures replace what they measure and nothing else") {
  GpuFigures f;
  f.ghz = 1.755, f.launch_us = 2.1, f.block_launch = 1.2;
  f.cycles = {{"fma", 0.25}, {"exp", 2.3}, {"compare", 0.5}, {"mma.sync f16", 2.0}, {"mma.sync s8", 2.1}};
  f.latency = {{"fma", 4.2}, {"mma.sync f16", 33}};
  f.l1_latency = 33, f.shared_latency = 29, f.l2_latency = 20, f.dram_latency = 600;  // L2 is not faster than what is inside it
  f.shared_read = 126, f.shared_write = 125, f.copy_gbs = 2900;
  f.rows = {{1, 100, 90, 60, 50}, {132, 30, 20, 23, 22}};
  const json p = json::parse(gpu_profile_text(h100(), &f));
  CHECK(p["clock"]["value"] == 1.755);
  CHECK(p["clock"]["source"] == "measured");
  CHECK(p["call"]["value"] == 2.1);
  CHECK(member(p["atoms"], "name", "fma")["rate"]["value"] == 4);
  CHECK(member(p["atoms"], "name", "fma")["latency"]["value"] == 4.2);
  CHECK(member(p["atoms"], "name", "mma.sync", "f16")["rate"]["value"] == 0.5);
  CHECK(member(p["atoms"], "name", "mma.sync", "bf16")["rate"]["source"] == "estimated");
  CHECK(member(p["atoms"], "name", "wgmma")["rate"]["source"] == "estimated");
  CHECK(p["cycles"]["exp"]["value"] == 2.3);
  CHECK(p["cycles"]["select"]["value"] == 0.5);
  CHECK(p["cycles"]["gather"]["source"] == "estimated");
  CHECK(p["levels"][1]["latency"]["value"] == doctest::Approx(34.65));
  CHECK(p["levels"][1]["read"]["per_sharer"][1]["value"] == 30);
  CHECK(p["levels"][2]["write"]["per_sharer"][0]["value"] == 50);
}

TEST_CASE("measured on the fake driver: a whole profile, and nothing stays on the device") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  const std::string text = device_profile_json({RGEN_FAKE_CUDA, 0}, RGEN_FAKE_NVRTC, true);
  const json p = json::parse(text);
  CHECK_NOTHROW(hw::parse_profile(text, "p"));
  CHECK(p["title"] == "Fake GPU");
  CHECK(p["cores"]["value"] == 4);
  for (const json& level : p["levels"])
    for (const char* figure : {"latency", "read", "write"}) CHECK(level[figure]["source"] == "measured");
  CHECK(FakeCounts(fake) == before);
  fake.fail("cuLaunchKernel", 719, 40);
  CHECK_THROWS_WITH_AS(device_profile_json({RGEN_FAKE_CUDA, 0}, RGEN_FAKE_NVRTC, true), doctest::Contains("cuLaunchKernel of '"), Error);
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("NVIDIA's compiler takes the measurements and leaves none of their operations out") {
  std::shared_ptr<const run::Nvrtc> nvrtc;
  try {
    nvrtc = run::Nvrtc::open();
  } catch (const Error& e) {
    MESSAGE("skipped: " << std::string(e.what()));
    return;
  }
  const auto cubin = nvrtc->compile(microbench_source(false), "m.cu", "sm_75", run::DeviceImage::cubin);
  for (const run::KernelResources& k : cubin.kernels) CHECK(k.spill_bytes == 0);
  for (const char* arch : {"sm_80", "sm_90"})
    for (const auto& k : nvrtc->compile(microbench_source(true), "m.cu", arch, run::DeviceImage::cubin).kernels) {
      CAPTURE(k.symbol);
      CHECK(k.spill_bytes == 0);
      CHECK(k.registers <= 64);  // blocks of 1024 threads
    }
  const std::string ptx = nvrtc->compile(microbench_source(true), "m.cu", "sm_80", run::DeviceImage::ptx).image;
  for (const auto& [name, instruction, n] : {std::tuple{"rate_fma", "fma.rn", 32},
                                             {"chain_fma", "fma.rn", 4},
                                             {"rate_add", "add", 32},
                                             {"rate_mul", "mul.", 32},
                                             {"rate_div", "div.rn", 32},
                                             {"rate_sqrt", "sqrt.rn", 32},
                                             {"rate_max", "setp", 32},
                                             {"rate_exp", "ex2", 32},
                                             {"rate_floor", "cvt.rmi", 32},
                                             {"rate_choose", "setp", 32},
                                             {"rate_convert", "cvt.rni", 32},
                                             {"rate_shuffle", "shfl", 32},
                                             {"rate_int_div", "div.u32", 32},
                                             {"rate_dp4a", "dp4a", 32},
                                             {"chain_dp4a", "dp4a", 4},
                                             {"rate_mma_f16", "mma.sync", 8},
                                             {"rate_mma_s8", "mma.sync", 8},
                                             {"chain_mma_tf32", "mma.sync", 1},
                                             {"chase_l1", "ld.global.ca", 2},
                                             {"chase_l2", "ld.global.cg", 1},
                                             {"chase_shared", "ld.volatile.shared", 1},
                                             {"read_shared", "ld.volatile.shared", 8},
                                             {"write_shared", "st.volatile.shared", 8},
                                             {"read_global", "ld.global.cg.v4", 4},
                                             {"write_global", "st.global.v4", 4},
                                             {"copy_global", "st.global.v4", 2}}) {
    CAPTURE(name);
    CAPTURE(instruction);
    CHECK(count(entry(ptx, name), instruction) >= n);
  }
}
