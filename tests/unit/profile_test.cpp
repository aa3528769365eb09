// Profiles: what is shipped loads and is what it says; queries; identity; differences.
#include "hwmodel/profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

using namespace rgen;
using namespace rgen::hw;
using nlohmann::json;

TEST_CASE("every shipped profile loads under its own name") {
  const std::vector<std::string> names = shipped_profiles();
  for (const char* expected :
       {"a100",        "a100_80",     "b200", "cortex_a76", "h100",    "h100_pcie",       "h200",           "haswell_avx2", "l4",   "l40s",
        "neoverse_n1", "neoverse_v1", "orin", "rtx3090",    "rtx4090", "sapphire_rapids", "skylake_avx512", "t4",           "v100", "zen3",
        "zen4",        "zen5"})
    CHECK(std::count(names.begin(), names.end(), expected) == 1);
  CHECK(std::count(names.begin(), names.end(), "schema") == 0);
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    CAPTURE(name);
    const Profile p = load_profile(name);
    CHECK(p.name == name);
    CHECK(load_profile(name + ".json").hash == p.hash);
    CHECK(p.levels.back().name == "DRAM");
    CHECK(p.levels.back().capacity_bytes == 0);
    CHECK(p.find_atom(DType::f32, DType::f32, DType::f32) != nullptr);
    for (const char* function : {"add", "min", "exp", "int_div", "gather"}) CHECK(p.cost(function) > 0);
  }
}

TEST_CASE("published peaks follow from the figures") {
  auto peak = [](const char* profile, const char* atom, DType a, DType b, DType acc) {  // TFLOP/s of the whole device
    const Profile p = load_profile(profile);
    const Atom* best = p.find_atom(a, b, acc);
    REQUIRE(best != nullptr);
    CHECK(best->name == atom);
    return 2e-3 * best->m * best->n * best->k * best->per_ns * p.cores;
  };
  CHECK(peak("a100", "fma", DType::f32, DType::f32, DType::f32) == doctest::Approx(19.5).epsilon(0.01));  // and not the tf32 atom
  CHECK(peak("a100", "mma.sync", DType::bf16, DType::bf16, DType::f32) == doctest::Approx(312).epsilon(0.01));
  CHECK(peak("a100", "mma.sync", DType::s8, DType::s8, DType::s32) == doctest::Approx(624).epsilon(0.01));
  CHECK(peak("v100", "fma", DType::f32, DType::f32, DType::f32) == doctest::Approx(15.7).epsilon(0.01));
  CHECK(peak("v100", "mma.sync", DType::f16, DType::f16, DType::f32) == doctest::Approx(125).epsilon(0.01));
  CHECK(peak("h100", "wgmma", DType::f16, DType::f16, DType::f32) == doctest::Approx(989).epsilon(0.01));
  CHECK(peak("h200", "wgmma", DType::bf16, DType::bf16, DType::f32) == doctest::Approx(989).epsilon(0.01));
  CHECK(peak("h100_pcie", "wgmma", DType::f16, DType::f16, DType::f32) == doctest::Approx(756).epsilon(0.01));
  CHECK(peak("h100_pcie", "wgmma", DType::s8, DType::s8, DType::s32) == doctest::Approx(1513).epsilon(0.01));
  struct {
    const char* profile;
    double f32, f16, s8;
  } const with_mma[] = {{"t4", 8.1, 65, 130},   {"a100_80", 19.5, 312, 624}, {"rtx3090", 35.6, 71, 284}, {"orin", 5.3, 42.5, 85},
                        {"l4", 30.3, 121, 242}, {"l40s", 91.6, 362, 733},    {"rtx4090", 82.6, 165, 660}};
  for (const auto& d : with_mma) {
    CAPTURE(d.profile);
    CHECK(peak(d.profile, "fma", DType::f32, DType::f32, DType::f32) == doctest::Approx(d.f32).epsilon(0.01));
    CHECK(peak(d.profile, "mma.sync", DType::f16, DType::f16, DType::f32) == doctest::Approx(d.f16).epsilon(0.015));
    CHECK(peak(d.profile, "mma.sync", DType::s8, DType::s8, DType::s32) == doctest::Approx(d.s8).epsilon(0.01));
  }
  CHECK(peak("b200", "fma", DType::f32, DType::f32, DType::f32) == doctest::Approx(75).epsilon(0.02));
  CHECK(peak("sapphire_rapids", "tdpbf16ps", DType::bf16, DType::bf16, DType::f32) / 2 == doctest::Approx(3.0).epsilon(0.05));
  CHECK(peak("sapphire_rapids", "tdpbssd", DType::s8, DType::s8, DType::s32) / 2 == doctest::Approx(6.3).epsilon(0.05));
  CHECK(peak("skylake_avx512", "fma", DType::f32, DType::f32, DType::f32) == doctest::Approx(20 * 2.2 * 64 * 1e-3));
  CHECK(load_profile("zen5").find_atom(DType::f16, DType::f16, DType::f32) == nullptr);
}

TEST_CASE("bandwidth between the rows of the table") {
  MemoryLevel level;
  level.read = {{1, 12.0}, {4, 12.0}, {8, 6.0}};
  CHECK(level.read_gbs(1) == 12.0);
  CHECK(level.read_gbs(3) == doctest::Approx(12.0));
  CHECK(level.read_gbs(8) == 6.0);
  CHECK(level.read_gbs(100) == 6.0);
  CHECK(level.read_gbs(0) == 12.0);
  CHECK(level.read_gbs(6) == doctest::Approx(8.0));  // time per byte is linear: 1/12 … 1/6
  for (int n = 1; n < 10; ++n) CHECK(level.read_gbs(n + 1) <= level.read_gbs(n));
}

