// Vector primitives on 4 lanes. Base: AArch64 (Armv8.0). `#if` picks up dotprod, i8mm and bf16. Semantics: docs/numerics.md.

//@ @preamble
#include <arm_neon.h>
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

//@ kLanes
constexpr int kLanes = 4;
//@ vf_set
INLINE vf vf_set(float x) { return (vf)vdupq_n_f32(x); }
//@ vi_set
INLINE vi vi_set(int32_t x) { return (vi)vdupq_n_s32(x); }
//@ vi_iota
INLINE vi vi_iota() { return (vi){0, 1, 2, 3}; }

//@ vf_load_f32
INLINE vf vf_load_f32(const float* p) { return (vf)vld1q_f32(p); }
//@ vi_load_s32
INLINE vi vi_load_s32(const int32_t* p) { return (vi)vld1q_s32(p); }
//@ vf_load_bf16
INLINE vf vf_load_bf16(const uint16_t* p) { return (vf)vshll_n_u16(vld1_u16(p), 16); }
//@ vf_load_f16
INLINE vf vf_load_f16(const uint16_t* p) { return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
//@ vf_bcast_f16
INLINE vf vf_bcast_f16(const uint16_t* p) { return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(p))); }
//@ load_bytes
INLINE uint8x8_t load_bytes(const void* p) {
  uint32_t bytes;
  __builtin_memcpy(&bytes, p, 4);
  return vreinterpret_u8_u32(vdup_n_u32(bytes));
}
//@ vi_load_s8
INLINE vi vi_load_s8(const int8_t* p) { return (vi)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_bytes(p))))); }
//@ vi_load_s16
INLINE vi vi_load_s16(const int16_t* p) { return (vi)vmovl_s16(vld1_s16(p)); }
//@ vi_load_u8
INLINE vi vi_load_u8(const uint8_t* p) { return (vi)vmovl_u16(vget_low_u16(vmovl_u8(load_bytes(p)))); }

//@ vf_store_f32
INLINE void vf_store_f32(float* p, vf v) { vst1q_f32(p, (float32x4_t)v); }
//@ vi_store_s32
INLINE void vi_store_s32(int32_t* p, vi v) { vst1q_s32(p, (int32x4_t)v); }
//@ vf_stream_f32
/// A plain store: AArch64's non-temporal hint needs a pair of registers.
INLINE void vf_stream_f32(float* p, vf v) { vf_store_f32(p, v); }
//@ stream_fence
INLINE void stream_fence() {}
//@ bits_bf16
/// The bf16 nearest to each lane, ties to even, in the upper half; the lower half is garbage.
INLINE vu bits_bf16(vf v) {
  const vu u = (vu)v;
  return v == v ? u + 0x7fff + (u >> 16 & 1) : u | 0x400000;
}
//@ vf_store_bf16
INLINE void vf_store_bf16(uint16_t* p, vf v) { vst1_u16(p, vshrn_n_u32((uint32x4_t)bits_bf16(v), 16)); }
//@ vf_round_bf16
INLINE vf vf_round_bf16(vf v) { return (vf)(bits_bf16(v) & 0xffff0000u); }
//@ vf_store_f16
INLINE void vf_store_f16(uint16_t* p, vf v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v))); }
//@ vf_round_f16
INLINE vf vf_round_f16(vf v) { return (vf)vcvt_f32_f16(vcvt_f16_f32((float32x4_t)v)); }
//@ vi_store_s16
INLINE void vi_store_s16(int16_t* p, vi v) { vst1_s16(p, vqmovn_s32((int32x4_t)v)); }
//@ store_bytes
INLINE void store_bytes(void* p, uint8x8_t v) {
  const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(v), 0);
  __builtin_memcpy(p, &bytes, 4);
}
//@ vi_store_s8
INLINE void vi_store_s8(int8_t* p, vi v) {
  const int16x4_t h = vqmovn_s32((int32x4_t)v);
  store_bytes(p, vreinterpret_u8_s8(vqmovn_s16(vcombine_s16(h, h))));
}
//@ vi_store_u8
INLINE void vi_store_u8(uint8_t* p, vi v) {
  const int16x4_t h = vqmovn_s32((int32x4_t)v);
  store_bytes(p, vqmovun_s16(vcombine_s16(h, h)));
}

