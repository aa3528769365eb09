// For programs that test the vector primitives: compiled with `-include` of a prelude text, run by tests/unit/prelude_*_test.cpp.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

inline long checks_done = 0, checks_failed = 0;

/// Counts; describes the first failures on stdout.
template <class... Args>
bool check(bool ok, const char* format, Args... args) {
  ++checks_done;
  if (ok) return true;
  if (++checks_failed <= 20) {
    std::printf("  ");
    std::printf(format, args...);
    std::printf("\n");
  }
  return false;
}

/// The last line of main: 0 when something was checked and nothing failed.
inline int checks_result() {
  std::printf("%ld checks, %ld failed\n", checks_done, checks_failed);
  return checks_failed == 0 && checks_done > 0 ? 0 : 1;
}

/// Memory whose neighbouring pages cannot be touched.
class Guarded {
 public:
  explicit Guarded(size_t pages = 1) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), bytes_(pages * page_) {
    map_ = static_cast<char*>(mmap(nullptr, bytes_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (map_ == MAP_FAILED || mprotect(map_ + page_, bytes_, PROT_READ | PROT_WRITE) != 0) {
      std::perror("mmap");
      std::exit(2);
    }
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(map_, bytes_ + 2 * page_); }
  char* begin() { return map_ + page_; }
  char* end() { return begin() + bytes_; }

 private:
  size_t page_, bytes_;
  char* map_;
};

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
/// Same bits, or both NaN.
inline bool same(float a, float b) { return bits_as<uint32_t>(a) == bits_as<uint32_t>(b) || (a != a && b != b); }
inline bool same(int32_t a, int32_t b) { return a == b; }

/// The same number, unknown to the compiler.
template <class T>
T opaque(T x) {
  __asm__ volatile("" : "+r"(x));
  return x;
}

/// f(n) for n = 0 … most, each known to the compiler.
template <int most, class F>
void for_each_constant(F f) {
  [&]<int... n>(std::integer_sequence<int, n...>) { (f(std::integral_constant<int, n>{}), ...); }
  (std::make_integer_sequence<int, most + 1>{});
}

/// xorshift: the same values on every machine.
struct Random {
  uint64_t state = 0x9e3779b97f4a7c15u;
  uint32_t operator()() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<uint32_t>(state >> 32);
  }
};

/// The target fuses a * b + c in one rounding, and sums bf16 products so too.
#if defined(__FMA__) || (defined(__aarch64__) && !defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC))
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif
