#include "driver/cuda.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "hwmodel/estimate.h"
#include "run/cache.h"

namespace rgen::driver {

namespace {

/// A cache entry: the figures that NVRTC's log told, then the image.
std::string print_entry(const run::DeviceCode& code) {
  std::ostringstream out;
  out << "rgen-cuda 1 " << code.kernels.size() << '\n';
  for (const run::KernelResources& k : code.kernels)
    out << k.symbol << ' ' << k.registers << ' ' << k.spill_bytes << ' ' << k.stack_bytes << ' ' << k.shared_bytes << '\n';
  return out.str() + code.image;
}

/// Nothing when it is of another version: the cache has checked that it is whole.
std::optional<CudaImage> parse_entry(const std::string& entry) {
  std::istringstream in(entry);
  std::string magic;
  int version = 0;
  size_t n_kernels = 0;
  if (!(in >> magic >> version >> n_kernels) || magic != "rgen-cuda" || version != 1) return std::nullopt;
  CudaImage image{{}, 0, "hit", {}};
  for (size_t i = 0; i < n_kernels; ++i) {
    run::KernelResources k;
    if (!(in >> k.symbol >> k.registers >> k.spill_bytes >> k.stack_bytes >> k.shared_bytes)) return std::nullopt;
    image.kernels.push_back(std::move(k));
  }
  if (in.get() != '\n') return std::nullopt;
  image.image = entry.substr(size_t(in.tellg()));
  if (image.image.empty()) return std::nullopt;
  return image;
}

/// Everything that the compiled bytes depend on.
std::string cache_key(const emit::Emitted& code, const std::string& arch, run::DeviceImage kind, const run::Nvrtc& nvrtc) {
  // Builds of one version differ: the file's size tells most of them apart.
  std::error_code ec;
  const auto size = std::filesystem::file_size(nvrtc.path(), ec);
  std::string key = std::string(RGEN_VERSION) + "\nnvrtc " + nvrtc.version() + '\n' + nvrtc.path().string() + '\n' +
                    (ec ? "" : std::to_string(size)) + '\n' + arch + (kind == run::DeviceImage::cubin ? " cubin" : " ptx");
  for (const std::string& f : nvrtc.default_flags()) key += '\n' + f;
  for (const std::string& f : code.flags) key += '\n' + f;
  return key + "\n\n" + code.source;
}

}  // namespace

CudaImage compile_cuda(const emit::Emitted& code, const std::string& arch, run::DeviceImage kind, const BuildOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto ms = [&] { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(); };
  const auto nvrtc = run::Nvrtc::open({options.nvrtc});
  const run::Cache cache(kernel_cache(options.cache_dir));
  const std::string key = cache_key(code, arch, kind, *nvrtc);
  if (const auto hit = cache.find(key))
    if (const auto entry = run::read_file(*hit))
      if (auto image = parse_entry(*entry)) {
        image->compile_ms = ms();
        return *image;
      }

  run::DeviceCode compiled = nvrtc->compile(code.source, code.symbol + ".cu", arch, kind, code.flags);
  if (cache.enabled()) {
    const run::TemporaryFolder folder;
    run::write_atomically(folder.path() / "entry", print_entry(compiled));
    cache.store(key, folder.path() / "entry");
  }
  return {std::move(compiled.image), ms(), cache.enabled() ? "miss" : "off", std::move(compiled.kernels)};
}

int blocks_per_sm(const run::KernelResources& kernel, int block, int64_t dynamic_shared, const hw::Profile& profile) {
  return hw::resident_blocks(block, kernel.registers, kernel.shared_bytes + dynamic_shared, profile);
}

}  // namespace rgen::driver
