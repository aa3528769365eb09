// Tile products of odd shapes against scalar sums; run on tile registers, or on their emulation.
#include "dtypes.h"

static Random random_bits;

/// Tiles 0 (m rows of n results), 1 (m rows of k groups) and 2 (k rows of n groups).
static void configure(int m, int n, int k) {
  tile_config config{};
  config.palette = 1;
  const int rows[] = {m, m, k}, words[] = {n, k, n};
  for (int t = 0; t < 3; ++t) config.rows[t] = static_cast<uint8_t>(rows[t]), config.row_bytes[t] = static_cast<uint16_t>(4 * words[t]);
  tile_configure(&config);
}

struct Operands {
  alignas(64) uint8_t a[16][72], b[16][80];
  alignas(64) int32_t c[16][20];
};

template <class X, class Y>
static int32_t expected(const Operands& o, int32_t c, int row, int column, int k) {
  int64_t sum = c;
  for (int i = 0; i < 4 * k; ++i) sum += static_cast<X>(o.a[row][i]) * static_cast<Y>(o.b[i / 4][4 * column + i % 4]);
  return static_cast<int32_t>(sum);
}

template <class X, class Y, class Multiply>
static void check_bytes(const char* name, int m, int n, int k, Operands& o, Multiply multiply) {
  int32_t before[16][20];
  std::memcpy(before, o.c, sizeof before);
  tile_load(0, o.c, sizeof o.c[0]);
  tile_load(1, o.a, sizeof o.a[0]);
  tile_stream_load(2, o.b, sizeof o.b[0]);
  multiply();
  tile_store(0, o.c, sizeof o.c[0]);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 20; ++j) {
      const int32_t right = i < m && j < n ? expected<X, Y>(o, before[i][j], i, j, k) : before[i][j];
      check(o.c[i][j] == right, "%s %dx%dx%d: [%d][%d] is %d, not %d", name, m, n, k, i, j, o.c[i][j], right);
    }
}

static void check_shape(int m, int n, int k) {
  configure(m, n, k);
  Operands o;
  for (auto& row : o.a)
    for (uint8_t& x : row) x = static_cast<uint8_t>(random_bits());
  for (auto& row : o.b)
    for (uint8_t& x : row) x = static_cast<uint8_t>(random_bits());
  for (auto& row : o.c)
    for (int32_t& x : row) x = static_cast<int32_t>(random_bits()) >> 8;
  check_bytes<int8_t, int8_t>("dpbssd", m, n, k, o, [] { tile_dpbssd(0, 1, 2); });
  check_bytes<int8_t, uint8_t>("dpbsud", m, n, k, o, [] { tile_dpbsud(0, 1, 2); });
  check_bytes<uint8_t, int8_t>("dpbusd", m, n, k, o, [] { tile_dpbusd(0, 1, 2); });
  check_bytes<uint8_t, uint8_t>("dpbuud", m, n, k, o, [] { tile_dpbuud(0, 1, 2); });

  alignas(64) uint16_t a[16][32], b[16][32];
  alignas(64) float c[16][16];
  for (auto* matrix : {a, b})
    for (int i = 0; i < 16 * 32; ++i) matrix[0][i] = Bf16::encode(static_cast<float>(static_cast<int32_t>(random_bits())) * 0x1p-31f);
  tile_zero(0);
  tile_load(1, a, sizeof a[0]);
  tile_load(2, b, sizeof b[0]);
  tile_dpbf16(0, 1, 2);
  tile_store(0, c, sizeof c[0]);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int x = 0; x < 2 * k; ++x)
        sum += static_cast<double>(Bf16::decode(a[i][x])) * static_cast<double>(Bf16::decode(b[x / 2][2 * j + x % 2]));
      check(std::fabs(static_cast<double>(c[i][j]) - sum) <= 1e-5, "dpbf16 %dx%dx%d: [%d][%d] is %g, not %g", m, n, k, i, j,
            static_cast<double>(c[i][j]), sum);
    }
  tile_release();
}

int main() {
  if (amx_request() != 0) return std::puts("the system grants no tiles"), 2;
  for (int m : {1, 5, 16})
    for (int n : {1, 7, 16})
      for (int k : {1, 3, 16}) check_shape(m, n, k);
  return checks_result();
}
