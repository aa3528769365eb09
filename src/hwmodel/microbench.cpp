// Puts measured figures into the document of this machine.
#include "hwmodel/microbench.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hwmodel/figures.h"

namespace rgen::hw {
using nlohmann::json;

namespace {

// What GNU OpenMP spends on a region beside waking threads and waiting for them. Not measured here: it would start its threads in our
// caller's process.
constexpr double runtime_us = 0.9;

class Recorder {
 public:
  explicit Recorder(json& document) : doc_(document), date_(today()) {}

  json figure(double value, const char* unit) const {
    return {{"value", rounded_to(value, 3)}, {"unit", unit}, {"source", "measured"}, {"date", date_}};
  }

  void rates(const Rates& rates) {
    doc_["clock"] = figure(rates.ghz, "GHz");
    auto cycles = [&](std::string_view name, bool chain = false) { return rates.find(name, chain); };
    for (auto& [name, entry] : doc_["cycles"].items())
      if (double c = name == "int_div" ? cycles(name) * doc_["vector"]["bits"]["value"].get<int>() / 32 : cycles(name); c > 0)
        entry = timed(rates, name, c);
    for (auto [key, loop] : {std::pair{"loads", "load"}, {"stores", "store"}})
      doc_["issue"][key] = figure(std::max(1.0, std::round(1 / cycles(loop))), "per cycle");
    if (cycles("broadcast") > 0 && cycles("split_load") > 0) {  // multiply-adds with an element from memory, two a cycle at best
      const double loads = doc_["issue"]["loads"]["value"];
      doc_["issue"]["broadcasts"] = figure(std::max(loads, std::round(1 / cycles("broadcast"))), "per cycle");
      doc_["issue"]["split_loads"] = figure(std::min(loads, loads * cycles("load") / cycles("split_load")), "per cycle");
    }
    if (cycles("tile") > 0) {
      doc_["issue"].erase("burst");
      if (const double held = (cycles("stored_tile") - cycles("tile")) / 4; held > cycles("store"))  // of twelve results eight are free
        doc_["issue"]["burst"] = figure(held, "cycles");
    }
    doc_["vector"].erase("halves");
    if (cycles("half_fma") > 0 && cycles("half_load") > 0) {  // of all kinds of instructions what the slower of two kinds gains
      const double gain = std::min(cycles("fma") / cycles("half_fma"), cycles("load") / cycles("half_load"));
      doc_["vector"]["halves"] = figure(std::clamp(gain, 1.0, 2.0), "ratio");
    }
    for (json& atom : doc_["atoms"]) {
      const auto& name = atom["name"].get_ref<const std::string&>();
      if (cycles(name) == 0) continue;
      atom["rate"] = figure(1 / cycles(name), "per cycle");
      if (name == "fma" && rates.all_cores_fma < 0.995)
        atom["rate"]["note"] = "with all cores at work " + std::to_string(std::lround(100 * rates.all_cores_fma)) + " % of it";
      if (cycles(name, true) > 0) atom["latency"] = figure(cycles(name, true), "cycles");
    }
    if (rates.fork_join_us > 0) {
      doc_["fork_join"] = figure(rates.fork_join_us + runtime_us, "us");
      doc_["fork_join"]["note"] = "spinning threads; 0.9 us of it are a runtime's bookkeeping (GNU OpenMP)";
    }
  }

