// A child process without a shell.
#pragma once
#include <string>
#include <vector>

namespace rgen::run {

struct ProcessResult {
  int exit_code = 0;   ///< valid when signal == 0
  int signal = 0;      ///< the signal that killed it, or 0
  std::string output;  ///< stdout and stderr, interleaved as written
  bool ok() const { return exit_code == 0 && signal == 0; }
};
/// Runs argv[0] (a path) with these arguments and no standard input, and waits for it. The environment is handed on as it is.
/// Throws Error{toolchain} when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv);

}  // namespace rgen::run
