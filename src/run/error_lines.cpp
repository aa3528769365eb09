#include "run/error_lines.h"

#include <algorithm>
#include <sstream>

namespace rgen::run {

std::string error_lines(const std::string& log, std::initializer_list<std::string_view> markers) {
  constexpr int kept = 5;
  std::string errors, firsts;
  int n_errors = 0, n_firsts = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const bool is_error =
        std::any_of(markers.begin(), markers.end(), [&](std::string_view m) { return line.find(m) != std::string::npos; });
    if (is_error && n_errors++ < kept) errors += "\n  " + line;
    if (n_firsts++ < kept) firsts += "\n  " + line;
  }
  return errors.empty() ? firsts : errors;
}

}  // namespace rgen::run
