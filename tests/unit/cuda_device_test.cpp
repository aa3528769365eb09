// The driver's side of GPUs against the fake driver: contexts, code, memory, errors. Nothing of NVIDIA's is needed.
#include "run/cuda_device.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/error.h"
#include "run/nvrtc.h"
#include "support/check.h"
#include "support/fake_cuda.h"

using namespace rgen;
using namespace rgen::run;
using test::contains;
using test::error_of;
using test::FakeCounts;
using test::FakeCuda;
using test::Variable;

namespace {

const std::string twice = R"(extern "C" __global__ void __launch_bounds__(64) twice(const float* x, float* y) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  y[i] = 2 * x[i];
}
extern "C" __global__ void other(float* y) { y[0] = 1; }
)";

const std::string& image() {
  static const std::string cubin = Nvrtc::open({RGEN_FAKE_NVRTC})->compile(twice, "twice.cu", "sm_80", DeviceImage::cubin).image;
  return cubin;
}

std::shared_ptr<const CudaDriver> driver() { return CudaDriver::open(RGEN_FAKE_CUDA); }

CudaDeviceInfo device_of(int major, int minor) {
  CudaDeviceInfo d;
  d.name = "GPU", d.major = major, d.minor = minor;
  return d;
}

}  // namespace

TEST_CASE("devices and their attributes") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const auto d = driver();
  CHECK(d->version() == "12.4");
  CHECK(contains(d->path().string(), "rgen_fake_cuda"));
  REQUIRE(d->devices().size() == 1);
  CHECK(d->device(0).title() == "device 0 (Fake GPU, sm_80)");
  CHECK(d->device(0).memory_bytes == 1 << 30);
  CHECK(d->attribute(0, cuda::multiprocessor_count) == 4);
  CHECK(contains(error_of(ErrorCode::device, [&] { d->device(1); }), "there is device 0 alone"));
  CHECK(contains(error_of(ErrorCode::device, [&] { d->device(-1); }), "no device -1"));
  const Variable three("FAKE_CUDA_DEVICES", "3");
  CHECK(d->devices().size() == 3);
  CHECK(contains(error_of(ErrorCode::device, [&] { d->device(7); }), "devices 0 to 2"));
}

TEST_CASE("no driver, another library, no device: what was looked for and what works without") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const std::string missing = error_of(ErrorCode::device, [] { CudaDriver::open("/no/such/libcuda.so.1"); });
  CHECK(contains(missing, "/no/such/libcuda.so.1"));
  CHECK(contains(missing, "RGEN_CUDA"));
  CHECK(contains(missing, "cubin"));
  CHECK(contains(error_of(ErrorCode::device, [] { CudaDriver::open("libm.so.6"); }), "no cuInit"));
  const Variable none("FAKE_CUDA_DEVICES", "0");
  const std::string empty = error_of(ErrorCode::device, [] { driver(); });
  CHECK(contains(empty, "CUDA_ERROR_NO_DEVICE"));
  CHECK(contains(empty, "'predict'"));
}

TEST_CASE("which device runs a cubin") {
  CHECK(cannot_run("sm_80", device_of(8, 0)) == "");
  CHECK(cannot_run("sm_80", device_of(8, 9)) == "");
  CHECK(cannot_run("sm_90a", device_of(9, 0)) == "");
  CHECK(cannot_run("sm_90", device_of(9, 0)) == "");
  CHECK(cannot_run("sm_100", device_of(10, 3)) == "");
  CHECK(cannot_run("sm_100f", device_of(10, 3)) == "");
  CHECK(contains(cannot_run("sm_80", device_of(9, 0)), "8.0 and later 8.x, and device 0 (GPU, sm_90) has 9.0"));
  CHECK(contains(cannot_run("sm_89", device_of(8, 0)), "8.9, and"));
  CHECK(contains(cannot_run("sm_90a", device_of(10, 0)), "9.0 alone"));
  CHECK(contains(cannot_run("sm_100a", device_of(10, 3)), "10.0 alone"));
  CHECK(contains(cannot_run("sm_90a", device_of(8, 0)), "has 8.0"));
}

