// JSON → Profile. The schema has fixed keys, types and units; here is what it cannot say: conversions and how figures relate.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hwmodel/profile.h"
#include "hwmodel/profile_document.h"

namespace rgen::hw {
using nlohmann::json;

namespace {

struct AtomRule {
  std::string_view atom, feature;
};
constexpr AtomRule atom_features[] = {
    {"vpmaddwd", "avx2"},     {"vdpbf16ps", "avx512bf16"}, {"vpdpbusd", "avx512vnni"}, {"tdpbf16ps", "amx-bf16"}, {"tdpbssd", "amx-int8"},
    {"tdpbusd", "amx-int8"},  {"bfdot", "bf16"},           {"bfmmla", "bf16"},         {"sdot", "dotprod"},       {"udot", "dotprod"},
    {"usdot", "i8mm"},        {"smmla", "i8mm"},           {"ummla", "i8mm"},          {"usmmla", "i8mm"},        {"dp4a", "dp4a"},
    {"mma.sync", "mma.sync"}, {"wgmma", "wgmma"},
};

class Reader {
 public:
  Reader(const json& document, std::string_view origin) : doc_(document), origin_(origin) {}

  Profile read() {
    head();
    for (size_t i = 0; i < doc_["levels"].size(); ++i) p_.levels.push_back(level(i));
    for (size_t i = 0; i < doc_["atoms"].size(); ++i) p_.atoms.push_back(atom(i));
    for (const auto& [name, figure] : doc_["cycles"].items()) {
      p_.cycles[name] = value(figure);
      if (figure.value("own_ports", false)) p_.own_ports.insert(name);
      if (figure.contains("latency")) p_.latency_cycles[name] = figure["latency"];
    }
    p_.fork_join_us = microseconds(doc_["fork_join"]);
    p_.call_us = microseconds(doc_["call"]);
    if (doc_.contains("tlb")) {
      p_.page_bytes = double(bytes(doc_["tlb"]["page"], "/tlb/page"));
      p_.tlb_entries = count(doc_["tlb"]["entries"]);
      p_.tlb_miss_ns = nanoseconds(doc_["tlb"]["miss"]);
    }
    check_kind();
    check_levels();
    if (doc_.contains("gpu")) gpu();
    return std::move(p_);
  }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& message) const { fail_at(origin_, path, message); }

  static double value(const json& figure) { return figure["value"].get<double>(); }
  static bool unit_is(const json& figure, std::string_view unit) { return figure["unit"].get_ref<const std::string&>() == unit; }
  static int count(const json& figure) { return figure["value"].get<int>(); }
  static double microseconds(const json& figure) { return value(figure) * (unit_is(figure, "ns") ? 1e-3 : 1.0); }
  double nanoseconds(const json& figure) const { return value(figure) / (unit_is(figure, "cycles") ? p_.ghz : 1.0); }

  int64_t bytes(const json& figure, const std::string& path) const {
    double scale = unit_is(figure, "KiB") ? 0x1p10 : unit_is(figure, "MiB") ? 0x1p20 : unit_is(figure, "GiB") ? 0x1p30 : 1.0;
    double b = value(figure) * scale;
    if (b != std::floor(b) || b > 0x1p53) fail(path, "a size is a whole number of bytes");
    return int64_t(b);
  }

