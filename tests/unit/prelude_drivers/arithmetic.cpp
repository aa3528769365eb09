// Arithmetic, comparisons, conversions, horizontal operations, dot products and transposes against one lane at a time.
#include <algorithm>

#include "dtypes.h"

static Random random_bits;

static float any_float() {
  static const float values[] = {
      0.f,   -0.f, 1.f,      -1.f,      0.5f, 1.5f,         2.5f,         -2.5f,         8388607.5f, 8388609.f,
      1e10f, NAN,  INFINITY, -INFINITY, 3e9f, 2147483520.f, 2147483648.f, -2147483648.f, 0x1p-149f,  -0x1.fffffep127f};
  const uint32_t r = random_bits();
  if (r % 4 == 0) return values[r / 4 % 20];
  if (r % 4 == 1) return static_cast<float>(static_cast<int32_t>(random_bits()) >> (r / 4 % 31)) * 0.5f;
  return r % 4 == 2 ? bits_as<float>(random_bits()) : static_cast<float>(static_cast<int32_t>(random_bits())) * 0x1p-31f;
}
static int32_t any_int() {
  const uint32_t r = random_bits();
  return r % 8 == 0 ? INT32_MIN : r % 8 == 1 ? INT32_MAX : static_cast<int32_t>(random_bits()) >> (r / 8 % 31);
}
template <class V>
V any_vector() {
  V v;
  for (int i = 0; i < kLanes; ++i)
    if constexpr (std::is_same_v<V, vf>)
      v[i] = any_float();
    else
      v[i] = any_int();
  return v;
}

#define EACH_LANE(name, got, expected)                                                                                                     \
  {                                                                                                                                        \
    const auto result = got;                                                                                                               \
    for (int i = 0; i < kLanes; ++i) {                                                                                                     \
      const auto right = expected;                                                                                                         \
      check(same(result[i], right), "%s: lane %d is %.9g, not %.9g", name, i, static_cast<double>(result[i]), static_cast<double>(right)); \
    }                                                                                                                                      \
  }

static void check_floats(vf a, vf b, vf c) {
  EACH_LANE("max", vf_max(a, b), a[i] > b[i] ? a[i] : b[i])
  EACH_LANE("min", vf_min(a, b), a[i] < b[i] ? a[i] : b[i])
  EACH_LANE("abs", vf_abs(a), std::fabs(a[i]))
  EACH_LANE("neg", vf_neg(a), -a[i])
  EACH_LANE("floor", vf_floor(a), std::floor(a[i]))
  EACH_LANE("round", vf_round(a), std::nearbyint(a[i]))
  EACH_LANE("sqrt", vf_sqrt(a), std::sqrt(a[i]))
  EACH_LANE("div", vf_div(a, b), a[i] / b[i])
  EACH_LANE("lt", vf_lt(a, b), -static_cast<int32_t>(a[i] < b[i]))
  EACH_LANE("le", vf_le(a, b), -static_cast<int32_t>(a[i] <= b[i]))
  EACH_LANE("gt", vf_gt(a, b), -static_cast<int32_t>(a[i] > b[i]))
  EACH_LANE("ge", vf_ge(a, b), -static_cast<int32_t>(a[i] >= b[i]))
  EACH_LANE("eq", vf_eq(a, b), -static_cast<int32_t>(a[i] == b[i]))
  EACH_LANE("ne", vf_ne(a, b), -static_cast<int32_t>(a[i] != b[i]))
  EACH_LANE("select", vf_select(vf_lt(a, b), c, a), a[i] < b[i] ? c[i] : a[i])
  EACH_LANE("from_mask", vf_from_mask(vf_lt(a, b)), a[i] < b[i] ? 1.f : 0.f)
  EACH_LANE("to integer", vi_from_vf_rne(a), S32::encode(a[i]))
  EACH_LANE("round_bf16", vf_round_bf16(a), Bf16::decode(Bf16::encode(a[i])))
  EACH_LANE("round_f16", vf_round_f16(a), F16::decode(F16::encode(a[i])))
  const vf fused = vf_fma(a, b, c);
  for (int i = 0; i < kLanes; ++i) {
    const bool good = same(fused[i], std::fma(a[i], b[i], c[i])) || (!kFused && same(fused[i], a[i] * b[i] + c[i]));
    check(good, "fma(%g, %g, %g) = %g", static_cast<double>(a[i]), static_cast<double>(b[i]), static_cast<double>(c[i]),
          static_cast<double>(fused[i]));
  }
}

