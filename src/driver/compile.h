// The way through: a verified program and a profile become a plan, a source, a library, a kernel. Each arrow is one function.
//
//   plan → emit → build → load            compile = all of them, for the best plan
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "emit/backend.h"
#include "hwmodel/profile.h"
#include "ir/tensor_program.h"
#include "rtile/construct.h"
#include "run/cuda_device.h"
#include "run/files.h"
#include "run/host_compiler.h"
#include "run/kernel.h"

namespace rgen::driver {

struct PlanOptions {
  int threads = 0;     ///< workers planned for; 0 = the profile's cores
  int top_k = 1;       ///< plans kept
  std::string target;  ///< a backend; "" = that of the profile's kind
  int breadth = 1;     ///< rtile::ConstructOptions::breadth
};
/// One ranked plan and what it was made of.
struct Planned {
  std::shared_ptr<const ir::TensorProgram> program;
  std::shared_ptr<const hw::Profile> profile;
  std::string target;  ///< the backend that prints it
  rtile::Candidate candidate;
  int threads;
  double construct_ms;
};
/// Best first, at least one. Pre: the program is verified. Throws what construct throws, and Error{unsupported} for a target that is not
/// of the profile's kind or a program with symbolic dimensions. A plan needs no backend: devices can be asked about that have none yet.
std::vector<Planned> plan(std::shared_ptr<const ir::TensorProgram> program, std::shared_ptr<const hw::Profile> profile,
                          const PlanOptions& options);

struct Emission {
  emit::Emitted code;
  std::string target;
  std::string manifest;  ///< JSON (contract of the emitted kernel)
  double emit_ms;
};
/// Throws Error{unsupported} when this build has no backend for the target.
Emission emit(const Planned& planned);

/// The GPU that kernels run on where the calling thread has no current context of its own.
struct GpuOptions {
  std::string library = {};  ///< run::CudaDriver::open
  int ordinal = 0;
};
struct BuildOptions {
  std::string compiler, search_path;  ///< run::find_compiler
  std::filesystem::path cache_dir;    ///< "" = no cache
  std::string nvrtc = {};             ///< run::NvrtcOptions::library
  GpuOptions gpu = {};
};
struct Library {
  std::filesystem::path file;
  double compile_ms;
  std::string cache;                                  ///< "hit", "miss" or "off"
  std::shared_ptr<const run::TemporaryFolder> owner;  ///< of a file that is not in the cache
};
/// Compiles the source, or finds it compiled. Throws Error{toolchain}.
Library build(const emit::Emitted& code, run::Output kind, const BuildOptions& options);
/// The folder of compiled kernels within a cache_dir; "" for "".
std::filesystem::path kernel_cache(const std::filesystem::path& cache_dir);

class GpuKernel;

/// A kernel that can be called. Immutable and shared.
struct Kernel {
  std::shared_ptr<const ir::TensorProgram> program;
  std::shared_ptr<const run::Module> module;
  run::EntryFn entry;                   ///< of a CPU; nullptr: a GPU's
  std::vector<run::PrepackFn> prepack;  ///< of a CPU, one per input; nullptr: taken as it is
  std::vector<int64_t> prepack_bytes;   ///< one per input; 0: taken as it is
  int64_t workspace_bytes;
  std::string manifest;
  double compile_ms, load_ms;
  std::string cache;
  std::shared_ptr<const GpuKernel> gpu = {};  ///< of a GPU; nullptr: a CPU's
};
/// Throws Error{device} unless this machine executes the profile's kernels: the CPU, or the GPU that `gpu` names.
void require_device(const hw::Profile& profile, const GpuOptions& gpu = {});
/// Of a CPU. Throws what require_device throws, and Error{toolchain} when the library cannot be opened.
Kernel load(const Planned& planned, const Emission& emission, const Library& library);
/// build and load; a cached library that does not open is compiled again. A GPU's is loaded into the context that is current, else into the
/// primary one of options.gpu.
Kernel compile(const Planned& planned, const BuildOptions& options);

}  // namespace rgen::driver
