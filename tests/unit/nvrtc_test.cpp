// NVRTC: images and their resources. What needs the library is skipped where there is none.
#include "run/nvrtc.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/error.h"
#include "support/check.h"

using namespace rgen;
using namespace rgen::run;
using test::contains;
using test::error_of;

namespace {

const std::string saxpy = R"(
extern "C" __global__ void __launch_bounds__(256) saxpy(const float* x, float* y) {
  __shared__ float s[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  s[threadIdx.x] = x[i];
  __syncthreads();
  y[i] += 2 * s[255 - threadIdx.x];
})";

/// Nothing, with a message, where there is no NVRTC.
std::shared_ptr<const Nvrtc> nvrtc() {
  try {
    return Nvrtc::open();
  } catch (const Error& e) {
    MESSAGE("skipped: " << std::string(e.what()));
    return nullptr;
  }
}

}  // namespace

TEST_CASE("resources are read from the log of ptxas") {
  const std::string log = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
ptxas         .     40 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads
ptxas info    : Function properties for called
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 40 bytes cumulative stack size, 4096 bytes smem, 368 bytes cmem[0]
ptxas info    : Compile time = 2.154 ms
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 368 bytes cmem[0]
)";
  CHECK(parse_resources(log) == std::vector<KernelResources>{{"first", 64, 80, 40, 4096}, {"second", 12, 0, 0, 0}});
  CHECK(parse_resources("").empty());
  CHECK(parse_resources("ptxas info    : Compiling entry function 'k' for 'sm_80'\nptxas info    : Used 12 registers\n").empty());
}

TEST_CASE("a kernel becomes a cubin with its resources, or PTX") {
  const auto rtc = nvrtc();
  if (!rtc) return;
  CHECK(contains(rtc->version(), "."));
  for (const std::string arch : {"sm_80", "sm_89", "sm_90a"}) {
    CAPTURE(arch);
    const DeviceCode cubin = rtc->compile(saxpy, "saxpy.cu", arch, DeviceImage::cubin);
    CHECK(cubin.image.substr(1, 3) == "ELF");
    CHECK(cubin.compile_ms > 0);
    REQUIRE(cubin.kernels.size() == 1);
    const KernelResources& k = cubin.kernels[0];
    CHECK(k.symbol == "saxpy");
    CHECK(k.registers > 4);
    CHECK(k.registers < 64);
    CHECK(k.spill_bytes == 0);
    CHECK(k.stack_bytes == 0);
    CHECK(k.shared_bytes == 1024);  // without what the system keeps

    const DeviceCode ptx = rtc->compile(saxpy, "saxpy.cu", arch, DeviceImage::ptx);
    CHECK(contains(ptx.image, ".target " + arch));
    CHECK(contains(ptx.image, ".entry saxpy"));
    CHECK(ptx.image.find('\0') == std::string::npos);
    CHECK(ptx.kernels.empty());
  }
}

TEST_CASE("spills are counted") {
  const auto rtc = nvrtc();
  if (!rtc) return;
  const std::string source = R"(
extern "C" __global__ void sums(const float* x, float* y) {
  float v[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) v[i] = x[32 * i + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 48; ++i) y[32 * i + threadIdx.x] = v[i] + v[47 - i] * v[(7 * i) % 48];
})";
  const auto kernels = rtc->compile(source, "sums.cu", "sm_80", DeviceImage::cubin, {"--maxrregcount=24"}).kernels;
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].registers <= 24);
  CHECK(kernels[0].spill_bytes > 0);
  CHECK(kernels[0].stack_bytes > 0);
}

TEST_CASE("errors in a source are told with their line; an unused variable is not even a warning") {
  const auto rtc = nvrtc();
  if (!rtc) return;
  const std::string message = error_of(ErrorCode::toolchain, [&] {
    rtc->compile("extern \"C\" __global__ void f(float* y) {\n\n  y[0] = nowhere;\n}", "f.cu", "sm_80", DeviceImage::cubin);
  });
  CHECK(contains(message, "f.cu(3): error"));
  CHECK(contains(message, "nowhere"));
  // What only ptxas sees.
  const std::string assembly = error_of(ErrorCode::toolchain, [&] {
    rtc->compile("extern \"C\" __global__ void f() { asm volatile(\"no.such.instruction;\"); }", "f.cu", "sm_80", DeviceImage::cubin);
  });
  CHECK(contains(assembly, "'.such'"));
  const std::string unused = "extern \"C\" __global__ void f() {\n  int unused;\n}";
  CHECK_FALSE(contains(rtc->compile(unused, "f.cu", "sm_80", DeviceImage::cubin).log, "unused"));
  CHECK(contains(error_of(ErrorCode::toolchain, [&] { rtc->compile("#include <stdint.h>\n", "f.cu", "sm_80", DeviceImage::ptx); }),
                 "stdint.h"));
}

TEST_CASE("an architecture that this NVRTC lacks") {
  const auto rtc = nvrtc();
  if (!rtc) return;
  for (const std::string arch : {"sm_1", "sm_83", "sm_999", "sm_", "sm_80x", "80", ""}) {
    CAPTURE(arch);
    const std::string message = error_of(ErrorCode::toolchain, [&] { rtc->compile(saxpy, "saxpy.cu", arch, DeviceImage::cubin); });
    CHECK(contains(message, "no architecture '" + arch + "'"));
    CHECK(contains(message, "sm_80, "));
  }
  if (rtc->supported_archs().front() > 70)
    CHECK(contains(error_of(ErrorCode::toolchain, [&] { rtc->compile(saxpy, "saxpy.cu", "sm_70", DeviceImage::cubin); }),
                   "nvidia-cuda-nvrtc-cu12"));
}

TEST_CASE("threads compile at once") {
  const auto rtc = nvrtc();
  if (!rtc) return;
  std::string images[3];
  std::vector<std::thread> threads;
  for (std::string& image : images)
    threads.emplace_back([&image, rtc] { image = rtc->compile(saxpy, "saxpy.cu", "sm_80", DeviceImage::cubin).image; });
  for (auto& t : threads) t.join();
  for (const std::string& image : images) CHECK(image == images[0]);
  CHECK_FALSE(images[0].empty());
}

TEST_CASE("a library that is missing or another one") {
  const std::string missing = error_of(ErrorCode::toolchain, [] { Nvrtc::open({"/no/such/libnvrtc.so.13"}); });
  CHECK(contains(missing, "/no/such/libnvrtc.so.13"));
  CHECK(contains(missing, "nvidia-cuda-nvrtc"));
  CHECK(contains(missing, "--emit cuda"));
  CHECK(contains(error_of(ErrorCode::toolchain, [] { Nvrtc::open({"libm.so.6"}); }), "no nvrtcVersion"));
}
