// The machine that stands for a GPU in tests: what it computes, and that it notices what goes wrong on a real one.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/gpu_shim.h"

// ---- Kernels, written as the CUDA printer writes them.
namespace kernels {

#define INLINE static __device__ __forceinline__
typedef long long int64_t;  // as in emitted text, where it is not the system's
typedef unsigned short uint16_t;
typedef float vf;

INLINE int lane() { return int(threadIdx.x % 32); }

template <class V, class Op>
INLINE V fold(V v, Op op) {
  for (int apart = 16; apart > 0; apart /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, apart));
  return v;
}
INLINE vf sum(vf v) {
  return fold(v, [](vf a, vf b) { return a + b; });
}

extern "C" __global__ void __launch_bounds__(64) gpu_shim_row_sums(const float* __restrict__ A, float* __restrict__ out) {
  const int64_t row = int64_t(blockIdx.x) * 2 + threadIdx.x / 32;
  const vf total = sum(A[row * 32 + lane()]);
  if (lane() == 0) out[row] = total;
}

/// All shuffles: 7 values a lane.
__global__ void shuffles(int* out, int width) {
  const int v = 100 + lane();
  int* mine = out + 7 * lane();
  mine[0] = __shfl_sync(~0u, v, 5, width);
  mine[1] = __shfl_sync(~0u, v, lane() + 1, width);
  mine[2] = __shfl_up_sync(~0u, v, 3, width);
  mine[3] = __shfl_down_sync(~0u, v, 3, width);
  mine[4] = __shfl_xor_sync(~0u, v, 9, width);
  mine[5] = int(__ballot_sync(~0u, lane() % 3 == 0));
  mine[6] = int(__shfl_xor_sync(~0u, double(v) / 3, 1) * 3 + 0.5);
}

/// 64×64, a block a tile of 32×32.
__global__ void transpose(const float* A, float* out, int barrier) {
  __shared__ float tile[32][33];
  const int row = int(blockIdx.x / 2) * 32, column = int(blockIdx.x % 2) * 32, warp = int(threadIdx.x / 32);
  for (int i = warp; i < 32; i += 4) tile[i][lane()] = A[(row + i) * 64 + column + lane()];
  if (barrier) __syncthreads();
  for (int i = warp; i < 32; i += 4) out[(column + i) * 64 + row + lane()] = tile[lane()][i];
}

