#include "driver/gpu_session.h"

#include <cstring>

#include "run/layout.h"

namespace rgen::driver {

using run::CudaBuffer;
using run::CudaScope;

/// What is on the device.
struct GpuSession::Device {
  run::CudaStream stream;
  std::vector<CudaBuffer> inputs, packed, outputs;
  CudaBuffer workspace;
  std::vector<void*> args;

  Device(const Kernel& kernel, const run::CudaContext& context, const std::vector<const void*>& sources)
      : stream(context), workspace(context, size_t(kernel.workspace_bytes)) {
    const ir::TensorProgram& program = *kernel.program;
    const auto bytes = [&](int tensor) { return size_t(run::Layout(program[tensor], {}).span()) * size_t(size_of(program[tensor].dtype)); };
    packed.reserve(sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      const CudaBuffer& input = inputs.emplace_back(context, bytes(program.inputs[i]));
      input.upload(sources[i], stream);
      args.push_back(input.data());
      if (kernel.prepack_bytes[i] == 0) continue;
      args.back() = packed.emplace_back(context, size_t(kernel.prepack_bytes[i])).data();
      // Packing must write all of it, padding too: what it leaves out shows as NaN.
      packed.back().fill(0xff, stream);
      kernel.gpu->prepack(int(i), input.data(), args.back(), stream.handle());
    }
    for (int o : program.outputs) args.push_back(outputs.emplace_back(context, bytes(o)).data());
    workspace.fill(0xff, stream);
    stream.wait();  // the sources are the caller's
  }
};

GpuSession::GpuSession(const Kernel& kernel, const std::vector<const void*>& inputs) : kernel_(kernel), context_(kernel.gpu->context()) {
  const CudaScope scope(context_);
  device_ = std::make_unique<Device>(kernel, context_, inputs);
}

GpuSession::~GpuSession() {
  try {
    const CudaScope scope(context_);
    device_.reset();
  } catch (...) {
    // The context is gone, and all its memory with it.
    device_.release();  // NOLINT: nothing of it can be freed
  }
}

void GpuSession::launch() const { kernel_.gpu->launch(device_->args.data(), device_->workspace.data(), device_->stream.handle()); }

void GpuSession::call(const std::vector<void*>& outputs) const {
  const CudaScope scope(context_);
  // All bits set is NaN in every float type: an element that the kernel leaves out shows.
  for (const CudaBuffer& o : device_->outputs) o.fill(0xff, device_->stream);
  launch();
  for (size_t i = 0; i < outputs.size(); ++i) device_->outputs[i].download(outputs[i], device_->stream);
  device_->stream.wait();
}

run::Timing GpuSession::time(double seconds) const {
  const CudaScope scope(context_);
  return run::time_on_device(
      context_, device_->stream, [&] { launch(); }, seconds);
}

namespace {

std::vector<const void*> pointers(const std::vector<run::Buffer>& buffers) {
  std::vector<const void*> p;
  for (const run::Buffer& b : buffers) p.push_back(b.data());
  return p;
}

}  // namespace

run::Comparison verify_on_device(const Kernel& kernel, uint64_t seed) {
  const std::vector<run::Buffer> inputs = run::make_inputs(*kernel.program, seed), outputs = run::make_outputs(*kernel.program);
  std::vector<void*> results;
  for (const run::Buffer& o : outputs) results.push_back(o.data());
  GpuSession(kernel, pointers(inputs)).call(results);
  return run::compare(*kernel.program, ir::evaluate_reference(*kernel.program, pointers(inputs)), outputs);
}

run::Timing time_on_device(const Kernel& kernel, uint64_t seed, double seconds) {
  const std::vector<run::Buffer> inputs = run::make_inputs(*kernel.program, seed);
  return GpuSession(kernel, pointers(inputs)).time(seconds);
}

}  // namespace rgen::driver
