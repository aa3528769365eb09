// What AVX-512 units have in common, whatever the length of their vectors, in terms of the primitives of avx512.h and avx512vl.h.

//@ vf_round_bf16
INLINE vf vf_round_bf16(vf v) { return (vf)widen_bf16(narrow_bf16(v)); }
//@ vf_scatter_f32
INLINE void vf_scatter_f32(float* p, int64_t stride, vf v) { scatter_bits(p, stride, (vi)v, mask_n(kLanes)); }
//@ vf_scatter_f32_n
INLINE void vf_scatter_f32_n(float* p, int64_t stride, vf v, int n) { scatter_bits(p, stride, (vi)v, mask_n(n)); }
//@ vi_scatter_s32
INLINE void vi_scatter_s32(int32_t* p, int64_t stride, vi v) { scatter_bits(p, stride, v, mask_n(kLanes)); }
//@ vi_scatter_s32_n
INLINE void vi_scatter_s32_n(int32_t* p, int64_t stride, vi v, int n) { scatter_bits(p, stride, v, mask_n(n)); }

//@ quotient
/// a / b within one ulp, for b and a / b far from the ends of the exponent range: four instructions, not the divider.
INLINE vf quotient(vf a, vf b) {
  const vf r = reciprocal_14(b), q = a * r;
  return vf_fma(vf_fma(-q, b, a), r, q);
}
//@ scale_by_power
INLINE vf scale_by_power(vf p, vf shifted) { return times_power(p, shifted - vf_set(integer_shift)); }
//@ sixteenths
/// 2^(i / 16)
alignas(64) static const float sixteenths[16] = {0x1p0f,        0x1.0b5586p0f, 0x1.172b84p0f, 0x1.2387a6p0f, 0x1.306fep0f,  0x1.3dea64p0f,
                                                 0x1.4bfdaep0f, 0x1.5ab07ep0f, 0x1.6a09e6p0f, 0x1.7a1148p0f, 0x1.8ace54p0f, 0x1.9c4918p0f,
                                                 0x1.ae89fap0f, 0x1.c199bep0f, 0x1.d5818ep0f, 0x1.ea4afap0f};
//@ vf_exp
/// exp(x) = 2^n T exp(r) for x = n ln 2 + r: n is x / ln 2 in sixteenths, |r| <= ln 2 / 32, and T = 2^(n mod 1) is one of
/// 16 floats in registers, chosen by the last bits of the sum that rounds. exp(r) is 1 + r + r^2 P(r) (relative error 2^-29). Where the
/// result overflows or vanishes, r means nothing and only has to be small: n alone makes it infinite, zero or NaN.
INLINE vf vf_exp(vf x) {
  const reduced_argument a = reduce_by_ln2(x, vf_set(0x1.8p19f));  // n: in sixteenths
  const vf r = at_most(a.r, 0.0625f), t = one_of_16(sixteenths, (vi)a.sum);
  const vf q = vf_fma(vf_fma(vf_set(0x1.55560ep-3f), r, vf_set(0x1.00021ep-1f)), r * r, r);
  return times_power(vf_fma(t, q, t), a.n);
}
//@ exp_below
INLINE vf exp_below(vf x) { return exp_unclamped(x); }
//@ vf_exp_nonpositive
INLINE vf vf_exp_nonpositive(vf x) { return vf_exp(x); }
//@ erf_pieces
/// Of each piece its centre, and the coefficients of erf around it.
alignas(64) static const float erf_pieces[7][16] = {
    {0.f, 0x1.10006p-2f, 0x1.0fffa2p-1f, 0x1.97ffe6p-1f, 0x1.0fff9p0f, 0x1.540066p0f, 0x1.980042p0f, 0x1.dbffeep0f, 0x1.0fffb8p1f,
     0x1.32003p1f, 0x1.53ff88p1f, 0x1.75ff76p1f, 0x1.97fb66p1f, 0x1.ba176ep1f, 0x1.dc176ep1f, 0x1.fe176ep1f},
    {0.f, 0x1.2bda4p-2f, 0x1.185556p-1f, 0x1.7b0048p-1f, 0x1.bbeebep-1f, 0x1.e11a66p-1f, 0x1.f39bcep-1f, 0x1.fb9f5ep-1f, 0x1.fea41ep-1f,
     0x1.ffa14ap-1f, 0x1.ffe96ap-1f, 0x1.fffb4ap-1f, 0x1.ffff24p-1f, 0x1.ffffdep-1f, 0x1.fffffcp-1f, 0x1p0f},
    {0x1.20dd76p0f, 0x1.0d2f9ap0f, 0x1.b3ab54p-1f, 0x1.322838p-1f, 0x1.75aa76p-2f, 0x1.8c059p-3f, 0x1.6c7d38p-4f, 0x1.23520cp-5f,
     0x1.946612p-7f, 0x1.e770ep-9f, 0x1.fe4bdp-11f, 0x1.cfe01p-13f, 0x1.6e7748p-15f, 0x1.f33e9ep-18f, 0x1.282ccap-20f, 0x1.b951bep-24f},
    {-0x1.d307bep-17f, -0x1.1e0186p-2f, -0x1.cee3b2p-2f, -0x1.e7ef4p-2f, -0x1.8d04d6p-2f, -0x1.06fcc6p-2f, -0x1.22750cp-3f, -0x1.0ed6eap-4f,
     -0x1.adab16p-6f, -0x1.234f64p-7f, -0x1.52d366p-9f, -0x1.52bdaep-11f, -0x1.23b2bcp-13f, -0x1.31f372p-15f, -0x1.011458p-16f,
     -0x1.affea4p-14f},
    {-0x1.809ff6p-2f, -0x1.344aeep-2f, -0x1.fa1798p-4f, 0x1.b8cfdcp-5f, 0x1.395282p-3f, 0x1.4db224p-3f, 0x1.efb9fap-4f, 0x1.1f2deep-4f,
     0x1.0ea7acp-5f, 0x1.a7acc4p-7f, 0x1.16c234p-8f, 0x1.36aea4p-10f, 0x1.26f66cp-12f, 0x1.d99c1ap-15f, 0x1.41f402p-17f, -0x1.8955fap-9f},
    {-0x1.8f2c0ap-8f, 0x1.0e766cp-3f, 0x1.755d5ep-3f, 0x1.18562cp-3f, 0x1.8b018ep-5f, -0x1.6944ap-6f, -0x1.8fa398p-5f, -0x1.607564p-5f,
     -0x1.b09cd4p-6f, -0x1.9bc31ep-7f, -0x1.3d3bd2p-8f, -0x1.94b40ep-10f, -0x1.b4e01p-12f, 0x1.102812p-11f, 0x1.43e7e6p-11f,
     -0x1.d9056cp-6f},
    {0x1.1447b8p-3f, 0x1.3bf4dp-4f, -0x1.ebebcp-11f, -0x1.e4591p-5f, -0x1.0e0bf6p-4f, -0x1.2e1196p-5f, -0x1.5300fcp-8f, 0x1.642402p-7f,
     0x1.975d94p-7f, 0x1.08839cp-7f, 0x1.f68f22p-9f, 0x1.75a204p-10f, 0x1.c616bep-12f, 0x1.81202ap-13f, 0x1.a659cp-14f, -0x1.707452p-4f}};
