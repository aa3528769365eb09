// Time of the library's own hot paths: spec to ranked plans, and plan to source, for every entry of a list of workloads.
//   construct_bench [--benchmark_filter=construct/mm_512]        the summary line gives median, maximum and peak memory
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "emit/backend.h"
#include "hwmodel/profile.h"
#include "ir/ir.h"
#include "rtile/construct.h"

using namespace rgen;

int main(int argc, char** argv) {
  std::ifstream file(RGEN_SOURCE_DIR "/tests/data/workloads.json");
  std::ostringstream text;
  text << file.rdbuf();
  const auto specs = ir::parse_specs(text.str(), "workloads.json");
  const hw::Profile profile = hw::load_profile("zen5");
  static std::map<std::string, double> construct_ms;
  for (const auto& spec : specs) {
    benchmark::RegisterBenchmark(("construct/" + spec.name).c_str(), [&spec, &profile](benchmark::State& state) {
      const ir::TensorProgram program = spec.build();
      const auto start = clock();
      for (auto _ : state) benchmark::DoNotOptimize(rtile::construct(program, profile, {2, 1}));
      construct_ms[spec.name] = double(clock() - start) / CLOCKS_PER_SEC * 1e3 / double(state.iterations());
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("emit/" + spec.name).c_str(), [&spec, &profile](benchmark::State& state) {
      const ir::TensorProgram program = spec.build();
      const auto plans = rtile::construct(program, profile, {2, 1});
      for (auto _ : state) benchmark::DoNotOptimize(emit::emit_cpp(program, plans.front(), profile));
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  if (!construct_ms.empty()) {
    std::vector<double> all;
    for (const auto& [name, ms] : construct_ms) all.push_back(ms);
    std::sort(all.begin(), all.end());
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("construct: median %.3f ms, maximum %.3f ms over %zu workloads; peak memory %ld MB\n", all[all.size() / 2], all.back(),
                all.size(), usage.ru_maxrss / 1024);
  }
  return 0;
}
