// Bad profiles and machines, end to end.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "error/cli.h"

using namespace rgen::test;
using nlohmann::json;

namespace {

/// A shipped profile as JSON, to be spoilt.
json shipped(const Cli& rgen, const std::string& name = "zen5") { return json::parse(rgen({"profile", "show", name, "--json"}).out); }

ProcessResult predict_with(const Cli& rgen, const json& profile) {
  return rgen({"predict", "--hw", rgen.file("profile.json", profile.dump()), rgen.file("spec.json", matmul_spec)});
}

/// The memory level of a profile's JSON.
json& level(json& profile, size_t i) { return profile.at("levels").at(i); }

}  // namespace

TEST_CASE("a profile as it is shipped is accepted from a file") {
  const Cli rgen;
  CHECK(predict_with(rgen, shipped(rgen)).status == 0);
}

TEST_CASE("no such profile: the nearest shipped one is told") {
  const Cli rgen;
  const ProcessResult r = rgen({"predict", "--hw", "zen6", rgen.file("spec.json", matmul_spec)});
  CHECK(r.status == 3);
  CHECK(contains(r.err, "zen6"));
  CHECK(contains(r.err, "zen5"));
}

TEST_CASE("a missing figure is named") {
  const Cli rgen;
  json p = shipped(rgen);
  level(p, 0).erase("capacity");
  const ProcessResult r = predict_with(rgen, p);
  CHECK(r.status == 3);
  CHECK(contains(r.err, "profile.json"));
  CHECK(contains(r.err, "/levels/0"));
  CHECK(contains(r.err, "'capacity'"));
}

TEST_CASE("a negative figure is refused") {
  const Cli rgen;
  json p = shipped(rgen);
  level(p, 1)["latency"]["value"] = -3;
  const ProcessResult r = predict_with(rgen, p);
  CHECK(r.status == 3);
  CHECK(contains(r.err, "latency"));
}

TEST_CASE("an unknown key is refused with the nearest known one") {
  const Cli rgen;
  json p = shipped(rgen);
  p["vendr"] = p["vendor"];
  p.erase("vendor");
  const ProcessResult r = predict_with(rgen, p);
  CHECK(r.status == 3);
  CHECK(contains(r.err, "vend"));
}

TEST_CASE("a profile that is no JSON") {
  const Cli rgen;
  const ProcessResult r = rgen({"profile", "check", rgen.file("p.json", "{\"name\": ")});
  CHECK(r.status == 3);
  CHECK(contains(r.err, "p.json"));
}

TEST_CASE("caches that hold no tile: exit status 5") {
  const Cli rgen;
  json p = shipped(rgen);
  for (size_t i = 0; i + 1 < p.at("levels").size(); ++i) {
    level(p, i)["capacity"]["value"] = 64 << i;
    level(p, i)["capacity"]["unit"] = "B";
    level(p, i)["ways"]["value"] = 1;
  }
  const ProcessResult r = predict_with(rgen, p);
  CAPTURE(r.err);
  CHECK(r.status == 5);
}

TEST_CASE("a profile for another machine is planned and printed, but not run") {
  const Cli rgen;
  // No machine has all of both.
  json p = shipped(rgen);
  p["isa"].push_back("amx-int8");
  p["isa"].push_back("sve");
  p["isa"].push_back("neon");
  const std::string profile = rgen.file("other.json", p.dump()), spec = rgen.file("spec.json", matmul_spec);
  const ProcessResult run = rgen({"run", "--hw", profile, spec});
  CAPTURE(run.err);
  CHECK((run.status == 7 || run.status == 3));
  CHECK(contains(run.err, "neon"));
}

TEST_CASE("profile check goes on after a failure") {
  const Cli rgen;
  const ProcessResult r = rgen({"profile", "check", rgen.file("bad.json", "{}"), "zen5"});
  CHECK(r.status == 3);
  CHECK(contains(r.out, "zen5: ok"));
  CHECK(contains(r.err, "bad.json"));
}
