// rgen profile list|show|check|diff|new.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rgen/environment.h"
#include "rgen/session.h"

namespace rgen::cli {

int profile_list(const Options& o) {
  Table table({"name", "device", "arch", ">cores", "kind"});
  Json all = Json::array();
  for (const std::string& name : shipped_profiles()) {
    const Profile p = Profile::load(name);
    const std::string kind = p.is_gpu() ? "gpu" : "cpu";
    table.add({name, p.title(), p.arch(), fmt::format("{}", p.cores()), kind});
    all.push_back({{"name", name}, {"title", p.title()}, {"arch", p.arch()}, {"cores", p.cores()}, {"kind", kind}, {"hash", p.hash()}});
  }
  print(o.json ? Json{{"rgen", version()}, {"profiles", all}}.dump(2) + "\n" : table.text());
  return 0;
}

int profile_show(const Options& o) {
  const Profile p = load_profile(o, o.arguments.front());
  print(o.json ? Json::parse(p.json()).dump(2) + "\n" : p.summary());
  return 0;
}

int profile_check(const Options& o) {
  int status = 0;
  Json all = Json::array();
  for (const std::string& name : o.arguments) {
    Json entry = {{"profile", name}};
    try {
      const Profile p = load_profile(o, name);
      entry["hash"] = p.hash();
      if (!o.json) print(fmt::format("{}: ok ({})\n", name, p.hash()));
    } catch (const Error& e) {
      entry["error"] = {{"code", to_string(e.code())}, {"message", e.what()}};
      print_error(e);
      if (status == 0) status = exit_status(e.code());
    }
    all.push_back(std::move(entry));
  }
  if (o.json) print(Json{{"rgen", version()}, {"profiles", all}}.dump(2) + "\n");
  return status;
}

int profile_diff(const Options& o) {
  const std::vector<std::string> lines = diff_profiles(load_profile(o, o.arguments[0]), load_profile(o, o.arguments[1]));
  if (o.json) {
    print(Json{{"rgen", version()}, {"differences", lines}}.dump(2) + "\n");
    return 0;
  }
  for (const std::string& line : lines) print(line + "\n");
  if (lines.empty()) print("no differences\n");
  return 0;
}

int profile_new(const Options& o) {
  // Measured now, whatever was kept: that is what "new" asks for.
  const std::string text =
      o.on_device ? device_profile_json({cuda_driver(), o.device}, !o.no_measure, nvrtc_library()) : host_profile_json({!o.no_measure, {}});
  if (o.output == ".")
    print(text);
  else
    write_file(o.output, text);
  return 0;
}

}  // namespace rgen::cli
