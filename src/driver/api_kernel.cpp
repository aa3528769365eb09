// The public Plan, Kernel and ThreadPool.
#include <sched.h>

#include <algorithm>

#include "base/error.h"
#include "driver/api.h"
#include "driver/cuda.h"
#include "driver/gpu_session.h"
#include "driver/session.h"
#include "run/cache.h"

namespace rgen {

namespace {

driver::BuildOptions internal(const BuildOptions& o) {
  return {o.compiler, o.search_path, o.cache_dir, o.nvrtc, {o.device.driver, o.device.ordinal}};
}

Breakdown breakdown_of(const driver::Planned& planned) {
  const hw::Estimate& e = planned.candidate.estimate;
  Breakdown b{e.compute_us, e.overhead_us, {}};
  for (size_t i = 0; i < e.level_us.size() && i < planned.profile->levels.size(); ++i)
    b.levels.emplace_back(planned.profile->levels[i].name, e.level_us[i]);
  return b;
}

}  // namespace

std::vector<Plan> plan(const Program& program, const Profile& profile, const PlanOptions& options) {
  std::vector<Plan> plans;
  for (driver::Planned& p :
       driver::plan(program.impl()->program, profile.impl()->profile, {options.threads, options.top_k, options.target})) {
    Breakdown breakdown = breakdown_of(p);
    plans.push_back(Plan(std::make_shared<const Plan::Impl>(Plan::Impl{std::move(p), std::move(breakdown)})));
  }
  return plans;
}

double Plan::predicted_us() const { return impl_->planned.candidate.estimate.us; }
double Plan::limit_us() const { return impl_->planned.candidate.limit_us; }
const std::string& Plan::bound() const { return impl_->planned.candidate.estimate.bound; }
const Breakdown& Plan::breakdown() const { return impl_->breakdown; }
const std::string& Plan::json() const { return impl_->planned.candidate.plan_json; }
const std::string& Plan::explanation() const { return impl_->planned.candidate.explanation; }
int Plan::threads() const { return impl_->planned.threads; }
const std::string& Plan::target() const { return impl_->planned.target; }
double Plan::construct_ms() const { return impl_->planned.construct_ms; }

Source Plan::emit() const {
  const driver::Planned& planned = impl_->planned;
  driver::Emission e = driver::emit(planned);
  Source source{e.code.source, e.code.extension, e.code.symbol, e.code.isa, e.target, e.manifest, e.code.flags, e.emit_ms, {}, {}, {}};
  source.profile = Profile(std::make_shared<const Profile::Impl>(Profile::Impl{planned.profile}));
  if (source.profile->is_gpu()) source.arch = emit::cuda_arch(*planned.profile);
  for (const emit::Launch& l : e.code.launches) source.launches.push_back({l.symbol, l.grid, l.block, l.shared_bytes});
  return source;
}

namespace {

emit::Emitted emitted(const Source& source) {
  emit::Emitted code;
  code.source = source.text;
  code.symbol = source.symbol;
  code.flags = source.flags;
  return code;
}

BuildReport build_library(const Source& source, run::Output kind, const std::filesystem::path& file, const BuildOptions& options) {
  const driver::Library library = driver::build(emitted(source), kind, internal(options));
  const auto content = run::read_file(library.file);
  if (!content) throw Error(ErrorCode::toolchain, "the compiled file vanished", library.file.string());
  run::write_atomically(file, *content);
  return {library.compile_ms, 0, library.cache, "cc", {}, {}};
}

/// What each launch takes of an SM. Nothing when NVRTC told no figures.
template <class Launches>
std::vector<KernelResources> resources(const Launches& launches, const std::vector<run::KernelResources>& kernels,
                                       const hw::Profile& profile) {
  std::vector<KernelResources> all;
  if (kernels.empty()) return all;
  for (const auto& l : launches) {
    const auto k = std::find_if(kernels.begin(), kernels.end(), [&](const run::KernelResources& r) { return r.symbol == l.symbol; });
    if (k == kernels.end()) throw Error(ErrorCode::internal, "the compiled source has no kernel '" + l.symbol + "'");
    all.push_back({l.symbol, k->registers, k->spill_bytes, k->shared_bytes + l.shared_bytes,
                   driver::blocks_per_sm(*k, l.block, l.shared_bytes, profile)});
  }
  return all;
}

BuildReport build_image(const Source& source, run::DeviceImage kind, const std::filesystem::path& file, const BuildOptions& options) {
  const driver::CudaImage image = driver::compile_cuda(emitted(source), source.arch, kind, internal(options));
  BuildReport report{image.compile_ms, 0, image.cache, "nvrtc", {}, {}};
  if (source.profile) report.kernels = resources(source.launches, image.kernels, *source.profile->impl()->profile);
  run::write_atomically(file, image.image);
  return report;
}

}  // namespace

BuildReport build_file(const Source& source, Artifact kind, const std::filesystem::path& file, const BuildOptions& options) {
  const bool device_image = kind == Artifact::cubin || kind == Artifact::ptx;
  if (device_image != (source.target == "cuda"))
    throw Error(ErrorCode::unsupported,
                "a source for '" + source.target + "' becomes " + (device_image ? "a shared library or an object" : "a cubin or ptx"),
                source.symbol);
  if (device_image) return build_image(source, kind == Artifact::cubin ? run::DeviceImage::cubin : run::DeviceImage::ptx, file, options);
  return build_library(source, kind == Artifact::object ? run::Output::object : run::Output::shared_library, file, options);
}

Kernel Kernel::build(const Plan& plan, const BuildOptions& options) {
  driver::Kernel k = driver::compile(plan.impl()->planned, internal(options));
  BuildReport report{k.compile_ms, k.load_ms, k.cache, k.gpu ? "nvrtc" : "cc", {}, {}};
  if (k.gpu) {
    report.kernels = resources(k.gpu->launches(), k.gpu->resources(), *plan.impl()->planned.profile);
    report.device = k.gpu->context().device().title();
  }
  return Kernel(std::make_shared<const Impl>(Impl{std::move(k), std::move(report)}));
}

Kernel compile(const Program& program, const Profile& profile, const PlanOptions& options, const BuildOptions& build) {
  return Kernel::build(plan(program, profile, options).front(), build);
}

const std::string& Kernel::manifest() const { return impl_->kernel.manifest; }
const BuildReport& Kernel::report() const { return impl_->report; }
bool Kernel::on_gpu() const { return impl_->kernel.gpu != nullptr; }
int64_t Kernel::workspace_bytes() const { return impl_->kernel.workspace_bytes; }

int64_t Kernel::prepack_bytes(int input) const {
  const auto& bytes = impl_->kernel.prepack_bytes;
  if (input < 0 || size_t(input) >= bytes.size()) throw Error(ErrorCode::usage, "no input " + std::to_string(input));
  return bytes[size_t(input)];
}

void Kernel::prepack(int input, const void* source, void* packed, void* stream) const {
  if (prepack_bytes(input) == 0) throw Error(ErrorCode::usage, "input " + std::to_string(input) + " is taken as it is");
  const driver::Kernel& k = impl_->kernel;
  if (k.gpu) return k.gpu->prepack(input, source, packed, static_cast<run::cuda::Stream>(stream));
  if (stream) throw Error(ErrorCode::usage, "a CPU's kernel packs on no stream: leave it out", k.program->name);
  driver::check_code(k, k.prepack[size_t(input)](source, packed));
}

int Kernel::call(void* const* args, void* workspace, const rgen_threads* threads, const int64_t* dims) const noexcept {
  return impl_->kernel.entry ? impl_->kernel.entry(args, dims, workspace, threads) : -1;
}

void Kernel::launch(void* const* args, void* workspace, void* stream) const {
  const driver::Kernel& k = impl_->kernel;
  if (!k.gpu) throw Error(ErrorCode::usage, "a CPU's kernel is called ('call'), not launched", k.program->name);
  k.gpu->launch(args, workspace, static_cast<run::cuda::Stream>(stream));
}

void Kernel::run(const std::vector<void*>& tensors, const rgen_threads* threads) const {
  const driver::Kernel& k = impl_->kernel;
  const size_t n_inputs = k.program->inputs.size(), n = n_inputs + k.program->outputs.size();
  if (tensors.size() != n)
    throw Error(ErrorCode::usage, std::to_string(n) + " tensors are needed, " + std::to_string(tensors.size()) + " were given",
                k.program->name);
  const auto outputs = tensors.begin() + long(n_inputs);
  if (k.gpu) return driver::GpuSession(k, {tensors.begin(), outputs}).call({outputs, tensors.end()});
  const std::vector<run::Buffer> packed = driver::pack(k, {tensors.begin(), outputs});
  const run::Buffer workspace(size_t(k.workspace_bytes));
  std::vector<void*> args = tensors;
  for (size_t i = 0; i < n_inputs; ++i)
    if (k.prepack[i]) args[i] = packed[i].data();
  driver::check_code(k, k.entry(args.data(), nullptr, k.workspace_bytes > 0 ? workspace.data() : nullptr, threads));
}

Verification Kernel::verify(uint64_t seed, const rgen_threads* threads) const {
  const driver::Kernel& k = impl_->kernel;
  const run::Comparison c = k.gpu ? driver::verify_on_device(k, seed) : driver::Session(k, seed).verify(threads);
  return {c.ok, c.max_rel_err, c.tolerance, c.worst};
}

Timing Kernel::time(double seconds, uint64_t seed, const rgen_threads* threads) const {
  const driver::Kernel& k = impl_->kernel;
  const run::Timing t = k.gpu ? driver::time_on_device(k, seed, seconds) : driver::Session(k, seed).time(seconds, threads);
  return {t.median_us, t.min_us, t.calls};
}

ThreadPool::ThreadPool(int count) {
  const auto pool = std::make_shared<const run::ThreadPool>(count);
  handle_ = pool->handle();
  impl_ = pool;
}
const rgen_threads* ThreadPool::handle() const { return handle_; }

int available_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

CacheInfo cache_info(const std::filesystem::path& cache_dir) {
  const run::Cache::Info i = run::Cache(driver::kernel_cache(cache_dir)).info();
  return {i.folder, i.entries, i.bytes};
}
int64_t cache_clear(const std::filesystem::path& cache_dir) { return run::Cache(driver::kernel_cache(cache_dir)).clear(); }

void write_file(const std::filesystem::path& file, const std::string& content) { run::write_atomically(file, content); }

}  // namespace rgen
