// NVIDIA's run-time compiler as a backend: opened when it is first needed, so that neither building nor linking rgen needs CUDA.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace rgen::run {

struct NvrtcOptions {
  std::string library;  ///< path or name of libnvrtc; "" = the loader's path, then /usr/local/cuda*
};

enum class DeviceImage { cubin, ptx };

/// What a kernel of a cubin takes of an SM, as ptxas tells it.
struct KernelResources {
  std::string symbol;
  int registers = 0;     ///< a thread
  int spill_bytes = 0;   ///< stored and loaded, a thread
  int stack_bytes = 0;   ///< a thread
  int shared_bytes = 0;  ///< static, a block
  bool operator==(const KernelResources&) const = default;
};
/// The kernels of a log that --ptxas-options=-v wrote; one of which a figure is missing is left out.
std::vector<KernelResources> parse_resources(const std::string& log);

struct DeviceCode {
  std::string image;  ///< ELF, or PTX text without its final NUL
  std::string log;
  double compile_ms = 0;
  std::vector<KernelResources> kernels;  ///< of a cubin, in the log's order
};

/// An open libnvrtc. Immutable; calls of several threads do not disturb each other.
class Nvrtc {
 public:
  /// Throws Error{toolchain} that says what was tried.
  static std::shared_ptr<const Nvrtc> open(const NvrtcOptions& options = {});

  const std::string& version() const { return version_; }                   ///< "13.0"
  const std::filesystem::path& path() const { return path_; }               ///< the file that was loaded
  const std::vector<int>& supported_archs() const { return archs_; }        ///< ascending: 75, 80, …
  const std::vector<std::string>& default_flags() const { return flags_; }  ///< besides the architecture; part of a cache's key

  /// `name` is the source's in messages; `arch` "sm_80", "sm_90a". Throws Error{toolchain} with the first errors of NVRTC's log, or naming
  /// the supported architectures.
  DeviceCode compile(const std::string& source, const std::string& name, const std::string& arch, DeviceImage kind,
                     const std::vector<std::string>& extra_flags = {}) const;

 private:
  struct Functions;
  Nvrtc(void* library, const std::string& name);
  void require_arch(const std::string& arch) const;

  std::shared_ptr<const Functions> functions_;
  std::string version_;
  std::filesystem::path path_;
  std::vector<int> archs_;
  std::vector<std::string> flags_;
};

}  // namespace rgen::run
