// On a GPU: the primitives' bits against the shim's, small workloads against the reference. Without one the program says so and exits with
// 77, which CTest reports as skipped. The driver is RGEN_CUDA's, the compiler RGEN_NVRTC's, as for the command.
//
// The expectation comes from the same source, compiled and run by the fake compiler and driver: what differs is the reading of PTX that
// shim and kernels share, or an instruction's rounding.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/error.h"
#include "driver/cuda.h"
#include "driver/gpu_session.h"
#include "emit/prelude.h"
#include "support/kernel_batch.h"

using namespace rgen;
using run::CudaBuffer;
using run::CudaContext;
using run::CudaDriver;

namespace {

constexpr int kWords = 4096;  // of the input, and of each kernel's output

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Special values of f32, f16 and bf16, then bits without a pattern.
std::vector<uint32_t> patterns() {
  std::vector<uint32_t> all = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7f7fffff, 0x00000001,
                               0x00800000, 0x007fffff, 0x33800000, 0x387fe000, 0x38800000, 0x477fe000, 0x477fefff, 0x477ff000,
                               0x3f808000, 0x3f818000, 0x4f000000, 0xcf000000, 0x4effffff, 0x3f000000, 0x3fc00000, 0x40200000,
                               0xc0200000, 0x00010001, 0x7c007bff, 0xfc008001, 0x03ff0400, 0x3c003c01};
  uint64_t x = 88172645463325252;
  while (all.size() < kWords) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    const uint32_t bits = uint32_t(x >> 16);
    // Of three, two are numbers of everyday size.
    all.push_back(all.size() % 3 == 0 ? bits : (bits & 0x83ffffff) | 0x3c000000);
  }
  return all;
}

/// What a lane of a warp does with 4 words in; each kernel is 32 warps' worth of it over the input.
struct Probe {
  const char* name;
  std::vector<std::string> uses;  ///< primitives
  const char* body;               ///< from `const uint32_t* in` and `lane()` to `uint32_t out[4]`; `row`: the warp's 128 words
  bool exact = true;              ///< else within 4 units in the last place of f32
};

#define FLOAT_OF(i) "__uint_as_float(in[" #i "])"

const std::vector<Probe>& probes() {
  static const std::vector<Probe> all = {
      {"narrow",
       {"narrow_f16", "narrow_bf16"},
       "const vf a = " FLOAT_OF(0) ", b = " FLOAT_OF(
           1) "; out[0] = a == a ? narrow_f16(a) : 0; out[1] = b == b ? narrow_bf16(b) : 0;"},  // a NaN's bits are free
      {"widen",
       {"widen_f16", "widen_bf16"},
       "out[0] = __float_as_uint(widen_f16((uint16_t)in[0])); out[1] = __float_as_uint(widen_bf16((uint16_t)in[1]));"},
      {"arithmetic",
       {"vf_fma", "vf_div", "vf_sqrt", "vf_max"},
       "const vf a = " FLOAT_OF(0) ", b = " FLOAT_OF(1) ", c = " FLOAT_OF(
           2) "; out[0] = __float_as_uint(vf_fma(a, b, c)); "
              "out[1] = __float_as_uint(vf_div(a, b)); out[2] = __float_as_uint(vf_sqrt(c)); out[3] = __float_as_uint(vf_max(a, b));"},
      {"rounding",
       {"vf_round", "vf_floor", "vi_from_vf_rne", "vf_from_vi"},
       "out[0] = __float_as_uint(vf_round(" FLOAT_OF(0) ")); out[1] = __float_as_uint(vf_floor(" FLOAT_OF(
           1) ")); "
              "out[2] = (uint32_t)vi_from_vf_rne(" FLOAT_OF(2) "); out[3] = __float_as_uint(vf_from_vi((int)in[3]));"},
      {"integers",
       {"vi_dpbssd", "vi_max", "vi_abs", "saturate"},
       "out[0] = (uint32_t)vi_dpbssd((int)in[0], (int)in[1], (int)in[2]); out[1] = (uint32_t)vi_max((int)in[0], (int)in[1]); "
       "out[2] = (uint32_t)vi_abs((int)in[2]); out[3] = (uint32_t)saturate((int)in[3] >> 20, -128, 127);"},
      {"across",
       {"vf_hsum", "vf_hmax", "vi_hsum", "vi_hmin"},
       "out[0] = __float_as_uint(vf_hsum((float)((int)in[0] >> 16))); out[1] = __float_as_uint(vf_hmax(" FLOAT_OF(
           1) ")); "
              "out[2] = (uint32_t)vi_hsum((int)in[2]); out[3] = (uint32_t)vi_hmin((int)in[3]);"},
      {"functions",
       {"vf_exp", "vf_log", "vf_tanh", "vf_erf"},
       "const vf x = (float)((int)in[0] >> 16) / 4096.f; out[0] = __float_as_uint(vf_exp(x)); out[1] = __float_as_uint(vf_log(vf_abs(x) + "
       "0.25f)); "
       "out[2] = __float_as_uint(vf_tanh(x)); out[3] = __float_as_uint(vf_erf(x));",
       false},
      {"more_functions",
       {"vf_sigmoid", "vf_pow", "vf_rsqrt", "vf_abs"},
       "const vf x = (float)((int)in[0] >> 16) / 8192.f; out[0] = __float_as_uint(vf_sigmoid(x)); "
       "out[1] = __float_as_uint(vf_pow(vf_abs(x) + 0.5f, 1.75f)); out[2] = __float_as_uint(vf_rsqrt(vf_abs(x) + 0.5f)); out[3] = 0;",
       false},
  };
  return all;
}

