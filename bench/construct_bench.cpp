// Time of the library's own hot paths: spec to ranked plans, and plan to source, for every entry of the lists of workloads on profiles of
// a CPU and of GPUs.
//   construct_bench [--benchmark_filter=construct/zen5/mm_512]        a line a profile gives median, maximum and where that is
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "emit/backend.h"
#include "hwmodel/profile.h"
#include "ir/ir.h"
#include "rtile/construct.h"

using namespace rgen;

namespace {

constexpr const char* kProfiles[] = {"zen5", "a100", "h100", "rtx4090"};

std::vector<ir::SpecEntry> specs_of(const std::string& path) {
  std::ifstream file(RGEN_SOURCE_DIR "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return ir::parse_specs(text.str(), path);
}

/// Least time of a call in ms, of this thread: the machine may have other work.
using Times = std::map<std::string, double>;

double thread_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) / 1e6;
}

void register_construction(const ir::SpecEntry& spec, const hw::Profile& profile, Times& construct_ms) {
  benchmark::RegisterBenchmark(("construct/" + profile.name + "/" + spec.name).c_str(), [&](benchmark::State& state) {
    const ir::TensorProgram program = spec.build();
    double& least = construct_ms.try_emplace(spec.name, std::numeric_limits<double>::infinity()).first->second;
    for (auto _ : state) {
      const double start = thread_ms();
      benchmark::DoNotOptimize(rtile::construct(program, profile, {}));
      least = std::min(least, thread_ms() - start);
    }
  })->Unit(benchmark::kMillisecond);
}

void register_emission(const ir::SpecEntry& spec, const hw::Profile& profile) {
  benchmark::RegisterBenchmark(("emit/" + profile.name + "/" + spec.name).c_str(), [&](benchmark::State& state) {
    const ir::TensorProgram program = spec.build();
    const auto plans = rtile::construct(program, profile, {});
    const emit::Backend& backend = emit::find_backend(profile.kind == hw::Profile::Kind::cpu ? "cpp" : "cuda");
    for (auto _ : state) benchmark::DoNotOptimize(backend.emit(program, plans.front(), profile));
  })->Unit(benchmark::kMillisecond);
}

void summarise(const std::string& profile, const Times& construct_ms) {
  if (construct_ms.empty()) return;
  std::vector<std::pair<double, std::string>> all;
  for (const auto& [name, ms] : construct_ms) all.push_back({ms, name});
  std::sort(all.begin(), all.end());
  std::printf("construct for %s: median %.3f ms, maximum %.3f ms (%s) over %zu workloads\n", profile.c_str(), all[all.size() / 2].first,
              all.back().first, all.back().second.c_str(), all.size());
}

}  // namespace

int main(int argc, char** argv) {
  const auto specs = specs_of("tests/data/workloads.json"), more = specs_of("bench/roller/workloads.json");
  std::map<std::string, hw::Profile> profiles;
  std::map<std::string, Times> construct_ms;
  for (const char* name : kProfiles) {
    const hw::Profile& profile = profiles.try_emplace(name, hw::load_profile(name)).first->second;
    for (const auto* list : {&specs, &more})
      for (const ir::SpecEntry& spec : *list) register_construction(spec, profile, construct_ms[name]);
  }
  for (const char* name : {"zen5", "a100"})
    for (const ir::SpecEntry& spec : specs) register_emission(spec, profiles.at(name));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  for (const char* name : kProfiles) summarise(name, construct_ms[name]);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("peak memory %ld MB\n", usage.ru_maxrss / 1024);
  return 0;
}