/// out[r] = the sum of row r, of as many elements as the block has threads.
__global__ void block_sums(const float* A, float* out, int rows, int barrier) {
  __shared__ float partial[32];
  for (int r = 0; r < rows; ++r) {
    const vf v = sum(A[r * int(blockDim.x) + int(threadIdx.x)]);
    if (lane() == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    const vf total = sum(lane() < int(blockDim.x / 32) ? partial[lane()] : 0);
    if (threadIdx.x == 0) out[r] = total;
    if (barrier) __syncthreads();  // before the next round overwrites what others may not have read
  }
}

/// The sum of tiles of 4 floats a thread, each thread taking its neighbour's: two stages, the next tile under way while one is summed.
template <int kPending, bool kRelease>
__global__ void staged_sum(const float* A, float* out, int tiles) {
  float(*stage)[64][4] = reinterpret_cast<float(*)[64][4]>(shared_base());
  const int t = int(threadIdx.x);
  vf acc = 0;
  cp16(stage[0][t], A + 4 * t);
  cp_commit();
  for (int k = 0; k < tiles; ++k) {
    if (k + 1 < tiles) cp16(stage[(k + 1) % 2][t], A + 4 * (64 * (k + 1) + t));
    cp_commit();
    cp_wait<kPending>();
    __syncthreads();
    for (int i = 0; i < 4; ++i) acc += stage[k % 2][(t + 1) % 64][i];
    __syncwarp();
    if (kRelease) __syncthreads();
  }
  out[t] = acc;
}

/// C (16×8) = A (16×16) · B (16×8), all row-major.
__global__ void product_f16(const uint16_t* A, const uint16_t* B, float* C) {
  __shared__ __align__(16) uint16_t a[16][16], b[16][8];
  cp16(&a[lane() / 2][lane() % 2 * 8], A + 8 * lane());
  if (lane() < 16) cp16(b[lane()], B + 8 * lane());
  cp_commit();
  cp_wait<0>();
  __syncwarp();
  unsigned ra[4], rb[2];
  float d[4] = {0, 0, 0, 0};
  ldsm4(ra, &a[lane() % 16][lane() / 16 * 8]);
  ldsm2_trans(rb, b[lane() % 16]);
  mma_m16n8k16_f16(d, ra, rb);
  for (int i = 0; i < 4; ++i) C[(lane() / 4 + (i < 2 ? 0 : 8)) * 8 + lane() % 4 * 2 + (i & 1)] = d[i];
}

/// The PTX ISA's formulas of fragments, of elements i in a register or more; `type` 0: bf16, 1: tf32, 2: s8.
template <int kType, class E, class C>
__global__ void product(const E* A, const E* B, C* out) {
  constexpr int kK = kType == 0 ? 16 : kType == 1 ? 8 : 32, kElements = kK / 2;
  const int group = lane() >> 2, in_group = lane() % 4;
  E a[kElements], b[kElements / 2];
  for (int i = 0; i < kElements; ++i) {
    int row, col;
    if (kType == 0) {
      row = (i < 2) || (4 <= i && i < 6) ? group : group + 8;
      col = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
    } else if (kType == 1) {
      row = i == 0 || i == 2 ? group : group + 8;
      col = i < 2 ? in_group : in_group + 4;
    } else {
      row = (i < 4) || (8 <= i && i < 12) ? group : group + 8;
      col = i < 8 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16;
    }
    a[i] = A[row * kK + col];
  }
  for (int i = 0; i < kElements / 2; ++i) {
    int row;
    if (kType == 0)
      row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
    else if (kType == 1)
      row = i == 0 ? in_group : in_group + 4;
    else
      row = i < 4 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16;
    b[i] = B[row * 8 + group];
  }
  unsigned ra[4], rb[2];
  __builtin_memcpy(ra, a, sizeof ra);
  __builtin_memcpy(rb, b, sizeof rb);
  C d[4];
  for (int i = 0; i < 4; ++i) d[i] = C(i);
  if constexpr (kType == 0)
    mma_m16n8k16_bf16(d, ra, rb);
  else if constexpr (kType == 1)
    mma_m16n8k8_tf32(d, ra, rb);
  else
    mma_m16n8k32_s8(d, ra, rb);
  for (int i = 0; i < 4; ++i) out[(group + (i < 2 ? 0 : 8)) * 8 + in_group * 2 + (i & 1)] = d[i] - C(i);
}

/// Rows of `bytes` go to shared memory and come back as matrices: the same bits, whatever the order of chunks is.
__global__ void through_matrices(const uint16_t* A, uint16_t* out, int bytes, int swizzled) {
  const int chunks = bytes / 16;
  const auto at = [&](int row, int chunk) {
    const int period = 128 / bytes > 1 ? 128 / bytes : 1, mask = (chunks < 8 ? chunks : 8) - 1;
    return shared_base() + row * bytes + 16 * (swizzled ? chunk ^ (row / period & mask) : chunk);
  };
  for (int c = lane(); c < 16 * chunks; c += 32) cp16(at(c / chunks, c % chunks), A + 8 * c);
  cp_wait_all();
  __syncwarp();
  for (int c = 0; c < chunks; c += 2) {
    unsigned r[4];
    ldsm4(r, at(lane() % 16, c + lane() / 16));
    for (int i = 0; i < 4; ++i) {
      const int row = lane() / 4 + i % 2 * 8, column = (c + i / 2) * 8 + lane() % 4 * 2;
      out[row * 8 * chunks + column] = uint16_t(r[i]), out[row * 8 * chunks + column + 1] = uint16_t(r[i] >> 16);
    }
  }
}

__global__ void columns(float* out, int pitch) {
  float* tile = reinterpret_cast<float*>(shared_base());
  for (int i = 0; i < 32; ++i) smem_put(tile + i * pitch + lane(), float(i));
  __syncwarp();
  float total = 0;
  for (int i = 0; i < 32; ++i) total += smem_get(tile + lane() * pitch + i);
  out[lane()] = total;
}

__global__ void what_was_there(float* out) {
  __shared__ float mine[32];
  float* dynamic = reinterpret_cast<float*>(shared_base());
  out[blockIdx.x * 64 + threadIdx.x] = mine[threadIdx.x];
  out[blockIdx.x * 64 + 32 + threadIdx.x] = dynamic[threadIdx.x];
  mine[threadIdx.x] = dynamic[threadIdx.x] = 1;
}

enum Wrong {
  half_at_barrier,
  ended_before_barrier,
  two_barriers,
  half_in_shuffle,
  not_in_mask,
  two_operations,
  two_lines,
  two_masks,
  copy_unaligned,
  copy_elsewhere,
  beyond
};
__global__ void wrong(int what) {
  const int t = int(threadIdx.x);
  if (what == half_at_barrier && t < 48) __syncthreads();
  if (what == ended_before_barrier) {
    if (t == 7) return;
    __syncthreads();
  }
  if (what == two_barriers) {
    if (t < 32)
      __syncthreads();
    else
      __syncthreads();
  }
  if (what == half_in_shuffle && t < 16) __shfl_xor_sync(~0u, t, 1);
  if (what == not_in_mask) __shfl_xor_sync(0xffu, t, 1);
  if (what == two_operations) t % 2 ? (void)__shfl_down_sync(~0u, t, 1) : (void)__shfl_up_sync(~0u, t, 1);
  if (what == two_lines) {
    if (t % 2)
      __syncwarp();
    else
      __syncwarp();
  }
  if (what == two_masks) __syncwarp(t % 32 < 16 ? ~0u : 0xfffffff0u);
  __shared__ __align__(16) char to[32];
  static const char from[32] = {};
  if (what == copy_unaligned) cp16(to + 8, from);
  char elsewhere[32];
  if (what == copy_elsewhere) cp4(elsewhere, from);
  if (what == beyond && t == 0) shared_base()[40] = 1;
}

/// Half of a warp does what the other does not.
__global__ void partial_mask(int* out) {
  const int t = int(threadIdx.x);
  if (t < 16) {
    out[t] = __shfl_xor_sync(0xffffu, t, 15);
    __syncwarp(0xffffu);
  } else if (t < 18) {
    out[t] = __shfl_down_sync(0x30000u, t, 1);
  }
}

__global__ void intrinsics(int* out, const float* x, int n) {
  for (int i = 0; i < n; ++i) out[i] = __float2int_rn(x[i]);
  out[n] = __dp4a(int(0x80ff7f02), int(0x80017f03), 5);
  out[n + 1] = int(__dp4a(0x80ff7f02u, 0x80017f03u, 5u));
  out[n + 2] = int(__byte_perm(0x83028180, 0x87068584, 0xf061));
}

enum Fault {
  none,
  no_full_wait,
  no_empty_wait,
  early_release,
  too_few_bytes,
  too_many_bytes,
  no_proxy_fence,
  initialised_twice,
  wrong_parity,
  not_ready,
  no_sync_before,
  no_sync_after,
  overwritten
};

constexpr int kStages = 2, kStageBytes = 256 + 512;

/// Thread c of 64 sums A[64k + c] · B[128k + 2c + 1] over tiles k. A is brought by bulk copies, to all of a cluster's blocks by each its
/// part; B, of which every block has its own, by the lanes of the first warp.
template <int kBlocks>
INLINE void pipeline(const float* A, const float* B, float* out, int tiles, int fault) {
  unsigned char* const full = shared_base() + kStages * kStageBytes;
  unsigned char* const empty = full + 8 * kStages;
  const int t = int(threadIdx.x), rank = int(blockIdx.x) % kBlocks;
  if (t == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full + 8 * s, 33);
      barrier_init(empty + 8 * s, 64 * kBlocks);
    }
    if (fault == initialised_twice) barrier_init(full, 33);
    if (fault != not_ready) barriers_ready();
  }
  if (kBlocks == 1 || fault == no_sync_before)
    __syncthreads();
  else
    cluster_sync();
  if (t < 32) {
    for (int k = 0; k < tiles; ++k) {
      const int s = k % kStages;
      unsigned char* const stage = shared_base() + s * kStageBytes;
      if (fault != no_empty_wait) barrier_wait(empty + 8 * s, (k / kStages + 1) & 1);
      if (t == 0) {
        constexpr int kBytes = 256 / kBlocks;
        barrier_expect(full + 8 * s, fault == too_few_bytes ? 128 : fault == too_many_bytes ? 272 : 256);
        if constexpr (kBlocks == 1)
          bulk_copy(stage, A + 64 * k, kBytes, full + 8 * s);
        else
          bulk_copy_all<kBlocks>(stage + kBytes * rank, A + 64 * k + kBytes / 4 * rank, kBytes, full + 8 * s);
      }
      cp16(stage + 256 + 16 * t, B + (int(blockIdx.x) * tiles + k) * 128 + 4 * t);
      cp_commit();
      cp_wait<0>();
      if (fault != no_proxy_fence) proxy_fence();
      barrier_arrive(full + 8 * s);
    }
  } else {
    const int c = t - 32;
    vf acc = 0;
    for (int k = 0; k < tiles; ++k) {
      const int s = k % kStages;
      const float* const stage = reinterpret_cast<const float*>(shared_base() + s * kStageBytes);
      const auto release = [&] {
        if constexpr (kBlocks == 1)
          barrier_arrive(empty + 8 * s);
        else
          for (int r = 0; r < kBlocks; ++r) barrier_arrive_at(empty + 8 * s, r);
      };
      if (fault != no_full_wait) barrier_wait(full + 8 * s, (k / kStages & 1) ^ int(fault == wrong_parity));
      if (fault == early_release) release();
      acc += stage[c] * stage[64 + 2 * c + 1];
      if (fault == overwritten && k == 0 && c == 0) full[1] = 0;
      if (fault != early_release) release();
    }
    out[int(blockIdx.x) * 64 + c] = acc;
  }
  if (kBlocks > 1 && fault != no_sync_after) cluster_sync();
}

