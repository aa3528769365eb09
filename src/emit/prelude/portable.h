// Vector primitives on 4 lanes in GCC's and Clang's vector extensions, for any little-endian machine. Semantics: docs/numerics.md.

//@ @preamble
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

//@ kLanes
constexpr int kLanes = 4;
//@ vf_set
INLINE vf vf_set(float x) { return (vf){x, x, x, x}; }
//@ vi_set
INLINE vi vi_set(int32_t x) { return (vi){x, x, x, x}; }
//@ vi_iota
INLINE vi vi_iota() { return (vi){0, 1, 2, 3}; }

//@ load_as
/// The vector type V from memory of any alignment.
template <class V>
INLINE V load_as(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
//@ v4u16
typedef uint16_t v4u16 __attribute__((vector_size(8)));
//@ v4s8
typedef int8_t v4s8 __attribute__((vector_size(4)));
//@ v4s16
typedef int16_t v4s16 __attribute__((vector_size(8)));
//@ v4u8
typedef uint8_t v4u8 __attribute__((vector_size(4)));

//@ vf_load_f32
INLINE vf vf_load_f32(const float* p) { return load_as<vf>(p); }
//@ vi_load_s32
INLINE vi vi_load_s32(const int32_t* p) { return load_as<vi>(p); }
//@ vf_load_bf16
INLINE vf vf_load_bf16(const uint16_t* p) { return (vf)(__builtin_convertvector(load_as<v4u16>(p), vu) << 16); }
//@ widen_f16
/// The f16 in the low half of each lane.
INLINE vf widen_f16(vu h) {
  const vu magnitude = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16;
  const vf scaled = (vf)magnitude * 0x1p112f;  // moves the exponent's bias and normalises subnormals
  const vu bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : (vu)scaled;
  return (vf)(bits | sign);
}
//@ vf_load_f16
INLINE vf vf_load_f16(const uint16_t* p) { return widen_f16(__builtin_convertvector(load_as<v4u16>(p), vu)); }
//@ vf_bcast_f16
INLINE vf vf_bcast_f16(const uint16_t* p) { return widen_f16((vu)vi_set(*p)); }
//@ vi_load_s8
INLINE vi vi_load_s8(const int8_t* p) { return __builtin_convertvector(load_as<v4s8>(p), vi); }
//@ vi_load_s16
INLINE vi vi_load_s16(const int16_t* p) { return __builtin_convertvector(load_as<v4s16>(p), vi); }
//@ vi_load_u8
INLINE vi vi_load_u8(const uint8_t* p) { return __builtin_convertvector(load_as<v4u8>(p), vi); }

//@ vf_store_f32
INLINE void vf_store_f32(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
//@ vi_store_s32
INLINE void vi_store_s32(int32_t* p, vi v) { __builtin_memcpy(p, &v, sizeof v); }
//@ vf_stream_f32
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
INLINE void vf_store_bf16(uint16_t* p, vf v) {
  const v4u16 h = __builtin_convertvector(bits_bf16(v) >> 16, v4u16);
  __builtin_memcpy(p, &h, sizeof h);
}
//@ vf_round_bf16
INLINE vf vf_round_bf16(vf v) { return (vf)(bits_bf16(v) & 0xffff0000u); }
//@ narrow_f16
/// The f16 nearest to each lane, ties to even, in the low half of each lane.
INLINE vu narrow_f16(vf v) {
  const vu sign = (vu)v & 0x80000000u, a = (vu)v ^ sign;
  const vu normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
  const vu subnormal = (vu)((vf)a + 0.5f) - 0x3f000000u;  // an ulp of 0.5 is the f16 subnormals' unit
  const vu special = a > 0x7f800000u ? 0x7e00 | (a >> 13 & 0x3ff) : a - a + 0x7c00;
  const vu finite = a < 0x38800000u ? subnormal : normal;
  return (a < 0x477ff000u ? finite : special) | sign >> 16;
}
//@ vf_store_f16
INLINE void vf_store_f16(uint16_t* p, vf v) {
  const v4u16 h = __builtin_convertvector(narrow_f16(v), v4u16);
  __builtin_memcpy(p, &h, sizeof h);
}
//@ vf_round_f16
INLINE vf vf_round_f16(vf v) { return widen_f16(narrow_f16(v)); }
//@ vi_store_s8
INLINE void vi_store_s8(int8_t* p, vi v) {
  const v4s8 b = __builtin_convertvector(vi_min(vi_max(v, vi_set(-128)), vi_set(127)), v4s8);
  __builtin_memcpy(p, &b, sizeof b);
}
//@ vi_store_s16
INLINE void vi_store_s16(int16_t* p, vi v) {
  const v4s16 h = __builtin_convertvector(vi_min(vi_max(v, vi_set(-32768)), vi_set(32767)), v4s16);
  __builtin_memcpy(p, &h, sizeof h);
}
//@ vi_store_u8
INLINE void vi_store_u8(uint8_t* p, vi v) {
  const v4u8 b = __builtin_convertvector(vi_min(vi_max(v, vi_set(0)), vi_set(255)), v4u8);
  __builtin_memcpy(p, &b, sizeof b);
}

//@ vf_fma
/// Fused where the compiler's target has the instruction, else rounded twice.
INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
//@ vf_round
/// To the nearest integer, ties to even.
INLINE vf vf_round(vf a) {
  const vf big = vf_set(0x1p23f);  // an ulp of 2^23 is one; larger magnitudes are integers
  const vi sign = (vi)a & vi_set(INT32_MIN);
  vf shifted = (vf)((vi)a ^ sign) + big;
  return vf_lt(vf_abs(a), big) ? (vf)((vi)(shifted - big) | sign) : a;
}
//@ vf_floor
INLINE vf vf_floor(vf a) {
  const vf r = vf_round(a);
  return r - vf_from_mask(vf_gt(r, a));
}
//@ vf_sqrt
INLINE vf vf_sqrt(vf a) {
  for (int i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
//@ vi_from_vf_rne
INLINE vi vi_from_vf_rne(vf a) {
  const vi fits = vf_lt(vf_abs(a), vf_set(2147483648.f));
  const vi r = __builtin_convertvector(vf_round(vf_select(fits, a, vf_set(0.f))), vi);
  const vi beyond = vi_select(vf_lt(a, vf_set(0.f)), vi_set(INT32_MIN), vi_set(INT32_MAX));
  return vi_select(fits, r, beyond & vf_eq(a, a));
}
//@ vf_from_vi
INLINE vf vf_from_vi(vi a) { return __builtin_convertvector(a, vf); }

//@ fma_residual
/// a * b + c where the exact result has at most 24 bits, fused or not.
INLINE vf fma_residual(vf a, vf b, vf c) {
  typedef double vd __attribute__((vector_size(32)));
  return __builtin_convertvector(__builtin_convertvector(a, vd) * __builtin_convertvector(b, vd) + __builtin_convertvector(c, vd), vf);
}

//@ vf_transpose
/// In place: lane j of r[i] and lane i of r[j] change places.
INLINE void vf_transpose(vf* r) {
  const vf a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const vf c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  r[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
