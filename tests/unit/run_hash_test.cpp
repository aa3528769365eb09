#include <doctest/doctest.h>

#include <set>
#include <string>

#include "run/cache.h"

using rgen::run::content_hash;

TEST_CASE("content_hash is MurmurHash3 x64-128") {
  CHECK(content_hash("") == std::string(32, '0'));
  CHECK(content_hash("hello") == "cbd8a7b341bd9b025b1e906a48ae1d19");
  CHECK(content_hash("The quick brown fox jumps over the lazy dog") == "e34bbc7bbc071b6c7a433ca9c49a9347");
}

TEST_CASE("content_hash tells every length and every flipped bit apart") {
  std::set<std::string> seen;
  std::string text;
  for (int n = 0; n < 64; ++n) {
    CHECK(seen.insert(content_hash(text)).second);
    for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << (bit % 8)));
      CHECK(seen.insert(content_hash(flipped)).second);
    }
    text.push_back('\0');
  }
}
