// MurmurHash3, x64, 128 bits, seed 0 (Austin Appleby, public domain): not cryptographic; it guards against damage and chance, not malice.
#include <bit>
#include <cstring>

#include "run/cache.h"

namespace rgen::run {

namespace {

constexpr uint64_t c1 = 0x87c37b91114253d5, c2 = 0x4cf5ad432745937f;

uint64_t mix_low(uint64_t k) { return std::rotl(k * c1, 31) * c2; }
uint64_t mix_high(uint64_t k) { return std::rotl(k * c2, 33) * c1; }

uint64_t finish(uint64_t k) {
  k = (k ^ (k >> 33)) * 0xff51afd7ed558ccd;
  k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53;
  return k ^ (k >> 33);
}

/// Up to 8 bytes, little-endian on every machine.
uint64_t load(const char* p, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; ++i) v |= uint64_t(uint8_t(p[i])) << (8 * i);
  return v;
}

std::string hex(uint64_t v) {
  std::string s(16, '0');
  for (int i = 15; i >= 0; --i, v >>= 4) s[size_t(i)] = "0123456789abcdef"[v & 15];
  return s;
}

}  // namespace

std::string content_hash(std::string_view bytes) {
  uint64_t h1 = 0, h2 = 0;
  size_t i = 0;
  for (; i + 16 <= bytes.size(); i += 16) {
    h1 = (std::rotl(h1 ^ mix_low(load(bytes.data() + i, 8)), 27) + h2) * 5 + 0x52dce729;
    h2 = (std::rotl(h2 ^ mix_high(load(bytes.data() + i + 8, 8)), 31) + h1) * 5 + 0x38495ab5;
  }
  const size_t rest = bytes.size() - i;
  if (rest > 8) h2 ^= mix_high(load(bytes.data() + i + 8, rest - 8));
  if (rest > 0) h1 ^= mix_low(load(bytes.data() + i, rest < 8 ? rest : 8));
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = finish(h1);
  h2 = finish(h2);
  h1 += h2;
  h2 += h1;
  return hex(h1) + hex(h2);
}

}  // namespace rgen::run
