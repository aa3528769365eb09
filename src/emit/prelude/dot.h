// Products of small elements summed into 32-bit lanes: 2 bf16 or 4 bytes a lane. Semantics: docs/numerics.md.

//@ vi_load_group
/// Each lane's 4 bytes, from memory of any alignment.
INLINE vi vi_load_group(const void* p) { return vi_load_s32((const int32_t*)p); }
//@ vi_load_group_n
INLINE vi vi_load_group_n(const void* p, int n) { return vi_load_s32_n((const int32_t*)p, n); }
//@ load_pairs
/// Each lane's 2 bytes as 16-bit numbers.
template <class T>
INLINE vi load_pairs(const T* p) {
  int16_t wide[2 * kLanes];
  for (int i = 0; i < 2 * kLanes; ++i) wide[i] = p[i];
  return vi_load_group(wide);
}
//@ vi_load_group_s8
INLINE vi vi_load_group_s8(const void* p) { return load_pairs((const int8_t*)p); }
//@ vi_load_group_u8
INLINE vi vi_load_group_u8(const void* p) { return load_pairs((const uint8_t*)p); }
//@ vi_load_bytes
INLINE vi vi_load_bytes(const void* p) { return vi_load_s32((const int32_t*)p); }
//@ vi_load_bytes_n
/// The first `bytes` bytes at p, then zeros; nothing else is read.
INLINE vi vi_load_bytes_n(const void* p, int bytes) {
  int32_t t[kLanes] = {};
  __builtin_memcpy(t, p, (unsigned)bytes);
  return vi_load_s32(t);
}
//@ vi_load_bf16
/// Two bytes a lane, as they are.
INLINE vi vi_load_bf16(const uint16_t* p) { return vi_load_s16((const int16_t*)p); }
//@ vi_load_bf16_range
INLINE vi vi_load_bf16_range(const uint16_t* p, int lo, int hi, int32_t fill) { return vi_load_s16_range((const int16_t*)p, lo, hi, fill); }
//@ vi_pair
/// The low halves of each lane's two.
INLINE vi vi_pair(vi low, vi high) { return (vi)(((vu)low & 0xffffu) | ((vu)high << 16)); }
//@ vi_quad
/// The low bytes of each lane's four, the first lowest.
INLINE vi vi_quad(vi a, vi b, vi c, vi d) { return (vi)(((vu)a & 0xffu) | ((vu)b & 0xffu) << 8 | ((vu)c & 0xffu) << 16 | (vu)d << 24); }
//@ vi_store_bytes
INLINE void vi_store_bytes(void* p, vi v) { vi_store_s32((int32_t*)p, v); }
//@ vi_bcast_group
INLINE vi vi_bcast_group(const void* p) {
  int32_t group;
  __builtin_memcpy(&group, p, 4);
  return vi_set(group);
}
//@ vi_bcast_group_of
/// 4 bytes, of which the first `bytes` matter: the others are multiplied by zeros.
INLINE vi vi_bcast_group_of(const void* p, int /*bytes*/) { return vi_bcast_group(p); }
//@ vi_bcast_group_n
/// The first `bytes` < 4 bytes at p, then zeros; nothing else is read.
INLINE vi vi_bcast_group_n(const void* p, int bytes) { return vi_set((int32_t)first_bytes(p, bytes)); }

//@ vf_dpbf16
/// acc + high a * high b, then + low a * low b, each rounded once.
INLINE vf vf_dpbf16(vf acc, vi a, vi b) {
  const vi high = vi_set((int32_t)0xffff0000);
  acc = vf_fma((vf)(a & high), (vf)(b & high), acc);
  return vf_fma((vf)((vu)a << 16), (vf)((vu)b << 16), acc);
}
//@ vi_dpwssd
/// acc + the sum of 2 products of signed 16-bit numbers, modulo 2^32.
INLINE vi vi_dpwssd(vi acc, vi a, vi b) {
  const vu low = (vu)((vi)((vu)a << 16) >> 16) * (vu)((vi)((vu)b << 16) >> 16);
  return (vi)((vu)acc + low + (vu)(a >> 16) * (vu)(b >> 16));
}
//@ vi_dpbusd
/// acc + the sum of 4 products of bytes, a unsigned and b signed; exact modulo 2^32.
INLINE vi vi_dpbusd(vi acc, vi a, vi b) {
  vu sum = (vu)acc;
  for (int k = 0; k < 32; k += 8) sum += ((vu)a >> k & 255) * (vu)((vi)((vu)b << (24 - k)) >> 24);
  return (vi)sum;
}
//@ vi_dpbssd
/// acc + the sum of 4 products of signed bytes; exact modulo 2^32.
INLINE vi vi_dpbssd(vi acc, vi a, vi b) {
  vu sum = (vu)acc;
  for (int k = 0; k < 32; k += 8) sum += (vu)((vi)((vu)a << (24 - k)) >> 24) * (vu)((vi)((vu)b << (24 - k)) >> 24);
  return (vi)sum;
}
//@ vi_dpbuud
/// acc + the sum of 4 products of unsigned bytes; exact modulo 2^32.
INLINE vi vi_dpbuud(vi acc, vi a, vi b) {
  vu sum = (vu)acc;
  for (int k = 0; k < 32; k += 8) sum += ((vu)a >> k & 255) * ((vu)b >> k & 255);
  return (vi)sum;
}
