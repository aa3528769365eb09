// Primitives of a warp as a vector of 32 lanes: every thread holds one lane of each vector register. No header is needed, so that
// NVRTC takes the text as it is. Control flow is the same in all lanes; what differs between them is inside these functions.

//@ @preamble
#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
typedef float vf;  // one lane of a vector of f32
typedef int32_t vi;
typedef uint32_t vu;
#define INLINE static __device__ __forceinline__

//@ kLanes
constexpr int kLanes = 32;
//@ lane
/// This thread's place in its vector.
INLINE int lane() { return threadIdx.x % 32; }
//@ vf_set
INLINE vf vf_set(float x) { return x; }
//@ vi_set
INLINE vi vi_set(int32_t x) { return x; }
//@ vi_iota
INLINE vi vi_iota() { return lane(); }
//@ floor_div
/// Division that rounds towards minus infinity; b > 0.
INLINE int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
//@ floor_mod
INLINE int64_t floor_mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); }

//@ widen_bf16
INLINE vf widen_bf16(uint16_t h) { return __uint_as_float((vu)h << 16); }
//@ narrow_bf16
/// The nearest bf16, ties to even.
INLINE uint16_t narrow_bf16(vf v) {
  const vu u = __float_as_uint(v);
  return (uint16_t)((v == v ? u + 0x7fff + (u >> 16 & 1) : u | 0x400000) >> 16);
}
//@ widen_f16
INLINE vf widen_f16(uint16_t h) {
#if defined(__CUDA_ARCH__)
  vf v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
#else
  const vu magnitude = (vu)(h & 0x7fff) << 13, sign = (vu)(h & 0x8000) << 16;
  const vf scaled = __uint_as_float(magnitude) * 0x1p112f;  // moves the exponent's bias and normalises subnormals
  return __uint_as_float((magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : __float_as_uint(scaled)) | sign);
#endif
}
//@ narrow_f16
/// The nearest f16, ties to even.
INLINE uint16_t narrow_f16(vf v) {
#if defined(__CUDA_ARCH__)
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
#else
  const vu sign = __float_as_uint(v) & 0x80000000u, a = __float_as_uint(v) ^ sign;
  const vu normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
  const vu subnormal = __float_as_uint(__uint_as_float(a) + 0.5f) - 0x3f000000u;  // an ulp of 0.5 is the f16 subnormals' unit
  const vu special = a > 0x7f800000u ? 0x7e00 | (a >> 13 & 0x3ff) : 0x7c00;
  return (uint16_t)((a < 0x477ff000u ? a < 0x38800000u ? subnormal : normal : special) | sign >> 16);
#endif
}

