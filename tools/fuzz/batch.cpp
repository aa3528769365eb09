#include "fuzz/batch.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "base/error.h"
#include "fuzz/execute.h"
#include "run/files.h"
#include "run/host_compiler.h"

namespace rgen::fuzz {

namespace {

constexpr unsigned kPrepareSeconds = 120, kRunSeconds = 60;

/// Sources that are each complete, as one: what they include comes first, the rest stands in a namespace of its own.
std::string joined(const std::vector<const Case*>& cases) {
  std::set<std::string> includes;
  std::ostringstream bodies;
  for (size_t i = 0; i < cases.size(); ++i) {
    bodies << "namespace k" << i << " {\n";
    std::istringstream in(cases[i]->code.source);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("#include <") && line.find("omp.h") == std::string::npos)
        includes.insert(line);
      else
        bodies << line << '\n';
    }
    bodies << "}\n";
  }
  std::string text;
  for (const std::string& i : includes) text += i + "\n";
  return text + bodies.str();
}

/// What a child process and its parent both see.
struct Progress {
  size_t next = 0;
  char message[2000] = {};
};

std::string signal_name(int status) {
  if (!WIFSIGNALED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
  const int s = WTERMSIG(status);
  return s == SIGALRM ? "ran too long" : std::string("died of ") + strsignal(s);
}

class Batch {
 public:
  Batch(std::span<const Task> tasks, const Options& options, const Report& report, const Done& done)
      : tasks_(tasks), options_(options), report_(report), done_(done) {}

  void run() {
    compiler_.path = run::find_compiler(options_.compiler, options_.search_path, folder_.path()).path;
    for (size_t i = 0; i < tasks_.size(); ++i) prepare_one(i);
    std::map<std::string, std::vector<size_t>> by_unit;  // flags of one vector unit differ in instructions only
    for (const auto& [i, c] : cases_) by_unit[c.code.isa.substr(0, c.code.isa.find(','))].push_back(i);
    for (const auto& [unit, list] : by_unit) build_and_run(list);
  }

 private:
  const std::span<const Task> tasks_;
  const Options& options_;
  const Report& report_;
  const Done& done_;
  const run::TemporaryFolder folder_;
  run::Compiler compiler_;
  std::map<size_t, Case> cases_;
  int units_ = 0;

  void prepare_one(size_t i) {
    report_(i, "constructing");
    alarm(kPrepareSeconds);
    try {
      cases_.emplace(i, prepare(tasks_[i]));
    } catch (const Error& e) {
      const bool refused = e.code() == ErrorCode::unsupported || e.code() == ErrorCode::does_not_fit;
      done_(i, {refused ? Status::unsupported : Status::error, e.what(), {}});
    } catch (const std::exception& e) { done_(i, {Status::error, e.what(), {}}); }
    alarm(0);
  }

  void build_and_run(const std::vector<size_t>& list) {
    const std::filesystem::path so = folder_.path() / ("unit" + std::to_string(units_++) + ".so");
    std::vector<const Case*> cases;
    std::set<std::string> features;
    for (size_t i : list) {
      cases.push_back(&cases_.at(i));
      features.insert(cases.back()->code.flags.begin(), cases.back()->code.flags.end());
    }
    std::vector<std::string> flags = {options_.optimise, "-std=c++17", "-w"};
    flags.insert(flags.end(), features.begin(), features.end());
    try {
      report_(list.front(), "compiling");
      run::compile(compiler_, joined(cases), flags, run::Output::shared_library, so);
    } catch (const Error& e) {
      if (list.size() == 1) return finish(list.front(), {Status::error, e.what(), {}});
      for (size_t i : list) build_and_run({i});  // which of them is it?
      return;
    }
    run_all(list, *run::Module::open(so));
  }

  void run_all(const std::vector<size_t>& list, const run::Module& module) {
    auto* progress = static_cast<Progress*>(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (progress == MAP_FAILED) throw std::bad_alloc();
    for (size_t at = 0; at < list.size();) {
      report_(list[at], "starting");
      progress->next = at;
      const pid_t child = fork();
      if (child == 0) {
        run_from(list, at, module, *progress);
        _exit(0);
      }
      int status = 0;
      while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
      for (; at < progress->next; ++at) finish(list[at], {Status::ok, {}, {}});
      if (at == list.size()) break;
      const std::string wrong = progress->message;
      finish(list[at], wrong.empty() ? Outcome{Status::crash, "the kernel " + signal_name(status), {}} : Outcome{Status::wrong, wrong, {}});
      progress->message[0] = 0;
      ++at;
    }
    munmap(progress, sizeof(Progress));
  }

  /// Runs kernels until one is wrong.
  void run_from(const std::vector<size_t>& list, size_t at, const run::Module& module, Progress& progress) {
    for (; at < list.size(); ++at) {
      alarm(kRunSeconds);
      std::string wrong;
      try {
        wrong = execute(cases_.at(list[at]), module, tasks_[list[at]].seed);
      } catch (const std::exception& e) { wrong = e.what(); }
      if (!wrong.empty()) {
        std::strncpy(progress.message, wrong.c_str(), sizeof progress.message - 1);
        return;
      }
      progress.next = at + 1;
    }
  }

  void finish(size_t i, Outcome&& o) {
    o.features = cases_.at(i).features;
    if (failed(o.status) && !options_.save.empty())
      run::write_atomically(options_.save / (cases_.at(i).program.name + ".cpp"), cases_.at(i).code.source);
    done_(i, std::move(o));
  }
};

}  // namespace

void run_batch(std::span<const Task> tasks, const Options& options, const Report& report, const Done& done) {
  Batch(tasks, options, report, done).run();
}

}  // namespace rgen::fuzz
