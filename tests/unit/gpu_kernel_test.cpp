// A GPU's kernels through the public interface: planned, emitted, compiled by the fake compiler and executed by the fake driver.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "driver/api.h"
#include "driver/gpu_session.h"
#include "rgen/rgen.h"
#include "rgen/rgen.hpp"
#include "support/check.h"
#include "support/fake_cuda.h"

using namespace rgen;
using test::contains;
using test::error_of;
using test::FakeCounts;
using test::FakeCuda;
using test::Variable;

namespace {

BuildOptions build_options() {
  BuildOptions o;
  o.nvrtc = RGEN_FAKE_NVRTC;
  o.device.driver = RGEN_FAKE_CUDA;
  return o;
}

/// A product with a constant, so packed, on the tensor cores.
const std::string product =
    R"({"name": "mm", "op": "matmul", "dtype": "f16", "params": {"m": 33, "n": 64, "k": 64}, "epilogue": ["bias", "relu"]})";
/// Several kernels with a workspace between them.
const std::string attention =
    R"({"name": "at", "op": "attention", "dtype": "f32", "params": {"heads": 2, "seq": 19, "dim": 13, "scale": 0.25}})";
const std::string sum = R"({"name": "sum", "dims": {"N": 64}, "inputs": {"X": {"shape": ["N"], "dtype": "f32"}},
                           "compute": ["Y[i:N] = X[i] + 1"], "outputs": ["Y"]})";

Kernel build(const std::string& spec) { return compile(Program::parse(spec), Profile::load("a100"), {}, build_options()); }

}  // namespace

TEST_CASE("a kernel is verified and timed on its device, and nothing stays there") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  for (const std::string& spec : {product, attention}) {
    CAPTURE(spec);
    const Kernel kernel = build(spec);
    CHECK(kernel.on_gpu());
    CHECK(kernel.report().compiler == "nvrtc");
    CHECK(kernel.report().device == "device 0 (Fake GPU, sm_80)");
    CHECK_FALSE(kernel.report().kernels.empty());
    const Verification v = kernel.verify();
    CAPTURE(v.worst);
    CHECK(v.ok);
    CHECK(v.tolerance > 0);
    const Timing t = kernel.time(0.001);
    CHECK(t.median_us > 0);
    CHECK(t.calls > 0);
  }
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("kernels start in the manifest's order, as it says") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const Kernel kernel = build(product);
  fake.reset();
  CHECK(kernel.verify().ok);
  const auto manifest = nlohmann::json::parse(kernel.manifest());
  std::vector<nlohmann::json> expected;
  for (const auto& p : manifest["prepack"]) expected.push_back(p["launch"]);
  for (const auto& l : manifest["launch"]) expected.push_back(l);
  REQUIRE(expected.size() >= 2);
  std::string calls = fake.calls();
  size_t at = 0;
  for (const auto& l : expected) {
    const std::string line = "cuLaunchKernel " + l["symbol"].get<std::string>() + " grid " + l["grid"][0].dump() + " block " +
                             l["block"][0].dump() + " shared " + l["shared_bytes"].dump();
    CAPTURE(line);
    CAPTURE(calls);
    at = calls.find(line, at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(fake.count_calls("cuLaunchKernel") == int(expected.size()));
}

TEST_CASE("plain tensors of the host") {
  const Kernel kernel = build(sum);
  std::vector<float> x(64, 2), y(64);
  kernel.run({x.data(), y.data()});
  CHECK(y == std::vector<float>(64, 3));
  CHECK_THROWS_AS(kernel.run({x.data()}), Error);
}

TEST_CASE("an engine's own memory, context and stream") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  const auto driver = run::CudaDriver::open(RGEN_FAKE_CUDA);
  void* mine = fake.new_context(0);
  {
    const Kernel kernel = build(sum);
    const run::CudaContext context = run::CudaContext::acquire(driver, 0);
    const run::CudaStream stream(context);
    run::CudaBuffer x(context, 256), y(context, 256);
    std::vector<float> host(64, 4);
    x.upload(host.data(), stream);
    fake.reset();
    void* args[] = {x.data(), y.data()};
    kernel.launch(args, nullptr, stream.handle());
    kernel.launch(args, nullptr, stream.handle());
    // Nothing but launches: what may be captured into a graph.
    CHECK(fake.count_calls("cuModuleLoadData") == 0);
    CHECK(fake.count_calls("cuMemAlloc") == 0);
    CHECK(fake.count_calls("cuStream") == 0);
    CHECK(fake.count_calls("cuCtxPush") == 0);
    CHECK(fake.count_calls("cuDevicePrimaryCtx") == 0);
    CHECK(fake.count_calls("cuLaunchKernel") == 2);
    char address[32];
    std::snprintf(address, sizeof address, "%p", static_cast<void*>(stream.handle()));
    CHECK(contains(fake.calls(), std::string("stream ") + address));
    y.download(host.data(), stream);
    CHECK(host[63] == 5);

    void* shifted[] = {x.data(), static_cast<char*>(y.data()) + 4};
    CHECK(contains(error_of(ErrorCode::usage, [&] { kernel.launch(shifted, nullptr); }), "argument 1 ('Y')"));
    void* none[] = {nullptr, y.data()};
    CHECK(contains(error_of(ErrorCode::usage, [&] { kernel.launch(none, nullptr); }), "is null"));
    CHECK(kernel.call(args, nullptr) == -1);
    CHECK_THROWS_AS(kernel.prepack(0, x.data(), y.data()), Error);  // taken as it is
  }
  CHECK(fake.count("primaries") == before.primaries);
  fake.destroy_context(mine);
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("one kernel in two contexts, one after the other and by two threads at once") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const Variable two("FAKE_CUDA_DEVICES", "2");
  const FakeCounts before(fake);
  {
    const Kernel kernel = build(product);  // in the primary context of device 0
    const auto work = [&](int device) {
      void* mine = fake.new_context(device);
      for (int i = 0; i < 3; ++i) CHECK(kernel.verify(uint64_t(i)).ok);
      fake.destroy_context(mine);
    };
    CHECK(kernel.verify().ok);
    std::thread first(work, 0), second(work, 1);
    first.join();
    second.join();
    CHECK(kernel.verify().ok);
  }
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("a kernel that was loaded elsewhere is loaded where it is launched") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const Variable two("FAKE_CUDA_DEVICES", "2");
  const FakeCounts before(fake);
  {
    const Kernel kernel = build(sum);  // in the primary context of device 0
    CHECK(fake.count("modules") == before.modules + 1);
    for (const int device : {0, 1}) {
      CAPTURE(device);
      void* mine = fake.new_context(device);
      {
        const run::CudaContext context = run::CudaContext::acquire(run::CudaDriver::open(RGEN_FAKE_CUDA), 0);
        const run::CudaStream stream(context);
        const run::CudaBuffer x(context, 256), y(context, 256);
        void* args[] = {x.data(), y.data()};
        // The fake driver refuses a stream of another context.
        CHECK_NOTHROW(kernel.launch(args, nullptr, stream.handle()));
        CHECK(fake.count("modules") == before.modules + 2);
      }
      fake.destroy_context(mine);
    }
  }
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("what fails on a device is told, and nothing stays there") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  {
    const Kernel kernel = build(product);
    const FakeCounts built(fake);
    fake.fail("cuLaunchKernel", 719, 2);
    const std::string launch = error_of(ErrorCode::device, [&] { kernel.verify(); });
    CHECK(contains(launch, "device 0 (Fake GPU, sm_80): cuLaunchKernel of 'mm_"));
    CHECK(contains(launch, "blocks of"));
    CHECK(contains(launch, "CUDA_ERROR_LAUNCH_FAILED"));
    CHECK(FakeCounts(fake) == built);
    {
      const Variable little("FAKE_CUDA_MEMORY", "5000");
      CHECK(contains(error_of(ErrorCode::device, [&] { kernel.verify(); }), "CUDA_ERROR_OUT_OF_MEMORY"));
    }
    CHECK(FakeCounts(fake) == built);
    for (const char* call : {"cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamCreate", "cuStreamSynchronize"}) {
      CAPTURE(call);
      fake.fail(call, 700);
      CHECK(contains(error_of(ErrorCode::device, [&] { kernel.verify(); }), call));
      CHECK(FakeCounts(fake) == built);
    }
    CHECK(kernel.verify().ok);
  }
  fake.fail("cuModuleLoadData", 200);
  CHECK(contains(error_of(ErrorCode::device, [] { build(sum); }), "CUDA_ERROR_INVALID_IMAGE"));
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("a device of another architecture, before anything is compiled") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const Variable hopper("FAKE_CUDA_CC", "9.0");
  const std::string message = error_of(ErrorCode::device, [] { build(sum); });
  CHECK(contains(message, "profile 'a100' is for another GPU: code for sm_80 runs on compute capability 8.0 and later 8.x"));
  CHECK(contains(message, "has 9.0"));
  CHECK_NOTHROW(Profile::load("h100").require_device({RGEN_FAKE_CUDA}));
  const Variable later("FAKE_CUDA_CC", "8.9");
  CHECK_NOTHROW(Profile::load("a100").require_device({RGEN_FAKE_CUDA}));
  REQUIRE(devices(RGEN_FAKE_CUDA).size() == 1);
  CHECK(devices(RGEN_FAKE_CUDA)[0].arch == "sm_89");
}

