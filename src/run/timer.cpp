#include <algorithm>
#include <chrono>

#include "run/kernel.h"

namespace rgen::run {

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) { return std::chrono::duration<double, std::micro>(Clock::now() - start).count(); }

/// The smallest step the clock shows, call overhead included.
double clock_granularity_us() {
  double smallest = 1e9;
  for (int i = 0; i < 16; ++i) {
    const auto start = Clock::now();
    double step;
    while ((step = us_since(start)) <= 0) continue;
    smallest = std::min(smallest, step);
  }
  return smallest;
}

double batch_us(const std::function<void()>& call, int64_t calls) {
  const auto start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  return us_since(start);
}

}  // namespace

Timing time_calls(const std::function<void()>& call, double seconds) {
  const double shortest_us = std::max(20.0, 10 * clock_granularity_us());
  constexpr size_t few = 5;  // a median needs some batches even of a call that outlasts `seconds`

  // Warm-up: caches, page tables, sleeping threads and the clock frequency; it also finds the length of a batch.
  const auto start = Clock::now();
  int64_t per_batch = 1;
  double us = batch_us(call, 1);
  for (const double warm_us = seconds * 1e6 / 10; us_since(start) < warm_us || us < shortest_us;) {
    if (us < shortest_us) per_batch *= 2;
    us = batch_us(call, per_batch);
  }

  std::vector<double> per_call;
  const auto measured = Clock::now();
  while (us_since(measured) < seconds * 1e6 || per_call.size() < few) per_call.push_back(batch_us(call, per_batch) / double(per_batch));
  const auto middle = per_call.begin() + long(per_call.size() / 2);
  std::nth_element(per_call.begin(), middle, per_call.end());
  return {*middle, *std::min_element(per_call.begin(), per_call.end()), per_batch * int64_t(per_call.size())};
}

}  // namespace rgen::run
