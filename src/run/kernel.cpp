#include "run/kernel.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstring>
#include <new>

#include "base/error.h"

namespace rgen::run {

namespace {

/// An OpenMP runtime's threads wait inside it until the process ends, so it must not be unloaded with the kernel that brought it.
void keep_openmp_runtime(void* kernel) {
  const void* in_runtime = dlsym(kernel, "omp_get_max_threads");
  Dl_info info{};
  if (in_runtime && dladdr(in_runtime, &info) && info.dli_fname) dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

std::shared_ptr<Module> Module::open(const std::filesystem::path& so) {
  // A name without '/' would be looked for in the system's library path.
  void* handle = dlopen(std::filesystem::absolute(so).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    throw Error(ErrorCode::toolchain, std::string("cannot be loaded: ") + (why ? why : "unknown cause"), so.string());
  }
  keep_openmp_runtime(handle);
  return std::shared_ptr<Module>(new Module(handle));
}

void* Module::symbol(const std::string& name) const {
  void* s = dlsym(handle_, name.c_str());
  if (!s) throw Error(ErrorCode::toolchain, "the compiled kernel has no symbol '" + name + "'");
  return s;
}

Module::~Module() { dlclose(handle_); }

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  // large ones in huge pages where the system grants them, as numerical libraries have theirs
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool huge = bytes >= 2 * kHugePage;
  void* p = nullptr;
  if (posix_memalign(&p, huge ? kHugePage : 64, bytes ? bytes : 1) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (huge) madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  std::memset(p, 0, bytes);
  data_.reset(p);
}

void Buffer::Free::operator()(void* p) const { free(p); }

}  // namespace rgen::run