//@ vf_bcast_f32
INLINE vf vf_bcast_f32(const float* p) { return *p; }
//@ vf_load_f32
INLINE vf vf_load_f32(const float* p) { return p[lane()]; }
//@ vf_load_f32_n
INLINE vf vf_load_f32_n(const float* p, int n) { return lane() < n ? p[lane()] : 0.f; }
//@ vf_load_f32_range
INLINE vf vf_load_f32_range(const float* p, int lo, int hi, float fill) { return lane() >= lo && lane() < hi ? p[lane()] : fill; }
//@ vf_gather_f32
INLINE vf vf_gather_f32(const float* p, int64_t stride) { return p[lane() * stride]; }
//@ vf_gather_f32_n
INLINE vf vf_gather_f32_n(const float* p, int64_t stride, int n) { return lane() < n ? p[lane() * stride] : 0.f; }
//@ vf_gather_f32_range
INLINE vf vf_gather_f32_range(const float* p, int64_t stride, int lo, int hi, float fill) {
  return lane() >= lo && lane() < hi ? p[lane() * stride] : fill;
}
//@ vf_bcast_bf16
INLINE vf vf_bcast_bf16(const uint16_t* p) { return widen_bf16(*p); }
//@ vf_load_bf16
INLINE vf vf_load_bf16(const uint16_t* p) { return widen_bf16(p[lane()]); }
//@ vf_load_bf16_n
INLINE vf vf_load_bf16_n(const uint16_t* p, int n) { return lane() < n ? widen_bf16(p[lane()]) : 0.f; }
//@ vf_load_bf16_range
INLINE vf vf_load_bf16_range(const uint16_t* p, int lo, int hi, float fill) {
  return lane() >= lo && lane() < hi ? widen_bf16(p[lane()]) : fill;
}
//@ vf_gather_bf16
INLINE vf vf_gather_bf16(const uint16_t* p, int64_t stride) { return widen_bf16(p[lane() * stride]); }
//@ vf_gather_bf16_n
INLINE vf vf_gather_bf16_n(const uint16_t* p, int64_t stride, int n) { return lane() < n ? widen_bf16(p[lane() * stride]) : 0.f; }
//@ vf_gather_bf16_range
INLINE vf vf_gather_bf16_range(const uint16_t* p, int64_t stride, int lo, int hi, float fill) {
  return lane() >= lo && lane() < hi ? widen_bf16(p[lane() * stride]) : fill;
}
//@ vf_bcast_f16
INLINE vf vf_bcast_f16(const uint16_t* p) { return widen_f16(*p); }
//@ vf_load_f16
INLINE vf vf_load_f16(const uint16_t* p) { return widen_f16(p[lane()]); }
//@ vf_load_f16_n
INLINE vf vf_load_f16_n(const uint16_t* p, int n) { return lane() < n ? widen_f16(p[lane()]) : 0.f; }
//@ vf_load_f16_range
INLINE vf vf_load_f16_range(const uint16_t* p, int lo, int hi, float fill) {
  return lane() >= lo && lane() < hi ? widen_f16(p[lane()]) : fill;
}
//@ vf_gather_f16
INLINE vf vf_gather_f16(const uint16_t* p, int64_t stride) { return widen_f16(p[lane() * stride]); }
//@ vf_gather_f16_n
INLINE vf vf_gather_f16_n(const uint16_t* p, int64_t stride, int n) { return lane() < n ? widen_f16(p[lane() * stride]) : 0.f; }
//@ vf_gather_f16_range
INLINE vf vf_gather_f16_range(const uint16_t* p, int64_t stride, int lo, int hi, float fill) {
  return lane() >= lo && lane() < hi ? widen_f16(p[lane() * stride]) : fill;
}
//@ vi_bcast_s8
INLINE vi vi_bcast_s8(const int8_t* p) { return *p; }
//@ vi_load_s8
INLINE vi vi_load_s8(const int8_t* p) { return p[lane()]; }
//@ vi_load_s8_n
INLINE vi vi_load_s8_n(const int8_t* p, int n) { return lane() < n ? p[lane()] : 0; }
//@ vi_load_s8_range
INLINE vi vi_load_s8_range(const int8_t* p, int lo, int hi, int32_t fill) { return lane() >= lo && lane() < hi ? p[lane()] : fill; }
//@ vi_gather_s8
INLINE vi vi_gather_s8(const int8_t* p, int64_t stride) { return p[lane() * stride]; }
//@ vi_gather_s8_n
INLINE vi vi_gather_s8_n(const int8_t* p, int64_t stride, int n) { return lane() < n ? p[lane() * stride] : 0; }
//@ vi_gather_s8_range
INLINE vi vi_gather_s8_range(const int8_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  return lane() >= lo && lane() < hi ? p[lane() * stride] : fill;
}
//@ vi_bcast_u8
INLINE vi vi_bcast_u8(const uint8_t* p) { return *p; }
//@ vi_load_u8
INLINE vi vi_load_u8(const uint8_t* p) { return p[lane()]; }
//@ vi_load_u8_n
INLINE vi vi_load_u8_n(const uint8_t* p, int n) { return lane() < n ? p[lane()] : 0; }
//@ vi_load_u8_range
INLINE vi vi_load_u8_range(const uint8_t* p, int lo, int hi, int32_t fill) { return lane() >= lo && lane() < hi ? p[lane()] : fill; }
//@ vi_gather_u8
INLINE vi vi_gather_u8(const uint8_t* p, int64_t stride) { return p[lane() * stride]; }
//@ vi_gather_u8_n
INLINE vi vi_gather_u8_n(const uint8_t* p, int64_t stride, int n) { return lane() < n ? p[lane() * stride] : 0; }
//@ vi_gather_u8_range
INLINE vi vi_gather_u8_range(const uint8_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  return lane() >= lo && lane() < hi ? p[lane() * stride] : fill;
}
//@ vi_bcast_s32
INLINE vi vi_bcast_s32(const int32_t* p) { return *p; }
//@ vi_load_s32
INLINE vi vi_load_s32(const int32_t* p) { return p[lane()]; }
//@ vi_load_s32_n
INLINE vi vi_load_s32_n(const int32_t* p, int n) { return lane() < n ? p[lane()] : 0; }
//@ vi_load_s32_range
INLINE vi vi_load_s32_range(const int32_t* p, int lo, int hi, int32_t fill) { return lane() >= lo && lane() < hi ? p[lane()] : fill; }
//@ vi_gather_s32
INLINE vi vi_gather_s32(const int32_t* p, int64_t stride) { return p[lane() * stride]; }
//@ vi_gather_s32_n
INLINE vi vi_gather_s32_n(const int32_t* p, int64_t stride, int n) { return lane() < n ? p[lane() * stride] : 0; }
//@ vi_gather_s32_range
INLINE vi vi_gather_s32_range(const int32_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  return lane() >= lo && lane() < hi ? p[lane() * stride] : fill;
}

