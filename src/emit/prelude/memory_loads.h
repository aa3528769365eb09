// Partial, strided and converting memory access written once for any number of lanes, in terms of the full-width loads and
// stores that avx512.h, avx2.h, neon.h and portable.h give. Where one of these headers has a primitive of the same name,
// that one is taken. Semantics: docs/numerics.md.

//@ copy_lanes
/// The first n < 16 of a vector's elements, by powers of two: no call, and straight-line code for a constant n.
template <class T>
INLINE void copy_lanes(T* to, const T* from, int n) {
  int i = 0;
  if (n & 8) __builtin_memcpy(to, from, 8 * sizeof(T)), i = 8;
  if (n & 4) __builtin_memcpy(to + i, from + i, 4 * sizeof(T)), i += 4;
  if (n & 2) __builtin_memcpy(to + i, from + i, 2 * sizeof(T)), i += 2;
  if (n & 1) __builtin_memcpy(to + i, from + i, sizeof(T));
}
//@ lanes_in
/// The mask of lanes i with lo <= i < hi.
INLINE vi lanes_in(int lo, int hi) { return (vi)(vi_iota() >= vi_set(lo)) & (vi)(vi_iota() < vi_set(hi)); }
//@ clamp_lanes
INLINE int clamp_lanes(int n) { return n < 0 ? 0 : n > kLanes ? kLanes : n; }
//@ read_lanes
/// t[i] = p[i * stride] for lo <= i < hi; other elements are not written, other addresses not read.
template <class T>
INLINE void read_lanes(T* t, const T* p, int64_t stride, int lo, int hi) {
  lo = clamp_lanes(lo), hi = clamp_lanes(hi);
  if (__builtin_constant_p(stride) && stride == 1) {
    if (lo == 0 && hi == kLanes)
      __builtin_memcpy(t, p, kLanes * sizeof(T));
    else if (lo < hi)
      copy_lanes(t + lo, p + lo, hi - lo);
  } else {
    for (int i = lo; i < hi; ++i) t[i] = p[i * stride];
  }
}

//@ vf_load_f32_n
INLINE vf vf_load_f32_n(const float* p, int n) {
  float t[kLanes] = {};
  read_lanes(t, p, 1, 0, n);
  return vf_load_f32(t);
}
//@ vf_load_f32_range
INLINE vf vf_load_f32_range(const float* p, int lo, int hi, float fill) {
  float t[kLanes] = {};
  read_lanes(t, p, 1, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f32(t), vf_set(fill));
}
//@ vf_gather_f32
INLINE vf vf_gather_f32(const float* p, int64_t stride) {
  float t[kLanes];
  read_lanes(t, p, stride, 0, kLanes);
  return vf_load_f32(t);
}
//@ vf_gather_f32_n
INLINE vf vf_gather_f32_n(const float* p, int64_t stride, int n) {
  float t[kLanes] = {};
  read_lanes(t, p, stride, 0, n);
  return vf_load_f32(t);
}
//@ vf_gather_f32_range
INLINE vf vf_gather_f32_range(const float* p, int64_t stride, int lo, int hi, float fill) {
  float t[kLanes] = {};
  read_lanes(t, p, stride, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f32(t), vf_set(fill));
}

//@ vf_load_bf16_n
INLINE vf vf_load_bf16_n(const uint16_t* p, int n) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, 1, 0, n);
  return vf_load_bf16(t);
}
//@ vf_load_bf16_range
INLINE vf vf_load_bf16_range(const uint16_t* p, int lo, int hi, float fill) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, 1, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_bf16(t), vf_set(fill));
}
//@ vf_gather_bf16
INLINE vf vf_gather_bf16(const uint16_t* p, int64_t stride) {
  uint16_t t[kLanes];
  read_lanes(t, p, stride, 0, kLanes);
  return vf_load_bf16(t);
}
//@ vf_gather_bf16_n
INLINE vf vf_gather_bf16_n(const uint16_t* p, int64_t stride, int n) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, stride, 0, n);
  return vf_load_bf16(t);
}
//@ vf_gather_bf16_range
INLINE vf vf_gather_bf16_range(const uint16_t* p, int64_t stride, int lo, int hi, float fill) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, stride, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_bf16(t), vf_set(fill));
}

//@ vf_load_f16_n
INLINE vf vf_load_f16_n(const uint16_t* p, int n) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, 1, 0, n);
  return vf_load_f16(t);
}
//@ vf_load_f16_range
INLINE vf vf_load_f16_range(const uint16_t* p, int lo, int hi, float fill) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, 1, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f16(t), vf_set(fill));
}
//@ vf_gather_f16
INLINE vf vf_gather_f16(const uint16_t* p, int64_t stride) {
  uint16_t t[kLanes];
  read_lanes(t, p, stride, 0, kLanes);
  return vf_load_f16(t);
}
//@ vf_gather_f16_n
INLINE vf vf_gather_f16_n(const uint16_t* p, int64_t stride, int n) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, stride, 0, n);
  return vf_load_f16(t);
}
//@ vf_gather_f16_range
INLINE vf vf_gather_f16_range(const uint16_t* p, int64_t stride, int lo, int hi, float fill) {
  uint16_t t[kLanes] = {};
  read_lanes(t, p, stride, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f16(t), vf_set(fill));
}

