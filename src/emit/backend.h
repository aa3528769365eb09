// Backends print a loop program as source. One .cpp and one row of `backends()` each.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwmodel/profile.h"
#include "ir/tensor_program.h"
#include "rtile/construct.h"

namespace rgen::emit {

struct PrepackEntry {
  int input;
  std::string symbol;
  int64_t bytes;
};  ///< `input`: position among the program's inputs

struct Emitted {
  std::string source;              ///< a complete translation unit
  std::string extension;           ///< ".cpp", ".cu"
  std::vector<std::string> flags;  ///< compile flags beyond -O2 -std=c++17 (also in the source's first comment)
  std::string symbol;              ///< C entry: name and content hash
  std::string isa;                 ///< manifest's "isa": features that the kernel executes
  int64_t workspace_bytes = 0;
  std::vector<PrepackEntry> prepack;
};

struct CppOptions {
  bool emulate_amx = false;  ///< tile instructions done in software: a test where no such unit exists
};
Emitted emit_cpp(const ir::TensorProgram& program, const rtile::Candidate& candidate, const hw::Profile& profile,
                 const CppOptions& options = {});

struct Backend {
  std::string_view target;  ///< "cpp", "cuda", "llvm"
  hw::Profile::Kind kind;
  Emitted (*emit)(const ir::TensorProgram&, const rtile::Candidate&, const hw::Profile&);
};
std::span<const Backend> backends();
/// Throws Error{unsupported} naming the known targets.
const Backend& find_backend(std::string_view target);

}  // namespace rgen::emit
