// A warp's loads and stores: a lane each of neighbouring elements, of the first n, of those within a range, or of some apart; narrow types
// convert on their way.

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
//@ neighbours_of_two
/// Lane l of v and w has elements l and 32 + l of 64: it gets 2l and 2l + 1, as one word.
INLINE vu neighbours_of_two(uint16_t v, uint16_t w) {
  const vu both = v | (vu)w << 16;
  const vu even = __shfl_sync(0xffffffffu, both, lane() * 2 & 31), odd = __shfl_sync(0xffffffffu, both, (lane() * 2 & 31) + 1);
  return __byte_perm(even, odd, lane() < 16 ? 0x5410 : 0x7632);
}
//@ vf_store_pair_bf16
/// 64 neighbours: a line at once. p is a multiple of 4 bytes.
INLINE void vf_store_pair_bf16(uint16_t* p, vf v, vf w) { ((vu*)p)[lane()] = neighbours_of_two(narrow_bf16(v), narrow_bf16(w)); }
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
//@ vf_store_pair_f16
/// As vf_store_pair_bf16.
INLINE void vf_store_pair_f16(uint16_t* p, vf v, vf w) { ((vu*)p)[lane()] = neighbours_of_two(narrow_f16(v), narrow_f16(w)); }
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
