// Errors of rgen: thrown inside the library, converted once at the C API and once in the CLI. The class is public (include/rgen/error.h).
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../include/rgen/error.h"

namespace rgen {

/// " (did you mean 'X'?)", or "" if nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rgen
