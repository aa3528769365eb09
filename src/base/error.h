// Errors of rgen: thrown inside the library, converted once at the C API and once in the CLI. The class is public (include/rgen/error.h).
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../include/rgen/error.h"

namespace rgen {

/// The candidate nearest to `word` by edit distance, or "" if none is near (distance > 1 + length/3).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// " (did you mean 'X'?)", or "" if nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rgen