extern "C" __global__ void __launch_bounds__(96, 1)
    gpu_shim_pipeline(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ out, int tiles, int fault) {
  pipeline<1>(A, B, out, tiles, fault);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(96, 1)
    gpu_shim_pipeline_of_two(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ out, int tiles, int fault) {
  pipeline<2>(A, B, out, tiles, fault);
}
static __global__ void __cluster_dims__(4, 1, 1)
    pipeline_of_four(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ out, int tiles, int fault) {
  pipeline<4>(A, B, out, tiles, fault);
}

/// Each block's threads are its own, and its memory: a block writes its number, the other one reads nothing of it.
extern "C" __global__ void __cluster_dims__(2, 1, 1) gpu_shim_clustered(float* out, int what) {
  float* const mine = reinterpret_cast<float*>(shared_base());
  const int t = int(threadIdx.x);
  mine[t] = float(int(blockIdx.x) * 100 + t);
  if (blockIdx.x % 2) __syncthreads();  // a matter of one block
  if (what == 1 && blockIdx.x % 2 == 0) return;
  if (what == 2 && blockIdx.x % 2)
    cluster_sync();
  else
    cluster_sync();
  if (what == 3) {
    __shared__ volatile int common[1];
    common[0] = t;
    out[0] = float(common[0]);
  }
  if (what == 4 && blockIdx.x == 1 && t == 39) mine[40] = 0;
  const float total = sum(mine[t / 32 * 32 + (t / 32 ? lane() % 8 : lane())]);
  out[int(blockIdx.x) * 40 + t] = total + mine[t];
}

enum Misuse {
  no_arrivals,
  unaligned_barrier,
  barrier_elsewhere,
  wait_for_none,
  arrive_at_none,
  copy_to_none,
  arrivals_too_many,
  odd_bytes,
  unaligned_bulk,
  bulk_elsewhere,
  parity_of_two,
  beyond_cluster,
  bulk_beyond_cluster,
  under_way_at_end,
  expected_at_end,
  bulk_over_barrier
};
extern "C" __global__ void gpu_shim_misuse(const float* A, int what) {
  unsigned char* const base = shared_base();
  unsigned char elsewhere[16];
  if (what == no_arrivals) barrier_init(base, 0);
  if (what == unaligned_barrier) barrier_init(base + 4, 1);
  if (what == barrier_elsewhere) barrier_init(elsewhere, 1);
  if (what == wait_for_none) barrier_wait(base, 0);
  if (what == arrive_at_none) barrier_arrive(base);
  if (what == copy_to_none) bulk_copy(base + 64, A, 16, base);
  barrier_init(base + 8, 2);
  barriers_ready();
  if (what == arrivals_too_many) {
    barrier_expect(base + 8, 32);
    for (int i = 0; i < 2; ++i) barrier_arrive(base + 8);
  }
  if (what == odd_bytes) bulk_copy(base + 64, A, 24, base + 8);
  if (what == unaligned_bulk) bulk_copy(base + 64, A + 1, 16, base + 8);
  if (what == bulk_elsewhere) bulk_copy(base + 128 - 16, A, 32, base + 8);
  if (what == parity_of_two) barrier_wait(base + 8, 2);
  if (what == beyond_cluster) barrier_arrive_at(base + 8, 1);
  if (what == bulk_beyond_cluster) bulk_copy_all<2>(base + 64, A, 16, base + 8);
  if (what == under_way_at_end) bulk_copy(base + 64, A, 16, base + 8);
  if (what == expected_at_end) barrier_expect(base + 8, 16);
  if (what == bulk_over_barrier) {
    bulk_copy(base, A, 16, base + 8);
    barrier_wait(base + 8, 0);
  }
}

// ---- Products of four warps

INLINE unsigned long long stage_descriptor(const void* p, int along_k, int along_rows) {
  const unsigned at = unsigned((const unsigned char*)p - shared_base());
  return (unsigned long long)(at & 0x3ffff) >> 4 | (unsigned long long)(along_k / 16) << 16 | (unsigned long long)(along_rows / 16) << 32;
}

/// 64 × 24 sums of 64 bytes of k, rows of A and B being such. Core matrices follow one another along k, or along rows, then along the
/// other.
enum Staged { staged_right, staged_swizzled, staged_beyond, staged_unfenced, staged_not_waited };
template <class E, class C>
__global__ void product_staged(const E* A, const E* B, C* out, int rows_first, int what) {
  constexpr int kRows = 64, kColumns = 24, kChunks = 4;
  const int t = int(threadIdx.x), warp = t / 32;
  const int a_k = rows_first ? kRows * 16 : 128, a_rows = rows_first ? 128 : 128 * kChunks;
  const int b_k = rows_first ? kColumns * 16 : 128, b_rows = rows_first ? 128 : 128 * kChunks;
  unsigned char *const a = shared_base(), *const b = a + kRows * 64;
  for (int i = t; i < kRows * kChunks; i += 128)
    cp16(a + i / kChunks / 8 * a_rows + i / kChunks % 8 * 16 + i % kChunks * a_k, reinterpret_cast<const char*>(A) + 16 * i);
  for (int i = t; i < kColumns * kChunks; i += 128)
    cp16(b + i / kChunks / 8 * b_rows + i / kChunks % 8 * 16 + i % kChunks * b_k, reinterpret_cast<const char*>(B) + 16 * i);
  cp_commit();
  cp_wait<0>();
  if (what != staged_unfenced) proxy_fence();
  __syncthreads();
  C d[kColumns / 2];
  for (C& x : d) x = C(t);
  wgmma_fence();
  for (int half = 0; half < 2; ++half) {
    const unsigned long long x = stage_descriptor(a + 2 * half * a_k, a_k, a_rows) | (what == staged_swizzled ? 2ull << 62 : 0);
    const unsigned long long y = stage_descriptor(b + 2 * half * b_k + (what == staged_beyond ? 16 : 0), b_k, b_rows);
    if constexpr (sizeof(E) == 1)
      wgmma_s8<kColumns>(d, x, y);
    else if constexpr (sizeof(E) == 4)
      wgmma_tf32<kColumns>(d, x, y);
    else
      wgmma_f16<kColumns>(d, x, y);
  }
  wgmma_commit();
  if (what == staged_not_waited)
    wgmma_wait<1>();
  else
    wgmma_wait<0>();
  for (int i = 0; i < kColumns / 2; ++i) {
    const int row = warp * 16 + lane() / 4 + 8 * (i % 4 / 2), column = i / 4 * 8 + lane() % 4 * 2 + i % 2;
    out[row * kColumns + column] = d[i] - C(t);
  }
}

/// 64 × 8 sums of 16 · tiles of k: a bulk copy a factor and a tile, which lies as the product wants it. A lane of each warp releases a
/// stage, `late`: when the products are done, otherwise when they have begun.
extern "C" __global__ void __launch_bounds__(256, 1)
    gpu_shim_products(const uint16_t* __restrict__ A, const uint16_t* __restrict__ B, float* __restrict__ out, int tiles, int late) {
  constexpr int kA = 64 * 32, kB = 8 * 32;
  unsigned char* const full = shared_base() + 2 * (kA + kB);
  unsigned char* const empty = full + 16;
  const int t = int(threadIdx.x);
  if (t == 0) {
    for (int s = 0; s < 2; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, 4);
    }
    barriers_ready();
  }
  __syncthreads();
  if (t >= 128) {
    if (t == 128)
      for (int k = 0; k < tiles; ++k) {
        unsigned char* const stage = shared_base() + k % 2 * (kA + kB);
        barrier_wait(empty + k % 2 * 8, (k / 2 + 1) & 1);
        barrier_expect(full + k % 2 * 8, kA + kB);
        bulk_copy(stage, A + k * kA / 2, kA, full + k % 2 * 8);
        bulk_copy(stage + kA, B + k * kB / 2, kB, full + k % 2 * 8);
      }
    return;
  }
  float d[4] = {0, 0, 0, 0};
  for (int k = 0; k < tiles; ++k) {
    unsigned char* const stage = shared_base() + k % 2 * (kA + kB);
    barrier_wait(full + k % 2 * 8, k / 2 & 1);
    wgmma_fence();
    wgmma_f16<8>(d, stage_descriptor(stage, 128, 256), stage_descriptor(stage + kA, 128, 256));
    wgmma_commit();
    if (late) wgmma_wait<0>();
    if (lane() == 0) barrier_arrive(empty + k % 2 * 8);
  }
  wgmma_wait<0>();
  for (int i = 0; i < 4; ++i) out[(t / 32 * 16 + lane() / 4 + 8 * (i / 2)) * 8 + lane() % 4 * 2 + i % 2] = d[i];
}

}  // namespace kernels

