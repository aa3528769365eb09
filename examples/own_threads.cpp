// A server's way: one kernel shared by all, the constant operand packed once, buffers allocated once, and the program's own threads
// behind the kernel's parallel-for.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "rgen/rgen.hpp"

namespace {

/// The simplest parallel-for there is: `count` threads for every region. A real program hands the tasks to the threads that it has.
void run_on_threads(void* ctx, int64_t n, void (*task)(void* arg, int64_t i), void* arg) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i; (i = next++) < n;) task(arg, i);
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < *static_cast<const int*>(ctx); ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
/// Room that a kernel may use: 64-byte aligned; at least one line.
std::unique_ptr<void, Free> aligned(int64_t bytes) {
  return std::unique_ptr<void, Free>(std::aligned_alloc(64, size_t((bytes + 64) / 64 * 64)));
}

}  // namespace

int main() try {
  constexpr int M = 64, N = 96, K = 128;
  const rgen::Program program = rgen::Program::parse(R"json({ "name": "layer", "dims": {"M": 64, "N": 96, "K": 128},
    "inputs": { "X": {"shape": ["M","K"], "dtype": "f32"}, "W": {"shape": ["K","N"], "dtype": "f32", "constant": true} },
    "compute": [ "Y[m:M, n:N] = sum(k:K | X[m,k] * W[k,n])" ], "outputs": ["Y"] })json");
  int count = 3;
  rgen::PlanOptions options;
  options.threads = count;
  const rgen::Kernel kernel = rgen::compile(program, rgen::Profile::load("host", {.measure = false, .cache_dir = {}}), options);

  const std::vector<float> w(K * N, 0.5f);
  const int64_t packed_bytes = kernel.prepack_bytes(1);
  const auto packed = aligned(packed_bytes), workspace = aligned(kernel.workspace_bytes());
  if (packed_bytes > 0) kernel.prepack(1, w.data(), packed.get());

  std::vector<float> x(M * K, 2.0f), y(M * N);
  void* args[] = {x.data(), packed_bytes > 0 ? packed.get() : const_cast<float*>(w.data()), y.data()};
  const rgen_threads threads = {sizeof(rgen_threads), count, &count, run_on_threads};
  for (int call = 0; call < 10; ++call)  // nothing is allocated or packed here
    if (const int code = kernel.call(args, workspace.get(), &threads)) {
      std::fprintf(stderr, "the kernel refused argument %d\n", code);
      return 1;
    }
  for (float v : y)
    if (v != 128.0f) return 1;
  std::printf("%d results of 128\n", M * N);
} catch (const rgen::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return rgen::exit_status(e.code());
}
