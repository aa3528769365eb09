// Running a GPU's kernel on seeded inputs: buffers of the device made once, checked against the reference, timed in the steady state.
#pragma once
#include "driver/gpu_kernel.h"

namespace rgen::driver {

/// A kernel bound to its own buffers and stream, in the context that was current, else the primary one. Not shared between threads.
class GpuSession {
 public:
  /// Uploads the inputs (host addresses) and packs the constants that the kernel takes packed. Pre: kernel.gpu.
  GpuSession(const Kernel& kernel, const std::vector<const void*>& inputs);
  ~GpuSession();
  /// One call; the outputs come back to these host addresses.
  void call(const std::vector<void*>& outputs) const;
  /// By events around calls back to back.
  run::Timing time(double seconds) const;

 private:
  struct Device;
  void launch() const;

  const Kernel& kernel_;
  const run::CudaContext context_;
  std::unique_ptr<Device> device_;
};

/// One call on seeded inputs against the f64 reference.
run::Comparison verify_on_device(const Kernel& kernel, uint64_t seed);
run::Timing time_on_device(const Kernel& kernel, uint64_t seed, double seconds);

}  // namespace rgen::driver