  void head() {
    p_.name = doc_["name"];
    p_.title = doc_["title"];
    p_.vendor = doc_["vendor"];
    p_.kind = doc_["kind"] == "gpu" ? Profile::Kind::gpu : Profile::Kind::cpu;
    p_.arch = doc_["arch"];
    p_.isa = doc_["isa"].get<std::vector<std::string>>();
    const auto isa = {"avx512f", "avx512bw", "avx512dq", "avx512vl"};
    p_.avx512 = std::all_of(isa.begin(), isa.end(), [&](const char* feature) { return p_.has(feature); });
    if (doc_.contains("march")) p_.march = doc_["march"];
    p_.ghz = value(doc_["clock"]) * (unit_is(doc_["clock"], "MHz") ? 1e-3 : 1.0);
    p_.cores = count(doc_["cores"]);
    p_.vector_bits = count(doc_["vector"]["bits"]);
    p_.vector_registers = count(doc_["vector"]["registers"]);
    if (doc_["vector"].contains("halves")) p_.halves = value(doc_["vector"]["halves"]);
    p_.load_ports = ports("loads");
    p_.store_ports = ports("stores");
    p_.issue_width = ports("width");
    if (doc_["issue"].contains("broadcasts")) p_.broadcasts = value(doc_["issue"]["broadcasts"]);
    if (doc_["issue"].contains("split_loads")) p_.split_loads = value(doc_["issue"]["split_loads"]);
    if (doc_["issue"].contains("burst")) p_.burst_ns = nanoseconds(doc_["issue"]["burst"]);
    if ((p_.vector_bits & (p_.vector_bits - 1)) != 0 || p_.vector_bits < 64)
      fail("/vector/bits/value", "a vector register has a power of two of at least 64 bits");
  }

  int ports(const char* key) const {
    double v = value(doc_["issue"][key]);
    if (v != std::floor(v)) fail(std::string("/issue/") + key + "/value", "a number of ports is a whole number");
    return int(v);
  }

  MemoryLevel level(size_t i) const {
    const json& in = doc_["levels"][i];
    const std::string path = "/levels/" + std::to_string(i);
    const bool last = i + 1 == doc_["levels"].size();
    MemoryLevel out;
    out.name = in["name"];
    if (last && in.contains("capacity")) fail(path + "/capacity", "the last level is unbounded: leave its capacity out");
    if (!last && !in.contains("capacity")) fail(path + "/capacity", "missing figure 'capacity': only the last level is unbounded");
    const bool is_cache = !last && out.name != "smem";
    if (is_cache && !in.contains("ways")) fail(path + "/ways", "missing figure 'ways': a cache states its associativity");
    if (!is_cache && in.contains("ways")) fail(path + "/ways", "only a cache has ways");
    if (!last) out.capacity_bytes = bytes(in["capacity"], path + "/capacity/value");
    if (is_cache) out.ways = count(in["ways"]);
    int64_t line = bytes(in["line"], path + "/line/value");
    if ((line & (line - 1)) != 0 || line > 4096) fail(path + "/line/value", "a line is a power of two of at most 4096 bytes");
    out.line_bytes = int(line);
    out.shared_by = count(in["shared_by"]);
    if (out.shared_by > p_.cores) fail(path + "/shared_by/value", "more sharers than the " + std::to_string(p_.cores) + " cores of /cores");
    out.latency_ns = nanoseconds(in["latency"]);
    out.read = bandwidth(in["read"], path + "/read");
    out.write = bandwidth(in["write"], path + "/write");
    const auto of_memory = [&](const std::string& key) {
      if (in.contains(key) && !last) fail(path + "/" + key, "only memory has the figure '" + key + "'");
      return in.contains(key);
    };
    for (auto [key, table] : {std::pair{"stream", &out.stream}, {"copy", &out.copy}, {"row", &out.row}, {"rows", &out.rows}})
      if (of_memory(key)) *table = bandwidth(in[key], path + "/" + key);
    if (in.contains("prefetched") && i > 0) fail(path + "/prefetched", "only the first level has the word 'prefetched'");
    out.prefetched = in.value("prefetched", false);
    if (of_memory("page_rows")) out.page_rows_ns = nanoseconds(in["page_rows"]);
    const auto of_cache = [&](const char* key, bool here, const char* where) {
      if (in.contains(key) && (!is_cache || !here)) fail(path + "/" + key, std::string("only ") + where + " has the figure '" + key + "'");
      return in.contains(key);
    };
    if (of_cache("split_reads", i == 1, "the second level")) out.split_reads_ns = nanoseconds(in["split_reads"]);
    if (of_cache("split_writes", i == 1, "the second level")) out.split_writes_ns = nanoseconds(in["split_writes"]);
    if (of_cache("apart", i == 1, "the second level")) out.apart_ns = nanoseconds(in["apart"]);
    for (auto [key, figure] : {std::pair{"pieces", &out.pieces},
                               {"columns", &out.columns},
                               {"kib_columns", &out.kib_columns},
                               {"turns", &out.turns},
                               {"misses", &out.misses},
                               {"kept", &out.kept}})
      if (of_cache(key, i > 1, "a cache beyond the second")) *figure = value(in[key]);
    out.overlap = value(in["overlap"]);
    return out;
  }

