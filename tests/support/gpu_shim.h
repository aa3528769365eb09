// CUDA C++ kernels on the CPU: include this before the emitted text, compile with g++ or clang++, link gpu_shim.cpp, call `launch`.
//
// The threads of a block, or of a cluster of blocks, are fibers; blocks or clusters run one after the other. Control passes only at a
// rendezvous (__syncthreads, __syncwarp, shuffles, votes, ldmatrix, mma, wgmma_wait, cluster_sync, a barrier's arrivals and waits), in the
// order of a schedule; a kernel that is right under all schedules and both times at which asynchronous copies may land needs no luck with
// its barriers. Shared memory is full of NaN when a block begins.
//
// The primitive layer for tensor cores (cp16, ldsm4, mma_*, barrier_*, bulk_copy) has the same names in the emitted text, there as inline
// PTX under `#if defined(__CUDACC__)`, with the instructions that the comments here name: the text of a kernel is the same for both.
//
// Header-free, so that it costs a kernel's compilation nothing and leaves emitted text its own int64_t. Where a translation unit includes
// others too, this one comes last, for its macros; -Wno-unknown-pragmas for `#pragma unroll`. Emitted text is not held to -Wpedantic.
// Nothing here defends against a kernel that is malicious; it is for one that is wrong.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define GPU_SHIM_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPU_SHIM_ASAN
#endif
#endif

#include "gpu_tensor_map.h"

