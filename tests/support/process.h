// Runs a program as a user would, for tests of the command line: argv as given (no shell), both streams captured, a time limit.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace rgen::test {

struct ProcessOptions {
  std::string input;                         ///< standard input; then end of file
  std::map<std::string, std::string> env;    ///< set on top of this process's environment
  std::string working_directory;             ///< "" = this process's
  std::chrono::milliseconds timeout{60000};  ///< the program and what it started are killed after this
};

struct ProcessResult {
  int status = -1;         ///< exit status; -1 when a signal ended it
  int signal = 0;          ///< that signal
  bool timed_out = false;  ///< killed at the time limit (signal is then SIGKILL)
  std::string out, err;
};

/// argv[0] is a path, or a name found in PATH. Throws std::runtime_error if it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

}  // namespace rgen::test