//@ vf_fma
INLINE vf vf_fma(vf a, vf b, vf c) { return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
//@ vi_max
INLINE vi vi_max(vi a, vi b) { return (vi)vmaxq_s32((int32x4_t)a, (int32x4_t)b); }
//@ vi_min
INLINE vi vi_min(vi a, vi b) { return (vi)vminq_s32((int32x4_t)a, (int32x4_t)b); }
//@ vf_abs
INLINE vf vf_abs(vf a) { return (vf)vabsq_f32((float32x4_t)a); }
//@ vi_abs
INLINE vi vi_abs(vi a) { return (vi)vabsq_s32((int32x4_t)a); }
//@ vf_floor
INLINE vf vf_floor(vf a) { return (vf)vrndmq_f32((float32x4_t)a); }
//@ vf_round
INLINE vf vf_round(vf a) { return (vf)vrndnq_f32((float32x4_t)a); }
//@ vf_sqrt
INLINE vf vf_sqrt(vf a) { return (vf)vsqrtq_f32((float32x4_t)a); }
//@ vf_select
INLINE vf vf_select(vi cond, vf a, vf b) { return (vf)vbslq_f32((uint32x4_t)cond, (float32x4_t)a, (float32x4_t)b); }
//@ vi_select
INLINE vi vi_select(vi cond, vi a, vi b) { return (vi)vbslq_s32((uint32x4_t)cond, (int32x4_t)a, (int32x4_t)b); }
//@ vi_from_vf_rne
INLINE vi vi_from_vf_rne(vf a) { return (vi)vcvtnq_s32_f32((float32x4_t)a); }
//@ vf_from_vi
INLINE vf vf_from_vi(vi a) { return (vf)vcvtq_f32_s32((int32x4_t)a); }

//@ vf_dpbf16 ? bf16
INLINE vf vf_dpbf16(vf acc, vi a, vi b) {
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  return (vf)vbfdotq_f32((float32x4_t)acc, vreinterpretq_bf16_s32((int32x4_t)a), vreinterpretq_bf16_s32((int32x4_t)b));
#else
  const vi high = vi_set((int32_t)0xffff0000);
  acc = vf_fma((vf)(a & high), (vf)(b & high), acc);
  return vf_fma((vf)((vu)a << 16), (vf)((vu)b << 16), acc);
#endif
}
//@ vi_dpbusd ? i8mm
INLINE vi vi_dpbusd(vi acc, vi a, vi b) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return (vi)vusdotq_s32((int32x4_t)acc, vreinterpretq_u8_s32((int32x4_t)a), vreinterpretq_s8_s32((int32x4_t)b));
#else  // a product has 16 bits: |255 * -128| < 2^15
  const uint8x16_t x = vreinterpretq_u8_s32((int32x4_t)a);
  const int8x16_t y = vreinterpretq_s8_s32((int32x4_t)b);
  const int16x8_t low = vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x))), vmovl_s8(vget_low_s8(y)));
  const int16x8_t high = vmulq_s16(vreinterpretq_s16_u16(vmovl_high_u8(x)), vmovl_high_s8(y));
  return (vi)vaddq_s32((int32x4_t)acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}
//@ vi_dpbssd ? dotprod
INLINE vi vi_dpbssd(vi acc, vi a, vi b) {
  const int8x16_t x = vreinterpretq_s8_s32((int32x4_t)a), y = vreinterpretq_s8_s32((int32x4_t)b);
#if defined(__ARM_FEATURE_DOTPROD)
  return (vi)vdotq_s32((int32x4_t)acc, x, y);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
  return (vi)vaddq_s32((int32x4_t)acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}
//@ vi_dpbuud ? dotprod
INLINE vi vi_dpbuud(vi acc, vi a, vi b) {
  const uint8x16_t x = vreinterpretq_u8_s32((int32x4_t)a), y = vreinterpretq_u8_s32((int32x4_t)b);
#if defined(__ARM_FEATURE_DOTPROD)
  return (vi)vdotq_u32((uint32x4_t)acc, x, y);
#else
  const uint16x8_t low = vmull_u8(vget_low_u8(x), vget_low_u8(y)), high = vmull_high_u8(x, y);
  return (vi)vaddq_u32((uint32x4_t)acc, vpaddq_u32(vpaddlq_u16(low), vpaddlq_u16(high)));
#endif
}

//@ two_of
/// Lane i: lane from[i] of a, or from kLanes on lane from[i] - kLanes of b.
INLINE vf two_of(vf a, vi from, vf b) {
  const uint8x16x2_t both = {{(uint8x16_t)a, (uint8x16_t)b}};
  return (vf)vqtbl2q_u8(both, (uint8x16_t)(from * 0x04040404 + 0x03020100));  // bytes 4 i ... 4 i + 3
}
//@ vf_transpose
/// In place: lane j of r[i] and lane i of r[j] change places.
INLINE void vf_transpose(vf* r) {
  const vf a = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6), b = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
  const vf c = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6), d = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
  r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  r[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