//@ vf_erf
/// |x| lies in one of 16 pieces, 17/64 wide, by the last bits of the sum that rounds; there erf is c0 + f P(f), with f the distance from a
/// centre at which erf is nearly a float (Gal). Each coefficient is chosen from registers: no division. Relative error 2^-24.2, where
/// 2 / sqrt(pi) is rounded. From 3.93 on erf rounds to 1.
INLINE vf vf_erf(vf x) {
  const vf a = vf_min(vf_set(4.f), vf_abs(x));
  const vi piece = (vi)vf_fma(a, vf_set(64 / 17.f), vf_set(0x1.8p23f));
  const vf f = a - one_of_16(erf_pieces[0], piece);
  vf p = one_of_16(erf_pieces[6], piece);
#pragma GCC unroll 5
  for (int i = 5; i > 0; --i) p = vf_fma(p, f, one_of_16(erf_pieces[i], piece));
  return (vf)((vi)p | ((vi)x & vi_set(INT32_MIN)));
}
//@ vf_log
INLINE vf vf_log(vf x) { return log_unchecked(x); }

//@ vf_dpbf16 ? avx512bf16
INLINE vf vf_dpbf16(vf acc, vi a, vi b) {
#if defined(__AVX512BF16__) && !defined(__clang__)
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "vm"(b));  // by the intrinsic, GCC moves sums to and fro between registers
  return acc;
#elif defined(__AVX512BF16__)
  return products_bf16(acc, a, b);
#else
  const vi high = vi_set((int32_t)0xffff0000);
  acc = vf_fma((vf)(a & high), (vf)(b & high), acc);
  return vf_fma((vf)((vu)a << 16), (vf)((vu)b << 16), acc);
#endif
}
//@ vi_dpbusd ? avx512vnni
INLINE vi vi_dpbusd(vi acc, vi a, vi b) {
#if defined(__AVX512VNNI__) && !defined(__clang__)
  __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "vm"(b));  // as above
  return acc;
#elif defined(__AVX512VNNI__)
  return products_bytes(acc, a, b);
#else
  return dot_words(acc, even_unsigned(a), odd_unsigned(a), even_signed(b), odd_signed(b));
#endif
}
//@ vi_dpbssd ? avx512vnni
INLINE vi vi_dpbssd(vi acc, vi a, vi b) {
#if defined(__AVX512VNNI__)
  const vi offset = vi_set((int32_t)0x80808080);  // a + 128 is unsigned; 128 b is taken off again
  return vi_dpbusd(acc, a ^ offset, b) - vi_dpbusd(vi_set(0), offset, b);
#else
  return dot_words(acc, even_signed(a), odd_signed(a), even_signed(b), odd_signed(b));
#endif
}
//@ vi_dpbuud ? avx512vnni
INLINE vi vi_dpbuud(vi acc, vi a, vi b) {
#if defined(__AVX512VNNI__)
  const vi offset = vi_set((int32_t)0x80808080);  // b - 128 is signed; -128 a is taken off again
  return vi_dpbusd(acc, a, b ^ offset) - vi_dpbusd(vi_set(0), a, offset);
#else
  return dot_words(acc, even_unsigned(a), odd_unsigned(a), even_unsigned(b), odd_unsigned(b));
#endif
}
