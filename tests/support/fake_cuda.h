// The fake driver and compiler (tests/fake_cuda) in the process of a test. The macros are defined for test programs alone.
#pragma once
#include <dlfcn.h>

#include <string>

#include "run/cuda_device.h"

namespace rgen::test {

/// The controls of the fake driver (fake_cuda/fake_cuda.h). Forgets calls and failures when it is made and when it goes.
class FakeCuda {
 public:
  explicit FakeCuda(const char* library) : library_(dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) { reset(); }
  ~FakeCuda() { reset(); }
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  void reset() const { get<void()>("fake_cuda_reset")(); }
  /// The nth call of this name from now gives `result`.
  void fail(const std::string& call, int result, int nth = 1) const {
    get<void(const char*, int, int)>("fake_cuda_fail")(call.c_str(), result, nth);
  }
  std::string calls() const { return get<const char*()>("fake_cuda_calls")(); }
  int count_calls(const std::string& name) const {
    const std::string all = "\n" + calls();
    int n = 0;
    for (size_t at = all.find("\n" + name); at != std::string::npos; at = all.find("\n" + name, at + 1)) ++n;
    return n;
  }
  long count(const std::string& what) const { return get<long(const char*)>("fake_cuda_count")(what.c_str()); }
  void* new_context(int device) const { return get<void*(int)>("fake_cuda_new_context")(device); }
  void destroy_context(void* context) const { get<void(void*)>("fake_cuda_destroy_context")(context); }
  /// A function of the driver.
  template <class F>
  F* get(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }

 private:
  void* library_;
};

/// What is alive in the fake driver; equal before and after what must not leak.
struct FakeCounts {
  long allocations, modules, streams, events, primaries, misuses;
  explicit FakeCounts(const FakeCuda& fake)
      : allocations(fake.count("allocations")),
        modules(fake.count("modules")),
        streams(fake.count("streams")),
        events(fake.count("events")),
        primaries(fake.count("primaries")),
        misuses(fake.count("misuses")) {}
  bool operator==(const FakeCounts&) const = default;
};

}  // namespace rgen::test
