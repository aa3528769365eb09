// Every load of every element type, with its last active lane at the end of a page and its first at the start of one.
#include <functional>

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

/// The load under test: all lanes, the first n, and lanes [lo, hi) with a fill.
template <class T, class V>
struct Loads {
  using Word = typename T::Word;
  std::function<V(const Word*)> all;
  std::function<V(const Word*, int)> some;
  std::function<V(const Word*, int, int, typename T::Value)> range;
};
template <class T, class V>
void check_loads(const char* name, int64_t stride, Guarded& memory, const Loads<T, V>& load) {
  using Word = typename T::Word;
  const typename T::Value fill = 42;
  at_both_ends<T>(memory, stride, 0, kLanes, [&](const Word* p) { check_lanes<T>(name, load.all(p), p, stride, 0, kLanes, 0); });
  for (int n = 0; n <= kLanes; ++n)
    at_both_ends<T>(memory, stride, 0, n, [&](const Word* p) { check_lanes<T>(name, load.some(p, n), p, stride, 0, n, 0); });
  for (int lo = -3; lo <= kLanes + 2; ++lo)
    for (int hi = -2; hi <= kLanes + 3; ++hi) {
      const int from = lo < 0 ? 0 : lo, to = hi > kLanes ? kLanes : hi;
      at_both_ends<T>(memory, stride, from, to,
                      [&](const Word* p) { check_lanes<T>(name, load.range(p, lo, hi, fill), p, stride, from, to, fill); });
    }
}
/// One vector that the compiler knows all about, at both ends.
template <class T, class V>
void check_constant(const char* name, int64_t stride, int lo, int hi, Guarded& memory, typename T::Value fill,
                    const std::function<V(const typename T::Word*)>& load) {
  at_both_ends<T>(memory, stride, lo, hi, [&](const auto* p) { check_lanes<T>(name, load(p), p, stride, lo, hi, fill); });
}

