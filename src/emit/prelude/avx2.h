// Vector primitives on 8 lanes. Base: AVX2 with FMA and F16C. `#if` picks up AVX-VNNI. Semantics: docs/numerics.md.

//@ @preamble
#include <immintrin.h>
typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));

//@ kLanes
constexpr int kLanes = 8;
//@ vf_set
INLINE vf vf_set(float x) { return (vf)_mm256_set1_ps(x); }
//@ vi_set
INLINE vi vi_set(int32_t x) { return (vi)_mm256_set1_epi32(x); }
//@ vi_iota
INLINE vi vi_iota() { return (vi){0, 1, 2, 3, 4, 5, 6, 7}; }

//@ lane_mask
/// For masked loads: taken from memory again for each, since a compiler would keep it in the register of a sum.
INLINE __m256i lane_mask(int lo, int hi) {
  vi m = lanes_in(lo, hi);
  __asm__ volatile("" : "+x"(m));
  return (__m256i)m;
}

//@ vf_within
INLINE vf vf_within(vf v, int lo, int hi, float fill) {
  const vi m = (vi)lane_mask(lo, hi);
  return __builtin_constant_p(fill) && fill == 0 && !__builtin_signbit(fill) ? (vf)((vi)v & m) : vf_select(m, v, vf_set(fill));
}
//@ vi_within
INLINE vi vi_within(vi v, int lo, int hi, int32_t fill) {
  const vi m = (vi)lane_mask(lo, hi);
  return __builtin_constant_p(fill) && fill == 0 ? v & m : vi_select(m, v, vi_set(fill));
}
//@ vf_load_f32
INLINE vf vf_load_f32(const float* p) { return (vf)_mm256_loadu_ps(p); }
//@ vf_load_f32_n
INLINE vf vf_load_f32_n(const float* p, int n) {
  if (__builtin_constant_p(n) && n == kLanes) return vf_load_f32(p);
  return (vf)_mm256_maskload_ps(p, lane_mask(0, n));
}
//@ vf_load_f32_range
INLINE vf vf_load_f32_range(const float* p, int lo, int hi, float fill) {
  const __m256i m = lane_mask(lo, hi);
  const vf v = (vf)_mm256_maskload_ps(p, m);
  return __builtin_constant_p(fill) && fill == 0 ? v : vf_select((vi)m, v, vf_set(fill));
}
//@ vi_load_s32
INLINE vi vi_load_s32(const int32_t* p) { return (vi)_mm256_loadu_si256((const __m256i*)p); }
//@ vi_load_s32_n
INLINE vi vi_load_s32_n(const int32_t* p, int n) {
  if (__builtin_constant_p(n) && n == kLanes) return vi_load_s32(p);
  return (vi)_mm256_maskload_epi32((const int*)p, lane_mask(0, n));
}
//@ vi_load_s32_range
INLINE vi vi_load_s32_range(const int32_t* p, int lo, int hi, int32_t fill) {
  const __m256i m = lane_mask(lo, hi);
  const vi v = (vi)_mm256_maskload_epi32((const int*)p, m);
  return __builtin_constant_p(fill) && fill == 0 ? v : vi_select((vi)m, v, vi_set(fill));
}
//@ vf_load_bf16
INLINE vf vf_load_bf16(const uint16_t* p) { return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16); }
//@ vf_load_f16
INLINE vf vf_load_f16(const uint16_t* p) { return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
//@ vf_bcast_f16
INLINE vf vf_bcast_f16(const uint16_t* p) { return (vf)_mm256_cvtph_ps(_mm_set1_epi16((short)*p)); }
//@ vi_load_s8
INLINE vi vi_load_s8(const int8_t* p) { return (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)); }
//@ vi_load_group_s8
INLINE vi vi_load_group_s8(const void* p) { return (vi)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p)); }
//@ vi_load_group_u8
INLINE vi vi_load_group_u8(const void* p) { return (vi)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)p)); }
//@ vi_load_s16
INLINE vi vi_load_s16(const int16_t* p) { return (vi)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i*)p)); }
//@ vi_load_u8
INLINE vi vi_load_u8(const uint8_t* p) { return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)); }