namespace gpu_shim {

enum class Schedule {
  round_robin,           ///< every thread goes to its next rendezvous before any goes one further
  reversed,              ///< likewise, last thread first
  warp_greedy,           ///< a warp runs on for as long as it can: it enters the next iteration while others are in the last
  warp_greedy_reversed,  ///< likewise, last warp first; in both, who waits for a phase of a barrier goes first when it is complete
};
constexpr Schedule kSchedules[] = {Schedule::round_robin, Schedule::reversed, Schedule::warp_greedy, Schedule::warp_greedy_reversed};

enum class Copies {
  eager,  ///< asynchronous copies land when they are issued; asynchronous products are computed only at the wait that promises them
  lazy,   ///< the other way round, bulk copies when no thread can go on; a thread that ends before its copies have landed is reported
};

struct Options {
  Schedule schedule = Schedule::round_robin;
  Copies copies = Copies::eager;
  unsigned long stack_bytes = 0;  ///< of one thread; 0: enough for most
};

/// Accesses to shared memory from one line of the source through `cp16`, `ldsm4`, `smem_get` and `smem_put`.
struct Site {
  const char* what;
  unsigned line;
  unsigned long long instructions;  ///< of a warp
  unsigned long long conflicts;     ///< passes over the banks beyond those that the bytes need
};

struct Result {
  char error[600] = "";  ///< the first thing that went wrong; empty: nothing did
  unsigned long long bank_conflicts = 0;
  int n_sites = 0;
  Site sites[64] = {};  ///< of the first 64 lines; `bank_conflicts` has all
  bool ok() const { return error[0] == 0; }
};

enum class Kind {
  syncthreads,
  cluster_sync,
  barrier_wait,
  syncwarp,
  product_wait,
  shfl,
  shfl_up,
  shfl_down,
  shfl_xor,
  ballot,
  ldmatrix,
  mma_f16,
  mma_bf16,
  mma_tf32,
  mma_s8,
  mma_u8s8,
  mma_u8,
  cp_async,
  load,
  store
};

/// What a lane brings to a rendezvous of its warp and what it takes away: only its own, since others may have run on when it reads.
struct Exchange {
  unsigned in[12];
  unsigned out[4];
  const void* row;
};
Exchange& exchange();
void warp_meet(Kind kind, unsigned mask, unsigned line);
void block_meet(unsigned line);
void cluster_meet(unsigned line);
/// The same place in the dynamic shared memory of block `rank` of the cluster.
const void* of_block(const void* p, unsigned bytes, int rank, unsigned line);
void barrier_begin(void* b, int arrivals, unsigned line);
void barriers_publish();
/// Block `rank`'s barrier at the place of `b` expects `bytes` more and has one arrival less to wait for; < 0: this block's.
void barrier_come(const char* what, void* b, int rank, int bytes, unsigned line);
void barrier_pass(void* b, int parity, unsigned line);
/// To the first `blocks` of the cluster; 0: to this one.
/// The box that begins at `at`, swizzled by 128 bytes.
void copy_pixels(void* to, const void* map, const int (&at)[4], const int (&window)[2], void* b, unsigned line);
void copy_box(void* to, const void* map, const int* at, unsigned rank, void* b, unsigned line);
void copy_bulk(void* to, const void* from, int bytes, void* b, int blocks, unsigned line);
void copy_async(void* to, const void* from, unsigned bytes, unsigned from_bytes, unsigned line);
void copy_commit();
/// Copies of all groups but the newest `pending` land; < 0: those of no group too.
void copy_wait(int pending);
/// An asynchronous product of four warps: `n` columns, factors of `kind` staged where the descriptors say, relative to shared_base().
void product_async(Kind kind, void* sums, int n, unsigned long long a, unsigned long long b, unsigned line);
void product_commit();
void product_wait(int pending, unsigned line);
void proxy_fence();
void note_access(Kind kind, const void* p, unsigned bytes, unsigned line);
void fail_at(const char* what, unsigned line);
unsigned char* dynamic_shared();

/// `call(context)` runs the kernel as one thread; `cluster`: of so many blocks; [shared, shared_end): its static shared memory.
Result launch_threads(void (*call)(void* context), void* context, long long grid, int block, int cluster, long long shared_bytes,
                      const Options& options, unsigned char* shared, unsigned char* shared_end);
void call_pointers(const void* kernel, void* const* args, int n_args);

// The linker gives the bounds of a section whose name is an identifier; there is one even where no kernel has static shared memory, or a
// cluster. All of them are this shared object's own, and so must be the functions that use them.
#define GPU_SHIM_OWN __attribute__((visibility("hidden")))
extern "C" {
extern unsigned char shared_section_begin[] __asm__("__start_gpu_shared") GPU_SHIM_OWN;
extern unsigned char shared_section_end[] __asm__("__stop_gpu_shared") GPU_SHIM_OWN;
extern const unsigned char cluster2_section_begin[] __asm__("__start_gpu_cluster2") GPU_SHIM_OWN;
extern const unsigned char cluster2_section_end[] __asm__("__stop_gpu_cluster2") GPU_SHIM_OWN;
extern const unsigned char cluster4_section_begin[] __asm__("__start_gpu_cluster4") GPU_SHIM_OWN;
extern const unsigned char cluster4_section_end[] __asm__("__stop_gpu_cluster4") GPU_SHIM_OWN;
}
alignas(128) static unsigned char shared_section_exists[128] __attribute__((section("gpu_shared"), used)) = {};
__attribute__((section("gpu_cluster2"), used)) static void cluster2_section_exists() {}
__attribute__((section("gpu_cluster4"), used)) static void cluster4_section_exists() {}

/// How many blocks a cluster of this kernel has: __cluster_dims__ puts its code in a section of its own.
GPU_SHIM_OWN inline int cluster_of(const void* kernel) {
  const auto* const p = static_cast<const unsigned char*>(kernel);
  if (p >= cluster2_section_begin && p < cluster2_section_end) return 2;
  return p >= cluster4_section_begin && p < cluster4_section_end ? 4 : 1;
}

/// Runs `kernel` with these arguments. One launch at a time in a process.
template <class... P, class... A>
GPU_SHIM_OWN Result launch(void (*kernel)(P...), long long grid, int block, long long shared_bytes, const Options& options, A... args) {
  auto call = [&] { kernel(args...); };
  using Call = decltype(call);
  return launch_threads([](void* f) { (*static_cast<Call*>(f))(); }, &call, grid, block, cluster_of(reinterpret_cast<const void*>(kernel)),
                        shared_bytes, options, shared_section_begin, shared_section_end);
}
constexpr int kMaxPointers = 32;
/// Runs a kernel of which only the address is known: `args` are the arguments themselves, at most kMaxPointers, pointers or integers (an
/// integer is passed like a pointer on x86-64 and AArch64, so it may be cast to one).
GPU_SHIM_OWN inline Result launch_pointers(const void* kernel, long long grid, int block, long long shared_bytes, void* const* args,
                                           int n_args, const Options& options) {
  if (n_args > kMaxPointers) return {"too many arguments"};
  struct Call {
    const void* kernel;
    void* const* args;
    int n_args;
  } call = {kernel, args, n_args};
  return launch_threads(
      [](void* c) {
        const Call* k = static_cast<Call*>(c);
        call_pointers(k->kernel, k->args, k->n_args);
      },
      &call, grid, block, cluster_of(kernel), shared_bytes, options, shared_section_begin, shared_section_end);
}

template <class To, class From>
inline To bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "a value has the bits of another of its size");
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}