//@ saturate
INLINE vi saturate(vi v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
//@ vf_store_f32
INLINE void vf_store_f32(float* p, vf v) { p[lane()] = v; }
//@ vf_store_f32_n
INLINE void vf_store_f32_n(float* p, vf v, int n) {
  if (lane() < n) p[lane()] = v;
}
//@ vf_scatter_f32
INLINE void vf_scatter_f32(float* p, int64_t stride, vf v) { p[lane() * stride] = v; }
//@ vf_scatter_f32_n
INLINE void vf_scatter_f32_n(float* p, int64_t stride, vf v, int n) {
  if (lane() < n) p[lane() * stride] = v;
}
//@ vf_store_bf16
INLINE void vf_store_bf16(uint16_t* p, vf v) { p[lane()] = narrow_bf16(v); }
//@ vf_store_bf16_n
INLINE void vf_store_bf16_n(uint16_t* p, vf v, int n) {
  if (lane() < n) p[lane()] = narrow_bf16(v);
}
//@ vf_scatter_bf16
INLINE void vf_scatter_bf16(uint16_t* p, int64_t stride, vf v) { p[lane() * stride] = narrow_bf16(v); }
//@ vf_scatter_bf16_n
INLINE void vf_scatter_bf16_n(uint16_t* p, int64_t stride, vf v, int n) {
  if (lane() < n) p[lane() * stride] = narrow_bf16(v);
}
//@ vf_store_f16
INLINE void vf_store_f16(uint16_t* p, vf v) { p[lane()] = narrow_f16(v); }
//@ vf_store_f16_n
INLINE void vf_store_f16_n(uint16_t* p, vf v, int n) {
  if (lane() < n) p[lane()] = narrow_f16(v);
}
//@ vf_scatter_f16
INLINE void vf_scatter_f16(uint16_t* p, int64_t stride, vf v) { p[lane() * stride] = narrow_f16(v); }
//@ vf_scatter_f16_n
INLINE void vf_scatter_f16_n(uint16_t* p, int64_t stride, vf v, int n) {
  if (lane() < n) p[lane() * stride] = narrow_f16(v);
}
//@ vf_store_s8
INLINE void vf_store_s8(int8_t* p, vf v) { p[lane()] = (int8_t)saturate(vi_from_vf_rne(v), -128, 127); }
//@ vf_store_s8_n
INLINE void vf_store_s8_n(int8_t* p, vf v, int n) {
  if (lane() < n) p[lane()] = (int8_t)saturate(vi_from_vf_rne(v), -128, 127);
}
//@ vf_scatter_s8
INLINE void vf_scatter_s8(int8_t* p, int64_t stride, vf v) { p[lane() * stride] = (int8_t)saturate(vi_from_vf_rne(v), -128, 127); }
//@ vf_scatter_s8_n
INLINE void vf_scatter_s8_n(int8_t* p, int64_t stride, vf v, int n) {
  if (lane() < n) p[lane() * stride] = (int8_t)saturate(vi_from_vf_rne(v), -128, 127);
}
//@ vf_store_u8
INLINE void vf_store_u8(uint8_t* p, vf v) { p[lane()] = (uint8_t)saturate(vi_from_vf_rne(v), 0, 255); }
//@ vf_store_u8_n
INLINE void vf_store_u8_n(uint8_t* p, vf v, int n) {
  if (lane() < n) p[lane()] = (uint8_t)saturate(vi_from_vf_rne(v), 0, 255);
}
//@ vf_scatter_u8
INLINE void vf_scatter_u8(uint8_t* p, int64_t stride, vf v) { p[lane() * stride] = (uint8_t)saturate(vi_from_vf_rne(v), 0, 255); }
//@ vf_scatter_u8_n
INLINE void vf_scatter_u8_n(uint8_t* p, int64_t stride, vf v, int n) {
  if (lane() < n) p[lane() * stride] = (uint8_t)saturate(vi_from_vf_rne(v), 0, 255);
}
//@ vf_store_s32
INLINE void vf_store_s32(int32_t* p, vf v) { p[lane()] = vi_from_vf_rne(v); }
//@ vf_store_s32_n
INLINE void vf_store_s32_n(int32_t* p, vf v, int n) {
  if (lane() < n) p[lane()] = vi_from_vf_rne(v);
}
//@ vf_scatter_s32
INLINE void vf_scatter_s32(int32_t* p, int64_t stride, vf v) { p[lane() * stride] = vi_from_vf_rne(v); }
//@ vf_scatter_s32_n
INLINE void vf_scatter_s32_n(int32_t* p, int64_t stride, vf v, int n) {
  if (lane() < n) p[lane() * stride] = vi_from_vf_rne(v);
}
//@ vi_store_s32
INLINE void vi_store_s32(int32_t* p, vi v) { p[lane()] = v; }
//@ vi_store_s32_n
INLINE void vi_store_s32_n(int32_t* p, vi v, int n) {
  if (lane() < n) p[lane()] = v;
}
//@ vi_scatter_s32
INLINE void vi_scatter_s32(int32_t* p, int64_t stride, vi v) { p[lane() * stride] = v; }
//@ vi_scatter_s32_n
INLINE void vi_scatter_s32_n(int32_t* p, int64_t stride, vi v, int n) {
  if (lane() < n) p[lane() * stride] = v;
}
//@ vi_store_s8
INLINE void vi_store_s8(int8_t* p, vi v) { p[lane()] = (int8_t)saturate(v, -128, 127); }
//@ vi_store_s8_n
INLINE void vi_store_s8_n(int8_t* p, vi v, int n) {
  if (lane() < n) p[lane()] = (int8_t)saturate(v, -128, 127);
}
//@ vi_scatter_s8
INLINE void vi_scatter_s8(int8_t* p, int64_t stride, vi v) { p[lane() * stride] = (int8_t)saturate(v, -128, 127); }
//@ vi_scatter_s8_n
INLINE void vi_scatter_s8_n(int8_t* p, int64_t stride, vi v, int n) {
  if (lane() < n) p[lane() * stride] = (int8_t)saturate(v, -128, 127);
}
//@ vi_store_u8
INLINE void vi_store_u8(uint8_t* p, vi v) { p[lane()] = (uint8_t)saturate(v, 0, 255); }
//@ vi_store_u8_n
INLINE void vi_store_u8_n(uint8_t* p, vi v, int n) {
  if (lane() < n) p[lane()] = (uint8_t)saturate(v, 0, 255);
}
//@ vi_scatter_u8
INLINE void vi_scatter_u8(uint8_t* p, int64_t stride, vi v) { p[lane() * stride] = (uint8_t)saturate(v, 0, 255); }
//@ vi_scatter_u8_n
INLINE void vi_scatter_u8_n(uint8_t* p, int64_t stride, vi v, int n) {
  if (lane() < n) p[lane() * stride] = (uint8_t)saturate(v, 0, 255);
}
//@ vi_store_f32
INLINE void vi_store_f32(float* p, vi v) { p[lane()] = (float)v; }
//@ vi_store_f32_n
INLINE void vi_store_f32_n(float* p, vi v, int n) {
  if (lane() < n) p[lane()] = (float)v;
}
//@ vi_scatter_f32
INLINE void vi_scatter_f32(float* p, int64_t stride, vi v) { p[lane() * stride] = (float)v; }
//@ vi_scatter_f32_n
INLINE void vi_scatter_f32_n(float* p, int64_t stride, vi v, int n) {
  if (lane() < n) p[lane() * stride] = (float)v;
}

//@ prefetch_l1
INLINE void prefetch_l1(const void*) {}
//@ prefetch_l2
INLINE void prefetch_l2(const void*) {}

//@ vf_lt
INLINE vi vf_lt(vf a, vf b) { return a < b ? -1 : 0; }
//@ vf_le
INLINE vi vf_le(vf a, vf b) { return a <= b ? -1 : 0; }
//@ vf_gt
INLINE vi vf_gt(vf a, vf b) { return a > b ? -1 : 0; }
//@ vf_ge
INLINE vi vf_ge(vf a, vf b) { return a >= b ? -1 : 0; }
//@ vf_eq
INLINE vi vf_eq(vf a, vf b) { return a == b ? -1 : 0; }
//@ vf_ne
INLINE vi vf_ne(vf a, vf b) { return a != b ? -1 : 0; }
//@ vi_lt
INLINE vi vi_lt(vi a, vi b) { return a < b ? -1 : 0; }
//@ vi_le
INLINE vi vi_le(vi a, vi b) { return a <= b ? -1 : 0; }
//@ vi_gt
INLINE vi vi_gt(vi a, vi b) { return a > b ? -1 : 0; }
//@ vi_ge
INLINE vi vi_ge(vi a, vi b) { return a >= b ? -1 : 0; }
//@ vi_eq
INLINE vi vi_eq(vi a, vi b) { return a == b ? -1 : 0; }
//@ vi_ne
INLINE vi vi_ne(vi a, vi b) { return a != b ? -1 : 0; }
//@ vf_select
/// `cond`: a mask, all ones or zero.
INLINE vf vf_select(vi cond, vf a, vf b) { return cond ? a : b; }
//@ vi_select
INLINE vi vi_select(vi cond, vi a, vi b) { return cond ? a : b; }
//@ vf_from_mask
INLINE vf vf_from_mask(vi cond) { return cond ? 1.f : 0.f; }
//@ vf_fma
INLINE vf vf_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
//@ vf_neg
INLINE vf vf_neg(vf a) { return -a; }
//@ vf_abs
INLINE vf vf_abs(vf a) { return fabsf(a); }
//@ vf_div
INLINE vf vf_div(vf a, vf b) { return a / b; }
//@ vf_sqrt
INLINE vf vf_sqrt(vf a) { return sqrtf(a); }
//@ vf_rsqrt
INLINE vf vf_rsqrt(vf a) { return rsqrtf(a); }
//@ vf_round
/// To the nearest integer, ties to even.
INLINE vf vf_round(vf a) { return rintf(a); }
//@ vf_floor
INLINE vf vf_floor(vf a) { return floorf(a); }
//@ vf_exp
INLINE vf vf_exp(vf a) { return expf(a); }
//@ vf_log
INLINE vf vf_log(vf a) { return logf(a); }
//@ vf_tanh
INLINE vf vf_tanh(vf a) { return tanhf(a); }
//@ vf_erf
INLINE vf vf_erf(vf a) { return erff(a); }
//@ vf_sigmoid
INLINE vf vf_sigmoid(vf a) { return 1.f / (1.f + expf(-a)); }
//@ vf_pow
INLINE vf vf_pow(vf a, vf b) { return powf(a, b); }
//@ vf_max
/// a > b ? a : b; so b where either is NaN, and b of two zeros.
INLINE vf vf_max(vf a, vf b) { return a > b ? a : b; }
//@ vf_min
INLINE vf vf_min(vf a, vf b) { return a < b ? a : b; }
//@ vf_clamp
INLINE vf vf_clamp(vf x, vf lo, vf hi) { return vf_min(vf_max(x, lo), hi); }
//@ vi_max
INLINE vi vi_max(vi a, vi b) { return a > b ? a : b; }
//@ vi_min
INLINE vi vi_min(vi a, vi b) { return a < b ? a : b; }
//@ vi_abs
/// INT32_MIN stays itself.
INLINE vi vi_abs(vi a) { return a < 0 ? (vi)(0u - (vu)a) : a; }
//@ vi_from_vf_rne
/// Saturates; NaN gives 0.
INLINE vi vi_from_vf_rne(vf a) { return __float2int_rn(a); }
//@ vf_from_vi
INLINE vf vf_from_vi(vi a) { return (float)a; }
//@ vf_round_bf16
INLINE vf vf_round_bf16(vf v) { return widen_bf16(narrow_bf16(v)); }
//@ vf_round_f16
INLINE vf vf_round_f16(vf v) { return widen_f16(narrow_f16(v)); }

//@ fold
/// All lanes combined by `op` in tree order: 16 apart, 8, 4, 2, 1; every lane gets the result.
template <class V, class Op>
INLINE V fold(V v, Op op) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, apart));
  return v;
}
//@ vf_hsum
INLINE float vf_hsum(vf v) {
  return fold(v, [](vf a, vf b) { return a + b; });
}
//@ vf_hprod
INLINE float vf_hprod(vf v) {
  return fold(v, [](vf a, vf b) { return a * b; });
}
//@ vf_hmax
INLINE float vf_hmax(vf v) {
  return fold(v, [](vf a, vf b) { return vf_max(a, b); });
}
//@ vf_hmin
INLINE float vf_hmin(vf v) {
  return fold(v, [](vf a, vf b) { return vf_min(a, b); });
}
//@ vi_hsum
INLINE int32_t vi_hsum(vi v) {
  return (int32_t)fold((vu)v, [](vu a, vu b) { return a + b; });
}
//@ vi_hprod
INLINE int32_t vi_hprod(vi v) {
  return (int32_t)fold((vu)v, [](vu a, vu b) { return a * b; });
}
//@ vi_hmax
INLINE int32_t vi_hmax(vi v) {
  return fold(v, [](vi a, vi b) { return vi_max(a, b); });
}
//@ vi_hmin
INLINE int32_t vi_hmin(vi v) {
  return fold(v, [](vi a, vi b) { return vi_min(a, b); });
}
//@ vf_transpose
/// In place: lane j of r[i] and lane i of r[j] change places. Quarters are exchanged between halves of the warp, then within them.
INLINE void vf_transpose(vf* r) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const bool upper = lane() & apart;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i & apart) continue;
      const vf got = __shfl_xor_sync(0xffffffffu, upper ? r[i] : r[i + apart], apart);
      r[i] = upper ? got : r[i];
      r[i + apart] = upper ? r[i + apart] : got;
    }
  }
}
//@ vi_transpose
/// In place: lane j of r[i] and lane i of r[j] change places. Quarters are exchanged between halves of the warp, then within them.
INLINE void vi_transpose(vi* r) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const bool upper = lane() & apart;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (i & apart) continue;
      const vi got = __shfl_xor_sync(0xffffffffu, upper ? r[i] : r[i + apart], apart);
      r[i] = upper ? got : r[i];
      r[i + apart] = upper ? r[i + apart] : got;
    }
  }
}

