#include "run/cuda_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "run/cache.h"

namespace rgen::run {

namespace {

constexpr const char* remedy =
    "install NVIDIA's driver, or name its libcuda.so.1 (RGEN_CUDA); 'gen' (--emit cuda, cubin, ptx), 'predict' and 'explain' need no "
    "device";

[[noreturn]] void fail(const std::string& message, const std::string& place = {}) { throw Error(ErrorCode::device, message, place); }

template <class F>
void bind(void* library, const std::string& name, const char* symbol, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, symbol));
  if (!function) fail(std::string("is no CUDA driver of CUDA 11.2 or later: it has no ") + symbol + "; " + remedy, name);
}

cuda::Api bind_all(void* library, const std::string& name) {
  cuda::Api f{};
  const auto get = [&](const char* symbol, auto*& function) { bind(library, name, symbol, function); };
  get("cuInit", f.init);
  get("cuDriverGetVersion", f.driver_version);
  get("cuGetErrorName", f.error_name);
  get("cuGetErrorString", f.error_string);
  get("cuDeviceGetCount", f.device_count);
  get("cuDeviceGet", f.device_get);
  get("cuDeviceGetName", f.device_name);
  get("cuDeviceTotalMem_v2", f.device_memory);
  get("cuDeviceGetAttribute", f.device_attribute);
  get("cuCtxGetCurrent", f.context_get);
  get("cuCtxPushCurrent_v2", f.context_push);
  get("cuCtxPopCurrent_v2", f.context_pop);
  get("cuCtxGetDevice", f.context_device);
  f.context_id = reinterpret_cast<decltype(f.context_id)>(dlsym(library, "cuCtxGetId"));
  get("cuDevicePrimaryCtxGetState", f.primary_state);
  get("cuDevicePrimaryCtxRetain", f.primary_retain);
  get("cuDevicePrimaryCtxRelease_v2", f.primary_release);
  get("cuModuleLoadData", f.module_load);
  get("cuModuleUnload", f.module_unload);
  get("cuModuleGetFunction", f.module_function);
  get("cuFuncSetAttribute", f.function_set);
  get("cuLaunchKernel", f.launch);
  f.encode_map = reinterpret_cast<decltype(f.encode_map)>(dlsym(library, "cuTensorMapEncodeTiled"));
  f.encode_pixels = reinterpret_cast<decltype(f.encode_pixels)>(dlsym(library, "cuTensorMapEncodeIm2col"));
  get("cuMemAlloc_v2", f.allocate);
  get("cuMemFree_v2", f.free);
  get("cuMemcpyHtoDAsync_v2", f.copy_to_device);
  get("cuMemcpyDtoHAsync_v2", f.copy_to_host);
  get("cuMemsetD8Async", f.fill);
  get("cuStreamCreate", f.stream_create);
  get("cuStreamDestroy_v2", f.stream_destroy);
  get("cuStreamSynchronize", f.stream_wait);
  get("cuEventCreate", f.event_create);
  get("cuEventDestroy_v2", f.event_destroy);
  get("cuEventRecord", f.event_record);
  get("cuEventSynchronize", f.event_wait);
  get("cuEventElapsedTime", f.event_elapsed);
  return f;
}

}  // namespace

std::string CudaDeviceInfo::arch() const { return "sm_" + std::to_string(major) + std::to_string(minor); }
std::string CudaDeviceInfo::title() const { return "device " + std::to_string(ordinal) + " (" + name + ", " + arch() + ")"; }

std::string cannot_run(const std::string& arch, const CudaDeviceInfo& device) {
  int number = 0;
  const char* end = arch.data() + arch.size();
  const auto digits = std::from_chars(arch.data() + std::min<size_t>(3, arch.size()), end, number);
  const bool specific = digits.ptr < end && *digits.ptr == 'a';
  const int major = number / 10, minor = number % 10;
  const std::string version = std::to_string(major) + "." + std::to_string(minor);
  if (major == device.major && (specific ? minor == device.minor : minor <= device.minor)) return "";
  const std::string later = minor == 9 ? version : version + " and later " + std::to_string(major) + ".x";
  return "code for " + arch + " runs on compute capability " + (specific ? version + " alone" : later) + ", and " + device.title() +
         " has " + std::to_string(device.major) + "." + std::to_string(device.minor);
}

