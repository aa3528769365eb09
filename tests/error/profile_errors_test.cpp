// Every fault of a profile is refused with its place and its cause; none is filled in silently.
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "hwmodel/profile.h"

using namespace rgen;
using namespace rgen::hw;
using nlohmann::json;

namespace {

json shipped(const char* name) { return json::parse(*shipped_profile_text(name)); }

// The message of the error that parsing `text` gives; "" if it gives none.
std::string message_of(const std::string& text) {
  try {
    parse_profile(text, "p.json");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::invalid_profile);
    return e.what();
  }
  return "";
}
std::string fault(const json& document) { return message_of(document.dump()); }

bool mentions(const std::string& message, const std::string& part) {
  INFO("message: " << message << "   wanted: " << part);
  const bool found = message.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

std::vector<json::json_pointer> figures(const json& node, const json::json_pointer& at = json::json_pointer()) {
  std::vector<json::json_pointer> out;
  if (node.is_object() && node.contains("unit")) return {at};
  auto descend = [&](const json& child, const json::json_pointer& path) {
    const auto below = figures(child, path);
    out.insert(out.end(), below.begin(), below.end());
  };
  if (node.is_object())
    for (const auto& [key, child] : node.items()) descend(child, at / key);
  if (node.is_array())
    for (size_t i = 0; i < node.size(); ++i) descend(node[i], at / i);
  return out;
}

}  // namespace

TEST_CASE("each figure left out is named, but those that have a default") {
  const std::set<std::string> optional = {"broadcasts",  "split_loads", "burst",  "block_launch", "stream",       "copy",   "row",
                                          "rows",        "page_rows",   "halves", "split_reads",  "split_writes", "pieces", "columns",
                                          "kib_columns", "turns",       "misses", "kept",         "apart"};
  for (const char* name : {"zen3", "zen4", "sapphire_rapids", "neoverse_v1", "h100"}) {
    const json whole = shipped(name);
    const auto all = figures(whole);
    CHECK(all.size() > 50);
    for (const json::json_pointer& at : all) {
      json document = whole;
      document.at(at.parent_pointer()).erase(at.back());
      const std::string message = fault(document);
      if (optional.count(at.back()) > 0) {
        CHECK(message.empty());
        continue;
      }
      mentions(message, "p.json: " + at.to_string() + ":");
      mentions(message, "missing figure '" + at.back() + "'");
    }
  }
}

TEST_CASE("each part of a figure is checked") {
  const json whole = shipped("zen5");
  for (const json::json_pointer& at : figures(whole)) {
    if (whole.at(at).contains("per_sharer")) continue;
    for (const json& wrong : {json(-1), json("4"), json(nullptr), json(json::array())}) {
      json document = whole;
      document.at(at)["value"] = wrong;
      mentions(fault(document), at.to_string() + "/value");
    }
    for (const char* part : {"value", "unit", "source"}) {
      json document = whole;
      document.at(at).erase(part);
      mentions(fault(document), at.to_string() + "/" + part + ": missing");
    }
    json document = whole;
    document.at(at)["unit"] = "furlong";
    mentions(fault(document), at.to_string() + "/unit: \"furlong\" is not one of");
    document = whole;
    document.at(at)["value"] = 0;
    if (whole.at(at)["unit"] != "ratio") mentions(fault(document), at.to_string() + "/value");
  }
}

TEST_CASE("bandwidth tables") {
  const json whole = shipped("skylake_avx512");
  auto with = [&](const json& rows) {
    json document = whole;
    document["levels"][3]["read"]["per_sharer"] = rows;
    return fault(document);
  };
  mentions(with(json::array()), "/levels/3/read/per_sharer");
  mentions(with({{{"sharers", 2}, {"value", 5}}}), "/levels/3/read/per_sharer/0/sharers: the first row");
  mentions(with({{{"sharers", 1}, {"value", 5}}, {{"sharers", 1}, {"value", 4}}}), "/levels/3/read/per_sharer/1/sharers: sharers ascend");
  mentions(with({{{"sharers", 1}, {"value", 5}}, {{"sharers", 21}, {"value", 4}}}), "20 cores");
  mentions(with({{{"sharers", 1}, {"value", 0}}}), "/levels/3/read/per_sharer/0/value");
  mentions(with({{{"sharers", 1.5}, {"value", 1}}}), "/levels/3/read/per_sharer/0/sharers");
  CHECK(with({{{"sharers", 1}, {"value", 5}}}).empty());
}

