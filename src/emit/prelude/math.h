// Elementary functions written once for any number of lanes. Polynomials and rationals are minimax fits of the stated error
// measure (Lawson's iteration on Chebyshev nodes in 40 digits, made rational by Sanathanan and Koerner's), rounded to float
// one coefficient after the other while the rest is refitted. Largest errors over all floats: docs/numerics.md.

//@ vf_clamp
/// x held inside [lo, hi]; NaN stays NaN.
INLINE vf vf_clamp(vf x, float lo, float hi) { return vf_min(vf_set(hi), vf_max(vf_set(lo), x)); }
//@ product
/// a * b, rounded: not contracted into a following sum, so that its rounding error is well defined.
INLINE vf product(vf a, vf b) {
  vf p = a * b;
#if defined(__x86_64__)
  __asm__("" : "+v"(p));
#elif defined(__aarch64__)
  __asm__("" : "+w"(p));
#else
  __asm__("" : "+m"(p));
#endif
  return p;
}
//@ fma_residual
/// a * b + c where the exact result has at most 24 bits, on any machine.
INLINE vf fma_residual(vf a, vf b, vf c) { return vf_fma(a, b, c); }
//@ quotient
/// a / b within one ulp, for b and a / b far from the ends of the exponent range.
INLINE vf quotient(vf a, vf b) { return a / b; }

//@ integer_shift
/// Added to x, |x| <= 2^21, it rounds to an integer n, and the sum's last bits are those of n + 254.
constexpr float integer_shift = 0x1.8p23f + 254;
//@ scale_by_power
/// p * 2^n, rounded once, for 0.5 <= p <= 2 and integers -160 <= n <= 160; `shifted`: n + integer_shift. A NaN p stays.
INLINE vf scale_by_power(vf p, vf shifted) {
  const vi twice = (vi)shifted << 22, exponents = vi_set(INT32_MIN >> 8);  // two powers of two, whose exponents are halves of n
  const vf smaller = (vf)(twice & exponents), larger = (vf)((twice + vi_set(1 << 22)) & exponents);
  return p * smaller * larger;  // the first is normal, so that only the last can overflow or lose bits
}
//@ reduced_argument
struct reduced_argument {
  vf sum, n, r;
};
//@ reduce_by_ln2
/// x = n ln 2 + r. `shift`, 1.5 times a power of two, rounds: what it is added to, `sum`, ends with the bits of n in units of shift's last
/// place.
INLINE reduced_argument reduce_by_ln2(vf x, vf shift) {
  const vf sum = vf_fma(x, vf_set(0x1.715476p0f), shift), n = sum - shift;
  const vf r = vf_fma(n, vf_set(-0x1.62e4p-1f), x);  // ln 2 in two parts, the first short: n times it is exact
  return {sum, n, vf_fma(n, vf_set(-0x1.7f7d1cp-20f), r)};
}
//@ exp_of_rest
/// exp(r) for |r| <= ln 2 / 2: 1 + r + r^2 P(r) (relative error 2^-28.2).
INLINE vf exp_of_rest(vf r) {
  vf p = vf_fma(vf_set(0x1.6a4960p-10f), r, vf_set(0x1.1239a0p-7f));
  p = vf_fma(p, r, vf_set(0x1.5558b4p-5f));
  p = vf_fma(p, r, vf_set(0x1.555492p-3f));
  p = vf_fma(p, r, vf_set(0x1.fffffcp-2f));
  return vf_fma(p, r * r, r) + vf_set(1.f);
}
//@ exp_unclamped
/// exp(x) for -104 <= x <= 89: x = n ln 2 + r, and 2^n exp(r).
INLINE vf exp_unclamped(vf x) {
  const reduced_argument a = reduce_by_ln2(x, vf_set(integer_shift));
  return scale_by_power(exp_of_rest(a.r), a.sum);
}
//@ exp_below
/// The same for -104 <= x <= 43: 2^(n + 64) is a float then, and the product with 2^-64 rounds once.
INLINE vf exp_below(vf x) {
  const reduced_argument a = reduce_by_ln2(x, vf_set(0x1.8p23f + 64 + 127));  // the sum ends with the exponent of 2^(n + 64)
  return exp_of_rest(a.r) * (vf)((vi)a.sum << 23) * vf_set(0x1p-64f);
}
//@ vf_exp
INLINE vf vf_exp(vf x) { return exp_unclamped(vf_clamp(x, -104.f, 89.f)); }
//@ vf_exp_nonpositive
/// exp(x) for x <= 0, and up to 43.
INLINE vf vf_exp_nonpositive(vf x) { return exp_below(vf_max(vf_set(-104.f), x)); }
//@ vf_sigmoid
/// 1 / (1 + exp(-x)), by exp(-|x|) so that nothing overflows.
INLINE vf vf_sigmoid(vf x) {
  const vf e = exp_below(vf_max(vf_set(-104.f), -vf_abs(x)));
  return quotient(vf_select(vf_lt(x, vf_set(0.f)), e, vf_set(1.f)), e + vf_set(1.f));
}

