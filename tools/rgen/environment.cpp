#include "rgen/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace rgen::cli {

static std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::filesystem::path cache_dir() {
  if (const std::string dir = variable("RGEN_CACHE_DIR"); !dir.empty()) return dir;
  // The XDG specification ignores relative paths.
  if (const std::filesystem::path xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute()) return xdg / "rgen";
  if (const std::filesystem::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "rgen";
  return {};
}

std::string search_path() { return variable("PATH"); }
std::string default_compiler() { return variable("RGEN_CXX"); }
std::string nvrtc_library() { return variable("RGEN_NVRTC"); }
std::string cuda_driver() { return variable("RGEN_CUDA"); }

bool is_terminal(int fd) { return isatty(fd) == 1; }
bool may_colour(int fd) { return is_terminal(fd) && variable("NO_COLOR").empty() && variable("TERM") != "dumb"; }

}  // namespace rgen::cli
