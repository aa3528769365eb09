// Vector primitives on 16 lanes. Base: AVX-512 F, BW, DQ, VL with AVX2, FMA and F16C. `#if` picks up AVX512-BF16 and -VNNI.
// Inactive lanes cost a mask, never a branch, and a masked-off lane touches no memory. Semantics: docs/numerics.md.

//@ @preamble
#include <immintrin.h>
typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));

//@ kLanes
constexpr int kLanes = 16;
//@ vf_set
INLINE vf vf_set(float x) { return (vf)_mm512_set1_ps(x); }
//@ vi_set
INLINE vi vi_set(int32_t x) { return (vi)_mm512_set1_epi32(x); }
//@ vi_iota
INLINE vi vi_iota() { return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
//@ mask_n
INLINE __mmask16 mask_n(int n) { return (__mmask16)((1u << n) - 1u); }
//@ mask_range
INLINE __mmask16 mask_range(int lo, int hi) {
  if (__builtin_constant_p(lo) && __builtin_constant_p(hi)) {
    const int from = lo < 0 ? 0 : lo > 16 ? 16 : lo, to = hi < 0 ? 0 : hi > 16 ? 16 : hi;
    return (__mmask16)(((1u << to) - 1u) & ~((1u << from) - 1u));
  }
  const __m512i i = (__m512i)vi_iota();
  return _mm512_mask_cmplt_epi32_mask(_mm512_cmpge_epi32_mask(i, _mm512_set1_epi32(lo)), i, _mm512_set1_epi32(hi));
}

//@ vf_load_f32
INLINE vf vf_load_f32(const float* p) { return (vf)_mm512_loadu_ps(p); }
//@ vf_load_f32_n
INLINE vf vf_load_f32_n(const float* p, int n) {
  if (__builtin_constant_p(n) && n == 8) return (vf)_mm512_zextps256_ps512(_mm256_loadu_ps(p));
  if (__builtin_constant_p(n) && n == 4) return (vf)_mm512_zextps128_ps512(_mm_loadu_ps(p));
  return (vf)_mm512_maskz_loadu_ps(mask_n(n), p);
}
//@ vf_load_f32_range
INLINE vf vf_load_f32_range(const float* p, int lo, int hi, float fill) {
  return (vf)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), mask_range(lo, hi), p);
}
//@ widen_bf16
INLINE __m512i widen_bf16(__m256i v) { return _mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16); }
//@ vf_load_bf16
INLINE vf vf_load_bf16(const uint16_t* p) { return (vf)widen_bf16(_mm256_loadu_si256((const __m256i*)p)); }
//@ vf_load_bf16_n
INLINE vf vf_load_bf16_n(const uint16_t* p, int n) { return (vf)widen_bf16(_mm256_maskz_loadu_epi16(mask_n(n), p)); }
//@ vf_load_bf16_range
INLINE vf vf_load_bf16_range(const uint16_t* p, int lo, int hi, float fill) {
  const __mmask16 m = mask_range(lo, hi);
  return (vf)_mm512_mask_mov_epi32((__m512i)_mm512_set1_ps(fill), m, widen_bf16(_mm256_maskz_loadu_epi16(m, p)));
}
//@ vf_load_f16
INLINE vf vf_load_f16(const uint16_t* p) { return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
//@ vf_bcast_f16
INLINE vf vf_bcast_f16(const uint16_t* p) { return (vf)_mm512_cvtph_ps(_mm256_set1_epi16((short)*p)); }
//@ vf_load_f16_n
INLINE vf vf_load_f16_n(const uint16_t* p, int n) { return (vf)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask_n(n), p)); }
//@ vf_load_f16_range
INLINE vf vf_load_f16_range(const uint16_t* p, int lo, int hi, float fill) {
  const __mmask16 m = mask_range(lo, hi);
  return (vf)_mm512_mask_cvtph_ps(_mm512_set1_ps(fill), m, _mm256_maskz_loadu_epi16(m, p));
}
//@ vi_load_s32
INLINE vi vi_load_s32(const int32_t* p) { return (vi)_mm512_loadu_si512(p); }
//@ vi_load_s32_n
INLINE vi vi_load_s32_n(const int32_t* p, int n) { return (vi)_mm512_maskz_loadu_epi32(mask_n(n), p); }
//@ vi_load_s32_range
INLINE vi vi_load_s32_range(const int32_t* p, int lo, int hi, int32_t fill) {
  return (vi)_mm512_mask_loadu_epi32(_mm512_set1_epi32(fill), mask_range(lo, hi), p);
}
//@ vi_load_s8
INLINE vi vi_load_s8(const int8_t* p) { return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)); }
//@ vi_load_s16
INLINE vi vi_load_s16(const int16_t* p) { return (vi)_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i*)p)); }
//@ vi_load_s8_n
INLINE vi vi_load_s8_n(const int8_t* p, int n) { return (vi)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask_n(n), p)); }
//@ vi_load_s8_range
INLINE vi vi_load_s8_range(const int8_t* p, int lo, int hi, int32_t fill) {
  const __mmask16 m = mask_range(lo, hi);
  return (vi)_mm512_mask_cvtepi8_epi32(_mm512_set1_epi32(fill), m, _mm_maskz_loadu_epi8(m, p));
}
//@ vi_load_s16_range
INLINE vi vi_load_s16_range(const int16_t* p, int lo, int hi, int32_t fill) {
  const __mmask16 m = mask_range(lo, hi);
  return (vi)_mm512_mask_cvtepi16_epi32(_mm512_set1_epi32(fill), m, _mm256_maskz_loadu_epi16(m, p));
}
//@ vi_load_u8
INLINE vi vi_load_u8(const uint8_t* p) { return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)); }
//@ vi_load_u8_n
INLINE vi vi_load_u8_n(const uint8_t* p, int n) { return (vi)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask_n(n), p)); }
//@ vi_load_u8_range
INLINE vi vi_load_u8_range(const uint8_t* p, int lo, int hi, int32_t fill) {
  const __mmask16 m = mask_range(lo, hi);
  return (vi)_mm512_mask_cvtepu8_epi32(_mm512_set1_epi32(fill), m, _mm_maskz_loadu_epi8(m, p));
}

