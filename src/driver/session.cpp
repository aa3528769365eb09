#include "driver/session.h"

#include <cstring>

#include "base/error.h"

namespace rgen::driver {

void check_code(const Kernel& kernel, int code) {
  if (code != 0) throw Error(ErrorCode::device, "the kernel returned code " + std::to_string(code), kernel.program->name);
}

std::vector<run::Buffer> pack(const Kernel& kernel, const std::vector<void*>& inputs) {
  std::vector<run::Buffer> packed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    packed.emplace_back(size_t(kernel.prepack_bytes[i]));
    if (kernel.prepack[i]) check_code(kernel, kernel.prepack[i](inputs[i], packed.back().data()));
  }
  return packed;
}

namespace {

std::vector<void*> pointers(const std::vector<run::Buffer>& buffers) {
  std::vector<void*> p;
  for (const run::Buffer& b : buffers) p.push_back(b.data());
  return p;
}

}  // namespace

Session::Session(const Kernel& kernel, uint64_t seed)
    : kernel_(kernel),
      inputs_(run::make_inputs(*kernel.program, seed)),
      packed_(pack(kernel, pointers(inputs_))),
      outputs_(run::make_outputs(*kernel.program)),
      workspace_(size_t(kernel.workspace_bytes)) {
  for (size_t i = 0; i < inputs_.size(); ++i) args_.push_back(kernel.prepack[i] ? packed_[i].data() : inputs_[i].data());
  for (const run::Buffer& o : outputs_) args_.push_back(o.data());
}

void Session::call(const rgen_threads* threads) const {
  check_code(kernel_, kernel_.entry(args_.data(), nullptr, kernel_.workspace_bytes > 0 ? workspace_.data() : nullptr, threads));
}

run::Comparison Session::verify(const rgen_threads* threads) const {
  // All bits set is NaN in every float type: an element that the kernel leaves out shows.
  for (const run::Buffer& o : outputs_) std::memset(o.data(), 0xff, o.size());
  call(threads);
  const std::vector<void*> inputs = pointers(inputs_);
  const std::vector<const void*> const_inputs(inputs.begin(), inputs.end());
  return run::compare(*kernel_.program, ir::evaluate_reference(*kernel_.program, const_inputs), outputs_);
}

run::Timing Session::time(double seconds, const rgen_threads* threads) const {
  call(threads);  // throws here what it would return inside the timed loop
  return run::time_calls([&] { kernel_.entry(args_.data(), nullptr, kernel_.workspace_bytes > 0 ? workspace_.data() : nullptr, threads); },
                         seconds);
}

}  // namespace rgen::driver
