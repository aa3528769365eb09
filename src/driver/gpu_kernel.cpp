#include "driver/gpu_kernel.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace rgen::driver {

using run::CudaContext;
using run::CudaDriver;
using run::CudaScope;
namespace cuda = run::cuda;

/// The code in one context.
struct GpuKernel::Loaded {
  std::shared_ptr<const run::CudaModule> module;
  std::vector<cuda::Function> launches, prepacks;

  const CudaContext& context() const { return module->context(); }
};

namespace {

void require_arch(const std::string& arch, const std::string& profile, const run::CudaDeviceInfo& device) {
  const std::string why = run::cannot_run(arch, device);
  if (!why.empty())
    throw Error(ErrorCode::device, "profile '" + profile + "' is for another GPU: " + why +
                                       "; take a profile of its architecture ('rgen profile list', 'rgen profile new --device " +
                                       std::to_string(device.ordinal) + "'), or another device (--device)");
}

/// The device of the current context, else that of the ordinal.
run::CudaDeviceInfo target_device(const CudaDriver& driver, int ordinal) {
  cuda::Context current = nullptr;
  driver.check(driver.api().context_get(&current), "cuCtxGetCurrent");
  if (current) driver.check(driver.api().context_device(&ordinal), "cuCtxGetDevice");
  return driver.device(ordinal);
}

void enqueue(const CudaContext& context, const emit::Launch& l, cuda::Function function, std::vector<void*>& arguments,
             cuda::Stream stream) {
  const cuda::Result r = context.driver()->api().launch(function, unsigned(l.grid), 1, 1, unsigned(l.block), 1, 1, unsigned(l.shared_bytes),
                                                        stream, arguments.data(), nullptr);
  if (r != cuda::success)
    context.check(r, "cuLaunchKernel of '" + l.symbol + "' (" + std::to_string(l.grid) + " blocks of " + std::to_string(l.block) +
                         " threads, " + std::to_string(l.shared_bytes) + " bytes of shared memory)");
}

cuda::MapType map_type(DType t) {
  switch (t) {
    case DType::f16:
      return cuda::map_f16;
    case DType::bf16:
      return cuda::map_bf16;
    case DType::f32:
      return cuda::map_f32;
    case DType::s32:
      return cuda::map_s32;
    case DType::s16:
      return cuda::map_u16;
    default:
      return cuda::map_u8;
  }
}

/// The map of a tensor that begins at `address`.
cuda::TensorMap encoded(const CudaContext& context, const lower::TensorMap& map, void* address) {
  const cuda::Api& api = context.driver()->api();
  if (!api.encode_map || !api.encode_pixels)
    throw Error(ErrorCode::device, "this kernel needs cuTensorMapEncodeTiled, which the driver (CUDA " + context.driver()->version() +
                                       ") does not have; take one of CUDA 12 or later");
  std::vector<unsigned long long> extents(map.extents.begin(), map.extents.end()), strides;
  for (size_t d = 1; d < map.strides.size(); ++d) strides.push_back((unsigned long long)(map.strides[d] * size_of(map.dtype)));
  const std::vector<unsigned> box(map.box.begin(), map.box.end());
  std::vector<unsigned> element_strides(extents.size(), 1);
  void* const from = static_cast<char*>(address) + map.offset * size_of(map.dtype);
  const cuda::MapType type = map.tf32 ? cuda::map_tf32 : map_type(map.dtype);
  cuda::TensorMap made;
  if (map.pixels()) {
    const std::vector<int> lower(map.lower.begin(), map.lower.end()), upper(map.upper.begin(), map.upper.end());
    std::copy(map.steps.begin(), map.steps.end(), element_strides.begin() + 1);
    context.check(api.encode_pixels(&made, type, unsigned(extents.size()), from, extents.data(), strides.data(), lower.data(), upper.data(),
                                    box[0], box[1], element_strides.data(), 0, cuda::map_swizzle_128, cuda::map_l2_256, 0),
                  "cuTensorMapEncodeIm2col");
  } else {
    context.check(api.encode_map(&made, type, unsigned(extents.size()), from, extents.data(), strides.data(), box.data(),
                                 element_strides.data(), 0, cuda::map_swizzle_128, cuda::map_l2_256, 0),
                  "cuTensorMapEncodeTiled");
  }
  return made;
}

}  // namespace

GpuKernel::GpuKernel(const Planned& planned, emit::Emitted code, CudaImage image, std::shared_ptr<const CudaDriver> driver, int ordinal)
    : program_(planned.program),
      arch_(emit::cuda_arch(*planned.profile)),
      profile_(planned.profile->name),
      code_(std::move(code)),
      image_(std::move(image)),
      driver_(std::move(driver)),
      ordinal_(ordinal) {}

std::shared_ptr<const GpuKernel::Loaded> GpuKernel::find(cuda::Context current) const {
  const auto wanted = [&](const CudaContext& c) {
    return current ? c.handle() == current && c.is_current() : c.is_primary() && c.device().ordinal == ordinal_;
  };
  const auto found = std::find_if(loaded_.begin(), loaded_.end(), [&](const auto& l) { return wanted(l->context()); });
  return found == loaded_.end() ? nullptr : *found;
}

