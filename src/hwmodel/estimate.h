// The analytical model: how long a workload takes on a profile. It knows no tiles and no operators: a workload is instruction counts of
// the busiest worker, streams with bytes per memory level, dependency chains, and parallel regions.
//
//   T = overlap(compute, L1, L2, L3, DRAM) + serial overheads             (ECM: Stengel et al., ICS 2015; roofline: Williams 2009)
//   compute = max(Σ atoms ÷ rate, loads ÷ ports, stores ÷ ports, instructions ÷ issue width, chain latency × steps)
#pragma once
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwmodel/profile.h"

namespace rgen::hw {

/// Bytes that one worker moves between a level and the next inner one (index as in Profile::levels).
struct LevelTraffic {
  double read_bytes = 0, write_bytes = 0;
  double stream_bytes = 0;   ///< written past the caches, to memory
  double concentration = 1;  ///< bytes come in at the first of so many uses: only the computing of that one hides them
  double ahead_bytes = 0;    ///< of read_bytes: asked for so early that nothing waits for them
  double piece_bytes = 0;    ///< written whole, as many would take as long as what is written by pieces of rows does, beside all else
  double runs = 0;           ///< contiguous stretches: each costs part of the latency before the prefetcher follows
  double waits = 0;          ///< lines that are waited for one after the other, each the whole latency
};

/// What the busiest worker executes.
struct Workload {
  struct Issue {
    std::shared_ptr<const Atom> atom;  ///< shared with the plan: either may go first
    double count;
    /// GPU: the share of a lane's multiply-adds that wait a cycle because their three registers are not in different banks. As compilers
    /// order them, a quarter (Jia et al. 2018, Dissecting the NVIDIA Volta GPU Architecture, §1 and §3.5: 15 % of the time).
    double waits = 0.25;
  };
  std::vector<Issue> atoms;                                            ///< contraction atoms issued
  using Functions = std::vector<std::pair<std::string_view, double>>;  ///< vectors through "add", "exp", … (Profile::cycles)
  Functions functions;
  Functions last;                                ///< that come together at the ends of tiles: beside nothing
  double loads = 0, stores = 0;                  ///< vector memory instructions issued
  double guarded_loads = 0;                      ///< of the loads, those behind a branch of their own (GPU)
  double instructions = 0;                       ///< all of them
  double chain_steps = 0, chain_latency_ns = 0;  ///< the longest dependency chain: steps × latency
  std::vector<LevelTraffic> levels;              ///< one per Profile::levels; [0] is what L1 delivers to registers
  double call_overheads = 0;                     ///< number of micro-kernel calls × cycles each, already in ns
  int workers = 1;                               ///< that run at once (they share bandwidth)
  int regions = 1;                               ///< parallel regions (fork and join each)
};

struct Estimate {
  double us = 0;
  double compute_us = 0;
  std::vector<double> level_us;  ///< one per Profile::levels
  double overhead_us = 0;        ///< fork, join, call, entries of the tile code
  int resident = 0;              ///< GPU: blocks that an SM holds at once
  std::string bound;             ///< "compute", "L1", …, "DRAM", "parallel"
  /// CPU: what other work may hide, of a transfer from memory and of one to it; and the time if it does.
  double loads_us = 0, stores_us = 0, near_us = 0;

  /// One after the other, on the same device; what binds the sum is the caller's to say.
  Estimate& operator+=(const Estimate& next);
};
/// A launch on a GPU: tasks of one warp each, `block_tasks` of them in a thread block. Levels are those of a GPU's profile: shared memory
/// (and the first-level cache with it), L2, DRAM.
struct GpuWorkload {
  Workload task;  ///< of one warp
  int64_t tasks = 1;
  int block_tasks = 1;
  int registers = 32;                                  ///< of a thread
  int64_t shared_bytes = 0;                            ///< of a block
  double issue_ns = 0;                                 ///< of `task`, if it is known already
  bool asynchronous = false;                           ///< operands are copied to shared memory past the first-level cache
  int together = 1;                                    ///< tasks that wait for each other: the warps that share a tile
  double stalls_ns = 0;                                ///< in which a block's warps wait for each other; other resident blocks fill them
  double rounds = 1;                                   ///< of loads that wait for those before, in a task
  double held = 0;                                     ///< share of the time of a block's tasks by which these loads wait for buffers, too
  double last_ns = 0;                                  ///< of a task after its last round, in which its warps ask for little of the SM
  int turns = 1;                                       ///< tasks of a block at once, whose warps go through rounds and the rest by turns
  double round_trip_ns = 0;                            ///< what a round takes beyond its loads' latency
  double launch_ns = 0;                                ///< of the launch beyond others' (of clusters), beside nothing else
  double block_read_bytes = 0, block_write_bytes = 0;  ///< between a block and L2
  double dram_read_bytes = 0, dram_write_bytes = 0;    ///< of the whole launch
};
/// Blocks of a launch that an SM holds at once; 0: it cannot hold one. (CUDA C++ Programming Guide, occupancy.)
int resident_blocks(int block_threads, int registers, int64_t shared_bytes, const Profile& profile);
///   T = max(waves of resident blocks: the larger of issue and latency, L2, DRAM) + launch;   `bound` may also be "latency"
Estimate estimate(const GpuWorkload& workload, const Profile& profile);
/// An Estimate's numbers alone. Of a launch that the device cannot hold: infinite.
struct GpuTimes {
  double us = std::numeric_limits<double>::infinity(), compute_us = 0;
  std::array<double, 3> level_us{};
  int resident = 0;
  std::string_view bound = "compute";
};
GpuTimes times(const GpuWorkload& workload, const Profile& profile);
/// In which an SM (a core) issues the instructions, if nothing waits.
double issue_ns(const Workload& workload, const Profile& profile);
/// The least that an SM (a core) takes for these instructions, whatever else it does.
double products_ns(const Workload::Issue& instructions, const Profile& profile);
/// Of a launch whose tasks do several things one after the other. Its shape (tasks, blocks, shared memory) is that of the first part.
Estimate estimate(std::span<const GpuWorkload> parts, const Profile& profile);

/// Post: us is monotone: it never grows when a bandwidth or a rate of the profile grows.
Estimate estimate(const Workload& workload, const Profile& profile);

}  // namespace rgen::hw
