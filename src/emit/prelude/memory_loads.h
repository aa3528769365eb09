// Partial, strided and converting memory access written once for any number of lanes, in terms of the full-width loads and
// stores that avx512.h, avx2.h, neon.h and portable.h give. Where one of these headers has a primitive of the same name,
// that one is taken. Semantics: docs/numerics.md.

//@ first_bytes
/// The first n <= 8 bytes at p as a little-endian number: two loads that may overlap, and no other byte is read.
INLINE uint64_t first_bytes(const void* p, int n) {
  const char* c = (const char*)p;
  uint64_t wide = 0;
  if (n == 8) {
    __builtin_memcpy(&wide, c, 8);
  } else if (n >= 4) {
    uint32_t low, high;
    __builtin_memcpy(&low, c, 4);
    __builtin_memcpy(&high, c + n - 4, 4);
    wide = low | (uint64_t)high << 8 * (n - 4);
  } else if (n >= 2) {
    uint16_t low, high;
    __builtin_memcpy(&low, c, 2);
    __builtin_memcpy(&high, c + n - 2, 2);
    wide = low | (uint32_t)high << 8 * (n - 2);
  } else if (n == 1) {
    wide = (unsigned char)*c;
  }
  return wide;
}
//@ lanes_in
/// The mask of lanes i with lo <= i < hi.
INLINE vi lanes_in(int lo, int hi) { return (vi)(vi_iota() >= vi_set(lo)) & (vi)(vi_iota() < vi_set(hi)); }
//@ vf_first
/// The first n lanes, 0 in the others.
INLINE vf vf_first(vf v, int n) { return (vf)((vi)v & lanes_in(0, n)); }
//@ vi_first
INLINE vi vi_first(vi v, int n) { return v & lanes_in(0, n); }
//@ vf_within
/// Lanes lo <= i < hi of v, `fill` in the others.
INLINE vf vf_within(vf v, int lo, int hi, float fill) { return vf_select(lanes_in(lo, hi), v, vf_set(fill)); }
//@ vi_within
INLINE vi vi_within(vi v, int lo, int hi, int32_t fill) { return vi_select(lanes_in(lo, hi), v, vi_set(fill)); }
//@ clamp_lanes
INLINE int clamp_lanes(int n) { return n < 0 ? 0 : n > kLanes ? kLanes : n; }
//@ read_lanes
/// t[i] = p[i] for lo <= i < hi, 0 for the other lanes; no other element is read.
template <class T>
INLINE void read_lanes(T* t, const T* p, int lo, int hi) {
  constexpr int per = kLanes * sizeof(T) < 8 ? kLanes : 8 / sizeof(T);  // lanes of a 64-bit word
  for (int i = 0; i < kLanes; i += per) {
    const int from = lo < i ? i : lo, to = hi > i + per ? i + per : hi;
    const uint64_t word = from < to ? first_bytes(p + from, (to - from) * (int)sizeof(T)) << (from - i) * 8 * (int)sizeof(T) : 0;
    __builtin_memcpy(t + i, &word, per * sizeof(T));
  }
}
//@ read_strided
/// t[i] = p[i * stride] for lo <= i < hi; other elements are neither written nor read.
template <class T>
INLINE void read_strided(T* t, const T* p, int64_t stride, int lo, int hi) {
  lo = clamp_lanes(lo), hi = clamp_lanes(hi);
  for (int i = lo; i < hi; ++i) t[i] = p[i * stride];
}

