// Primitives of a warp as a vector of 32 lanes: every thread holds one lane of each vector register. No header is needed, so that
// NVRTC takes the text as it is. Control flow is the same in all lanes; what differs between them is inside these functions. What warps
// multiply as tiles is in cuda_staging.h.

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
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
#else
  const vu u = __float_as_uint(v);
  return (uint16_t)((v == v ? u + 0x7fff + (u >> 16 & 1) : u | 0x400000) >> 16);
#endif
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
//@ vf_ldg_f32
/// Of what the kernel does not write: the compiler may keep it for those that load it again behind stores and barriers.
INLINE vf vf_ldg_f32(const float* p) { return __ldg(p + lane()); }
//@ vf_ldg_f32_n
INLINE vf vf_ldg_f32_n(const float* p, int n) { return lane() < n ? __ldg(p + lane()) : 0.f; }
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
//@ vf_ldg_bf16
/// Of what the kernel does not write: the compiler may keep it for those that load it again behind stores and barriers.
INLINE vf vf_ldg_bf16(const uint16_t* p) { return widen_bf16(__ldg(p + lane())); }
//@ vf_ldg_bf16_n
INLINE vf vf_ldg_bf16_n(const uint16_t* p, int n) { return lane() < n ? widen_bf16(__ldg(p + lane())) : 0.f; }
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
//@ vf_ldg_f16
/// Of what the kernel does not write: the compiler may keep it for those that load it again behind stores and barriers.
INLINE vf vf_ldg_f16(const uint16_t* p) { return widen_f16(__ldg(p + lane())); }
//@ vf_ldg_f16_n
INLINE vf vf_ldg_f16_n(const uint16_t* p, int n) { return lane() < n ? widen_f16(__ldg(p + lane())) : 0.f; }
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
//@ vf_exp_nonpositive
INLINE vf vf_exp_nonpositive(vf a) { return expf(a); }
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
//@ vi_load_bytes
/// Each lane's 4 bytes, of any alignment.
INLINE vi vi_load_bytes(const void* p) { return vi_bcast_group((const uint8_t*)p + 4 * lane()); }
//@ vi_store_bytes
INLINE void vi_store_bytes(void* p, vi v) {
  uint8_t* b = (uint8_t*)p + 4 * lane();
  if ((unsigned long long)b % 4 == 0)
    *(int32_t*)b = v;
  else
    for (int i = 0; i < 4; ++i) b[i] = (uint8_t)(v >> 8 * i);
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
