// Every load of every element type, with its last active lane at the end of a page and its first at the start of one.
#include "dtypes.h"

constexpr int kStrides[] = {0, 1, 2, 3, -1, -2, 17, 100, -100};

template <class T>
void fill_random(Guarded& memory, Random& random) {
  for (uint16_t* w = reinterpret_cast<uint16_t*>(memory.begin()); w < reinterpret_cast<uint16_t*>(memory.end()); ++w)
    *w = static_cast<uint16_t>(random());
}

/// Lane i is active for lo <= i < hi and must be p[i * stride]; the others must be `fill`.
template <class T, class V>
void check_lanes(const char* what, V v, const typename T::Word* p, int64_t stride, int lo, int hi, typename T::Value fill) {
  for (int i = 0; i < kLanes; ++i) {
    const bool active = i >= lo && i < hi;
    check(same(v[i], active ? T::decode(p[i * stride]) : fill), "%s %s stride %d lanes [%d,%d): lane %d", what, T::name,
          static_cast<int>(stride), lo, hi, i);
  }
}

/// Calls f with pointers p for which the active addresses p[i * stride], lo <= i < hi, touch the end, then the start of the memory.
template <class T, class F>
void at_both_ends(Guarded& memory, int64_t stride, int lo, int hi, F f) {
  using Word = typename T::Word;
  const int64_t first = lo * stride, last = (hi - 1) * stride;
  if (lo >= hi) return (void)f(reinterpret_cast<const Word*>(memory.end() + 4096 - 64 * sizeof(Word)));
  f(reinterpret_cast<const Word*>(memory.end()) - 1 - (first > last ? first : last));
  f(reinterpret_cast<const Word*>(memory.begin()) - (first < last ? first : last));
}

template <class T, bool constant_counts, class Load, class LoadN, class LoadRange>
void check_loads(const char* name, int64_t stride, Guarded& memory, Load load, LoadN load_n, LoadRange load_range) {
  using Word = typename T::Word;
  const typename T::Value fill = 42;
  at_both_ends<T>(memory, stride, 0, kLanes, [&](const Word* p) { check_lanes<T>(name, load(p), p, stride, 0, kLanes, 0); });
  const auto some = [&](auto n) {
    at_both_ends<T>(memory, stride, 0, n, [&](const Word* p) { check_lanes<T>(name, load_n(p, n), p, stride, 0, n, 0); });
  };
  const auto middle = [&](auto n) {  // three lanes ending at n
    const int from = n - 3 < 0 ? 0 : n - 3;
    at_both_ends<T>(memory, stride, from, n,
                    [&](const Word* p) { check_lanes<T>(name, load_range(p, n - 3, n, fill), p, stride, from, n, fill); });
  };
  for (int n = 0; n <= kLanes; ++n) some(opaque(n));
  if constexpr (constant_counts) for_each_constant<kLanes>(some), for_each_constant<kLanes>(middle);
  for (int lo = -3; lo <= kLanes + 2; ++lo)
    for (int hi = -2; hi <= kLanes + 3; ++hi) {
      const int from = lo < 0 ? 0 : lo, to = hi > kLanes ? kLanes : hi;
      at_both_ends<T>(memory, stride, from, to,
                      [&](const Word* p) { check_lanes<T>(name, load_range(p, opaque(lo), opaque(hi), fill), p, stride, from, to, fill); });
    }
}