TEST_CASE("the C interface launches on a stream") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  rgen_program* program = nullptr;
  rgen_profile* profile = nullptr;
  rgen_kernel* kernel = nullptr;
  rgen_options options = {};
  options.nvrtc = RGEN_FAKE_NVRTC, options.driver = RGEN_FAKE_CUDA;
  REQUIRE(rgen_program_parse(sum.c_str(), nullptr, &program) == RGEN_OK);
  REQUIRE(rgen_profile_load("a100", nullptr, &profile) == RGEN_OK);
  REQUIRE(rgen_compile(program, profile, &options, &kernel) == RGEN_OK);
  {
    const run::CudaContext context = run::CudaContext::acquire(run::CudaDriver::open(RGEN_FAKE_CUDA), 0);
    const run::CudaScope scope(context);
    const run::CudaBuffer x(context, 256), y(context, 256);
    void* args[] = {x.data(), y.data()};
    CHECK(rgen_kernel_launch(kernel, args, nullptr, nullptr) == RGEN_OK);
    CHECK(rgen_kernel_call(kernel, args, nullptr, nullptr, nullptr) == RGEN_USAGE);
    CHECK(contains(rgen_last_error(), "rgen_kernel_launch"));
    fake.fail("cuLaunchKernel", 1);
    CHECK(rgen_kernel_launch(kernel, args, nullptr, nullptr) == RGEN_TOOLCHAIN);
    CHECK(rgen_kernel_prepack_on(kernel, 0, args[0], args[1], nullptr) == RGEN_USAGE);
  }
  rgen_kernel_free(kernel);
  rgen_profile_free(profile);
  rgen_program_free(program);
  CHECK(FakeCounts(fake) == before);
}