CudaDriver::CudaDriver(void* library, const std::string& name) : api_(bind_all(library, name)) {
  Dl_info info{};
  path_ = dladdr(reinterpret_cast<void*>(api_.init), &info) && info.dli_fname ? info.dli_fname : name;
  if (const cuda::Result r = api_.init(0); r == cuda::no_device)
    rgen::run::fail(
        "no device: the driver found none (CUDA_ERROR_NO_DEVICE); 'gen' (--emit cuda, cubin, ptx), 'predict' and 'explain' need none",
        path_);
  else
    check(r, "cuInit", path_);
  int version = 0;
  check(api_.driver_version(&version), "cuDriverGetVersion", path_);
  version_ = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::shared_ptr<const CudaDriver> CudaDriver::open(const std::string& library) {
  const std::string name = library.empty() ? "libcuda.so.1" : library;
  // Never unloaded: the driver keeps threads and state of its own until the process ends.
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char* why = dlerror();
    rgen::run::fail("no CUDA driver: " + std::string(why ? why : name + " cannot be opened") + "; " + remedy);
  }
  return std::shared_ptr<const CudaDriver>(new CudaDriver(handle, name));
}

void CudaDriver::fail(cuda::Result result, const std::string& call, const std::string& place) const {
  const char *name = nullptr, *text = nullptr;
  if (api_.error_name(result, &name) != cuda::success || !name) name = "an error that the driver does not name";
  if (api_.error_string(result, &text) != cuda::success || !text) text = "no text";
  throw Error(ErrorCode::device, call + ": " + name + " (" + text + ", " + std::to_string(result) + ")", place);
}

std::vector<CudaDeviceInfo> CudaDriver::devices() const {
  int n = 0;
  check(api_.device_count(&n), "cuDeviceGetCount");
  std::vector<CudaDeviceInfo> all;
  for (int i = 0; i < n; ++i) all.push_back(device(i));
  return all;
}

CudaDeviceInfo CudaDriver::device(int ordinal) const {
  int n = 0;
  check(api_.device_count(&n), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= n)
    rgen::run::fail("no device " + std::to_string(ordinal) + ": " +
                    (n == 0   ? "the driver shows none"
                     : n == 1 ? "there is device 0 alone"
                              : "there are devices 0 to " + std::to_string(n - 1)));
  cuda::Device handle = 0;
  check(api_.device_get(&handle, ordinal), "cuDeviceGet");
  CudaDeviceInfo info;
  info.ordinal = ordinal;
  char name[256] = "";
  check(api_.device_name(name, int(sizeof name) - 1, handle), "cuDeviceGetName");
  info.name = name;
  size_t bytes = 0;
  check(api_.device_memory(&bytes, handle), "cuDeviceTotalMem_v2");
  info.memory_bytes = int64_t(bytes);
  info.major = attribute(ordinal, cuda::compute_capability_major);
  info.minor = attribute(ordinal, cuda::compute_capability_minor);
  return info;
}

int CudaDriver::attribute(int ordinal, cuda::Attribute attribute) const {
  cuda::Device handle = 0;
  int value = 0;
  check(api_.device_get(&handle, ordinal), "cuDeviceGet");
  check(api_.device_attribute(&value, attribute, handle), "cuDeviceGetAttribute of attribute " + std::to_string(attribute));
  return value;
}

// ---- Contexts

/// One count of the primary context.
struct CudaContext::Primary {
  std::shared_ptr<const CudaDriver> driver;
  cuda::Device device = 0;
  cuda::Context handle = nullptr;

  Primary(std::shared_ptr<const CudaDriver> d, cuda::Device dev, const std::string& place) : driver(std::move(d)), device(dev) {
    driver->check(driver->api().primary_retain(&handle, device), "cuDevicePrimaryCtxRetain", place);
  }
  ~Primary() { driver->api().primary_release(device); }
  Primary(const Primary&) = delete;
  Primary& operator=(const Primary&) = delete;
};

CudaContext::CudaContext(std::shared_ptr<const CudaDriver> driver, cuda::Context handle, CudaDeviceInfo device,
                         std::shared_ptr<const Primary> primary)
    : driver_(std::move(driver)), handle_(handle), device_(std::move(device)), primary_(std::move(primary)) {
  if (driver_->api().context_id && driver_->api().context_id(handle_, &id_) != cuda::success) id_ = 0;
}

CudaContext CudaContext::acquire(const std::shared_ptr<const CudaDriver>& driver, int ordinal) {
  const cuda::Api& f = driver->api();
  cuda::Context current = nullptr;
  driver->check(f.context_get(&current), "cuCtxGetCurrent");
  cuda::Device device = 0;
  if (!current) {
    const CudaDeviceInfo info = driver->device(ordinal);
    driver->check(f.device_get(&device, ordinal), "cuDeviceGet");
    const auto primary = std::make_shared<const Primary>(driver, device, info.title());
    return {driver, primary->handle, info, primary};
  }
  driver->check(f.context_device(&device), "cuCtxGetDevice");
  const CudaDeviceInfo info = driver->device(device);  // a CUdevice is the ordinal
  unsigned flags = 0;
  int active = 0;
  driver->check(f.primary_state(device, &flags, &active), "cuDevicePrimaryCtxGetState", info.title());
  // Retaining an inactive one would create it.
  if (active) {
    auto primary = std::make_shared<const Primary>(driver, device, info.title());
    if (primary->handle == current) return {driver, current, info, std::move(primary)};
  }
  return {driver, current, info, nullptr};
}

