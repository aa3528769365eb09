// A libnvrtc whose cubins are shared objects: CUDA source compiled by the host's compiler with the shim, for fake_cuda.cpp to execute.
#include <unistd.h>

#include <algorithm>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

struct Program {
  std::string source, log, image;
};

namespace {

/// What the shim lacks of CUDA's language; then, after the kernels, how the driver starts them.
constexpr const char* kHead = R"(#include <stdint.h>
#include <time.h>
#include "gpu_shim.h"
static inline long long clock64() { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ll + t.tv_nsec; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
template <class T> static inline T __ldca(const T* p) { return *p; }
)";
constexpr const char* kTail = R"(
extern "C" const char* fake_launch(const void* kernel, long long grid, int block, long long shared, void* const* args, int n_args) {
  static gpu_shim::Result result;
  static int calls = 0;
  gpu_shim::Options options;
  options.schedule = gpu_shim::kSchedules[calls++ % 4];
  result = gpu_shim::launch_pointers(kernel, grid, block, shared, args, n_args, options);
  return result.error;
}
)";

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The number of arguments of each kernel, and a log like ptxas's.
std::string kernel_table(const std::string& source, const std::string& arch, std::string& log) {
  static const std::regex kernel(
      R"re(extern "C" __global__ void (?:__cluster_dims__\([^)]*\) )?(?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\))re");
  std::string table;
  for (std::sregex_iterator i(source.begin(), source.end(), kernel), end; i != end; ++i) {
    const std::string name = (*i)[1], parameters = (*i)[2];
    const auto n = parameters.empty() ? 0 : 1 + std::count(parameters.begin(), parameters.end(), ',');
    unsigned maps = 0;
    for (size_t at = parameters.find("tensor_map "); at != std::string::npos; at = parameters.find("tensor_map ", at + 1))
      maps |= 1u << std::count(parameters.begin(), parameters.begin() + long(at), ',');
    table += "extern \"C\" { int fake_args_" + name + " = " + std::to_string(n) + "; unsigned fake_maps_" + name + " = " +
             std::to_string(maps) + "; }\n";
    log += "ptxas info    : Compiling entry function '" + name + "' for '" + arch + "'\nptxas info    : Function properties for " + name +
           "\nptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n" +
           "ptxas info    : Used 32 registers, 368 bytes cmem[0]\n";
  }
  return table;
}

std::string arch_of(int n, const char* const* options) {
  for (int i = 0; i < n; ++i)
    if (const char* at = std::strstr(options[i], "--gpu-architecture=")) return at + std::strlen("--gpu-architecture=");
  return "sm_80";
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 99, 0; }
const char* nvrtcGetErrorString(int result) { return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
int nvrtcGetNumSupportedArchs(int* n) { return *n = 6, 0; }
int nvrtcGetSupportedArchs(int* archs) {
  const int all[] = {70, 80, 86, 89, 90, 100};
  std::memcpy(archs, all, sizeof all);
  return 0;
}
int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*, const char* const*) {
  *program = new Program{source, "", ""};
  return 0;
}
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  return 0;
}
int nvrtcCompileProgram(Program* program, int n, const char* const* options) {
  const std::string arch = arch_of(n, options);
  const int major = std::atoi(arch.c_str() + arch.find('_') + 1) / 10;
  std::error_code error;  // nothing may be thrown through the compiler's interface
  std::string path = std::filesystem::temp_directory_path(error) / "fake_nvrtc_XXXXXX";
  if (error || !mkdtemp(path.data())) return 1;
  std::ofstream(path + "/k.cpp") << kHead << program->source << kTail << kernel_table(program->source, arch, program->log)
                                 << "extern \"C\" { int fake_major = " << major << "; }\n";
  const std::string command = FAKE_NVRTC_COMPILER " -std=c++20 -O1 -w -fPIC -shared -Wl,-Bsymbolic -I" FAKE_NVRTC_INCLUDE " -o '" + path +
                              "/k.so' '" + path + "/k.cpp' " FAKE_NVRTC_SHIM " 2> '" + path + "/errors'";
  const int status = std::system(command.c_str());
  if (status != 0) program->log = file_text(path + "/errors");
  program->image = status == 0 ? file_text(path + "/k.so") : "";
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  return status == 0 ? 0 : 6;
}
int nvrtcGetProgramLogSize(Program* program, size_t* size) { return *size = program->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program* program, char* log) { return std::memcpy(log, program->log.c_str(), program->log.size() + 1), 0; }
int nvrtcGetCUBINSize(Program* program, size_t* size) { return *size = program->image.size(), 0; }
int nvrtcGetCUBIN(Program* program, char* image) { return std::memcpy(image, program->image.data(), program->image.size()), 0; }
int nvrtcGetPTXSize(Program*, size_t* size) { return *size = 0, 0; }
int nvrtcGetPTX(Program*, char*) { return 1; }

}  // extern "C"