//@ every_other
/// Bit i of eight bits becomes bit 2 i.
INLINE unsigned every_other(unsigned m) {
  m = (m | m << 4) & 0x0f0f;
  m = (m | m << 2) & 0x3333;
  return (m | m << 1) & 0x5555;
}
//@ gather_bits
/// Lanes of 32 bits at p[i * stride] where the mask is set, `other` elsewhere.
INLINE __m512i gather_bits(const void* p, int64_t stride, __mmask16 m, __m512i other) {
  if (__builtin_constant_p(stride) && stride == 2) {  // two masked loads; lane i < 8 is element 2 i of the first
    const __m512i even = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i low = _mm512_maskz_loadu_epi32((__mmask16)every_other(m & 0xff), p);
    const __m512i high = _mm512_maskz_loadu_epi32((__mmask16)(every_other(m >> 8) << 1), (const int32_t*)p + 15);
    return _mm512_mask_blend_epi32(m, other, _mm512_permutex2var_epi32(low, even, high));
  }
  const __m512i iota = (__m512i)vi_iota();
  if (stride >= -(1 << 27) && stride < (1 << 27))  // the largest index fits 32 bits
    return _mm512_mask_i32gather_epi32(other, m, _mm512_mullo_epi32(iota, _mm512_set1_epi32((int)stride)), p, 4);
  const __m512i step = _mm512_set1_epi64(stride);
  const __m512i low = _mm512_mullo_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(iota)), step);
  const __m512i high = _mm512_mullo_epi64(_mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(iota, 1)), step);
  const __m256i a = _mm512_mask_i64gather_epi32(_mm512_castsi512_si256(other), (__mmask8)m, low, p, 4);
  const __m256i b = _mm512_mask_i64gather_epi32(_mm512_extracti64x4_epi64(other, 1), (__mmask8)(m >> 8), high, p, 4);
  return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}
