// rgen in C++: a tensor program and a hardware profile in, a kernel out.
//
//   rgen::Program mm = rgen::Program::expression("C[m,n] = sum(k | A[m,k]*B[k,n])", {{"m", 128}, {"n", 128}, {"k", 128}});
//   rgen::Kernel kernel = rgen::compile(mm, rgen::Profile::load("host"));
//   kernel.run({a, b, c});
//
// Objects are immutable handles: cheap to copy, shared freely between threads. Nothing here prints, reads the environment or keeps state
// of the process; folders and search paths are arguments. Failures throw rgen::Error.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rgen/error.h"
#include "rgen/threads.h"

namespace rgen {

std::string version();

/// One argument of a kernel. Shape and strides in elements, -1 where they depend on a range; dtype is "f32", "f16", "bf16", "s8", "u8" or
/// "s32".
struct TensorInfo {
  std::string name, dtype;
  std::vector<int64_t> shape, strides;
  bool constant = false;  ///< an input that may be packed once
};

/// What a program computes and moves at least.
struct WorkAmount {
  double operations = 0;  ///< as written; a multiplication and an addition are two
  double bytes = 0;       ///< every input read once, every output written once
};

/// What is computed (docs: the spec).
class Program {
 public:
  /// One program of a JSON document; `name` picks one of several. `origin` names the document in errors.
  static Program parse(std::string_view json, std::string_view origin = "spec", std::string_view name = {});
  /// The short form: statements separated by ';' with the extents of their axes; inputs are f32.
  static Program expression(std::string_view statements, const std::map<std::string, int64_t>& extents);

  const std::string& name() const;
  std::string json() const;  ///< as a tensor expression; parse(json()) is the same program
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  std::optional<WorkAmount> work() const;  ///< nothing when an extent is a range