//@ vi_load_group
/// Each lane's 4 bytes; packed operands are aligned.
INLINE vi vi_load_group(const void* p) { return ((const int32_t*)p)[lane()]; }
//@ vi_bcast_group
/// 4 bytes of any alignment.
INLINE vi vi_bcast_group(const void* p) {
  const uint8_t* b = (const uint8_t*)p;
  if ((unsigned long long)p % 4 == 0) return *(const int32_t*)p;
  return (vi)(b[0] | (vu)b[1] << 8 | (vu)b[2] << 16 | (vu)b[3] << 24);
}
//@ vi_bcast_group_n
/// The first `bytes` < 4 bytes at p, then zeros; nothing else is read.
INLINE vi vi_bcast_group_n(const void* p, int bytes) {
  vu group = 0;
  for (int i = 0; i < bytes; ++i) group |= (vu)((const uint8_t*)p)[i] << 8 * i;
  return (vi)group;
}
//@ vi_dpbssd
/// acc + the sum of 4 products of signed bytes.
INLINE vi vi_dpbssd(vi acc, vi a, vi b) { return __dp4a(a, b, acc); }

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
//@ fragment_staged_tf32_a
INLINE void fragment_staged_tf32_a(vu* a, const void* p) { staged_rows<2>(a, p), round_tf32<8>(a); }
//@ fragment_staged_tf32_b
INLINE void fragment_staged_tf32_b(vu* b, const void* p) { staged_rows<4>(b, p), round_tf32<16>(b); }
//@ fragment_staged_f32_a
/// 16 bytes of k of a lane's rows of 16: lane 8r + c has rows r, r + 4, … and columns c, c + 8, …. Rows are swizzled, so that neither eight
/// columns' 16 bytes nor four rows' meet in a bank.
INLINE void fragment_staged_f32_a(vu* a, const void* p, int piece) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = lane() / 8 + 4 * i;
    const uint4 v = smem_get((const uint4*)p + row * 4 + (piece ^ row / 2 % 4));
    a[4 * i] = v.x, a[4 * i + 1] = v.y, a[4 * i + 2] = v.z, a[4 * i + 3] = v.w;
  }
}
//@ fragment_staged_f32_b
INLINE void fragment_staged_f32_b(vu* b, const void* p, int piece) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int column = lane() % 8 + 8 * j;
    const uint4 v = smem_get((const uint4*)p + column * 4 + (piece ^ column / 2 % 4));
    b[4 * j] = v.x, b[4 * j + 1] = v.y, b[4 * j + 2] = v.z, b[4 * j + 3] = v.w;
  }
}
//@ mma_f32
/// A lane's 4 × 4 sums of a tile, 4 of k.
INLINE void mma_f32(vf* c, const vu* a, const vu* b) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int i = 0; i < 16; ++i) c[i] = fmaf(__uint_as_float(a[i / 4 * 4 + k]), __uint_as_float(b[i % 4 * 4 + k]), c[i]);
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
//@ cp16
#if defined(__CUDACC__)
/// 16 bytes into shared memory, asynchronously and past the first-level cache; all 0 unless `bytes` is 16. Addresses are multiples of 16.
INLINE void cp16(void* to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"((vu)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes)
               : "memory");
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