//@ all_inside
/// All bits if none of the conditions is negative, else none.
template <class... Int>
INLINE int64_t all_inside(Int... conditions) {
  return ~(int64_t)(conditions | ...) >> 63;
}
//@ zeros
alignas(64) static const float zeros[kLanes] = {};
//@ or_zeros
/// No branch: from one to the next GCC keeps sums on the stack (28 of them: a convolution of 25 x 42 in 13 ms instead of 10.5). No mask:
/// where nothing is mapped before a tensor, a masked load traps into microcode.
INLINE const float* or_zeros(const float* p, int64_t inside) {
  return (const float*)(((intptr_t)p & inside) | ((intptr_t)zeros & ~inside));
}
//@ or_fill
INLINE vf or_fill(vf v, float fill, int64_t inside) {
  if (__builtin_constant_p(fill) && fill == 0 && !__builtin_signbit(fill)) return v;  // zeros
  return (vf)vi_select(vi_set((int32_t)inside), (vi)v, (vi)vf_set(fill));
}
//@ vf_load_f32_if
/// The vector at p if none of the conditions is negative, else `fill` in all lanes, and nothing is read at p.
template <class... Int>
INLINE vf vf_load_f32_if(const float* p, float fill, Int... conditions) {
  const int64_t inside = all_inside(conditions...);
  return or_fill(vf_load_f32(or_zeros(p, inside)), fill, inside);
}
//@ vf_bcast_f32_if
template <class... Int>
INLINE vf vf_bcast_f32_if(const float* p, float fill, Int... conditions) {
  const int64_t inside = all_inside(conditions...);
  return or_fill(vf_bcast_f32(or_zeros(p, inside)), fill, inside);
}
//@ vf_load_f32_n
INLINE vf vf_load_f32_n(const float* p, int n) {
  float t[kLanes];
  read_lanes(t, p, 0, n);
  return vf_load_f32(t);
}
//@ vf_load_f32_range
INLINE vf vf_load_f32_range(const float* p, int lo, int hi, float fill) {
  float t[kLanes];
  read_lanes(t, p, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f32(t), vf_set(fill));
}
//@ vf_gather_f32
INLINE vf vf_gather_f32(const float* p, int64_t stride) {
  float t[kLanes];
  read_strided(t, p, stride, 0, kLanes);
  return vf_load_f32(t);
}
//@ vf_gather_f32_n
INLINE vf vf_gather_f32_n(const float* p, int64_t stride, int n) {
  float t[kLanes] = {};
  read_strided(t, p, stride, 0, n);
  return vf_load_f32(t);
}
//@ vf_gather_f32_range
INLINE vf vf_gather_f32_range(const float* p, int64_t stride, int lo, int hi, float fill) {
  float t[kLanes] = {};
  read_strided(t, p, stride, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f32(t), vf_set(fill));
}

//@ vf_load_bf16_n
INLINE vf vf_load_bf16_n(const uint16_t* p, int n) {
  uint16_t t[kLanes];
  read_lanes(t, p, 0, n);
  return vf_load_bf16(t);
}
//@ vf_load_bf16_range
INLINE vf vf_load_bf16_range(const uint16_t* p, int lo, int hi, float fill) {
  uint16_t t[kLanes];
  read_lanes(t, p, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_bf16(t), vf_set(fill));
}
//@ vf_gather_bf16
INLINE vf vf_gather_bf16(const uint16_t* p, int64_t stride) {
  uint16_t t[kLanes];
  read_strided(t, p, stride, 0, kLanes);
  return vf_load_bf16(t);
}
//@ vf_gather_bf16_n
INLINE vf vf_gather_bf16_n(const uint16_t* p, int64_t stride, int n) {
  uint16_t t[kLanes] = {};
  read_strided(t, p, stride, 0, n);
  return vf_load_bf16(t);
}
//@ vf_gather_bf16_range
INLINE vf vf_gather_bf16_range(const uint16_t* p, int64_t stride, int lo, int hi, float fill) {
  uint16_t t[kLanes] = {};
  read_strided(t, p, stride, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_bf16(t), vf_set(fill));
}

//@ vf_load_f16_n
INLINE vf vf_load_f16_n(const uint16_t* p, int n) {
  uint16_t t[kLanes];
  read_lanes(t, p, 0, n);
  return vf_load_f16(t);
}
//@ vf_load_f16_range
INLINE vf vf_load_f16_range(const uint16_t* p, int lo, int hi, float fill) {
  uint16_t t[kLanes];
  read_lanes(t, p, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f16(t), vf_set(fill));
}
//@ vf_gather_f16
INLINE vf vf_gather_f16(const uint16_t* p, int64_t stride) {
  uint16_t t[kLanes];
  read_strided(t, p, stride, 0, kLanes);
  return vf_load_f16(t);
}
//@ vf_gather_f16_n
INLINE vf vf_gather_f16_n(const uint16_t* p, int64_t stride, int n) {
  uint16_t t[kLanes] = {};
  read_strided(t, p, stride, 0, n);
  return vf_load_f16(t);
}
//@ vf_gather_f16_range
INLINE vf vf_gather_f16_range(const uint16_t* p, int64_t stride, int lo, int hi, float fill) {
  uint16_t t[kLanes] = {};
  read_strided(t, p, stride, lo, hi);
  return vf_select(lanes_in(lo, hi), vf_load_f16(t), vf_set(fill));
}

//@ vi_load_s32_n
INLINE vi vi_load_s32_n(const int32_t* p, int n) {
  int32_t t[kLanes];
  read_lanes(t, p, 0, n);
  return vi_load_s32(t);
}
//@ vi_load_s32_range
INLINE vi vi_load_s32_range(const int32_t* p, int lo, int hi, int32_t fill) {
  int32_t t[kLanes];
  read_lanes(t, p, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s32(t), vi_set(fill));
}
//@ vi_gather_s32
INLINE vi vi_gather_s32(const int32_t* p, int64_t stride) {
  int32_t t[kLanes];
  read_strided(t, p, stride, 0, kLanes);
  return vi_load_s32(t);
}
//@ vi_gather_s32_n
INLINE vi vi_gather_s32_n(const int32_t* p, int64_t stride, int n) {
  int32_t t[kLanes] = {};
  read_strided(t, p, stride, 0, n);
  return vi_load_s32(t);
}
//@ vi_gather_s32_range
INLINE vi vi_gather_s32_range(const int32_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  int32_t t[kLanes] = {};
  read_strided(t, p, stride, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s32(t), vi_set(fill));
}

