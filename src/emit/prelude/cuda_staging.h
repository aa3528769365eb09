// Tiles of matrix products on the primitives of cuda.h: shared memory and what is staged in it, fragments of factors and sums in a warp's
// registers, asynchronous copies (cp.async). The products' own instructions are made in tensor_cores.cpp.

//@ shared_base
#if defined(__CUDACC__)
INLINE unsigned char* shared_base() {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  return shared_memory;
}
#endif
//@ warp_memory
/// This warp's part of the dynamic shared memory, from `offset` bytes on.
#define warp_memory(offset) static_cast<void*>(shared_base() + threadIdx.x / 32 * kWarpBytes + (offset))

//@ fragment_zero
template <class V>
INLINE void fragment_zero(V* c) {
#pragma unroll
  for (int i = 0; i < 16; ++i) c[i] = 0;
}
//@ fragment_row
/// 16 bytes at q as 4 words.
INLINE void fragment_row(vu* a, const uint8_t* q) {
  const uint4 v = *(const uint4*)q;
  a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
}
//@ word_of
/// The first n bytes at p, at most 4, then zeros; nothing else is read.
INLINE vu word_of(const uint8_t* p, int n) {
  vu w = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < n) w |= (vu)p[i] << 8 * i;
  return w;
}
//@ fragment_rows
/// 16 rows of 64 bytes, `row_bytes` apart: thread 4g + t takes 16 bytes from 16t on of rows g and g + 8. Only the first `rows` rows and
/// the first `bytes` bytes of each are read, the others are 0. `aligned`: addresses are multiples of 16.
template <bool aligned>
INLINE void fragment_rows(vu* a, const void* p, int64_t row_bytes, int rows, int bytes) {
  const int at = lane() % 4 * 16;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane() / 4 + 8 * half;
    const uint8_t* q = (const uint8_t*)p + row * row_bytes + at;
    if (aligned && (rows == 16 || row < rows) && at + 16 <= bytes) {
      fragment_row(a + 4 * half, q);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[4 * half + i] = row < rows ? word_of(q + 4 * i, bytes - at - 4 * i) : 0;
    }
  }
}
//@ fragment_load_a
INLINE void fragment_load_a(vu* a, const void* p, int64_t row_bytes, int rows, int bytes) {
  fragment_rows<true>(a, p, row_bytes, rows, bytes);
}
//@ fragment_load_a_unaligned
INLINE void fragment_load_a_unaligned(vu* a, const void* p, int64_t row_bytes, int rows, int bytes) {
  fragment_rows<false>(a, p, row_bytes, rows, bytes);
}
//@ fragment_load_b
/// Packed rows of 64 bytes, one a column: words 4j to 4j + 3 are of column 8j + g, and of k as in fragment_load_a.
INLINE void fragment_load_b(vu* b, const void* p) {
#pragma unroll
  for (int j = 0; j < 4; ++j) fragment_row(b + 4 * j, (const uint8_t*)p + j * 512 + lane() * 16);
}
//@ smem_get
#if defined(__CUDACC__)
/// *p and *p = v: accesses of shared memory whose bank conflicts a test can count.
template <class T>
INLINE T smem_get(const T* p) {
  return *p;
}
#endif
//@ smem_put
#if defined(__CUDACC__)
template <class T>
INLINE void smem_put(T* p, T v) {
  *p = v;
}
#endif
//@ staged_rows
/// n times 8 staged rows of 64 bytes: a warp reads 512 neighbouring bytes at a time, so no banks conflict.
template <int n>
INLINE void staged_rows(vu* w, const void* p) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const uint4 v = smem_get((const uint4*)p + i * 32 + lane());
    w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
  }
}
//@ fragment_staged_a
/// 16 staged rows: what fragment_load_a brings.
INLINE void fragment_staged_a(vu* a, const void* p) { staged_rows<2>(a, p); }
//@ fragment_staged_b
/// 32 staged rows, one a column: what fragment_load_b brings.
INLINE void fragment_staged_b(vu* b, const void* p) { staged_rows<4>(b, p); }
//@ fragment_store
/// 16 rows of 32 sums, 40 apart (no two threads meet in a bank), for the warp to read as vectors.
template <class V>
INLINE void fragment_store(const V* c, V* p) {
  struct alignas(8) pair {
    V x, y;
  };
  V* const q = p + lane() / 4 * 40 + lane() % 4 * 2;
  __syncwarp();  // what was here has been read
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    smem_put((pair*)(q + 8 * j), pair{c[4 * j], c[4 * j + 1]});
    smem_put((pair*)(q + 8 * j + 320), pair{c[4 * j + 2], c[4 * j + 3]});
  }
  __syncwarp();
}
//@ fragment_store_pair
/// The upper (half 0) or lower 8 rows of two neighbouring tiles, 64 sums a row, 72 apart.
template <class V>
INLINE void fragment_store_pair(const V* c, const V* d, V* p, int half) {
  struct alignas(8) pair {
    V x, y;
  };
  V* const q = p + lane() / 4 * 72 + lane() % 4 * 2;
  __syncwarp();  // what was here has been read
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    smem_put((pair*)(q + 8 * j), pair{c[4 * j + 2 * half], c[4 * j + 2 * half + 1]});
    smem_put((pair*)(q + 8 * j + 32), pair{d[4 * j + 2 * half], d[4 * j + 2 * half + 1]});
  }
  __syncwarp();
}
//@ fragment_products
/// c[16 × 32] += a · b: two steps of k for each 8 columns. A thread's words are taken in the same order of k from both factors.
template <class V, class Mma>
INLINE void fragment_products(V* c, const vu* a, const vu* b, Mma mma) {
#pragma unroll
  for (int h = 0; h < 4; h += 2) {
    const vu rows[4] = {a[h], a[4 + h], a[1 + h], a[5 + h]};
#pragma unroll
    for (int j = 0; j < 16; j += 4) mma(c + j, rows, b + j + h);
  }
}
//@ round_tf32
/// n floats to 11 significant bits, ties away from zero.
template <int n>
INLINE void round_tf32(vu* w) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(w[i]) : "f"(__uint_as_float(w[i])));
#else
    if ((w[i] & 0x7f800000u) != 0x7f800000u) w[i] = (w[i] + 0x1000) & 0xffffe000u;
