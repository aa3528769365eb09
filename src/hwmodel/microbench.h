// Measurements of this machine, a few milliseconds each. Loops of machine instructions are written in assembly: what is timed is then
// the same under every compiler, option and sanitizer, and the library itself builds for the architecture's baseline.
// Internal to hwmodel: profile.h is the interface.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "hwmodel/host.h"

namespace rgen::hw {

/// A loop whose iteration executes `operations` instructions of one kind. `scratch` is `scratch_bytes` of L1, see fill_scratch.
struct InstructionLoop {
  /// "clock", "load", "store", an entry of /cycles, the name of an atom, "fma+add": one of each; "tile", "stored_tile": twelve results of
  /// sixteen multiply-adds each, and the same stored.
  std::string_view figure;
  bool chain;  ///< each instruction needs the result of the one before: latency; else independent: throughput
  double operations;
  void (*run)(int64_t iterations, void* scratch);
};
/// Those of this architecture for vectors of so many bits, less the ones whose atom needs a feature that `isa` lacks.
std::vector<InstructionLoop> instruction_loops(int vector_bits, const std::vector<std::string>& isa);
constexpr int64_t scratch_bytes = 8192;

/// Streams through memory with full-width loads or stores. Precondition: `bytes` is a multiple of stream_block.
struct StreamLoops {
  void (*read)(const void* begin, int64_t bytes);
  void (*write)(void* begin, int64_t bytes);
  void (*stream)(void* begin, int64_t bytes);               ///< writes past the caches; null: there are no such stores
  void (*copy)(const void* from, void* to, int64_t bytes);  ///< reads, and writes past the caches
  void (*multiply)(const void* begin, int64_t bytes);       ///< reads; with every load, a dozen independent multiply-adds
  /// Copies four rows, a vector of each by turns, `row_bytes` of each and `stride` from one to the next; null: not here. Pre: whole
  /// vectors.
  void (*turns)(const void* from, void* to, int64_t row_bytes, int64_t stride);
  void (*lines)(void* begin, int64_t count, int64_t stride);  ///< writes a line of each of so many rows; null: not here
};
StreamLoops stream_loops(int vector_bits);
constexpr int64_t stream_block = 1024;
/// Follows `hops` pointers from `start`; returns the last (a value nobody can leave out).
void* chase(void* start, int64_t hops);

/// Threads that each stay on one core. They are our own, so the caller's affinity is neither used nor changed.
class Team {
 public:
  /// One thread a processor of `cpus`, or one unpinned if that is empty.
  explicit Team(const std::vector<int>& cpus);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  int size() const;
  /// task(i) on the threads 0 … members-1, all let go at the same moment; returns when all are done.
  void run(int members, const std::function<void(int)>& task);

 private:
  struct State;
  State* state_;
};

/// Time that is left of what a measurement may take.
class Budget {
 public:
  explicit Budget(double seconds)
      : end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds))) {}
  bool spent() const { return Time::now() >= end_; }

 private:
  using Time = std::chrono::steady_clock;
  Time::time_point end_;
};

struct Rates {
  double ghz = 0;
  struct Figure {
    std::string figure;
    bool chain;
    double cycles;  ///< of one instruction
  };
  std::vector<Figure> figures;
  double all_cores_fma = 0;                                ///< rate of a core's fma when all cores run it ÷ when one does
  double fork_join_us = 0;                                 ///< waking spinning threads on all cores and waiting for them
  double find(std::string_view figure, bool chain) const;  ///< cycles, 0 if not measured
  /// The better of each figure. Pre: `again` has the same ones.
  void improve(const Rates& again);
};
Rates measure_rates(Team& team, int vector_bits, const std::vector<std::string>& isa);

struct LevelFigures {
  int64_t capacity_bytes = 0;  ///< what is really there
  bool reduced = false;        ///< less than was reported
  double latency_ns = 0;
  double overlap = -1;  ///< how much of its read time adds to that of multiplications beside it (0 … 1); < 0: not measured
  double split_reads_ns = -1, split_writes_ns = -1, apart_ns = -1, pieces = -1, columns = -1, kib_columns = -1, turns = -1,
         kept = -1;  ///< MemoryLevel's, where it has them; < 0: not measured
  struct Row {
    int sharers;
    double read_gbs, write_gbs, stream_gbs = 0, copy_gbs = 0;  ///< the last two of memory, where there are such stores
    double row_gbs = 0, rows_gbs = 0;  ///< of memory in pages as callers get them: one row; MemoryLevel::kRows by turns
    double rows_huge_gbs = 0;          ///< the same in huge pages, in which `read_gbs` is that of one row
  };
  std::vector<Row> rows;
};
/// `caches` innermost first; the result has one more entry: memory. What the budget does not allow is not measured, but for the
/// bandwidth of each level to one core.
std::vector<LevelFigures> measure_memory(Team& team, const std::vector<CacheLevel>& caches, int vector_bits, const Budget& budget);

/// Replaces what can be measured in the document of detected_document(); 3 seconds at most.
void measure_into(nlohmann::json& document, const Topology& topology, const std::vector<std::string>& isa);

}  // namespace rgen::hw
