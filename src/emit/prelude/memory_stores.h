// Stores written once for any number of lanes; see memory_loads.h.

//@ write_lanes
/// p[i] = t[i] for i < n, by powers of two: no call, and straight-line code for a constant n.
template <class T>
INLINE void write_lanes(T* p, const T* t, int n) {
  if (n == kLanes) return (void)__builtin_memcpy(p, t, kLanes * sizeof(T));
  int i = 0;
  if (kLanes > 8 && n & 8) __builtin_memcpy(p, t, 8 * sizeof(T)), i = 8;
  if (kLanes > 4 && n & 4) __builtin_memcpy(p + i, t + i, 4 * sizeof(T)), i += 4;
  if (n & 2) __builtin_memcpy(p + i, t + i, 2 * sizeof(T)), i += 2;
  if (n & 1) __builtin_memcpy(p + i, t + i, sizeof(T));
}
//@ write_strided
/// p[i * stride] = t[i] for i < n, in this order; nothing else is touched.
template <class T>
INLINE void write_strided(T* p, int64_t stride, const T* t, int n) {
  for (int i = 0; i < n; ++i) p[i * stride] = t[i];
}

//@ vf_store_f32_n
INLINE void vf_store_f32_n(float* p, vf v, int n) {
  float t[kLanes];
  vf_store_f32(t, v);
  write_lanes(p, t, n);
}
//@ vf_scatter_f32
INLINE void vf_scatter_f32(float* p, int64_t stride, vf v) { vf_scatter_f32_n(p, stride, v, kLanes); }
//@ vf_scatter_f32_n
INLINE void vf_scatter_f32_n(float* p, int64_t stride, vf v, int n) {
  float t[kLanes];
  vf_store_f32(t, v);
  write_strided(p, stride, t, n);
}

//@ stream_piece_f32
/// A piece of a row: the lines that end in it go past the caches, what begins the next one moves in front of `from`, where the row's next
/// piece will be. In front of the piece there are `before` elements of the row, behind it `after`, which say that it is not the last one.
INLINE void stream_piece_f32(float* to, float* from, int64_t n, int64_t before, int64_t after) {
  const int64_t kLine = 16, past = (uintptr_t)to / sizeof(float) % kLine;
  const int64_t end = after > 0 ? n - (uintptr_t)(to + n) / sizeof(float) % kLine : n;
  int64_t i = -(past < before ? past : before);
  const int64_t room = -((uintptr_t)(to + i) / sizeof(float)) % kLanes, part = room < end - i ? room : end - i;
  if (part > 0) vf_store_f32_n(to + i, vf_load_f32(from + i), int(part)), i += part;
  if (i < end) {
    float* const vectors = (float*)__builtin_assume_aligned(to + i, sizeof(vf));
    int64_t k = 0;
    for (; i + k + kLanes <= end; k += kLanes) vf_stream_f32(vectors + k, vf_load_f32(from + i + k));
    if (i + k < end) vf_store_f32_n(vectors + k, vf_load_f32(from + i + k), int(end - i - k));
  }
  if (after > 0)
    for (int64_t k = -kLine; k < 0; k += kLanes) vf_store_f32(from + k, vf_load_f32(from + n + k));
}

//@ vf_store_bf16_n
INLINE void vf_store_bf16_n(uint16_t* p, vf v, int n) {
  uint16_t t[kLanes];
  vf_store_bf16(t, v);
  write_lanes(p, t, n);
}
//@ vf_scatter_bf16
INLINE void vf_scatter_bf16(uint16_t* p, int64_t stride, vf v) { vf_scatter_bf16_n(p, stride, v, kLanes); }
//@ vf_scatter_bf16_n
INLINE void vf_scatter_bf16_n(uint16_t* p, int64_t stride, vf v, int n) {
  uint16_t t[kLanes];
  vf_store_bf16(t, v);
  write_strided(p, stride, t, n);
}

//@ vf_store_f16_n
INLINE void vf_store_f16_n(uint16_t* p, vf v, int n) {
  uint16_t t[kLanes];
  vf_store_f16(t, v);
  write_lanes(p, t, n);
}
//@ vf_scatter_f16
INLINE void vf_scatter_f16(uint16_t* p, int64_t stride, vf v) { vf_scatter_f16_n(p, stride, v, kLanes); }
//@ vf_scatter_f16_n
INLINE void vf_scatter_f16_n(uint16_t* p, int64_t stride, vf v, int n) {
  uint16_t t[kLanes];
  vf_store_f16(t, v);
  write_strided(p, stride, t, n);
}

//@ vi_store_s32_n
INLINE void vi_store_s32_n(int32_t* p, vi v, int n) {
  int32_t t[kLanes];
  vi_store_s32(t, v);
  write_lanes(p, t, n);
}
//@ vi_scatter_s32
INLINE void vi_scatter_s32(int32_t* p, int64_t stride, vi v) { vi_scatter_s32_n(p, stride, v, kLanes); }
//@ vi_scatter_s32_n
INLINE void vi_scatter_s32_n(int32_t* p, int64_t stride, vi v, int n) {
  int32_t t[kLanes];
  vi_store_s32(t, v);
  write_strided(p, stride, t, n);
}