#endif
  }
}
//@ nearest_tf32
INLINE float nearest_tf32(float x) {
  vu w = __float_as_uint(x);
  round_tf32<1>(&w);
  return __uint_as_float(w);
}
//@ fragment_staged_tf32_a
INLINE void fragment_staged_tf32_a(vu* a, const void* p) { staged_rows<2>(a, p), round_tf32<8>(a); }
//@ fragment_staged_tf32_b
INLINE void fragment_staged_tf32_b(vu* b, const void* p) { staged_rows<4>(b, p), round_tf32<16>(b); }
//@ fragment_staged_f32_a
/// One k of a tile's 16 rows: lane 8r + c has rows r, r + 4, …, which lie side by side, and columns c, c + 8, ….
INLINE void fragment_staged_f32_a(vu* a, const void* p) {
  const uint4 v = smem_get((const uint4*)p + lane() / 8);
  a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
}
//@ fragment_staged_f32_b
/// ... of its 32 columns.
INLINE void fragment_staged_f32_b(vu* b, const void* p) {
  const uint4 v = smem_get((const uint4*)p + lane() % 8);
  b[0] = v.x, b[1] = v.y, b[2] = v.z, b[3] = v.w;
}
//@ fragment_load_piece
/// 16 bytes, all 0 unless `inside`.
INLINE void fragment_load_piece(vu* a, const void* p, bool inside = true) {
  uint4 v = {};
  if (inside) v = __ldg((const uint4*)p);
  a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
}
//@ fragment_staged_turn
/// The four k of a row, `apart` bytes from one to the next. Of four neighbouring threads the last two begin with their third: a warp's 8
/// rows of 16 k, which lie in banks 4 from k to k, 16 from thread to thread, then meet in none.
INLINE void fragment_staged_turn(const vu* a, void* p, int apart) {
  const bool third = lane() & 2;
  uint8_t* const q = (uint8_t*)p;
  smem_put((vu*)(q + (third ? 2 * apart : 0)), third ? a[2] : a[0]);
  smem_put((vu*)(q + (third ? 3 * apart : apart)), third ? a[3] : a[1]);
  smem_put((vu*)(q + (third ? 0 : 2 * apart)), third ? a[0] : a[2]);
  smem_put((vu*)(q + (third ? apart : 3 * apart)), third ? a[1] : a[3]);
}
//@ products_f32
/// One k of a lane's 4 × 4 sums of each of rows × columns tiles. Along the shorter side to and fro, each product has one factor in common
/// with the one before: compilers then keep that factor at the multiplier, and the other registers in different banks.
template <int rows, int columns>
INLINE void products_f32(vf (*sums)[16], const vu (*parts)[16]) {
  constexpr int kShort = 4 * (rows > columns ? columns : rows), kLong = 4 * (rows > columns ? rows : columns);
#pragma unroll
  for (int x = 0; x < kLong; ++x)
#pragma unroll
    for (int y = 0; y < kShort; ++y) {
      const int turned = x % 2 ? kShort - 1 - y : y, i = rows > columns ? x : turned, j = rows > columns ? turned : x;
      vf& sum = sums[i / 4 * columns + j / 4][i % 4 * 4 + j % 4];
      sum = fmaf(__uint_as_float(parts[i / 4][i % 4]), __uint_as_float(parts[rows + j / 4][j % 4]), sum);
    }
}
//@ fragment_store_f32
/// As fragment_store, of the sums that the lanes made for themselves.
INLINE void fragment_store_f32(const vf* c, vf* p) {
  vf* const q = p + lane() / 8 * 40 + lane() % 8;
  __syncwarp();  // what was here has been read
#pragma unroll
  for (int i = 0; i < 16; ++i) smem_put(q + i / 4 * 160 + i % 4 * 8, c[i]);
  __syncwarp();
}
//@ shared_address
#if defined(__CUDACC__)
/// Where p is in shared memory.
INLINE vu shared_address(const void* p) { return (vu)__cvta_generic_to_shared(p); }
#endif
//@ cp16
#if defined(__CUDACC__)
/// 16 bytes into shared memory, asynchronously and past the first-level cache; all 0 unless `bytes` is 16. Addresses are multiples of 16.
INLINE void cp16(void* to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
#endif
//@ cp16_part
/// ... of the last `left` bytes of a row, which may be more than 16, or none: what is beyond the row is 0.
INLINE void cp16_part(void* to, const void* from, int left) { cp16(to, from, left < 0 ? 0 : left < 16 ? left : 16); }
//@ cp4
#if defined(__CUDACC__)
/// 4 bytes likewise, through the first-level cache.
INLINE void cp4(void* to, const void* from, int bytes = 4) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
#endif
//@ cp_commit
#if defined(__CUDACC__)
/// What this thread has asked for since the last time becomes a group.
INLINE void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
#endif
//@ cp_wait
#if defined(__CUDACC__)
/// Until all of this thread's groups but the newest n are there; others' need a barrier besides.
template <int n>
INLINE void cp_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}
#endif
