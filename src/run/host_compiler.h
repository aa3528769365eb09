// The system's C++ compiler as a backend: finds it, runs it without a shell, reports its message.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace rgen::run {

struct Compiler {
  std::string path;     ///< absolute
  std::string version;  ///< first line of --version
  bool clang = false;
  bool openmp = false;  ///< a probe program with -fopenmp linked (probed once per compiler, then kept with the cache)
};
/// `preferred`: a name or path; "" tries c++, g++, clang++ in PATH order given by `search_path` (colon-separated).
/// `memory`: a folder that keeps what probing found, per compiler binary; "" probes every time (about 0.2 s).
/// Throws Error{toolchain} that names what was looked for.
Compiler find_compiler(const std::string& preferred, const std::string& search_path, const std::filesystem::path& memory = {});

enum class Output { shared_library, object };
/// Compiles `source` to `output` (atomically replaced; no partial file on any failure). `flags` are passed through;
/// -shared -fPIC or -c are added. Throws Error{toolchain} with the compiler's first error lines.
/// Safe to run concurrently, also in several processes for one output.
void compile(const Compiler& compiler, const std::string& source, const std::vector<std::string>& flags, Output kind,
             const std::filesystem::path& output);

/// Writes a file by temporary + rename: readers see the old or the new content, never a part. Throws Error{usage} naming the path and
/// errno's text.
void write_atomically(const std::filesystem::path& path, const std::string& content);

}  // namespace rgen::run