static void check_integers(vi a, vi b) {
  EACH_LANE("vi max", vi_max(a, b), std::max<int32_t>(a[i], b[i]))
  EACH_LANE("vi min", vi_min(a, b), std::min<int32_t>(a[i], b[i]))
  EACH_LANE("vi abs", vi_abs(a), static_cast<int32_t>(a[i] < 0 ? 0u - static_cast<uint32_t>(a[i]) : static_cast<uint32_t>(a[i])))
  EACH_LANE("vi lt", vi_lt(a, b), -static_cast<int32_t>(a[i] < b[i]))
  EACH_LANE("vi le", vi_le(a, b), -static_cast<int32_t>(a[i] <= b[i]))
  EACH_LANE("vi gt", vi_gt(a, b), -static_cast<int32_t>(a[i] > b[i]))
  EACH_LANE("vi ge", vi_ge(a, b), -static_cast<int32_t>(a[i] >= b[i]))
  EACH_LANE("vi eq", vi_eq(a, b), -static_cast<int32_t>(a[i] == b[i]))
  EACH_LANE("vi ne", vi_ne(a, b), -static_cast<int32_t>(a[i] != b[i]))
  EACH_LANE("vi select", vi_select(vi_lt(a, b), a, b), std::min<int32_t>(a[i], b[i]))
  EACH_LANE("from integer", vf_from_vi(a), static_cast<float>(a[i]))
}

/// Tree order: halves, quarters, … in any of the ways that a commutative `op` cannot tell apart.
template <class T, class V, class Op>
T tree(V v, Op op) {
  T t[kLanes];
  for (int i = 0; i < kLanes; ++i) t[i] = v[i];
  for (int n = kLanes / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) t[i] = op(t[i], t[i + n]);
  return t[0];
}
static void check_horizontal(vf v, vi w) {
  check(same(vf_hsum(v), tree<float>(v, [](float a, float b) { return a + b; })), "%s", "hsum");
  check(same(vf_hprod(v), tree<float>(v, [](float a, float b) { return a * b; })), "%s", "hprod");
  vf finite = v;
  for (int i = 0; i < kLanes; ++i) finite[i] = v[i] != v[i] ? 7.f : v[i];
  check(vf_hmax(finite) == tree<float>(finite, [](float a, float b) { return std::max(a, b); }), "%s", "hmax");
  check(vf_hmin(finite) == tree<float>(finite, [](float a, float b) { return std::min(a, b); }), "%s", "hmin");
  check(static_cast<uint32_t>(vi_hsum(w)) == tree<uint32_t>(w, [](uint32_t a, uint32_t b) { return a + b; }), "%s", "vi hsum");
  check(static_cast<uint32_t>(vi_hprod(w)) == tree<uint32_t>(w, [](uint32_t a, uint32_t b) { return a * b; }), "%s", "vi hprod");
  check(vi_hmax(w) == tree<int32_t>(w, [](int32_t a, int32_t b) { return std::max(a, b); }), "%s", "vi hmax");
  check(vi_hmin(w) == tree<int32_t>(w, [](int32_t a, int32_t b) { return std::min(a, b); }), "%s", "vi hmin");
}

