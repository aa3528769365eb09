// A libcuda on the CPU. Kernels are executed by the shim: an image is a shared object of fake_nvrtc.cpp. Strict where the driver only may
// be: what is destroyed, foreign or out of bounds is an error and a misuse that tests count.
#include "fake_cuda/fake_cuda.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "run/cuda_api.h"
#include "support/gpu_tensor_map.h"

using namespace rgen::run::cuda;

namespace rgen::run::cuda {
struct OpaqueContext {
  int device;
  unsigned long long id;
  bool alive = true;
};
struct OpaqueModule {
  Context context;
  void* library;
  bool alive = true;
};
struct OpaqueFunction {
  Module module;
  std::string symbol;
  const void* address;
  int n_args, max_shared;
  unsigned maps;  ///< which arguments are, by bits
};
struct OpaqueStream {
  Context context;
  bool alive = true;
};
struct OpaqueEvent {
  Context context;
  std::chrono::steady_clock::time_point at{};
  bool alive = true, recorded = false;
};
}  // namespace rgen::run::cuda

namespace {

struct Allocation {
  Context context;
  size_t bytes;
};

/// Handles are never freed: one that is used after its end must still be recognised.
struct State {
  std::recursive_mutex mutex;
  bool initialised = false;
  std::string calls, failing;
  int failing_result = 0, failing_in = 0;
  bool environment_read = false;
  unsigned long long next_id = 1;
  long misuses = 0, launches = 0;
  std::deque<OpaqueContext> contexts;
  std::deque<OpaqueModule> modules;
  std::deque<OpaqueFunction> functions;
  std::deque<OpaqueStream> streams;
  std::deque<OpaqueEvent> events;
  std::map<Pointer, Allocation> memory;
  struct Primary {
    Context context = nullptr;
    long count = 0;
  };
  std::map<int, Primary> primaries;

  ~State();
};
State state;
thread_local std::vector<Context> stack;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}
int n_devices() { return std::atoi(variable("FAKE_CUDA_DEVICES", "1").c_str()); }
size_t memory_limit() { return size_t(std::atoll(variable("FAKE_CUDA_MEMORY", "1073741824").c_str())); }

size_t live_bytes() {
  size_t n = 0;
  for (const auto& [p, a] : state.memory) n += a.bytes;
  return n;
}
template <class All>
long alive(const All& all) {
  long n = 0;
  for (const auto& x : all) n += x.alive;
  return n;
}
long primaries() {
  long n = 0;
  for (const auto& [device, p] : state.primaries) n += p.count;
  return n;
}

State::~State() {
  const std::string file = variable("FAKE_CUDA_REPORT", "");
  std::FILE* out = file.empty() ? nullptr : std::fopen(file.c_str(), "w");
  if (!out) return;
  for (const char* what : {"allocations", "modules", "streams", "events", "primaries", "misuses", "launches"})
    std::fprintf(out, "%s %ld\n", what, fake_cuda_count(what));
  std::fclose(out);
}

void read_failure() {
  if (state.environment_read) return;
  state.environment_read = true;
  const std::string text = variable("FAKE_CUDA_FAIL", "");
  const size_t colon = text.find(':'), second = text.find(':', colon + 1);
  if (colon == std::string::npos) return;
  fake_cuda_fail(text.substr(0, colon).c_str(), std::atoi(text.c_str() + colon + 1),
                 second == std::string::npos ? 1 : std::atoi(text.c_str() + second + 1));
}

Result misuse(Result r) {
  ++state.misuses;
  return r;
}

/// Records the call; the result that a test asked for, or what `work` returns.
template <class F>
Result call(const char* name, const std::string& arguments, F&& work) {
  const std::lock_guard lock(state.mutex);
  read_failure();
  state.calls += name + (arguments.empty() ? "" : " " + arguments) + "\n";
  if (state.failing == name && --state.failing_in == 0) return state.failing_result;
  if (!state.initialised && std::strcmp(name, "cuInit") != 0) return 3;
  return work();
}

Context current() { return stack.empty() ? nullptr : stack.back(); }
/// `work` with the current context, if it is alive.
template <class F>
Result within(const char* name, const std::string& arguments, F&& work) {
  return call(name, arguments, [&]() -> Result {
    if (!current()) return misuse(invalid_context);
    if (!current()->alive) return misuse(709);
    return work(current());
  });
}