std::shared_ptr<const GpuKernel::Loaded> GpuKernel::load(CudaContext context) const {
  require_arch(arch_, profile_, context.device());
  auto loaded = std::make_shared<Loaded>();
  loaded->module = run::CudaModule::load(context, image_.image);
  for (const emit::Launch& l : code_.launches) loaded->launches.push_back(loaded->module->function(l.symbol, l.shared_bytes));
  for (const emit::PrepackEntry& p : code_.prepack)
    loaded->prepacks.push_back(loaded->module->function(p.launch.symbol, p.launch.shared_bytes));
  return loaded;
}

std::shared_ptr<const GpuKernel::Loaded> GpuKernel::loaded() const {
  cuda::Context current = nullptr;
  driver_->check(driver_->api().context_get(&current), "cuCtxGetCurrent");
  const std::lock_guard lock(mutex_);
  if (auto found = find(current)) return found;
  return loaded_.emplace_back(load(CudaContext::acquire(driver_, ordinal_)));
}

CudaContext GpuKernel::context() const { return loaded()->context(); }

void GpuKernel::require_aligned(const void* p, const std::string& what) const {
  if (p && reinterpret_cast<uintptr_t>(p) % emit::kCudaAlignment == 0) return;
  throw Error(ErrorCode::usage,
              what + (p ? ": the address is not a multiple of " + std::to_string(emit::kCudaAlignment) + " bytes" : " is null") +
                  "; addresses of the device are needed (cudaMalloc's are multiples of 256)",
              program_->name);
}

void GpuKernel::launch(void* const* args, void* workspace, cuda::Stream stream) const {
  const size_t n_inputs = program_->inputs.size(), n = n_inputs + program_->outputs.size();
  for (size_t i = 0; i < n; ++i)
    require_aligned(args[i], "argument " + std::to_string(i) + " ('" +
                                 (*program_)[i < n_inputs ? program_->inputs[i] : program_->outputs[i - n_inputs]].name + "')");
  if (code_.workspace_bytes > 0) require_aligned(workspace, "the workspace");
  const std::shared_ptr<const Loaded> code = loaded();
  const CudaScope scope(code->context());
  std::vector<void*> pointers, arguments;
  std::vector<cuda::TensorMap> maps;
  for (size_t i = 0; i < code_.launches.size(); ++i) {
    const emit::Launch& l = code_.launches[i];
    pointers.clear(), arguments.clear(), maps.clear();
    pointers.reserve(l.args.size()), maps.reserve(l.args.size());  // `arguments` points into them
    for (const emit::Launch::Arg& a : l.args) {
      void* const p = a.tensor >= 0 ? args[a.tensor] : static_cast<char*>(workspace) + a.workspace;
      arguments.push_back(a.map ? static_cast<void*>(&maps.emplace_back(encoded(code->context(), *a.map, p))) : &pointers.emplace_back(p));
    }
    enqueue(code->context(), l, code->launches[i], arguments, stream);
  }
}

void GpuKernel::prepack(int input, const void* source, void* packed, cuda::Stream stream) const {
  const auto entry =
      std::find_if(code_.prepack.begin(), code_.prepack.end(), [&](const emit::PrepackEntry& p) { return p.input == input; });
  if (entry == code_.prepack.end()) throw Error(ErrorCode::usage, "input " + std::to_string(input) + " is taken as it is", program_->name);
  require_aligned(source, "the source of input " + std::to_string(input));
  require_aligned(packed, "the packed form of input " + std::to_string(input));
  const std::shared_ptr<const Loaded> code = loaded();
  const CudaScope scope(code->context());
  void* from = const_cast<void*>(source);
  std::vector<void*> arguments = {&from, &packed};
  enqueue(code->context(), entry->launch, code->prepacks[size_t(entry - code_.prepack.begin())], arguments, stream);
}

void require_gpu(const hw::Profile& profile, const GpuOptions& options) {
  run::CudaDeviceInfo device;
  try {
    device = target_device(*CudaDriver::open(options.library), options.ordinal);
  } catch (const Error& e) {
    throw Error(e.code(), "profile '" + profile.name + "' is of a GPU, which 'run' and 'bench' need: " + e.what());
  }
  require_arch(emit::cuda_arch(profile), profile.name, device);
}

Kernel compile_gpu(const Planned& planned, const Emission& emission, const BuildOptions& options) {
  const CudaImage image = compile_cuda(emission.code, emit::cuda_arch(*planned.profile), run::DeviceImage::cubin, options);
  const auto start = std::chrono::steady_clock::now();
  Kernel k{planned.program,   nullptr,          nullptr, {},          {}, emission.code.workspace_bytes,
           emission.manifest, image.compile_ms, 0,       image.cache, {}};
  k.prepack_bytes.resize(planned.program->inputs.size(), 0);
  for (const emit::PrepackEntry& p : emission.code.prepack) k.prepack_bytes[size_t(p.input)] = p.bytes;
  const auto driver = CudaDriver::open(options.gpu.library);
  k.gpu = std::make_shared<const GpuKernel>(planned, emission.code, image, driver, options.gpu.ordinal);
  k.gpu->context();
  k.load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return k;
}

}  // namespace rgen::driver