//@ even_words
/// Words 0, 2 … 30 of the 31 that begin with `low` and end with `high`: the 16th is in both.
INLINE __m512i even_words(__m512i low, __m512i high) {
  return _mm512_permutex2var_epi32(low, _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 14, 12, 10, 8, 6, 4, 2, 0), high);
}
//@ gather_all
/// A full gather; strides 0, 1 and 2 known at compile time need none. Stride 2 reads p[0 … 30], nothing beyond.
INLINE __m512i gather_all(const void* p, int64_t stride) {
  const int32_t* q = (const int32_t*)p;
  if (__builtin_constant_p(stride) && stride == 0) return _mm512_set1_epi32(*q);
  if (__builtin_constant_p(stride) && stride == 1) return _mm512_loadu_si512(q);
  if (__builtin_constant_p(stride) && stride == 2) return even_words(_mm512_loadu_si512(q), _mm512_loadu_si512(q + 15));
  // with a mask that it knows to be full, GCC leaves one gather's lanes in the next one's register, and each waits for the other
  __mmask16 all = 0xffff;
#if defined(__AVX512F__)
  __asm__("" : "+k"(all));
#endif
  return gather_bits(p, stride, all, _mm512_setzero_si512());
}
//@ gather_n
/// The first n lanes of a gather, zeros behind. Stride 2 known at compile time reads p[0 … 2n − 2], nothing beyond.
INLINE __m512i gather_n(const void* p, int64_t stride, int n) {
  if (__builtin_constant_p(stride) && stride == 2) {
    const int32_t* q = (const int32_t*)p;
    const int words = n < 1 ? 0 : 2 * n - 1;
    const __m512i low = _mm512_maskz_loadu_epi32(mask_n(words < 16 ? words : 16), q);
    const __m512i high = words > 15 ? _mm512_maskz_loadu_epi32(mask_n(words - 15), q + 15) : _mm512_setzero_si512();
    return even_words(low, high);
  }
  return gather_bits(p, stride, mask_n(n), _mm512_setzero_si512());
}
//@ vf_gather_f32
INLINE vf vf_gather_f32(const float* p, int64_t stride) { return (vf)gather_all(p, stride); }
//@ vf_gather_f32_n
INLINE vf vf_gather_f32_n(const float* p, int64_t stride, int n) { return (vf)gather_n(p, stride, n); }
//@ vf_gather_f32_range
INLINE vf vf_gather_f32_range(const float* p, int64_t stride, int lo, int hi, float fill) {
  return (vf)gather_bits(p, stride, mask_range(lo, hi), (__m512i)_mm512_set1_ps(fill));
}
//@ vi_gather_s32
INLINE vi vi_gather_s32(const int32_t* p, int64_t stride) { return (vi)gather_all(p, stride); }
//@ vi_gather_s32_n
INLINE vi vi_gather_s32_n(const int32_t* p, int64_t stride, int n) { return (vi)gather_n(p, stride, n); }
//@ vi_gather_s32_range
INLINE vi vi_gather_s32_range(const int32_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  return (vi)gather_bits(p, stride, mask_range(lo, hi), _mm512_set1_epi32(fill));
}

