// CUDA sources: compiled through the cache, occupancy, manifest, the public build_file.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "driver/cuda.h"
#include "driver/manifest.h"
#include "ir/ir.h"
#include "rgen/rgen.hpp"

using namespace rgen;
using nlohmann::json;

namespace {

bool has_nvrtc() {
  try {
    run::Nvrtc::open();
    return true;
  } catch (const Error& e) {
    MESSAGE("skipped: " << std::string(e.what()));
    return false;
  }
}

int blocks(const std::string& profile, int threads, int registers, int64_t shared) {
  return driver::blocks_per_sm({"k", registers, 0, 0, 0}, threads, shared, hw::load_profile(profile));
}

const std::string twice = R"(extern "C" __global__ void twice(const float* x, float* y) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  y[i] = 2 * x[i];
})";

emit::Emitted emitted() {
  emit::Emitted code;
  code.source = twice;
  code.symbol = "twice";
  return code;
}

Source source() {
  Source s;
  s.text = twice;
  s.symbol = "twice";
  s.target = "cuda";
  s.arch = "sm_80";
  s.launches = {{"twice", 4, 64, 2048}};
  s.profile = Profile::load("a100");
  return s;
}

}  // namespace

TEST_CASE("occupancy is what the CUDA occupancy calculator says") {
  // 64 registers: 2048 a warp, 8 warps of a quarter's 16384, 32 of the SM.
  CHECK(blocks("a100", 128, 64, 0) == 8);
  CHECK(blocks("a100", 256, 33, 0) == 6);   // 1056 registers a warp become 1280: 4 × 12 warps
  CHECK(blocks("a100", 96, 40, 0) == 16);   // 48 warps of 1280
  CHECK(blocks("a100", 160, 168, 0) == 2);  // 4 × 3 warps of 5376
  CHECK(blocks("a100", 224, 255, 0) == 1);
  CHECK(blocks("a100", 1024, 64, 0) == 1);
  CHECK(blocks("a100", 1024, 65, 0) == 0);
  CHECK(blocks("a100", 1025, 16, 0) == 0);
  CHECK(blocks("a100", 32, 16, 0) == 32);   // the limit of blocks
  CHECK(blocks("a100", 1024, 16, 0) == 2);  // that of threads
  CHECK(blocks("a100", 20, 16, 0) == 32);   // a part of a warp takes a whole one
  CHECK(blocks("a100", 128, 256, 0) == 0);  // more registers than a thread has
  CHECK(blocks("rtx4090", 64, 24, 0) == 24);
  CHECK(blocks("rtx4090", 256, 40, 0) == 6);
  // Shared memory: a KiB more for each block from Ampere on, in units of 128 bytes; before that in units of 256.
  CHECK(blocks("a100", 128, 32, 16 << 10) == 9);
  CHECK(blocks("v100", 128, 32, 16 << 10) == 6);
  CHECK(blocks("a100", 32, 16, 4966) == 27);
  CHECK(blocks("v100", 32, 16, 3150) == 29);
  CHECK(blocks("a100", 128, 32, 163 << 10) == 1);
  CHECK(blocks("a100", 128, 32, (163 << 10) + 1) == 0);
  CHECK(blocks("rtx4090", 128, 32, 48 << 10) == 2);
  CHECK(blocks("h100", 384, 168, 200 << 10) == 1);
  // What the kernel declares counts with what the launch asks for.
  CHECK(driver::blocks_per_sm({"k", 32, 0, 0, 8 << 10}, 128, 8 << 10, hw::load_profile("a100")) == 9);
}

TEST_CASE("the architecture follows from the profile") {
  CHECK(emit::cuda_arch(hw::load_profile("a100")) == "sm_80");
  CHECK(emit::cuda_arch(hw::load_profile("h100")) == "sm_90a");
  CHECK(emit::cuda_arch(hw::load_profile("b200")) == "sm_100");
  const hw::Profile h100 = hw::load_profile("h100");
  const ir::TensorProgram mm = ir::parse_program(R"({"op": "matmul", "dtype": "f32", "params": {"m": 16, "n": 32, "k": 8}})");
  const std::string source = emit::emit_cuda(mm, rtile::construct(mm, h100, {}).front(), h100).source;
  CHECK(source.substr(0, source.find('\n')) == "// Compile: nvcc -arch=sm_90a -std=c++17 -cubin");
}

TEST_CASE("images are kept with their figures") {
  if (!has_nvrtc()) return;
  const run::TemporaryFolder folder;
  driver::BuildOptions options;
  const auto compile = [&](const std::string& arch, run::DeviceImage kind) { return driver::compile_cuda(emitted(), arch, kind, options); };
  const driver::CudaImage alone = compile("sm_80", run::DeviceImage::cubin);
  CHECK(alone.cache == "off");
  REQUIRE(alone.kernels.size() == 1);
  CHECK(alone.kernels[0].symbol == "twice");

  options.cache_dir = folder.path();
  CHECK(compile("sm_80", run::DeviceImage::cubin).cache == "miss");
  const driver::CudaImage kept = compile("sm_80", run::DeviceImage::cubin);
  CHECK(kept.cache == "hit");
  CHECK(kept.image == alone.image);
  CHECK(kept.kernels == alone.kernels);
  CHECK(compile("sm_86", run::DeviceImage::cubin).cache == "miss");
  CHECK(compile("sm_80", run::DeviceImage::ptx).cache == "miss");
  CHECK(compile("sm_80", run::DeviceImage::ptx).cache == "hit");
  CHECK(cache_info(folder.path()).entries == 3);

  for (const auto& e : std::filesystem::recursive_directory_iterator(folder.path()))
    if (e.is_regular_file()) run::write_atomically(e.path(), "damaged");
  CHECK(compile("sm_80", run::DeviceImage::cubin).image == alone.image);
}

