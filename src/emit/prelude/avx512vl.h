// Vector primitives on 8 lanes with AVX-512's masks, shuffles of two vectors and 32 registers: for cores that take whole vectors in two
// passes, where rows end in half a vector. What is not here is avx2.h's. Base and semantics as of avx512.h.

//@ mask_n
INLINE __mmask8 mask_n(int n) { return (__mmask8)((1u << n) - 1u); }
//@ mask_range
INLINE __mmask8 mask_range(int lo, int hi) {
  if (__builtin_constant_p(lo) && __builtin_constant_p(hi)) {
    const int from = lo < 0 ? 0 : lo > 8 ? 8 : lo, to = hi < 0 ? 0 : hi > 8 ? 8 : hi;
    return (__mmask8)(((1u << to) - 1u) & ~((1u << from) - 1u));
  }
  const __m256i i = (__m256i)vi_iota();
  return _mm256_mask_cmplt_epi32_mask(_mm256_cmpge_epi32_mask(i, _mm256_set1_epi32(lo)), i, _mm256_set1_epi32(hi));
}

//@ vf_load_f32_n
INLINE vf vf_load_f32_n(const float* p, int n) {
  if (__builtin_constant_p(n) && n == 4) return (vf)_mm256_zextps128_ps256(_mm_loadu_ps(p));
  return (vf)_mm256_maskz_loadu_ps(mask_n(n), p);
}
//@ vf_load_f32_range
INLINE vf vf_load_f32_range(const float* p, int lo, int hi, float fill) {
  return (vf)_mm256_mask_loadu_ps(_mm256_set1_ps(fill), mask_range(lo, hi), p);
}
//@ vi_load_s32_n
INLINE vi vi_load_s32_n(const int32_t* p, int n) { return (vi)_mm256_maskz_loadu_epi32(mask_n(n), p); }
//@ vi_load_s32_range
INLINE vi vi_load_s32_range(const int32_t* p, int lo, int hi, int32_t fill) {
  return (vi)_mm256_mask_loadu_epi32(_mm256_set1_epi32(fill), mask_range(lo, hi), p);
}
//@ widen_bf16
INLINE __m256i widen_bf16(__m128i v) { return _mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16); }
//@ vf_load_bf16_n
INLINE vf vf_load_bf16_n(const uint16_t* p, int n) { return (vf)widen_bf16(_mm_maskz_loadu_epi16(mask_n(n), p)); }
//@ vf_load_bf16_range
INLINE vf vf_load_bf16_range(const uint16_t* p, int lo, int hi, float fill) {
  const __mmask8 m = mask_range(lo, hi);
  return (vf)_mm256_mask_mov_epi32((__m256i)_mm256_set1_ps(fill), m, widen_bf16(_mm_maskz_loadu_epi16(m, p)));
}
//@ vf_load_f16_n
INLINE vf vf_load_f16_n(const uint16_t* p, int n) { return (vf)_mm256_cvtph_ps(_mm_maskz_loadu_epi16(mask_n(n), p)); }
//@ vf_load_f16_range
INLINE vf vf_load_f16_range(const uint16_t* p, int lo, int hi, float fill) {
  const __mmask8 m = mask_range(lo, hi);
  return (vf)_mm256_mask_cvtph_ps(_mm256_set1_ps(fill), m, _mm_maskz_loadu_epi16(m, p));
}
//@ eight_bytes
/// A load by itself: of one that is extended and masked GCC 12 makes an instruction that it cannot emit ("could not split insn").
INLINE __m128i eight_bytes(const void* p) {
  __m128i bytes = _mm_loadl_epi64((const __m128i*)p);
#if !defined(__clang__)
  __asm__("" : "+v"(bytes));
#endif
  return bytes;
}
//@ vi_load_s8
INLINE vi vi_load_s8(const int8_t* p) { return (vi)_mm256_cvtepi8_epi32(eight_bytes(p)); }
//@ vi_load_u8
INLINE vi vi_load_u8(const uint8_t* p) { return (vi)_mm256_cvtepu8_epi32(eight_bytes(p)); }
//@ vi_load_s8_n
INLINE vi vi_load_s8_n(const int8_t* p, int n) { return (vi)_mm256_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask_n(n), p)); }
//@ vi_load_s8_range
INLINE vi vi_load_s8_range(const int8_t* p, int lo, int hi, int32_t fill) {
  const __mmask8 m = mask_range(lo, hi);
  return (vi)_mm256_mask_cvtepi8_epi32(_mm256_set1_epi32(fill), m, _mm_maskz_loadu_epi8(m, p));
}
//@ vi_load_u8_n
INLINE vi vi_load_u8_n(const uint8_t* p, int n) { return (vi)_mm256_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask_n(n), p)); }
//@ vi_load_u8_range
INLINE vi vi_load_u8_range(const uint8_t* p, int lo, int hi, int32_t fill) {
  const __mmask8 m = mask_range(lo, hi);
  return (vi)_mm256_mask_cvtepu8_epi32(_mm256_set1_epi32(fill), m, _mm_maskz_loadu_epi8(m, p));
}
//@ vi_load_s16_range
INLINE vi vi_load_s16_range(const int16_t* p, int lo, int hi, int32_t fill) {
  const __mmask8 m = mask_range(lo, hi);
  return (vi)_mm256_mask_cvtepi16_epi32(_mm256_set1_epi32(fill), m, _mm_maskz_loadu_epi16(m, p));
}

