// The command line: verbs, options, help, and the one place where errors become exit statuses.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "rgen/options.h"
#include "rgen/report.h"

namespace rgen::cli {

const std::vector<std::string>& verbs() {
  static const std::vector<std::string> all = {"gen", "run", "predict", "explain", "bench", "profile", "cache", "ops"};
  return all;
}

namespace {

using Verb = int (*)(const Options&);

CLI::App* verb(CLI::App& parent, const std::string& name, const std::string& about, const std::string& examples, Verb& chosen,
               Verb action) {
  CLI::App* app = parent.add_subcommand(name, about);
  if (!examples.empty()) app->footer("Examples:\n" + examples);
  if (action) app->callback([&chosen, action] { chosen = action; });
  return app;
}

void add_json(CLI::App* app, Options& o) { app->add_flag("--json", o.json, "Print one JSON document"); }
void add_no_measure(CLI::App* app, Options& o) {
  app->add_flag("--no-measure", o.no_measure, "For 'host': detected values and the nearest shipped profile's figures");
}

/// What gen, run, predict, explain and bench have in common.
void add_common(CLI::App* app, Options& o) {
  app->add_option("--hw", o.hardware, "Hardware profile: a file, a shipped name (rgen profile list), or 'host'")
      ->required()
      ->type_name("PROFILE");
  app->add_option("SPEC", o.specs, "A file, FILE#NAME, '-' for standard input, or 'C[m,n] = sum(k | A[m,k]*B[k,n])'")->required();
  app->add_option("-D", o.extents, "Extents of a short form's axes: m=128,n=128")
      ->delimiter(',')
      ->take_all()
      ->type_name("NAME=N")
      ->expected(1);
  app->add_option("--threads", o.threads, "Threads planned for (default: the profile's cores)")->check(CLI::Range(1, 4096))->type_name("N");
  app->add_option("--top-k", o.top_k, "Plans considered beside the best")->check(CLI::Range(1, 1000))->type_name("N");
  add_no_measure(app, o);
  add_json(app, o);
}

void add_compiler(CLI::App* app, Options& o) {
  app->add_option("--compiler", o.compiler, "C++ compiler (default: $RGEN_CXX, else the first of c++, g++, clang++)")->type_name("NAME");
  app->add_flag("--no-cache", o.no_cache, "Neither look for compiled kernels nor keep them");
}

void add_measuring(CLI::App* app, Options& o) {
  CLI::Option* cc = app->add_flag("--cc", o.cc, "Compile with the system's C++ compiler (default)");
  app->add_flag("--jit", o.jit, "Compile in memory with LLVM")->excludes(cc);
  add_compiler(app, o);
  app->add_option("--seed", o.seed, "Seed of the inputs")->type_name("N");
  app->add_option("--device", o.device, "Of a GPU's profile: the device's number (default: 0)")->check(CLI::Range(0, 1023))->type_name("N");
  app->add_option("--seconds", o.seconds, "How long each kernel is timed")->check(CLI::Range(0.001, 600.0))->type_name("S");
}

void add_work_verbs(CLI::App& app, Options& o, Verb& chosen) {
  CLI::App* g = verb(app, "gen", "Plan, emit, write the kernel and its manifest",
                     "  rgen gen --hw host matmul.json -o out\n"
                     "  rgen gen --hw host workloads.json#mm_512 --emit so -o out\n"
                     "  rgen gen --hw a100 workloads.json#mm_512 --emit cubin -o out\n"
                     "  rgen gen --hw host 'C[m,n] = sum(k | A[m,k]*B[k,n])' -D m=128,n=128,k=128",
                     chosen, gen);
  add_common(g, o);
  g->add_option("-o,--output", o.output, "Folder of the files (default: .); it is created")->type_name("DIR");
  g->add_option("--emit", o.emit, "cpp, so, obj, cuda, llvm, cubin or ptx (default: the source for the profile's kind)")->type_name("FORM");
  add_compiler(g, o);

  CLI::App* r = verb(app, "run", "Compile, verify against the reference, time",
                     "  rgen run --hw host workloads.json#mm_512\n  rgen run --hw host conv.json --threads 1 --json\n  rgen run --hw h100 "
                     "conv.json --device 1",
                     chosen, run);
  add_common(r, o);
  add_measuring(r, o);

  CLI::App* p = verb(app, "predict", "The model's time, on any device: nothing is compiled or run",
                     "  rgen predict --hw a100 workloads.json\n  rgen predict --hw host matmul.json --json", chosen, predict);
  add_common(p, o);

  CLI::App* e = verb(app, "explain", "Why this plan: the time per memory level, and which rivals lost",
                     "  rgen explain --hw host matmul.json\n  rgen explain --hw host workloads.json#mm_512 --top-k 10 --html plan.html",
                     chosen, explain);
  add_common(e, o);
  e->add_option("--html", o.html, "Also write a self-contained page")->type_name("FILE");

  CLI::App* b = verb(app, "bench", "A table of measured and predicted times",
                     "  rgen bench --hw host workloads.json\n  rgen bench --hw host a.json b.json --threads 1", chosen, bench);
  add_common(b, o);
  add_measuring(b, o);
}

void add_profile_verbs(CLI::App& app, Options& o, Verb& chosen) {
  CLI::App* profile = verb(app, "profile", "Hardware profiles",
                           "  rgen profile list\n  rgen profile show a100\n  rgen profile diff a100 host\n  rgen profile new -o mine.json",
                           chosen, nullptr);
  profile->require_subcommand(1);
  add_json(verb(*profile, "list", "The shipped profiles", "  rgen profile list", chosen, profile_list), o);
  CLI::App* show = verb(*profile, "show", "One profile as a table, or as JSON", "  rgen profile show a100\n  rgen profile show host --json",
                        chosen, profile_show);
  show->add_option("PROFILE", o.arguments, "A file, a shipped name, or 'host'")->required()->expected(1);
  CLI::App* check =
      verb(*profile, "check", "Whether profiles are complete and consistent", "  rgen profile check mine.json", chosen, profile_check);
  check->add_option("PROFILE", o.arguments, "Files or shipped names")->required();
  CLI::App* diff =
      verb(*profile, "diff", "The figures in which two profiles differ", "  rgen profile diff a100 h100", chosen, profile_diff);
  diff->add_option("PROFILE", o.arguments, "Two files or names")->required()->expected(2);
  CLI::App* fresh = verb(*profile, "new", "Measure this machine (as rgen-profile does)",
                         "  rgen profile new -o mine.json\n  rgen profile new --device 0 -o gpu.json", chosen, profile_new);
  fresh->add_option("-o,--output", o.output, "File (default: standard output)")->type_name("FILE");
  fresh->add_option("--device", o.device, "Measure this GPU instead (its number)")
      ->check(CLI::Range(0, 1023))
      ->type_name("N")
      ->each([&o](const std::string&) { o.on_device = true; });
  for (CLI::App* a : {show, check, diff}) add_json(a, o);
  for (CLI::App* a : {show, check, diff, fresh}) add_no_measure(a, o);
}

void add_other_verbs(CLI::App& app, Options& o, Verb& chosen) {
  CLI::App* cache = verb(app, "cache", "The compiled kernels that are kept", "  rgen cache info\n  rgen cache clear", chosen, nullptr);
  cache->require_subcommand(1);
  add_json(verb(*cache, "info", "Where they are, how many, how large", "  rgen cache info --json", chosen, cache_show), o);
  add_json(verb(*cache, "clear", "Remove them", "  rgen cache clear", chosen, cache_empty), o);
  CLI::App* list = verb(app, "ops", "The operator presets and their parameters", "  rgen ops\n  rgen ops conv2d", chosen, ops);
  list->add_option("OP", o.arguments, "Details of these");
  add_json(list, o);
}

/// `rgen --hw X SPEC` is `rgen gen --hw X SPEC`.
std::vector<std::string> with_verb(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  const auto is = [](const std::string& a, std::initializer_list<const char*> all) {
    return std::find(all.begin(), all.end(), a) != all.end();
  };
  const bool names_verb = !args.empty() && std::find(verbs().begin(), verbs().end(), args[0]) != verbs().end();
  if (!args.empty() && !names_verb && !is(args[0], {"-h", "--help", "--help-all", "--version"})) args.insert(args.begin(), "gen");
  return args;
}

int failed(const Error& error, const Options& o) {
  print_error(error);
  if (o.json) {
    const nlohmann::ordered_json document = {{"rgen", version()},
                                             {"results", nlohmann::ordered_json::array()},
                                             {"error", {{"code", to_string(error.code())}, {"message", error.what()}}}};
    print(document.dump(2) + "\n");
  }
  return exit_status(error.code());
}

int main(int argc, char** argv) {
  CLI::App app("rgen: deep-learning kernels from a tensor expression and a hardware profile.\n'rgen --hw PROFILE SPEC' is 'rgen gen'.",
               "rgen");
  Options options;
  Verb chosen = nullptr;
  app.require_subcommand(1);
  app.set_version_flag("--version", "rgen " + version());
  app.footer(
      "Exit status: 0 done, 2 usage, 3 invalid spec or profile, 4 unsupported, 5 does not fit this hardware,\n"
      "6 result failed verification, 7 toolchain or device missing.\n"
      "'rgen VERB --help' has examples.");
  add_work_verbs(app, options, chosen);
  add_profile_verbs(app, options, chosen);
  add_other_verbs(app, options, chosen);
  try {
    std::vector<std::string> args = with_verb(argc, argv);
    std::reverse(args.begin(), args.end());  // as CLI11 takes them
    app.parse(args);
    const int status = chosen(options);
    flush_output();
    return status;
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : exit_status(ErrorCode::usage); } catch (const Error& e) {
    return failed(e, options);
  } catch (const std::bad_alloc&) { return failed(Error(ErrorCode::internal, "out of memory"), options); } catch (const std::exception& e) {
    return failed(Error(ErrorCode::internal, e.what()), options);
  }
}

}  // namespace

}  // namespace rgen::cli

int main(int argc, char** argv) { return rgen::cli::main(argc, argv); }
