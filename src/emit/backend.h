// Backends print a loop program as source. One .cpp and one row of `backends()` each.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwmodel/profile.h"
#include "ir/tensor_program.h"
#include "lower/loop_program.h"
#include "rtile/construct.h"

namespace rgen::emit {

/// Bytes to which every argument of a CUDA kernel is aligned (cudaMalloc: 256).
constexpr int kCudaAlignment = 16;

/// One kernel of a CUDA program: `grid` × `block` threads, one dimension each.
struct Launch {
  struct Arg {
    int tensor = -1;         ///< position among inputs, then outputs (a prepacked input's slot: its packed buffer)
    int64_t workspace = -1;  ///< else: bytes from the workspace's start
    /// Not the pointer is passed, but a map of the tensor for the copy unit, by value (CUtensorMap, 128 bytes).
    std::shared_ptr<const lower::TensorMap> map = {};
  };
  std::string symbol;
  int64_t grid = 1;
  int block = 32;
  int64_t shared_bytes = 0;
  std::vector<Arg> args;  ///< pointers, in the kernel's order; of a prepack kernel none: it takes (src, dst)
  int cluster = 1;        ///< neighbouring blocks that run at once; the kernel says so itself (__cluster_dims__). Divides the grid
};

struct PrepackEntry {
  int input;  ///< position among the program's inputs
  std::string symbol;
  int64_t bytes;
  Launch launch = {};  ///< CUDA: how the kernel `symbol` is started
};

struct Emitted {
  std::string source;              ///< a complete translation unit
  std::string extension;           ///< ".cpp", ".cu"
  std::vector<std::string> flags;  ///< compile flags beyond -O2 -std=c++17 (also in the source's first comment)
  std::string symbol;              ///< C entry: name and content hash
  std::string isa;                 ///< manifest's "isa": features that the kernel executes
  int64_t workspace_bytes = 0;
  std::vector<PrepackEntry> prepack;
  std::vector<Launch> launches;  ///< CUDA: in order, each after the one before is done
};

struct CppOptions {
  bool emulate_amx = false;  ///< tile instructions done in software: a test where no such unit exists
};
Emitted emit_cpp(const ir::TensorProgram& program, const rtile::Candidate& candidate, const hw::Profile& profile,
                 const CppOptions& options = {});

/// The architecture that kernels for a GPU are compiled for: "sm_80"; "sm_90a" where the profile has wgmma, which sm_90 alone lacks.
std::string cuda_arch(const hw::Profile& profile);

/// Emitted::launches say how the kernels are started. Throws Error{unsupported} for a profile whose vectors are no warps.
Emitted emit_cuda(const ir::TensorProgram& program, const rtile::Candidate& candidate, const hw::Profile& profile);

struct Backend {
  std::string_view target;  ///< "cpp", "cuda", "llvm"
  hw::Profile::Kind kind;
  Emitted (*emit)(const ir::TensorProgram&, const rtile::Candidate&, const hw::Profile&);
};
std::span<const Backend> backends();
/// Throws Error{unsupported} naming the known targets.
const Backend& find_backend(std::string_view target);

}  // namespace rgen::emit