//@ mantissa_exponent
struct mantissa_exponent {
  vf m, e;
};
//@ split_exponent
/// x = m 2^e with 0.75 <= m < 1.5 for x > 0; e is infinite with x, -infinite for zero, NaN for NaN. No meaning for x < 0.
INLINE mantissa_exponent split_exponent(vf x) {
  const vi tiny = vf_lt(x, vf_set(0x1p-126f));
  const vi bits = (vi)vf_select(tiny, x * vf_set(0x1p23f), x) - vi_set(0x3f400000);
  const vf m = (vf)((bits & vi_set(0x7fffff)) + vi_set(0x3f400000));
  vf e = vf_from_vi((bits >> 23) - (tiny & vi_set(23)));
  e = vf_select(vf_lt(x, vf_set(__builtin_inff())), e, x);
  return {m, vf_select(vf_eq(x, vf_set(0.f)), vf_set(-__builtin_inff()), e)};
}
//@ log_unchecked
/// log(x) for x >= 0: with x = m 2^e and f = m - 1, e ln 2 + f - f^2 / 2 + f^3 P(f) (error relative to f 2^-27.6).
INLINE vf log_unchecked(vf x) {
  const mantissa_exponent s = split_exponent(x);
  const vf f = s.m - vf_set(1.f), f2 = f * f;
  vf p = vf_fma(vf_set(-0x1.7a43f2p-5f), f, vf_set(0x1.b17a6cp-4f));
  p = vf_fma(p, f, vf_set(-0x1.0e0e86p-3f));
  p = vf_fma(p, f, vf_set(0x1.284b38p-3f));
  p = vf_fma(p, f, vf_set(-0x1.54dd54p-3f));
  p = vf_fma(p, f, vf_set(0x1.996b02p-3f));
  p = vf_fma(p, f, vf_set(-0x1.000082p-2f));
  p = vf_fma(p, f, vf_set(0x1.5555a2p-2f));
  p = vf_fma(p, f, vf_set(-0.5f));
  p = vf_fma(s.e, vf_set(0x1.7f7d1cp-20f), p * f2);
  return vf_fma(s.e, vf_set(0x1.62e4p-1f), p + f);
}
//@ vf_log
INLINE vf vf_log(vf x) { return (vf)((vi)log_unchecked(x) | vf_lt(x, vf_set(0.f))); }

//@ vf_tanh
/// h / (h + 1) with h = (exp(2|x|) - 1) / 2, which has no cancellation: |x| = n ln 2 / 2 + s and (exp(2s) - 1) / 2 is
/// s + s^2 P(s) (relative error 2^-25). Beyond 9.02 tanh rounds to 1.
INLINE vf vf_tanh(vf x) {
  const vf a = vf_min(vf_set(9.02f), vf_abs(x));
  const vf shift = vf_set(0x1.8p23f);  // adding it rounds to an integer, which stands in the low bits
  const vf t = vf_fma(a, vf_set(0x1.715476p1f), shift);
  const vf s = vf_fma(t - shift, vf_set(-0x1.62e430p-2f), a);
  vf p = vf_fma(vf_set(0x1.6d6518p-5f), s, vf_set(0x1.122cc6p-3f));
  p = vf_fma(p, s, vf_set(0x1.5554d4p-2f));
  p = vf_fma(p, s, vf_set(0x1.5554aap-1f));
  p = vf_fma(p, s, vf_set(1.f));
  p = vf_fma(p, s * s, s);
  const vf power = (vf)(((vi)t << 23) + 0x3f800000);  // 2^n
  const vf h = vf_fma(power, p, vf_fma(power, vf_set(0.5f), vf_set(-0.5f)));
  return (vf)((vi)quotient(h, h + vf_set(1.f)) | ((vi)x & vi_set(INT32_MIN)));
}
//@ exp2_minus_1
/// 2^f - 1 for |f| <= 0.5 (error relative to 2^f 2^-28.3).
INLINE vf exp2_minus_1(vf f) {
  vf p = vf_fma(vf_set(0x1.417e46p-13f), f, vf_set(0x1.5f0abep-10f));
  p = vf_fma(p, f, vf_set(0x1.3b2dd0p-7f));
  p = vf_fma(p, f, vf_set(0x1.c6af78p-5f));
  p = vf_fma(p, f, vf_set(0x1.ebfbdcp-3f));
  p = vf_fma(p, f, vf_set(0x1.62e430p-1f));
  return p * f;
}
//@ vf_erf
/// 1 - 2^R with R = -|x| T(|x|): one range, no division. T minimises the error that is left in erf (relative 2^-24.7). With
/// R = n + f, erf = (1 - 2^n) - 2^n (2^f - 1), where nothing cancels. Beyond 3.93 erf rounds to 1.
INLINE vf vf_erf(vf x) {
  const vf a = vf_min(vf_set(3.93f), vf_abs(x));
  vf p = vf_fma(vf_set(0x1.f54116p-15f), a, vf_set(-0x1.2436f4p-11f));
  p = vf_fma(p, a, vf_set(0x1.df3e5cp-10f));
  p = vf_fma(p, a, vf_set(0x1.15fd02p-12f));
  p = vf_fma(p, a, vf_set(-0x1.c854a2p-6f));
  p = vf_fma(p, a, vf_set(0x1.2fc338p-3f));
  p = vf_fma(p, a, vf_set(0x1.d63e62p-1f));
  p = vf_fma(p, a, vf_set(0x1.a0be84p0f));
  const vf r = p * -a;
  const vf shift = vf_set(0x1.8p23f);  // adding it rounds to an integer, which stands in the low bits
  const vf t = r + shift;
  const vf f = r - (t - shift);
  const vf power = (vf)(((vi)t << 23) + 0x3f800000);  // 2^n
  const vf y = vf_fma(-power, exp2_minus_1(f), vf_set(1.f) - power);
  return (vf)((vi)y | ((vi)x & vi_set(INT32_MIN)));
}