//@ gather_bits
/// Lanes of 32 bits at p[i * stride] where the mask is set, `other` elsewhere.
INLINE __m256i gather_bits(const void* p, int64_t stride, __mmask8 m, __m256i other) {
  const __m256i iota = (__m256i)vi_iota();
  if (stride >= -(1 << 28) && stride < (1 << 28))  // the largest index fits 32 bits
    return _mm256_mmask_i32gather_epi32(other, m, _mm256_mullo_epi32(iota, _mm256_set1_epi32((int)stride)), p, 4);
  const __m512i at = _mm512_mullo_epi64(_mm512_cvtepi32_epi64(iota), _mm512_set1_epi64(stride));
  return _mm512_mask_i64gather_epi32(other, m, at, p, 4);
}
//@ even_words
/// Words 0, 2 … 14 of the 15 that begin with `low` and end with `high`: the 8th is in both.
INLINE __m256i even_words(__m256i low, __m256i high) {
  return _mm256_permutex2var_epi32(low, _mm256_set_epi32(15, 13, 11, 9, 6, 4, 2, 0), high);
}
//@ gather_all
/// A full gather; strides 0, 1 and 2 known at compile time need none. Stride 2 reads p[0 … 14], nothing beyond.
INLINE __m256i gather_all(const void* p, int64_t stride) {
  const int32_t* q = (const int32_t*)p;
  if (__builtin_constant_p(stride) && stride == 0) return _mm256_set1_epi32(*q);
  if (__builtin_constant_p(stride) && stride == 1) return _mm256_loadu_si256((const __m256i*)q);
  if (__builtin_constant_p(stride) && stride == 2)
    return even_words(_mm256_loadu_si256((const __m256i*)q), _mm256_loadu_si256((const __m256i*)(q + 7)));
  // with a mask that it knows to be full, GCC leaves one gather's lanes in the next one's register, and each waits for the other
  __mmask8 all = 0xff;
  __asm__("" : "+k"(all));
  return gather_bits(p, stride, all, _mm256_setzero_si256());
}
//@ gather_n
/// The first n lanes of a gather, zeros behind. Stride 2 known at compile time reads p[0 … 2n − 2], nothing beyond.
INLINE __m256i gather_n(const void* p, int64_t stride, int n) {
  if (__builtin_constant_p(stride) && stride == 2) {
    const int32_t* q = (const int32_t*)p;
    const int words = n < 1 ? 0 : 2 * n - 1;
    const __m256i low = _mm256_maskz_loadu_epi32(mask_n(words < 8 ? words : 8), q);
    return even_words(low, words > 7 ? _mm256_maskz_loadu_epi32(mask_n(words - 7), q + 7) : _mm256_setzero_si256());
  }
  return gather_bits(p, stride, mask_n(n), _mm256_setzero_si256());
}
//@ gather_range
/// Lanes lo to hi - 1 of a gather, `other` elsewhere. Stride 2 known at compile time reads p[2 lo … 2 hi − 2], nothing beyond.
INLINE __m256i gather_range(const void* p, int64_t stride, int lo, int hi, __m256i other) {
  const __mmask8 m = mask_range(lo, hi);
  if (__builtin_constant_p(stride) && stride == 2) {
    const int32_t* q = (const int32_t*)p;
    const int first = 2 * clamp_lanes(lo), last = 2 * clamp_lanes(hi) - 1;
    const __m256i low = _mm256_maskz_loadu_epi32(mask_range(first, last), q);
    const __m256i high = _mm256_maskz_loadu_epi32(mask_range(first - 7, last - 7), q + 7);
    return _mm256_mask_blend_epi32(m, other, even_words(low, high));
  }
  return gather_bits(p, stride, m, other);
}

