#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "hwmodel/microbench.h"

namespace rgen::hw {

namespace {

using Time = std::chrono::steady_clock;
double ns_since(Time::time_point start) { return std::chrono::duration<double, std::nano>(Time::now() - start).count(); }

// Layout: operands at 0, gather indices at 64 (spread over four lines), a divisor at 128, a tile configuration at 256.
void fill_scratch(unsigned char* scratch) {
  std::memset(scratch, 0, size_t(scratch_bytes));
  const float operands[2] = {1.2345678f, 1.7654321f};
  std::memcpy(scratch, operands, sizeof operands);
  for (int32_t lane = 0; lane < 16; ++lane) {
    const int32_t index = lane * 21 % 64;
    std::memcpy(scratch + 64 + 4 * lane, &index, 4);
  }
  scratch[128] = 37;
  scratch[256] = 1;  // palette 1: eight tiles of 16 rows of 64 bytes
  for (int tile = 0; tile < 8; ++tile) {
    scratch[256 + 16 + 2 * tile] = 64;
    scratch[256 + 48 + tile] = 16;
  }
}

double run_ns(const InstructionLoop& loop, int64_t iterations, void* scratch) {
  const Time::time_point start = Time::now();
  loop.run(iterations, scratch);
  return ns_since(start);
}

int64_t iterations_for(double ns, const InstructionLoop& loop, void* scratch) {
  int64_t iterations = 16;
  while (run_ns(loop, iterations, scratch) < ns) iterations *= 2;
  return iterations;
}

// Nanoseconds of one instruction: the fastest of several runs of about 100 µs, so that an interruption does not count.
double fastest(const InstructionLoop& loop, void* scratch) {
  const int64_t iterations = iterations_for(50e3, loop, scratch);
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 9; ++repeat) best = std::min(best, run_ns(loop, iterations, scratch));
  return best / (double(iterations) * loop.operations);
}

// Cycles of one instruction: the clock drifts from one millisecond to the next, so runs of the clock's chain go between.
double cycles_of(const InstructionLoop& loop, const InstructionLoop& clock, void* scratch) {
  const int64_t iterations = iterations_for(50e3, loop, scratch), ticks = iterations_for(20e3, clock, scratch);
  double ns = std::numeric_limits<double>::infinity(), clock_ns = ns;
  for (int repeat = 0; repeat < 9; ++repeat) {
    clock_ns = std::min(clock_ns, run_ns(clock, ticks, scratch));
    ns = std::min(ns, run_ns(loop, iterations, scratch));
  }
  return ns / clock_ns * double(ticks) * clock.operations / (double(iterations) * loop.operations);
}

struct alignas(64) Scratch {
  unsigned char bytes[size_t(scratch_bytes)];
  Scratch() { fill_scratch(bytes); }
};

// A parallel region of threads that still spin from the last one: they see the new region, draw tasks until there are none, and meet
// in a barrier at the end, which the first thread leaves last.
double fork_join_us(Team& team) {
  constexpr int rounds = 400;
  std::atomic<int> epoch{0}, drawn{0}, arrived{0}, left{0};
  std::vector<double> times;
  auto wait = [](auto ready) {
    for (int spins = 0; !ready(); ++spins)
      if (spins > 20000) std::this_thread::yield();  // another program has our core
  };
  const int size = team.size();
  auto draw = [&](int round) {
    while (drawn.fetch_add(1, std::memory_order_acq_rel) < round * 2 * size - size) {}
  };
  team.run(size, [&](int index) {
    for (int round = 1; round <= rounds; ++round) {
      if (index == 0) {
        const Time::time_point start = Time::now();
        drawn.store((round - 1) * 2 * size, std::memory_order_relaxed);
        epoch.store(round, std::memory_order_release);
        draw(round);
        wait([&] { return arrived.load(std::memory_order_acquire) == round * (size - 1); });
        left.store(round, std::memory_order_release);
        times.push_back(ns_since(start) * 1e-3);
      } else {
        wait([&] { return epoch.load(std::memory_order_acquire) >= round; });
        draw(round);
        arrived.fetch_add(1, std::memory_order_acq_rel);
        wait([&] { return left.load(std::memory_order_acquire) >= round; });
      }
    }
  });
  std::nth_element(times.begin(), times.begin() + rounds / 4, times.end());
  return times[rounds / 4];
}

}  // namespace

double Rates::find(std::string_view figure, bool chain) const {
  for (const Figure& one : figures)
    if (one.figure == figure && one.chain == chain) return one.cycles;
  return 0;
}

void Rates::improve(const Rates& again) {
  ghz = std::max(ghz, again.ghz), all_cores_fma = std::max(all_cores_fma, again.all_cores_fma);
  fork_join_us = std::min(fork_join_us, again.fork_join_us);
  for (size_t i = 0; i < figures.size(); ++i) figures[i].cycles = std::min(figures[i].cycles, again.figures[i].cycles);
}

Rates measure_rates(Team& team, int vector_bits, const std::vector<std::string>& isa) {
  const std::vector<InstructionLoop> loops = instruction_loops(vector_bits, isa);
  auto loop = [&](std::string_view figure, bool chain) {
    return *std::find_if(loops.begin(), loops.end(),
                         [&](const InstructionLoop& one) { return one.figure == figure && one.chain == chain; });
  };
  const InstructionLoop clock = loop("clock", true), fma = loop("fma", false);
  Rates rates;
  double cycle_ns = 0, alone = 0;
  team.run(1, [&](int) {
    Scratch scratch;
    for (int warm = 0; warm < 20; ++warm) fastest(fma, scratch.bytes);  // reach the clock that sustained vector work has
    cycle_ns = fastest(clock, scratch.bytes);
    for (const InstructionLoop& one : loops)
      if (one.figure != clock.figure)
        rates.figures.push_back({std::string(one.figure), one.chain, std::numeric_limits<double>::infinity()});
    // in turn, several times: whoever shares the core may take half of its ports for longer than one figure lasts
    for (int pass = 0; pass < 3; ++pass) {
      auto figure = rates.figures.begin();
      for (const InstructionLoop& one : loops)
        if (one.figure != clock.figure) figure->cycles = std::min(figure->cycles, cycles_of(one, clock, scratch.bytes)), ++figure;
    }
    alone = fastest(fma, scratch.bytes);
    cycle_ns = std::min(cycle_ns, fastest(clock, scratch.bytes));
  });
  rates.ghz = 1 / cycle_ns;
  std::vector<double> together(size_t(team.size()));
  team.run(team.size(), [&](int index) {
    Scratch scratch;
    together[size_t(index)] = fastest(fma, scratch.bytes);
  });
  double sum = 0;
  for (double ns : together) sum += alone / ns;
  rates.all_cores_fma = std::min(1.0, sum / team.size());
  if (team.size() > 1) rates.fork_join_us = fork_join_us(team);
  return rates;
}

}  // namespace rgen::hw