namespace {

using gpu_shim::Copies;
using gpu_shim::Options;
using gpu_shim::Result;
using gpu_shim::Schedule;

std::vector<Options> all_options() {
  std::vector<Options> all;
  for (Copies copies : {Copies::eager, Copies::lazy})
    for (Schedule schedule : gpu_shim::kSchedules) all.push_back({schedule, copies});
  return all;
}

/// Small numbers, whose sums are exact.
std::vector<float> numbers(size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = float(int(i * 7919 % 101) - 50);
  return v;
}

bool mentions(const Result& r, const std::string& text) { return std::string(r.error).find(text) != std::string::npos; }

/// Of a number that f16 has, not subnormal.
uint16_t f16(float x) {
  const uint32_t u = gpu_shim::bits<uint32_t>(x);
  return uint16_t(x == 0 ? 0 : (u >> 16 & 0x8000) | ((u >> 23 & 255) - 112) << 10 | (u >> 13 & 1023));
}

template <class E, class C, class Value>
std::vector<C> plain_product(const std::vector<E>& a, const std::vector<E>& b, int k_end, Value value) {
  std::vector<C> c(16 * 8);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < k_end; ++k) c[size_t(i * 8 + j)] += C(value(a[size_t(i * k_end + k)]) * value(b[size_t(k * 8 + j)]));
  return c;
}

}  // namespace

