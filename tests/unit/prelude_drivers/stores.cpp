// Every store of every element type: what is written, that nothing beside it is, and that no page beyond is touched.
#include <functional>

#include "dtypes.h"

constexpr int kStrides[] = {1, 2, 3, -1, -2, 17, -100};

float interesting(Random& random, float) {
  static const float values[] = {
      0.f,      -0.f,     0.5f,      1.5f, 2.5f,        -0.5f,       -1.5f,           127.5f,    128.5f,       -128.5f,      254.5f,
      255.5f,   1e9f,     -1e9f,     3e9f, -3e9f,       65504.f,     65519.f,         65520.f,   0x1p-24f,     0x1p-25f,     0x1.8p-25f,
      0x1p-14f, INFINITY, -INFINITY, NAN,  1.00390625f, 1.01171875f, 0x1.fffffep127f, 0x1p-130f, 2147483647.f, -2147483648.f};
  const uint32_t r = random();
  if (r % 3 == 0) return values[r / 3 % (sizeof values / sizeof *values)];
  if (r % 3 == 1) return std::ldexp(static_cast<float>(static_cast<int32_t>(random())), -static_cast<int>(r / 3 % 60));
  return bits_as<float>(random());
}
int32_t interesting(Random& random, int32_t) {
  static const int32_t values[] = {0, 1, -1, 127, 128, -128, -129, 255, 256, INT32_MAX, INT32_MIN, 16777217};
  const uint32_t r = random();
  return r % 2 ? values[r / 2 % 12] : static_cast<int32_t>(random()) >> (r / 2 % 31);
}

template <class V>
V random_vector(Random& random) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = interesting(random, typename std::remove_reference<decltype(v[0])>::type{});
  return v;
}

/// As words: same bits, or both NaN of the format.
template <class T>
bool same_word(typename T::Word a, typename T::Word b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (T::decode(a) != T::decode(a) && T::decode(b) != T::decode(b));
}
template <class To, class V>
typename To::Word expected(V v, int i) {
  if constexpr (sizeof(typename To::Word) == 4 && std::is_same_v<typename To::Word, float>)
    return static_cast<float>(v[i]);
  else
    return To::encode(v[i]);
}

/// Stores the first n lanes at both ends of the memory.
template <class T, class V>
void check_store(const char* what, int64_t stride, int n, Guarded& memory, Random& random,
                 const std::function<void(typename T::Word*, V)>& store) {
  using Word = typename T::Word;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const V v = random_vector<V>(random);
    const int64_t last = (n - 1) * stride, most = n && last > 0 ? last : 0, least = n && last < 0 ? last : 0;
    Word* const ends[] = {reinterpret_cast<Word*>(memory.end()) - (n > 0) - most, reinterpret_cast<Word*>(memory.begin()) - least};
    for (Word* p : ends) {
      std::memset(memory.begin(), 0xa5, static_cast<size_t>(memory.end() - memory.begin()));
      store(p, v);
      int touched = 0;
      for (Word* w = reinterpret_cast<Word*>(memory.begin()); w != reinterpret_cast<Word*>(memory.end()); ++w) {
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(w);
        for (size_t b = 0; b < sizeof(Word); ++b)
          if (bytes[b] != 0xa5) {
            ++touched;
            check((w - p) % stride == 0 && (w - p) / stride >= 0 && (w - p) / stride < n, "%s %s n %d stride %d: wrote beside", what,
                  T::name, n, static_cast<int>(stride));
            break;
          }
      }
      check(touched <= n, "%s %s: touched %d", what, T::name, touched);
      for (int i = 0; i < n; ++i)
        check(same_word<T>(p[i * stride], expected<T>(v, i)), "%s %s n %d stride %d lane %d: %g", what, T::name, n,
              static_cast<int>(stride), i, static_cast<double>(v[i]));
    }
  }
}

#define CHECK_STORES(V, T, t)                                                                                                          \
  {                                                                                                                                    \
    for (int i = 0; i < 500; ++i) check_store<T, V>("store", 1, kLanes, memory, random, [](auto p, V v) { V##_store_##t(p, v); });     \
    for_each_constant<kLanes>(                                                                                                         \
        [&](auto n) { check_store<T, V>("store_n", 1, n, memory, random, [=](auto p, V v) { V##_store_##t##_n(p, v, n); }); });        \
    for (int n = 0; n <= kLanes; ++n)                                                                                                  \
      check_store<T, V>("store_n", 1, n, memory, random, [=](auto p, V v) { V##_store_##t##_n(p, v, opaque(n)); });                    \
    for (int64_t stride : kStrides) {                                                                                                  \
      check_store<T, V>("scatter", stride, kLanes, memory, random, [=](auto p, V v) { V##_scatter_##t(p, stride, v); });               \
      for (int n = 0; n <= kLanes; ++n)                                                                                                \
        check_store<T, V>("scatter_n", stride, n, memory, random, [=](auto p, V v) { V##_scatter_##t##_n(p, stride, v, opaque(n)); }); \
    }                                                                                                                                  \
  }

/// Rows of any length and alignment in pieces, by way of a buffer.
void check_pieces(Guarded& memory, Random& random) {
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const int64_t length = 1 + random() % 150, most = 1 + random() % 48, room = (memory.end() - memory.begin()) / int64_t(sizeof(float));
    float* const first = reinterpret_cast<float*>(memory.begin());
    float* const row = repeat % 3 == 0 ? first : repeat % 3 == 1 ? first + room - length : first + random() % (room - length);
    std::memset(memory.begin(), 0xa5, static_cast<size_t>(memory.end() - memory.begin()));
    float buffer[16 + 48 + 16] = {}, *const piece = buffer + 16;
    for (int64_t at = 0; at < length; at += most) {
      const int64_t n = std::min(most, length - at);
      for (int64_t i = 0; i < n; ++i) piece[i] = static_cast<float>(at + i);
      stream_piece_f32(row + at, piece, n, at, length - at - n);
    }
    stream_fence();
    for (float* p = first; p != first + room; ++p) {
      const bool inside = p >= row && p < row + length;
      const uint32_t beside = 0xa5a5a5a5;
      const float expected = inside ? static_cast<float>(p - row) : bits_as<float>(beside);
      check(std::memcmp(p, &expected, sizeof expected) == 0, "pieces of %d of a row of %d: element %d", static_cast<int>(most),
            static_cast<int>(length), static_cast<int>(p - row));
    }
  }
}

int main() {
  Guarded memory(2);
  Random random;
  CHECK_STORES(vf, F32, f32)
  CHECK_STORES(vf, Bf16, bf16)
  CHECK_STORES(vf, F16, f16)
  CHECK_STORES(vi, S32, s32)
  CHECK_STORES(vi, S16, s16)
  CHECK_STORES(vi, S8, s8)
  CHECK_STORES(vi, U8, u8)
  CHECK_STORES(vf, S32, s32)
  CHECK_STORES(vf, S8, s8)
  CHECK_STORES(vf, U8, u8)
  CHECK_STORES(vi, F32, f32)
  float* aligned = reinterpret_cast<float*>(memory.end() - 64);
  const vf streamed = random_vector<vf>(random);
  vf_stream_f32(aligned, streamed);
  stream_fence();
  check(std::memcmp(aligned, &streamed, sizeof streamed) == 0, "%s", "stream");
  check_pieces(memory, random);
  return checks_result();
}