  std::vector<SharedBandwidth> bandwidth(const json& in, const std::string& path) const {
    const double scale = unit_is(in, "B/cycle") ? p_.ghz : 1.0;
    std::vector<SharedBandwidth> table;
    for (const json& row : in["per_sharer"]) {
      const std::string at = path + "/per_sharer/" + std::to_string(table.size()) + "/sharers";
      int sharers = row["sharers"].get<int>();
      if (table.empty() && sharers != 1) fail(at, "the first row is that of one sharer");
      if (!table.empty() && sharers <= table.back().sharers) fail(at, "sharers ascend: " + std::to_string(sharers) + " comes too late");
      if (sharers > p_.cores) fail(at, "more sharers than the " + std::to_string(p_.cores) + " cores of /cores");
      table.push_back({sharers, row["value"].get<double>() * scale});
    }
    return table;
  }

  Atom atom(size_t i) const {
    const json& in = doc_["atoms"][i];
    const std::string path = "/atoms/" + std::to_string(i);
    Atom out;
    out.name = in["name"];
    const auto dtype = [&](const char* key) {  // the schema knows the words
      const auto& name = in[key].get_ref<const std::string&>();
      return name == to_string(DType::s16) ? DType::s16 : *parse_dtype(name);
    };
    out.a = dtype("a");
    out.b = dtype("b");
    out.acc = dtype("acc");
    out.m = in["shape"][0];
    out.n = in["shape"][1];
    out.k = in["shape"][2];
    out.per_ns = value(in["rate"]) * p_.ghz;
    out.latency_ns = nanoseconds(in["latency"]);
    out.tf32 = in.value("math", "ieee") == "tf32";
    if (out.tf32 && (out.a != DType::f32 || out.b != DType::f32)) fail(path + "/math", "tf32 rounds f32 operands");
    check_atom(out, path);
    return out;
  }

  void check_atom(const Atom& atom, const std::string& path) const {
    if (const std::string feature = atom_feature(atom.name); !feature.empty() && !p_.has(feature))
      fail(path + "/name", "'" + atom.name + "' needs '" + feature + "' in /isa");
    if (atom.name != "fma") return;
    if (p_.arch == "x86-64" && !p_.has("fma")) fail(path + "/name", "'fma' needs 'fma' in /isa");
    const int lanes = p_.vector_bits / (8 * size_of(atom.acc));
    if (atom.m != 1 || atom.k != 1 || atom.n != lanes)
      fail(path + "/shape",
           "an fma on " + std::to_string(p_.vector_bits) + "-bit vectors has the shape [1, " + std::to_string(lanes) + ", 1]");
  }

  void check_kind() const {
    const bool gpu = p_.kind == Profile::Kind::gpu;
    if (gpu != p_.arch.starts_with("sm_")) fail("/arch", "'" + p_.arch + "' is not an architecture of a " + (gpu ? "gpu" : "cpu"));
    for (const char* key : {"march", "tlb"})
      if (!gpu && !doc_.contains(key)) fail(std::string("/") + key, std::string("missing figure '") + key + "': a cpu must state it");
    if (gpu && !doc_.contains("gpu")) fail("/gpu", "missing figure 'gpu': a gpu must state it");
    if (!gpu && doc_.contains("gpu")) fail("/gpu", "a cpu has no figures of a gpu");
    for (const Atom& a : p_.atoms)
      if (a.name == "fma" && a.a == DType::f32 && a.acc == DType::f32) return;
    fail("/atoms", "missing atom 'fma' of f32: every device multiplies and adds f32");
  }