  // `measured` has one entry a cache of the document and one for the memory.
  void memory(const std::vector<LevelFigures>& measured) {
    json kept = json::array();
    double inner_ns = 0;
    int64_t inner_bytes = 0;
    for (size_t i = 0; i < measured.size(); ++i) {
      json level = doc_["levels"][i];
      const LevelFigures& m = measured[i];
      if (m.capacity_bytes > 0 && m.capacity_bytes <= inner_bytes) continue;
      inner_bytes = m.capacity_bytes;
      if (m.reduced) {
        level["capacity"] = figure(0, "KiB");
        level["capacity"]["value"] = m.capacity_bytes / 1024;
        level["capacity"]["note"] = "what is left of the capacity reported";
      }
      // Each level is slower than the one inside it, also where noise says otherwise.
      const double latency = std::max(m.latency_ns, 1.05 * inner_ns);
      level["latency"] = figure(latency, "ns");
      inner_ns = level["latency"]["value"];
      if (!m.rows.empty()) {
        level["read"] = bandwidth(m.rows, &LevelFigures::Row::read_gbs);
        level["write"] = bandwidth(m.rows, &LevelFigures::Row::write_gbs);
        for (const char* of_memory : {"stream", "copy", "row", "rows"}) level.erase(of_memory);
        if (m.rows[0].copy_gbs > 0) {
          level["stream"] = bandwidth(m.rows, &LevelFigures::Row::stream_gbs);
          level["copy"] = bandwidth(m.rows, &LevelFigures::Row::copy_gbs);
        }
        if (m.rows[0].rows_gbs > 0) {
          level["row"] = bandwidth(m.rows, &LevelFigures::Row::row_gbs);
          level["rows"] = bandwidth(m.rows, &LevelFigures::Row::rows_gbs);
        }
      }
      // whichever level is the second, if one was left out
      record(level, "split_reads", kept.size() == 1, m.split_reads_ns, 0.02, "ns");
      record(level, "split_writes", kept.size() == 1, m.split_writes_ns, 0.02, "ns");
      record(level, "apart", kept.size() == 1, m.apart_ns, 0, "ns");
      record(level, "pieces", kept.size() > 1, m.pieces, 1.05, "ratio");
      record(level, "columns", kept.size() > 1, m.columns, 0, "ratio");
      record(level, "kib_columns", kept.size() > 1, m.kib_columns, 0, "ratio");
      record(level, "turns", kept.size() > 1, m.turns, 0, "ratio");
      record(level, "kept", kept.size() > 1, m.kept, 0, "ratio");
      if (m.overlap >= 0) level["overlap"] = figure(std::round(m.overlap * 100) / 100, "ratio");
      kept.push_back(level);
    }
    doc_["levels"] = kept;
  }

 private:
  /// A figure that may be left out, of a level that has it or not (`here`): measured (not negative), it takes another device's place.
  void record(json& level, const char* name, bool here, double measured, double noticed, const char* unit) const {
    if (!here || measured >= 0) level.erase(name);
    if (here && measured > noticed) level[name] = figure(measured, unit);
  }

  /// One after the other where that is measured. Beside as many multiply-adds a function with ports of its own takes no longer than alone,
  /// others the sum.
  json timed(const Rates& rates, const std::string& function, double cycles) const {
    json entry = figure(cycles, "cycles");
    const double alone = std::max(cycles, rates.find("fma", false)), beside = rates.find("fma+" + function, false);
    if (beside > 0 && beside < 1.2 * alone) entry["own_ports"] = true;
    if (const double chain = rates.find(function, true); chain > 0) entry["latency"] = rounded_to(chain, 3);
    return entry;
  }
  json bandwidth(const std::vector<LevelFigures::Row>& rows, double LevelFigures::Row::*column) const {
    json table = json::array();
    for (const LevelFigures::Row& row : rows) table.push_back({{"sharers", row.sharers}, {"value", rounded_to(row.*column, 3)}});
    return {{"per_sharer", table}, {"unit", "GB/s"}, {"source", "measured"}, {"date", date_}};
  }

  json& doc_;
  std::string date_;
};

}  // namespace

void measure_into(json& document, const Topology& topology, const std::vector<std::string>& isa) {
  const Budget budget(2.2);  // what is begun is finished: the rest of the 3 s is for that
  Team team(topology.cpus);
  const int bits = document["vector"]["bits"]["value"];
  Recorder recorder(document);
  Rates rates = measure_rates(team, bits, isa);

  std::vector<CacheLevel> caches;  // those of the document, which has dropped what cannot be
  for (const json& level : document["levels"])
    for (const CacheLevel& cache : topology.caches)
      if (level["name"] == "L" + std::to_string(cache.level)) caches.push_back(cache);
  if (caches.size() + 1 == document["levels"].size()) recorder.memory(measure_memory(team, caches, bits, budget));
  // whoever shares the cores may take their ports for the whole of a measurement, but less often for both
  rates.improve(measure_rates(team, bits, isa));
  recorder.rates(rates);
}

}  // namespace rgen::hw
