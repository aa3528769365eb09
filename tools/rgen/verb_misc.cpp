// rgen cache info|clear and rgen ops.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rgen/environment.h"
#include "rgen/session.h"

namespace rgen::cli {

int cache_show(const Options& o) {
  const CacheInfo info = cache_info(cache_dir());
  if (o.json)
    print(Json{{"rgen", version()}, {"folder", info.folder.string()}, {"entries", info.entries}, {"bytes", info.bytes}}.dump(2) + "\n");
  else if (info.folder.empty())
    print("no cache: neither RGEN_CACHE_DIR, XDG_CACHE_HOME nor HOME is set\n");
  else
    print(fmt::format("{}: {}, {}\n", info.folder.string(), count_text(info.entries, "kernel"), bytes_text(double(info.bytes))));
  return 0;
}

int cache_empty(const Options& o) {
  const int64_t removed = cache_clear(cache_dir());
  print(o.json ? Json{{"rgen", version()}, {"removed", removed}}.dump(2) + "\n" : "removed " + count_text(removed, "kernel") + "\n");
  return 0;
}

namespace {

Json preset_json(const Preset& p) {
  Json parameters = Json::array();
  for (const PresetParameter& q : p.parameters)
    parameters.push_back({{"name", q.name}, {"type", q.type}, {"required", q.required}, {"meaning", q.meaning}});
  return {{"name", p.name}, {"summary", p.summary}, {"expression", p.expression}, {"parameters", parameters}};
}

std::string preset_text(const Preset& p) {
  Table table({"parameter", "type", "", "meaning"});
  for (const PresetParameter& q : p.parameters) table.add({q.name, q.type, q.required ? "required" : "", q.meaning});
  std::string s = p.name + ": " + p.summary + "\n\n";
  if (!p.expression.empty()) s += p.expression + "\n\n";
  return s + table.text();
}

std::string parameter_list(const Preset& p) {
  std::string s;
  for (const PresetParameter& q : p.parameters) s += (s.empty() ? "" : ", ") + (q.required ? q.name : "[" + q.name + "]");
  return s;
}

}  // namespace

int ops(const Options& o) {
  const std::vector<Preset> all = presets();
  std::vector<std::string> names;
  for (const Preset& p : all) names.push_back(p.name);
  Json list = Json::array();
  Table table({"op", "parameters", "does"});
  std::string details;
  for (const Preset& p : all) {
    const bool asked = std::find(o.arguments.begin(), o.arguments.end(), p.name) != o.arguments.end();
    if (!asked && !o.arguments.empty()) continue;
    list.push_back(preset_json(p));
    table.add({p.name, parameter_list(p), p.summary});
    if (asked) details += (details.empty() ? "" : "\n") + preset_text(p);
  }
  for (const std::string& name : o.arguments)
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string hint = nearest(name, names);
      throw Error(ErrorCode::usage,
                  "no op '" + name + "'" + (hint.empty() ? "; 'rgen ops' lists them" : " (did you mean '" + hint + "'?)"));
    }
  print(o.json ? Json{{"rgen", version()}, {"ops", list}}.dump(2) + "\n" : details.empty() ? table.text() : details);
  return 0;
}

}  // namespace rgen::cli