TEST_CASE("what is read and streamed at once goes at the rate of a copy, the rest at its own") {
  MemoryLevel level;
  level.read = {{1, 30.0}};
  CHECK(level.streaming_ns(300, 0, 1) == doctest::Approx(10));
  CHECK(level.streaming_ns(300, 300, 1) == doctest::Approx(20));  // no other figure: as reads
  level.stream = {{1, 20.0}}, level.copy = {{1, 40.0}};
  CHECK(level.streaming_ns(300, 0, 1) == doctest::Approx(10));
  CHECK(level.streaming_ns(0, 300, 1) == doctest::Approx(15));
  CHECK(level.streaming_ns(300, 300, 1) == doctest::Approx(15));
  CHECK(level.streaming_ns(600, 300, 1) == doctest::Approx(15 + 10));
  CHECK(level.streaming_ns(300, 600, 1) == doctest::Approx(15 + 15));
}

TEST_CASE("units are converted") {
  const Profile a100 = load_profile("a100");
  CHECK(a100.ghz == doctest::Approx(1.41));
  CHECK(a100.level("L2").capacity_bytes == 40 << 20);
  CHECK(a100.level("smem").read_gbs(1) == doctest::Approx(128 * 1.41));
  CHECK(a100.level("smem").latency_ns == doctest::Approx(23 / 1.41));
  CHECK(a100.gpu.smem_per_block == 163 * 1024);
  CHECK(load_profile("skylake_avx512").level("L3").capacity_bytes == (27 << 20) + (1 << 19));
  CHECK(load_profile("sapphire_rapids").fork_join_us == 4.0);
}

TEST_CASE("queries for what is not there name the nearest that is") {
  const Profile p = load_profile("zen5");
  CHECK(p.has("avx512bf16"));
  CHECK_FALSE(p.has("amx-tile"));
  CHECK_THROWS_WITH_AS(p.cost("tahn"), doctest::Contains("tanh"), Error);
  CHECK_THROWS_WITH_AS(p.level("smem"), doctest::Contains("zen5"), Error);
}

// The same document with the keys of every object in the opposite order and other white space.
static std::string reversed_text(const json& node) {
  if (node.is_object()) {
    std::string members;
    for (const auto& [key, value] : node.items())
      members = json(key).dump() + "  :\n\t" + reversed_text(value) + (members.empty() ? "" : " ,\n") + members;
    return "{" + members + "}";
  }
  if (!node.is_array()) return node.dump();
  std::string items;
  for (const json& item : node) items += (items.empty() ? "" : " , ") + reversed_text(item);
  return "[ " + items + " ]";
}

TEST_CASE("the hash is of the content, not of its layout") {
  for (const std::string& name : shipped_profiles()) {
    const std::string text = *shipped_profile_text(name);
    const Profile p = parse_profile(text, name);
    const std::string other = reversed_text(json::parse(text));
    REQUIRE(other != text);
    CHECK(parse_profile(other, name).hash == p.hash);
    CHECK(parse_profile(p.json, name).hash == p.hash);
    CHECK(p.hash.size() == 16);
    CHECK(p.hash.find_first_not_of("0123456789abcdef") == std::string::npos);
  }
  json changed = json::parse(*shipped_profile_text("zen5"));
  changed["clock"]["value"] = changed["clock"]["value"].get<double>() + 0.001;
  CHECK(parse_profile(changed.dump(), "changed").hash != load_profile("zen5").hash);
}

TEST_CASE("a file comes before a shipped profile of its name") {
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / "rgen_profile_test_zen5.json";
  json changed = json::parse(*shipped_profile_text("zen5"));
  changed["name"] = "mine";
  std::ofstream(file) << changed;
  CHECK(load_profile(file.string()).name == "mine");
  fs::remove(file);
}

TEST_CASE("differences are one line a figure, equal sizes in other units none") {
  json changed = json::parse(*shipped_profile_text("zen5"));
  changed["levels"][1]["capacity"] = {{"value", 2048}, {"unit", "KiB"}, {"source", "estimated"}};
  changed["levels"][0]["capacity"]["unit"] = "B";
  changed["levels"][0]["capacity"]["value"] = 48 * 1024;
  changed["clock"]["source"] = "estimated";
  changed["isa"].push_back("avx512fp16");
  const std::vector<std::string> lines = diff_profiles(load_profile("zen5"), parse_profile(changed.dump(), "changed"));
  CHECK(lines == std::vector<std::string>{"isa[avx512fp16]: absent → avx512fp16", "levels[L2].capacity: 1 MiB → 2048 KiB"});
  json ports = json::parse(*shipped_profile_text("zen4"));
  ports["cycles"]["add"].erase("own_ports");
  CHECK(diff_profiles(load_profile("zen4"), parse_profile(ports.dump(), "ports")) ==
        std::vector<std::string>{"cycles.add: 1 cycles on ports of its own, latency 3 → 1 cycles, latency 3"});
  json chain = json::parse(*shipped_profile_text("zen3"));
  chain["cycles"]["max"]["latency"] = 2;
  const Profile slower = parse_profile(chain.dump(), "chain");
  CHECK(slower.latency_cycles == std::map<std::string, double, std::less<>>{{"add", 3}, {"max", 2}});
  CHECK(diff_profiles(load_profile("zen3"), slower) ==
        std::vector<std::string>{"cycles.max: 0.5 cycles, latency 1 → 0.5 cycles, latency 2"});
  CHECK(diff_profiles(load_profile("a100"), load_profile("a100")).empty());
  CHECK(diff_profiles(load_profile("a100"), load_profile("zen5")).size() > 20);
}