template <class T>
inline T shuffle(Kind kind, unsigned mask, T value, unsigned b, int width, unsigned line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles exchange 4 or 8 bytes");
  Exchange& x = exchange();
  __builtin_memcpy(x.in, &value, sizeof value);
  x.in[2] = b, x.in[3] = unsigned(width);
  warp_meet(kind, mask, line);
  __builtin_memcpy(&value, x.out, sizeof value);
  return value;
}

inline unsigned vote(unsigned mask, bool yes, unsigned line) {
  Exchange& x = exchange();
  x.in[0] = yes;
  warp_meet(Kind::ballot, mask, line);
  return x.out[0];
}

inline void load_matrices(unsigned* r, const void* row, int count, bool transposed, unsigned line) {
  Exchange& x = exchange();
  x.row = row, x.in[0] = unsigned(count), x.in[1] = transposed;
  warp_meet(Kind::ldmatrix, 0xffffffffu, line);
  for (int i = 0; i < count; ++i) r[i] = x.out[i];
}

/// d += a · b
template <class C>
inline void multiply(Kind kind, C* d, const unsigned* a, const unsigned* b, unsigned line) {
  Exchange& x = exchange();
  for (int i = 0; i < 4; ++i) x.in[i] = a[i], x.in[8 + i] = bits<unsigned>(d[i]);
  for (int i = 0; i < 2; ++i) x.in[4 + i] = b[i];
  warp_meet(kind, 0xffffffffu, line);
  for (int i = 0; i < 4; ++i) d[i] = bits<C>(x.out[i]);
}

/// `x`, already an integer or infinite: NaN gives 0, the rest saturates (PTX ISA, cvt).
inline int to_int(float x) {
  if (x != x) return 0;
  return x >= 0x1p31f ? 0x7fffffff : x <= -0x1p31f ? -0x7fffffff - 1 : int(x);
}
inline unsigned to_uint(float x) {
  if (!(x > 0)) return 0;
  return x >= 0x1p32f ? 0xffffffffu : unsigned(x);
}

}  // namespace gpu_shim

// ---- The language. A __shared__ variable must be in a function that is neither a template nor, unless it is static, inline: the compiler
// drops the section of such a variable without a word, and it is not poisoned. Nor may a kernel with __cluster_dims__ be a template, or
// have static shared memory, of which there is one for all blocks.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(x, y, z) GPU_SHIM_CLUSTER_##x##_##y##_##z
#define GPU_SHIM_CLUSTER_1_1_1
#define GPU_SHIM_CLUSTER_2_1_1 __attribute__((section("gpu_cluster2")))
#define GPU_SHIM_CLUSTER_4_1_1 __attribute__((section("gpu_cluster4")))
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("gpu_shared")))
#define __constant__ static

