#include "hwmodel/estimate.h"

#include <algorithm>
#include <cmath>

namespace rgen::hw {

namespace {

/// Cache misses that one core has under way at once: a share of every stretch's first latency is exposed.
constexpr double kMissesInFlight = 10;

double compute_ns(const Workload& w, const Profile& p) {
  // multiply-adds and the vector functions compete for the same ports
  double vector_ns = 0;
  for (const auto& [atom, count] : w.atoms) vector_ns += count / atom->per_ns;
  for (const auto& [name, count] : w.functions) vector_ns += count * p.cost(name) / p.ghz;
  const double loads = w.loads / (p.load_ports * p.ghz), stores = w.stores / (p.store_ports * p.ghz);
  const double issue = w.instructions / (p.issue_width * p.ghz);
  // resources used near their limits at the same time get in each other's way: a smooth maximum (at most 2 of them: +12 %)
  double sum = 0;
  for (double t : {vector_ns, loads, stores, issue, w.chain_steps * w.chain_latency_ns}) sum += std::pow(t, 6);
  return std::pow(sum, 1.0 / 6);
}

}  // namespace

Estimate estimate(const Workload& w, const Profile& p) {
  Estimate e;
  e.compute_us = compute_ns(w, p) / 1e3;
  // max over the resources, plus what is not hidden: the part of each transfer that its level's coefficient says, and first misses
  double longest = e.compute_us, exposed = 0;
  e.bound = "compute";
  for (size_t i = 0; i < p.levels.size(); ++i) {
    const LevelTraffic t = i < w.levels.size() ? w.levels[i] : LevelTraffic{};
    const MemoryLevel& level = p.levels[i];
    const double transfer = (t.read_bytes / level.read_gbs(w.workers) + t.write_bytes / level.write_gbs(w.workers)) / 1e3;
    const double first_misses = t.runs * level.latency_ns / kMissesInFlight / 1e3;
    e.level_us.push_back(transfer + first_misses);
    exposed += transfer * level.overlap + first_misses;
    if (transfer * (1 - level.overlap) > longest) longest = transfer * (1 - level.overlap), e.bound = level.name;
  }
  e.overhead_us = p.call_us + (w.workers > 1 ? w.regions * p.fork_join_us : 0.0) + w.call_overheads / 1e3;
  e.us = longest + exposed + e.overhead_us;
  if (w.workers > 1 && e.overhead_us > longest + exposed) e.bound = "parallel";
  return e;
}

}  // namespace rgen::hw