void destroy(Context context) {
  context->alive = false;
  for (auto& m : state.modules) m.alive &= m.context != context;
  for (auto& s : state.streams) s.alive &= s.context != context;
  for (auto& e : state.events) e.alive &= e.context != context;
  for (auto i = state.memory.begin(); i != state.memory.end();) {
    const bool gone = i->second.context == context;
    if (gone) std::free(reinterpret_cast<void*>(i->first));
    i = gone ? state.memory.erase(i) : std::next(i);
  }
}

bool is_range(Pointer p, size_t bytes, Context context) {
  auto after = state.memory.upper_bound(p);
  if (after == state.memory.begin()) return false;
  const auto& [start, a] = *--after;
  return a.context == context && p - start + bytes <= a.bytes;
}
bool is_stream(Stream s, Context context) {
  for (const OpaqueStream& one : state.streams)
    if (&one == s) return one.alive && one.context == context;
  return s == nullptr;
}

/// Of an ELF whose section headers are at its end, as linkers put them.
size_t elf_bytes(const void* image) {
  const auto* h = static_cast<const Elf64_Ehdr*>(image);
  return std::memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 ? h->e_shoff + size_t(h->e_shnum) * h->e_shentsize : 0;
}

void* load_library(const void* image, size_t bytes) {
  std::error_code error;  // nothing may be thrown through the driver's interface
  std::string path = std::filesystem::temp_directory_path(error) / "fake_cuda_XXXXXX";
  const int fd = error ? -1 : mkstemp(path.data());
  if (fd < 0) return nullptr;
  const bool written = write(fd, image, bytes) == ssize_t(bytes);
  close(fd);
  void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  return library;
}

int attribute(int which) {
  const std::string cc = variable("FAKE_CUDA_CC", "8.0");
  switch (which) {
    case max_threads_per_block:
      return 1024;
    case warp_size:
      return 32;
    case clock_rate:
      return 1000000;
    case multiprocessor_count:
      return 4;
    case memory_clock_rate:
      return 500000;
    case global_memory_bus_width:
      return 128;
    case l2_cache_size:
      return 256 << 10;
    case max_threads_per_multiprocessor:
      return 2048;
    case compute_capability_major:
      return std::atoi(cc.c_str());
    case compute_capability_minor:
      return std::atoi(cc.c_str() + cc.find('.') + 1);
    case max_shared_memory_per_multiprocessor:
      return 164 << 10;
    case max_registers_per_multiprocessor:
      return 65536;
    case max_shared_memory_per_block_optin:
      return 163 << 10;
    case max_blocks_per_multiprocessor:
      return 32;
  }
  return -1;
}

std::string text(const void* p) {
  char s[32];
  std::snprintf(s, sizeof s, "%p", p);
  return s;
}

}  // namespace