#define CHECK_LOADS(V, T)                                                                                                 \
  {                                                                                                                       \
    fill_random<T>(memory, random);                                                                                       \
    check_loads<T, true>(                                                                                                 \
        "load", 1, memory, [](auto p) { return V##_load(p, T{}); }, [](auto p, auto n) { return V##_load_n(p, n, T{}); }, \
        [](auto p, auto lo, auto hi, auto fill) { return V##_load_range(p, lo, hi, fill, T{}); });                        \
    auto strided = [&](auto stride) {                                                                                     \
      check_loads<T, false>(                                                                                              \
          "gather", stride, memory, [=](auto p) { return V##_gather(p, stride, T{}); },                                   \
          [=](auto p, auto n) { return V##_gather_n(p, stride, n, T{}); },                                                \
          [=](auto p, auto lo, auto hi, auto fill) { return V##_gather_range(p, stride, lo, hi, fill, T{}); });           \
    };                                                                                                                    \
    for (int stride : kStrides) strided(opaque(int64_t{stride}));                                                         \
    const auto constant_stride = [&](auto stride) {                                                                       \
      at_both_ends<T>(memory, stride, 0, kLanes,                                                                          \
                      [=](auto p) { check_lanes<T>("gather", V##_gather(p, stride, T{}), p, stride, 0, kLanes, 0); });    \
    };                                                                                                                    \
    constant_stride(std::integral_constant<int, 0>{}), constant_stride(std::integral_constant<int, 1>{});                 \
    constant_stride(std::integral_constant<int, 2>{}), constant_stride(std::integral_constant<int, -1>{});                \
    constant_stride(std::integral_constant<int, 5>{});                                                                    \
    for (int i = 0; i < 256; ++i) {                                                                                       \
      const T::Word* p = reinterpret_cast<const T::Word*>(memory.end()) - 1 - i;                                          \
      const V v = V##_bcast(p, T{});                                                                                      \
      for (int lane = 0; lane < kLanes; ++lane) check(same(v[lane], T::decode(*p)), "bcast %s: lane %d", T::name, lane);  \
    }                                                                                                                     \
  }

// The primitives by element type instead of by name.
#define BY_TYPE(V, T, t)                                                                                                        \
  INLINE V V##_load(const T::Word* p, T) { return V##_load_##t(p); }                                                            \
  INLINE V V##_load_n(const T::Word* p, int n, T) { return V##_load_##t##_n(p, n); }                                            \
  INLINE V V##_load_range(const T::Word* p, int lo, int hi, T::Value fill, T) { return V##_load_##t##_range(p, lo, hi, fill); } \
  INLINE V V##_gather(const T::Word* p, int64_t stride, T) { return V##_gather_##t(p, stride); }                                \
  INLINE V V##_gather_n(const T::Word* p, int64_t stride, int n, T) { return V##_gather_##t##_n(p, stride, n); }                \
  INLINE V V##_gather_range(const T::Word* p, int64_t stride, int lo, int hi, T::Value fill, T) {                               \
    return V##_gather_##t##_range(p, stride, lo, hi, fill);                                                                     \
  }                                                                                                                             \
  INLINE V V##_bcast(const T::Word* p, T) { return V##_bcast_##t(p); }
BY_TYPE(vf, F32, f32)
BY_TYPE(vf, Bf16, bf16)
BY_TYPE(vf, F16, f16)
BY_TYPE(vi, S32, s32)
BY_TYPE(vi, S8, s8)
BY_TYPE(vi, U8, u8)

/// Strides whose byte offsets need more than 32 bits.
void check_far_gather() {
  constexpr int64_t stride = (int64_t{1} << 28) + 3;
  const size_t bytes = 4 * (stride * (kLanes - 1) + 1);
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return std::perror("not checked, far gathers");
  const int64_t s = opaque(stride);
  float* p = static_cast<float*>(map);
  for (int i = 0; i < kLanes; ++i) p[i * stride] = static_cast<float>(i + 1);
  check_lanes<F32>("far", vf_gather_f32(p, s), p, s, 0, kLanes, 0);
  check_lanes<F32>("far", vf_gather_f32_n(p, s, 3), p, s, 0, 3, 0);
  float* last = p + (kLanes - 1) * stride;
  check_lanes<F32>("far", vf_gather_f32(last, -s), last, -s, 0, kLanes, 0);
  vf_scatter_f32(last, -s, vf_from_vi(vi_iota()));
  for (int i = 0; i < kLanes; ++i) check(last[-i * stride] == static_cast<float>(i), "far scatter, lane %d", i);
  munmap(map, bytes);
}

int main() {
  Guarded memory(2);
  Random random;
  CHECK_LOADS(vf, F32)
  CHECK_LOADS(vf, Bf16)
  CHECK_LOADS(vf, F16)
  CHECK_LOADS(vi, S32)
  CHECK_LOADS(vi, S8)
  CHECK_LOADS(vi, U8)
  check_far_gather();
  return checks_result();
}
