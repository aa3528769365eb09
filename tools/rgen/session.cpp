#include "rgen/session.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>

#include "rgen/environment.h"

namespace rgen::cli {

namespace {

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Runs `work`; what it throws, as an Error.
template <class F>
std::optional<Error> error_of(F&& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& e) { return e; } catch (const std::bad_alloc&) {
    return Error(ErrorCode::internal, "out of memory");
  } catch (const std::exception& e) { return Error(ErrorCode::internal, e.what()); }
}

}  // namespace

Profile load_profile(const Options& options, const std::string& name) { return Profile::load(name, {!options.no_measure, cache_dir()}); }

Session::Session(const Options& options) : options_(options), profile_(load_profile(options, options.hardware)) {}

PlanOptions Session::plan_options() const { return {options_.threads, options_.top_k, ""}; }

BuildOptions Session::build_options() const {
  return {options_.compiler.empty() ? default_compiler() : options_.compiler,
          search_path(),
          options_.no_cache ? std::filesystem::path() : cache_dir(),
          nvrtc_library(),
          {cuda_driver(), options_.device}};
}

void Session::require_device() const { profile_.require_device({cuda_driver(), options_.device}); }

int Session::for_each(const Work& work) {
  const std::vector<Job> jobs = read_jobs(options_.specs, options_.extents);
  Json results = Json::array();
  int status = 0;
  Progress progress(jobs.size());
  progress_ = &progress;
  for (const Job& job : jobs) {
    progress.step(job.label);
    Json entry = {{"name", job.label}};
    const auto start = std::chrono::steady_clock::now();
    const auto error = error_of([&] {
      const Program program = job.build();
      entry["name"] = program.name();
      work({program, ms_since(start)}, entry);
    });
    if (error) {
      entry["error"] = {{"code", to_string(error->code())}, {"message", error->what()}};
      if (status == 0) status = exit_status(error->code());
      progress.clear();
      // Which of several specs it was, where the message does not say.
      const bool named =
          jobs.size() == 1 || std::string_view(error->what()).find(entry["name"].get<std::string>()) != std::string_view::npos;
      print_error(named ? *error : Error(error->code(), error->what(), entry["name"].get<std::string>()));
    }
    results.push_back(std::move(entry));
  }
  progress.clear();
  progress_ = nullptr;
  if (options_.json) print(Json{{"rgen", version()}, {"profile", profile_.name()}, {"results", results}}.dump(2) + "\n");
  return status;
}

void Session::say(const std::string& text) {
  if (options_.json) return;
  if (progress_) progress_->clear();
  print(text);
}

void describe(const Plan& plan, double parse_ms, Json& entry) {
  entry["target"] = plan.target();
  entry["threads"] = plan.threads();
  entry["construct_ms"] = parse_ms + plan.construct_ms();
  entry["predicted_us"] = plan.predicted_us();
  entry["limit_us"] = plan.limit_us();
  entry["bound"] = plan.bound();
  entry["plan"] = Json::parse(plan.json());
}

void describe(const BuildReport& report, Json& entry) {
  entry["compiler"] = report.compiler;
  entry["compile_ms"] = report.compile_ms;
  entry["cache"] = report.cache;
  if (!report.device.empty()) entry["device"] = report.device;
  if (report.kernels.empty()) return;
  const auto worst = [&](auto figure, auto worse) {
    auto value = std::invoke(figure, report.kernels.front());
    for (const KernelResources& k : report.kernels) value = worse(value, std::invoke(figure, k));
    return value;
  };
  const auto most = [](auto a, auto b) { return std::max(a, b); };
  entry["registers"] = worst(&KernelResources::registers, most);
  entry["spill_bytes"] = worst(&KernelResources::spill_bytes, most);
  entry["shared_bytes"] = worst(&KernelResources::shared_bytes, most);
  entry["blocks_per_sm"] = worst(&KernelResources::blocks_per_sm, [](auto a, auto b) { return std::min(a, b); });
}

void check_backend(const Options& options) {
  if (options.jit)
    throw Error(ErrorCode::unsupported, "this build has no LLVM, which --jit needs; --cc compiles with the system's compiler");
}

}  // namespace rgen::cli