  void check_levels() const {
    const bool gpu = p_.kind == Profile::Kind::gpu;
    const std::vector<std::string_view> order =
        gpu ? std::vector<std::string_view>{"smem", "L2", "DRAM"} : std::vector<std::string_view>{"L1", "L2", "L3", "DRAM"};
    size_t next = 0;
    for (size_t i = 0; i < p_.levels.size(); ++i) {
      const MemoryLevel& level = p_.levels[i];
      const std::string path = "/levels/" + std::to_string(i);
      while (next < order.size() && order[next] != level.name) ++next;
      if (next++ == order.size()) fail(path + "/name", "'" + level.name + "' is out of order: levels go innermost first, " + join(order));
      if (i == 0) continue;
      const MemoryLevel& inner = p_.levels[i - 1];
      if (level.capacity_bytes != 0 && level.capacity_bytes <= inner.capacity_bytes)
        fail(path + "/capacity/value", "not larger than the capacity of " + inner.name + " inside it");
      if (level.latency_ns <= inner.latency_ns)
        fail(path + "/latency/value", "not longer than the latency of " + inner.name + " inside it");
      if (level.shared_by < inner.shared_by) fail(path + "/shared_by/value", "fewer sharers than " + inner.name + " inside it");
    }
    if (p_.levels.front().name != order.front()) fail("/levels/0/name", "the innermost level is " + std::string(order.front()));
    if (p_.levels.back().name != "DRAM") fail("/levels/" + std::to_string(p_.levels.size() - 1) + "/name", "the last level is DRAM");
  }

  static std::string join(const std::vector<std::string_view>& words) {
    std::string out;
    for (std::string_view w : words) out += (out.empty() ? "" : ", ") + std::string(w);
    return out;
  }

  void gpu() {
    const json& in = doc_["gpu"];
    Profile::Gpu& g = p_.gpu;
    g.warp = count(in["warp"]);
    g.max_threads_per_sm = count(in["max_threads_per_sm"]);
    g.max_blocks_per_sm = count(in["max_blocks_per_sm"]);
    g.max_threads_per_block = count(in["max_threads_per_block"]);
    g.registers_per_sm = count(in["registers_per_sm"]);
    g.max_registers_per_thread = count(in["max_registers_per_thread"]);
    g.smem_banks = count(in["smem_banks"]);
    g.smem_per_sm = bytes(in["smem_per_sm"], "/gpu/smem_per_sm/value");
    g.smem_per_block = bytes(in["smem_per_block"], "/gpu/smem_per_block/value");
    g.schedulers = count(in["schedulers"]);
    g.block_launch_ns = in.contains("block_launch") ? nanoseconds(in["block_launch"]) : 1.2 / p_.ghz;
    if (p_.vector_bits != 32 * g.warp) fail("/vector/bits/value", "the vector of a gpu is 32 bits for each thread of a warp");
    if (g.smem_per_block > g.smem_per_sm) fail("/gpu/smem_per_block/value", "more than smem_per_sm");
    if (g.max_threads_per_block > g.max_threads_per_sm) fail("/gpu/max_threads_per_block/value", "more than max_threads_per_sm");
  }

  const json& doc_;
  std::string_view origin_;
  Profile p_;
};

}  // namespace

std::string atom_feature(std::string_view atom) {
  for (const AtomRule& rule : atom_features)
    if (rule.atom == atom) return std::string(rule.feature);
  return {};
}

Profile parse_profile(std::string_view json_text, std::string_view origin) {
  const json document = parse_document(json_text, origin);
  check_schema(document, origin);
  Profile profile = Reader(document, origin).read();
  profile.json = canonical_text(document);
  profile.hash = content_hash(profile.json);
  return profile;
}

}  // namespace rgen::hw
