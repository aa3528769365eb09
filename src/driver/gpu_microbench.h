// Measurements of a GPU by small kernels, compiled at run time: rates and latencies of instructions in cycles of an SM's clock, memory by
// pointer chases and streams, launches. About two seconds. Internal to driver.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "run/cuda_device.h"
#include "run/nvrtc.h"

namespace rgen::driver {

/// The kernels' source. `tensor_cores`: with mma.sync of Ampere.
std::string microbench_source(bool tensor_cores);

/// A figure that the kernels measure: NAME of the kernels `rate_NAME` (of a full block) and `chain_NAME` (of one warp, where there is one).
struct GpuOperation {
  std::string figure;  ///< "fma", "exp", …: an atom (with its type: "mma.sync f16") or an entry of /cycles
  std::string kernel;
  double per_iteration;  ///< operations of a warp in an iteration
  double extra_mul = 0;  ///< multiplications beside each, whose cycles are not the operation's
  bool has_chain = false;
};
std::vector<GpuOperation> microbench_operations(bool tensor_cores);

struct GpuFigures {
  double ghz = 0;                         ///< sustained by all SMs at work
  std::map<std::string, double> cycles;   ///< of an SM for one operation of a warp, by GpuOperation::figure
  std::map<std::string, double> latency;  ///< cycles from result to result, by figure
  double launch_us = 0;                   ///< of an empty kernel, back to back
  double block_launch = 0;                ///< cycles from one block of a grid to the next
  double l1_latency = 0, shared_latency = 0, l2_latency = 0, dram_latency = 0;  ///< cycles of a dependent load
  double shared_read = 0, shared_write = 0;                                     ///< bytes a cycle and SM
  struct Row {
    int sharers;
    double l2_read, l2_write, dram_read, dram_write;  ///< GB/s of one SM when so many pull at once
  };
  std::vector<Row> rows;
  double copy_gbs = 0;  ///< all SMs copying: bytes read and written
};
/// Pre: the image is of microbench_source. Throws Error{device}.
GpuFigures measure_gpu(const run::CudaContext& context, const std::string& image, bool tensor_cores);

}  // namespace rgen::driver
