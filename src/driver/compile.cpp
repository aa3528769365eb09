#include "driver/compile.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "driver/gpu_kernel.h"
#include "driver/manifest.h"
#include "run/cache.h"

namespace rgen::driver {

namespace {

class Stopwatch {
 public:
  double ms() const { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string choose_target(const std::string& wanted, const hw::Profile& profile) {
  const bool cpu = profile.kind == hw::Profile::Kind::cpu;
  const std::string usual = cpu ? "cpp" : "cuda";
  if (!wanted.empty() && emit::find_backend(wanted).kind != profile.kind)
    throw Error(ErrorCode::unsupported,
                "target '" + wanted + "' is not for a " + (cpu ? "CPU" : "GPU") + "; profile '" + profile.name + "' takes '" + usual + "'");
  return wanted.empty() ? usual : wanted;
}

std::vector<std::string> compile_flags(const emit::Emitted& code, const run::Compiler& compiler) {
  std::vector<std::string> flags = {"-O2", "-std=c++17"};
  flags.insert(flags.end(), code.flags.begin(), code.flags.end());
  if (compiler.openmp && std::find(flags.begin(), flags.end(), "-fopenmp") == flags.end()) flags.push_back("-fopenmp");
  return flags;
}

/// Everything that the compiled bytes depend on.
std::string cache_key(const emit::Emitted& code, const std::vector<std::string>& flags, run::Output kind, const run::Compiler& compiler) {
  std::string key =
      std::string(RGEN_VERSION) + '\n' + compiler.path + '\n' + compiler.version + '\n' + (kind == run::Output::object ? "o" : "so");
  for (const std::string& f : flags) key += '\n' + f;
  return key + "\n\n" + code.source;
}

}  // namespace

std::vector<Planned> plan(std::shared_ptr<const ir::TensorProgram> program, std::shared_ptr<const hw::Profile> profile,
                          const PlanOptions& options) {
  const Stopwatch watch;
  if (options.threads < 0 || options.top_k < 1)
    throw Error(ErrorCode::usage, options.threads < 0 ? "threads must be 0 (the profile's cores) or more" : "top_k must be 1 or more");
  const std::string target = choose_target(options.target, *profile);
  if (!program->is_static())
    throw Error(ErrorCode::unsupported, "dimension '" + program->dims.front().name + "' is a range: this version plans fixed extents only",
                program->name);
  const int threads = options.threads > 0 ? options.threads : profile->cores;
  std::vector<rtile::Candidate> candidates = rtile::construct(*program, *profile, {threads, options.top_k, options.breadth});
  if (candidates.empty()) throw Error(ErrorCode::does_not_fit, "no plan for profile '" + profile->name + "'", program->name);
  std::vector<Planned> plans;
  for (rtile::Candidate& c : candidates) plans.push_back({program, profile, target, std::move(c), threads, watch.ms()});
  return plans;
}

Emission emit(const Planned& planned) {
  const Stopwatch watch;
  emit::Emitted code = emit::find_backend(planned.target).emit(*planned.program, planned.candidate, *planned.profile);
  std::string manifest = print_manifest(planned, code);
  return {std::move(code), planned.target, std::move(manifest), watch.ms()};
}

std::filesystem::path kernel_cache(const std::filesystem::path& cache_dir) { return cache_dir.empty() ? cache_dir : cache_dir / "kernels"; }

Library build(const emit::Emitted& code, run::Output kind, const BuildOptions& options) {
  const Stopwatch watch;
  const run::Compiler compiler = run::find_compiler(options.compiler, options.search_path, options.cache_dir);
  const std::vector<std::string> flags = compile_flags(code, compiler);
  const run::Cache cache(kernel_cache(options.cache_dir));
  const std::string key = cache_key(code, flags, kind, compiler);
  if (const auto hit = cache.find(key)) return {*hit, watch.ms(), "hit", nullptr};

  const auto folder = std::make_shared<const run::TemporaryFolder>();
  const std::filesystem::path file = folder->path() / (code.symbol + (kind == run::Output::object ? ".o" : ".so"));
  run::compile(compiler, code.source, flags, kind, file);
  cache.store(key, file);
  return {file, watch.ms(), cache.enabled() ? "miss" : "off", folder};
}

void require_device(const hw::Profile& profile, const GpuOptions& gpu) {
  if (profile.kind == hw::Profile::Kind::gpu) return require_gpu(profile, gpu);
  const std::vector<std::string> missing = hw::missing_isa(profile);
  if (missing.empty()) return;
  std::string list;
  for (const std::string& m : missing) list += (list.empty() ? "" : ", ") + m;
  throw Error(ErrorCode::device,
              "this machine lacks " + list + ": profile '" + profile.name +
                  "' is for another machine; 'gen', 'predict' and 'explain' work with it, 'host' is the profile of this one");
}

Kernel load(const Planned& planned, const Emission& emission, const Library& library) {
  const Stopwatch watch;
  require_device(*planned.profile);
  const auto module = run::Module::open(library.file);
  Kernel k{planned.program,    module, nullptr,      {}, {}, emission.code.workspace_bytes, emission.manifest,
           library.compile_ms, 0,      library.cache};
  k.entry = reinterpret_cast<run::EntryFn>(module->symbol(emission.code.symbol));
  k.prepack.resize(planned.program->inputs.size(), nullptr);
  k.prepack_bytes.resize(planned.program->inputs.size(), 0);
  for (const emit::PrepackEntry& p : emission.code.prepack) {
    k.prepack[size_t(p.input)] = reinterpret_cast<run::PrepackFn>(module->symbol(p.symbol));
    k.prepack_bytes[size_t(p.input)] = p.bytes;
  }
  k.load_ms = watch.ms();
  return k;
}

Kernel compile(const Planned& planned, const BuildOptions& options) {
  require_device(*planned.profile, options.gpu);  // before the compiler's time is spent
  const Emission emission = emit(planned);
  if (planned.profile->kind == hw::Profile::Kind::gpu) return compile_gpu(planned, emission, options);
  const Library library = build(emission.code, run::Output::shared_library, options);
  try {
    return load(planned, emission, library);
  } catch (const Error& e) {
    // Another process may have cleared the cache since the entry was found.
    if (library.cache != "hit" || e.code() != ErrorCode::toolchain) throw;
    BuildOptions uncached = options;
    uncached.cache_dir.clear();
    return load(planned, emission, build(emission.code, run::Output::shared_library, uncached));
  }
}

}  // namespace rgen::driver
