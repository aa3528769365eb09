// Many emitted kernels at once, against the reference: all are compiled into one program, which a child process runs (under an emulator
// where they are for another machine), so that a test of a hundred kernels costs a few compilations and a crash is a failure like any
// other.
//
// The child gives each kernel buffers of exactly the manifest's sizes, which begin or end at memory that cannot be touched, fills outputs
// and workspace with garbage, runs the tasks of regions last to first, and calls twice: both calls must agree in every bit.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "emit/backend.h"
#include "ir/ir.h"
#include "rtile/construct.h"
#include "run/kernel.h"
#include "support/process.h"
#include "support/programs.h"

namespace rgen::test {

/// A program with inputs and what it makes of them.
struct Problem {
  ProgramPtr program;
  std::vector<run::Buffer> inputs;
  ir::Reference reference;
};
std::vector<Problem> make_problems(const std::vector<ProgramPtr>& programs);
/// Those of tests/data/small_workloads.json and of the examples; made once.
const std::vector<Problem>& small_problems(const std::string& source_dir);
/// Is there such a program in PATH?
bool available(const std::string& program);

/// How kernels are compiled and run.
struct Toolchain {
  std::string compiler;                ///< a name or a path
  std::vector<std::string> flags;      ///< beyond those that the kernels ask for
  std::vector<std::string> run_under;  ///< an emulator and its arguments, before the program
  int parts = 2;                       ///< translation units, compiled two at a time
};

/// The shim has four schedules and two times at which asynchronous copies land.
constexpr int kShimWays = 8;
std::string shim_way(int n);

/// Every match of a regular expression becomes `replacement` ($1: its first group).
struct Edit {
  std::string pattern, replacement;
};

class KernelBatch {
 public:
  /// The plan of `rank` (the last one if there are fewer) for `threads`; a kernel that is there already is not added again.
  void add(const Problem& problem, const hw::Profile& profile, int threads = 1, int rank = 0, const emit::CppOptions& options = {});
  /// This plan, of whatever origin.
  void add(const Problem& problem, const hw::Profile& profile, const rtile::Candidate& plan, const std::string& label,
           const emit::CppOptions& options = {});
  /// Kernel `of` with another text; false and nothing is added if one of the patterns matches nowhere.
  bool add_mutant(size_t of, const std::string& label, const std::vector<Edit>& edits);
  size_t size() const { return kernels_.size(); }
  /// Kernels whose source has this text.
  size_t mentioning(const std::string& text) const;
  /// Compiles, runs and compares all; returns what is wrong, one entry a kernel.
  std::vector<std::string> failures(const Toolchain& toolchain) const;
  /// CUDA: runs each kernel in every `shim_way`, in a process of its own; says for each what is wrong, or "". Throws where it cannot.
  std::vector<std::array<std::string, kShimWays>> survey(const Toolchain& toolchain) const;

 private:
  struct Kernel {
    const Problem* problem;
    emit::Emitted code;
    std::string label;
  };
  std::vector<Kernel> kernels_;

  bool cuda() const;
  std::string part(size_t first, size_t last) const;
  std::string table() const;
  std::vector<std::string> kernel_flags() const;
  /// Makes the program `kernels` in the folder; returns what went wrong.
  std::vector<std::string> build(const Toolchain& toolchain, const std::string& path) const;
  ProcessResult execute(const Toolchain& toolchain, const std::string& path, const std::vector<std::string>& arguments = {}) const;
  static size_t output_bytes(const Kernel& k);
  static std::string difference(const Kernel& k, const char* data);
};

}  // namespace rgen::test
