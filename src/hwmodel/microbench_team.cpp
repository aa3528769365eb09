#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "hwmodel/microbench.h"

namespace rgen::hw {

struct Team::State {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<void(int)>* task = nullptr;
  int members = 0, pending = 0;
  uint64_t round = 0;
  bool stop = false;
  std::atomic<int> arrived{0};

  void work(int index, int cpu) {
    if (cpu >= 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    }
    std::unique_lock lock(mutex);
    for (uint64_t seen = 0;;) {
      wake.wait(lock, [&] { return stop || round != seen; });
      if (stop) return;
      seen = round;
      if (index >= members) continue;
      const int all = members;
      lock.unlock();
      arrived.fetch_add(1);
      while (arrived.load() < all) std::this_thread::yield();  // the wake-ups are microseconds apart, the start is not
      (*task)(index);
      lock.lock();
      if (--pending == 0) done.notify_one();
    }
  }
};

Team::Team(const std::vector<int>& cpus) : state_(new State) {
  const std::vector<int> places = cpus.empty() ? std::vector<int>{-1} : cpus;
  for (size_t i = 0; i < places.size(); ++i) state_->threads.emplace_back([this, i, cpu = places[i]] { state_->work(int(i), cpu); });
}

Team::~Team() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
  delete state_;
}

int Team::size() const { return int(state_->threads.size()); }

void Team::run(int members, const std::function<void(int)>& task) {
  std::unique_lock lock(state_->mutex);
  state_->task = &task;
  state_->members = state_->pending = members;
  state_->arrived = 0;
  ++state_->round;
  state_->wake.notify_all();
  state_->done.wait(lock, [&] { return state_->pending == 0; });
}

}  // namespace rgen::hw
