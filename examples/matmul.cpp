// A matrix product with a ReLU, from JSON to a result: parse, plan for this machine, compile, call.
#include <cmath>
#include <cstdio>
#include <vector>

#include "rgen/rgen.hpp"

int main() try {
  constexpr int M = 100, N = 60, K = 80;
  const rgen::Program program = rgen::Program::parse(R"({
    "name": "mm_relu", "op": "matmul", "dtype": "f32", "params": {"m": 100, "n": 60, "k": 80}, "epilogue": ["relu"] })");
  const rgen::Profile host = rgen::Profile::load("host", {.measure = false, .cache_dir = {}});
  const rgen::Kernel kernel = rgen::compile(program, host);

  std::vector<float> a(M * K), b(K * N), c(M * N);  // row-major, as the spec says
  for (int i = 0; i < M * K; ++i) a[size_t(i)] = float(i % 7) - 3;
  for (int i = 0; i < K * N; ++i) b[size_t(i)] = float(i % 5) - 2;
  kernel.run({a.data(), b.data(), c.data()});

  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += a[size_t(m * K + k)] * b[size_t(k * N + n)];
      if (c[size_t(m * N + n)] != std::fmax(sum, 0.0f)) {  // small integers: exact in any order
        std::printf("wrong at [%d, %d]: %g\n", m, n, double(c[size_t(m * N + n)]));
        return 1;
      }
    }
  std::printf("all %d elements are right\n", M * N);
} catch (const rgen::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return rgen::exit_status(e.code());
}
