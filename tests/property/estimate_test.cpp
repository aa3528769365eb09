// The model never punishes a better machine: over random workloads and profiles, improving any one figure never makes the estimate grow.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>

#include "hwmodel/estimate.h"
#include "support/programs.h"

using namespace rgen;

namespace {

/// Of a profile that outlives the workload.
std::shared_ptr<const hw::Atom> row(const hw::Atom& atom) { return {std::shared_ptr<void>(), &atom}; }

/// Zero, or anything over six decades.
hw::Workload random_workload(std::mt19937& random, const hw::Profile& profile) {
  const auto amount = [&] { return random() % 4 == 0 ? 0.0 : std::exp2(double(random() % 2000) / 100); };
  hw::Workload w;
  for (const hw::Atom& a : profile.atoms)
    if (random() % 2) w.atoms.push_back({row(a), amount()});
  for (const auto& [name, cycles] : profile.cycles)
    if (random() % 3 == 0) w.functions.push_back({name, amount()});
  w.loads = amount(), w.stores = amount(), w.instructions = amount();
  w.chain_steps = amount(), w.chain_latency_ns = profile.atoms.front().latency_ns;
  for (size_t i = 0; i < profile.levels.size(); ++i)
    w.levels.push_back(
        {.read_bytes = amount() * 8, .write_bytes = amount() * 8, .stream_bytes = amount() * 8, .concentration = amount() / 64});
  w.call_overheads = amount();
  w.workers = 1 + int(random() % uint32_t(profile.cores)), w.regions = 1 + int(random() % 3);
  return w;
}

hw::GpuWorkload random_launch(std::mt19937& random, const hw::Profile& profile) {
  const auto amount = [&] { return random() % 4 == 0 ? 0.0 : std::exp2(double(random() % 2000) / 100); };
  hw::GpuWorkload w;
  w.task = random_workload(random, profile);
  w.tasks = 1 + int64_t(random() % 100000), w.block_tasks = 1 << random() % 5;
  w.registers = 16 + int(random() % 112), w.rounds = 1 + double(random() % 1000);
  w.block_read_bytes = amount(), w.block_write_bytes = amount();
  w.dram_read_bytes = amount() * 100, w.dram_write_bytes = amount() * 100;
  return w;
}

/// The estimate of `w`, made for `from`, on a profile that differs in figures only.
double us(hw::Workload w, const hw::Profile& from, const hw::Profile& profile) {
  for (auto& [atom, count, waits] : w.atoms) atom = row(profile.atoms[size_t(atom.get() - from.atoms.data())]);
  return hw::estimate(w, profile).us;
}

struct Improvement {
  std::string what;
  std::function<void(hw::Profile&)> apply;
};

std::vector<Improvement> improvements(const hw::Profile& profile) {
  std::vector<Improvement> all = {
      {"clock", [](hw::Profile& p) { p.ghz *= 1.5; }},
      {"load ports", [](hw::Profile& p) { ++p.load_ports; }},
      {"store ports", [](hw::Profile& p) { ++p.store_ports; }},
      {"issue width", [](hw::Profile& p) { ++p.issue_width; }},
      {"fork and join", [](hw::Profile& p) { p.fork_join_us /= 1.5; }},
      {"call", [](hw::Profile& p) { p.call_us /= 1.5; }},
      {"ports of additions", [](hw::Profile& p) { p.own_ports.insert("add"); }},
  };
  for (size_t a = 0; a < profile.atoms.size(); ++a)
    all.push_back({"rate of " + profile.atoms[a].name, [a](hw::Profile& p) { p.atoms[a].per_ns *= 1.5; }});
  for (const auto& [name, cycles] : profile.cycles)
    all.push_back({"cycles of " + name, [f = name](hw::Profile& p) { p.cycles[f] /= 1.5; }});
  for (size_t l = 0; l < profile.levels.size(); ++l) {
    const std::string level = profile.levels[l].name;
    for (size_t i = 0; i < profile.levels[l].read.size(); ++i)
      all.push_back({level + " read", [l, i](hw::Profile& p) { p.levels[l].read[i].gbs *= 1.5; }});
    for (size_t i = 0; i < profile.levels[l].write.size(); ++i)
      all.push_back({level + " write", [l, i](hw::Profile& p) { p.levels[l].write[i].gbs *= 1.5; }});
    for (size_t i = 0; i < profile.levels[l].stream.size(); ++i)
      all.push_back({level + " stream", [l, i](hw::Profile& p) { p.levels[l].stream[i].gbs *= 1.5; }});
    for (size_t i = 0; i < profile.levels[l].copy.size(); ++i)
      all.push_back({level + " copy", [l, i](hw::Profile& p) { p.levels[l].copy[i].gbs *= 1.5; }});
    all.push_back({level + " latency", [l](hw::Profile& p) { p.levels[l].latency_ns /= 1.5; }});
    all.push_back({level + " overlap", [l](hw::Profile& p) { p.levels[l].overlap /= 1.5; }});
  }
  return all;
}

}  // namespace