//@ vi_load_s8_n
INLINE vi vi_load_s8_n(const int8_t* p, int n) {
  int8_t t[kLanes];
  read_lanes(t, p, 0, n);
  return vi_load_s8(t);
}
//@ vi_load_s8_range
INLINE vi vi_load_s8_range(const int8_t* p, int lo, int hi, int32_t fill) {
  int8_t t[kLanes];
  read_lanes(t, p, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s8(t), vi_set(fill));
}
//@ vi_gather_s8
INLINE vi vi_gather_s8(const int8_t* p, int64_t stride) {
  int8_t t[kLanes];
  read_strided(t, p, stride, 0, kLanes);
  return vi_load_s8(t);
}
//@ vi_gather_s8_n
INLINE vi vi_gather_s8_n(const int8_t* p, int64_t stride, int n) {
  int8_t t[kLanes] = {};
  read_strided(t, p, stride, 0, n);
  return vi_load_s8(t);
}
//@ vi_gather_s8_range
INLINE vi vi_gather_s8_range(const int8_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  int8_t t[kLanes] = {};
  read_strided(t, p, stride, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s8(t), vi_set(fill));
}

//@ vi_load_u8_n
INLINE vi vi_load_u8_n(const uint8_t* p, int n) {
  uint8_t t[kLanes];
  read_lanes(t, p, 0, n);
  return vi_load_u8(t);
}
//@ vi_load_u8_range
INLINE vi vi_load_u8_range(const uint8_t* p, int lo, int hi, int32_t fill) {
  uint8_t t[kLanes];
  read_lanes(t, p, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_u8(t), vi_set(fill));
}
//@ vi_gather_u8
INLINE vi vi_gather_u8(const uint8_t* p, int64_t stride) {
  uint8_t t[kLanes];
  read_strided(t, p, stride, 0, kLanes);
  return vi_load_u8(t);
}
//@ vi_gather_u8_n
INLINE vi vi_gather_u8_n(const uint8_t* p, int64_t stride, int n) {
  uint8_t t[kLanes] = {};
  read_strided(t, p, stride, 0, n);
  return vi_load_u8(t);
}
//@ vi_gather_u8_range
INLINE vi vi_gather_u8_range(const uint8_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  uint8_t t[kLanes] = {};
  read_strided(t, p, stride, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_u8(t), vi_set(fill));
}

//@ vi_load_s16_n
INLINE vi vi_load_s16_n(const int16_t* p, int n) {
  int16_t t[kLanes];
  read_lanes(t, p, 0, n);
  return vi_load_s16(t);
}
//@ vi_load_s16_range
INLINE vi vi_load_s16_range(const int16_t* p, int lo, int hi, int32_t fill) {
  int16_t t[kLanes];
  read_lanes(t, p, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s16(t), vi_set(fill));
}
//@ vi_gather_s16
INLINE vi vi_gather_s16(const int16_t* p, int64_t stride) {
  int16_t t[kLanes];
  read_strided(t, p, stride, 0, kLanes);
  return vi_load_s16(t);
}
//@ vi_gather_s16_n
INLINE vi vi_gather_s16_n(const int16_t* p, int64_t stride, int n) {
  int16_t t[kLanes] = {};
  read_strided(t, p, stride, 0, n);
  return vi_load_s16(t);
}
//@ vi_gather_s16_range
INLINE vi vi_gather_s16_range(const int16_t* p, int64_t stride, int lo, int hi, int32_t fill) {
  int16_t t[kLanes] = {};
  read_strided(t, p, stride, lo, hi);
  return vi_select(lanes_in(lo, hi), vi_load_s16(t), vi_set(fill));
}

//@ vf_bcast_f32
INLINE vf vf_bcast_f32(const float* p) { return vf_set(*p); }
//@ vf_bcast_bf16
INLINE vf vf_bcast_bf16(const uint16_t* p) { return (vf)vi_set((int32_t)((uint32_t)*p << 16)); }
//@ vi_bcast_s32
INLINE vi vi_bcast_s32(const int32_t* p) { return vi_set(*p); }
//@ vi_bcast_s8
INLINE vi vi_bcast_s8(const int8_t* p) { return vi_set(*p); }
//@ vi_bcast_s16
INLINE vi vi_bcast_s16(const int16_t* p) { return vi_set(*p); }
//@ vi_bcast_u8
INLINE vi vi_bcast_u8(const uint8_t* p) { return vi_set(*p); }
