/* The caller's parallel-for, as every emitted kernel takes it. C and C++. */
#ifndef RGEN_THREADS_H
#define RGEN_THREADS_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `run` returns when all n tasks are done, in any order, perhaps one after the other; tasks never wait for each other. */
struct rgen_threads {
  uint32_t size; /* sizeof(struct rgen_threads) */
  int32_t count; /* threads that `run` uses at most, the calling one included */
  void* ctx;     /* handed to `run` */
  void (*run)(void* ctx, int64_t n, void (*task)(void* arg, int64_t i), void* arg);
};

#ifdef __cplusplus
}
#endif
#endif
