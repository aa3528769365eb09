// A kernel that runs on a GPU: its code, and the contexts into which it is loaded.
#pragma once
#include <mutex>

#include "driver/compile.h"
#include "driver/cuda.h"
#include "run/cuda_device.h"

namespace rgen::driver {

/// Immutable but for the list of contexts; launches of several threads do not disturb each other.
class GpuKernel {
 public:
  /// Loads nothing yet.
  GpuKernel(const Planned& planned, emit::Emitted code, CudaImage image, std::shared_ptr<const run::CudaDriver> driver, int ordinal);

  /// Enqueues the kernels in order and returns; what fails on the device shows when the stream is waited for. `args`: addresses of the
  /// device, inputs (packed where the kernel takes them packed), then outputs, multiples of 16 bytes; `workspace` likewise, of at least
  /// workspace_bytes. The stream belongs to the context that is current, else to the primary one. After the first call in a context this
  /// allocates nothing of the device and waits for nothing, so that it may be captured into a graph. Throws Error{usage} for an address,
  /// Error{device}.
  void launch(void* const* args, void* workspace, run::cuda::Stream stream) const;
  /// Enqueues the packing of an input. Pre: it is taken packed; `packed` has its bytes.
  void prepack(int input, const void* source, void* packed, run::cuda::Stream stream) const;
  /// Where both happen now: loads the code there. Throws Error{device} too where the device's architecture is another one.
  run::CudaContext context() const;

  const std::vector<emit::Launch>& launches() const { return code_.launches; }
  const std::vector<run::KernelResources>& resources() const { return image_.kernels; }

 private:
  struct Loaded;
  std::shared_ptr<const Loaded> loaded() const;
  std::shared_ptr<const Loaded> find(run::cuda::Context current) const;
  std::shared_ptr<const Loaded> load(run::CudaContext context) const;
  void require_aligned(const void* p, const std::string& what) const;

  std::shared_ptr<const ir::TensorProgram> program_;
  std::string arch_, profile_;
  emit::Emitted code_;
  CudaImage image_;
  std::shared_ptr<const run::CudaDriver> driver_;
  int ordinal_;
  mutable std::mutex mutex_;  // of loaded_
  mutable std::vector<std::shared_ptr<const Loaded>> loaded_;
};

/// Throws Error{device} unless there is a driver and the device that would be used executes the profile's kernels.
void require_gpu(const hw::Profile& profile, const GpuOptions& options);
/// Throws what compile_cuda throws, and Error{device}.
Kernel compile_gpu(const Planned& planned, const Emission& emission, const BuildOptions& options);

}  // namespace rgen::driver