TEST_CASE("without a current context the primary one is retained and released, and nothing stays current") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  {
    const auto d = driver();
    const CudaContext context = CudaContext::acquire(d, 0), copy = context;
    CHECK(context.is_primary());
    CHECK_FALSE(context.is_current());
    CHECK(fake.count("primaries") == before.primaries + 1);
    {
      const CudaScope scope(context);
      CHECK(copy.is_current());
      const CudaScope inner(context);  // one push is enough
      CHECK(fake.count_calls("cuCtxPushCurrent_v2") == 1);
    }
    CHECK_FALSE(context.is_current());
  }
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("a context of the caller's is used, kept and left current") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  const auto d = driver();
  void* mine = fake.new_context(0);
  {
    const CudaContext context = CudaContext::acquire(d, 0);
    CHECK(context.handle() == mine);
    CHECK_FALSE(context.is_primary());
    const CudaScope scope(context);
    const CudaBuffer buffer(context, 100);
    const CudaStream stream(context);
  }
  CHECK(fake.count_calls("cuCtxPushCurrent_v2") == 0);
  CHECK(fake.count_calls("cuDevicePrimaryCtxRetain") == 0);
  CHECK(fake.count("primaries") == before.primaries);
  fake.destroy_context(mine);
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("a caller for whom the primary context is current, as the CUDA runtime does it") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  const auto d = driver();
  cuda::Context primary = nullptr;
  d->check(d->api().primary_retain(&primary, 0), "retain");
  d->check(d->api().context_push(primary), "push");
  {
    const CudaContext context = CudaContext::acquire(d, 0);
    CHECK(context.handle() == primary);
    CHECK(context.is_primary());
    CHECK(fake.count("primaries") == before.primaries + 2);
  }
  CHECK(fake.count("primaries") == before.primaries + 1);
  d->api().context_pop(&primary);
  d->api().primary_release(0);
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("code is loaded once a context, found again, and unloaded") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  const auto d = driver();
  {
    const CudaContext context = CudaContext::acquire(d, 0);
    const auto module = CudaModule::load(context, image());
    CHECK(CudaModule::load(CudaContext::acquire(d, 0), image()) == module);
    CHECK(fake.count_calls("cuModuleLoadData") == 1);
    CHECK(module->function("twice", 0) != nullptr);
    CHECK(contains(error_of(ErrorCode::device, [&] { module->function("thrice", 0); }),
                   "cuModuleGetFunction of 'thrice': CUDA_ERROR_NOT_FOUND"));
    CHECK(fake.count_calls("cuFuncSetAttribute") == 0);
    module->function("twice", 100 << 10);
    CHECK(fake.count_calls("cuFuncSetAttribute twice 8 102400") == 1);
    CHECK(contains(error_of(ErrorCode::device, [&] { module->function("twice", 200 << 10); }), "204800 bytes of shared memory"));

    void* mine = fake.new_context(0);
    const auto elsewhere = CudaModule::load(CudaContext::acquire(d, 0), image());
    CHECK(elsewhere != module);
    CHECK(fake.count("modules") == before.modules + 2);
    fake.destroy_context(mine);  // and the module with it
  }
  CHECK(FakeCounts(fake) == before);
  const auto again = CudaModule::load(CudaContext::acquire(d, 0), image());
  CHECK(fake.count_calls("cuModuleLoadData") == 3);
}

TEST_CASE("code in a context of the caller's goes with whichever ends first") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  const auto d = driver();
  void* mine = fake.new_context(0);
  auto module = CudaModule::load(CudaContext::acquire(d, 0), image());
  module.reset();  // while it is current
  CHECK(fake.count_calls("cuModuleUnload") == 1);
  CHECK(fake.count("modules") == before.modules);

  module = CudaModule::load(CudaContext::acquire(d, 0), image());
  std::thread([&] { module.reset(); }).join();  // where it is not: who knows whether the context is still there
  CHECK(fake.count_calls("cuModuleUnload") == 1);
  CHECK(fake.count_calls("cuCtxPushCurrent_v2") == 0);
  fake.destroy_context(mine);
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("memory goes there and back; what the driver refuses says how much was asked for") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  const CudaContext context = CudaContext::acquire(driver(), 0);
  {
    const CudaScope scope(context);
    const CudaStream stream(context);
    const float sent[4] = {1, 2, 3, 4};
    float got[4] = {};
    CudaBuffer buffer(context, sizeof sent);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 256 == 0);
    buffer.upload(sent, stream);
    const CudaBuffer moved = std::move(buffer);
    moved.download(got, stream);
    stream.wait();
    CHECK(got[3] == 4);
    moved.fill(0xff, stream);
    moved.download(got, stream);
    CHECK(got[0] != got[0]);
    CHECK(CudaBuffer(context, 0).size() == 0);
    const std::string refused = error_of(ErrorCode::device, [&] { CudaBuffer(context, size_t(2) << 30); });
    CHECK(contains(refused, "device 0 (Fake GPU, sm_80): cuMemAlloc_v2 of 2147483648 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory, 2)"));
  }
  CHECK(fake.count("allocations") == before.allocations);
  CHECK(fake.count("streams") == before.streams);
  CHECK(fake.count("misuses") == before.misuses);
}

