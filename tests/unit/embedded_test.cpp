#include "base/embedded.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace {

/// Stem and content of the files of a folder of the source tree with this extension, sorted by stem.
std::map<std::string, std::string, std::less<>> files_of(const char* folder, const char* extension) {
  std::map<std::string, std::string, std::less<>> result;
  const std::filesystem::path path = std::filesystem::path(RGEN_SOURCE_DIR) / folder;
  if (!std::filesystem::exists(path)) return result;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() != extension) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    result[entry.path().stem().string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return result;
}

void check_same(std::span<const rgen::EmbeddedFile> embedded, const char* folder, const char* extension) {
  const auto files = files_of(folder, extension);
  REQUIRE(embedded.size() == files.size());
  auto file = files.begin();
  for (const rgen::EmbeddedFile& e : embedded) {
    CHECK(e.name == file->first);
    CHECK_MESSAGE(e.text == file->second, "differs from ", folder, "/", file->first, extension);
    ++file;
  }
}

}  // namespace

TEST_CASE("the embedded files are those of the tree, byte for byte and sorted") {
  check_same(rgen::ir::embedded_ops(), "ops", ".json");
  check_same(rgen::hw::embedded_profiles(), "hwprofiles", ".json");
  check_same(rgen::emit::embedded_preludes(), "src/emit/prelude", ".h");
}
