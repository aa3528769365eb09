// Damaged documents: each builds or throws Error, whatever its bytes. The seed is in every failure.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "ir/ir.h"

using namespace rgen;
using namespace rgen::ir;

namespace {

std::vector<std::string> documents() {
  std::vector<std::string> texts;
  const std::filesystem::path root(RGEN_SOURCE_DIR);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(root / "examples"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

/// A few bytes replaced, removed, repeated, or taken from elsewhere in the text.
std::string damaged(std::string text, std::mt19937& random) {
  static const std::string alphabet = "0123456789-+*/%[](){}|:,?=<>.\"abkmnxKMN e\n\\\xff";
  for (int i = 1 + int(random() % 4); i > 0 && !text.empty(); --i) {
    const size_t at = random() % text.size(), n = 1 + random() % 6;
    switch (random() % 4) {
      case 0:
        text[at] = alphabet[random() % alphabet.size()];
        break;
      case 1:
        text.erase(at, n);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), n));
        break;
      default:
        text.insert(at, 1, alphabet[random() % alphabet.size()]);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("damaged documents build or are refused") {
  const std::vector<std::string> texts = documents();
  REQUIRE(texts.size() > 10);
  int refused = 0;
  for (uint32_t seed = 1; seed <= 5000; ++seed) {
    std::mt19937 random(seed);
    const std::string text = damaged(texts[seed % texts.size()], random);
    INFO("seed " << seed << "\n" << text);
    try {
      for (const SpecEntry& e : parse_specs(text, "fuzz")) {
        const TensorProgram p = e.build();
        verify(p, "again");
        REQUIRE(equal(parse_program(print_json(p)), p));
      }
    } catch (const Error& e) {
      REQUIRE(e.code() == ErrorCode::invalid_spec);
      REQUIRE_FALSE(e.context().empty());
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
