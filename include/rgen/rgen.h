/* rgen in C: a tensor program and a hardware profile in, a kernel out (see rgen.hpp for the whole interface).
 *
 * Handles are immutable and may be used from several threads; each is freed once. Functions return RGEN_OK or a status; the message of
 * the last failure is the calling thread's. No exception leaves these functions. */
#ifndef RGEN_H
#define RGEN_H
#include <stddef.h>
#include <stdint.h>

#include "rgen/threads.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values are the exit statuses of the command `rgen`. */
typedef enum rgen_status {
  RGEN_OK = 0,
  RGEN_USAGE = 2,        /* a NULL or unknown argument, a file that cannot be written */
  RGEN_INVALID = 3,      /* spec or profile */
  RGEN_UNSUPPORTED = 4,  /* this version cannot do it */
  RGEN_DOES_NOT_FIT = 5, /* no tile fits the profile's memory levels */
  RGEN_VERIFICATION = 6, /* a result differs from the reference */
  RGEN_TOOLCHAIN = 7,    /* no compiler, it failed, or no device for the profile */
  RGEN_INTERNAL = 70
} rgen_status;

typedef struct rgen_program rgen_program;
typedef struct rgen_profile rgen_profile;
typedef struct rgen_kernel rgen_kernel;

const char* rgen_version(void);
/* Of the calling thread's last failure; "" if there was none. Valid until its next failure. */
const char* rgen_last_error(void);

/* `name` picks one of several programs in the document; NULL when there is one. */
rgen_status rgen_program_parse(const char* json, const char* name, rgen_program** program);
void rgen_program_free(rgen_program* program);

/* A file, a shipped name or "host"; `cache_dir` keeps what measuring the host found (NULL: measured every time). */
rgen_status rgen_profile_load(const char* name_or_file, const char* cache_dir, rgen_profile** profile);
rgen_status rgen_profile_parse(const char* json, rgen_profile** profile);
void rgen_profile_free(rgen_profile* profile);

/* All fields may be 0 or NULL: the defaults. */
typedef struct rgen_options {
  int32_t threads;         /* workers planned for; 0 = the profile's cores */
  const char* compiler;    /* name or path; NULL = the first of c++, g++, clang++ */
  const char* search_path; /* where it is looked for; NULL = /usr/local/bin:/usr/bin:/bin */
  const char* cache_dir;   /* keeps compiled kernels; NULL = none */
  const char* nvrtc;       /* CUDA: the libnvrtc; NULL = the loader's path, then /usr/local/cuda* */
  const char* driver;      /* CUDA: the libcuda; NULL = libcuda.so.1 on the loader's path */
  int32_t device;          /* CUDA: its number, where the calling thread has no current context */
} rgen_options;
/* Plans, emits, compiles and loads. `options` may be NULL. */
rgen_status rgen_compile(const rgen_program* program, const rgen_profile* profile, const rgen_options* options, rgen_kernel** kernel);
void rgen_kernel_free(rgen_kernel* kernel);

/* JSON; lives as long as the kernel. */
const char* rgen_kernel_manifest(const rgen_kernel* kernel);
int64_t rgen_kernel_workspace_bytes(const rgen_kernel* kernel);
/* Bytes of the packed form of an input (its position); 0: the call takes it as it is. */
int64_t rgen_kernel_prepack_bytes(const rgen_kernel* kernel, int32_t input);
rgen_status rgen_kernel_prepack(const rgen_kernel* kernel, int32_t input, const void* source, void* packed);
/* Of a GPU's kernel: addresses of the device, multiples of 16 bytes; enqueued on `stream` (a CUstream or cudaStream_t; NULL: the default
 * one) of the context that is current, else of the device's primary one. What fails on the device shows when the stream is waited for. */
rgen_status rgen_kernel_prepack_on(const rgen_kernel* kernel, int32_t input, const void* source, void* packed, void* stream);
rgen_status rgen_kernel_launch(const rgen_kernel* kernel, void* const* args, void* workspace, void* stream);
/* `args`: inputs (packed where prepack_bytes > 0), then outputs; `workspace`: 64-byte aligned, NULL when 0 bytes; `dims`: the symbolic
 * extents, NULL when there are none; `threads`: NULL = OpenMP where the compiler has it, else the calling thread. */
rgen_status rgen_kernel_call(const rgen_kernel* kernel, void* const* args, const int64_t* dims, void* workspace,
                             const struct rgen_threads* threads);

#ifdef __cplusplus
}
#endif
#endif
