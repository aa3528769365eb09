// rgen gen: plan, emit, write the kernel and its manifest.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "rgen/session.h"

namespace rgen::cli {

namespace fs = std::filesystem;

namespace {

/// Names come from specs: they must not leave the output folder.
std::string file_stem(const std::string& name) {
  std::string stem = name.empty() ? "kernel" : name;
  for (char& c : stem)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.')) c = '_';
  if (stem[0] == '.') stem[0] = '_';
  return stem;
}

fs::path output_folder(const std::string& folder) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec || !fs::is_directory(folder))
    throw Error(ErrorCode::usage, "cannot make the output folder: " + (ec ? ec.message() : "it is a file"), folder);
  return folder;
}

const std::vector<std::string>& known_forms() {
  static const std::vector<std::string> forms = {"cpp", "cuda", "llvm", "so", "obj", "cubin", "ptx"};
  return forms;
}

/// The backend that a form is made with; "" = that of the profile.
std::string backend_of(const std::string& form) {
  if (std::find(known_forms().begin(), known_forms().end(), form) == known_forms().end() && !form.empty()) {
    const std::string hint = nearest(form, known_forms());
    throw Error(ErrorCode::usage, "no form '" + form + "'" + (hint.empty() ? "" : " (did you mean '" + hint + "'?)"), "--emit");
  }
  if (form == "so" || form == "obj") return "cpp";
  if (form == "cubin" || form == "ptx") return "cuda";
  return form;
}

/// What a form is compiled to, and its file's extension; a form without is the source.
struct Compiled {
  std::string_view form, extension;
  Artifact artifact;
};
constexpr Compiled compiled_forms[] = {{"so", ".so", Artifact::shared_library},
                                       {"obj", ".o", Artifact::object},
                                       {"cubin", ".cubin", Artifact::cubin},
                                       {"ptx", ".ptx", Artifact::ptx}};

struct Written {
  std::vector<std::string> files;
  std::vector<KernelResources> kernels;
};
/// Writes the kernel in the form asked for, and then its manifest: who sees the manifest sees a whole kernel.
Written write_kernel(const Session& session, const Source& source, const fs::path& stem, Json& entry) {
  const auto* const end = std::end(compiled_forms);
  const auto* const compiled =
      std::find_if(std::begin(compiled_forms), end, [&](const Compiled& c) { return c.form == session.options().emit; });
  const fs::path kernel = stem.string() + (compiled != end ? std::string(compiled->extension) : source.extension);
  const fs::path manifest = stem.string() + ".manifest.json";
  BuildReport report;
  if (compiled != end) {
    report = build_file(source, compiled->artifact, kernel, session.build_options());
    describe(report, entry);
  } else {
    write_file(kernel, source.text);
  }
  write_file(manifest, source.manifest);
  return {{kernel.string(), manifest.string()}, report.kernels};
}

/// "128 registers, 0 B spilled, 16.0 KiB shared, 2 blocks an SM" of each kernel.
std::string resources_text(const std::vector<KernelResources>& kernels) {
  std::string s;
  for (const KernelResources& k : kernels)
    s += fmt::format("  {}  {} registers, {} spilled, {} shared, {} an SM\n", k.symbol, k.registers, bytes_text(k.spill_bytes),
                     bytes_text(double(k.shared_bytes)), count_text(k.blocks_per_sm, "block"));
  return s;
}

/// The plans after the best, where --top-k asked for them.
void describe_rivals(const std::vector<Plan>& plans, Json& entry) {
  for (size_t i = 1; i < plans.size(); ++i)
    entry["rivals"].push_back(
        {{"predicted_us", plans[i].predicted_us()}, {"bound", plans[i].bound()}, {"plan", Json::parse(plans[i].json())}});
}

}  // namespace

int gen(const Options& o) {
  const std::string target = backend_of(o.emit);
  Session session(o);
  const fs::path folder = output_folder(o.output);
  std::set<std::string> written;
  return session.for_each([&](const Item& item, Json& entry) {
    PlanOptions options = session.plan_options();
    options.target = target;
    const std::vector<Plan> plans = plan(item.program, session.profile(), options);
    describe(plans.front(), item.parse_ms, entry);
    describe_rivals(plans, entry);
    const Source source = plans.front().emit();
    entry["isa"] = source.isa;
    entry["emit_ms"] = source.emit_ms;
    const std::string stem = file_stem(item.program.name());
    if (!written.insert(stem).second)
      throw Error(ErrorCode::usage, "another spec of this call has written files of this name; use another folder", item.program.name());
    const Written kernel = write_kernel(session, source, folder / stem, entry);
    entry["files"] = kernel.files;
    session.say(fmt::format("{}  {} predicted, bound by {}, {}\n", kernel.files[0], time_text(plans.front().predicted_us()),
                            plans.front().bound(), count_text(plans.front().threads(), session.profile().is_gpu() ? "SM" : "thread")) +
                resources_text(kernel.kernels));
  });
}

}  // namespace rgen::cli
