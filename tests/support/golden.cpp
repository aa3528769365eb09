#include "support/golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace rgen::test {

namespace {

constexpr size_t kShown = 5;  ///< lines of a difference

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::string golden_difference(const std::string& file, const std::string& text) {
  const char* update = std::getenv("RGEN_UPDATE_GOLDEN");
  if (update && std::string(update) == "1") {
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream out(file, std::ios::binary);
    out << text;
    return out.flush() ? "" : "cannot write " + file;
  }
  const std::string accept = "\n(RGEN_UPDATE_GOLDEN=1 accepts what is printed now)";
  std::ifstream in(file, std::ios::binary);
  if (!in) return file + " is missing" + accept;
  std::stringstream golden;
  golden << in.rdbuf();
  if (golden.str() == text) return "";
  const auto was = lines_of(golden.str()), now = lines_of(text);
  size_t first = 0;
  while (first < std::min(was.size(), now.size()) && was[first] == now[first]) ++first;
  std::ostringstream message;
  message << file << " differs from line " << first + 1 << " on:";
  for (size_t i = first > 2 ? first - 2 : 0; i < first; ++i) message << "\n   " << was[i];
  for (size_t i = first; i < std::min(was.size(), first + kShown); ++i) message << "\n  -" << was[i];
  for (size_t i = first; i < std::min(now.size(), first + kShown); ++i) message << "\n  +" << now[i];
  return message.str() + accept;
}

}  // namespace rgen::test
