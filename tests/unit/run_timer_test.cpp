#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "run/kernel.h"

using namespace rgen::run;

TEST_CASE("time_calls measures a call of known length") {
  const Timing t = time_calls([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }, 0.02);
  CHECK(t.min_us >= 2000);
  CHECK(t.median_us >= t.min_us);
  CHECK(t.median_us < 20000);
  CHECK(t.calls >= 5);
}

TEST_CASE("time_calls repeats a short call often enough for the clock") {
  int64_t calls = 0;
  volatile int sink = 0;
  const Timing t = time_calls(
      [&] {
        ++calls;
        sink = sink + 1;
      },
      0.02);
  CHECK(t.median_us < 1);
  CHECK(t.calls > 1000);
  CHECK(calls > t.calls);  // the warm-up is not counted
}