//@ vi_load_s32_n
INLINE vi vi_load_s32_n(const int32_t* p, int n) {
  int32_t t[kLanes] = {};
  read_lanes(t, p, 1, 0, n);
  return vi_load_s32(t);
}
//@ vi_load_s32_range
INLINE vi vi_load_s32_range(const int32_t* p, int lo, int hi, int32_t fill) {
  int32_t t[kLanes] = {};
  read_lanes(t, p, 1, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s32(t), vi_set(fill));
}
//@ vi_gather_s32
INLINE vi vi_gather_s32(const int32_t* p, int64_t stride) {
  int32_t t[kLanes];
  read_lanes(t, p, stride, 0, kLanes);
  return vi_load_s32(t);
}
//@ vi_gather_s32_n
INLINE vi vi_gather_s32_n(const int32_t* p, int64_t stride, int n) {
  int32_t t[kLanes] = {};
  read_lanes(t, p, stride, 0, n);
  return vi_load_s32(t);
}
//@ vi_gather_s32_range
INLINE vi vi_gather_s32_range(const int32_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  int32_t t[kLanes] = {};
  read_lanes(t, p, stride, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s32(t), vi_set(fill));
}

//@ vi_load_s8_n
INLINE vi vi_load_s8_n(const int8_t* p, int n) {
  int8_t t[kLanes] = {};
  read_lanes(t, p, 1, 0, n);
  return vi_load_s8(t);
}
//@ vi_load_s8_range
INLINE vi vi_load_s8_range(const int8_t* p, int lo, int hi, int32_t fill) {
  int8_t t[kLanes] = {};
  read_lanes(t, p, 1, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s8(t), vi_set(fill));
}
//@ vi_gather_s8
INLINE vi vi_gather_s8(const int8_t* p, int64_t stride) {
  int8_t t[kLanes];
  read_lanes(t, p, stride, 0, kLanes);
  return vi_load_s8(t);
}
//@ vi_gather_s8_n
INLINE vi vi_gather_s8_n(const int8_t* p, int64_t stride, int n) {
  int8_t t[kLanes] = {};
  read_lanes(t, p, stride, 0, n);
  return vi_load_s8(t);
}
//@ vi_gather_s8_range
INLINE vi vi_gather_s8_range(const int8_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  int8_t t[kLanes] = {};
  read_lanes(t, p, stride, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s8(t), vi_set(fill));
}

//@ vi_load_u8_n
INLINE vi vi_load_u8_n(const uint8_t* p, int n) {
  uint8_t t[kLanes] = {};
  read_lanes(t, p, 1, 0, n);
  return vi_load_u8(t);
}
//@ vi_load_u8_range
INLINE vi vi_load_u8_range(const uint8_t* p, int lo, int hi, int32_t fill) {
  uint8_t t[kLanes] = {};
  read_lanes(t, p, 1, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_u8(t), vi_set(fill));
}
//@ vi_gather_u8
INLINE vi vi_gather_u8(const uint8_t* p, int64_t stride) {
  uint8_t t[kLanes];
  read_lanes(t, p, stride, 0, kLanes);
  return vi_load_u8(t);
}
//@ vi_gather_u8_n
INLINE vi vi_gather_u8_n(const uint8_t* p, int64_t stride, int n) {
  uint8_t t[kLanes] = {};
  read_lanes(t, p, stride, 0, n);
  return vi_load_u8(t);
}
//@ vi_gather_u8_range
INLINE vi vi_gather_u8_range(const uint8_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  uint8_t t[kLanes] = {};
  read_lanes(t, p, stride, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_u8(t), vi_set(fill));
}

//@ vf_bcast_f32
INLINE vf vf_bcast_f32(const float* p) { return vf_set(*p); }
//@ vf_bcast_bf16
INLINE vf vf_bcast_bf16(const uint16_t* p) { return (vf)vi_set((int32_t)((uint32_t)*p << 16)); }
//@ vf_bcast_f16
INLINE vf vf_bcast_f16(const uint16_t* p) {
  const uint16_t t[kLanes] = {*p};
  return vf_set(vf_load_f16(t)[0]);
}
//@ vi_bcast_s32
INLINE vi vi_bcast_s32(const int32_t* p) { return vi_set(*p); }
//@ vi_bcast_s8
INLINE vi vi_bcast_s8(const int8_t* p) { return vi_set(*p); }
//@ vi_bcast_u8
INLINE vi vi_bcast_u8(const uint8_t* p) { return vi_set(*p); }