//@ vf_store_f32
INLINE void vf_store_f32(float* p, vf v) { _mm256_storeu_ps(p, (__m256)v); }
//@ store_lanes
/// The first n lanes, by halves: a masked store is a microprogram on AMD's cores (Zen 3: 17 cycles; seven lanes by halves 3).
INLINE void store_lanes(void* to, __m256i v, int n) {
  if (n == kLanes) return _mm256_storeu_si256((__m256i*)to, v);
  char* p = (char*)to;
  __m128i rest = _mm256_castsi256_si128(v);
  if (n & 4) _mm_storeu_si128((__m128i*)p, rest), rest = _mm256_extracti128_si256(v, 1), p += 16;
  if (n & 2) _mm_storel_epi64((__m128i*)p, rest), rest = _mm_unpackhi_epi64(rest, rest), p += 8;
  if (n & 1) _mm_storeu_si32(p, rest);
}
//@ vf_store_f32_n
INLINE void vf_store_f32_n(float* p, vf v, int n) { store_lanes(p, (__m256i)v, n); }
//@ vi_store_s32
INLINE void vi_store_s32(int32_t* p, vi v) { _mm256_storeu_si256((__m256i*)p, (__m256i)v); }
//@ vi_store_s32_n
INLINE void vi_store_s32_n(int32_t* p, vi v, int n) { store_lanes(p, (__m256i)v, n); }
//@ vf_stream_f32
/// Past the caches where p is aligned to the vector. `stream_fence` before another thread reads.
INLINE void vf_stream_f32(float* p, vf v) { (uintptr_t) p % 32 ? _mm256_storeu_ps(p, (__m256)v) : _mm256_stream_ps(p, (__m256)v); }
//@ stream_fence
INLINE void stream_fence() { _mm_sfence(); }
//@ bits_bf16
/// The bf16 nearest to each lane, ties to even, in the upper half; the lower half is garbage.
INLINE vu bits_bf16(vf v) {
  const vu u = (vu)v;
  return v == v ? u + 0x7fff + (u >> 16 & 1) : u | 0x400000;
}
//@ vf_store_bf16
INLINE void vf_store_bf16(uint16_t* p, vf v) {
  const __m256i words = (__m256i)(bits_bf16(v) >> 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
  _mm_storeu_si128((__m128i*)p, _mm256_castsi256_si128(packed));
}
//@ vf_round_bf16
INLINE vf vf_round_bf16(vf v) { return (vf)(bits_bf16(v) & 0xffff0000u); }
//@ narrow_f16
INLINE __m128i narrow_f16(vf v) { return _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
//@ vf_store_f16
INLINE void vf_store_f16(uint16_t* p, vf v) { _mm_storeu_si128((__m128i*)p, narrow_f16(v)); }
//@ vf_round_f16
INLINE vf vf_round_f16(vf v) { return (vf)_mm256_cvtph_ps(narrow_f16(v)); }
//@ narrow_s16
INLINE __m128i narrow_s16(vi v) {
  const __m256i packed = _mm256_packs_epi32((__m256i)v, (__m256i)v);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
//@ vi_store_s16
INLINE void vi_store_s16(int16_t* p, vi v) { _mm_storeu_si128((__m128i*)p, narrow_s16(v)); }
//@ vi_store_s8
INLINE void vi_store_s8(int8_t* p, vi v) {
  const __m128i h = narrow_s16(v);
  _mm_storel_epi64((__m128i*)p, _mm_packs_epi16(h, h));
}
//@ vi_store_u8
INLINE void vi_store_u8(uint8_t* p, vi v) {
  const __m128i h = narrow_s16(v);
  _mm_storel_epi64((__m128i*)p, _mm_packus_epi16(h, h));
}

//@ gather_bits
/// Lanes of 32 bits at p[i * stride] where the mask is set, `other` elsewhere.
INLINE __m256i gather_bits(const void* p, int64_t stride, __m256i m, __m256i other) {
  const __m256i iota = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  if (stride >= -(1 << 28) && stride < (1 << 28))  // the largest index fits 32 bits
    return _mm256_mask_i32gather_epi32(other, (const int*)p, _mm256_mullo_epi32(iota, _mm256_set1_epi32((int)stride)), m, 4);
  const __m256i low = _mm256_set_epi64x(3 * stride, 2 * stride, stride, 0);
  const int* high = (const int*)p + 4 * stride;
  const __m128i a = _mm256_mask_i64gather_epi32(_mm256_castsi256_si128(other), (const int*)p, low, _mm256_castsi256_si128(m), 4);
  const __m128i b = _mm256_mask_i64gather_epi32(_mm256_extracti128_si256(other, 1), high, low, _mm256_extracti128_si256(m, 1), 4);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}
//@ every_other
/// Lanes 0, 2, 4, 6 of a and 1, 3, 5, 7 of b, by one shuffle.
INLINE __m256i every_other(__m256i a, __m256i b) {
  return _mm256_permutevar8x32_epi32(_mm256_blend_epi32(a, b, 0xaa), _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0));
}
//@ gather_all
/// A full gather; strides 0, 1 and 2 known at compile time need none. Stride 2 reads p[0 … 14], nothing beyond.
INLINE __m256i gather_all(const void* p, int64_t stride) {
  const int32_t* q = (const int32_t*)p;
  if (__builtin_constant_p(stride) && stride == 0) return _mm256_set1_epi32(*q);
  if (__builtin_constant_p(stride) && stride == 1) return _mm256_loadu_si256((const __m256i*)q);
  if (__builtin_constant_p(stride) && stride == 2)
    return every_other(_mm256_loadu_si256((const __m256i*)q), _mm256_loadu_si256((const __m256i*)(q + 7)));
  // with a mask that it knows to be full, GCC leaves one gather's lanes in the next one's register, and each waits for the other
  __m256i all = _mm256_set1_epi32(-1);
  __asm__("" : "+x"(all));
  return gather_bits(p, stride, all, _mm256_setzero_si256());
}
//@ gather_n
/// The first n lanes of a gather, zeros behind. Stride 2 known at compile time reads p[0 … 2n − 2], nothing beyond.
INLINE __m256i gather_n(const void* p, int64_t stride, int n) {
  if (__builtin_constant_p(stride) && stride == 2) {
    const int* q = (const int*)p;
    const int words = n < 1 ? 0 : 2 * n - 1;
    const __m256i a = _mm256_maskload_epi32(q, (__m256i)lanes_in(0, words));
    return every_other(a, words > 7 ? _mm256_maskload_epi32(q + 7, (__m256i)lanes_in(0, words - 7)) : _mm256_setzero_si256());
  }
  return gather_bits(p, stride, (__m256i)lanes_in(0, n), _mm256_setzero_si256());
}
//@ gather_range
/// Lanes lo to hi - 1 of a gather, `other` elsewhere. Stride 2 known at compile time reads p[2 lo … 2 hi − 2], nothing beyond.
INLINE __m256i gather_range(const void* p, int64_t stride, int lo, int hi, __m256i other) {
  const __m256i m = (__m256i)lanes_in(lo, hi);
  if (__builtin_constant_p(stride) && stride == 2) {
    const int* q = (const int*)p;
    const int first = 2 * clamp_lanes(lo), last = 2 * clamp_lanes(hi) - 1;
    const __m256i a = _mm256_maskload_epi32(q, (__m256i)lanes_in(first, last));
    const __m256i b = _mm256_maskload_epi32(q + 7, (__m256i)lanes_in(first - 7, last - 7));
    return _mm256_blendv_epi8(other, every_other(a, b), m);
  }
  return gather_bits(p, stride, m, other);
}
//@ vf_gather_f32
INLINE vf vf_gather_f32(const float* p, int64_t stride) { return (vf)gather_all(p, stride); }
//@ vf_gather_f32_n
INLINE vf vf_gather_f32_n(const float* p, int64_t stride, int n) { return (vf)gather_n(p, stride, n); }
//@ vf_gather_f32_range
INLINE vf vf_gather_f32_range(const float* p, int64_t stride, int lo, int hi, float fill) {
  return (vf)gather_range(p, stride, lo, hi, (__m256i)vf_set(fill));
}
//@ vi_gather_s32
INLINE vi vi_gather_s32(const int32_t* p, int64_t stride) { return (vi)gather_all(p, stride); }
//@ vi_gather_s32_n
INLINE vi vi_gather_s32_n(const int32_t* p, int64_t stride, int n) { return (vi)gather_n(p, stride, n); }
//@ vi_gather_s32_range
INLINE vi vi_gather_s32_range(const int32_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  return (vi)gather_range(p, stride, lo, hi, (__m256i)vi_set(fill));
}

//@ vf_fma
INLINE vf vf_fma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
//@ vf_max
INLINE vf vf_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
//@ vf_min
INLINE vf vf_min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
//@ vi_max
INLINE vi vi_max(vi a, vi b) { return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b); }
//@ vi_min
INLINE vi vi_min(vi a, vi b) { return (vi)_mm256_min_epi32((__m256i)a, (__m256i)b); }
//@ vi_abs
INLINE vi vi_abs(vi a) { return (vi)_mm256_abs_epi32((__m256i)a); }
//@ vf_floor
INLINE vf vf_floor(vf a) { return (vf)_mm256_floor_ps((__m256)a); }
//@ vf_round
INLINE vf vf_round(vf a) { return (vf)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
//@ vf_sqrt
INLINE vf vf_sqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
//@ vf_select
INLINE vf vf_select(vi cond, vf a, vf b) { return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)cond); }
//@ vi_select
INLINE vi vi_select(vi cond, vi a, vi b) { return (vi)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)cond); }
//@ vi_from_vf_rne
INLINE vi vi_from_vf_rne(vf a) {  // the conversion gives INT32_MIN to all it cannot represent
  const vi r = (vi)_mm256_cvtps_epi32((__m256)a) & (vi)(a == a);
  return r ^ (vi)(a >= vf_set(2147483648.f));  // INT32_MIN -> INT32_MAX
}
//@ vf_from_vi
INLINE vf vf_from_vi(vi a) { return (vf)_mm256_cvtepi32_ps((__m256i)a); }