/// A probe whose primitives this build does not have is left out, and said.
bool has_all(const Probe& p) {
  for (const std::string& name : p.uses)
    if (!emit::prelude_has(emit::Simd::cuda, name)) return false;
  return true;
}

/// vf_abs is used by some bodies beside what they are about.
std::string source_of(const Probe& p) {
  std::set<std::string> uses(p.uses.begin(), p.uses.end());
  uses.insert({"lane", "vf_abs"});
  return emit::prelude_text(emit::Simd::cuda, uses) +
         "extern \"C\" __global__ void __launch_bounds__(1024) probe(const uint32_t* words, uint32_t* results) {\n" +
         "  const uint32_t* in = words + 4 * threadIdx.x;\n  uint32_t* out = results + 4 * threadIdx.x;\n  " + p.body +
         "\n  (void)lane();\n}\n";
}

/// mma.sync: fragments of small integers, whose products and sums are exact in every order.
std::string fragments_source(const std::string& name, const std::string& types, const std::string& type, const std::string& constraint,
                             const std::string& word) {
  std::string outputs;
  for (int i = 0; i < 4; ++i) outputs += std::string(i ? ", " : "") + "\"" + constraint + "\"(c[" + std::to_string(i) + "])";
  return emit::prelude_text(emit::Simd::cuda, {"lane"}) + "#if defined(__CUDACC__)\nINLINE void " + name + "(" + type +
         "* c, const unsigned* a, const unsigned* b) {\n  asm volatile(\"mma.sync.aligned." + types +
         " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : " + outputs +
         " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));\n}\n#endif\n"
         "extern \"C\" __global__ void __launch_bounds__(1024) probe(const uint32_t* words, uint32_t* results) {\n"
         "  const uint32_t* in = words + 2 * threadIdx.x;\n  unsigned a[4], b[2];\n  " +
         type + " c[4];\n  for (int i = 0; i < 4; ++i) { const uint32_t w = in[i]; a[i] = " + word + "; c[i] = (" + type +
         ")(int)(w % 7); }\n  for (int i = 0; i < 2; ++i) { const uint32_t w = in[i + 4]; b[i] = " + word + "; }\n  " + name +
         "(c, a, b);\n  for (int i = 0; i < 4; ++i) results[4 * threadIdx.x + i] = *(uint32_t*)&c[i];\n  (void)lane();\n}\n";
}

/// wgmma of staged factors, 64 × 64 sums of 32 bytes of k, exact in every order: where a descriptor looks, and whose sums go where.
std::string group_source(const std::string& type, const std::string& word) {
  const std::string product = "wgmma_" + type, sums = type == "s8" ? "vi" : "vf";
  return emit::prelude_text(emit::Simd::cuda, {"lane", "shared_base", "fragment_zero", "fragment_settle", "stage_descriptor", "proxy_fence",
                                               product, product + "_n64", "wgmma_fence", "wgmma_commit", "wgmma_wait"}) +
         "extern \"C\" __global__ void __launch_bounds__(1024) probe(const uint32_t* words, uint32_t* results) {\n"
         "  uint32_t* const stage = (uint32_t*)shared_base();  // 64 rows, 64 columns\n  const uint32_t w = words[threadIdx.x];\n"
         "  stage[threadIdx.x] = " +
         word + ";\n  proxy_fence();\n  __syncthreads();\n  if (threadIdx.x >= 128) return;\n  " + sums +
         " c[2][16];\n  fragment_zero(c[0]);\n  fragment_zero(c[1]);\n  wgmma_fence();\n  " + product +
         "<64>(c[0], stage_descriptor(stage, 64), stage_descriptor(stage + 512, 64));\n  wgmma_commit();\n  wgmma_wait<0>();\n"
         "  fragment_settle(c[0]);\n  fragment_settle(c[1]);\n"
         "  for (int i = 0; i < 32; ++i) results[32 * threadIdx.x + i] = *(uint32_t*)&c[i / 16][i % 16];\n  (void)lane();\n}\n";
}