extern "C" {

void fake_cuda_reset() {
  const std::lock_guard lock(state.mutex);
  state.calls.clear();
  state.failing.clear();
}
void fake_cuda_fail(const char* name, int result, int nth) {
  const std::lock_guard lock(state.mutex);
  state.failing = name, state.failing_result = result, state.failing_in = nth;
}
const char* fake_cuda_calls() {
  const std::lock_guard lock(state.mutex);
  thread_local std::string copy;
  copy = state.calls;
  return copy.c_str();
}
long fake_cuda_count(const char* what) {
  const std::lock_guard lock(state.mutex);
  const std::string w = what;
  return w == "allocations" ? long(state.memory.size())
         : w == "bytes"     ? long(live_bytes())
         : w == "modules"   ? alive(state.modules)
         : w == "streams"   ? alive(state.streams)
         : w == "events"    ? alive(state.events)
         : w == "primaries" ? primaries()
         : w == "misuses"   ? state.misuses
         : w == "launches"  ? state.launches
                            : -1;
}
void* fake_cuda_new_context(int device) {
  const std::lock_guard lock(state.mutex);
  state.contexts.push_back({device, state.next_id++});
  stack.push_back(&state.contexts.back());
  return stack.back();
}
void fake_cuda_destroy_context(void* context) {
  const std::lock_guard lock(state.mutex);
  destroy(static_cast<Context>(context));
  if (current() == context) stack.pop_back();
}

Result cuInit(unsigned) {
  return call("cuInit", "", [] {
    if (n_devices() == 0) return Result(no_device);
    state.initialised = true;
    return success;
  });
}
Result cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", "", [&] { return *version = 12040, success; });
}
Result cuGetErrorName(Result r, const char** name) {
  static const std::map<Result, const char*> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},       {2, "CUDA_ERROR_OUT_OF_MEMORY"},          {100, "CUDA_ERROR_NO_DEVICE"},
      {101, "CUDA_ERROR_INVALID_DEVICE"},    {200, "CUDA_ERROR_INVALID_IMAGE"},        {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {400, "CUDA_ERROR_INVALID_HANDLE"},       {500, "CUDA_ERROR_NOT_FOUND"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},   {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = names.find(r);
  if (found == names.end()) return invalid_value;
  *name = found->second;
  return success;
}
Result cuGetErrorString(Result r, const char** name) {
  const char* code = nullptr;
  if (cuGetErrorName(r, &code) != success) return invalid_value;
  *name = r == out_of_memory ? "out of memory" : r == 700 ? "an illegal memory access was encountered" : "as the fake driver says";
  return success;
}

Result cuDeviceGetCount(int* n) {
  return call("cuDeviceGetCount", "", [&] { return *n = n_devices(), success; });
}
Result cuDeviceGet(Device* device, int ordinal) {
  return call("cuDeviceGet", std::to_string(ordinal), [&]() -> Result {
    if (ordinal < 0 || ordinal >= n_devices()) return misuse(invalid_device);
    *device = ordinal;
    return success;
  });
}
Result cuDeviceGetName(char* name, int size, Device) {
  return call("cuDeviceGetName", "", [&] { return std::snprintf(name, size_t(size), "Fake GPU"), success; });
}
Result cuDeviceTotalMem_v2(size_t* bytes, Device) {
  return call("cuDeviceTotalMem_v2", "", [&] { return *bytes = memory_limit(), success; });
}
Result cuDeviceGetAttribute(int* value, int which, Device) {
  return call("cuDeviceGetAttribute", std::to_string(which), [&] {
    *value = attribute(which);
    return *value < 0 ? misuse(invalid_value) : success;
  });
}

Result cuCtxGetCurrent(Context* context) {
  return call("cuCtxGetCurrent", "", [&] { return *context = current(), success; });
}
Result cuCtxPushCurrent_v2(Context context) {
  return call("cuCtxPushCurrent_v2", text(context), [&]() -> Result {
    if (!context || !context->alive) return misuse(invalid_context);
    stack.push_back(context);
    return success;
  });
}
Result cuCtxPopCurrent_v2(Context* context) {
  return call("cuCtxPopCurrent_v2", "", [&]() -> Result {
    if (stack.empty()) return misuse(invalid_context);
    *context = stack.back();
    stack.pop_back();
    return success;
  });
}
Result cuCtxGetDevice(Device* device) {
  return within("cuCtxGetDevice", "", [&](Context c) { return *device = c->device, success; });
}
Result cuCtxGetId(Context context, unsigned long long* id) {
  return call("cuCtxGetId", "", [&]() -> Result {
    if (!context->alive) return misuse(invalid_context);
    *id = context->id;
    return success;
  });
}
Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", "", [&] {
    *flags = 0, *active = state.primaries[device].count > 0;
    return success;
  });
}
Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return call("cuDevicePrimaryCtxRetain", std::to_string(device), [&] {
    State::Primary& p = state.primaries[device];
    if (p.count++ == 0) {
      state.contexts.push_back({device, state.next_id++});
      p.context = &state.contexts.back();
    }
    *context = p.context;
    return success;
  });
}
Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return call("cuDevicePrimaryCtxRelease_v2", std::to_string(device), [&]() -> Result {
    State::Primary& p = state.primaries[device];
    if (p.count == 0) return misuse(invalid_context);
    if (--p.count == 0) destroy(p.context);
    return success;
  });
}