//@ vf_store_f32
INLINE void vf_store_f32(float* p, vf v) { _mm512_storeu_ps(p, (__m512)v); }
//@ vf_store_f32_n
/// Without a mask where that can be: loads of what a masked store wrote wait until it is in the first cache.
INLINE void vf_store_f32_n(float* p, vf v, int n) {
  if (__builtin_constant_p(n) && n == 8) return _mm256_storeu_ps(p, _mm512_castps512_ps256((__m512)v));
  if (__builtin_constant_p(n) && n == 4) return _mm_storeu_ps(p, _mm512_castps512_ps128((__m512)v));
  if (__builtin_constant_p(n) && n == 1) return (void)(*p = v[0]);
  _mm512_mask_storeu_ps(p, mask_n(n), (__m512)v);
}
//@ vf_stream_f32
/// Past the caches where p is aligned to the vector. `stream_fence` before another thread reads.
INLINE void vf_stream_f32(float* p, vf v) { (uintptr_t) p % 64 ? _mm512_storeu_ps(p, (__m512)v) : _mm512_stream_ps(p, (__m512)v); }
//@ stream_fence
INLINE void stream_fence() { _mm_sfence(); }
//@ narrow_bf16 ? avx512bf16
INLINE __m256i narrow_bf16(vf v) {
#if defined(__AVX512BF16__)
  return (__m256i)_mm512_cvtneps_pbh((__m512)v);  // subnormals become zero
#else
  const __m512i u = (__m512i)v;
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
  const __m512i bits = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
#endif
}
//@ vf_store_bf16
INLINE void vf_store_bf16(uint16_t* p, vf v) { _mm256_storeu_si256((__m256i*)p, narrow_bf16(v)); }
//@ vf_store_bf16_n
INLINE void vf_store_bf16_n(uint16_t* p, vf v, int n) { _mm256_mask_storeu_epi16(p, mask_n(n), narrow_bf16(v)); }
//@ narrow_f16
INLINE __m256i narrow_f16(vf v) { return _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
//@ vf_store_f16
INLINE void vf_store_f16(uint16_t* p, vf v) { _mm256_storeu_si256((__m256i*)p, narrow_f16(v)); }
//@ vf_store_f16_n
INLINE void vf_store_f16_n(uint16_t* p, vf v, int n) { _mm256_mask_storeu_epi16(p, mask_n(n), narrow_f16(v)); }
//@ vf_round_f16
INLINE vf vf_round_f16(vf v) { return (vf)_mm512_cvtph_ps(narrow_f16(v)); }
//@ vi_load_bytes_n
/// The first `bytes` bytes at p, then zeros; nothing else is read.
INLINE vi vi_load_bytes_n(const void* p, int bytes) {
  const uint64_t mask = ((uint64_t)(bytes < 64) << (bytes & 63)) - 1;
  return (vi)_mm512_maskz_loadu_epi8(mask, p);
}
//@ vi_store_s32
INLINE void vi_store_s32(int32_t* p, vi v) { _mm512_storeu_si512(p, (__m512i)v); }
//@ vi_store_s32_n
INLINE void vi_store_s32_n(int32_t* p, vi v, int n) { _mm512_mask_storeu_epi32(p, mask_n(n), (__m512i)v); }
//@ vi_store_s8
INLINE void vi_store_s8(int8_t* p, vi v) { _mm_storeu_si128((__m128i*)p, _mm512_cvtsepi32_epi8((__m512i)v)); }
//@ vi_store_s16
INLINE void vi_store_s16(int16_t* p, vi v) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtsepi32_epi16((__m512i)v)); }
//@ vi_store_s8_n
INLINE void vi_store_s8_n(int8_t* p, vi v, int n) { _mm_mask_storeu_epi8(p, mask_n(n), _mm512_cvtsepi32_epi8((__m512i)v)); }
//@ narrow_u8
INLINE __m128i narrow_u8(vi v) { return _mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)v, _mm512_setzero_si512())); }
//@ vi_store_u8
INLINE void vi_store_u8(uint8_t* p, vi v) { _mm_storeu_si128((__m128i*)p, narrow_u8(v)); }
//@ vi_store_u8_n
INLINE void vi_store_u8_n(uint8_t* p, vi v, int n) { _mm_mask_storeu_epi8(p, mask_n(n), narrow_u8(v)); }