TEST_CASE("a warp sums its row by shuffles, called by type or by address") {
  const std::vector<float> a = numbers(6 * 32);
  std::vector<float> want(6);
  for (size_t i = 0; i < a.size(); ++i) want[i / 32] += a[i];
  for (const Options& options : all_options()) {
    std::vector<float> out(6), again(6);
    Result r = gpu_shim::launch(kernels::gpu_shim_row_sums, 3, 64, 0, options, a.data(), out.data());
    CHECK(std::string(r.error) == "");
    CHECK(out == want);
    void* args[] = {const_cast<float*>(a.data()), again.data()};
    r = gpu_shim::launch_pointers(reinterpret_cast<const void*>(&kernels::gpu_shim_row_sums), 3, 64, 0, args, 2, options);
    CHECK(r.ok());
    CHECK(again == want);
  }
  CHECK(mentions(gpu_shim::launch_pointers(nullptr, 1, 32, 0, nullptr, 33, {}), "too many"));
}

TEST_CASE("shuffles stay in their segment as the manual says") {
  for (int width : {32, 8, 1}) {
    std::vector<int> out(32 * 7);
    REQUIRE(gpu_shim::launch(kernels::shuffles, 1, 32, 0, {}, out.data(), width).ok());
    for (int lane = 0; lane < 32; ++lane) {
      const int first = lane / width * width, place = lane % width;
      const int* mine = &out[size_t(7 * lane)];
      CHECK(mine[0] == 100 + first + 5 % width);
      CHECK(mine[1] == 100 + first + (lane + 1) % width);
      CHECK(mine[2] == 100 + (place >= 3 ? lane - 3 : lane));
      CHECK(mine[3] == 100 + (place + 3 < width ? lane + 3 : lane));
      CHECK(mine[4] == 100 + ((lane ^ 9) < first + width ? lane ^ 9 : lane));  // an earlier segment can be read, a later one cannot
      CHECK(unsigned(mine[5]) == 0x49249249u);
      CHECK(mine[6] == 100 + (lane ^ 1));
    }
  }
}

TEST_CASE("a transpose through shared memory needs its barrier") {
  const std::vector<float> a = numbers(64 * 64);
  int caught = 0;
  for (const Options& options : all_options()) {
    std::vector<float> with(a.size()), without(a.size());
    CHECK(gpu_shim::launch(kernels::transpose, 4, 128, 0, options, a.data(), with.data(), 1).ok());
    CHECK(gpu_shim::launch(kernels::transpose, 4, 128, 0, options, a.data(), without.data(), 0).ok());
    bool right = true, poisoned = false;
    for (size_t i = 0; i < a.size(); ++i) {
      right = right && with[i] == a[i % 64 * 64 + i / 64];
      poisoned = poisoned || std::isnan(without[i]);
    }
    CHECK(right);
    caught += poisoned;
  }
  CHECK(caught == int(all_options().size()));
}

TEST_CASE("a missing barrier before overwriting is seen when a warp runs ahead") {
  const int rows = 5;
  const std::vector<float> a = numbers(128 * rows);
  std::vector<float> want(rows);
  for (size_t i = 0; i < a.size(); ++i) want[i / 128] += a[i];
  for (Schedule schedule : gpu_shim::kSchedules) {
    std::vector<float> with(rows), without(rows);
    CHECK(gpu_shim::launch(kernels::block_sums, 1, 128, 0, {schedule}, a.data(), with.data(), rows, 1).ok());
    CHECK(with == want);
    CHECK(gpu_shim::launch(kernels::block_sums, 1, 128, 0, {schedule}, a.data(), without.data(), rows, 0).ok());
    if (schedule == Schedule::warp_greedy) CHECK(without != want);
    if (schedule == Schedule::round_robin) CHECK(without == want);  // why the other one is there
  }
}

TEST_CASE("asynchronous copies: too weak a wait is seen when they land late, too early a reuse when they land at once") {
  const int tiles = 6;
  const std::vector<float> a = numbers(64 * 4 * tiles);
  std::vector<float> want(64);
  for (size_t t = 0; t < 64; ++t)
    for (size_t k = 0; k < tiles; ++k)
      for (size_t i = 0; i < 4; ++i) want[t] += a[4 * (64 * k + (t + 1) % 64) + i];
  int reuse_caught = 0;
  for (const Options& options : all_options()) {
    std::vector<float> right(64), weak(64), reused(64);
    const auto run = [&](auto kernel, std::vector<float>& out) {
      return gpu_shim::launch(kernel, 1, 64, 2048, options, a.data(), out.data(), tiles).ok();
    };
    const bool eager = options.copies == Copies::eager;
    CHECK(run(kernels::staged_sum<1, true>, right));
    CHECK(right == want);
    CHECK(run(kernels::staged_sum<2, true>, weak) == eager);  // the last copies are never waited for
    CHECK((weak == want) == eager);
    CHECK(run(kernels::staged_sum<1, false>, reused));
    if (eager) reuse_caught += reused != want;
  }
  CHECK(reuse_caught > 0);
}

