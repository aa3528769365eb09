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

//@ vf_fma_to
/// acc += a·b where acc lies: on x86 GCC would let sums change places with factors, and spills some of them when a loop has to bring them
/// back.
INLINE void vf_fma_to(vf& acc, vf a, vf b) {
#if defined(__FMA__) && !defined(__clang__)
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
#else
  acc = vf_fma(a, b, acc);
#endif
}
//@ vf_fma_one_to
/// ... of which one factor is an element that no other product uses: instructions of AVX-512 read it from memory.
INLINE void vf_fma_one_to(vf& acc, vf a, vf b) {
#if defined(__AVX512F__)
  acc = vf_fma(a, b, acc);
#else
  vf_fma_to(acc, a, b);
#endif
}
//@ keep
/// The value, to be used from its register: GCC would read memory again for each of a few uses.
template <class V>
INLINE V keep(V v) {
#if defined(__x86_64__)
  __asm__("" : "+v"(v));
#elif defined(__aarch64__)
  __asm__("" : "+w"(v));
#endif
  return v;
}

//@ base
/// The pointer, as if nobody knew where it comes from: GCC would step an address of each access from tile to tile, on the stack.
template <class T>
INLINE T* base(T* p) {
#if defined(__GNUC__)
  __asm__("" : "+r"(p));
#endif
  return p;
}

//@ hold
/// Sums stay in registers from one end of a loop's body to the other. GCC's allocator gives registers first to what it would cost most to
/// do without, factors among them, which then take more of them than are in use at once, and spills the sums that are left over; each
/// mention of a sum makes it dearer, and a new value that is allocated by itself.
template <class... V>
INLINE void hold(V&... sums) {
#if defined(__x86_64__) && !defined(__clang__)
  (([](V& v) { __asm__("" : "+v"(v)); })(sums), ...);
#else
  (void)sizeof...(sums);
#endif
}

//@ fold_step
/// Blocks of `s` lanes from a and b in turn: each is two neighbouring blocks of its vector, combined. Four lanes; wider units have their
/// own.
template <int s, class V, class Op>
INLINE V fold_step(V a, V b, Op op) {
  if constexpr (s == 1)
    return op(__builtin_shufflevector(a, b, 0, 4, 2, 6), __builtin_shufflevector(a, b, 1, 5, 3, 7));
  else
    return op(__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7));
}
//@ fold
/// All lanes combined by `op` in tree order: 2 apart, 1. Four lanes; wider units have their own.
template <class V, class Op>
INLINE V fold(V v, Op op) {
  v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
  return op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
}
//@ fold_tree
/// Lane i: lanes of r[i] combined, in blocks of n as if a vector had n lanes.
template <int n, class V, class Op>
INLINE V fold_tree(const V* r, Op op) {
  if constexpr (n == 1)
    return r[0];
  else
    return fold_step<n / 2>(fold_tree<n / 2>(r, op), fold_tree<n / 2>(r + n / 2, op), op);
}
//@ fold_blocks
/// Blocks of n lanes combined.
template <int n, class V, class Op>
INLINE V fold_blocks(V v, Op op) {
  if constexpr (n < int(sizeof(V) / 4))
    return fold_blocks<2 * n>(fold_step<n>(v, v, op), op);
  else
    return v;
}
//@ fold_rows
/// Lane i: all lanes of r[i] combined by `op` in tree order, neighbours first; n is a power of two, and lanes repeat every n.
template <int n, class V, class Op>
INLINE V fold_rows(const V* r, Op op) {
  return fold_blocks<n>(fold_tree<n>(r, op), op);
}
//@ vf_rows_sum
template <int n>
INLINE vf vf_rows_sum(const vf* r) {
  return fold_rows<n>(r, [](vf a, vf b) { return a + b; });
}
//@ vf_rows_prod
template <int n>
INLINE vf vf_rows_prod(const vf* r) {
  return fold_rows<n>(r, [](vf a, vf b) { return a * b; });
}
//@ vf_rows_max
template <int n>
INLINE vf vf_rows_max(const vf* r) {
  return fold_rows<n>(r, [](vf a, vf b) { return vf_max(a, b); });
}
//@ vf_rows_min
template <int n>
INLINE vf vf_rows_min(const vf* r) {
  return fold_rows<n>(r, [](vf a, vf b) { return vf_min(a, b); });
}
//@ vi_rows_sum
template <int n>
INLINE vi vi_rows_sum(const vi* r) {
  return (vi)fold_rows<n>((const vu*)r, [](vu a, vu b) { return a + b; });
}
//@ vi_rows_prod
template <int n>
INLINE vi vi_rows_prod(const vi* r) {
  return (vi)fold_rows<n>((const vu*)r, [](vu a, vu b) { return a * b; });
}
//@ vi_rows_max
template <int n>
INLINE vi vi_rows_max(const vi* r) {
  return fold_rows<n>(r, [](vi a, vi b) { return vi_max(a, b); });
}
//@ vi_rows_min
template <int n>
INLINE vi vi_rows_min(const vi* r) {
  return fold_rows<n>(r, [](vi a, vi b) { return vi_min(a, b); });
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
