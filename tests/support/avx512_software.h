// AVX-512 as the prelude of 16 lanes uses it, in plain C++: included before a kernel where the machine has no such unit, so that its plans
// and those of AMX are executed anywhere. Of the intrinsics it is the manual's semantics, lane by lane (Intel 64 and IA-32 Architectures
// Software Developer's Manual, vol. 2).
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace avx512_software {

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t s32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef int64_t s64x8 __attribute__((vector_size(64)));
typedef int16_t s16x32 __attribute__((vector_size(64)));
typedef int16_t s16x16 __attribute__((vector_size(32)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef int32_t s32x8 __attribute__((vector_size(32)));
typedef int8_t s8x16 __attribute__((vector_size(16)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));

template <class V, class F>
inline V lanes(F f) {
  V v{};
  for (size_t i = 0; i < sizeof(V) / sizeof(v[0]); ++i) v[i] = f(int(i));
  return v;
}
inline f32x16 f(__m512 v) { return (f32x16)v; }
inline s32x16 i(__m512i v) { return (s32x16)v; }
template <class F>
inline __m512 floats(F lane) {
  return (__m512)lanes<f32x16>(lane);
}
template <class F>
inline __m512i ints(F lane) {
  return (__m512i)lanes<s32x16>(lane);
}
/// Lanes of type T at p where the mask is set, else those of `other`; nothing else is read.
template <class V>
inline V masked(V other, uint64_t mask, const void* p) {
  const size_t size = sizeof(other[0]);
  for (size_t l = 0; l < sizeof(V) / size; ++l)
    if (mask >> l & 1) memcpy((char*)&other + l * size, (const char*)p + l * size, size);
  return other;
}
template <class V>
inline void store_masked(void* p, uint64_t mask, V v) {
  const size_t size = sizeof(v[0]);
  for (size_t l = 0; l < sizeof(V) / size; ++l)
    if (mask >> l & 1) memcpy((char*)p + l * size, (const char*)&v + l * size, size);
}
template <class V>
inline V any(const void* p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }
inline int32_t rounded(float x) {
  const double r = std::nearbyint(double(x));
  return r >= -2147483648. && r < 2147483648. ? int32_t(r) : INT32_MIN;
}
inline bool compare(float a, float b, int how) {
  switch (how) {
    case _CMP_UNORD_Q:
      return std::isnan(a) || std::isnan(b);
    case _CMP_ORD_Q:
      return !std::isnan(a) && !std::isnan(b);
    case _CMP_GE_OQ:
      return a >= b;
  }
  __builtin_trap();
}
inline float range_abs_min(float x, float bound) { return std::copysign(std::fabs(x) <= bound || std::isnan(x) ? std::fabs(x) : bound, x); }
inline float getexp(float x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return INFINITY;
  return x == 0 ? -INFINITY : float(std::ilogb(x));
}
inline float getmant_p75(float x) {  // [0.75, 1.5), NaN of what is negative
  if (std::isnan(x) || x < 0) return NAN;
  if (x == 0 || std::isinf(x)) return 1;
  int e = 0;
  const float m = std::frexp(x, &e);  // [0.5, 1)
  return m >= 0.75f ? m : 2 * m;
}
inline float scaled(float x, float n) {
  if (std::isnan(x) || std::isnan(n)) return NAN;
  return float(std::ldexp(double(x), int(std::clamp(std::floor(double(n)), -1000., 1000.))));
}

inline __m512 set1_ps(float x) {
  return floats([&](int) { return x; });
}
inline __m512i set1_epi32(int32_t x) {
  return ints([&](int) { return x; });
}
inline __m512i set1_epi64(int64_t x) {
  return (__m512i)lanes<s64x8>([&](int) { return x; });
}
inline __m512i set1_epi16(int x) {
  return (__m512i)lanes<s16x32>([&](int) { return int16_t(x); });
}
inline __m512i set_epi32(int a, int b, int c, int d, int e, int f, int g, int h, int j, int k, int l, int m, int n, int o, int p, int q) {
  return (__m512i)(s32x16){q, p, o, n, m, l, k, j, h, g, f, e, d, c, b, a};
}
typedef uint8_t u8x64 __attribute__((vector_size(64)));
inline u8x64 bytes() { return u8x64{}; }
inline __m512i setzero() { return set1_epi32(0); }
inline __m512 fmadd(__m512 a, __m512 b, __m512 c) {
  return floats([&](int l) { return __builtin_fmaf(f(a)[l], f(b)[l], f(c)[l]); });
}
inline __m512 max_ps(__m512 a, __m512 b) {
  return floats([&](int l) { return f(a)[l] > f(b)[l] ? f(a)[l] : f(b)[l]; });
}
inline __m512 min_ps(__m512 a, __m512 b) {
  return floats([&](int l) { return f(a)[l] < f(b)[l] ? f(a)[l] : f(b)[l]; });
}
inline __m512i max_epi32(__m512i a, __m512i b) {
  return ints([&](int l) { return i(a)[l] > i(b)[l] ? i(a)[l] : i(b)[l]; });
}
inline __m512i min_epi32(__m512i a, __m512i b) {
  return ints([&](int l) { return i(a)[l] < i(b)[l] ? i(a)[l] : i(b)[l]; });
}
inline __m512 abs_ps(__m512 a) {
  return floats([&](int l) { return std::fabs(f(a)[l]); });
}
inline __m512i abs_epi32(__m512i a) {
  return ints([&](int l) { return i(a)[l] < 0 ? int32_t(0u - uint32_t(i(a)[l])) : i(a)[l]; });
}
inline __m512 roundscale(__m512 a, int how) {
  return floats([&](int l) { return (how & 3) == _MM_FROUND_TO_NEG_INF ? std::floor(f(a)[l]) : std::nearbyint(f(a)[l]); });
}
inline __m512 sqrt_ps(__m512 a) {
  return floats([&](int l) { return std::sqrt(f(a)[l]); });
}
inline __m512 sub_ps(__m512 a, __m512 b) { return (__m512)(f(a) - f(b)); }
inline __m512 rcp14(__m512 a) {
  return floats([&](int l) { return 1 / f(a)[l]; });
}
inline __m512 scalef(__m512 a, __m512 n) {
  return floats([&](int l) { return scaled(f(a)[l], f(n)[l]); });
}
inline __m512 range(__m512 a, __m512 b) {
  return floats([&](int l) { return range_abs_min(f(a)[l], f(b)[l]); });
}
inline __m512 getmant(__m512 a) {
  return floats([&](int l) { return getmant_p75(f(a)[l]); });
}
inline __m512 getexp_ps(__m512 a) {
  return floats([&](int l) { return getexp(f(a)[l]); });
}
inline __m512i add_epi32(__m512i a, __m512i b) { return (__m512i)((u32x16)a + (u32x16)b); }
inline __m512i mullo_epi32(__m512i a, __m512i b) { return (__m512i)((u32x16)a * (u32x16)b); }
inline __m512i mullo_epi64(__m512i a, __m512i b) { return (__m512i)((s64x8)a * (s64x8)b); }
inline __m512i and_si512(__m512i a, __m512i b) { return (__m512i)(i(a) & i(b)); }
inline __m512i slli_epi32(__m512i a, int n) { return (__m512i)((u32x16)a << n); }
inline __m512i srli_epi32(__m512i a, int n) { return (__m512i)((u32x16)a >> n); }
template <class F>
inline __m512i words(__m512i a, F word) {
  return (__m512i)lanes<s16x32>([&](int l) { return int16_t(word(((s16x32)a)[l])); });
}
inline __m512i slli_epi16(__m512i a, int n) {
  return words(a, [&](int16_t x) { return uint16_t(x) << n; });
}
inline __m512i srli_epi16(__m512i a, int n) {
  return words(a, [&](int16_t x) { return uint16_t(x) >> n; });
}
inline __m512i srai_epi16(__m512i a, int n) {
  return words(a, [&](int16_t x) { return x >> n; });
}
inline __m512i madd_epi16(__m512i a, __m512i b) {
  const s16x32 x = (s16x32)a, y = (s16x32)b;
  return ints([&](int l) { return int32_t(uint32_t(x[2 * l] * y[2 * l]) + uint32_t(x[2 * l + 1] * y[2 * l + 1])); });
}
inline __mmask16 cmp_ps(__m512 a, __m512 b, int how) {
  __mmask16 m = 0;
  for (int l = 0; l < 16; ++l) m |= __mmask16(compare(f(a)[l], f(b)[l], how) << l);
  return m;
}
inline __mmask16 cmpge(__m512i a, __m512i b) {
  __mmask16 m = 0;
  for (int l = 0; l < 16; ++l) m |= __mmask16((i(a)[l] >= i(b)[l]) << l);
  return m;
}
inline __mmask16 mask_cmplt(__mmask16 of, __m512i a, __m512i b) { return of & __mmask16(~cmpge(a, b)); }
inline __m512i blend(__mmask16 m, __m512i no, __m512i yes) {
  return ints([&](int l) { return m >> l & 1 ? i(yes)[l] : i(no)[l]; });
}
inline __m512i permutex2var(__m512i a, __m512i from, __m512i b) {
  return ints([&](int l) { return (i(from)[l] & 16 ? i(b) : i(a))[i(from)[l] & 15]; });
}
inline __m512 permutexvar(__m512i from, __m512 a) {
  return floats([&](int l) { return f(a)[i(from)[l] & 15]; });
}
inline __m512i unpack32(__m512i a, __m512i b, int high) {
  return ints([&](int l) { return (l & 1 ? i(b) : i(a))[(l & 12) + 2 * high + (l >> 1 & 1)]; });
}
inline __m512i unpack64(__m512i a, __m512i b, int high) {
  return ints([&](int l) { return (l & 2 ? i(b) : i(a))[(l & 12) + 2 * high + (l & 1)]; });
}
inline __m512 shuffle_quarters(__m512 a, __m512 b, int how) {
  return floats([&](int l) { return (l < 8 ? f(a) : f(b))[4 * (how >> 2 * (l / 4) & 3) + l % 4]; });
}
inline __m256i half(__m512i a, int n) {
  return (__m256i)lanes<s32x8>([&](int l) { return i(a)[8 * n + l]; });
}
inline __m512i from_halves(__m256i low, __m256i high) {
  return ints([&](int l) { return (l < 8 ? (s32x8)low : (s32x8)high)[l % 8]; });
}
template <class From, class Vector>
inline __m512i widened(Vector v) {
  return ints([&](int l) { return int32_t(From(v[l])); });
}
inline __m512 cvtph(__m256i h) {
  return floats([&](int l) { return half_to_float(((u16x16)h)[l]); });
}
inline __m256i cvtps_ph(__m512 a) {
  return (__m256i)lanes<u16x16>([&](int l) { return uint16_t(_cvtss_sh(f(a)[l], 0)); });
}
inline __m512i cvtepi32_epi64(__m256i a) {
  return (__m512i)lanes<s64x8>([&](int l) { return int64_t(((s32x8)a)[l]); });
}
inline __m512i gather32(__m512i other, __mmask16 m, __m512i index, const void* p, int scale) {
  return ints([&](int l) { return m >> l & 1 ? any<int32_t>((const char*)p + int64_t(i(index)[l]) * scale) : i(other)[l]; });
}
inline void scatter32(void* p, __mmask16 m, __m512i index, __m512i v, int scale) {
  for (int l = 0; l < 16; ++l)
    if (const int32_t x = i(v)[l]; m >> l & 1) memcpy((char*)p + int64_t(i(index)[l]) * scale, &x, 4);
}
inline __m256i gather64(__m256i other, __mmask8 m, __m512i index, const void* p, int scale) {
  const s64x8 at = (s64x8)index;
  return (__m256i)lanes<s32x8>([&](int l) { return m >> l & 1 ? any<int32_t>((const char*)p + at[l] * scale) : ((s32x8)other)[l]; });
}
inline void scatter64(void* p, __mmask8 m, __m512i index, __m256i v, int scale) {
  for (int l = 0; l < 8; ++l)
    if (const int32_t x = ((s32x8)v)[l]; m >> l & 1) memcpy((char*)p + ((s64x8)index)[l] * scale, &x, 4);
}
template <class V, class T>
inline auto saturated(__m512i a, int64_t lo, int64_t hi) {
  return lanes<V>([&](int l) { return T(std::clamp<int64_t>(i(a)[l], lo, hi)); });
}

}  // namespace avx512_software

#define SOFTWARE(...) avx512_software::__VA_ARGS__
#define _mm512_set1_ps SOFTWARE(set1_ps)
#define _mm512_set1_epi32 SOFTWARE(set1_epi32)
#define _mm512_set1_epi64 SOFTWARE(set1_epi64)
#define _mm512_set1_epi16 SOFTWARE(set1_epi16)
#define _mm512_set_epi32 SOFTWARE(set_epi32)
#define _mm512_setzero_si512 SOFTWARE(setzero)
#define _mm512_fmadd_ps SOFTWARE(fmadd)
#define _mm512_max_ps SOFTWARE(max_ps)
#define _mm512_min_ps SOFTWARE(min_ps)
#define _mm512_max_epi32 SOFTWARE(max_epi32)
#define _mm512_min_epi32 SOFTWARE(min_epi32)
#define _mm512_abs_ps SOFTWARE(abs_ps)
#define _mm512_abs_epi32 SOFTWARE(abs_epi32)
#undef _mm512_roundscale_ps
#define _mm512_roundscale_ps SOFTWARE(roundscale)
#define _mm512_sqrt_ps SOFTWARE(sqrt_ps)
#define _mm512_sub_ps SOFTWARE(sub_ps)
#define _mm512_rcp14_ps SOFTWARE(rcp14)
#define _mm512_scalef_ps SOFTWARE(scalef)
#undef _mm512_range_ps
#define _mm512_range_ps(a, b, how) SOFTWARE(range)(a, b)
#undef _mm512_getmant_ps
#define _mm512_getmant_ps(a, interval, sign) SOFTWARE(getmant)(a)
#define _mm512_getexp_ps SOFTWARE(getexp_ps)
#define _mm512_add_epi32 SOFTWARE(add_epi32)
#define _mm512_mullo_epi32 SOFTWARE(mullo_epi32)
#define _mm512_mullo_epi64 SOFTWARE(mullo_epi64)
#define _mm512_and_si512 SOFTWARE(and_si512)
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 SOFTWARE(slli_epi32)
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 SOFTWARE(srli_epi32)
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 SOFTWARE(slli_epi16)
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 SOFTWARE(srli_epi16)
#undef _mm512_srai_epi16
#define _mm512_srai_epi16 SOFTWARE(srai_epi16)
#define _mm512_madd_epi16 SOFTWARE(madd_epi16)
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask SOFTWARE(cmp_ps)
#define _mm512_cmpge_epi32_mask SOFTWARE(cmpge)
#define _mm512_mask_cmplt_epi32_mask SOFTWARE(mask_cmplt)
#define _mm512_mask_blend_epi32 SOFTWARE(blend)
#define _mm512_mask_mov_epi32(other, m, v) SOFTWARE(blend)(m, other, v)
#define _mm512_mask_or_epi32(other, m, a, b) \
  SOFTWARE(blend)(m, other, (__m512i)((avx512_software::s32x16)(a) | (avx512_software::s32x16)(b)))
#define _mm512_permutex2var_epi32 SOFTWARE(permutex2var)
#define _mm512_permutex2var_ps(a, from, b) ((__m512)SOFTWARE(permutex2var)((__m512i)(a), from, (__m512i)(b)))
#define _mm512_permutexvar_ps SOFTWARE(permutexvar)
#define _mm512_unpacklo_ps(a, b) ((__m512)SOFTWARE(unpack32)((__m512i)(a), (__m512i)(b), 0))
#define _mm512_unpackhi_ps(a, b) ((__m512)SOFTWARE(unpack32)((__m512i)(a), (__m512i)(b), 1))
#define _mm512_unpacklo_pd(a, b) SOFTWARE(unpack64)((__m512i)(a), (__m512i)(b), 0)
#define _mm512_unpackhi_pd(a, b) SOFTWARE(unpack64)((__m512i)(a), (__m512i)(b), 1)
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 SOFTWARE(shuffle_quarters)
#define _mm512_castsi512_si256(a) SOFTWARE(half)(a, 0)
#undef _mm512_extracti64x4_epi64
#define _mm512_extracti64x4_epi64(a, n) SOFTWARE(half)(a, n)
#define _mm512_castps512_ps256(a) ((__m256)SOFTWARE(half)((__m512i)(a), 0))
#define _mm512_castps512_ps128(a) _mm256_castps256_ps128(_mm512_castps512_ps256(a))
#define _mm512_castsi256_si512(a) SOFTWARE(from_halves)(a, a)
#undef _mm512_inserti64x4
#define _mm512_inserti64x4(a, b, n) SOFTWARE(from_halves)(SOFTWARE(half)(a, 0), b)
#define _mm512_zextps256_ps512(a) ((__m512)SOFTWARE(from_halves)((__m256i)(a), _mm256_setzero_si256()))
#define _mm512_zextps128_ps512(a) _mm512_zextps256_ps512(_mm256_insertf128_ps(_mm256_setzero_ps(), a, 0))
#define _mm512_cvtepi8_epi32(v) SOFTWARE(widened<int8_t>)((avx512_software::s8x16)(v))
#define _mm512_cvtepu8_epi32(v) SOFTWARE(widened<uint8_t>)((avx512_software::u8x16)(v))
#define _mm512_cvtepi16_epi32(v) SOFTWARE(widened<int16_t>)((avx512_software::s16x16)(v))
#define _mm512_cvtepu16_epi32(v) SOFTWARE(widened<uint16_t>)((avx512_software::u16x16)(v))
#define _mm512_mask_cvtepi8_epi32(other, m, v) _mm512_mask_mov_epi32(other, m, _mm512_cvtepi8_epi32(v))
#define _mm512_mask_cvtepu8_epi32(other, m, v) _mm512_mask_mov_epi32(other, m, _mm512_cvtepu8_epi32(v))
#define _mm512_mask_cvtepi16_epi32(other, m, v) _mm512_mask_mov_epi32(other, m, _mm512_cvtepi16_epi32(v))
#define _mm512_cvtph_ps SOFTWARE(cvtph)
#define _mm512_mask_cvtph_ps(other, m, v) ((__m512)_mm512_mask_mov_epi32((__m512i)(other), m, (__m512i)SOFTWARE(cvtph)(v)))
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, how) SOFTWARE(cvtps_ph)(a)
#define _mm512_cvtepi32_epi64 SOFTWARE(cvtepi32_epi64)
#define _mm512_cvtepi32_ps(a) SOFTWARE(floats)([&](int l) { return float(avx512_software::i(a)[l]); })
#define _mm512_maskz_cvtps_epi32(m, a) SOFTWARE(ints)([&](int l) { return (m) >> l & 1 ? SOFTWARE(rounded)(avx512_software::f(a)[l]) : 0; })
#define _mm512_cvtepi32_epi16(a) \
  ((__m256i)SOFTWARE(lanes<avx512_software::s16x16>)([&](int l) { return int16_t(avx512_software::i(a)[l]); }))
#define _mm512_cvtsepi32_epi16(a) ((__m256i)SOFTWARE(saturated<avx512_software::s16x16, int16_t>)(a, INT16_MIN, INT16_MAX))
#define _mm512_cvtsepi32_epi8(a) ((__m128i)SOFTWARE(saturated<avx512_software::s8x16, int8_t>)(a, INT8_MIN, INT8_MAX))
#define _mm512_cvtusepi32_epi8(a) ((__m128i)SOFTWARE(saturated<avx512_software::u8x16, uint8_t>)(a, 0, UINT8_MAX))
#define _mm512_loadu_ps(p) ((__m512)SOFTWARE(any<avx512_software::f32x16>)(p))
#define _mm512_load_ps _mm512_loadu_ps
#define _mm512_loadu_si512(p) ((__m512i)SOFTWARE(any<avx512_software::s32x16>)(p))
#define _mm512_storeu_ps(p, v) SOFTWARE(store_masked)(p, 0xffff, (avx512_software::f32x16)(v))
#define _mm512_stream_ps _mm512_storeu_ps
#define _mm512_storeu_si512(p, v) SOFTWARE(store_masked)(p, 0xffff, (avx512_software::s32x16)(v))
#define _mm512_mask_loadu_ps(other, m, p) ((__m512)SOFTWARE(masked)((avx512_software::f32x16)(other), m, p))
#define _mm512_maskz_loadu_ps(m, p) _mm512_mask_loadu_ps(_mm512_set1_ps(0), m, p)
#define _mm512_mask_loadu_epi32(other, m, p) ((__m512i)SOFTWARE(masked)((avx512_software::s32x16)(other), m, p))
#define _mm512_maskz_loadu_epi32(m, p) _mm512_mask_loadu_epi32(_mm512_setzero_si512(), m, p)
#define _mm512_maskz_loadu_epi8(m, p) ((__m512i)SOFTWARE(masked)(avx512_software::bytes(), m, p))
#define _mm512_mask_storeu_ps(p, m, v) SOFTWARE(store_masked)(p, m, (avx512_software::f32x16)(v))
#define _mm512_mask_storeu_epi32(p, m, v) SOFTWARE(store_masked)(p, m, (avx512_software::s32x16)(v))
#define _mm256_maskz_loadu_epi16(m, p) ((__m256i)SOFTWARE(masked)(avx512_software::u16x16{}, m, p))
#define _mm256_mask_storeu_epi16(p, m, v) SOFTWARE(store_masked)(p, m, (avx512_software::u16x16)(v))
#define _mm_maskz_loadu_epi8(m, p) ((__m128i)SOFTWARE(masked)(avx512_software::u8x16{}, m, p))
#define _mm_mask_storeu_epi8(p, m, v) SOFTWARE(store_masked)(p, m, (avx512_software::u8x16)(v))
#undef _mm512_mask_i32gather_epi32
#define _mm512_mask_i32gather_epi32 SOFTWARE(gather32)
#undef _mm512_mask_i64gather_epi32
#define _mm512_mask_i64gather_epi32 SOFTWARE(gather64)
#undef _mm512_mask_i32scatter_epi32
#define _mm512_mask_i32scatter_epi32 SOFTWARE(scatter32)
#undef _mm512_mask_i64scatter_epi32
#define _mm512_mask_i64scatter_epi32 SOFTWARE(scatter64)
// no registers of 64 bytes for the assembler: what is written for other compilers and processors
#define __clang__ 1
#undef __x86_64__
