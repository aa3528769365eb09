#include "rtile/residence.h"

#include <algorithm>
#include <cmath>

namespace rgen::rtile {

namespace {

/// The share of `footprint` last caches' worth of data, walked again and again, that the last cache still has when its turn comes. Its
/// replacement is not that of the least recently used, which would keep nothing past 1, and others share it. Fitted to sums over 8 to 512
/// MiB on Zen 5 with a last cache of 32 MiB (within 11 %).
double kept(double footprint) { return 1 / (1 + 0.6 * std::pow(footprint, 1.5)); }

/// ... of a worker's own second cache. Fitted to sums and maps over 0.75 to 4 MiB on Zen 5, where it has 1 MiB (of 0.8, 1, 1.25, 1.5 and 2
/// caches' worth 0.2, 0.4, 0.6, 0.72 and 0.85 come from the last one), in pages of 4 KiB and large ones alike.
double kept_by_second(double footprint) { return 1 / (1 + 0.67 * std::pow(footprint, 3.2)); }

/// ... and of results that are not: maps over 16 to 64 MiB kept all at half a last cache, and nothing from three quarters on.
double results_missing(double footprint) { return std::clamp(4 * (footprint - 0.5), 0.0, 1.0); }

std::vector<bool> used_by(const std::vector<Nest>& nests, size_t tensors) {
  std::vector<bool> used(tensors, false);
  for (const Nest& n : nests)
    for (int t : tensors_in_memory(n)) used[size_t(t)] = true;
  return used;
}

/// Private levels of several workers hold a share each.
double capacity_together(const hw::MemoryLevel& level, int threads) {
  return double(level.capacity_bytes) * std::min(std::max(1.0, double(threads) / level.shared_by), 1.0 * threads);
}

/// Several workers that walk a part each find so many times as much of it in the last cache: maps of 19, 22, 26 and 29 MB with one
/// and two threads, stored to it, take 1.24, 1.41, 1.62 and 1.76 and 1.02, 1.34, 1.28 and 1.37 times as long as its bandwidth says (Zen 5,
/// 32 MiB).
constexpr double kByParts = 1.3;
double by_parts(int threads) { return threads > 1 ? kByParts : 1; }

/// The first cache keeps all of what fits it: copies of 48 KiB on Zen 5 take as long a line as of 16, of 52 twice as long.
constexpr double kFirst = 0.9;

size_t level_that_holds(const hw::Profile& profile, double bytes, int threads) {
  const bool cpu = profile.kind == hw::Profile::Kind::cpu;
  for (size_t l = 0; l + 1 < profile.levels.size(); ++l) {
    const bool shared_with_others = cpu && l > 1 && l + 2 == profile.levels.size();
    const double share = shared_with_others ? 0.5 * by_parts(threads) : cpu && l == 0 ? kFirst : 0.8;
    if (bytes <= share * capacity_together(profile.levels[l], threads)) return l;
  }
  return profile.levels.size() - 1;
}

}  // namespace

double tensor_bytes(const ir::Tensor& t) {
  double n = size_of(t.dtype);
  for (const ir::Size& s : t.shape) n *= double(s.value());
  return n;
}

namespace {

Residence of_tensors(const ir::TensorProgram& program, const std::vector<bool>& used, const hw::Profile& profile, int threads) {
  double total = 0;
  for (size_t t = 0; t < used.size(); ++t)
    if (used[t] && program.tensors[t].within < 0) total += tensor_bytes(program.tensors[t]);
  const size_t home = level_that_holds(profile, total, threads);
  Residence r;
  r.home.assign(program.tensors.size(), int(home));
  r.together = int(home);
  const bool cpu = profile.kind == hw::Profile::Kind::cpu, memory = home + 1 == profile.levels.size();
  if (cpu && !memory && home == 2) r.missing = 1 - kept_by_second(total / capacity_together(profile.levels[1], threads));
  if (cpu && profile.levels.size() > 2 && memory) {
    const double cache = by_parts(threads) * double(profile.levels[home - 1].capacity_bytes);
    double results = 0;
    for (int t : program.outputs) results += tensor_bytes(program[t]);
    r.missing = 1 - kept(total / cache), r.missing_beside_streams = 1 - kept((total - results) / cache);
    r.missing_results = results_missing(total / cache);
  }
  return r;
}

}  // namespace

Residence residence(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile, int threads) {
  return of_tensors(program, used_by(nests, program.tensors.size()), profile, threads);
}

Residence residence(const ir::TensorProgram& program, const std::vector<Group>& groups, const hw::Profile& profile, int threads) {
  std::vector<bool> used(program.tensors.size(), false);
  for (const Group& g : groups) {
    std::vector<bool> here = used_by(g.nests, used.size());
    if (!g.shared.empty())
      for (int t : g.local) here[size_t(t)] = false;
    for (size_t t = 0; t < used.size(); ++t) used[t] = used[t] || here[t];
  }
  return of_tensors(program, used, profile, threads);
}

int near_level(const hw::Profile& profile, double bytes, double share) {
  size_t level = 0;
  while (level + 1 < profile.levels.size() && bytes > share * double(profile.levels[level].capacity_bytes)) ++level;
  return int(level);
}

}  // namespace rgen::rtile