template <class A, class B>
int32_t dot(int32_t acc, int32_t a, int32_t b) {
  constexpr int n = 4 / sizeof(A);
  A x[n];
  B y[n];
  std::memcpy(x, &a, 4), std::memcpy(y, &b, 4);
  int64_t sum = acc;
  for (int k = 0; k < n; ++k) sum += static_cast<int64_t>(x[k]) * y[k];
  return static_cast<int32_t>(static_cast<uint64_t>(sum));
}
static float bf16_product(float acc, uint16_t a, uint16_t b) { return std::fma(Bf16::decode(a), Bf16::decode(b), acc); }
static void check_dots(vi acc, vi a, vi b) {
  const vi extreme[] = {vi_set(INT32_MIN), vi_set(0x7f7f7f7f), vi_set(-1), vi_set(static_cast<int32_t>(0x80808080))};
  const uint32_t r = random_bits();
  if (r % 4 == 0) a = extreme[r / 4 % 4];
  if (r % 8 < 2) b = extreme[r / 16 % 4];
  EACH_LANE("dpwssd", vi_dpwssd(acc, a, b), (dot<int16_t, int16_t>(acc[i], a[i], b[i])))
  EACH_LANE("dpbusd", vi_dpbusd(acc, a, b), (dot<uint8_t, int8_t>(acc[i], a[i], b[i])))
  EACH_LANE("dpbssd", vi_dpbssd(acc, a, b), (dot<int8_t, int8_t>(acc[i], a[i], b[i])))
  EACH_LANE("dpbuud", vi_dpbuud(acc, a, b), (dot<uint8_t, uint8_t>(acc[i], a[i], b[i])))
  vi x, y;  // normal numbers of moderate size: no subnormal appears
  vf sum;
  for (int i = 0; i < kLanes; ++i) {
    const auto word = [] { return Bf16::encode(static_cast<float>(static_cast<int32_t>(random_bits() | 1)) * 0x1p-31f); };
    x[i] = static_cast<int32_t>(word() | static_cast<uint32_t>(word()) << 16);
    y[i] = static_cast<int32_t>(word() | static_cast<uint32_t>(word()) << 16);
    sum[i] = static_cast<float>(static_cast<int32_t>(random_bits())) * 0x1p-31f;
  }
  const vf got = vf_dpbf16(sum, x, y);
  for (int i = 0; i < kLanes; ++i) {
    const auto low = [](int32_t w) { return static_cast<uint16_t>(w); };
    const auto high = [](int32_t w) { return static_cast<uint16_t>(static_cast<uint32_t>(w) >> 16); };
    const float right = bf16_product(bf16_product(sum[i], high(x[i]), high(y[i])), low(x[i]), low(y[i]));
    const float bound = kFused ? 0.f : 0x1p-22f;  // an unfused or odd-rounded machine: the sums here are below 3
    check(std::fabs(got[i] - right) <= bound, "dpbf16: lane %d is %.9g, not %.9g", i, static_cast<double>(got[i]),
          static_cast<double>(right));
  }
}