struct uint3 {
  unsigned x, y, z;
};
typedef uint3 dim3;
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// clang-format off
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
// clang-format on
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- Rendezvous. The line tells one from another: threads of a block must meet at the same one.
inline void __syncthreads(unsigned line = __builtin_LINE()) { gpu_shim::block_meet(line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, unsigned line = __builtin_LINE()) {
  gpu_shim::warp_meet(gpu_shim::Kind::syncwarp, mask, line);
}
template <class T>
inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32, unsigned line = __builtin_LINE()) {
  return gpu_shim::shuffle(gpu_shim::Kind::shfl, mask, v, unsigned(lane), width, line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, unsigned line = __builtin_LINE()) {
  return gpu_shim::shuffle(gpu_shim::Kind::shfl_up, mask, v, delta, width, line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, unsigned line = __builtin_LINE()) {
  return gpu_shim::shuffle(gpu_shim::Kind::shfl_down, mask, v, delta, width, line);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, unsigned line = __builtin_LINE()) {
  return gpu_shim::shuffle(gpu_shim::Kind::shfl_xor, mask, v, unsigned(lanes), width, line);
}
inline unsigned __ballot_sync(unsigned mask, int yes, unsigned line = __builtin_LINE()) { return gpu_shim::vote(mask, yes, line); }
inline int __any_sync(unsigned mask, int yes, unsigned line = __builtin_LINE()) { return gpu_shim::vote(mask, yes, line) != 0; }
inline int __all_sync(unsigned mask, int yes, unsigned line = __builtin_LINE()) { return gpu_shim::vote(mask, !yes, line) == 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __trap(unsigned line = __builtin_LINE()) { gpu_shim::fail_at("__trap", line); }

// ---- Arithmetic. The C library's functions stand for CUDA's, which are a few ulp less exact.
extern "C" {
float fmaf(float, float, float) noexcept;
float sqrtf(float) noexcept;
float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float powf(float, float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float rintf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float truncf(float) noexcept;
float fabsf(float) noexcept;
float fminf(float, float) noexcept;
float fmaxf(float, float) noexcept;
}
#define rsqrtf(x) (1.0f / sqrtf(x))  // a macro, because the C library may have one
inline int __float_as_int(float x) { return gpu_shim::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return gpu_shim::bits<unsigned>(x); }
inline float __int_as_float(int x) { return gpu_shim::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return gpu_shim::bits<float>(x); }
inline int __float2int_rn(float x) { return gpu_shim::to_int(rintf(x)); }
inline int __float2int_rz(float x) { return gpu_shim::to_int(truncf(x)); }
inline int __float2int_rd(float x) { return gpu_shim::to_int(floorf(x)); }
inline int __float2int_ru(float x) { return gpu_shim::to_int(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return gpu_shim::to_uint(rintf(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
template <class T>
inline T __ldg(const T* p) {
  return *p;
}
/// Threads take turns only at a rendezvous, so this is atomic.
template <class T>
inline T atomicAdd(T* p, T v) {
  const T old = *p;
  *p = T(old + v);
  return old;
}
/// c + the sum of 4 products of bytes, modulo 2^32 (CUDA C++ Programming Guide, SIMD intrinsics; PTX ISA, dp4a).
inline int __dp4a(int a, int b, int c) {
  unsigned sum = unsigned(c);
  for (int i = 0; i < 32; i += 8) sum += unsigned((signed char)(unsigned(a) >> i) * (signed char)(unsigned(b) >> i));
  return int(sum);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
/// Result byte i is byte s[4i+2:4i] of the 8 bytes y:x; bit 4i+3 of s replaces it with copies of its sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned from = s >> 4 * i & 7, byte = (from < 4 ? x : y) >> 8 * (from & 3) & 255;
    r |= (s >> 4 * i & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return r;
}

// ---- The primitive layer.

/// The launch's dynamic shared memory, 1024-byte aligned. In CUDA: `extern __shared__ __align__(1024) unsigned char NAME[];`.
inline unsigned char* shared_base() { return gpu_shim::dynamic_shared(); }
/// Plain accesses to shared memory of which the bank conflicts are counted: in CUDA `*p` and `*p = v`.
template <class T>
inline T smem_get(const T* p, unsigned line = __builtin_LINE()) {
  gpu_shim::note_access(gpu_shim::Kind::load, p, sizeof(T), line);
  return *p;
}
template <class T>
inline void smem_put(T* p, T v, unsigned line = __builtin_LINE()) {
  gpu_shim::note_access(gpu_shim::Kind::store, p, sizeof(T), line);
  *p = v;
}

/// cp.async.cg.shared.global [to], [from], 16, from_bytes; the bytes from `from_bytes` on become 0.
inline void cp16(void* to, const void* from, int from_bytes = 16, unsigned line = __builtin_LINE()) {
  gpu_shim::copy_async(to, from, 16, unsigned(from_bytes), line);
}
/// cp.async.ca.shared.global [to], [from], 4, from_bytes
inline void cp4(void* to, const void* from, int from_bytes = 4, unsigned line = __builtin_LINE()) {
  gpu_shim::copy_async(to, from, 4, unsigned(from_bytes), line);
}
/// cp.async.commit_group
inline void cp_commit() { gpu_shim::copy_commit(); }
/// cp.async.wait_group n: this thread's copies, all groups but the newest n. Other threads' need a barrier besides.
template <int n>
inline void cp_wait() {
  static_assert(n >= 0, "a number of groups that may still be under way");
  gpu_shim::copy_wait(n);
}
/// cp.async.wait_all
inline void cp_wait_all() { gpu_shim::copy_wait(-1); }

/// ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r0, r1, r2, r3}, [row]: lane 8i + j has the address of row j of matrix i (16 bytes); lane l
/// gets elements 2(l%4) and 2(l%4)+1 of row l/4 of matrix i in r[i].
inline void ldsm4(unsigned* r, const void* row, unsigned line = __builtin_LINE()) { gpu_shim::load_matrices(r, row, 4, false, line); }
/// With .trans: rows 2(l%4) and 2(l%4)+1 of column l/4.
inline void ldsm4_trans(unsigned* r, const void* row, unsigned line = __builtin_LINE()) { gpu_shim::load_matrices(r, row, 4, true, line); }
/// .x2: the addresses of lanes 0 to 15.
inline void ldsm2(unsigned* r, const void* row, unsigned line = __builtin_LINE()) { gpu_shim::load_matrices(r, row, 2, false, line); }
inline void ldsm2_trans(unsigned* r, const void* row, unsigned line = __builtin_LINE()) { gpu_shim::load_matrices(r, row, 2, true, line); }

// d[4] += a[4] · b[2]; fragments as in PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and its likes: see
// `multiply_fragments` in gpu_shim.cpp. The sum is exact, then rounded once, where the hardware says only "at least single precision".
/// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
inline void mma_m16n8k16_f16(float* d, const unsigned* a, const unsigned* b, unsigned line = __builtin_LINE()) {
  gpu_shim::multiply(gpu_shim::Kind::mma_f16, d, a, b, line);
}
/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
inline void mma_m16n8k16_bf16(float* d, const unsigned* a, const unsigned* b, unsigned line = __builtin_LINE()) {
  gpu_shim::multiply(gpu_shim::Kind::mma_bf16, d, a, b, line);
}
/// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32; the operands' low 13 bits are ignored.
inline void mma_m16n8k8_tf32(float* d, const unsigned* a, const unsigned* b, unsigned line = __builtin_LINE()) {
  gpu_shim::multiply(gpu_shim::Kind::mma_tf32, d, a, b, line);
}
/// mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 (without .satfinite: modulo 2^32)
inline void mma_m16n8k32_s8(int* d, const unsigned* a, const unsigned* b, unsigned line = __builtin_LINE()) {
  gpu_shim::multiply(gpu_shim::Kind::mma_s8, d, a, b, line);
}
/// ….s32.u8.s8.s32 and ….s32.u8.u8.s32
inline void mma_m16n8k32_u8s8(int* d, const unsigned* a, const unsigned* b, unsigned line = __builtin_LINE()) {
  gpu_shim::multiply(gpu_shim::Kind::mma_u8s8, d, a, b, line);
}
inline void mma_m16n8k32_u8(int* d, const unsigned* a, const unsigned* b, unsigned line = __builtin_LINE()) {
  gpu_shim::multiply(gpu_shim::Kind::mma_u8, d, a, b, line);
}

// wgmma.mma_async.sync.aligned.m64nNk16 (tf32: k8, s8: k32), both factors in shared memory along k: a thread has 16 sums for each 32
// columns, as mma.sync's for every 8 of them (PTX ISA, "Register Fragments and Shared Memory Matrix Layouts"). Core matrices of 8 rows of
// 16 bytes, not swizzled; a descriptor has the distances between those that are neighbours along k (bits 16 to 29) and between every 8 rows
// (32 to 45).
template <int n>
inline void wgmma_f16(float* d, unsigned long long a, unsigned long long b, unsigned line = __builtin_LINE()) {
  gpu_shim::product_async(gpu_shim::Kind::mma_f16, d, n, a, b, line);
}
template <int n>
inline void wgmma_bf16(float* d, unsigned long long a, unsigned long long b, unsigned line = __builtin_LINE()) {
  gpu_shim::product_async(gpu_shim::Kind::mma_bf16, d, n, a, b, line);
}
template <int n>
inline void wgmma_tf32(float* d, unsigned long long a, unsigned long long b, unsigned line = __builtin_LINE()) {
  gpu_shim::product_async(gpu_shim::Kind::mma_tf32, d, n, a, b, line);
}
template <int n>
inline void wgmma_s8(int* d, unsigned long long a, unsigned long long b, unsigned line = __builtin_LINE()) {
  gpu_shim::product_async(gpu_shim::Kind::mma_s8, d, n, a, b, line);
}
/// setmaxnreg: registers are the compiler's business.
template <int n>
inline void registers_lower() {}
template <int n>
inline void registers_raise() {}
/// wgmma.fence.sync.aligned: what it orders, a CPU does in order.
inline void wgmma_fence() {}
/// wgmma.commit_group.sync.aligned
inline void wgmma_commit() { gpu_shim::product_commit(); }
/// wgmma.wait_group.sync.aligned n
template <int n>
inline void wgmma_wait(unsigned line = __builtin_LINE()) {
  static_assert(n >= 0, "a number of groups that may still be under way");
  gpu_shim::product_wait(n, line);
}
/// fence.proxy.async.shared::cta
inline void proxy_fence() { gpu_shim::proxy_fence(); }

// Barriers: 8 aligned bytes of dynamic shared memory each. A phase is complete when as many have arrived as barrier_init said and all bytes
// that were expected have landed; then the next begins, of the other parity. The first has parity 0.
/// mbarrier.init.shared::cta.b64
inline void barrier_init(void* b, int arrivals, unsigned line = __builtin_LINE()) { gpu_shim::barrier_begin(b, arrivals, line); }
/// fence.mbarrier_init.release.cluster: the barriers that this thread has initialised are there for other blocks and for bulk copies.
inline void barriers_ready() { gpu_shim::barriers_publish(); }
/// mbarrier.arrive.shared::cta.b64
inline void barrier_arrive(void* b, unsigned line = __builtin_LINE()) { gpu_shim::barrier_come("barrier_arrive", b, -1, 0, line); }
/// mapa.shared::cluster and mbarrier.arrive.release.cluster.shared::cluster.b64: at the barrier in the same place of block `rank`.
inline void barrier_arrive_at(void* b, int rank, unsigned line = __builtin_LINE()) {
  if (rank < 0) gpu_shim::fail_at("barrier_arrive_at a block before the first", line);
  gpu_shim::barrier_come("barrier_arrive_at", b, rank, 0, line);
}
/// mbarrier.arrive.expect_tx.shared::cta.b64
inline void barrier_expect(void* b, int bytes, unsigned line = __builtin_LINE()) {
  gpu_shim::barrier_come("barrier_expect", b, -1, bytes, line);
}
/// mbarrier.try_wait.parity.shared::cta.b64 until the phase of this parity is complete: while the current one has it.
inline void barrier_wait(void* b, int parity, unsigned line = __builtin_LINE()) { gpu_shim::barrier_pass(b, parity, line); }
/// A kernel's parameter; the emitted text passes it by value, as nothing but a pointer passes here.
#define __grid_constant__
using tensor_map = const gpu_shim::TensorMap&;
/// cp.async.bulk.tensor.Nd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [to], [map, {x, …}], [b]
inline void tensor_copy_2d(void* to, const void* map, int x, int y, void* b, unsigned line = __builtin_LINE()) {
  const int at[] = {x, y};
  gpu_shim::copy_box(to, map, at, 2, b, line);
}
inline void tensor_copy_3d(void* to, const void* map, int x, int y, int z, void* b, unsigned line = __builtin_LINE()) {
  const int at[] = {x, y, z};
  gpu_shim::copy_box(to, map, at, 3, b, line);
}
inline void tensor_copy_4d(void* to, const void* map, int x, int y, int z, int w, void* b, unsigned line = __builtin_LINE()) {
  const int at[] = {x, y, z, w};
  gpu_shim::copy_box(to, map, at, 4, b, line);
}
/// cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [to], [map, {channel, …}], [b], {right, down}
inline void pixel_copy(void* to, const void* map, int channel, int x, int y, int image, int right, int down, void* b,
                       unsigned line = __builtin_LINE()) {
  gpu_shim::copy_pixels(to, map, {channel, x, y, image}, {right, down}, b, line);
}
/// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], bytes, [b]: all three are multiples of 16.
inline void bulk_copy(void* to, const void* from, int bytes, void* b, unsigned line = __builtin_LINE()) {
  gpu_shim::copy_bulk(to, from, bytes, b, 0, line);
}
/// With .multicast::cluster to the first `blocks` blocks: the same places in each, and their barriers.
template <int blocks>
inline void bulk_copy_all(void* to, const void* from, int bytes, void* b, unsigned line = __builtin_LINE()) {
  static_assert(blocks > 0, "a number of blocks of the cluster");
  gpu_shim::copy_bulk(to, from, bytes, b, blocks, line);
}
/// mapa.shared::cluster and ld.shared::cluster.v4: of the same place of block `rank`.
inline uint4 smem_get_at(const void* p, int rank, unsigned line = __builtin_LINE()) {
  return *static_cast<const uint4*>(gpu_shim::of_block(p, sizeof(uint4), rank, line));
}
/// barrier.cluster.arrive.release and barrier.cluster.wait.acquire
inline void cluster_sync(unsigned line = __builtin_LINE()) { gpu_shim::cluster_meet(line); }