//@ scatter_bits
INLINE void scatter_bits(void* p, int64_t stride, vi x, __mmask16 m) {
  const __m512i v = (__m512i)x, iota = (__m512i)vi_iota();
  if (stride >= -(1 << 27) && stride < (1 << 27))
    return _mm512_mask_i32scatter_epi32(p, m, _mm512_mullo_epi32(iota, _mm512_set1_epi32((int)stride)), v, 4);
  const __m512i step = _mm512_set1_epi64(stride);
  const __m512i low = _mm512_mullo_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(iota)), step);
  const __m512i high = _mm512_mullo_epi64(_mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(iota, 1)), step);
  _mm512_mask_i64scatter_epi32(p, (__mmask8)m, low, _mm512_castsi512_si256(v), 4);
  _mm512_mask_i64scatter_epi32(p, (__mmask8)(m >> 8), high, _mm512_extracti64x4_epi64(v, 1), 4);
}
//@ vf_fma
INLINE vf vf_fma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
//@ vf_max
INLINE vf vf_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
//@ vf_min
INLINE vf vf_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
//@ vi_max
INLINE vi vi_max(vi a, vi b) { return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b); }
//@ vi_min
INLINE vi vi_min(vi a, vi b) { return (vi)_mm512_min_epi32((__m512i)a, (__m512i)b); }
//@ vf_abs
INLINE vf vf_abs(vf a) { return (vf)_mm512_abs_ps((__m512)a); }
//@ vi_abs
INLINE vi vi_abs(vi a) { return (vi)_mm512_abs_epi32((__m512i)a); }
//@ vf_floor
INLINE vf vf_floor(vf a) { return (vf)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
//@ vf_round
INLINE vf vf_round(vf a) { return (vf)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
//@ vf_sqrt
INLINE vf vf_sqrt(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
//@ vi_from_vf_rne
INLINE vi vi_from_vf_rne(vf a) {
  const __m512 x = (__m512)a;  // the conversion gives INT32_MIN to all it cannot represent
  const __m512i r = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x);
  return (vi)_mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(x, _mm512_set1_ps(2147483648.f), _CMP_GE_OQ), _mm512_set1_epi32(INT32_MAX));
}
//@ vf_from_vi
INLINE vf vf_from_vi(vi a) { return (vf)_mm512_cvtepi32_ps((__m512i)a); }

//@ reciprocal_14
/// 1 / x within 2^-14.
INLINE vf reciprocal_14(vf x) { return (vf)_mm512_rcp14_ps((__m512)x); }
//@ times_power
/// x 2^n, also where that is no normal float.
INLINE vf times_power(vf x, vf n) { return (vf)_mm512_scalef_ps((__m512)x, (__m512)n); }
//@ at_most
/// x, or `bound` with x's sign where x is larger.
INLINE vf at_most(vf x, float bound) { return (vf)_mm512_range_ps((__m512)x, _mm512_set1_ps(bound), 2); }
//@ one_of_16
/// table[i mod 16]
INLINE vf one_of_16(const float* table, vi i) { return (vf)_mm512_permutexvar_ps((__m512i)i, _mm512_load_ps(table)); }
//@ split_exponent
/// x = m 2^e with 0.75 <= m < 1.5 for x > 0; e is infinite with x, -infinite for zero. x < 0 gives NaN.
INLINE mantissa_exponent split_exponent(vf x) {
  const __m512 m = _mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  return {(vf)m, (vf)_mm512_sub_ps(_mm512_getexp_ps((__m512)x), _mm512_getexp_ps(m))};
}
//@ fold_step
/// Blocks of `s` lanes from a and b in turn: each is two neighbouring blocks of its vector, combined.
template <int s, class V, class Op>
INLINE V fold_step(V a, V b, Op op) {
  if constexpr (s == 1)
    return op(__builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
              __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31));
  else if constexpr (s == 2)
    return op(__builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
              __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31));
  else if constexpr (s == 4)
    return op(__builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
              __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31));
  else
    return op(__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
              __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
}
//@ fold
/// All lanes combined by `op` in tree order: 8 apart, 4, 2, 1.
template <class V, class Op>
INLINE V fold(V v, Op op) {
  v = op(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
}

//@ products_bf16
#if defined(__AVX512BF16__)
INLINE vf products_bf16(vf acc, vi a, vi b) { return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b); }
#endif
//@ dot_words
/// acc + the sums of products of the even and of the odd bytes, widened to 16 bits: no intermediate can overflow.
INLINE vi dot_words(vi acc, __m512i a_even, __m512i a_odd, __m512i b_even, __m512i b_odd) {
  const __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(a_even, b_even), _mm512_madd_epi16(a_odd, b_odd));
  return (vi)_mm512_add_epi32((__m512i)acc, sum);
}
//@ even_signed
INLINE __m512i even_signed(vi v) { return _mm512_srai_epi16(_mm512_slli_epi16((__m512i)v, 8), 8); }
//@ odd_signed
INLINE __m512i odd_signed(vi v) { return _mm512_srai_epi16((__m512i)v, 8); }
//@ even_unsigned
INLINE __m512i even_unsigned(vi v) { return _mm512_and_si512((__m512i)v, _mm512_set1_epi16(255)); }
//@ odd_unsigned
INLINE __m512i odd_unsigned(vi v) { return _mm512_srli_epi16((__m512i)v, 8); }
//@ vi_dpwssd
INLINE vi vi_dpwssd(vi acc, vi a, vi b) {
  vi products = (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#if !defined(__clang__)
  // GCC would gather the products of many steps before it adds any, and spill them
  __asm__("vpaddd %1, %0, %0" : "+v"(acc) : "v"(products));
  return acc;
#else
  return acc + products;
#endif
}
//@ products_bytes
#if defined(__AVX512VNNI__)
INLINE vi products_bytes(vi acc, vi a, vi b) { return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)b); }
#endif
//@ two_of
/// Lane i: lane from[i] of a, or from kLanes on lane from[i] - kLanes of b.
INLINE vf two_of(vf a, vi from, vf b) { return (vf)_mm512_permutex2var_ps((__m512)a, (__m512i)from, (__m512)b); }
//@ vf_transpose
/// In place: lane j of r[i] and lane i of r[j] change places. 64 shuffles: pairs of lanes, pairs of pairs, then quarters.
INLINE void vf_transpose(vf* r) {
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps((__m512)r[i], (__m512)r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps((__m512)r[i], (__m512)r[i + 1]);
  }
  __m512 q[16];  // quarter g of q[4 i + j]: rows 4 i … 4 i + 3 of column 4 g + j
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    q[i] = (__m512)_mm512_unpacklo_pd((__m512d)t[i], (__m512d)t[i + 2]);
    q[i + 1] = (__m512)_mm512_unpackhi_pd((__m512d)t[i], (__m512d)t[i + 2]);
    q[i + 2] = (__m512)_mm512_unpacklo_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
    q[i + 3] = (__m512)_mm512_unpackhi_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 a = _mm512_shuffle_f32x4(q[j], q[4 + j], 0x88), b = _mm512_shuffle_f32x4(q[8 + j], q[12 + j], 0x88);
    const __m512 c = _mm512_shuffle_f32x4(q[j], q[4 + j], 0xdd), d = _mm512_shuffle_f32x4(q[8 + j], q[12 + j], 0xdd);
    r[j] = (vf)_mm512_shuffle_f32x4(a, b, 0x88);
    r[4 + j] = (vf)_mm512_shuffle_f32x4(c, d, 0x88);
    r[8 + j] = (vf)_mm512_shuffle_f32x4(a, b, 0xdd);
    r[12 + j] = (vf)_mm512_shuffle_f32x4(c, d, 0xdd);
  }
}