bool CudaContext::is_current() const {
  const cuda::Api& f = driver_->api();
  cuda::Context current = nullptr;
  if (f.context_get(&current) != cuda::success || current != handle_) return false;
  unsigned long long id = 0;
  return !f.context_id || f.context_id(current, &id) != cuda::success || id == id_;
}

CudaScope::CudaScope(const CudaContext& context) : context_(context), pushed_(!context.is_current()) {
  if (pushed_) context.check(context.driver()->api().context_push(context.handle()), "cuCtxPushCurrent_v2");
}
CudaScope::~CudaScope() {
  cuda::Context popped = nullptr;
  if (pushed_) context_.driver()->api().context_pop(&popped);
}

// ---- Code

CudaModule::CudaModule(const CudaContext& context, const std::string& image) : context_(context) {
  context.check(context.driver()->api().module_load(&handle_, image.data()),
                "cuModuleLoadData of " + std::to_string(image.size()) + " bytes");
}

std::shared_ptr<const CudaModule> CudaModule::load(const CudaContext& context, const std::string& image) {
  const CudaDriver& driver = *context.driver();
  const CudaDriver::ModuleKey key{content_hash(image), {context.handle(), context.id()}};
  // Loading under the lock: of two threads with the same image, the second finds the first one's.
  const std::lock_guard lock(driver.mutex_);
  std::erase_if(driver.modules_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = driver.modules_.find(key); found != driver.modules_.end())
    if (auto module = found->second.lock()) return module;
  const CudaScope scope(context);
  std::shared_ptr<const CudaModule> module(new CudaModule(context, image));
  driver.modules_[key] = module;
  return module;
}

CudaModule::~CudaModule() {
  const cuda::Api& f = context_.driver()->api();
  if (!handle_ || (!context_.is_primary() && !context_.is_current())) return;
  const bool push = !context_.is_current();
  if (push && f.context_push(context_.handle()) != cuda::success) return;
  f.module_unload(handle_);
  cuda::Context popped = nullptr;
  if (push) f.context_pop(&popped);
}

cuda::Function CudaModule::function(const std::string& symbol, int64_t shared_bytes) const {
  const CudaScope scope(context_);
  const cuda::Api& f = context_.driver()->api();
  cuda::Function function = nullptr;
  context_.check(f.module_function(&function, handle_, symbol.c_str()), "cuModuleGetFunction of '" + symbol + "'");
  // More than 48 KiB with what the kernel declares itself must be asked for.
  if (shared_bytes > 0)
    context_.check(f.function_set(function, cuda::function_max_dynamic_shared, int(shared_bytes)),
                   "cuFuncSetAttribute of " + std::to_string(shared_bytes) + " bytes of shared memory for '" + symbol + "'");
  return function;
}

// ---- Streams and memory

CudaStream::CudaStream(const CudaContext& context) : context_(context) {
  context.check(context.driver()->api().stream_create(&handle_, cuda::stream_non_blocking), "cuStreamCreate");
}
CudaStream::~CudaStream() {
  context_.driver()->api().stream_wait(handle_);
  context_.driver()->api().stream_destroy(handle_);
}
void CudaStream::wait() const { context_.check(context_.driver()->api().stream_wait(handle_), "cuStreamSynchronize"); }

CudaBuffer::CudaBuffer(const CudaContext& context, size_t bytes) : context_(context), bytes_(bytes) {
  // The driver refuses 0 bytes.
  context.check(context.driver()->api().allocate(&pointer_, std::max<size_t>(bytes, 1)),
                "cuMemAlloc_v2 of " + std::to_string(bytes) + " bytes");
}
CudaBuffer::~CudaBuffer() {
  if (pointer_) context_.driver()->api().free(pointer_);
}
CudaBuffer::CudaBuffer(CudaBuffer&& other) noexcept
    : context_(other.context_), pointer_(std::exchange(other.pointer_, 0)), bytes_(other.bytes_) {}

void CudaBuffer::upload(const void* from, const CudaStream& stream) const {
  if (bytes_ > 0) context_.check(context_.driver()->api().copy_to_device(pointer_, from, bytes_, stream.handle()), "cuMemcpyHtoDAsync_v2");
}
void CudaBuffer::download(void* to, const CudaStream& stream) const {
  if (bytes_ > 0) context_.check(context_.driver()->api().copy_to_host(to, pointer_, bytes_, stream.handle()), "cuMemcpyDtoHAsync_v2");
}
void CudaBuffer::fill(unsigned char value, const CudaStream& stream) const {
  if (bytes_ > 0) context_.check(context_.driver()->api().fill(pointer_, value, bytes_, stream.handle()), "cuMemsetD8Async");
}

}  // namespace rgen::run
