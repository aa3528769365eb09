// rgen gen: plan, emit, write the kernel and its manifest.
#include <fmt/format.h>

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
  if (form == "cubin" || form == "ptx")
    throw Error(ErrorCode::unsupported, "'" + form + "' needs a CUDA compiler, which this build has not; 'cpp', 'so' and 'obj' work",
                "--emit");
  return form;
}

/// Writes the kernel in the form asked for, and then its manifest: who sees the manifest sees a whole kernel.
std::vector<std::string> write_kernel(const Session& session, const Source& source, const fs::path& stem, Json& entry) {
  const std::string& form = session.options().emit;
  const bool compiled = form == "so" || form == "obj";
  const std::string extension = form == "so" ? ".so" : form == "obj" ? ".o" : source.extension;
  const fs::path kernel = stem.string() + extension, manifest = stem.string() + ".manifest.json";
  if (compiled) {
    const BuildReport report =
        build_file(source, form == "so" ? Artifact::shared_library : Artifact::object, kernel, session.build_options());
    entry["compiler"] = "cc";
    entry["compile_ms"] = report.compile_ms;
    entry["cache"] = report.cache;
  } else {
    write_file(kernel, source.text);
  }
  write_file(manifest, source.manifest);
  return {kernel.string(), manifest.string()};
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
    const std::vector<std::string> files = write_kernel(session, source, folder / stem, entry);
    entry["files"] = files;
    session.say(fmt::format("{}  {} predicted, bound by {}, {}\n", files[0], time_text(plans.front().predicted_us()), plans.front().bound(),
                            count_text(plans.front().threads(), "thread")));
  });
}

}  // namespace rgen::cli
