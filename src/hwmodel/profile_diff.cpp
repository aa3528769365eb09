#include <nlohmann/json.hpp>
#include <set>

#include "hwmodel/profile.h"

namespace rgen::hw {
using nlohmann::json;

namespace {

bool own_ports(const json& figure) { return figure.value("own_ports", false); }
double latency(const json& figure) { return figure.value("latency", 0.0); }

// A figure prints as "48 KiB"; source, date and note are provenance, not hardware.
std::string shown(const json& node) {
  if (node.is_object() && node.contains("unit") && node.contains("value"))
    return node["value"].dump() + " " + node["unit"].get<std::string>() + (own_ports(node) ? " on ports of its own" : "") +
           (node.contains("latency") ? ", latency " + node["latency"].dump() : "");
  return node.is_string() ? node.get<std::string>() : node.dump();
}

bool is_figure(const json& node) { return node.is_object() && node.contains("unit"); }

// 1 MiB is 1024 KiB, and 4 is 4.0.
bool same(const json& a, const json& b) {
  if (!is_figure(a) || !is_figure(b)) return a == b;
  struct Unit {
    std::string_view name, base;
    double scale;
  };
  static constexpr Unit units[] = {
      {"KiB", "B", 0x1p10}, {"MiB", "B", 0x1p20}, {"GiB", "B", 0x1p30}, {"GHz", "MHz", 1e3}, {"us", "ns", 1e3}};
  auto in_base = [](const json& figure) {
    const double value = figure["value"];
    const std::string name = figure["unit"];
    for (const Unit& unit : units)
      if (unit.name == name) return std::pair{value * unit.scale, std::string(unit.base)};
    return std::pair{value, name};
  };
  return in_base(a) == in_base(b) && own_ports(a) == own_ports(b) && latency(a) == latency(b);
}

// Rows of levels, atoms and bandwidths are told apart by what names them, so that one more level shows as one line.
std::string row_key(const json& row, size_t index) {
  if (row.is_object() && row.contains("shape"))
    return row["name"].get<std::string>() + " " + row["a"].get<std::string>() + " " + row["b"].get<std::string>() + " " +
           row["shape"].dump();
  if (row.is_object() && row.contains("name")) return row["name"];
  if (row.is_object() && row.contains("sharers")) return row["sharers"].dump() + " sharers";
  return row.is_string() ? row.get<std::string>() : std::to_string(index);
}

using Named = std::map<std::string, const json*>;
Named children(const json& node) {
  Named out;
  if (node.is_object())
    for (const auto& [key, value] : node.items())
      if (key != "source" && key != "date" && key != "note" && key != "$schema") out[key] = &value;
  if (node.is_array())
    for (size_t i = 0; i < node.size(); ++i) out["[" + row_key(node[i], i) + "]"] = &node[i];
  return out;
}

void compare(const json& a, const json& b, const std::string& path, std::vector<std::string>& lines) {
  const bool leaf = !a.is_structured() || !b.is_structured() || (is_figure(a) && a.contains("value"));
  if (leaf) {
    if (!same(a, b)) lines.push_back(path + ": " + shown(a) + " → " + shown(b));
    return;
  }
  const Named left = children(a), right = children(b);
  std::set<std::string> keys;
  for (const auto& side : {left, right})
    for (const auto& [key, unused] : side) keys.insert(key);
  for (const std::string& key : keys) {
    const std::string at = path + (path.empty() || key[0] == '[' ? "" : ".") + key;
    if (!left.contains(key))
      lines.push_back(at + ": absent → " + shown(*right.at(key)));
    else if (!right.contains(key))
      lines.push_back(at + ": " + shown(*left.at(key)) + " → absent");
    else
      compare(*left.at(key), *right.at(key), at, lines);
  }
}

}  // namespace

std::vector<std::string> diff_profiles(const Profile& a, const Profile& b) {
  std::vector<std::string> lines;
  compare(json::parse(a.json), json::parse(b.json), "", lines);
  return lines;
}

}  // namespace rgen::hw
