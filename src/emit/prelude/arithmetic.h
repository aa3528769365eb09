// Vector primitives written once for any number of lanes, in terms of those that avx512.h, avx2.h, neon.h and portable.h
// give. Where one of these headers has a primitive of the same name, that one is taken. Semantics: docs/numerics.md.

//@ vf_lt
INLINE vi vf_lt(vf a, vf b) { return (vi)(a < b); }
//@ vf_le
INLINE vi vf_le(vf a, vf b) { return (vi)(a <= b); }
//@ vf_gt
INLINE vi vf_gt(vf a, vf b) { return (vi)(a > b); }
//@ vf_ge
INLINE vi vf_ge(vf a, vf b) { return (vi)(a >= b); }
//@ vf_eq
INLINE vi vf_eq(vf a, vf b) { return (vi)(a == b); }
//@ vf_ne
INLINE vi vf_ne(vf a, vf b) { return (vi)(a != b); }
//@ vi_lt
INLINE vi vi_lt(vi a, vi b) { return (vi)(a < b); }
//@ vi_le
INLINE vi vi_le(vi a, vi b) { return (vi)(a <= b); }
//@ vi_gt
INLINE vi vi_gt(vi a, vi b) { return (vi)(a > b); }
//@ vi_ge
INLINE vi vi_ge(vi a, vi b) { return (vi)(a >= b); }
//@ vi_eq
INLINE vi vi_eq(vi a, vi b) { return (vi)(a == b); }
//@ vi_ne
INLINE vi vi_ne(vi a, vi b) { return (vi)(a != b); }
//@ vf_select
/// `cond`: a mask, each lane all ones or zero.
INLINE vf vf_select(vi cond, vf a, vf b) { return cond ? a : b; }
//@ vi_select
INLINE vi vi_select(vi cond, vi a, vi b) { return cond ? a : b; }
//@ vf_from_mask
INLINE vf vf_from_mask(vi cond) { return (vf)(cond & (vi)vf_set(1.f)); }

//@ vf_neg
INLINE vf vf_neg(vf a) { return -a; }
//@ vf_abs
INLINE vf vf_abs(vf a) { return (vf)((vi)a & vi_set(0x7fffffff)); }
//@ vf_div
INLINE vf vf_div(vf a, vf b) { return a / b; }
//@ vf_rsqrt
/// 1 / sqrt(a): two roundings, within 1.5 ulp.
INLINE vf vf_rsqrt(vf a) { return vf_set(1.f) / vf_sqrt(a); }
//@ vf_max
/// a > b ? a : b; so b where either is NaN, and b of two zeros.
INLINE vf vf_max(vf a, vf b) { return vf_select(vf_gt(a, b), a, b); }
//@ vf_min
/// a < b ? a : b; so b where either is NaN, and b of two zeros.
INLINE vf vf_min(vf a, vf b) { return vf_select(vf_lt(a, b), a, b); }
//@ vi_max
INLINE vi vi_max(vi a, vi b) { return vi_select(vi_gt(a, b), a, b); }
//@ vi_min
INLINE vi vi_min(vi a, vi b) { return vi_select(vi_lt(a, b), a, b); }
//@ vi_abs
/// INT32_MIN stays itself.
INLINE vi vi_abs(vi a) {
  const vi sign = a >> 31;
  return (vi)((vu)(a ^ sign) - (vu)sign);
}

//@ fold_rows
/// Lane i: all lanes of r[i] combined by `op` in tree order, neighbours first; n is a power of two, and lanes repeat every n.
template <int n, class V, class Op>
INLINE V fold_rows(const V* r, Op op) {
  if constexpr (n == 1)
    return r[0];
  else
    return fold_step<n / 2>(fold_rows<n / 2>(r, op), fold_rows<n / 2>(r + n / 2, op), op);
}
//@ fold_rest
/// Blocks of n lanes combined.
template <int n, class V, class Op>
INLINE V fold_rest(V v, Op op) {
  if constexpr (n < int(sizeof(V) / 4))
    return fold_rest<2 * n>(fold_step<n>(v, v, op), op);
  else
    return v;
}
//@ vf_rows_sum
template <int n>
INLINE vf vf_rows_sum(const vf* r) {
  const auto op = [](vf a, vf b) { return a + b; };
  return fold_rest<n>(fold_rows<n>(r, op), op);
}
//@ vf_rows_prod
template <int n>
INLINE vf vf_rows_prod(const vf* r) {
  const auto op = [](vf a, vf b) { return a * b; };
  return fold_rest<n>(fold_rows<n>(r, op), op);
}
//@ vf_rows_max
template <int n>
INLINE vf vf_rows_max(const vf* r) {
  const auto op = [](vf a, vf b) { return vf_max(a, b); };
  return fold_rest<n>(fold_rows<n>(r, op), op);
}
//@ vf_rows_min
template <int n>
INLINE vf vf_rows_min(const vf* r) {
  const auto op = [](vf a, vf b) { return vf_min(a, b); };
  return fold_rest<n>(fold_rows<n>(r, op), op);
}
//@ vi_rows_sum
template <int n>
INLINE vi vi_rows_sum(const vi* r) {
  const auto op = [](vu a, vu b) { return a + b; };
  return (vi)fold_rest<n>(fold_rows<n>((const vu*)r, op), op);
}
//@ vi_rows_prod
template <int n>
INLINE vi vi_rows_prod(const vi* r) {
  const auto op = [](vu a, vu b) { return a * b; };
  return (vi)fold_rest<n>(fold_rows<n>((const vu*)r, op), op);
}
//@ vi_rows_max
template <int n>
INLINE vi vi_rows_max(const vi* r) {
  const auto op = [](vi a, vi b) { return vi_max(a, b); };
  return fold_rest<n>(fold_rows<n>(r, op), op);
}
//@ vi_rows_min
template <int n>
INLINE vi vi_rows_min(const vi* r) {
  const auto op = [](vi a, vi b) { return vi_min(a, b); };
  return fold_rest<n>(fold_rows<n>(r, op), op);
}
//@ vf_hsum
INLINE float vf_hsum(vf v) {
  return fold(v, [](vf a, vf b) { return a + b; })[0];
}
//@ vf_hprod
INLINE float vf_hprod(vf v) {
  return fold(v, [](vf a, vf b) { return a * b; })[0];
}
//@ vf_hmax
INLINE float vf_hmax(vf v) {
  return fold(v, [](vf a, vf b) { return vf_max(a, b); })[0];
}
//@ vf_hmin
INLINE float vf_hmin(vf v) {
  return fold(v, [](vf a, vf b) { return vf_min(a, b); })[0];
}
//@ vi_hsum
INLINE int32_t vi_hsum(vi v) {
  return (int32_t)fold((vu)v, [](vu a, vu b) { return a + b; })[0];
}
//@ vi_hprod
INLINE int32_t vi_hprod(vi v) {
  return (int32_t)fold((vu)v, [](vu a, vu b) { return a * b; })[0];
}
//@ vi_hmax
INLINE int32_t vi_hmax(vi v) {
  return fold(v, [](vi a, vi b) { return vi_max(a, b); })[0];
}
//@ vi_hmin
INLINE int32_t vi_hmin(vi v) {
  return fold(v, [](vi a, vi b) { return vi_min(a, b); })[0];
}
