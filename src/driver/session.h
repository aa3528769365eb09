// Running a kernel on seeded inputs: buffers made once, checked against the reference, timed in the steady state.
#pragma once
#include <cstdint>
#include <vector>

#include "driver/compile.h"

namespace rgen::driver {

/// A kernel bound to its own buffers. Not shared between threads: calls write the outputs.
class Session {
 public:
  /// Fills the inputs from the seed and packs the constants that the kernel takes packed.
  Session(const Kernel& kernel, uint64_t seed);
  /// One call. Throws Error{device} when the kernel refuses an argument.
  void call(const rgen_threads* threads) const;
  /// One call against the f64 reference.
  run::Comparison verify(const rgen_threads* threads) const;
  run::Timing time(double seconds, const rgen_threads* threads) const;

 private:
  const Kernel& kernel_;
  std::vector<run::Buffer> inputs_, packed_, outputs_;
  run::Buffer workspace_;
  std::vector<void*> args_;
};

/// The packed form of every input that the kernel takes packed, empty buffers for the others. `inputs`: one pointer each.
std::vector<run::Buffer> pack(const Kernel& kernel, const std::vector<void*>& inputs);
/// Throws Error{device} for a code that is not 0.
void check_code(const Kernel& kernel, int code);

}  // namespace rgen::driver
