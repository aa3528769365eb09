// The profile document of a GPU that is here: what its driver says, and what small kernels measure, over the nearest shipped profile.
#pragma once
#include <string>

#include "driver/compile.h"
#include "driver/gpu_microbench.h"

namespace rgen::driver {

/// What the driver tells of a device.
struct GpuAttributes {
  std::string name;
  int major = 0, minor = 0;
  int sms = 0;
  double clock_mhz = 0, memory_mhz = 0;  ///< 0: not told
  int bus_bits = 0;
  int64_t l2_bytes = 0, smem_per_sm = 0, smem_per_block = 0;
  int threads_per_sm = 0, blocks_per_sm = 0, threads_per_block = 0, registers_per_sm = 0;
};
GpuAttributes gpu_attributes(const run::CudaDriver& driver, int ordinal);

/// The JSON text of a profile. `figures`: nullptr = what cannot be told is estimated. Throws Error{unsupported} where no shipped profile is
/// of an architecture whose code the device runs.
std::string gpu_profile_text(const GpuAttributes& attributes, const GpuFigures* figures);

/// Measures the device for about two seconds, unless `measure` is false. Throws Error{device}, and Error{toolchain} without an NVRTC.
std::string device_profile_json(const GpuOptions& options, const std::string& nvrtc, bool measure);

}  // namespace rgen::driver