TEST_CASE("every call that fails is named with the driver's words, and nothing is lost") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const auto everything = [] {
    const auto d = driver();
    d->devices();
    const CudaContext context = CudaContext::acquire(d, 0);
    const CudaScope scope(context);
    const auto module = CudaModule::load(context, image());
    module->function("twice", 64 << 10);
    const CudaStream stream(context);
    const CudaBuffer buffer(context, 64);
    float host[16] = {};
    buffer.fill(0, stream);
    buffer.upload(host, stream);
    buffer.download(host, stream);
    stream.wait();
    elapsed_ms(
        context, stream, [] {}, 1);
  };
  image();
  const FakeCounts before(fake);
  everything();
  CHECK(FakeCounts(fake) == before);
  for (const char* call : {"cuInit",
                           "cuDriverGetVersion",
                           "cuDeviceGetCount",
                           "cuDeviceGet",
                           "cuDeviceGetName",
                           "cuDeviceTotalMem_v2",
                           "cuDeviceGetAttribute",
                           "cuCtxGetCurrent",
                           "cuDevicePrimaryCtxRetain",
                           "cuCtxPushCurrent_v2",
                           "cuModuleLoadData",
                           "cuModuleGetFunction",
                           "cuFuncSetAttribute",
                           "cuStreamCreate",
                           "cuMemAlloc_v2",
                           "cuMemsetD8Async",
                           "cuMemcpyHtoDAsync_v2",
                           "cuMemcpyDtoHAsync_v2",
                           "cuStreamSynchronize",
                           "cuEventCreate",
                           "cuEventRecord",
                           "cuEventSynchronize",
                           "cuEventElapsedTime"}) {
    CAPTURE(call);
    fake.fail(call, 700);
    const std::string message = error_of(ErrorCode::device, everything);
    CHECK(contains(message, std::string(call)));
    CHECK(contains(message, "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered, 700)"));
    CHECK(FakeCounts(fake) == before);
  }
  fake.fail("cuModuleLoadData", 12345);
  CHECK(contains(error_of(ErrorCode::device, everything), "an error that the driver does not name (no text, 12345)"));
}

TEST_CASE("times by events") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  {
    const CudaContext context = CudaContext::acquire(driver(), 0);
    const CudaScope scope(context);
    const CudaStream stream(context);
    const Timing t = time_on_device(
        context, stream, [] { std::this_thread::sleep_for(std::chrono::microseconds(300)); }, 0.01);
    CHECK(t.median_us >= 300);
    CHECK(t.min_us <= t.median_us);
    CHECK(t.calls >= 5);
    CHECK(time_on_device(
              context, stream, [] {}, 0.001)
              .median_us < 1000);
    CHECK_THROWS_AS(time_on_device(
                        context, stream, [] { throw Error(ErrorCode::device, "lost"); }, 0.01),
                    Error);
  }
  CHECK(FakeCounts(fake) == before);
}

TEST_CASE("two threads load and leave at once") {
  const FakeCuda fake(RGEN_FAKE_CUDA);
  const FakeCounts before(fake);
  image();
  {
    const auto d = driver();
    const auto work = [&] {
      for (int i = 0; i < 20; ++i) {
        const CudaContext context = CudaContext::acquire(d, 0);
        const auto module = CudaModule::load(context, image());
        const CudaScope scope(context);
        CHECK(module->function("other", 0) != nullptr);
        const CudaBuffer buffer(context, 1000);
      }
    };
    std::thread first(work), second(work);
    first.join();
    second.join();
  }
  CHECK(FakeCounts(fake) == before);
}
