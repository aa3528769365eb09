// The variables that the program reads; the library reads none.
#pragma once
#include <filesystem>
#include <string>

namespace rgen::cli {

/// RGEN_CACHE_DIR, else $XDG_CACHE_HOME/rgen, else ~/.cache/rgen; "" when none of them is set.
std::filesystem::path cache_dir();
/// Where a compiler is looked for: PATH.
std::string search_path();
/// RGEN_CXX: the compiler when --compiler does not name one; "" = the first of c++, g++, clang++.
std::string default_compiler();
/// RGEN_NVRTC: the libnvrtc to open; "" = where the library looks.
std::string nvrtc_library();
/// RGEN_CUDA: the libcuda to open; "" = libcuda.so.1 on the loader's path.
std::string cuda_driver();
/// Whether a stream is a terminal, and whether it may be coloured (NO_COLOR).
bool is_terminal(int fd);
bool may_colour(int fd);

}  // namespace rgen::cli