//@ log2_high_low
struct log2_high_low {
  vf high, low;
};
//@ log2_extended
/// log2(x) for x >= 0 as a sum (`low` has no meaning where `high` is infinite), to about 2^-30 of itself: with m = (1 + q) / (1 - q), log m
/// = 2 q + q^3 P(q^2).
INLINE log2_high_low log2_extended(vf x) {
  const mantissa_exponent s = split_exponent(x);
  const vi large = vf_gt(s.m, vf_set(0x1.6a09e6p0f));  // to sqrt(1/2) <= m <= sqrt(2): the smallest |q|
  const vf m = vf_select(large, s.m * vf_set(0.5f), s.m), e = s.e + vf_from_mask(large);
  const vf f = m - vf_set(1.f), d = m + vf_set(1.f), d_low = m - (d - vf_set(1.f));
  const vf reciprocal = vf_set(2.f) / d;
  const vf q = product(f, reciprocal);  // twice the q above
  const vf half = q * vf_set(-0.5f);
  const vf rest = vf_fma(half, d_low, fma_residual(half, d, f));
  const vf u = q * q, correction = rest * reciprocal;  // q should be q + correction, and its cube grow accordingly
  vf p = vf_fma(vf_set(0x1.d3cafcp-12f), u, vf_set(0x1.24c1c0p-9f));
  p = vf_fma(p, u, vf_set(0x1.999804p-7f));
  p = vf_fma(p, u, vf_set(0x1.555556p-4f));
  const vf tail = vf_fma(p, u * q, vf_fma(correction, u * vf_set(0.25f), correction));  // log m = q + tail
  const vf high = product(q, vf_set(0x1.715476p0f));
  vf low = fma_residual(q, vf_set(0x1.715476p0f), -high);
  low = vf_fma(q, vf_set(0x1.4ae0cp-26f), low);
  low = vf_fma(tail, vf_set(0x1.715476p0f), low);
  const vf rough = e + high;
  low = (e - rough) + high + low;
  const vf sum = rough + low;
  return {vf_select(vf_lt(vf_abs(rough), vf_set(__builtin_inff())), sum, rough), low - (sum - rough)};
}
//@ exp2_unclamped
/// 2^(a + b) for |a| <= 160 and b small.
INLINE vf exp2_unclamped(vf a, vf b) {
  const vf shifted = a + vf_set(integer_shift), n = shifted - vf_set(integer_shift);
  return scale_by_power(exp2_minus_1((a - n) + b) + vf_set(1.f), shifted);
}
//@ vf_pow
/// C's pow: 1 for x = 1 or y = 0, NaN for negative finite x and fractional y, signed results for odd integers y.
INLINE vf vf_pow(vf x, vf y) {
  const vf one = vf_set(1.f), zero = vf_set(0.f);
  const log2_high_low l = log2_extended(vf_abs(x));
  const vf yc = vf_clamp(y, -0x1p40f, 0x1p40f);  // beyond, every base but 1 over- or underflows
  const vf high = product(yc, l.high);
  const vf low = vf_fma(yc, l.low, fma_residual(yc, l.high, -high));
  const vf r = exp2_unclamped(vf_clamp(high, -155.f, 155.f), (vf)((vi)low & vf_lt(vf_abs(high), vf_set(155.f))));
  const vi negative = (vi)x >> 31;
  const vf half = y * vf_set(0.5f);
  const vi whole = vf_eq(vf_floor(y), y), odd = whole & vf_ne(vf_floor(half), half);
  const vi invalid = vf_lt(x, zero) & vf_gt(x, vf_set(-__builtin_inff())) & ~whole;
  const vf sign = (vf)(negative & odd & vi_set(INT32_MIN));
  const vf result = (vf)(((vi)r | (vi)sign) | invalid);
  return vf_select(vf_eq(x, one) | vf_eq(y, zero), one, result);
}
