// GPUs through NVIDIA's driver, which is opened when it is first needed: devices, contexts, code, memory, streams and times.
//
// The caller's context stays the caller's: where the calling thread has a current one, everything happens in it; else the device's primary
// context, which the CUDA runtime uses too, is retained and is current only within a call of rgen.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "run/cuda_api.h"
#include "run/kernel.h"

namespace rgen::run {

struct CudaDeviceInfo {
  int ordinal = 0;  ///< among those that the driver shows (CUDA_VISIBLE_DEVICES)
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int64_t memory_bytes = 0;
  std::string arch() const;   ///< "sm_90"
  std::string title() const;  ///< "device 0 (NVIDIA H100 80GB HBM3, sm_90)"
};
/// "" if a cubin for `arch` ("sm_80", "sm_90a") runs on a device of this compute capability, else why not: code of a major version runs on
/// its later minor ones, architecture-specific code ("sm_90a") on its own alone, family-specific code ("sm_100f") like plain code.
std::string cannot_run(const std::string& arch, const CudaDeviceInfo& device);

class CudaModule;
class CudaContext;

/// An open libcuda. Immutable but for its cache of modules; calls of several threads do not disturb each other.
class CudaDriver {
 public:
  /// `library`: path or name of libcuda; "" = libcuda.so.1 on the loader's path. Throws Error{device} that says what was tried.
  static std::shared_ptr<const CudaDriver> open(const std::string& library = {});
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  const std::string& version() const { return version_; }  ///< of CUDA, that the driver implements: "13.0"
  const std::filesystem::path& path() const { return path_; }
  std::vector<CudaDeviceInfo> devices() const;
  CudaDeviceInfo device(int ordinal) const;                     ///< throws Error{device} naming those that exist
  int attribute(int ordinal, cuda::Attribute attribute) const;  ///< throws Error{device}

  const cuda::Api& api() const { return api_; }
  /// Throws Error{device}: "CALL: CUDA_ERROR_… (the driver's text)" for a result that is no success.
  void check(cuda::Result result, const std::string& call, const std::string& place = {}) const {
    if (result != cuda::success) fail(result, call, place);
  }

 private:
  friend class CudaModule;
  using ModuleKey = std::pair<std::string, std::pair<cuda::Context, unsigned long long>>;  ///< the image's hash, the context and its id

  CudaDriver(void* library, const std::string& name);
  [[noreturn]] void fail(cuda::Result result, const std::string& call, const std::string& place) const;

  cuda::Api api_{};
  std::string version_;
  std::filesystem::path path_;
  mutable std::mutex mutex_;                                              // of modules_
  mutable std::map<ModuleKey, std::weak_ptr<const CudaModule>> modules_;  // those that somebody holds
};

/// A context that can be made current. Copies share what they hold of the primary context.
class CudaContext {
 public:
  /// That of the calling thread, else the primary context of `ordinal`. Throws Error{device}.
  static CudaContext acquire(const std::shared_ptr<const CudaDriver>& driver, int ordinal);

  const std::shared_ptr<const CudaDriver>& driver() const { return driver_; }
  const CudaDeviceInfo& device() const { return device_; }
  cuda::Context handle() const { return handle_; }
  unsigned long long id() const { return id_; }
  bool is_primary() const { return primary_ != nullptr; }
  bool is_current() const;  ///< on the calling thread
  void check(cuda::Result result, const std::string& call) const {
    if (result != cuda::success) driver_->check(result, call, device_.title());
  }

 private:
  struct Primary;
  CudaContext(std::shared_ptr<const CudaDriver> driver, cuda::Context handle, CudaDeviceInfo device,
              std::shared_ptr<const Primary> primary);

  std::shared_ptr<const CudaDriver> driver_;
  cuda::Context handle_;
  CudaDeviceInfo device_;
  std::shared_ptr<const Primary> primary_;  ///< keeps it; nullptr: a context that the caller made, and may destroy
  unsigned long long id_ = 0;               ///< tells it from a later one at the same address; 0 where the driver has no such number
};

/// Makes a context current on this thread for as long as it lives.
class CudaScope {
 public:
  explicit CudaScope(const CudaContext& context);  ///< throws Error{device}
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  const CudaContext& context_;
  bool pushed_;
};

/// A cubin loaded into a context. It is unloaded with its last owner if the context is a primary one, or current on that thread; in any
/// other context of the caller's, of which nobody says whether it still exists, it stays until the context goes.
class CudaModule {
 public:
  /// Finds it loaded where a module of the same image in this context is alive. Throws Error{device}.
  static std::shared_ptr<const CudaModule> load(const CudaContext& context, const std::string& image);
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  /// A kernel that may be launched with so many bytes of dynamic shared memory. Throws Error{device}.
  cuda::Function function(const std::string& symbol, int64_t shared_bytes) const;
  const CudaContext& context() const { return context_; }

 private:
  CudaModule(const CudaContext& context, const std::string& image);

  CudaContext context_;
  cuda::Module handle_ = nullptr;
};

/// A stream that does not wait for the default one; destroyed after its work is done. The context must be current at both ends.
class CudaStream {
 public:
  explicit CudaStream(const CudaContext& context);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cuda::Stream handle() const { return handle_; }
  void wait() const;  ///< throws Error{device} for what failed on it

 private:
  CudaContext context_;
  cuda::Stream handle_ = nullptr;
};

/// Memory of a device, 256-byte aligned. The context must be current at both ends.
class CudaBuffer {
 public:
  CudaBuffer(const CudaContext& context, size_t bytes);  ///< throws Error{device} naming the bytes
  ~CudaBuffer();
  CudaBuffer(CudaBuffer&& other) noexcept;
  CudaBuffer& operator=(CudaBuffer&&) = delete;
  void* data() const { return reinterpret_cast<void*>(pointer_); }  // NOLINT: an address of the device
  size_t size() const { return bytes_; }
  void upload(const void* from, const CudaStream& stream) const;  ///< `from` is read before the stream is waited for
  void download(void* to, const CudaStream& stream) const;        ///< done when the stream is waited for
  void fill(unsigned char value, const CudaStream& stream) const;

 private:
  CudaContext context_;
  cuda::Pointer pointer_ = 0;
  size_t bytes_;
};

/// Between two events on a stream around `calls` times `enqueue`: milliseconds. The context must be current.
double elapsed_ms(const CudaContext& context, const CudaStream& stream, const std::function<void()>& enqueue, int64_t calls);
/// Repeats `enqueue` back to back on the stream until `seconds` have passed: medians of batches that are long beside the events'
/// resolution.
Timing time_on_device(const CudaContext& context, const CudaStream& stream, const std::function<void()>& enqueue, double seconds);

}  // namespace rgen::run