static void check_groups(Guarded& memory) {
  for (char* p = memory.begin(); p != memory.end(); ++p) *p = static_cast<char>(random_bits());
  const auto bytes_at = [](const char* p, int n) {
    uint32_t group = 0;
    std::memcpy(&group, p, static_cast<size_t>(n));
    return static_cast<int32_t>(group);
  };
  EACH_LANE("bcast_group", vi_bcast_group(memory.end() - 4), bytes_at(memory.end() - 4, 4))
  EACH_LANE("bcast_group_of", vi_bcast_group_of(memory.end() - 4, 2), bytes_at(memory.end() - 4, 4))
  for_each_constant<3>([&](auto n) {
    EACH_LANE("bcast_group_n", vi_bcast_group_n(memory.end() - n, n), bytes_at(memory.end() - n, n))
    EACH_LANE("bcast_group_n", vi_bcast_group_n(memory.end() - n, opaque<int>(n)), bytes_at(memory.end() - n, n))
  });
  EACH_LANE("load_group", vi_load_group(memory.end() - 4 * kLanes), bytes_at(memory.end() - 4 * kLanes + 4 * i, 4))
  const auto pair_at = [](const auto* p) { return int32_t(uint32_t(uint16_t(p[0])) | uint32_t(uint16_t(p[1])) << 16); };
  char* const pairs = memory.end() - 2 * kLanes;
  EACH_LANE("load_group_s8", vi_load_group_s8(pairs), pair_at((const int8_t*)pairs + 2 * i))
  EACH_LANE("load_group_u8", vi_load_group_u8(pairs), pair_at((const uint8_t*)pairs + 2 * i))
  for (int n = 0; n <= 4 * kLanes; n += 3)
    EACH_LANE("load_bytes_n", vi_load_bytes_n(memory.end() - n, opaque(n)),
              4 * i < n ? bytes_at(memory.end() - n + 4 * i, n - 4 * i < 4 ? n - 4 * i : 4) : 0)
  const auto* const halves = (const uint16_t*)pairs;
  EACH_LANE("load_bf16", vi_load_bf16(halves) & 0xffff, int32_t(halves[i]))
  for (int n = -2; n <= kLanes; ++n) {
    const auto* const last = (const uint16_t*)memory.end() - (n > 0 ? n : 0);
    EACH_LANE("load_bf16_range", vi_load_bf16_range(last, 0, opaque(n), 0) & 0xffff, i < n ? int32_t(last[i]) : 0)
  }
  vi w[4];
  for (vi& x : w)
    for (int i = 0; i < kLanes; ++i) x[i] = int32_t(random_bits());
  const auto low = [&](int k, int i, uint32_t mask) { return uint32_t(w[k][i]) & mask; };
  EACH_LANE("pair", vi_pair(w[0], w[1]), int32_t(low(0, i, 0xffff) | low(1, i, 0xffff) << 16))
  EACH_LANE("quad", vi_quad(w[0], w[1], w[2], w[3]),
            int32_t(low(0, i, 255) | low(1, i, 255) << 8 | low(2, i, 255) << 16 | low(3, i, 255) << 24))
  for (int n = 0; n <= kLanes; ++n)
    EACH_LANE("load_group_n", vi_load_group_n(memory.end() - 4 * n, opaque(n)), i < n ? bytes_at(memory.end() - 4 * n + 4 * i, 4) : 0)
}

template <int n>
static void check_rows() {
  vf a[kLanes];
  vi b[kLanes];
  float sum[kLanes], prod[kLanes], most[kLanes], least[kLanes];
  int32_t bits[kLanes], product[kLanes], top[kLanes], bottom[kLanes];
  for (int r = 0; r < n; ++r) {
    for (int i = 0; i < kLanes; ++i)
      a[r][i] = float((r * 7 + i * 5) % 11 - 5), b[r][i] = int32_t((uint32_t(r) * 1000003u + uint32_t(i) * 7919u) * 65537u);
    sum[r] = 0, prod[r] = 1, most[r] = least[r] = a[r][0], bits[r] = 0, product[r] = 1, top[r] = bottom[r] = b[r][0];
    for (int i = 0; i < kLanes; ++i) {  // whole numbers, exact in any order
      sum[r] += a[r][i], prod[r] *= i < 3 ? a[r][i] : 1;
      most[r] = a[r][i] > most[r] ? a[r][i] : most[r], least[r] = a[r][i] < least[r] ? a[r][i] : least[r];
      bits[r] = int32_t(uint32_t(bits[r]) + uint32_t(b[r][i])), product[r] = int32_t(uint32_t(product[r]) * uint32_t(b[r][i]));
      top[r] = b[r][i] > top[r] ? b[r][i] : top[r], bottom[r] = b[r][i] < bottom[r] ? b[r][i] : bottom[r];
    }
  }
  EACH_LANE("rows sum", vf_rows_sum<n>(a), sum[i % n])
  EACH_LANE("rows max", vf_rows_max<n>(a), most[i % n])
  EACH_LANE("rows min", vf_rows_min<n>(a), least[i % n])
  EACH_LANE("vi rows sum", vi_rows_sum<n>(b), bits[i % n])
  EACH_LANE("vi rows prod", vi_rows_prod<n>(b), product[i % n])
  EACH_LANE("vi rows max", vi_rows_max<n>(b), top[i % n])
  EACH_LANE("vi rows min", vi_rows_min<n>(b), bottom[i % n])
  for (int r = 0; r < n; ++r)
    for (int i = 3; i < kLanes; ++i) a[r][i] = 1;
  EACH_LANE("rows prod", vf_rows_prod<n>(a), prod[i % n])
  if constexpr (n < kLanes) check_rows<2 * n>();
}

