#include "hwmodel/profile.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "base/embedded.h"
#include "base/error.h"

namespace rgen::hw {

// A resource that n cores saturate takes time in proportion to n per byte of each: time per byte, not bandwidth, is linear in sharers.
static double interpolate(const std::vector<SharedBandwidth>& table, int sharers) {
  if (table.empty()) return 0;
  auto above = std::find_if(table.begin(), table.end(), [&](const SharedBandwidth& row) { return row.sharers >= sharers; });
  if (above == table.end()) return table.back().gbs;
  if (above == table.begin() || above->sharers == sharers) return above->gbs;
  const SharedBandwidth& lo = *std::prev(above);
  const double t = double(sharers - lo.sharers) / (above->sharers - lo.sharers);
  const double gbs = 1 / ((1 - t) / lo.gbs + t / above->gbs);
  return std::clamp(gbs, std::min(lo.gbs, above->gbs), std::max(lo.gbs, above->gbs));  // rounding must not break monotony
}

double MemoryLevel::read_gbs(int sharers) const { return interpolate(read, sharers); }
double MemoryLevel::write_gbs(int sharers) const { return interpolate(write, sharers); }
double MemoryLevel::by_turns(double rows_read, int sharers) const {
  if (row.empty() || rows.empty()) return 1;
  // what the end of a page costs is hidden behind the lines of the other rows
  const double one = 1 / interpolate(row, sharers), many = 1 / interpolate(rows, sharers);
  const double hidden = 1 / std::clamp<double>(rows_read, 1, kRows) - 1.0 / kRows;
  return std::max(1.0, read_gbs(sharers) * (many + (one - many) * hidden / (1 - 1.0 / kRows)));
}
double MemoryLevel::streaming_ns(double read_bytes, double streamed_bytes, int sharers) const {
  const auto gbs = [&](const std::vector<SharedBandwidth>& table) {
    return table.empty() ? read_gbs(sharers) : interpolate(table, sharers);
  };
  const double both = std::min(read_bytes, streamed_bytes), moved = streamed_bytes > 0 ? 2 * both / gbs(copy) : 0;
  return moved + (read_bytes - both) / read_gbs(sharers) + (streamed_bytes > both ? (streamed_bytes - both) / gbs(stream) : 0);
}

double Profile::transfer_ns(size_t level, double read_bytes, double written_bytes, double streamed_bytes, int sharers) const {
  const MemoryLevel& m = levels[level];
  const double reads = m.streaming_ns(read_bytes, streamed_bytes, sharers), writes = written_bytes / m.write_gbs(sharers);
  return level == 0 ? std::max(reads, writes) : reads + writes;
}

bool Profile::has(std::string_view isa_feature) const { return std::find(isa.begin(), isa.end(), isa_feature) != isa.end(); }

std::optional<Profile> Profile::halved() const {
  // by how much, a measurement does not tell to the digit; loads are a whole number of ports
  if (kind != Kind::cpu || !avx512 || vector_bits != 512 || halves < 1.5) return {};
  Profile p = *this;
  p.vector_bits /= 2, p.halves = 1;
  const int lanes = vector_bits / 32;
  std::erase_if(p.atoms, [&](const Atom& a) { return a.m != 1 || a.n != lanes; });
  for (Atom& a : p.atoms) a.n /= 2, a.per_ns *= halves;
  // a gather and a division of integers take their time for each lane; the long chains of polynomials fill the window in which a core looks
  // ahead with half the lanes, and so take longer for as many elements (Zen 4: maps 1.25 to 1.5, epilogues of few results at a time more)
  const std::map<std::string_view, double> chains{{"exp", 1.25}, {"log", 1.3}, {"pow", 1.3}, {"erf", 1.5}, {"tanh", 1.5}, {"sigmoid", 1.7}};
  for (auto& [function, c] : p.cycles) {
    const auto chain = chains.find(function);
    c *= (chain == chains.end() ? 1 : chain->second) / (function == "gather" || function == "int_div" ? 2 : halves);
  }
  p.load_ports = int(std::lround(load_ports * halves));
  p.broadcasts = broadcasts > 0 ? broadcasts : load_ports;  // one element, however many lanes
  p.split_loads = split_loads * halves;
  return p;
}

const MemoryLevel& Profile::level(std::string_view level_name) const {
  std::vector<std::string> names;
  for (const MemoryLevel& one : levels) {
    if (one.name == level_name) return one;
    names.push_back(one.name);
  }
  throw Error(ErrorCode::invalid_profile, "no memory level '" + std::string(level_name) + "'" + did_you_mean(level_name, names), name);
}

double Profile::cost(std::string_view function) const {
  if (function == "min") function = "max";
  auto found = cycles.find(function);
  if (found != cycles.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [key, unused] : cycles) names.push_back(key);
  throw Error(ErrorCode::invalid_profile, "missing figure '" + std::string(function) + "'" + did_you_mean(function, names),
              name + ": /cycles");
}

const Atom* Profile::find_atom(DType a, DType b, DType acc) const {
  const Atom* best = nullptr;
  auto products_per_ns = [](const Atom& atom) { return double(atom.m) * atom.n * atom.k * atom.per_ns; };
  for (const Atom& atom : atoms)
    if (atom.a == a && atom.b == b && atom.acc == acc && !atom.tf32 && (!best || products_per_ns(atom) > products_per_ns(*best)))
      best = &atom;
  return best;
}

std::vector<std::string> shipped_profiles() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_profiles())
    if (file.name != "schema") names.emplace_back(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> shipped_profile_text(std::string_view name) {
  if (name == "schema") return std::nullopt;
  for (const EmbeddedFile& file : embedded_profiles())
    if (file.name == name) return std::string(file.text);
  return std::nullopt;
}

Profile load_profile(const std::string& name_or_file, const HostOptions& host) {
  namespace fs = std::filesystem;
  std::error_code unreadable;
  if (fs::exists(name_or_file, unreadable) && !fs::is_directory(name_or_file, unreadable)) {
    std::ifstream in(name_or_file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in.good() && text.empty()) throw Error(ErrorCode::invalid_profile, "the file cannot be read or is empty", name_or_file);
    return parse_profile(text, name_or_file);
  }
  std::string name = name_or_file;
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  if (name == "host") return parse_profile(host_profile_json(host), "host");
  if (auto text = shipped_profile_text(name)) return parse_profile(*text, name + ".json");
  std::vector<std::string> known = shipped_profiles();
  known.emplace_back("host");
  std::string list;
  for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
  throw Error(ErrorCode::invalid_profile, "no such file and no shipped profile" + did_you_mean(name, known) + "; shipped: " + list,
              name_or_file);
}

std::vector<std::string> missing_isa(const Profile& profile) {
  std::vector<std::string> here = host_isa(), missing;
  for (const std::string& feature : profile.isa)
    if (std::find(here.begin(), here.end(), feature) == here.end()) missing.push_back(feature);
  return missing;
}

}  // namespace rgen::hw
