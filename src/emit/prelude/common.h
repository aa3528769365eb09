// What every emitted CPU kernel may use, whatever its vector unit. How headers are cut: prelude.h.

//@ @preamble
#include <cstdint>

#define INLINE static inline __attribute__((always_inline))

//@ rgen_threads
/// The caller's parallel-for: `run` returns when all n tasks are done, in any order, perhaps one after the other.
struct rgen_threads {
  uint32_t size;  ///< sizeof(struct rgen_threads) as the caller knows it
  int32_t count;
  void* ctx;
  void (*run)(void* ctx, int64_t n, void (*task)(void* arg, int64_t i), void* arg);
};

//@ parallel_for
#if defined(_OPENMP)
#include <omp.h>
#endif
/// task(arg, i) for each i in [0, n) by the caller's threads; without them by OpenMP if compiled in, else here.
INLINE void parallel_for(const rgen_threads* t, int64_t n, void (*task)(void* arg, int64_t i), void* arg) {
  if (t) return t->run(t->ctx, n, task, arg);
#if defined(_OPENMP)
  const int64_t most = omp_get_max_threads();
  if (n > 1 && most > 1) {  // a static schedule: repeated calls find their data in the same core's cache
#pragma omp parallel for schedule(static) num_threads((int)(n < most ? n : most))
    for (int64_t i = 0; i < n; ++i) task(arg, i);
    return;
  }
#endif
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

//@ reload
/// What follows loads again: values that a compiler remembers would take the registers of the sums.
INLINE void reload() { __asm__ volatile("" ::: "memory"); }
//@ prefetch_l1
INLINE void prefetch_l1(const void* p) { __builtin_prefetch(p, 0, 3); }
//@ prefetch_l2
INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

//@ floor_div
/// Division that rounds towards minus infinity; b > 0.
INLINE int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
//@ floor_mod
INLINE int64_t floor_mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); }
