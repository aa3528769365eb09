// Fork: the caller publishes a job and raises the epoch; join: it closes the job and waits until no worker is inside.
//
//   worker:  ++inside; if (open) take tasks; --inside          caller:  open = false; wait for inside == 0
//
// Both sides write one word and then read the other's (sequentially consistent), so either the worker sees the job closed or the caller
// sees the worker inside. Sleeping or descheduled workers are never waited for: the caller may do all tasks itself.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "run/kernel.h"

namespace rgen::run {

namespace {

using Clock = std::chrono::steady_clock;
/// Longer than the gaps between a kernel's parallel regions, shorter than what a sleeping core's wake-up costs by much.
constexpr auto spin_time = std::chrono::microseconds(80);

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `word` differs from `old`: at first spinning, then asleep.
void wait_for_change(const std::atomic<int>& word, int old) {
  const auto until = Clock::now() + spin_time;
  do
    for (int i = 0; i < 32; ++i) {
      if (word.load(std::memory_order_acquire) != old) return;
      relax();
    }
  while (Clock::now() < until);
  word.wait(old, std::memory_order_acquire);
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) cpus.push_back(c);
  return cpus;
}

void pin_to(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);  // a refusal only costs speed
}

}  // namespace

struct ThreadPool::Impl {
  using Task = void (*)(void* arg, int64_t i);

  // Each group of words on its own cache line: the epoch is polled while tasks are counted.
  alignas(64) std::atomic<int> epoch{0};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<int> inside{0};
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<bool> open{false};
  std::atomic<bool> busy{false};
  int64_t n = 0;  // n, task and arg change only while the job is closed
  Task task = nullptr;
  void* arg = nullptr;
  rgen_threads handle{};
  std::vector<std::thread> workers;

  void take_tasks() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) task(arg, i);
  }

  void work() {
    for (int seen = 0; !stop.load();) {
      wait_for_change(epoch, seen);
      seen = epoch.load();
      inside.fetch_add(1);
      if (open.load()) take_tasks();
      if (inside.fetch_sub(1) == 1) inside.notify_one();
    }
  }

  void run(int64_t count, Task t, void* a) {
    // Busy: called from a task of this pool, or by a second thread. Running inline is always right and cannot deadlock.
    if (workers.empty() || count <= 1 || busy.exchange(true)) {
      for (int64_t i = 0; i < count; ++i) t(a, i);
      return;
    }
    n = count;
    task = t;
    arg = a;
    next.store(0, std::memory_order_relaxed);
    open.store(true);
    epoch.fetch_add(1);
    epoch.notify_all();
    take_tasks();
    open.store(false);
    for (int still; (still = inside.load()) != 0;) wait_for_change(inside, still);
    busy.store(false);
  }
};

ThreadPool::ThreadPool(int count, bool pin) : impl_(std::make_unique<Impl>()) {
  impl_->handle = {sizeof(rgen_threads), count < 1 ? 1 : count, impl_.get(),
                   [](void* ctx, int64_t n, void (*task)(void*, int64_t), void* arg) { static_cast<Impl*>(ctx)->run(n, task, arg); }};
  const std::vector<int> cpus = pin ? allowed_cpus() : std::vector<int>{};
  for (int i = 1; i < count; ++i) {
    try {
      impl_->workers.emplace_back([impl = impl_.get()] { impl->work(); });
    } catch (const std::system_error&) {  // the system's limit on threads: fewer are as right
      impl_->handle.count = i;
      break;
    }
    if (!cpus.empty()) pin_to(impl_->workers.back(), cpus[size_t(i) % cpus.size()]);
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true);
  impl_->epoch.fetch_add(1);
  impl_->epoch.notify_all();
  for (std::thread& w : impl_->workers) w.join();
}

const rgen_threads* ThreadPool::handle() const { return &impl_->handle; }

}  // namespace rgen::run
