// A loaded kernel: the C entry of the contract, its prepacks, and how to call, verify and time it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../../include/rgen/threads.h"
#include "ir/ir.h"

namespace rgen::run {

using EntryFn = int (*)(void* const* args, const int64_t* dims, void* workspace, const rgen_threads* threads);
using PrepackFn = int (*)(const void* src, void* dst);

/// What the manifest says that a caller needs.
struct PrepackInfo {
  int input;
  std::string symbol;
  int64_t bytes;
};
struct KernelInfo {
  std::string symbol;
  int64_t workspace_bytes = 0;
  std::vector<PrepackInfo> prepack;
};

/// A shared object opened with RTLD_LOCAL; closed with the last owner.
class Module {
 public:
  static std::shared_ptr<Module> open(const std::filesystem::path& so);  ///< throws Error{toolchain} with dlerror's text
  void* symbol(const std::string& name) const;                           ///< throws Error{toolchain}
  ~Module();

 private:
  explicit Module(void* handle) : handle_(handle) {}
  void* handle_;
};

/// A pool of `count` threads (the caller is one of them; fewer where the system refuses them) behind an rgen_threads; spins briefly, then
/// sleeps. Tasks of one run are handed out by an atomic counter. Each worker may be pinned to a core of the caller's affinity mask. Safe to
/// share: a run that finds the pool busy (a second thread, or a task of this pool) does its tasks on the calling thread.
class ThreadPool {
 public:
  explicit ThreadPool(int count, bool pin = false);
  ~ThreadPool();
  const rgen_threads* handle() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// 64-byte aligned zeroed memory.
class Buffer {
 public:
  explicit Buffer(size_t bytes = 0);
  void* data() const { return data_.get(); }
  size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_;
};

/// Seeded inputs: floats ~ N(0,1) (constant operands of a sum of K products scaled by K^-1/2; |N(0,1)| for what a root or a logarithm
/// is taken of), integers uniform over their range; typed
/// and laid out by the tensors' strides. Same seed, same bytes, on every machine.
std::vector<Buffer> make_inputs(const ir::TensorProgram& program, uint64_t seed, const std::vector<int64_t>& dim_values = {});
/// Zeroed, one per output.
std::vector<Buffer> make_outputs(const ir::TensorProgram& program, const std::vector<int64_t>& dim_values = {});

/// The error bound of one output element: dtype's unit roundoff, the accumulation's length and the stages' depth (docs/numerics.md).
struct Comparison {
  bool ok = true;
  double max_rel_err = 0;  ///< max |got − want| / max|want|
  double tolerance = 0;    ///< the largest allowed |got − want| / max|want| over the elements
  std::string worst;       ///< "out[3,17]: got 1.25, expected 1.5, allowed 1e-05"
};
Comparison compare(const ir::TensorProgram& program, const ir::Reference& reference, const std::vector<Buffer>& outputs,
                   const std::vector<int64_t>& dim_values = {});

struct Timing {
  double median_us, min_us;
  int64_t calls;
};
/// Repeats `call` after a warm-up until `seconds` have passed: medians of batches long enough for the clock.
Timing time_calls(const std::function<void()>& call, double seconds = 0.2);

}  // namespace rgen::run