/// A box of floats, rounded on their way.
std::string rounded_source() {
  return emit::prelude_text(emit::Simd::cuda, {"lane", "shared_base", "barrier_init", "barriers_ready", "barrier_expect", "barrier_wait",
                                               "tensor_map", "tensor_copy_2d"}) +
         "extern \"C\" __global__ void __launch_bounds__(1024) probe(const uint32_t* words, uint32_t* results, const __grid_constant__ "
         "tensor_map, const __grid_constant__ tensor_map, const __grid_constant__ tensor_map floats) {\n"
         "  uint32_t* const stage = (uint32_t*)shared_base();\n  void* const full = stage + 1024;\n"
         "  if (threadIdx.x == 0) {\n    barrier_init(full, 1);\n    barriers_ready();\n  }\n  __syncthreads();\n"
         "  if (threadIdx.x == 0) {\n    barrier_expect(full, 4096);\n    tensor_copy_2d(stage, &floats, 0, 0, full);\n  }\n"
         "  barrier_wait(full, 0);\n  results[threadIdx.x] = stage[threadIdx.x];\n  (void)lane();\n}\n";
}

/// A stage that bulk copies fill and warps release, four times over.
std::string bulk_source() {
  return emit::prelude_text(emit::Simd::cuda, {"lane", "shared_base", "barrier_init", "barriers_ready", "barrier_arrive", "barrier_expect",
                                               "barrier_wait", "barrier_release", "bulk_copy"}) +
         "extern \"C\" __global__ void __launch_bounds__(1024) probe(const uint32_t* words, uint32_t* results) {\n"
         "  uint32_t* const stage = (uint32_t*)shared_base();\n  void* const full = stage + 1024;\n  void* const empty = stage + 1026;\n"
         "  if (threadIdx.x == 0) {\n    barrier_init(full, 1);\n    barrier_init(empty, 32);\n    barriers_ready();\n  }\n  "
         "__syncthreads();\n"
         "  for (int round = 0; round < 4; ++round) {\n    barrier_wait(empty, (round + 1) % 2);\n    if (threadIdx.x == 0) {\n"
         "      barrier_expect(full, 4096);\n      bulk_copy(stage, words + 1024 * round, 4096, full);\n    }\n"
         "    barrier_wait(full, round % 2);\n    results[1024 * round + threadIdx.x] = stage[1023 - threadIdx.x];\n"
         "    barrier_release<1>(empty);\n  }\n  (void)lane();\n}\n";
}

/// Boxes of a matrix that it has all of and that it ends in, and pixels under a window at two of its places.
std::string boxes_source() {
  return emit::prelude_text(emit::Simd::cuda, {"lane", "shared_base", "barrier_init", "barriers_ready", "barrier_expect", "barrier_wait",
                                               "tensor_map", "tensor_copy_2d", "pixel_copy"}) +
         "extern \"C\" __global__ void __launch_bounds__(1024) probe(const uint32_t* words, uint32_t* results, const __grid_constant__ "
         "tensor_map matrix, const __grid_constant__ tensor_map pixels) {\n"
         "  uint32_t* const stage = (uint32_t*)shared_base();\n  void* const full = stage + 4096;\n"
         "  if (threadIdx.x == 0) {\n    barrier_init(full, 1);\n    barriers_ready();\n  }\n  __syncthreads();\n"
         "  if (threadIdx.x == 0) {\n    barrier_expect(full, 16384);\n    tensor_copy_2d(stage, &matrix, 0, 0, full);\n"
         "    tensor_copy_2d(stage + 1024, &matrix, 24, 9, full);\n    pixel_copy(stage + 2048, &pixels, 0, -1, -2, 0, 0, 0, full);\n"
         "    pixel_copy(stage + 3072, &pixels, 0, 1, 3, 1, 1, 2, full);\n  }\n  barrier_wait(full, 0);\n"
         "  for (int i = 0; i < 4; ++i) results[1024 * i + threadIdx.x] = stage[1024 * i + threadIdx.x];\n  (void)words, "
         "(void)lane();\n}\n";
}

