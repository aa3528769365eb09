// rgen-fuzz: random programs, random plans of them, compiled, run between guards and compared with the reference.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "fuzz/features.h"
#include "fuzz/pool.h"
#include "fuzz/profiles.h"
#include "fuzz/shrink.h"

namespace rgen::fuzz {

namespace {

struct Arguments {
  Options options;
  int count = 200, failures = 1, rank = 0, level = 1;
  uint64_t seed = 1;
  std::vector<std::string> profiles;
  std::vector<int> threads = {1, 2, 3};
  std::string spec;
  bool shrink = true, histogram = true;
};

/// What was covered and what failed.
class Tally {
 public:
  void add(const Outcome& o) {
    ++by_status_[o.status];
    for (const std::string& f : o.features) ++by_feature_[f];
    if (o.status == Status::unsupported) ++refusals_[o.message];
  }
  int done() const {
    int n = 0;
    for (const auto& [status, count] : by_status_) n += count;
    return n;
  }
  bool any_failed() const {
    return std::any_of(by_status_.begin(), by_status_.end(), [](const auto& s) { return failed(s.first) && s.second > 0; });
  }
  void print() const {
    std::string kind;
    for (const auto& [feature, count] : by_feature_) {
      const std::string here = feature.substr(0, feature.find(' '));
      fmt::print("{}{} {}", here == kind ? ", " : (kind.empty() ? "" : "\n") + here + ": ", feature.substr(here.size() + 1), count);
      kind = here;
    }
    std::string never;
    for (const std::string& p : known_primitives())
      if (!by_feature_.count("primitive " + p)) never += " " + p;
    fmt::print("\nprimitives never used:{}\n", never.empty() ? " none" : never);
    for (const auto& [message, count] : refusals_) fmt::print("refused {}: {}\n", count, message);
    for (const auto& [status, count] : by_status_) fmt::print("{} {}  ", to_string(status), count);
    fmt::print("\n");
  }

 private:
  std::map<Status, int> by_status_;
  std::map<std::string, int> by_feature_, refusals_;
};

std::string describe(const Setting& s) { return fmt::format("--profile {} --threads {} --rank {}", s.profile, s.threads, s.rank); }

std::string save(const Arguments& a, const Task& t) {
  const std::filesystem::path folder = a.options.save.empty() ? "." : a.options.save;
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / fmt::format("fuzz_{}.json", t.seed);
  std::ofstream(file) << spec_of(t);
  return file.string();
}

void report(const Arguments& a, const Task& task, const Outcome& outcome) {
  fmt::print("seed {}: {}: {}\n  {}\n", task.seed, to_string(outcome.status), outcome.message, describe(task.setting));
  Task last = task;
  if (a.shrink && !task.spec) {
    const Shrunk s = shrink(task, outcome, a.options);
    last = s.task;
    last.seed = task.seed;
    fmt::print("  after {} tries: {}: {}\n", s.tried, to_string(s.outcome.status), s.outcome.message);
  }
  fmt::print("{}", spec_of(last));
  if (a.shrink && !a.spec.empty())
    fmt::print("\n");
  else
    fmt::print("  repeat: rgen-fuzz --seed {} --spec {} {}\n", last.seed, save(a, last), describe(last.setting));
  std::fflush(stdout);
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw Error(ErrorCode::usage, "cannot be read", file);
  return text.str();
}

std::vector<Task> tasks_of(const Arguments& a) {
  if (!a.spec.empty()) return {{a.seed, {}, text_of(a.spec), {a.profiles.front(), a.threads.front(), a.rank}}};
  std::vector<Task> tasks;
  for (uint64_t seed = a.seed; seed < a.seed + uint64_t(a.count); ++seed)
    tasks.push_back({seed, {}, {}, draw_setting(seed, a.profiles, a.threads)});
  return tasks;
}

int run(Arguments& a) {
  if (a.profiles.empty()) a.profiles = profile_names();
  for (const std::string& p : a.profiles) profile(p);
  if (!a.options.save.empty()) std::filesystem::create_directories(a.options.save);
  a.options.optimise = "-O" + std::to_string(a.level);
  const std::vector<Task> tasks = tasks_of(a);
  Tally tally;
  std::vector<std::pair<Task, Outcome>> wrong;
  const auto start = std::chrono::steady_clock::now();
  int told = 0;
  run_tasks(tasks, a.options, [&](const Task& t, const Outcome& o) {
    tally.add(o);
    if (failed(o.status)) {
      wrong.emplace_back(t, o);
      fmt::print(stderr, "seed {}: {}: {}\n", t.seed, to_string(o.status), o.message);
    }
    if (tally.done() >= told + 250) {
      told = tally.done();
      const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      fmt::print(stderr, "{} of {} programs, {:.0f} s\n", told, tasks.size(), s);
    }
    return int(wrong.size()) < a.failures;
  });
  for (const auto& [task, outcome] : wrong) report(a, task, outcome);
  if (a.histogram) tally.print();
  return wrong.empty() ? 0 : 6;
}

}  // namespace

}  // namespace rgen::fuzz

int main(int argc, char** argv) {
  using namespace rgen;
  fuzz::Arguments a;
  a.options.jobs = int(std::max(1u, std::thread::hardware_concurrency()));
  if (const char* path = std::getenv("PATH")) a.options.search_path = path;
  CLI::App app(
      "Random programs, random plans of them, compiled, run between guards and compared with the reference.\n"
      "Exit status: 0 all right, 2 usage, 6 something failed: the seed, a simpler spec and the command that repeats it are printed.");
  app.add_option("--count", a.count, "Programs to try")->capture_default_str();
  app.add_option("--seed", a.seed, "The first program's seed; of --spec: that of its inputs")->capture_default_str();
  app.add_option("--profile", a.profiles, "Profiles to draw from (default: all that this machine executes)")->delimiter(',');
  app.add_option("--threads", a.threads, "Numbers of threads planned for, to draw from")->delimiter(',')->capture_default_str();
  app.add_option("--batch", a.options.batch, "Kernels in one compilation")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--jobs", a.options.jobs, "Processes at a time")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--compiler", a.options.compiler, "C++ compiler (default: the first of c++, g++, clang++)");
  app.add_option("--optimise", a.level, "The compiler's -O")->check(CLI::Range(0, 3))->capture_default_str();
  app.add_option("--failures", a.failures, "Stop after so many")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--save", a.options.save, "Folder for failing specs and their sources (default: specs alone, in the working directory)");
  app.add_option("--spec", a.spec, "Try this program alone, with the first of --profile and --threads")->check(CLI::ExistingFile);
  app.add_option("--rank", a.rank, "Which of the ranked plans --spec takes")->capture_default_str();
  app.add_flag("!--no-shrink", a.shrink, "Report failures as they were found");
  app.add_flag("!--no-histogram", a.histogram, "Leave out what was covered");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : 2; }
  try {
    return fuzz::run(a);
  } catch (const Error& e) {
    fmt::print(stderr, "rgen-fuzz: {}\n", e.what());
    return e.code() == ErrorCode::toolchain ? 7 : 2;
  }
}
