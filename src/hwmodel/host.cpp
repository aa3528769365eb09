#include "hwmodel/host.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "hwmodel/microbench.h"
#include "hwmodel/profile.h"
#include "hwmodel/profile_document.h"

namespace rgen::hw {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Raise when what is measured, or how, changes: kept profiles of older versions are then measured anew.
constexpr int host_format = 20;

// What a kept measurement is of, and the shipped profile that fills in what is not measured. The caller's affinity has no part in it: the
// same machine is the same profile for all.
std::string host_key(const CpuIdentity& id, const std::vector<int>& cpus, const std::vector<std::string>& isa) {
  std::string key = "rgen host " + std::to_string(host_format) + "|" + id.vendor + "|" + id.title;
  for (int number : {id.family, id.model, id.stepping}) key += "|" + std::to_string(number);
  for (int cpu : cpus) key += "," + std::to_string(cpu);
  for (const std::string& feature : isa) key += " " + feature;
  key += "|" + content_hash(*shipped_profile_text(nearest_shipped(id, isa)));
  return key;
}

// The kept text, if it is whole, a valid profile, and of this very machine. Anything else is as good as absent.
std::optional<std::string> kept_profile(const fs::path& file, const std::string& key) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) return std::nullopt;
  try {
    const json wrapped = parse_document(text, file.string());
    if (wrapped.value("key", "") != key || !wrapped.contains("profile")) return std::nullopt;
    const json& profile = wrapped["profile"];
    if (wrapped.value("hash", "") != content_hash(canonical_text(profile))) return std::nullopt;
    std::string profile_text = layout(profile);
    parse_profile(profile_text, file.string());
    return profile_text;
  } catch (const std::exception&) { return std::nullopt; }
}

// By rename, so that others see the whole file or none. Failure to keep it costs the next call a measurement and nothing else.
void keep_profile(const fs::path& file, const std::string& key, const json& profile) {
  static std::atomic<unsigned> serial{0};
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  fs::path temporary = file;
  temporary += "." + std::to_string(getpid()) + "-" + std::to_string(serial++);
  {
    std::ofstream out(temporary, std::ios::binary);
    out << json{{"key", key}, {"hash", content_hash(canonical_text(profile))}, {"profile", profile}}.dump(1) << "\n";
    out.close();
    if (!out) {
      fs::remove(temporary, ignored);
      return;
    }
  }
  fs::rename(temporary, file, ignored);
  if (ignored) fs::remove(temporary, ignored);
}

}  // namespace

std::string host_profile_json(const HostOptions& options) {
  const CpuIdentity identity = cpu_identity();
  const std::vector<int> cpus = usable_cpus();
  const std::vector<std::string> isa = host_isa();
  if (!options.measure) return layout(detected_document(identity, detect_topology(cpus), isa));

  const std::string key = host_key(identity, cpus, isa);
  const fs::path file = options.cache_dir.empty() ? fs::path() : options.cache_dir / ("host-" + content_hash(key) + ".json");
  if (!file.empty())
    if (auto kept = kept_profile(file, key)) return *kept;

  const Topology topology = detect_topology(cpus);
  json document = detected_document(identity, topology, isa);
  measure_into(document, topology, isa);
  if (!file.empty()) keep_profile(file, key, document);
  return layout(document);
}

}  // namespace rgen::hw
