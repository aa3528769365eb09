// The profile of this machine as a JSON document: detected figures over the nearest shipped profile's.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hwmodel/figures.h"
#include "hwmodel/host.h"
#include "hwmodel/profile.h"
#include "hwmodel/profile_document.h"

namespace rgen::hw {
using nlohmann::json;

namespace {

constexpr std::string_view host_arch =
#if defined(__x86_64__)
    "x86-64";
#else
    "aarch64";
#endif

bool has(const std::vector<std::string>& isa, std::string_view feature) { return std::find(isa.begin(), isa.end(), feature) != isa.end(); }

int vector_bits(const std::vector<std::string>& isa) {
  return has(isa, "avx512f") && has(isa, "avx512vl") && has(isa, "avx512bw") && has(isa, "avx512dq") ? 512
         : has(isa, "avx2") && has(isa, "fma")                                                       ? 256
                                                                                                     : 128;
}

// Shipped profiles are checked when they are built and tested: here they are only read.
std::vector<json> shipped_cpus() {
  std::vector<json> out;
  for (const std::string& name : shipped_profiles())
    if (json p = json::parse(*shipped_profile_text(name)); p["kind"] == "cpu" && p["arch"] == host_arch) out.push_back(std::move(p));
  return out;
}

double likeness(const json& profile, const CpuIdentity& id, const std::vector<std::string>& isa) {
  double score = 0;
  for (const json& match : profile.value("matches", json::array())) {
    if (match["vendor"] != id.vendor) continue;
    score = std::max(score, 5.0);  // the same maker
    if (match["family"] != id.family) continue;
    const json models = match.value("models", json::array());
    if (models.empty() || std::find(models.begin(), models.end(), id.model) != models.end()) score = 40;
  }
  size_t common = 0;
  for (const json& feature : profile["isa"]) common += has(isa, feature.get_ref<const std::string&>());
  return score + 20.0 * double(common) / double(profile["isa"].size() + isa.size() - common);
}

json detected_count(int64_t value, const char* unit) {
  return {{"value", value}, {"unit", unit}, {"source", "estimated"}, {"note", "detected"}};
}

void keep_rows(json& bandwidth, int cores) {
  json rows = json::array();
  for (const json& row : bandwidth["per_sharer"])
    if (row["sharers"] <= cores) rows.push_back(row);
  bandwidth["per_sharer"] = rows;
}

void apply_caches(json& levels, const Topology& topology, int cores) {
  json kept = json::array();
  int64_t inner_bytes = 0;
  int inner_sharers = 1;
  for (json& level : levels) {
    for (const char* figure : {"read", "write", "stream", "copy", "row", "rows"})
      if (level.contains(figure)) keep_rows(level[figure], cores);
    const std::string name = level["name"];
    const bool dram = name == "DRAM";
    const auto cache = std::find_if(topology.caches.begin(), topology.caches.end(),
                                    [&](const CacheLevel& c) { return name == "L" + std::to_string(c.level); });
    if (!dram && cache == topology.caches.end() && !topology.caches.empty()) continue;  // this machine lacks the level
    int sharers = dram ? cores : std::min(cores, level["shared_by"]["value"].get<int>());
    if (!dram && cache != topology.caches.end()) {
      if (cache->bytes <= inner_bytes) continue;
      level["capacity"] = cache->bytes % 1024 == 0 ? detected_count(cache->bytes / 1024, "KiB") : detected_count(cache->bytes, "B");
      if (cache->ways > 0) level["ways"] = detected_count(cache->ways, "count");
      if (cache->line > 0) level["line"] = detected_count(cache->line, "B");
      sharers = cache->shared_by;
      inner_bytes = cache->bytes;
    }
    inner_sharers = std::clamp(sharers, inner_sharers, cores);
    level["shared_by"] = detected_count(inner_sharers, "count");
    kept.push_back(level);
  }
  levels = kept;
}

// Compilers know the names of processors younger than themselves least of all: an older name, with the rest by feature flags.
std::string march_of(const json& base, const std::vector<std::string>& isa) {
  if (std::all_of(base["isa"].begin(), base["isa"].end(), [&](const json& f) { return has(isa, f.get_ref<const std::string&>()); }))
    return base["march"];
  if (host_arch == "aarch64") return "armv8-a";
  return vector_bits(isa) == 512 ? "x86-64-v4" : "x86-64-v3";
}

// Atoms of this ISA, from the base where it has them, else from any other shipped profile of this width.
json atoms_for(const json& base, const std::vector<std::string>& isa) {
  json out = json::array();
  auto known = [&](const json& atom) {
    return std::any_of(out.begin(), out.end(),
                       [&](const json& one) { return one["name"] == atom["name"] && one["a"] == atom["a"] && one["b"] == atom["b"]; });
  };
  auto add_from = [&](const json& document) {
    for (json atom : document["atoms"]) {
      const std::string feature = atom_feature(atom["name"].get<std::string>());
      if ((!feature.empty() && !has(isa, feature)) || known(atom)) continue;
      restamp(atom, document["name"]);
      out.push_back(atom);
    }
  };
  add_from(base);
  for (const json& other : shipped_cpus())
    if (other["vector"]["bits"]["value"] == base["vector"]["bits"]["value"]) add_from(other);
  return out;
}

// The order in which one reads a profile; whatever is not here follows by name.
constexpr std::string_view reading_order[] = {
    "format", "name",   "title",  "vendor",    "kind", "arch",    "march", "isa",      "matches", "clock", "cores",     "vector",  "issue",
    "levels", "atoms",  "cycles", "fork_join", "call", "tlb",     "gpu",   "capacity", "ways",    "line",  "shared_by", "latency", "read",
    "write",  "stream", "copy",   "row",       "rows", "overlap", "a",     "b",        "acc",     "math",  "shape",     "rate"};

void write(const json& node, int indent, std::string& out) {
  const std::string pad(size_t(indent) + 2, ' ');
  const bool row = node.is_object() && (node.contains("unit") || node.contains("sharers") || node.contains("family"));
  const bool flat = !node.is_structured() || row || (node.is_array() && (node.empty() || !node[0].is_structured()));
  if (flat) {
    out += node.dump();
    return;
  }
  out += node.is_object() ? "{" : "[";
  const char* separator = "\n";
  auto member = [&](const std::string& key, const json& value) {
    out += separator + pad + (node.is_object() ? json(key).dump() + ": " : "");
    write(value, indent + 2, out);
    separator = ",\n";
  };
  for (std::string_view key : reading_order)
    if (node.is_object() && node.contains(key)) member(std::string(key), node[std::string(key)]);
  for (const auto& [key, value] : node.items())
    if (!node.is_object() || std::find(std::begin(reading_order), std::end(reading_order), key) == std::end(reading_order))
      member(key, value);
  out += "\n" + pad.substr(2) + (node.is_object() ? "}" : "]");
}

}  // namespace

std::string nearest_shipped(const CpuIdentity& identity, const std::vector<std::string>& isa) {
  std::string best;
  double best_score = -1;
  for (const json& profile : shipped_cpus()) {
    if (profile["vector"]["bits"]["value"] != vector_bits(isa)) continue;
    if (double score = likeness(profile, identity, isa); score > best_score) {
      best = profile["name"];
      best_score = score;
    }
  }
  if (best.empty())
    throw Error(ErrorCode::unsupported,
                "no shipped profile resembles " + identity.title + ": vectors with fused multiply-add (AVX2, AVX-512 or NEON) are needed",
                "host");
  return best;
}

json detected_document(const CpuIdentity& identity, const Topology& topology, const std::vector<std::string>& isa) {
  const std::string base_name = nearest_shipped(identity, isa);
  const int cores = std::max<int>(1, int(topology.cpus.size()));

  json doc = json::parse(*shipped_profile_text(base_name));
  const json atoms = atoms_for(doc, isa);
  const std::string march = march_of(doc, isa);
  restamp(doc, base_name);
  doc.erase("matches");
  doc["atoms"] = atoms;
  doc["name"] = "host";
  doc["title"] = identity.title;
  doc["vendor"] = identity.vendor;
  doc["isa"] = isa;
  doc["march"] = march;
  doc["cores"] = detected_count(cores, "count");
  apply_caches(doc["levels"], topology, cores);
  return doc;
}

std::string layout(const json& document) {
  std::string out;
  write(document, 0, out);
  return out + "\n";
}

}  // namespace rgen::hw