  struct Impl;
  explicit Program(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// An entry of a document: errors in it appear when it is built, so that the others still can be.
struct SpecEntry {
  std::string name;  ///< "" when it has none
  std::function<Program()> build;
};
std::vector<SpecEntry> parse_specs(std::string_view json, std::string_view origin = "spec");

/// How "host" is found: measured for up to 3 s unless `cache_dir` keeps an earlier result.
struct HostOptions {
  bool measure = true;  ///< false: detected values and the nearest shipped profile's figures
  std::filesystem::path cache_dir;
};

/// The GPU that kernels run on where the calling thread has no current context of its own, and the driver behind it.
struct DeviceOptions {
  std::string driver = {};  ///< path or name of libcuda; "" = libcuda.so.1 on the loader's path
  int ordinal = 0;          ///< among the devices that the driver shows
};
/// A GPU that the driver shows.
struct DeviceInfo {
  int ordinal = 0;
  std::string name, arch;  ///< "NVIDIA H100 80GB HBM3", "sm_90"
  int64_t memory_bytes = 0;
};
/// Throws Error{device} where there is no driver or it finds no device.
std::vector<DeviceInfo> devices(const std::string& driver = {});

/// The hardware.
class Profile {
 public:
  /// A file, the name of a shipped profile, or "host".
  static Profile load(const std::string& name_or_file, const HostOptions& host = {});
  static Profile parse(std::string_view json, std::string_view origin = "profile");

  const std::string& name() const;
  const std::string& title() const;
  const std::string& hash() const;  ///< 16 hex digits over the canonical document
  const std::string& json() const;  ///< canonical
  const std::string& arch() const;
  int cores() const;  ///< or SMs
  bool is_gpu() const;
  std::vector<std::string> isa() const;
  std::vector<std::string> missing_isa() const;  ///< features that this machine lacks; empty: its kernels run here
  /// Throws Error{device} unless this machine executes its kernels: the CPU, or that GPU.
  void require_device(const DeviceOptions& device = {}) const;
  std::string summary() const;  ///< a table for people

  struct Impl;
  explicit Profile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};
std::vector<std::string> shipped_profiles();
std::string host_profile_json(const HostOptions& options = {});
/// The profile of a GPU that is here: measured for about two seconds by kernels that NVRTC compiles; else what its driver says, over the
/// nearest shipped profile's figures. Throws Error{device}, and Error{unsupported} where no shipped profile is near.
std::string device_profile_json(const DeviceOptions& device = {}, bool measure = true, const std::string& nvrtc = {});
/// One line a differing figure.
std::vector<std::string> diff_profiles(const Profile& a, const Profile& b);

struct PlanOptions {
  int threads = 0;     ///< workers planned for; 0 = the profile's cores
  int top_k = 1;       ///< plans returned
  std::string target;  ///< "cpp", "cuda"; "" = by the profile's kind
};

/// Where the time goes, in microseconds of the whole kernel.
struct Breakdown {
  double compute_us = 0, overhead_us = 0;
  std::vector<std::pair<std::string, double>> levels;  ///< innermost first: {"L1", 3.2}, …
};

/// How a kernel of a CUDA source is started; its arguments are in the manifest.
struct Launch {
  std::string symbol;
  int64_t grid = 1;
  int block = 32;            ///< threads
  int64_t shared_bytes = 0;  ///< asked for at the launch, beside what the kernel declares
};

/// A printed plan: a complete translation unit and its manifest (docs: the emitted kernel).
struct Source {
  std::string text, extension, symbol, isa, target, manifest;
  std::vector<std::string> flags;  ///< beyond -O2 -std=c++17
  double emit_ms = 0;
  std::string arch;                ///< CUDA: "sm_80"
  std::vector<Launch> launches;    ///< CUDA: in order
  std::optional<Profile> profile;  ///< what it was planned for
};

/// How a program is executed on a profile, and for how long by the model.
class Plan {
 public:
  double predicted_us() const;
  double limit_us() const;           ///< the machine's bound for this work
  const std::string& bound() const;  ///< what binds: "compute", "L1", …, "DRAM", "parallel"
  const Breakdown& breakdown() const;
  const std::string& json() const;
  const std::string& explanation() const;
  int threads() const;
  const std::string& target() const;
  double construct_ms() const;
  Source emit() const;

  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};
/// The best plans, best first; deterministic, without search or measurement.
std::vector<Plan> plan(const Program& program, const Profile& profile, const PlanOptions& options = {});

struct BuildOptions {
  std::string compiler;  ///< name or path; "" = the first of c++, g++, clang++
  std::string search_path = "/usr/local/bin:/usr/bin:/bin";
  std::filesystem::path cache_dir;  ///< keeps compiled kernels; "" = none
  std::string nvrtc = {};           ///< CUDA: the libnvrtc; "" = the loader's path, then /usr/local/cuda*
  DeviceOptions device = {};        ///< CUDA: where the kernel runs
};
/// What a kernel of a cubin takes of an SM.
struct KernelResources {
  std::string symbol;
  int registers = 0;         ///< a thread
  int spill_bytes = 0;       ///< stored and loaded, a thread
  int64_t shared_bytes = 0;  ///< a block, the launch's included
  int blocks_per_sm = 0;     ///< at once
};
struct BuildReport {
  double compile_ms = 0, load_ms = 0;
  std::string cache;                     ///< "hit", "miss" or "off"
  std::string compiler = "cc";           ///< or "nvrtc"
  std::vector<KernelResources> kernels;  ///< of a cubin, one a launch
  std::string device = {};               ///< of a GPU's kernel: where it was loaded first, "device 0 (NVIDIA H100, sm_90)"
};
enum class Artifact { shared_library, object, cubin, ptx };
/// Compiles a source into a file, which is replaced atomically. CUDA sources become cubin or ptx, others a library or an object.
BuildReport build_file(const Source& source, Artifact kind, const std::filesystem::path& file, const BuildOptions& options = {});

struct Verification {
  bool ok = false;
  double max_rel_err = 0, tolerance = 0;  ///< max|got − want| / max|want|, and the largest allowed
  std::string worst;                      ///< the element that failed, or ""
};
struct Timing {
  double median_us = 0, min_us = 0;
  int64_t calls = 0;
};

/// A compiled and loaded kernel.
///
/// Of a GPU, all happens in the context that is current on the calling thread, else in the primary context of BuildOptions::device (the one
/// of the CUDA runtime, and so of PyTorch), which is then current within the call alone. One kernel serves any number of contexts and
/// streams.
class Kernel {
 public:
  static Kernel build(const Plan& plan, const BuildOptions& options = {});

  const std::string& manifest() const;
  const BuildReport& report() const;
  bool on_gpu() const;
  int64_t workspace_bytes() const;
  int64_t prepack_bytes(int input) const;  ///< of the packed form that `call` takes in this input's place; 0: not packed
  /// Of a GPU: addresses of the device; enqueued on `stream`, as `launch` is. Of a CPU done when it returns, and `stream` is nullptr.
  void prepack(int input, const void* source, void* packed, void* stream = nullptr) const;

  /// The entry of a CPU's kernel: allocates nothing, re-entrant. `args`: inputs (packed where prepack_bytes > 0), then outputs.
  /// Returns 0, or the code of an argument it refused; -1 for a GPU's kernel.
  int call(void* const* args, void* workspace, const rgen_threads* threads = nullptr, const int64_t* dims = nullptr) const noexcept;
  /// Enqueues a GPU's kernel on `stream` (a CUstream or cudaStream_t of the context; nullptr: the default stream) and returns. `args` as in
  /// `call`, but addresses of the device, multiples of 16 bytes, and `workspace` too. The first launch in a context loads the code there;
  /// later ones may be captured into a graph. The kernel must outlive what is enqueued. Throws Error{usage} for an address, Error{device}
  /// for what the driver refuses; what fails on the device shows when the stream is waited for.
  void launch(void* const* args, void* workspace, void* stream = nullptr) const;
  /// For a first try: plain tensors of the host in the order of inputs and outputs; packs and allocates what the call needs.
  void run(const std::vector<void*>& tensors, const rgen_threads* threads = nullptr) const;

  /// One call on seeded inputs against the f64 reference, and repeated calls on the same buffers (of a GPU back to back on one stream, by
  /// events, so that launches overlap with work).
  Verification verify(uint64_t seed = 1, const rgen_threads* threads = nullptr) const;
  Timing time(double seconds = 0.2, uint64_t seed = 1, const rgen_threads* threads = nullptr) const;

  struct Impl;
  explicit Kernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};
/// plan → emit → build of the best plan.
Kernel compile(const Program& program, const Profile& profile, const PlanOptions& plan = {}, const BuildOptions& build = {});

/// A parallel-for over `count` threads, the caller included. Safe to share.
class ThreadPool {
 public:
  explicit ThreadPool(int count);
  const rgen_threads* handle() const;

 private:
  std::shared_ptr<const void> impl_;
  const rgen_threads* handle_;
};
/// CPUs that this process may use.
int available_cpus();

struct PresetParameter {
  std::string name, type, meaning;
  bool required;
};
struct Preset {
  std::string name, summary, expression;
  std::vector<PresetParameter> parameters;
};
std::vector<Preset> presets();

/// The compiled kernels kept under a BuildOptions::cache_dir.
struct CacheInfo {
  std::filesystem::path folder;
  int64_t entries = 0, bytes = 0;
};
CacheInfo cache_info(const std::filesystem::path& cache_dir);
int64_t cache_clear(const std::filesystem::path& cache_dir);  ///< entries removed

/// Replaces a file as a whole: readers see the old or the new content. Its folder must exist.
void write_file(const std::filesystem::path& file, const std::string& content);

}  // namespace rgen
