// What a compiler above rgen asks: how long would this take on that device, where does the time go, and is it right and as fast here?
#include <cstdio>

#include "rgen/rgen.hpp"

int main() try {
  const rgen::Program conv = rgen::Program::parse(R"({ "name": "conv", "op": "conv2d", "dtype": "f32",
    "params": {"n": 1, "h": 28, "w": 28, "ci": 32, "co": 64, "r": 3, "s": 3, "stride": 1, "pad": 1, "groups": 1, "layout": "NHWC"},
    "epilogue": ["bias", "relu"] })");
  for (const char* device : {"zen5", "sapphire_rapids"}) {
    const rgen::Plan plan = rgen::plan(conv, rgen::Profile::load(device)).front();
    std::printf("%-16s %8.1f us, bound by %s; compute %.1f us", device, plan.predicted_us(), plan.bound().c_str(),
                plan.breakdown().compute_us);
    for (const auto& [level, us] : plan.breakdown().levels) std::printf(", %s %.1f us", level.c_str(), us);
    std::printf("\n");
  }
  const rgen::Kernel kernel = rgen::compile(conv, rgen::Profile::load("host", {.measure = false, .cache_dir = {}}));
  const rgen::ThreadPool pool(rgen::available_cpus());
  const rgen::Verification check = kernel.verify(1, pool.handle());
  if (!check.ok) {
    std::printf("wrong: %s\n", check.worst.c_str());
    return 1;
  }
  std::printf("here: %.1f us, largest error %.1e\n", kernel.time(0.05, 1, pool.handle()).median_us, check.max_rel_err);
} catch (const rgen::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return rgen::exit_status(e.code());
}