TEST_CASE("products of matrices") {
  SUBCASE("ldmatrix and f16") {
    std::vector<float> x = numbers(16 * 16), y = numbers(16 * 8);
    std::vector<uint16_t> a, b;
    for (float& v : x) a.push_back(f16(v /= 16));
    for (float& v : y) b.push_back(f16(v *= 8));
    const auto want = plain_product<float, float>(x, y, 16, [](float v) { return v; });
    for (const Options& options : all_options()) {
      std::vector<float> c(16 * 8);
      const Result r = gpu_shim::launch(kernels::product_f16, 1, 32, 0, options, a.data(), b.data(), c.data());
      CHECK(std::string(r.error) == "");
      CHECK(c == want);
    }
  }
  SUBCASE("bf16") {
    std::vector<uint16_t> a, b;
    for (float v : numbers(16 * 16)) a.push_back(uint16_t(gpu_shim::bits<uint32_t>(v) >> 16));
    for (float v : numbers(16 * 8)) b.push_back(uint16_t(gpu_shim::bits<uint32_t>(v) >> 16));
    std::vector<float> c(16 * 8);
    REQUIRE(gpu_shim::launch(kernels::product<0, uint16_t, float>, 1, 32, 0, {}, a.data(), b.data(), c.data()).ok());
    CHECK(c == plain_product<uint16_t, float>(a, b, 16, [](uint16_t h) { return gpu_shim::bits<float>(uint32_t(h) << 16); }));
  }
  SUBCASE("tf32, without the bits that it lacks") {
    std::vector<float> a = numbers(16 * 8), b = numbers(8 * 8);
    const auto want = plain_product<float, float>(a, b, 8, [](float v) { return v; });
    for (float& v : a) v = gpu_shim::bits<float>(gpu_shim::bits<uint32_t>(v) | 0x1fffu);
    std::vector<float> c(16 * 8);
    REQUIRE(gpu_shim::launch(kernels::product<1, float, float>, 1, 32, 0, {}, a.data(), b.data(), c.data()).ok());
    CHECK(c == want);
  }
  SUBCASE("s8") {
    std::vector<int8_t> a, b;
    for (float v : numbers(16 * 32)) a.push_back(int8_t(v * 2.5f));
    for (float v : numbers(32 * 8)) b.push_back(int8_t(v * -2.5f));
    std::vector<int> c(16 * 8);
    REQUIRE(gpu_shim::launch(kernels::product<2, int8_t, int>, 1, 32, 0, {}, a.data(), b.data(), c.data()).ok());
    CHECK(c == plain_product<int8_t, int>(a, b, 32, [](int8_t v) { return int(v); }));
  }
}

