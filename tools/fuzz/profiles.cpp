#include "fuzz/profiles.h"

#include <algorithm>

#include "base/error.h"

namespace rgen::fuzz {

namespace {

/// Instructions beside the vector ones: the profile is still one of its vector width without them. AMX is emulated where it is missing.
bool optional_feature(const std::string& f) { return f == "avx512fp16" || f == "avx512bf16" || f == "avx512vnni"; }

void keep_executable(hw::Profile& p) {
  const std::vector<std::string> missing = hw::missing_isa(p);
  const auto lost = [&](const std::string& f) { return std::find(missing.begin(), missing.end(), f) != missing.end(); };
  std::erase_if(p.isa, [&](const std::string& f) { return optional_feature(f) && lost(f); });
  std::erase_if(p.atoms, [&](const hw::Atom& a) {
    return (a.name == "vdpbf16ps" && !p.has("avx512bf16")) || (a.name == "vpdpbusd" && !p.has("avx512vnni") && !p.has("avxvnni"));
  });
}

/// 128-bit vectors in portable C++, whatever the machine.
hw::Profile portable() {
  hw::Profile p = hw::load_profile("neoverse_n1");
  p.title = "128-bit vectors in portable C++";
  p.arch = "other";
  p.isa.clear();
  std::erase_if(p.atoms, [](const hw::Atom& a) { return a.name != "fma"; });
  return p;
}

hw::Profile base(const std::string& name) {
  hw::Profile p = name == "portable" ? portable() : hw::load_profile(name);
  p.name = name;
  if (p.kind == hw::Profile::Kind::cpu) keep_executable(p);
  return p;
}

}  // namespace

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  std::vector<std::string> all = hw::shipped_profiles();
  all.emplace_back("portable");
  for (const std::string& name : all) {
    const hw::Profile p = base(name);
    if (p.kind != hw::Profile::Kind::cpu) continue;
    const std::vector<std::string> missing = hw::missing_isa(p);
    if (std::all_of(missing.begin(), missing.end(), [](const std::string& f) { return f.starts_with("amx"); }))
      names.insert(names.end(), {name, name + "/small"});
  }
  return names;
}

hw::Profile profile(const std::string& name) {
  const std::vector<std::string> known = profile_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    throw Error(ErrorCode::usage,
                "no profile '" + name + "' that this machine executes" + did_you_mean(name, known) + "; there are " + list);
  }
  const bool small = name.ends_with("/small");
  hw::Profile p = base(small ? name.substr(0, name.size() - 6) : name);
  if (small) {
    for (size_t l = 0; l + 1 < p.levels.size(); ++l) p.levels[l].capacity_bytes = int64_t{4096} << (2 * l);
    p.fork_join_us = p.fork_join_us / 64;  // so that little work is worth a thread
    p.name = name;
  }
  p.hash = "fuzz:" + name;
  return p;
}

}  // namespace rgen::fuzz
