// Running the command line as a user does, in a world of its own: a folder for files, an empty cache.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "run/files.h"
#include "run/host_compiler.h"
#include "support/check.h"
#include "support/process.h"

namespace rgen::test {

class Cli {
 public:
  /// `rgen` with these arguments.
  ProcessResult operator()(std::vector<std::string> arguments, ProcessOptions options = {}) const {
    arguments.insert(arguments.begin(), RGEN_PROGRAM);
    options.env.emplace("RGEN_CACHE_DIR", path("cache"));
    options.env.emplace("NO_COLOR", "1");
    return run_process(arguments, options);
  }
  /// `rgen predict` of a spec given as text.
  ProcessResult predict(const std::string& spec) const { return (*this)({"predict", "--hw", "zen5", file("spec.json", spec)}); }
  /// A new file in the folder; its path.
  std::string file(const std::string& name, const std::string& content) const {
    run::write_atomically(path(name), content);
    return path(name);
  }
  std::string path(const std::string& name) const { return folder_.path() / name; }

 private:
  run::TemporaryFolder folder_;
};

inline const std::string matmul_spec =
    R"({"name": "mm", "op": "matmul", "dtype": "f32", "params": {"m": 16, "n": 32, "k": 8}, "epilogue": []})";

}  // namespace rgen::test