Result cuModuleLoadData(Module* module, const void* image) {
  return within("cuModuleLoadData", "", [&](Context c) -> Result {
    const size_t bytes = elf_bytes(image);
    void* library = bytes ? load_library(image, bytes) : nullptr;
    if (!library) return invalid_image;
    const auto* major = static_cast<const int*>(dlsym(library, "fake_major"));
    if (!major || *major != attribute(compute_capability_major)) {
      dlclose(library);
      return no_binary_for_gpu;
    }
    state.modules.push_back({c, library});
    *module = &state.modules.back();
    return success;
  });
}
Result cuModuleUnload(Module module) {
  return within("cuModuleUnload", "", [&](Context c) -> Result {
    if (!module->alive || module->context != c) return misuse(invalid_handle);
    module->alive = false;
    dlclose(module->library);
    return success;
  });
}
Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  return within("cuModuleGetFunction", name, [&](Context) -> Result {
    if (!module->alive) return misuse(invalid_handle);
    const void* address = dlsym(module->library, name);
    const auto* n_args = static_cast<const int*>(dlsym(module->library, ("fake_args_" + std::string(name)).c_str()));
    if (!address || !n_args) return not_found;
    const auto* maps = static_cast<const unsigned*>(dlsym(module->library, ("fake_maps_" + std::string(name)).c_str()));
    state.functions.push_back({module, name, address, *n_args, 48 << 10, maps ? *maps : 0});
    *function = &state.functions.back();
    return success;
  });
}
Result cuFuncSetAttribute(Function function, int which, int value) {
  return within("cuFuncSetAttribute", function->symbol + " " + std::to_string(which) + " " + std::to_string(value), [&](Context) -> Result {
    if (!function->module->alive || which != function_max_dynamic_shared) return misuse(invalid_handle);
    if (value > attribute(max_shared_memory_per_block_optin)) return invalid_value;
    function->max_shared = value;
    return success;
  });
}
Result cuLaunchKernel(Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                      Stream stream, void** arguments, void**) {
  const std::string what = function->symbol + " grid " + std::to_string(gx) + " block " + std::to_string(bx) + " shared " +
                           std::to_string(shared) + " stream " + text(stream);
  return within("cuLaunchKernel", what, [&](Context c) -> Result {
    if (!function->module->alive || function->module->context != c || !is_stream(stream, c)) return misuse(invalid_handle);
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || int(shared) > function->max_shared) return misuse(invalid_value);
    using Launch = const char*(const void*, long long, int, long long, void* const*, int);
    auto* launch = reinterpret_cast<Launch*>(dlsym(function->module->library, "fake_launch"));
    std::vector<void*> values;
    for (int i = 0; i < function->n_args; ++i)  // a map is passed by value, and here by its address
      values.push_back(function->maps >> i & 1 ? arguments[i] : *static_cast<void**>(arguments[i]));
    ++state.launches;
    const char* error = launch(function->address, gx, int(bx), shared, values.data(), function->n_args);
    if (*error) std::fprintf(stderr, "fake CUDA: %s: %s\n", function->symbol.c_str(), error);
    return *error ? 719 : success;
  });
}

Result cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const unsigned long long* extents,
                              const unsigned long long* strides, const unsigned* box, const unsigned* element_strides, int interleave,
                              int swizzle, int, int fill) {
  constexpr unsigned sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  constexpr int tf32 = 11;
  if (type < 0 || type > 12 || rank < 1 || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16 || interleave || swizzle != 3 || fill)
    return misuse(invalid_value);
  gpu_shim::TensorMap made = {static_cast<const unsigned char*>(address), {}, {}, {}, rank, sizes[type], {}, {}, {}, 0, type >= tf32};
  for (unsigned d = 0; d < rank; ++d) {
    if (extents[d] == 0 || box[d] < 1 || box[d] > 256 || element_strides[d] != 1) return misuse(invalid_value);
    if (d > 0 && (strides[d - 1] % 16 || strides[d - 1] >> 40)) return misuse(invalid_value);
    made.extents[d] = extents[d], made.box[d] = box[d];
    if (d > 0) made.strides[d - 1] = strides[d - 1];
  }
  if (box[0] * sizes[type] != 128) return misuse(invalid_value);
  std::memcpy(map, &made, sizeof made);
  return success;
}

