// SPEC arguments: files, standard input, short forms, and names within documents.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rgen/rgen.hpp"

namespace rgen::cli {

/// One program to work on. What is wrong with it is thrown when it is built, so that the rest go on.
struct Job {
  std::string label;  ///< its name, or the argument it came from
  std::function<Program()> build;
};
/// In order. Throws Error{usage} for a malformed -D or one that no short form uses.
std::vector<Job> read_jobs(const std::vector<std::string>& specs, const std::vector<std::string>& extents);

}  // namespace rgen::cli