//@ vi_store_s8_n
INLINE void vi_store_s8_n(int8_t* p, vi v, int n) {
  int8_t t[kLanes];
  vi_store_s8(t, v);
  write_lanes(p, t, n);
}
//@ vi_scatter_s8
INLINE void vi_scatter_s8(int8_t* p, int64_t stride, vi v) { vi_scatter_s8_n(p, stride, v, kLanes); }
//@ vi_scatter_s8_n
INLINE void vi_scatter_s8_n(int8_t* p, int64_t stride, vi v, int n) {
  int8_t t[kLanes];
  vi_store_s8(t, v);
  write_strided(p, stride, t, n);
}

//@ vi_store_u8_n
INLINE void vi_store_u8_n(uint8_t* p, vi v, int n) {
  uint8_t t[kLanes];
  vi_store_u8(t, v);
  write_lanes(p, t, n);
}
//@ vi_scatter_u8
INLINE void vi_scatter_u8(uint8_t* p, int64_t stride, vi v) { vi_scatter_u8_n(p, stride, v, kLanes); }
//@ vi_scatter_u8_n
INLINE void vi_scatter_u8_n(uint8_t* p, int64_t stride, vi v, int n) {
  uint8_t t[kLanes];
  vi_store_u8(t, v);
  write_strided(p, stride, t, n);
}

//@ vi_store_s16_n
INLINE void vi_store_s16_n(int16_t* p, vi v, int n) {
  int16_t t[kLanes];
  vi_store_s16(t, v);
  write_lanes(p, t, n);
}
//@ vi_scatter_s16
INLINE void vi_scatter_s16(int16_t* p, int64_t stride, vi v) { vi_scatter_s16_n(p, stride, v, kLanes); }
//@ vi_scatter_s16_n
INLINE void vi_scatter_s16_n(int16_t* p, int64_t stride, vi v, int n) {
  int16_t t[kLanes];
  vi_store_s16(t, v);
  write_strided(p, stride, t, n);
}

//@ vf_store_s32
INLINE void vf_store_s32(int32_t* p, vf v) { vi_store_s32(p, vi_from_vf_rne(v)); }
//@ vf_store_s32_n
INLINE void vf_store_s32_n(int32_t* p, vf v, int n) { vi_store_s32_n(p, vi_from_vf_rne(v), n); }
//@ vf_scatter_s32
INLINE void vf_scatter_s32(int32_t* p, int64_t stride, vf v) { vi_scatter_s32(p, stride, vi_from_vf_rne(v)); }
//@ vf_scatter_s32_n
INLINE void vf_scatter_s32_n(int32_t* p, int64_t stride, vf v, int n) { vi_scatter_s32_n(p, stride, vi_from_vf_rne(v), n); }

//@ vf_store_s8
INLINE void vf_store_s8(int8_t* p, vf v) { vi_store_s8(p, vi_from_vf_rne(v)); }
//@ vf_store_s8_n
INLINE void vf_store_s8_n(int8_t* p, vf v, int n) { vi_store_s8_n(p, vi_from_vf_rne(v), n); }
//@ vf_scatter_s8
INLINE void vf_scatter_s8(int8_t* p, int64_t stride, vf v) { vi_scatter_s8(p, stride, vi_from_vf_rne(v)); }
//@ vf_scatter_s8_n
INLINE void vf_scatter_s8_n(int8_t* p, int64_t stride, vf v, int n) { vi_scatter_s8_n(p, stride, vi_from_vf_rne(v), n); }

//@ vf_store_u8
INLINE void vf_store_u8(uint8_t* p, vf v) { vi_store_u8(p, vi_from_vf_rne(v)); }
//@ vf_store_u8_n
INLINE void vf_store_u8_n(uint8_t* p, vf v, int n) { vi_store_u8_n(p, vi_from_vf_rne(v), n); }
//@ vf_scatter_u8
INLINE void vf_scatter_u8(uint8_t* p, int64_t stride, vf v) { vi_scatter_u8(p, stride, vi_from_vf_rne(v)); }
//@ vf_scatter_u8_n
INLINE void vf_scatter_u8_n(uint8_t* p, int64_t stride, vf v, int n) { vi_scatter_u8_n(p, stride, vi_from_vf_rne(v), n); }

//@ vi_store_f32
INLINE void vi_store_f32(float* p, vi v) { vf_store_f32(p, vf_from_vi(v)); }
//@ vi_store_f32_n
INLINE void vi_store_f32_n(float* p, vi v, int n) { vf_store_f32_n(p, vf_from_vi(v), n); }
//@ vi_scatter_f32
INLINE void vi_scatter_f32(float* p, int64_t stride, vi v) { vf_scatter_f32(p, stride, vf_from_vi(v)); }
//@ vi_scatter_f32_n
INLINE void vi_scatter_f32_n(float* p, int64_t stride, vi v, int n) { vf_scatter_f32_n(p, stride, vf_from_vi(v), n); }