Result cuTensorMapEncodeIm2col(void* map, int type, unsigned rank, void* address, const unsigned long long* extents,
                               const unsigned long long* strides, const int* lower, const int* upper, unsigned channels, unsigned pixels,
                               const unsigned* element_strides, int interleave, int swizzle, int promotion, int fill) {
  const unsigned ones[] = {1, 1, 1, 1, 1}, box[] = {channels, 1, 1, 1, 1};
  if (rank != 4 || channels > 256 || pixels < 1 || pixels > 1024 || element_strides[0] != 1 || element_strides[3] != 1)
    return misuse(invalid_value);
  if (const Result r = cuTensorMapEncodeTiled(map, type, rank, address, extents, strides, box, ones, interleave, swizzle, promotion, fill);
      r != success)
    return r;
  auto& made = *static_cast<gpu_shim::TensorMap*>(map);
  made.box[1] = pixels, made.pixels = 1;
  for (int d = 0; d < 2; ++d) {
    if (lower[d] < -128 || lower[d] > 127 || upper[d] < -128 || upper[d] > 127 || element_strides[d + 1] < 1 || element_strides[d + 1] > 8)
      return misuse(invalid_value);
    made.lower[d] = (signed char)lower[d], made.upper[d] = (signed char)upper[d], made.steps[d] = (unsigned char)element_strides[d + 1];
  }
  return success;
}

Result cuMemAlloc_v2(Pointer* pointer, size_t bytes) {
  return within("cuMemAlloc_v2", std::to_string(bytes), [&](Context c) -> Result {
    if (bytes == 0) return misuse(invalid_value);
    if (live_bytes() + bytes > memory_limit()) return out_of_memory;
    void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!p) return out_of_memory;
    std::memset(p, 0xa5, bytes);
    *pointer = reinterpret_cast<Pointer>(p);
    state.memory[*pointer] = {c, bytes};
    return success;
  });
}
Result cuMemFree_v2(Pointer pointer) {
  return within("cuMemFree_v2", "", [&](Context c) -> Result {
    const auto found = state.memory.find(pointer);
    if (found == state.memory.end() || found->second.context != c) return misuse(invalid_value);
    std::free(reinterpret_cast<void*>(pointer));
    state.memory.erase(found);
    return success;
  });
}
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, Stream stream) {
  return within("cuMemcpyHtoDAsync_v2", std::to_string(bytes), [&](Context c) -> Result {
    if (!is_range(to, bytes, c) || !is_stream(stream, c)) return misuse(invalid_value);
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return success;
  });
}
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, Stream stream) {
  return within("cuMemcpyDtoHAsync_v2", std::to_string(bytes), [&](Context c) -> Result {
    if (!is_range(from, bytes, c) || !is_stream(stream, c)) return misuse(invalid_value);
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return success;
  });
}
Result cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, Stream stream) {
  return within("cuMemsetD8Async", std::to_string(bytes), [&](Context c) -> Result {
    if (!is_range(to, bytes, c) || !is_stream(stream, c)) return misuse(invalid_value);
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return success;
  });
}

Result cuStreamCreate(Stream* stream, unsigned) {
  return within("cuStreamCreate", "", [&](Context c) {
    state.streams.push_back({c});
    *stream = &state.streams.back();
    return success;
  });
}
Result cuStreamDestroy_v2(Stream stream) {
  return within("cuStreamDestroy_v2", "", [&](Context c) -> Result {
    if (!stream || !is_stream(stream, c)) return misuse(invalid_handle);
    stream->alive = false;
    return success;
  });
}
Result cuStreamSynchronize(Stream stream) {
  return within("cuStreamSynchronize", "", [&](Context c) { return is_stream(stream, c) ? success : misuse(invalid_handle); });
}
Result cuEventCreate(Event* event, unsigned) {
  return within("cuEventCreate", "", [&](Context c) {
    state.events.push_back({c});
    *event = &state.events.back();
    return success;
  });
}
Result cuEventDestroy_v2(Event event) {
  return within("cuEventDestroy_v2", "", [&](Context) -> Result {
    if (!event->alive) return misuse(invalid_handle);
    event->alive = false;
    return success;
  });
}
Result cuEventRecord(Event event, Stream stream) {
  return within("cuEventRecord", "", [&](Context c) -> Result {
    if (!event->alive || !is_stream(stream, c)) return misuse(invalid_handle);
    event->at = std::chrono::steady_clock::now(), event->recorded = true;
    return success;
  });
}
Result cuEventSynchronize(Event event) {
  return within("cuEventSynchronize", "", [&](Context) { return event->alive && event->recorded ? success : misuse(invalid_handle); });
}
Result cuEventElapsedTime(float* ms, Event from, Event to) {
  return within("cuEventElapsedTime", "", [&](Context) -> Result {
    if (!from->recorded || !to->recorded) return misuse(invalid_handle);
    *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count();
    return success;
  });
}

}  // extern "C"
