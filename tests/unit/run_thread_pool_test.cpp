#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "run/kernel.h"

using rgen::run::ThreadPool;

namespace {

/// Runs `n` tasks of `f` on the pool.
template <class F>
void run(const ThreadPool& pool, int64_t n, F f) {
  const rgen_threads* h = pool.handle();
  h->run(
      h->ctx, n, [](void* arg, int64_t i) { (*static_cast<F*>(arg))(i); }, &f);
}

}  // namespace

TEST_CASE("the handle says its size and its count") {
  CHECK(ThreadPool(3).handle()->size == sizeof(rgen_threads));
  CHECK(ThreadPool(3).handle()->count == 3);
  CHECK(ThreadPool(0).handle()->count == 1);
}

TEST_CASE("every task runs exactly once, and all are done when run returns") {
  for (int count : {1, 2, 5}) {
    const ThreadPool pool(count);
    for (int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<int> times(size_t(n), 0);  // plain: a missing join is a data race
      for (int repeat = 1; repeat <= 50; ++repeat) {
        run(pool, n, [&](int64_t i) { ++times[size_t(i)]; });
        CHECK(std::accumulate(times.begin(), times.end(), 0) == n * repeat);
      }
      for (int t : times) CHECK(t == 50);
    }
  }
}

TEST_CASE("workers that fell asleep wake up") {
  const ThreadPool pool(3);
  std::atomic<int> inside{0};
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> arrived{0};
    // Three tasks that are only done together: they need three threads.
    run(pool, 3, [&](int64_t) {
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
      ++inside;
    });
  }
  CHECK(inside == 15);
}

TEST_CASE("a task may use the pool it runs on") {
  const ThreadPool pool(3);
  std::atomic<int> inner{0};
  run(pool, 8, [&](int64_t) { run(pool, 5, [&](int64_t) { ++inner; }); });
  CHECK(inner == 40);
}

TEST_CASE("several threads may share a pool") {
  const ThreadPool pool(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int r = 0; r < 200; ++r) {
        std::vector<int> times(17, 0);
        run(pool, 17, [&](int64_t i) { ++times[size_t(i)]; });
        for (int t : times) wrong += t != 1;
      }
    });
  for (auto& c : callers) c.join();
  CHECK(wrong == 0);
}

TEST_CASE("pools start and stop in any state") {
  for (int i = 0; i < 50; ++i) {
    const ThreadPool pool(4, i % 2 == 0);
    if (i % 3) run(pool, 4, [](int64_t) {});
  }
}

// The sanitizers' own maps need more address space than the test leaves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a system that refuses threads gives a smaller pool") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Without room for their stacks, threads cannot be made.
    const rlimit limit = {size_t{512} << 20, size_t{512} << 20};
    setrlimit(RLIMIT_AS, &limit);
    const ThreadPool pool(2000);
    std::atomic<int> done{0};
    run(pool, 100, [&](int64_t) { ++done; });
    _exit(done == 100 && pool.handle()->count < 2000 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
#endif