//@ fold_step
/// Blocks of `s` lanes from a and b in turn: each is two neighbouring blocks of its vector, combined.
template <int s, class V, class Op>
INLINE V fold_step(V a, V b, Op op) {
  if constexpr (s == 1)
    return op(__builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14), __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15));
  else if constexpr (s == 2)
    return op(__builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13), __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15));
  else
    return op(__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11), __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15));
}
//@ fold
/// All lanes combined by `op` in tree order: 4 apart, 2, 1.
template <class V, class Op>
INLINE V fold(V v, Op op) {
  v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  return op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
}

//@ vi_dpwssd
INLINE vi vi_dpwssd(vi acc, vi a, vi b) {
  vi products = (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#if !defined(__clang__)
  // GCC would gather the products of many steps before it adds any, and spill them
  __asm__("vpaddd %1, %0, %0" : "+v"(acc) : "v"(products));
  return acc;
#else
  return acc + products;
#endif
}
//@ dot_words
/// acc + the sums of products of the even and of the odd bytes, widened to 16 bits: no intermediate can overflow.
INLINE vi dot_words(vi acc, __m256i a_even, __m256i a_odd, __m256i b_even, __m256i b_odd) {
  const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(a_even, b_even), _mm256_madd_epi16(a_odd, b_odd));
  return (vi)_mm256_add_epi32((__m256i)acc, sum);
}
//@ even_signed
INLINE __m256i even_signed(vi v) { return _mm256_srai_epi16(_mm256_slli_epi16((__m256i)v, 8), 8); }
//@ odd_signed
INLINE __m256i odd_signed(vi v) { return _mm256_srai_epi16((__m256i)v, 8); }
//@ even_unsigned
INLINE __m256i even_unsigned(vi v) { return _mm256_and_si256((__m256i)v, _mm256_set1_epi16(255)); }
//@ odd_unsigned
INLINE __m256i odd_unsigned(vi v) { return _mm256_srli_epi16((__m256i)v, 8); }
//@ vi_dpbusd ? avxvnni
INLINE vi vi_dpbusd(vi acc, vi a, vi b) {
#if defined(__AVXVNNI__)
  return (vi)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
#else
  return dot_words(acc, even_unsigned(a), odd_unsigned(a), even_signed(b), odd_signed(b));
#endif
}
//@ vi_dpbssd ? avxvnni avxvnniint8
INLINE vi vi_dpbssd(vi acc, vi a, vi b) {
#if defined(__AVXVNNIINT8__)
  return (vi)_mm256_dpbssd_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
#elif defined(__AVXVNNI__)
  const vi offset = vi_set((int32_t)0x80808080);  // a + 128 is unsigned; 128 b is taken off again
  return vi_dpbusd(acc, a ^ offset, b) - vi_dpbusd(vi_set(0), offset, b);
#else
  return dot_words(acc, even_signed(a), odd_signed(a), even_signed(b), odd_signed(b));
#endif
}
//@ vi_dpbuud ? avxvnni avxvnniint8
INLINE vi vi_dpbuud(vi acc, vi a, vi b) {
#if defined(__AVXVNNIINT8__)
  return (vi)_mm256_dpbuud_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
#elif defined(__AVXVNNI__)
  const vi offset = vi_set((int32_t)0x80808080);  // b - 128 is signed; -128 a is taken off again
  return vi_dpbusd(acc, a, b ^ offset) - vi_dpbusd(vi_set(0), a, offset);
#else
  return dot_words(acc, even_unsigned(a), odd_unsigned(a), even_unsigned(b), odd_unsigned(b));
#endif
}