TEST_CASE("a CUDA source is written as an image, with what its kernels take") {
  if (!has_nvrtc()) return;
  const run::TemporaryFolder folder;
  const BuildReport report = build_file(source(), Artifact::cubin, folder.path() / "k.cubin");
  CHECK(report.compiler == "nvrtc");
  CHECK(report.cache == "off");
  CHECK(run::read_file(folder.path() / "k.cubin")->substr(1, 3) == "ELF");
  REQUIRE(report.kernels.size() == 1);
  CHECK(report.kernels[0].symbol == "twice");
  CHECK(report.kernels[0].registers > 0);
  CHECK(report.kernels[0].spill_bytes == 0);
  CHECK(report.kernels[0].shared_bytes == 2048);
  CHECK(report.kernels[0].blocks_per_sm == 32);
  CHECK(build_file(source(), Artifact::ptx, folder.path() / "k.ptx").kernels.empty());

  Source wrong = source();
  wrong.launches[0].symbol = "thrice";
  CHECK_THROWS_WITH_AS(build_file(wrong, Artifact::cubin, folder.path() / "wrong"), doctest::Contains("thrice"), Error);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "wrong"));
}

TEST_CASE("sources and artifacts of different kinds do not mix") {
  CHECK_THROWS_WITH_AS(build_file(source(), Artifact::shared_library, "k.so"), doctest::Contains("a cubin or ptx"), Error);
  Source cpp = source();
  cpp.target = "cpp";
  CHECK_THROWS_WITH_AS(build_file(cpp, Artifact::cubin, "k.cubin"), doctest::Contains("a shared library or an object"), Error);
}

TEST_CASE("the manifest says how to launch") {
  const std::string spec = R"({"name": "mm", "op": "matmul", "dtype": "f32", "params": {"m": 16, "n": 32, "k": 8}})";
  driver::Planned planned;
  planned.program = std::make_shared<const ir::TensorProgram>(ir::parse_program(spec));
  planned.profile = std::make_shared<const hw::Profile>(hw::load_profile("h100"));
  planned.target = "cuda";
  planned.candidate.plan_json = "{}";
  emit::Emitted code;
  code.symbol = "mm_0";
  code.isa = "sm_90a";
  code.workspace_bytes = 4096;
  code.prepack = {{1, "mm_0_prepack_B", 2048, {"mm_0_prepack_B", 3, 96, 512, {}}}};
  code.launches = {{"mm_0_k0", 7, 128, 1024, {{0, -1}, {-1, 256}}}, {"mm_0_k1", 1, 32, 0, {{-1, 256}, {1, -1}, {2, -1}}}};
  const json m = json::parse(driver::print_manifest(planned, code));
  CHECK(m["target"] == "cuda");
  CHECK(m["arch"] == "sm_90a");
  CHECK(m["launch"] == json::parse(R"([
    {"symbol": "mm_0_k0", "grid": [7, 1, 1], "block": [128, 1, 1], "shared_bytes": 1024, "cluster": 1,
     "args": [{"tensor": "A"}, {"workspace": 256}]},
    {"symbol": "mm_0_k1", "grid": [1, 1, 1], "block": [32, 1, 1], "shared_bytes": 0, "cluster": 1,
     "args": [{"workspace": 256}, {"tensor": "B"}, {"tensor": "out"}]}])"));
  CHECK(m["prepack"] == json::parse(R"([{"input": "B", "symbol": "mm_0_prepack_B", "bytes": 2048, "launch":
    {"symbol": "mm_0_prepack_B", "grid": [3, 1, 1], "block": [96, 1, 1], "shared_bytes": 512, "cluster": 1,
     "args": [{"src": true}, {"dst": true}]}}])"));
  CHECK(m["workspace_bytes"] == 4096);
  // the source promises the compiler this much of every tensor
  CHECK(m["inputs"][0]["alignment"] == emit::kCudaAlignment);
  CHECK(m["inputs"][1]["alignment"] == emit::kCudaAlignment);
  CHECK(m["outputs"][0]["alignment"] == emit::kCudaAlignment);
}

TEST_CASE("a GPU's kernels need its device") {
  const Profile a100 = Profile::load("a100");
  CHECK_THROWS_WITH_AS(a100.require_device(), doctest::Contains("'predict' and 'explain' need no device"), Error);
  CHECK_FALSE(a100.missing_isa().empty());
}
