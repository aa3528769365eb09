// From an emitted CUDA source to a device's image, and what its kernels take of an SM.
#pragma once
#include <string>
#include <vector>

#include "driver/compile.h"
#include "run/nvrtc.h"

namespace rgen::driver {

struct CudaImage {
  std::string image;  ///< the file's content
  double compile_ms;
  std::string cache;                          ///< "hit", "miss" or "off"
  std::vector<run::KernelResources> kernels;  ///< of a cubin
};
/// Compiles the source, or finds it compiled. Throws Error{toolchain}.
CudaImage compile_cuda(const emit::Emitted& code, const std::string& arch, run::DeviceImage kind, const BuildOptions& options);

/// How many blocks of a kernel an SM holds at once, as the CUDA occupancy calculator has it; 0: none fits. `dynamic_shared`: bytes that the
/// launch asks for beside the kernel's own.
int blocks_per_sm(const run::KernelResources& kernel, int block, int64_t dynamic_shared, const hw::Profile& profile);

}  // namespace rgen::driver
