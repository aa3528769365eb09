#include "hwmodel/estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/math.h"

namespace rgen::hw {

namespace {

/// Of an instruction whose lanes multiply and add for themselves: the time that it waits for banks of registers.
double bank_wait_ns(const Workload::Issue& issue, const Profile& p) {
  const Atom& atom = *issue.atom;
  const bool lanes = atom.name == "fma";
  if (p.kind != Profile::Kind::gpu || !(lanes || atom.m == 1)) return 0;
  const double instructions = lanes ? double(atom.m) * atom.n * atom.k / 32 : 1;
  return issue.waits * instructions / (p.gpu.schedulers * p.ghz);
}

double square(double x) { return x * x; }
double cube(double x) { return x * x * x; }

/// What a transfer adds to the cube of the computing's time: it has a part 1 / n of that to hide behind, but for `steady_us`, which come
/// all the time; two resources of equal length take a quarter longer than one.
double cubes_of(double us, double n, double steady_us, double compute_us) {
  if (n <= 1) return cube(us + steady_us);
  const auto together = [](double x, double y) { return std::cbrt(cube(x) + cube(y)); };
  return cube(together(compute_us / n, us + steady_us / n) + (1 - 1 / n) * together(compute_us, steady_us)) - cube(compute_us);
}

/// Throughput of the instructions, and a dependency chain beside it.
double issue_ns(const Workload& w, const Profile& p, double chain_ns) {
  // products, and the functions that compete with them for the same ports, beside those that have their own; others may use both
  double products = 0, beside = 0, both = 0;
  for (const Workload::Issue& i : w.atoms) products += products_ns(i, p);
  for (const auto& [name, count] : w.functions)
    (name == "mul" ? products : p.own_ports.count(name) ? beside : both) += count * p.cost(name) / p.ghz;
  for (const auto& [name, count] : w.last) both += count * p.cost(name) / p.ghz;
  const double vector_ns = std::max(products, beside) + both;
  const double loads = w.loads / (p.load_ports * p.ghz), stores = w.stores / (p.store_ports * p.ghz);
  const double issue = w.instructions / (p.issue_width * p.ghz);
  // resources used near their limits at the same time get in each other's way: a smooth maximum, of fourth powers (two of equal length:
  // +19 %), or of sixth powers with a GPU's many warps (+12 %)
  const bool gpu = p.kind == Profile::Kind::gpu;
  double sum = 0;
  for (double t : {vector_ns, loads, stores, issue, chain_ns}) sum += t * t * t * t * (gpu ? t * t : 1);
  return std::sqrt(gpu ? std::cbrt(sum) : std::sqrt(sum));
}

/// The longest of computing and the levels, of each what its coefficient lets overlap with the rest; and the sum of what it does not.
struct Overlap {
  double longest, exposed = 0;
  std::string_view bound;
  struct Transfer {
    double us, first_misses = 0;
    double steady = 0;              ///< of `us`: all of them hide
    double pieces = 0, longer = 0;  ///< what writes by pieces of rows take beside it, and by how much longer than written whole
  };
  void add(const Transfer& t, const MemoryLevel& level) {
    const double added = (t.us - t.steady) * level.overlap, hidden = std::max(t.us - added, t.pieces);
    exposed += added + t.longer * level.overlap + t.first_misses;
    if (hidden > longest) longest = hidden, bound = level.name;
  }
};

/// Warps that share a tile go through it in step: each part takes at least the time in which an SM issues what all of them do in it, and in
/// which its share of the bandwidths brings and takes the tile's bytes. Only other resident blocks do something else meanwhile.
double tile_ns(const GpuWorkload& x, double blocks, double issued_ns, const Profile& p) {
  if (x.together <= 1) return 0;
  const MemoryLevel &l2 = p.levels[1], &dram = p.levels[2];
  const int sharers = int(std::min<double>(blocks, p.cores));
  const double tiles = double(x.block_tasks) / x.together;
  const double from_l2 = x.block_read_bytes / l2.read_gbs(sharers) + x.block_write_bytes / l2.write_gbs(sharers);
  const double from_dram = (x.dram_read_bytes / dram.read_gbs(sharers) + x.dram_write_bytes / dram.write_gbs(sharers)) / blocks;
  return std::max({x.together * issued_ns, from_l2 / tiles, from_dram / tiles});
}

}  // namespace

double products_ns(const Workload::Issue& i, const Profile& p) { return i.count * (1 / i.atom->per_ns + bank_wait_ns(i, p)); }

Estimate& Estimate::operator+=(const Estimate& next) {
  if (level_us.size() < next.level_us.size()) level_us.resize(next.level_us.size());
  us += next.us, compute_us += next.compute_us, overhead_us += next.overhead_us;
  loads_us += next.loads_us, stores_us += next.stores_us, near_us += next.near_us;
  for (size_t i = 0; i < next.level_us.size(); ++i) level_us[i] += next.level_us[i];
  return *this;
}

Estimate estimate(const Workload& w, const Profile& p) {
  Estimate e;
  e.compute_us = issue_ns(w, p, w.chain_steps * w.chain_latency_ns) / 1e3;
  // max over the resources, plus what is not hidden: the part of each transfer that its level's coefficient says, and first misses
  Overlap o{e.compute_us, 0, "compute"};
  double cubes = 0, near = 0;  // cubes of transfers; the longest without memory
  e.level_us.reserve(p.levels.size());
  for (size_t i = 0; i < p.levels.size(); ++i) {
    const LevelTraffic t = i < w.levels.size() ? w.levels[i] : LevelTraffic{};
    const MemoryLevel& level = p.levels[i];
    const double transfer = p.transfer_ns(i, t.read_bytes, t.write_bytes, t.stream_bytes, w.workers) / 1e3;
    const double first_misses = (t.runs / level.misses + t.waits) * level.latency_ns / 1e3;
    const auto written_us = [&](double bytes) { return bytes / level.write_gbs(w.workers) / 1e3; };
    const double pieces = t.piece_bytes > 0 ? written_us(t.piece_bytes) : 0;
    e.level_us.push_back(std::max(transfer + first_misses, pieces));
    if (i + 1 == p.levels.size()) {
      near = std::max(o.longest, std::cbrt(cube(e.compute_us) + cubes));
      e.loads_us = p.transfer_ns(i, t.read_bytes, 0, 0, w.workers) / 1e3 * (1 - level.overlap);
      e.stores_us = std::max(0.0, transfer * (1 - level.overlap) - e.loads_us);
    }
    // what is asked for ahead does not count as long as it is not the longest, if it comes from memory; from a cache it comes all the time
    const double ahead = t.ahead_bytes / level.read_gbs(w.workers) / 1e3, steady = i + 1 == p.levels.size() ? 0 : ahead;
    const double longer = pieces > 0 ? std::max(0.0, pieces - written_us(t.write_bytes)) : 0;
    o.add({.us = transfer, .first_misses = first_misses, .steady = steady, .pieces = pieces, .longer = longer}, level);
    if (i > 0) cubes += cubes_of((transfer - ahead) * (1 - level.overlap), t.concentration, steady, e.compute_us) + cube(pieces);
  }
  o.longest = std::max(o.longest, std::cbrt(cube(e.compute_us) + cubes));
  e.overhead_us = p.call_us + (w.workers > 1 ? w.regions * p.fork_join_us : 0.0) + w.call_overheads / 1e3;
  e.us = o.longest + o.exposed + e.overhead_us;
  e.near_us = near + o.exposed + e.overhead_us;
  e.bound = w.workers > 1 && e.overhead_us > o.longest + o.exposed ? "parallel" : o.bound;
  return e;
}

int resident_blocks(int block_threads, int registers, int64_t shared_bytes, const Profile& p) {
  const Profile::Gpu& g = p.gpu;
  if (block_threads < 1 || block_threads > g.max_threads_per_block || registers > g.max_registers_per_thread ||
      shared_bytes > g.smem_per_block)
    return 0;
  const int64_t warps = ceil_div(block_threads, g.warp);
  int64_t blocks = std::min<int64_t>(g.max_blocks_per_sm, g.max_threads_per_sm / g.warp / warps);
  // registers are given to warps in pieces of 256, and each scheduler has its own part of the file
  const int64_t per_warp = round_up(std::max(registers, 1) * g.warp, 256);
  blocks = std::min(blocks, g.registers_per_sm / g.schedulers / per_warp * g.schedulers / warps);
  // from Ampere on the system keeps a KiB beside each block's shared memory
  const bool ampere = std::atoi(p.arch.c_str() + std::min<size_t>(3, p.arch.size())) >= 80;  // "sm_80"
  const int64_t taken = round_up(shared_bytes + (ampere ? 1024 : 0), ampere ? 128 : 256);
  if (taken > 0) blocks = std::min(blocks, g.smem_per_sm / taken);
  return int(blocks);
}

namespace {

double launch_us(const GpuWorkload& w, const Profile& p) { return p.call_us + w.launch_ns / 1e3; }

GpuTimes times(std::span<const GpuWorkload> parts, const Profile& p) {
  GpuTimes e;
  const GpuWorkload& w = parts.front();
  int registers = 0;
  for (const GpuWorkload& part : parts) registers = std::max(registers, part.registers);
  const int resident = resident_blocks(w.block_tasks * p.gpu.warp, registers, w.shared_bytes, p);
  if (resident == 0 || p.levels.size() != 3) return e;
  e.resident = resident;
  const MemoryLevel &near = p.levels[0], &l2 = p.levels[1], &dram = p.levels[2];
  const double blocks = std::ceil(double(w.tasks) / w.block_tasks), busiest = std::ceil(blocks / p.cores);
  const int sharers = int(std::min<double>(blocks, p.cores));
  double alone = 0, stalls = 0, issue = 0, near_read = 0, near_write = 0, l2_read = 0, l2_write = 0, dram_read = 0, dram_write = 0;
  for (const GpuWorkload& x : parts) {
    // a round of loads waits for the farthest of them; the other resident warps fill the gap
    const double near_bytes = w.block_tasks * x.task.levels[0].read_bytes;
    const double from_l2 = x.asynchronous ? 1 : std::min(1.0, x.block_read_bytes / std::max(1.0, near_bytes));
    const double from_dram = std::min(1.0, x.dram_read_bytes / std::max(1.0, blocks * x.block_read_bytes));
    const double in_round = std::max(1.0, x.task.loads / x.rounds);
    const auto any = [&](double share) { return share <= 0 || share >= 1 ? share : 1 - std::pow(1 - share, in_round); };
    const double latency = near.latency_ns + any(from_l2) * l2.latency_ns + any(from_l2 * from_dram) * dram.latency_ns + x.round_trip_ns;
    const double issued = x.issue_ns > 0 ? x.issue_ns : issue_ns(x.task, p);
    const double own = std::max(p.gpu.schedulers * issued, x.task.chain_steps * x.task.chain_latency_ns);
    alone += std::max(x.asynchronous ? std::max(x.rounds * latency + x.held * w.block_tasks * issued, own) : x.rounds * latency + own,
                      tile_ns(x, blocks, issued, p));
    stalls += x.stalls_ns;
    issue += issued;
    near_read += near_bytes, near_write += w.block_tasks * x.task.levels[0].write_bytes;
    l2_read += x.block_read_bytes, l2_write += x.block_write_bytes;
    dram_read += x.dram_read_bytes, dram_write += x.dram_write_bytes;
  }
  // a scheduler idles while all its warps wait: with each waiting a share p of its own time, p^n of the time (Saavedra-Barrera, Culler &
  // von Eicken, "Analysis of Multithreaded Architectures for Parallel Computing", 1990)
  const double waiting = std::max(0.0, 1 - p.gpu.schedulers * issue / alone);
  const auto together = [&](double of_blocks) {  // warps are dealt out to the schedulers, each with its part of the SM's units
    const double warps = std::ceil(of_blocks * w.block_tasks / p.gpu.schedulers);
    const double busy = warps * p.gpu.schedulers * issue;
    const double rounds = std::max(alone, w.asynchronous ? busy : busy / (1 - std::pow(waiting, warps))) + stalls / of_blocks;
    return rounds + (w.turns > 1 ? std::max(0.0, (w.last_ns - rounds) / w.turns) : w.last_ns / of_blocks);
  };
  const double full = std::floor(busiest / resident), rest = busiest - full * resident;
  const double time = full * together(resident) + (rest > 0 ? together(rest) : 0) + (w.turns > 1 ? w.last_ns : 0);
  e.compute_us = time / 1e3;
  e.level_us = {busiest * (near_read / near.read_gbs(1) + near_write / near.write_gbs(1)) / 1e3,
                busiest * (l2_read / l2.read_gbs(sharers) + l2_write / l2.write_gbs(sharers)) / 1e3,
                (dram_read / dram.read_gbs(sharers) + dram_write / dram.write_gbs(sharers)) / sharers / 1e3};
  Overlap o{e.compute_us, 0, busiest * w.block_tasks * issue < 0.7 * time ? "latency" : "compute"};
  for (size_t i = 0; i < 3; ++i) o.add({.us = e.level_us[i]}, p.levels[i]);
  // warps that load for themselves ask for less while they compute: near memory's limit both take longer than the longer one
  if (!w.asynchronous)
    o.longest = std::max(o.longest, std::sqrt(std::hypot(square(e.compute_us), square(e.level_us[2] * (1 - dram.overlap)))));
  // one unit of the device hands out all blocks
  if (const double handed_out = blocks * p.gpu.block_launch_ns / 1e3; handed_out > o.longest) o.longest = handed_out, o.bound = "parallel";
  e.us = o.longest + o.exposed + launch_us(w, p);
  e.bound = o.bound;
  return e;
}

}  // namespace

double issue_ns(const Workload& w, const Profile& p) { return issue_ns(w, p, 0); }

Estimate estimate(const GpuWorkload& w, const Profile& p) { return estimate(std::span(&w, 1), p); }
GpuTimes times(const GpuWorkload& w, const Profile& p) { return times(std::span(&w, 1), p); }

Estimate estimate(std::span<const GpuWorkload> parts, const Profile& p) {
  const GpuTimes t = times(parts, p);
  Estimate e;
  e.us = t.us, e.compute_us = t.compute_us, e.resident = t.resident, e.bound = t.bound;
  e.level_us.assign(t.level_us.begin(), t.level_us.end());
  if (t.resident > 0) e.overhead_us = launch_us(parts.front(), p);
  return e;
}

}  // namespace rgen::hw