TEST_CASE("a better figure never makes the estimate grow") {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    std::mt19937 random(seed);
    const hw::Profile profile = test::random_profile(seed);
    const hw::Workload w = random_workload(random, profile);
    const double before = hw::estimate(w, profile).us;
    for (const Improvement& i : improvements(profile)) {
      hw::Profile better = profile;
      i.apply(better);
      const double after = us(w, profile, better);
      INFO("seed " << seed << ", better " << i.what << ": " << before << " us became " << after);
      REQUIRE(after <= before * (1 + 1e-12));
    }
  }
}

TEST_CASE("a better figure never makes the estimate of a GPU's launch grow") {
  for (const char* name : {"v100", "a100", "h100", "rtx4090"}) {
    const hw::Profile profile = hw::load_profile(name);
    for (uint32_t seed = 1; seed <= 200; ++seed) {
      std::mt19937 random(seed);
      const hw::GpuWorkload w = random_launch(random, profile);
      const double before = hw::estimate(w, profile).us;
      for (const Improvement& i : improvements(profile)) {
        hw::Profile better = profile;
        i.apply(better);
        hw::GpuWorkload same = w;
        for (auto& [atom, count, waits] : same.task.atoms) atom = row(better.atoms[size_t(atom.get() - profile.atoms.data())]);
        INFO(name << ", seed " << seed << ", better " << i.what);
        REQUIRE(hw::estimate(same, better).us <= before * (1 + 1e-12));
      }
    }
  }
}

TEST_CASE("multiply-adds of lanes wait for registers, those of tensor cores do not") {
  const hw::Profile profile = hw::load_profile("a100");
  const auto part_of_peak = [&](const hw::Atom& atom) {
    hw::GpuWorkload w;
    w.task.atoms = {{row(atom), 1e6}}, w.task.levels.resize(profile.levels.size());
    w.tasks = 16 * profile.cores, w.block_tasks = 4;
    return 16e6 / atom.per_ns / 1e3 / hw::estimate(w, profile).compute_us;
  };
  for (const hw::Atom& atom : profile.atoms) CHECK(part_of_peak(atom) == doctest::Approx(atom.m == 1 ? 2 / 2.25 : 1));
}

TEST_CASE("functions with ports of their own run beside products, and one after the other") {
  hw::Profile profile = hw::load_profile("zen4");
  const auto cycles = [&](std::vector<std::pair<std::string_view, double>> functions) {
    hw::Workload w;
    w.atoms = {{row(profile.atoms.front()), 1e6}}, w.functions = std::move(functions), w.levels.resize(profile.levels.size());
    return hw::estimate(w, profile).compute_us * profile.ghz / 1e3;
  };
  REQUIRE(profile.own_ports.count("add"));
  REQUIRE(profile.own_ports.count("max"));
  CHECK(cycles({{"add", 1e6}}) == doctest::Approx(1));
  CHECK(cycles({{"add", 1e6}, {"max", 1e6}}) == doctest::Approx(2));
  CHECK(cycles({{"mul", 1e6}}) == doctest::Approx(2));
  CHECK(cycles({{"add", 1e6}, {"shuffle", 1e6}}) == doctest::Approx(2));
  profile.own_ports.clear();
  CHECK(cycles({{"add", 1e6}}) == doctest::Approx(2));
}

TEST_CASE("the estimate is at least its longest part and at most the sum of all") {
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const hw::Profile profile = test::random_profile(seed);
    const hw::Estimate e = hw::estimate(random_workload(random, profile), profile);
    double longest = e.compute_us, sum = e.compute_us + e.overhead_us;
    for (double t : e.level_us) longest = std::max(longest, t), sum += t;
    REQUIRE(std::isfinite(e.us));
    REQUIRE(e.us >= longest * (1 - 1e-12));
    REQUIRE(e.us <= sum * (1 + 1e-12));
    REQUIRE(!e.bound.empty());
    REQUIRE(std::min({e.loads_us, e.stores_us, e.near_us}) >= 0);
    REQUIRE(e.near_us <= e.us * (1 + 1e-12));
    REQUIRE(e.us <= (e.near_us + e.loads_us + e.stores_us) * (1 + 1e-12));
  }
}