//@ stage_descriptor
/// Of staged rows of 64 bytes along k from p on, the swizzle of 64 bytes applied: eight rows are 512 bytes (PTX ISA, "Matrix Descriptor").
INLINE uint64_t stage_descriptor(const void* p) {
#if defined(__CUDACC__)
  const vu at = (vu)__cvta_generic_to_shared(p);
#else
  const vu at = (vu)((const unsigned char*)p - shared_base());
#endif
  return (uint64_t)(at & 0x3ffff) >> 4 | 1ull << 16 | 32ull << 32 | 2ull << 62;
}
//@ wgmma_f16
#if defined(__CUDACC__)
/// 64 × n sums += a · b, 16 of k, by four warps, without waiting for it.
template <int n>
__device__ void wgmma_f16(vf* c, uint64_t a, uint64_t b);
#endif
//@ wgmma_bf16
#if defined(__CUDACC__)
/// 64 × n sums += a · b, 16 of k, by four warps, without waiting for it.
template <int n>
__device__ void wgmma_bf16(vf* c, uint64_t a, uint64_t b);
#endif
//@ wgmma_s8
#if defined(__CUDACC__)
/// 64 × n sums += a · b, 32 of k, by four warps, without waiting for it.
template <int n>
__device__ void wgmma_s8(vi* c, uint64_t a, uint64_t b);
#endif
//@ wgmma_fence
#if defined(__CUDACC__)
/// What was written to the sums comes before the products that follow.
INLINE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
#endif
//@ wgmma_commit
#if defined(__CUDACC__)
INLINE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#endif
//@ wgmma_wait
#if defined(__CUDACC__)
/// Until all groups of products but the newest n are done.
template <int n>
INLINE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}
#endif
//@ proxy_fence
#if defined(__CUDACC__)
/// What this thread has copied to shared memory is there for wgmma, once it has passed a barrier.
INLINE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif
//@ fragment_settle
/// No use of these sums moves before this.
template <class V>
INLINE void fragment_settle(V* c) {
#if defined(__CUDACC__)
#pragma unroll
  for (int i = 0; i < 16; ++i) asm volatile("" : "+r"(*(vu*)&c[i])::"memory");
#endif
}
