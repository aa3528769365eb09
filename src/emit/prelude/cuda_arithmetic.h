// Comparisons, choices, arithmetic and functions of a warp's lanes, what lanes give to each other, groups of bytes and their products.

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
//@ vi_bcast_group_of
/// 4 bytes, of which the first `bytes` matter: the others are multiplied by zeros.
INLINE vi vi_bcast_group_of(const void* p, int) { return vi_bcast_group(p); }
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
