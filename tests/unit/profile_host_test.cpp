// The profile of the machine that the tests run on.
#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "hwmodel/host.h"
#include "hwmodel/microbench.h"
#include "hwmodel/profile.h"

using namespace rgen;
using namespace rgen::hw;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("rgen_host_test_" + std::to_string(std::random_device{}()));
  ~TemporaryFolder() { fs::remove_all(path); }
  fs::path only_file() const {
    std::vector<fs::path> files(fs::directory_iterator(path), {});
    REQUIRE(files.size() == 1);
    return files[0];
  }
};

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

HostOptions detect_only() { return {.measure = false, .cache_dir = {}}; }

void sources(const json& node, std::vector<std::string>& out) {
  if (node.is_object() && node.contains("source")) out.push_back(node["source"]);
  for (const json& child : node)
    if (child.is_structured()) sources(child, out);
}

}  // namespace

TEST_CASE("without measuring: valid, the same each time, all estimated") {
  const std::string text = host_profile_json(detect_only());
  const Profile p = parse_profile(text, "host");
  CHECK(host_profile_json(detect_only()) == text);
  CHECK(p.kind == Profile::Kind::cpu);
  CHECK(p.isa == host_isa());
  CHECK(missing_isa(p).empty());
  std::vector<std::string> all;
  sources(json::parse(text), all);
  CHECK(all.size() > 50);
  CHECK(std::count(all.begin(), all.end(), "estimated") == std::ptrdiff_t(all.size()));
}

TEST_CASE("features that this machine lacks are named") {
  Profile p = load_profile("host", detect_only());
  p.isa.push_back("wgmma");
  CHECK(missing_isa(p) == std::vector<std::string>{"wgmma"});
}

TEST_CASE("the nearest shipped profile") {
#if defined(__x86_64__)
  const std::vector<std::string> avx2 = {"sse2", "avx", "avx2", "fma", "f16c"};
  std::vector<std::string> avx512 = avx2;
  avx512.insert(avx512.end(), {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  std::vector<std::string> amx = avx512;
  amx.insert(amx.end(), {"avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8"});
  CHECK(nearest_shipped({"GenuineIntel", 6, 60, 1, "Core"}, avx2) == "haswell_avx2");
  CHECK(nearest_shipped({"AuthenticAMD", 25, 1, 1, "EPYC"}, avx2) == "zen3");
  CHECK(nearest_shipped({"AuthenticAMD", 26, 2, 1, "Zen 5 with AVX-512 masked"}, avx2) == "zen3");
  CHECK(nearest_shipped({"GenuineIntel", 6, 85, 4, "Xeon"}, avx512) == "skylake_avx512");
  CHECK(nearest_shipped({"GenuineIntel", 6, 143, 8, "Xeon"}, amx) == "sapphire_rapids");
  CHECK(nearest_shipped({"GenuineIntel", 6, 173, 1, "one that is yet to come"}, amx) == "sapphire_rapids");
  CHECK(nearest_shipped({"AuthenticAMD", 26, 2, 1, "EPYC"}, avx512) == "zen5");
  CHECK(nearest_shipped({"AuthenticAMD", 25, 17, 1, "EPYC"}, avx512) == "zen4");

  // A machine of one core, with an L3 larger than its tables know and no L2 entry wider than it has cores.
  Topology one;
  one.cpus = {0};
  one.caches = {{1, 32 << 10, 8, 64, 1}, {2, 1 << 20, 16, 64, 1}, {3, 256 << 20, 16, 64, 1}};
  const Profile p = parse_profile(layout(detected_document({"GenuineIntel", 6, 106, 6, "Ice Lake"}, one, amx)), "one");
  CHECK(p.cores == 1);
  CHECK(p.level("L3").capacity_bytes == 256 << 20);
  CHECK(p.level("DRAM").read.size() == 1);
  one.caches.pop_back();
  CHECK(parse_profile(layout(detected_document({"GenuineIntel", 6, 106, 6, "no L3"}, one, amx)), "two").levels.size() == 3);
#else
  CHECK(nearest_shipped({"ARM", 0xd0c, 3, 1, "N1"}, {"neon", "fp16", "dotprod"}) == "neoverse_n1");
  CHECK(nearest_shipped({"ARM", 0xd40, 1, 1, "V1"}, {"neon", "fp16", "dotprod", "bf16", "i8mm", "sve"}) == "neoverse_v1");
#endif
}

TEST_CASE("each level's bandwidth to one core is measured, however long the machine took to give the memory") {
  const Topology topology = detect_topology(usable_cpus());
  Team team(topology.cpus);
  const Budget spent(0);
  for (const LevelFigures& level : measure_memory(team, topology.caches, 128, spent)) {
    REQUIRE(level.rows.size() == 1);
    CHECK(level.rows[0].sharers == 1);
    CHECK(level.rows[0].read_gbs > 0);
  }
}

TEST_CASE("measured once within 3.5 s, then kept; a damaged file is measured anew; the caller's affinity has no part in it") {
  TemporaryFolder folder;
  const HostOptions options{.measure = true, .cache_dir = folder.path};
  cpu_set_t before, during;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  const auto start = std::chrono::steady_clock::now();
  const std::string first = host_profile_json(options);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  CHECK(spent.count() < 3.5);
  REQUIRE(sched_getaffinity(0, sizeof during, &during) == 0);
  CHECK(CPU_EQUAL(&before, &during));

  const Profile p = parse_profile(first, "host");
  CHECK(p.ghz > 0.3);
  CHECK(p.ghz < 8);
  const Atom* fma = p.find_atom(DType::f32, DType::f32, DType::f32);
  REQUIRE(fma != nullptr);
  CHECK(fma->latency_ns * p.ghz > 1.5);
  CHECK(fma->latency_ns * p.ghz < 12);
  const json document = json::parse(first);
  CHECK(document["clock"]["source"] == "measured");
  CHECK(document["levels"][0]["read"]["source"] == "measured");
  CHECK(p.level("L1").read_gbs(1) > p.level("DRAM").read_gbs(1));

  const fs::path file = folder.only_file();
  CHECK(host_profile_json(options) == first);

  // From a thread that may run on one processor only: the same kept profile.
  std::string narrowed;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before)) {
        CPU_SET(cpu, &one);
        break;
      }
    sched_setaffinity(0, sizeof one, &one);
    narrowed = host_profile_json(options);
  }).join();
  CHECK(narrowed == first);
  CHECK(folder.only_file() == file);

  // A valid profile, but not the one that was measured: its hash tells.
  const std::string whole = read(file);
  json forged = json::parse(whole);
  forged["profile"]["clock"]["value"] = 123.0;
  std::ofstream(file) << forged;
  CHECK(parse_profile(host_profile_json(options), "host").ghz < 8);
  std::ofstream(file) << whole.substr(0, whole.size() / 2);
  CHECK(json::parse(host_profile_json(options))["clock"]["source"] == "measured");
  CHECK(json::parse(read(folder.only_file())).contains("profile"));
}