TEST_CASE("bank conflicts are counted, and the swizzle has none") {
  for (int bytes : {32, 64, 128, 256, 512}) {
    CAPTURE(bytes);
    std::vector<uint16_t> a(size_t(16 * bytes / 2)), out(a.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = uint16_t(i * 40503);
    for (int swizzled : {0, 1})
      for (const Options& options : all_options()) {
        std::fill(out.begin(), out.end(), uint16_t(0));
        const Result r = gpu_shim::launch(kernels::through_matrices, 1, 32, 16 * bytes, options, a.data(), out.data(), bytes, swizzled);
        CHECK(std::string(r.error) == "");
        CHECK(out == a);
        // Eight rows of one column: as many of them are in the same four banks as there are rows in 128 bytes of row pitch.
        const int same_bank = bytes >= 128 ? 8 : bytes / 16;
        const auto instructions = static_cast<unsigned long long>(bytes / 32);
        CHECK(r.bank_conflicts == (swizzled ? 0 : 4 * instructions * static_cast<unsigned long long>(same_bank - 1)));
        REQUIRE(r.n_sites == 2);
        CHECK(r.sites[0].what == std::string("cp.async"));
        CHECK(r.sites[0].instructions == instructions);
        CHECK(r.sites[0].conflicts == 0);
        CHECK(r.sites[1].what == std::string("ldmatrix"));
        CHECK(r.sites[1].instructions == instructions);
      }
  }
  for (int pitch : {32, 33}) {
    std::vector<float> out(32);
    const Result r = gpu_shim::launch(kernels::columns, 1, 32, 33 * 32 * 4, {}, out.data(), pitch);
    CHECK(std::string(r.error) == "");
    for (size_t i = 0; i < 32; ++i) CHECK(out[i] == 32 * float(i));
    CHECK(r.bank_conflicts == (pitch == 32 ? 32 * 31 : 0));
  }
}

TEST_CASE("shared memory is full of NaN when a block begins") {
  std::vector<float> out(3 * 64);
  REQUIRE(gpu_shim::launch(kernels::what_was_there, 3, 32, 128, {}, out.data()).ok());
  for (float x : out) CHECK(std::isnan(x));
}

TEST_CASE("what a GPU would not forgive is reported") {
  for (const Options& options : all_options()) {
    const auto run = [&](kernels::Wrong what) { return gpu_shim::launch(kernels::wrong, 2, 64, 32, options, int(what)); };
    Result r = run(kernels::half_at_barrier);
    CHECK(mentions(r, "divergence: 48 threads (the first is 0) wait at __syncthreads in line "));
    CHECK(mentions(r, "16 of 64 have ended"));
    r = run(kernels::ended_before_barrier);
    CHECK(mentions(r, "divergence: 63 threads"));
    r = run(kernels::two_barriers);
    CHECK(mentions(r, "where others wait at the one in line"));
    r = run(kernels::half_in_shuffle);
    CHECK(mentions(r, "divergence: 16 threads (the first is 0) wait at __shfl_xor_sync in line "));
    r = run(kernels::not_in_mask);
    CHECK(mentions(r, "is not in its own mask 0xff"));
    r = run(kernels::two_operations);
    CHECK(mentions(r, "wait at __shfl_up_sync"));
    CHECK(mentions(r, "wait at __shfl_down_sync"));
    r = run(kernels::two_lines);
    CHECK(mentions(r, "wait at __syncwarp"));
    r = run(kernels::two_masks);
    CHECK(mentions(r, "with mask 0xfffffff0, "));
    r = run(kernels::copy_unaligned);
    CHECK(mentions(r, "not aligned to 16 bytes"));
    r = run(kernels::copy_elsewhere);
    CHECK(mentions(r, "not in shared memory"));
#ifndef GPU_SHIM_ASAN  // which ends the program there
    r = run(kernels::beyond);
    CHECK(mentions(r, "block 0 wrote past its 32 bytes"));
#endif
    std::vector<int> out(32);
    r = gpu_shim::launch(kernels::partial_mask, 1, 32, 0, options, out.data());  // and nothing is left of what went wrong
    CHECK(std::string(r.error) == "");
    for (int t = 0; t < 16; ++t) CHECK(out[size_t(t)] == (t ^ 15));
    CHECK(out[16] == 17);
  }
}

TEST_CASE("conversions and products of bytes") {
  const std::vector<float> x = {0.5f, 1.5f, -2.5f, 3e9f, -3e9f, std::nanf(""), -INFINITY};
  std::vector<int> out(x.size() + 3);
  REQUIRE(gpu_shim::launch(kernels::intrinsics, 1, 1, 0, {}, out.data(), x.data(), int(x.size())).ok());
  const std::vector<int> want = {0,
                                 2,
                                 -2,
                                 INT32_MAX,
                                 INT32_MIN,
                                 0,
                                 INT32_MIN,
                                 5 + 6 + 127 * 127 - 1 + 128 * 128,
                                 5 + 6 + 127 * 127 + 255 + 128 * 128,
                                 int(0xff800681)};
  CHECK(out == want);
}

namespace {

struct Pipeline {
  static constexpr int kTiles = 5, kBlocks = 8;
  std::vector<float> a = numbers(64 * kTiles), b = numbers(128 * kTiles * kBlocks), want = std::vector<float>(64 * kBlocks);

  Pipeline() {
    for (size_t block = 0; block < kBlocks; ++block)
      for (size_t c = 0; c < 64; ++c)
        for (size_t k = 0; k < kTiles; ++k) want[64 * block + c] += a[64 * k + c] * b[(block * kTiles + k) * 128 + 2 * c + 1];
  }
  /// The result's error, or "wrong".
  template <class Kernel>
  std::string run(Kernel kernel, const Options& options, kernels::Fault fault) const {
    std::vector<float> out(want.size());
    const Result r =
        gpu_shim::launch(kernel, kBlocks, 96, 2 * kernels::kStageBytes + 32, options, a.data(), b.data(), out.data(), kTiles, int(fault));
    if (!r.ok()) return r.error;
    return out == want ? "" : "wrong";
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a pipeline of bulk copies, alone or in a cluster") {
  const Pipeline p;
  for (const Options& options : all_options()) {
    CHECK(p.run(kernels::gpu_shim_pipeline, options, kernels::none) == "");
    CHECK(p.run(kernels::gpu_shim_pipeline_of_two, options, kernels::none) == "");
    CHECK(p.run(kernels::pipeline_of_four, options, kernels::none) == "");
    std::vector<float> out(p.want.size());
    void* args[] = {const_cast<float*>(p.a.data()), const_cast<float*>(p.b.data()), out.data(), reinterpret_cast<void*>(Pipeline::kTiles),
                    reinterpret_cast<void*>(kernels::none)};
    const Result r = gpu_shim::launch_pointers(reinterpret_cast<const void*>(&kernels::gpu_shim_pipeline_of_two), Pipeline::kBlocks, 96,
                                               2 * kernels::kStageBytes + 32, args, 5, options);
    CHECK(std::string(r.error) == "");
    CHECK(out == p.want);
  }
  std::vector<float> out(64);
  CHECK(mentions(gpu_shim::launch(kernels::gpu_shim_pipeline_of_two, 3, 96, 1600, {}, nullptr, nullptr, out.data(), 0, 0), "clusters"));
}

TEST_CASE("what is wrong with a pipeline is seen in some way of running it, and what can be told always is") {
  using namespace kernels;
  const Pipeline p;
  const std::vector<std::pair<Fault, std::string>> cases = {{no_full_wait, ""},
                                                            {no_empty_wait, ""},
                                                            {early_release, ""},
                                                            {wrong_parity, ""},
                                                            {too_few_bytes, "block"},  // a hang, or copies that nobody waits for
                                                            {too_many_bytes, " wait at barrier_wait in line "},
                                                            {no_proxy_fence, "no proxy fence since copies landed"},
                                                            {initialised_twice, "has initialised the barrier"},
                                                            {not_ready, "no barriers_ready since"},
                                                            {overwritten, "was overwritten"}};
  for (const auto& c : cases)
    for (bool clustered : {false, true}) {
      int seen[2] = {0, 0};
      for (const Options& options : all_options()) {
        const std::string error =
            clustered ? p.run(gpu_shim_pipeline_of_two, options, c.first) : p.run(gpu_shim_pipeline, options, c.first);
        CAPTURE(clustered);
        CAPTURE(int(c.first));
        CAPTURE(error);
        CHECK(has(error, c.second));
        seen[int(options.copies)] += error != "";
        const bool greedy = options.schedule == Schedule::warp_greedy || options.schedule == Schedule::warp_greedy_reversed;
        if (c.first == early_release && greedy) CHECK(error == "wrong");
      }
      CHECK(seen[0] > 0);
      CHECK(seen[1] > 0);
    }
  int ended = 0, too_early = 0;
  for (const Options& options : all_options()) {
    ended += has(p.run(gpu_shim_pipeline_of_two, options, no_sync_after), "the block has ended");
    too_early += has(p.run(gpu_shim_pipeline_of_two, options, no_sync_before), "there is no initialised barrier");
  }
  CHECK(ended > 0);
  CHECK(too_early > 0);
}

TEST_CASE("blocks of a cluster have their own threads and memory") {
  for (const Options& options : all_options()) {
    std::vector<float> out(4 * 40);
    const auto run = [&](int what) { return gpu_shim::launch(kernels::gpu_shim_clustered, 4, 40, 160, options, out.data(), what); };
    Result r = run(0);
    // The second warp lacks lanes, which a shuffle of all does not mind.
    CHECK(std::string(r.error) == "");
    for (size_t block = 0; block < 4; ++block)
      for (size_t t = 0; t < 32; ++t) CHECK(out[block * 40 + t] == float(32 * 100 * block + 31 * 16 + 100 * block + t));
    r = run(1);
    CHECK(mentions(r, "divergence: 40 threads (the first is 0) wait at cluster_sync in line "));
    CHECK(mentions(r, "40 of 80 have ended"));
    r = run(2);
    CHECK(std::string(r.error) == "");  // threads may meet from different places
    r = run(3);
    CHECK(mentions(r, "static shared memory"));
#ifndef GPU_SHIM_ASAN
    r = run(4);
    CHECK(mentions(r, "block 1 wrote past its 160 bytes"));
#endif
  }
}

TEST_CASE("barriers and bulk copies that are not what they must be") {
  using namespace kernels;
  alignas(16) static const float a[64] = {};
  const std::vector<std::pair<Misuse, std::string>> cases = {{no_arrivals, "0 arrivals"},
                                                             {unaligned_barrier, "not aligned to 8 bytes"},
                                                             {barrier_elsewhere, "the barrier is not in dynamic shared memory"},
                                                             {wait_for_none, "barrier_wait in line "},
                                                             {arrive_at_none, "there is no initialised barrier"},
                                                             {copy_to_none, "there is no initialised barrier"},
                                                             {arrivals_too_many, "all 2 arrivals of the phase have come"},
                                                             {odd_bytes, "24 bytes"},
                                                             {unaligned_bulk, "not aligned to 16 bytes"},
                                                             {bulk_elsewhere, "the destination is not in dynamic shared memory"},
                                                             {parity_of_two, "a parity of 2"},
                                                             {beyond_cluster, "block 1 of a cluster of 1"},
                                                             {bulk_beyond_cluster, "to 2 blocks of a cluster of 1"},
                                                             {expected_at_end, "ended with 16 bytes outstanding at the barrier"},
                                                             {bulk_over_barrier, "was overwritten"}};
  for (const Options& options : all_options()) {
    for (const auto& c : cases) {
      CAPTURE(int(c.first));
      const Result r = gpu_shim::launch(gpu_shim_misuse, 1, 1, 128, options, a, int(c.first));
      CAPTURE(std::string(r.error));
      CHECK(mentions(r, c.second));
    }
    const Result r = gpu_shim::launch(gpu_shim_misuse, 1, 1, 128, options, a, int(under_way_at_end));
    CHECK(mentions(r, options.copies == Copies::lazy ? "bulk copies into it under way" : "16 bytes more than were expected"));
  }
}

TEST_CASE("products of four warps take core matrices from shared memory") {
  const auto check = [](auto element, auto sum, auto encode) {
    using E = decltype(element);
    using C = decltype(sum);
    constexpr size_t kK = 64 / sizeof(E);
    std::vector<E> a, b;
    std::vector<C> want(64 * 24);
    const std::vector<float> x = numbers(64 * kK), y = numbers(24 * kK);
    for (float v : x) a.push_back(encode(v));
    for (float v : y) b.push_back(encode(v));
    for (size_t i = 0; i < 64; ++i)
      for (size_t j = 0; j < 24; ++j)
        for (size_t k = 0; k < kK; ++k) want[i * 24 + j] += C(x[i * kK + k] * y[j * kK + k]);
    const int bytes = (64 + 24) * 64;
    for (const Options& options : all_options())
      for (int rows_first : {0, 1}) {
        std::vector<C> out(want.size());
        const auto run = [&](kernels::Staged what) {
          return gpu_shim::launch(kernels::product_staged<E, C>, 1, 128, bytes, options, a.data(), b.data(), out.data(), rows_first,
                                  int(what));
        };
        CHECK(std::string(run(kernels::staged_right).error) == "");
        CHECK(out == want);
        CHECK(mentions(run(kernels::staged_swizzled), "neither of core matrices without swizzle"));
        CHECK(mentions(run(kernels::staged_beyond), "more than dynamic shared memory"));
        CHECK(mentions(run(kernels::staged_unfenced), "no proxy fence since copies landed"));
        const Result r = run(kernels::staged_not_waited);
        if (options.copies == Copies::eager)
          CHECK(mentions(r, "ended with 2 asynchronous products that it did not wait for"));
        else
          CHECK(r.ok());
      }
  };
  check(uint16_t(), 0.0f, f16);
  check(int8_t(), 0, [](float v) { return int8_t(v); });
  check(float(), 0.0f, [](float v) { return gpu_shim::bits<float>(gpu_shim::bits<uint32_t>(v) | 0x1fffu); });  // tf32 lacks these bits
}

TEST_CASE("a stage that products may still read is not free") {
  constexpr size_t kTiles = 5;
  std::vector<float> want(64 * 8);
  const std::vector<float> x = numbers(64 * 16 * kTiles), y = numbers(8 * 16 * kTiles);
  std::vector<uint16_t> a, b;  // tile after tile of core matrices: of eight rows, the two along k follow one another
  const auto at = [](size_t rows, size_t row, size_t k) {
    return k / 16 * rows * 16 + row / 8 * 128 + k % 16 / 8 * 64 + row % 8 * 8 + k % 8;
  };
  for (float v : x) a.push_back(f16(v));
  for (float v : y) b.push_back(f16(v));
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 8; ++j)
      for (size_t k = 0; k < 16 * kTiles; ++k) want[i * 8 + j] += x[at(64, i, k)] * y[at(8, j, k)];
  for (const Options& options : all_options())
    for (int late : {0, 1}) {
      std::vector<float> out(want.size());
      const Result r = gpu_shim::launch(kernels::gpu_shim_products, 1, 256, 2 * (64 + 8) * 32 + 32, options, a.data(), b.data(), out.data(),
                                        int(kTiles), late);
      CHECK(std::string(r.error) == "");
      if (late)
        CHECK(out == want);
      else if (options.copies == Copies::eager)  // products are done as late as can be
        CHECK(out != want);
    }
}
