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