//@ two_of
/// Lane i: lane from[i] of a, or from kLanes on lane from[i] - kLanes of b.
INLINE vf two_of(vf a, vi from, vf b) {
  const __m256 of_a = _mm256_permutevar8x32_ps((__m256)a, (__m256i)from), of_b = _mm256_permutevar8x32_ps((__m256)b, (__m256i)from);
  return (vf)_mm256_blendv_ps(of_a, of_b, (__m256)(from << 28));  // the sign bit decides
}
//@ vf_transpose
/// In place: lane j of r[i] and lane i of r[j] change places. 24 shuffles: pairs of lanes, pairs of pairs, then halves.
INLINE void vf_transpose(vf* r) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps((__m256)r[i], (__m256)r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps((__m256)r[i], (__m256)r[i + 1]);
  }
  __m256 q[8];  // half g of q[4 i + j]: rows 4 i … 4 i + 3 of column 4 g + j
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    q[i] = (__m256)_mm256_unpacklo_pd((__m256d)t[i], (__m256d)t[i + 2]);
    q[i + 1] = (__m256)_mm256_unpackhi_pd((__m256d)t[i], (__m256d)t[i + 2]);
    q[i + 2] = (__m256)_mm256_unpacklo_pd((__m256d)t[i + 1], (__m256d)t[i + 3]);
    q[i + 3] = (__m256)_mm256_unpackhi_pd((__m256d)t[i + 1], (__m256d)t[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    r[j] = (vf)_mm256_permute2f128_ps(q[j], q[4 + j], 0x20);
    r[4 + j] = (vf)_mm256_permute2f128_ps(q[j], q[4 + j], 0x31);
  }
}
