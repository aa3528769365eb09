// What a compiler's log says of a failure.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

namespace rgen::run {

/// The first few lines with one of the markers, or else the first few lines; each after a line break and two spaces.
std::string error_lines(const std::string& log, std::initializer_list<std::string_view> markers);

}  // namespace rgen::run