/// A driver with its compiler and a device.
struct Machine {
  std::shared_ptr<const CudaDriver> driver;
  std::shared_ptr<const run::Nvrtc> nvrtc;

  /// A matrix of 56 × 30 halves, 128 apart; images of 5 × 6 pixels of 64, every other of a row under a window; a matrix of 28 × 32 floats,
  /// 32 apart, to be rounded.
  std::array<run::cuda::TensorMap, 3> maps(const CudaContext& context, void* words) const {
    const run::cuda::Api& api = driver->api();
    std::array<run::cuda::TensorMap, 3> made;
    const unsigned long long matrix[] = {56, 30}, apart[] = {256}, images[] = {64, 5, 6, 3}, image_strides[] = {128, 640, 3840};
    const unsigned box[] = {64, 32}, ones[] = {1, 1}, steps[] = {1, 2, 1, 1};
    const int lower[] = {-1, -2}, upper[] = {-1, 0};
    context.check(api.encode_map(&made[0], run::cuda::map_f16, 2, words, matrix, apart, box, ones, 0, run::cuda::map_swizzle_128,
                                 run::cuda::map_l2_256, 0),
                  "cuTensorMapEncodeTiled");
    context.check(api.encode_pixels(&made[1], run::cuda::map_f16, 4, words, images, image_strides, lower, upper, 64, 32, steps, 0,
                                    run::cuda::map_swizzle_128, run::cuda::map_l2_256, 0),
                  "cuTensorMapEncodeIm2col");
    const unsigned long long floats[] = {28, 32}, floats_apart[] = {128};
    const unsigned rows[] = {32, 32};
    context.check(api.encode_map(&made[2], run::cuda::map_tf32, 2, words, floats, floats_apart, rows, ones, 0, run::cuda::map_swizzle_128,
                                 run::cuda::map_l2_256, 0),
                  "cuTensorMapEncodeTiled");
    return made;
  }

  /// `feature`: of the architecture, as "a" in sm_90a. `mapped`: the kernel takes the maps too.
  std::vector<uint32_t> run(const std::string& source, int64_t shared_bytes = 0, const std::string& feature = "",
                            bool mapped = false) const {
    const CudaContext context = CudaContext::acquire(driver, 0);
    const run::CudaScope scope(context);
    const std::string image = nvrtc->compile(source, "probe.cu", context.device().arch() + feature, run::DeviceImage::cubin).image;
    const auto module = run::CudaModule::load(context, image);
    const run::CudaStream stream(context);
    const CudaBuffer in(context, 2 * kWords * 4), out(context, kWords * 4);
    std::vector<uint32_t> words = patterns();
    words.resize(2 * kWords);
    in.upload(words.data(), stream);
    out.fill(0, stream);
    std::array<run::cuda::TensorMap, 3> seen{};
    if (mapped) seen = maps(context, in.data());
    void *p = in.data(), *q = out.data(), *arguments[] = {&p, &q, &seen[0], &seen[1], &seen[2]};
    context.check(driver->api().launch(module->function("probe", shared_bytes), 1, 1, 1, 1024, 1, 1, unsigned(shared_bytes),
                                       stream.handle(), arguments, nullptr),
                  "cuLaunchKernel");
    std::vector<uint32_t> results(kWords);
    out.download(results.data(), stream);
    stream.wait();
    return results;
  }
};
Machine device, shim;

bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
bool close(uint32_t got, uint32_t want) {
  float a = 0, b = 0;
  std::memcpy(&a, &got, 4), std::memcpy(&b, &want, 4);
  return a == b || std::abs(a - b) <= 4 * 0x1p-23f * std::abs(b) + 0x1p-126f;
}

void compare(const std::string& source, bool exact, int64_t shared_bytes = 0, const std::string& feature = "", bool mapped = false) {
  const std::vector<uint32_t> got = device.run(source, shared_bytes, feature, mapped),
                              want = shim.run(source, shared_bytes, feature, mapped);
  int wrong = 0;
  for (size_t i = 0; i < got.size() && wrong < 5; ++i) {
    const bool same = got[i] == want[i] || (is_nan(got[i]) && is_nan(want[i])) || (!exact && close(got[i], want[i]));
    CHECK_MESSAGE(same, "thread ", i / 4, ", word ", i % 4, ": the device has ", got[i], ", the shim ", want[i]);
    wrong += !same;
  }
}

}  // namespace

TEST_CASE("primitives: the device's bits are the shim's") {
  for (const Probe& p : probes()) {
    SUBCASE(p.name) {
      if (has_all(p))
        compare(source_of(p), p.exact);
      else
        MESSAGE("left out: a primitive has another name");
    }
  }
}