TEST_CASE("misspelt words are answered with the right ones") {
  json document = shipped("zen5");
  document["clok"] = document["clock"];
  mentions(fault(document), "/clok: unknown key 'clok' (did you mean 'clock'?)");
  document = shipped("zen5");
  document["levels"][0]["latncy"] = document["levels"][0]["latency"];
  mentions(fault(document), "/levels/0/latncy: unknown key 'latncy' (did you mean 'latency'?)");
  document = shipped("zen5");
  document["isa"][0] = "avx512_bf16";
  mentions(fault(document), "did you mean 'avx512bf16'?");
  document = shipped("zen5");
  document["atoms"][0]["name"] = "vdpbf16p";
  mentions(fault(document), "/atoms/0/name");
  document = shipped("zen5");
  document["clock"]["unit"] = "Ghz";
  mentions(fault(document), "did you mean 'GHz'?");
  CHECK_THROWS_WITH_AS(load_profile("zen6"), doctest::Contains("did you mean 'zen"), Error);
  CHECK_THROWS_WITH_AS(load_profile("no/such/file.json"), doctest::Contains("host"), Error);
  CHECK_THROWS_AS(load_profile("schema"), Error);
}

TEST_CASE("figures that cannot be together") {
  struct Fault {
    const char* profile;
    const char* place;
    std::function<void(json&)> inject;
  };
  const Fault faults[] = {
      {"zen5", "/levels/1/capacity/value", [](json& d) { d["levels"][1]["capacity"]["value"] = 1e-3; }},
      {"zen5", "/levels/1/capacity/value", [](json& d) { d["levels"][1]["capacity"] = d["levels"][0]["capacity"]; }},
      {"zen5", "/levels/2/latency/value", [](json& d) { d["levels"][2]["latency"]["value"] = 1; }},
      {"zen5", "/levels/0/line/value", [](json& d) { d["levels"][0]["line"]["value"] = 48; }},
      {"zen5", "/levels/3/capacity", [](json& d) { d["levels"][3]["capacity"] = d["levels"][2]["capacity"]; }},
      {"zen4", "/levels/2/copy", [](json& d) { d["levels"][2]["copy"] = d["levels"][3]["copy"]; }},
      {"zen4", "/levels/3/stream/per_sharer/1/sharers", [](json& d) { d["levels"][3]["stream"]["per_sharer"][1]["sharers"] = 1; }},
      {"zen5", "/levels/3/ways", [](json& d) { d["levels"][3]["ways"] = d["levels"][2]["ways"]; }},
      {"zen5", "/levels/2/name", [](json& d) { std::swap(d["levels"][1]["name"], d["levels"][2]["name"]); }},
      {"zen4", "/levels/2/name",
       [](json& d) {
         d["levels"].erase(3);
         d["levels"][2].erase("capacity");
         d["levels"][2].erase("ways");
       }},
      {"zen5", "/levels/2/shared_by/value", [](json& d) { d["levels"][2]["shared_by"]["value"] = 3; }},
      {"zen5", "/levels/0/overlap/value", [](json& d) { d["levels"][0]["overlap"]["value"] = 1.5; }},
      {"zen3", "/levels/1/prefetched", [](json& d) { d["levels"][1]["prefetched"] = true; }},
      {"zen3", "/levels/2/page_rows", [](json& d) { d["levels"][2]["page_rows"] = d["levels"][3]["page_rows"]; }},
      {"zen3", "/levels/2/split_reads", [](json& d) { d["levels"][2]["split_reads"] = d["levels"][3]["page_rows"]; }},
      {"zen3", "/levels/0/split_writes", [](json& d) { d["levels"][0]["split_writes"] = d["levels"][3]["page_rows"]; }},
      {"zen3", "/levels/2/apart", [](json& d) { d["levels"][2]["apart"] = d["levels"][3]["page_rows"]; }},
      {"zen3", "/levels/1/pieces",
       [](json& d) {
         d["levels"][1]["pieces"] = {{"value", 2}, {"unit", "ratio"}, {"source", "estimated"}};
       }},
      {"zen3", "/levels/2/pieces/value",
       [](json& d) {
         d["levels"][2]["pieces"] = {{"value", 0.5}, {"unit", "ratio"}, {"source", "estimated"}};
       }},
      {"zen5", "/vector/bits/value", [](json& d) { d["vector"]["bits"]["value"] = 500; }},
      {"zen5", "/atoms/0/shape",
       [](json& d) {
         d["atoms"][0]["shape"] = {1, 8, 1};
       }},
      {"zen5", "/atoms/0/shape",
       [](json& d) {
         d["atoms"][0]["shape"] = {1, 16};
       }},
      {"zen5", "/atoms/1/math", [](json& d) { d["atoms"][1]["math"] = "tf32"; }},
      {"zen5", "/atoms", [](json& d) { d["atoms"].erase(0); }},
      {"zen5", "/atoms/2/name",
       [](json& d) {
         d["isa"] = {"avx2", "fma", "avx512f", "avx512bf16"};
       }},
      {"zen5", "/arch", [](json& d) { d["arch"] = "sm_80"; }},
      {"zen5", "/gpu", [](json& d) { d["gpu"] = shipped("a100")["gpu"]; }},
      {"zen5", "/march", [](json& d) { d["march"] = "native; rm -rf"; }},
      {"zen5", "/march", [](json& d) { d.erase("march"); }},
      {"zen5", "/tlb", [](json& d) { d.erase("tlb"); }},
      {"zen5", "/cores/value", [](json& d) { d["cores"]["value"] = 1.5; }},
      {"zen5", "/format", [](json& d) { d["format"] = 2; }},
      {"zen5", "/clock/source", [](json& d) { d["clock"]["source"] = "guess"; }},
      {"zen5", "/clock/date", [](json& d) { d["clock"]["date"] = "yesterday"; }},
      {"zen5", "/issue/loads/value", [](json& d) { d["issue"]["loads"]["value"] = 1.5; }},
      {"a100", "/gpu", [](json& d) { d.erase("gpu"); }},
      {"a100", "/gpu/smem_per_block/value", [](json& d) { d["gpu"]["smem_per_block"]["value"] = 200; }},
      {"a100", "/vector/bits/value", [](json& d) { d["gpu"]["warp"]["value"] = 64; }},
  };
  for (const Fault& one : faults) {
    json document = shipped(one.profile);
    one.inject(document);
    mentions(fault(document), std::string("p.json: ") + one.place);
  }
}

TEST_CASE("what is not JSON is refused with line and column") {
  mentions(message_of("{\n  \"name\": zen\n}"), "line 2, column 11");
  mentions(message_of(""), "line 1, column 1");
  mentions(message_of("[1, 2]"), "JSON object");
  mentions(message_of(R"({"name": "a", "name": "b"})"), "'name' occurs twice");
  mentions(message_of(std::string(100000, '[')), "nested deeper");
  mentions(message_of(R"({"clock": 1e999})"), "not JSON");
  mentions(message_of("{\"a\": \"\xff\"}"), "not JSON");
  const std::string whole = *shipped_profile_text("zen5");
  for (size_t length = 0; length + 2 < whole.size(); length += 97) CHECK_FALSE(message_of(whole.substr(0, length)).empty());
}
