// The names of amx.h in plain C++, so that a kernel with tiles can be tested on a machine without them. What would raise
// an exception there ends the program here.

//@ tile_config
struct alignas(64) tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
//@ tiles
/// The calling thread's tile registers.
struct tile_file {
  tile_config config;
  uint8_t data[8][16][64];
};
static thread_local tile_file tiles;
//@ tile_require
INLINE void tile_require(bool holds) {
  if (!holds) __builtin_trap();
}
//@ tile_shape_ok
INLINE bool tile_shape_ok(int t) {
  return t >= 0 && t < 8 && tiles.config.palette == 1 && tiles.config.rows[t] > 0 && tiles.config.row_bytes[t] > 0;
}

//@ amx_request
INLINE long amx_request() { return 0; }
//@ tile_release
INLINE void tile_release() { tiles = tile_file(); }
//@ tile_configure
INLINE void tile_configure(const tile_config* config) {
  tile_release();
  tiles.config = *config;
  tile_require(config->palette == 1 && config->start_row == 0);
  for (int t = 0; t < 8; ++t) {
    tile_require(config->rows[t] <= 16 && config->row_bytes[t] <= 64);
    tile_require((config->rows[t] == 0) == (config->row_bytes[t] == 0));
  }
}
//@ tile_zero
INLINE void tile_zero(int t) {
  tile_require(tile_shape_ok(t));
  __builtin_memset(tiles.data[t], 0, sizeof tiles.data[t]);
}
//@ tile_load
INLINE void tile_load(int t, const void* base, int64_t stride) {
  tile_zero(t);
  for (int r = 0; r < tiles.config.rows[t]; ++r)
    __builtin_memcpy(tiles.data[t][r], (const char*)base + r * stride, tiles.config.row_bytes[t]);
}
//@ tile_stream_load
INLINE void tile_stream_load(int t, const void* base, int64_t stride) { tile_load(t, base, stride); }
//@ tile_store
INLINE void tile_store(int t, void* base, int64_t stride) {
  tile_require(tile_shape_ok(t));
  for (int r = 0; r < tiles.config.rows[t]; ++r) __builtin_memcpy((char*)base + r * stride, tiles.data[t][r], tiles.config.row_bytes[t]);
}
//@ tile_store_early
INLINE void tile_store_early(int t, void* base, int64_t stride) { tile_store(t, base, stride); }
//@ tile_multiply
/// c[m][n] = step(c[m][n], group k of a's row m, group n of b's row k) for all k; elements and groups have 4 bytes.
template <class T, class Step>
static void tile_multiply(int c, int a, int b, Step step) {
  tile_require(tile_shape_ok(c) && tile_shape_ok(a) && tile_shape_ok(b) && a != b && a != c && b != c);
  const tile_config& s = tiles.config;
  tile_require(s.rows[c] == s.rows[a] && s.row_bytes[c] == s.row_bytes[b] && s.row_bytes[a] == 4 * s.rows[b] && s.row_bytes[c] % 4 == 0);
  for (int m = 0; m < s.rows[c]; ++m)
    for (int n = 0; n < s.row_bytes[c] / 4; ++n) {
      T sum;
      __builtin_memcpy(&sum, &tiles.data[c][m][4 * n], 4);
      for (int k = 0; k < s.rows[b]; ++k) sum = step(sum, &tiles.data[a][m][4 * k], &tiles.data[b][k][4 * n]);
      __builtin_memcpy(&tiles.data[c][m][4 * n], &sum, 4);
    }
}
//@ tile_dpbf16
INLINE void tile_dpbf16(int c, int a, int b) {
  tile_multiply<float>(c, a, b, [](float sum, const uint8_t* x, const uint8_t* y) {
    const auto value = [](const uint8_t* p) {
      const uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
      float v;
      __builtin_memcpy(&v, &bits, 4);
      return (bits & 0x7f800000) ? v : 0.f;
    };
    return sum + value(x) * value(y) + value(x + 2) * value(y + 2);
  });
}
//@ tile_bytes
template <class X, class Y>
static void tile_bytes(int c, int a, int b) {
  tile_multiply<uint32_t>(c, a, b, [](uint32_t sum, const uint8_t* x, const uint8_t* y) {
    for (int i = 0; i < 4; ++i) sum += (uint32_t)((X)x[i] * (Y)y[i]);
    return sum;
  });
}
//@ tile_dpbssd
INLINE void tile_dpbssd(int c, int a, int b) { tile_bytes<int8_t, int8_t>(c, a, b); }
//@ tile_dpbsud
INLINE void tile_dpbsud(int c, int a, int b) { tile_bytes<int8_t, uint8_t>(c, a, b); }
//@ tile_dpbusd
INLINE void tile_dpbusd(int c, int a, int b) { tile_bytes<uint8_t, int8_t>(c, a, b); }
//@ tile_dpbuud
INLINE void tile_dpbuud(int c, int a, int b) { tile_bytes<uint8_t, uint8_t>(c, a, b); }