TEST_CASE("tensor cores: where a thread's words of a fragment go") {
  if (device.driver->device(0).major < 8) return;
  const std::string f16 = "(0x3c00u + 0x400u * (w & 1)) | (0x3c00u + 0x400u * (w >> 1 & 1)) << 16",
                    bf16 = "(0x3f80u + 0x80u * (w & 1)) | (0x3f80u + 0x80u * (w >> 1 & 1)) << 16",
                    tf32 = "0x3f800000u + 0x800000u * (w & 1)", s8 = "(w & 0x0f0f0f0fu) | (w >> 4 & 1) * 0xf0u";
  SUBCASE("f16") { compare(fragments_source("mma_m16n8k16_f16", "m16n8k16.row.col.f32.f16.f16.f32", "float", "+f", f16), true); }
  SUBCASE("bf16") { compare(fragments_source("mma_m16n8k16_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", "float", "+f", bf16), true); }
  SUBCASE("tf32") { compare(fragments_source("mma_m16n8k8_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", "float", "+f", tf32), true); }
  SUBCASE("s8") { compare(fragments_source("mma_m16n8k32_s8", "m16n8k32.row.col.s32.s8.s8.s32", "int", "+r", s8), true); }
}

TEST_CASE("groups of warps: factors in shared memory, copies in bulk, barriers") {
  if (device.driver->device(0).major != 9) return;
  SUBCASE("f16") {
    compare(group_source("f16", "(0x3c00u + 0x400u * (w & 1)) | (0x3c00u + 0x400u * (w >> 1 & 1)) << 16"), true, 4096, "a");
  }
  SUBCASE("bf16") {
    compare(group_source("bf16", "(0x3f80u + 0x80u * (w & 1)) | (0x3f80u + 0x80u * (w >> 1 & 1)) << 16"), true, 4096, "a");
  }
  SUBCASE("s8") { compare(group_source("s8", "(w & 0x0f0f0f0fu) | (w >> 4 & 1) * 0xf0u"), true, 4096, "a"); }
  SUBCASE("tf32") { compare(group_source("tf32", "0x3f800000u + 0x800000u * (w & 1)"), true, 4096, "a"); }
  SUBCASE("boxes of floats, rounded to tf32") { compare(rounded_source(), true, 4096 + 8, "a", true); }
  SUBCASE("boxes and pixels") { compare(boxes_source(), true, 16384 + 8, "a", true); }
  SUBCASE("bulk") { compare(bulk_source(), true, 4096 + 16, "a"); }
}

TEST_CASE("every small workload and example, as planned for the nearest shipped profile, against the reference") {
  const run::CudaDeviceInfo info = device.driver->device(0);
  std::shared_ptr<const hw::Profile> profile;
  for (const std::string& name : hw::shipped_profiles()) {
    auto p = std::make_shared<const hw::Profile>(hw::load_profile(name));
    if (p->kind == hw::Profile::Kind::gpu && run::cannot_run(emit::cuda_arch(*p), info).empty()) profile = p;
  }
  REQUIRE_MESSAGE(profile, "no shipped profile is of ", info.title());
  MESSAGE(profile->name);
  driver::BuildOptions options;
  options.nvrtc = variable("RGEN_NVRTC");
  options.gpu.library = variable("RGEN_CUDA");
  for (const test::Problem& problem : test::small_problems(RGEN_SOURCE_DIR)) {
    CAPTURE(problem.program->name);
    const driver::Kernel kernel = driver::compile(driver::plan(problem.program, profile, {}).front(), options);
    const run::Comparison c = driver::verify_on_device(kernel, 1);
    CHECK_MESSAGE(c.ok, c.worst);
  }
}

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  try {
    device = {CudaDriver::open(variable("RGEN_CUDA")), run::Nvrtc::open({variable("RGEN_NVRTC")})};
    std::printf("%s, CUDA %s, NVRTC %s\n", device.driver->device(0).title().c_str(), device.driver->version().c_str(),
                device.nvrtc->version().c_str());
  } catch (const Error& e) {
    std::printf("skipped: %s\n", e.what());
    return skipped;
  }
  // The fake device is of the real one's architecture.
  const run::CudaDeviceInfo info = device.driver->device(0);
  setenv("FAKE_CUDA_CC", (std::to_string(info.major) + "." + std::to_string(info.minor)).c_str(), 1);
  shim = {CudaDriver::open(RGEN_FAKE_CUDA), run::Nvrtc::open({RGEN_FAKE_NVRTC})};
  return doctest::Context(argc, argv).run();
}