static void check_transpose() {
  vf a[kLanes], b[kLanes];
  vi c[kLanes], d[kLanes];
  for (int r = 0; r < kLanes; ++r) {
    b[r] = a[r] = any_vector<vf>();
    d[r] = c[r] = any_vector<vi>();
  }
  vf_transpose(b);
  vi_transpose(d);
  for (int r = 0; r < kLanes; ++r) {
    EACH_LANE("transpose", b[r], a[i][r])
    EACH_LANE("vi transpose", d[r], c[i][r])
  }
}

template <int s>
static void check_interleave() {
  vf a[s], b[s];
  vi c[s], d[s];
  for (int r = 0; r < s; ++r) {
    b[r] = a[r] = any_vector<vf>();
    d[r] = c[r] = any_vector<vi>();
  }
  vf_deinterleave<s>(b);
  vi_deinterleave<s>(d);
  for (int r = 0; r < s; ++r) {
    EACH_LANE("deinterleave", b[r], a[(i * s + r) / kLanes][(i * s + r) % kLanes])
    EACH_LANE("vi deinterleave", d[r], c[(i * s + r) / kLanes][(i * s + r) % kLanes])
  }
  vf_interleave<s>(b);
  vi_interleave<s>(d);
  for (int r = 0; r < s; ++r) {
    EACH_LANE("interleave", b[r], a[r][i])
    EACH_LANE("vi interleave", d[r], c[r][i])
  }
  if constexpr (s < 8) check_interleave<s + 1>();
}

static void check_parallel_for() {
  long counts[1000] = {};
  const auto task = [](void* arg, int64_t i) { ++static_cast<long*>(arg)[i]; };
  for (int64_t n : {0, 1, 2, 7, 1000}) {
    std::memset(counts, 0, sizeof counts);
    parallel_for(nullptr, n, task, counts);
    rgen_threads backwards{sizeof(rgen_threads), 3, counts, [](void* ctx, int64_t tasks, void (*t)(void*, int64_t), void* arg) {
                             check(ctx == arg, "%s", "the caller's context");
                             while (tasks-- > 0) t(arg, tasks);
                           }};
    parallel_for(&backwards, n, task, counts);
    for (int64_t i = 0; i < 1000; ++i) check(counts[i] == (i < n ? 2 : 0), "parallel_for: task %d", static_cast<int>(i));
  }
}

int main() {
  EACH_LANE("iota", vi_iota(), i)
  EACH_LANE("set", vf_set(-0.f), -0.f)
  EACH_LANE("set", vi_set(-5), -5)
  for (int repeat = 0; repeat < 3000; ++repeat) {
    check_floats(any_vector<vf>(), any_vector<vf>(), any_vector<vf>());
    check_integers(any_vector<vi>(), any_vector<vi>());
    check_horizontal(any_vector<vf>(), any_vector<vi>());
    check_dots(any_vector<vi>(), any_vector<vi>(), any_vector<vi>());
  }
  Guarded memory;
  check_groups(memory);
  check_transpose();
  check_interleave<2>();
  check_rows<1>();
  check_parallel_for();
  prefetch_l1(memory.begin() - 1);  // a prefetch of what cannot be read is no error
  prefetch_l2(memory.end());
  return checks_result();
}