#define CHECK_LOADS(V, T)                                                                                                                  \
  {                                                                                                                                        \
    using Word = T::Word;                                                                                                                  \
    fill_random<T>(memory, random);                                                                                                        \
    check_loads<T, V>("load", 1, memory,                                                                                                   \
                      {[](const Word* p) { return V##_load(p, T{}); }, [](const Word* p, int n) { return V##_load_n(p, n, T{}); },         \
                       [](const Word* p, int lo, int hi, T::Value fill) { return V##_load_range(p, lo, hi, fill, T{}); }});                \
    for_each_constant<kLanes>([&](auto n) {                                                                                                \
      constexpr int to = decltype(n)::value, from = to < 3 ? 0 : to - 3;                                                                   \
      check_constant<T, V>("constant n", 1, 0, to, memory, 0, [](const Word* p) { return V##_load_n(p, to, T{}); });                       \
      check_constant<T, V>("constant range", 1, from, to, memory, 9, [](const Word* p) { return V##_load_range(p, to - 3, to, 9, T{}); }); \
    });                                                                                                                                    \
    for_each_constant<kLanes>([&](auto n) {                                                                                                \
      constexpr int to = decltype(n)::value;                                                                                               \
      check_constant<T, V>("stride 2, constant n", 2, 0, to, memory, 0, [](const Word* p) { return V##_gather_n(p, 2, to, T{}); });        \
    });                                                                                                                                    \
    for (int64_t s : kStrides)                                                                                                             \
      check_loads<T, V>(                                                                                                                   \
          "gather", s, memory,                                                                                                             \
          {[=](const Word* p) { return V##_gather(p, opaque(s), T{}); },                                                                   \
           [=](const Word* p, int n) { return V##_gather_n(p, opaque(s), n, T{}); },                                                       \
           [=](const Word* p, int lo, int hi, T::Value fill) { return V##_gather_range(p, opaque(s), lo, hi, fill, T{}); }});              \
    check_constant<T, V>("stride 0", 0, 0, kLanes, memory, 0, [](const Word* p) { return V##_gather(p, 0, T{}); });                        \
    check_constant<T, V>("stride 1", 1, 0, kLanes, memory, 0, [](const Word* p) { return V##_gather(p, 1, T{}); });                        \
    check_constant<T, V>("stride 2", 2, 0, kLanes, memory, 0, [](const Word* p) { return V##_gather(p, 2, T{}); });                        \
    check_constant<T, V>("stride -1", -1, 0, kLanes, memory, 0, [](const Word* p) { return V##_gather(p, -1, T{}); });                     \
    check_constant<T, V>("stride 5", 5, 0, kLanes, memory, 0, [](const Word* p) { return V##_gather(p, 5, T{}); });                        \
    for (int i = 0; i < 256; ++i) {                                                                                                        \
      const Word* p = reinterpret_cast<const Word*>(memory.end()) - 1 - i;                                                                 \
      const V v = V##_bcast(p, T{});                                                                                                       \
      for (int lane = 0; lane < kLanes; ++lane) check(same(v[lane], T::decode(*p)), "bcast %s: lane %d", T::name, lane);                   \
    }                                                                                                                                      \
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
BY_TYPE(vi, S16, s16)
BY_TYPE(vi, S8, s8)
BY_TYPE(vi, U8, u8)

/// Lanes of a vector in a register, and what stands for the others.
void check_within() {
  vf f;
  vi v;
  for (int i = 0; i < kLanes; ++i) f[i] = 0.5f - static_cast<float>(i), v[i] = 7 - i;
  for (int lo = -3; lo <= kLanes + 2; ++lo)
    for (int hi = -2; hi <= kLanes + 3; ++hi) {
      const vf some = vf_within(f, opaque(lo), opaque(hi), 0), rest = vf_within(f, opaque(lo), opaque(hi), -1.5f);
      const vi number = vi_within(v, opaque(lo), opaque(hi), 0), other = vi_within(v, opaque(lo), opaque(hi), 42);
      for (int i = 0; i < kLanes; ++i) {
        const bool in = lo <= i && i < hi;
        check(same(some[i], in ? f[i] : 0.f) && same(rest[i], in ? f[i] : -1.5f), "floats within [%d, %d): lane %d", lo, hi, i);
        check(number[i] == (in ? v[i] : 0) && other[i] == (in ? v[i] : 42), "numbers within [%d, %d): lane %d", lo, hi, i);
      }
    }
  for_each_constant<kLanes>([&](auto n) {
    constexpr int to = decltype(n)::value;
    const vf none = vf_within(f, to, kLanes, 0), fill = vf_within(f, 0, to, 9);
    for (int i = 0; i < kLanes; ++i)
      check(same(none[i], i < to ? 0.f : f[i]) && same(fill[i], i < to ? f[i] : 9.f), "constant: lane %d", i);
  });
  f[0] = NAN;
  check(same(vf_within(f, 1, kLanes, 0)[0], 0.f), "what is outside does not count");
}

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

/// At both ends of what may be read where it is inside, on forbidden pages where not.
void check_conditional(Guarded& memory, Random& random) {
  fill_random<F32>(memory, random);
  const float* ends[] = {reinterpret_cast<float*>(memory.begin()), reinterpret_cast<float*>(memory.end()) - kLanes};
  const float* forbidden[] = {ends[0] - kLanes, ends[1] + kLanes};
  const auto all = [](const char* name, vf v, float want) {
    for (int lane = 0; lane < kLanes; ++lane) check(same(v[lane], want), "%s: lane %d", name, lane);
  };
  for (const int64_t in : {int64_t{0}, int64_t{3}, INT64_MAX})
    for (const float* p : ends) {
      check_lanes<F32>("load, inside", vf_load_f32_if(p, 7.f, opaque(in), opaque(int64_t{0})), p, 1, 0, kLanes, 0);
      all("broadcast, inside", vf_bcast_f32_if(p, opaque(7.f), opaque(in)), *p);
      all("broadcast, inside, 0 outside", vf_bcast_f32_if(p + kLanes - 1, 0.f, opaque(in)), p[kLanes - 1]);
    }
  for (const int64_t out : {int64_t{-1}, int64_t{-3}, INT64_MIN})
    for (const float* p : forbidden) {
      all("load, outside", vf_load_f32_if(p, opaque(-7.f), opaque(int64_t{5}), opaque(out)), -7.f);
      all("broadcast, outside", vf_bcast_f32_if(p, opaque(-7.f), opaque(out), opaque(int64_t{0})), -7.f);
      all("broadcast, outside, 0", vf_bcast_f32_if(p, 0.f, opaque(out)), 0.f);
    }
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
  check_within();
  check_conditional(memory, random);
  return checks_result();
}