//@ vf_store_f32_n
/// Without a mask where that can be: loads of what a masked store wrote wait until it is in the first cache.
INLINE void vf_store_f32_n(float* p, vf v, int n) {
  if (__builtin_constant_p(n) && n == 4) return _mm_storeu_ps(p, _mm256_castps256_ps128((__m256)v));
  if (__builtin_constant_p(n) && n == 1) return (void)(*p = v[0]);
  _mm256_mask_storeu_ps(p, mask_n(n), (__m256)v);
}
//@ vi_store_s32_n
INLINE void vi_store_s32_n(int32_t* p, vi v, int n) { _mm256_mask_storeu_epi32(p, mask_n(n), (__m256i)v); }
//@ narrow_bf16 ? avx512bf16
INLINE __m128i narrow_bf16(vf v) {
#if defined(__AVX512BF16__)
  return (__m128i)_mm256_cvtneps_pbh((__m256)v);  // subnormals become zero
#else
  return _mm256_cvtepi32_epi16((__m256i)(bits_bf16(v) >> 16));
#endif
}
//@ vf_store_bf16
INLINE void vf_store_bf16(uint16_t* p, vf v) { _mm_storeu_si128((__m128i*)p, narrow_bf16(v)); }
//@ vf_store_bf16_n
INLINE void vf_store_bf16_n(uint16_t* p, vf v, int n) { _mm_mask_storeu_epi16(p, mask_n(n), narrow_bf16(v)); }
//@ vf_store_f16_n
INLINE void vf_store_f16_n(uint16_t* p, vf v, int n) { _mm_mask_storeu_epi16(p, mask_n(n), narrow_f16(v)); }
//@ vi_load_bytes_n
/// The first `bytes` bytes at p, then zeros; nothing else is read.
INLINE vi vi_load_bytes_n(const void* p, int bytes) {
  const uint32_t mask = ((uint32_t)(bytes < 32) << (bytes & 31)) - 1;
  return (vi)_mm256_maskz_loadu_epi8(mask, p);
}
//@ vi_store_s16
INLINE void vi_store_s16(int16_t* p, vi v) { _mm_storeu_si128((__m128i*)p, _mm256_cvtsepi32_epi16((__m256i)v)); }
//@ vi_store_s8
INLINE void vi_store_s8(int8_t* p, vi v) { _mm_storel_epi64((__m128i*)p, _mm256_cvtsepi32_epi8((__m256i)v)); }
//@ vi_store_s8_n
INLINE void vi_store_s8_n(int8_t* p, vi v, int n) { _mm_mask_storeu_epi8(p, mask_n(n), _mm256_cvtsepi32_epi8((__m256i)v)); }
//@ narrow_u8
INLINE __m128i narrow_u8(vi v) { return _mm256_cvtusepi32_epi8(_mm256_max_epi32((__m256i)v, _mm256_setzero_si256())); }
//@ vi_store_u8
INLINE void vi_store_u8(uint8_t* p, vi v) { _mm_storel_epi64((__m128i*)p, narrow_u8(v)); }
//@ vi_store_u8_n
INLINE void vi_store_u8_n(uint8_t* p, vi v, int n) { _mm_mask_storeu_epi8(p, mask_n(n), narrow_u8(v)); }
//@ scatter_bits
INLINE void scatter_bits(void* p, int64_t stride, vi x, __mmask8 m) {
  const __m256i v = (__m256i)x, iota = (__m256i)vi_iota();
  if (stride >= -(1 << 28) && stride < (1 << 28))
    return _mm256_mask_i32scatter_epi32(p, m, _mm256_mullo_epi32(iota, _mm256_set1_epi32((int)stride)), v, 4);
  _mm512_mask_i64scatter_epi32(p, m, _mm512_mullo_epi64(_mm512_cvtepi32_epi64(iota), _mm512_set1_epi64(stride)), v, 4);
}
//@ reciprocal_14
/// 1 / x within 2^-14.
INLINE vf reciprocal_14(vf x) { return (vf)_mm256_rcp14_ps((__m256)x); }
//@ times_power
/// x 2^n, also where that is no normal float.
INLINE vf times_power(vf x, vf n) { return (vf)_mm256_scalef_ps((__m256)x, (__m256)n); }
//@ at_most
/// x, or `bound` with x's sign where x is larger.
INLINE vf at_most(vf x, float bound) { return (vf)_mm256_range_ps((__m256)x, _mm256_set1_ps(bound), 2); }
//@ one_of_16
/// table[i mod 16]
INLINE vf one_of_16(const float* table, vi i) {
  return (vf)_mm256_permutex2var_ps(_mm256_load_ps(table), (__m256i)i, _mm256_load_ps(table + 8));
}
//@ split_exponent
/// x = m 2^e with 0.75 <= m < 1.5 for x > 0; e is infinite with x, -infinite for zero. x < 0 gives NaN.
INLINE mantissa_exponent split_exponent(vf x) {
  const __m256 m = _mm256_getmant_ps((__m256)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  return {(vf)m, (vf)_mm256_sub_ps(_mm256_getexp_ps((__m256)x), _mm256_getexp_ps(m))};
}
//@ products_bf16
#if defined(__AVX512BF16__)
INLINE vf products_bf16(vf acc, vi a, vi b) { return (vf)_mm256_dpbf16_ps((__m256)acc, (__m256bh)a, (__m256bh)b); }
#endif
//@ products_bytes
#if defined(__AVX512VNNI__)
INLINE vi products_bytes(vi acc, vi a, vi b) { return (vi)_mm256_dpbusd_epi32((__m256i)acc, (__m256i)a, (__m256i)b); }
#endif
//@ two_of
/// Lane i: lane from[i] of a, or from kLanes on lane from[i] - kLanes of b.
INLINE vf two_of(vf a, vi from, vf b) { return (vf)_mm256_permutex2var_ps((__m256)a, (__m256i)from, (__m256)b); }
