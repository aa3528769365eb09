// Structures of a few neighbours, taken apart and put together: vectors along an axis that steps over 2 to 8 elements. Written once for
// any number of lanes, in terms of `two_of`, which the headers of vector units give where they have an instruction for it.

//@ two_of
/// Lane i: lane from[i] of a, or from kLanes on lane from[i] - kLanes of b.
INLINE vf two_of(vf a, vi from, vf b) {
  vf r;
  for (int i = 0; i < kLanes; ++i) r[i] = from[i] < kLanes ? a[from[i]] : b[from[i] - kLanes];
  return r;
}
//@ either
/// x where the mask is all ones, y where it is zero; of constants a constant.
INLINE vi either(vi mask, vi x, vi y) { return (mask & x) | (~mask & y); }
//@ picked
/// Lane i: lane lane[i] of r[of[i]].
template <int S>
INLINE vf picked(const vf* r, vi of, vi lane) {
  vf t = two_of(r[0], either((vi)(of == 1), lane + kLanes, lane), r[1]);
#pragma GCC unroll 8
  for (int k = 2; k < S; ++k) t = two_of(t, either((vi)(of == k), lane + kLanes, vi_iota()), r[k]);
  return t;
}
//@ vf_deinterleave
/// Of the S * kLanes neighbours in r[0 ... S), every Sth from the jth on goes to r[j]. Halves of even S first: log2 S shuffles a vector.
template <int S>
INLINE void vf_deinterleave(vf* r) {
  vf t[S];
  if constexpr (S % 2 == 0) {
#pragma GCC unroll 4
    for (int i = 0; i < S / 2; ++i) {
      t[i] = two_of(r[2 * i], vi_iota() * 2, r[2 * i + 1]);
      t[S / 2 + i] = two_of(r[2 * i], vi_iota() * 2 + 1, r[2 * i + 1]);
    }
    vf_deinterleave<S / 2>(t);
    vf_deinterleave<S / 2>(t + S / 2);
#pragma GCC unroll 8
    for (int i = 0; i < S; ++i) r[i] = t[i % 2 * (S / 2) + i / 2];
  } else if constexpr (S > 1) {
#pragma GCC unroll 8
    for (int j = 0; j < S; ++j) {
      const vi element = vi_iota() * S + j;
      t[j] = picked<S>(r, element / kLanes, element % kLanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < S; ++i) r[i] = t[i];
  }
}
//@ vf_interleave
/// The inverse of vf_deinterleave.
template <int S>
INLINE void vf_interleave(vf* r) {
  vf t[S];
  if constexpr (S % 2 == 0) {
#pragma GCC unroll 8
    for (int i = 0; i < S; ++i) t[i % 2 * (S / 2) + i / 2] = r[i];
    vf_interleave<S / 2>(t);
    vf_interleave<S / 2>(t + S / 2);
    const vi low = vi_iota() / 2 + vi_iota() % 2 * kLanes;
#pragma GCC unroll 4
    for (int i = 0; i < S / 2; ++i) {
      r[2 * i] = two_of(t[i], low, t[S / 2 + i]);
      r[2 * i + 1] = two_of(t[i], low + kLanes / 2, t[S / 2 + i]);
    }
  } else if constexpr (S > 1) {
#pragma GCC unroll 8
    for (int j = 0; j < S; ++j) {
      const vi element = vi_iota() + j * kLanes;
      t[j] = picked<S>(r, element % S, element / S);
    }
#pragma GCC unroll 8
    for (int i = 0; i < S; ++i) r[i] = t[i];
  }
}
//@ as_floats
/// What `change` does to vectors of floats, to N vectors of integers' bits.
template <int N, void (*change)(vf*)>
INLINE void as_floats(vi* r) {
  vf t[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) t[i] = (vf)r[i];
  change(t);
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) r[i] = (vi)t[i];
}
//@ vi_deinterleave
template <int S>
INLINE void vi_deinterleave(vi* r) {
  as_floats<S, vf_deinterleave<S>>(r);
}
//@ vi_interleave
template <int S>
INLINE void vi_interleave(vi* r) {
  as_floats<S, vf_interleave<S>>(r);
}
//@ vi_transpose
/// In place: lane j of r[i] and lane i of r[j] change places.
INLINE void vi_transpose(vi* r) { as_floats<kLanes, vf_transpose>(r); }
