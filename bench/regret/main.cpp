// Regret of the model: how much slower is the plan that it chooses than the best of many feasible ones, all measured?
//
// The space: every register tile that fits the registers, with every order of loops, chunk, cache tile, placement and split of threads
// that construction knows, as far as `--breadth` reaches (1 = what construction itself looks at). The sample: the first plans of the
// ranking, and the rest drawn uniformly without replacement from all others. The fastest are measured again beside the chosen one, and
// count by the median of the ratios to it. Nothing measured here reaches the planner.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "driver/compile.h"
#include "driver/cuda.h"
#include "driver/session.h"
#include "ir/ir.h"

using namespace rgen;
using json = nlohmann::ordered_json;

namespace {

struct Options {
  std::string file, hw = "host", only, save, times, prepare;
  int threads = 1, plans = 60, first = 10, breadth = 16, rounds = 3, finalists = 8, jobs = 2;
  uint64_t seed = 1;
  double seconds = 0.02, within = std::numeric_limits<double>::infinity();
  bool all = false, as_json = false;
};

/// A measured plan.
struct Sample {
  size_t rank;
  double predicted_us, measured_us;
  std::string plan;
};

std::filesystem::path cache_folder() {
  if (const char* home = std::getenv("XDG_CACHE_HOME")) return std::filesystem::path(home) / "rgen";
  if (const char* home = std::getenv("HOME")) return std::filesystem::path(home) / ".cache" / "rgen";
  return {};
}

std::vector<size_t> draw(size_t space, const Options& o) {
  std::vector<size_t> ranks(space);
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  const size_t first = std::min(space, size_t(o.first)), count = std::min(space, size_t(o.plans));
  std::mt19937_64 random(o.seed);
  for (size_t i = first; i < count; ++i) std::swap(ranks[i], ranks[i + size_t(random() % (space - i))]);
  ranks.resize(count);
  return ranks;
}

/// Where the plan differs from others, in a line.
std::string summary(const driver::Planned& p) {
  const std::string& text = p.candidate.explanation;
  const size_t at = std::min(text.find("register tile"), text.find("block tile"));
  std::string line = at == std::string::npos ? text : text.substr(at);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

/// All that a wider look finds, and the plan that users get, which a wider look must not change but may.
struct Plans {
  std::vector<driver::Planned> all;
  driver::Planned chosen;
};
Plans look(const std::shared_ptr<const ir::TensorProgram>& program, const std::shared_ptr<const hw::Profile>& profile, const Options& o) {
  const bool gpu = profile->kind == hw::Profile::Kind::gpu;
  const driver::PlanOptions best{gpu ? 0 : o.threads, 1, gpu ? "cuda" : "cpp"};
  driver::PlanOptions wide = best;
  wide.top_k = 1000000;
  wide.breadth = o.breadth;
  return {driver::plan(program, profile, wide), driver::plan(program, profile, best).front()};
}

driver::BuildOptions build_options() {
  const auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  return {"", variable("PATH"), cache_folder(), variable("RGEN_NVRTC")};
}

/// Calls `work(i)` for every i < n from `jobs` threads.
template <class Work>
void in_parallel(size_t n, int jobs, const Work& work) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> workers;
  for (int j = 0; j < jobs; ++j)
    workers.emplace_back([&] {
      for (size_t i; (i = next++) < n;) work(i);
    });
  for (std::thread& w : workers) w.join();
}

/// The chosen plan, then a sample of all others. Pre: they are of one look.
std::vector<const driver::Planned*> sample(const Plans& plans, const Options& o) {
  std::vector<const driver::Planned*> drawn{&plans.chosen};
  const double most = o.within * plans.chosen.candidate.estimate.us;
  size_t feasible = 0;  // ranked: those that are not, and those that are slower than wanted, come last
  while (feasible < plans.all.size() && plans.all[feasible].candidate.estimate.us <= most &&
         std::isfinite(plans.all[feasible].candidate.estimate.us))
    ++feasible;
  for (size_t r : draw(feasible, o))
    if (plans.all[r].candidate.plan_json != plans.chosen.candidate.plan_json) drawn.push_back(&plans.all[r]);
  return drawn;
}

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + std::ptrdiff_t(of.size() / 2), of.end());
  return of[of.size() / 2];
}

std::vector<Sample> measure(const std::shared_ptr<const ir::TensorProgram>& program, const std::shared_ptr<const hw::Profile>& profile,
                            const Options& o, size_t& space) {
  const Plans plans = look(program, profile, o);
  space = plans.all.size();
  const std::vector<const driver::Planned*> drawn = sample(plans, o);

  for (size_t i = 0; !o.save.empty() && i < drawn.size(); ++i) {
    std::filesystem::create_directories(o.save);
    std::ofstream(std::filesystem::path(o.save) / fmt::format("{}.{}.cpp", program->name, i)) << driver::emit(*drawn[i]).code.source;
  }
  std::vector<std::unique_ptr<driver::Kernel>> kernels(drawn.size());
  std::exception_ptr failed;  // the chosen plan, without which there is no regret
  in_parallel(drawn.size(), o.jobs, [&](size_t i) {
    try {
      kernels[i] = std::make_unique<driver::Kernel>(driver::compile(*drawn[i], build_options()));
    } catch (const Error& e) {
      if (i == 0)
        failed = std::current_exception();
      else
        std::cerr << fmt::format("{}: plan left out: {}\n", program->name, e.what());
    }
  });
  if (failed) std::rethrow_exception(failed);

  const auto inputs = run::make_inputs(*program, o.seed);
  const auto outputs = run::make_outputs(*program);
  std::vector<void*> in;
  for (const run::Buffer& b : inputs) in.push_back(b.data());
  const run::ThreadPool pool(o.threads);
  std::vector<std::vector<double>> times(drawn.size());
  const auto rounds = [&](const std::vector<size_t>& some, int count) {
    for (int round = 0; round < count; ++round)
      for (size_t i : some) {
        if (!kernels[i]) continue;
        const driver::Kernel& k = *kernels[i];
        const auto packed = driver::pack(k, in);
        const run::Buffer workspace(size_t(k.workspace_bytes));
        std::vector<void*> args = in;
        for (size_t a = 0; a < in.size(); ++a)
          if (k.prepack[a]) args[a] = packed[a].data();
        for (const run::Buffer& b : outputs) args.push_back(b.data());
        void* scratch = k.workspace_bytes > 0 ? workspace.data() : nullptr;
        times[i].push_back(run::time_calls([&] { k.entry(args.data(), nullptr, scratch, pool.handle()); }, o.seconds).median_us);
      }
  };
  std::vector<size_t> order(drawn.size());
  std::iota(order.begin(), order.end(), size_t{0});
  rounds(order, o.rounds);
  std::vector<double> us(drawn.size(), std::numeric_limits<double>::infinity());  // the machine's other guests only ever add time
  for (size_t i = 0; i < us.size(); ++i)
    if (kernels[i]) us[i] = std::ranges::min(times[i]);
  // of sixty plans that are as good, the luckiest looks better: it, its nearest and the chosen one have more turns
  std::stable_sort(order.begin() + 1, order.end(), [&](size_t a, size_t b) { return us[a] < us[b]; });
  order.resize(std::min(order.size(), size_t(1 + o.finalists)));
  const double before = us[0];
  for (auto& t : times) t.clear();
  rounds(order, 3 * o.rounds);
  // clock and guests change from minute to minute: what counts is the ratio to the chosen plan within a round
  us[0] = std::ranges::min(times[0]);
  double best = us[0];
  for (size_t i : order) {
    if (!kernels[i]) continue;
    std::vector<double> ratios;
    for (size_t r = 0; r < times[i].size(); ++r) ratios.push_back(times[i][r] / times[0][r]);
    us[i] = us[0] * median(ratios);
    best = std::min(best, us[i]);
  }
  for (size_t i = 1; i < us.size(); ++i)  // the others were not the fastest
    if (times[i].empty()) us[i] = std::max(best, us[i] * us[0] / before);

  std::vector<Sample> samples;
  for (size_t i = 0; i < drawn.size(); ++i)
    if (kernels[i]) samples.push_back({i, drawn[i]->candidate.estimate.us, us[i], summary(*drawn[i])});
  return samples;
}

/// The sample for a GPU that is elsewhere: NAME.json with the plans' predictions and manifests, NAME.RANK.cubin beside it.
void prepare(const ir::SpecEntry& entry, const std::shared_ptr<const ir::TensorProgram>& program,
             const std::shared_ptr<const hw::Profile>& profile, const Options& o) {
  const std::filesystem::path folder = o.prepare;
  std::filesystem::create_directories(folder);
  const Plans plans = look(program, profile, o);
  const std::vector<const driver::Planned*> drawn = sample(plans, o);
  std::vector<json> rows(drawn.size());
  in_parallel(drawn.size(), o.jobs, [&](size_t i) {
    const driver::Planned& p = *drawn[i];
    const std::string image = fmt::format("{}.{}.cubin", entry.name, i);
    try {
      const driver::Emission e = driver::emit(p);
      const driver::CudaImage code = driver::compile_cuda(e.code, emit::cuda_arch(*profile), run::DeviceImage::cubin, build_options());
      std::ofstream(folder / image, std::ios::binary) << code.image;
      rows[i] = {{"rank", i},
                 {"predicted_us", p.candidate.estimate.us},
                 {"plan", summary(p)},
                 {"image", image},
                 {"manifest", json::parse(e.manifest)}};
    } catch (const Error& e) { std::cerr << fmt::format("{}: plan {} left out: {}\n", program->name, i, e.what()); }
  });
  json document{{"name", entry.name}, {"profile", profile->name}, {"space", plans.all.size()}, {"plans", json::array()}};
  for (json& r : rows)
    if (!r.is_null()) document["plans"].push_back(std::move(r));
  std::ofstream(folder / (entry.name + ".json")) << document.dump(1) << "\n";
}

/// What tells a plan from others, whatever the model says of it.
std::string key(const std::string& plan) {
  static const std::regex estimate("time: .*? us; bound by [A-Za-z0-9]+");
  return std::regex_replace(plan, estimate, "");
}

/// The plans that an earlier run measured, in the order in which the model has them now, the chosen one first.
std::vector<Sample> predict_again(const std::shared_ptr<const ir::TensorProgram>& program,
                                  const std::shared_ptr<const hw::Profile>& profile, const Options& o, const json& earlier, size_t& space) {
  std::map<std::string, double> measured;
  for (const json& p : earlier.at("plans")) {
    const auto [at, fresh] = measured.try_emplace(key(p.at("plan")), p.at("measured_us"));
    at->second = std::min(at->second, p.at("measured_us").get<double>());
  }
  const Plans plans = look(program, profile, o);
  space = plans.all.size();
  std::vector<Sample> samples;
  for (size_t i = 0; i < plans.all.size(); ++i) {
    std::string plan = summary(plans.all[i]);
    const auto at = measured.find(key(plan));
    if (at == measured.end()) continue;
    samples.push_back({i, plans.all[i].candidate.estimate.us, at->second, std::move(plan)});
    measured.erase(at);
  }
  const std::string chosen = key(summary(plans.chosen));
  const auto at = std::find_if(samples.begin(), samples.end(), [&](const Sample& s) { return key(s.plan) == chosen; });
  if (at != samples.end())
    std::rotate(samples.begin(), at, at + 1);
  else
    std::cerr << program->name << ": the plan chosen now was not measured; the first that was counts\n";
  return samples;
}

/// Spearman's rank correlation of predicted and measured times.
double rank_correlation(const std::vector<Sample>& s) {
  const auto ranks = [&](auto key) {
    std::vector<size_t> order(s.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(s[a]) < key(s[b]); });
    std::vector<double> r(s.size());
    for (size_t i = 0; i < order.size(); ++i) r[order[i]] = double(i);
    return r;
  };
  const auto a = ranks([](const Sample&x) { return x.predicted_us; }), b = ranks([](const Sample&x) { return x.measured_us; });
  double d = 0;
  for (size_t i = 0; i < s.size(); ++i) d += (a[i] - b[i]) * (a[i] - b[i]);
  const double n = double(s.size());
  return n < 2 ? 1 : 1 - 6 * d / (n * (n * n - 1));
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{"The chosen plan against the best of many measured ones, for every workload of a list."};
  Options o;
  app.add_option("FILE", o.file, "Workloads (a spec file)")->required()->check(CLI::ExistingFile);
  app.add_option("--hw", o.hw, "Profile")->capture_default_str();
  app.add_option("--only", o.only, "Workloads whose name has this text");
  app.add_option("--threads", o.threads, "Threads planned for and used")->capture_default_str();
  app.add_option("--plans", o.plans, "Plans measured a workload")->capture_default_str();
  app.add_option("--first", o.first, "... of which so many are the first of the ranking")->capture_default_str();
  app.add_option("--within", o.within, "... and the rest of those predicted within so many times the chosen plan's time (default: all)");
  app.add_option("--breadth", o.breadth, "How much wider than construction the space is")->capture_default_str();
  app.add_option("--rounds", o.rounds, "Times each plan is measured, in turn; the fastest three times as often again")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--finalists", o.finalists, "So many of the fastest, and the chosen one, have three times as many rounds more")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "Length of one measurement")->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of the sample and the inputs")->capture_default_str();
  app.add_option("--save", o.save, "Folder for the sources of the measured plans, NAME.RANK.cpp");
  app.add_option("--prepare", o.prepare, "Of a GPU's profile: folder for the plans' cubins and manifests; nothing is measured here");
  app.add_option("--times", o.times, "Of an earlier run (--json), whose plans are ranked again: nothing is measured")
      ->check(CLI::ExistingFile);
  app.add_flag("--all", o.all, "Show every measured plan");
  app.add_flag("--json", o.as_json, "One JSON document");
  CLI11_PARSE(app, argc, argv);

  std::ostringstream text;
  text << std::ifstream(o.file).rdbuf();
  hw::HostOptions host;
  host.cache_dir = cache_folder();
  const auto profile = std::make_shared<const hw::Profile>(hw::load_profile(o.hw, host));
  json results = json::array(), earlier = json::object();
  if (!o.times.empty()) {
    const json document = json::parse(std::ifstream(o.times));
    for (const json& r : document.at("results")) earlier[r.at("name").get<std::string>()] = r;
  }
  std::vector<double> regrets, top5;
  if (!o.as_json && o.prepare.empty())
    fmt::print("{:36} {:>6} {:>5} {:>10} {:>10} {:>7} {:>7} {:>6}\n", "workload", "space", "plans", "chosen us", "best us", "regret",
               "top 5", "rho");
  for (const ir::SpecEntry& entry : ir::parse_specs(text.str(), o.file)) {
    if (entry.name.find(o.only) == std::string::npos) continue;
    size_t space = 0;
    const auto program = std::make_shared<const ir::TensorProgram>(entry.build());
    if (!o.prepare.empty()) {
      prepare(entry, program, profile, o);
      continue;
    }
    auto samples = earlier.contains(entry.name) ? predict_again(program, profile, o, earlier[entry.name], space)
                   : o.times.empty()            ? measure(program, profile, o, space)
                                                : std::vector<Sample>{};
    if (samples.empty()) continue;
    const auto faster = [](const Sample& a, const Sample& b) { return a.measured_us < b.measured_us; };
    const Sample best = *std::min_element(samples.begin(), samples.end(), faster), chosen = samples.front();
    const double of_first =
        std::min_element(samples.begin(), samples.begin() + std::min<std::ptrdiff_t>(5, std::ssize(samples)), faster)->measured_us;
    const double rho = rank_correlation(samples);
    regrets.push_back(chosen.measured_us / best.measured_us), top5.push_back(of_first / best.measured_us);
    if (o.all) std::sort(samples.begin(), samples.end(), faster);
    if (!o.as_json) {
      fmt::print("{:36} {:6} {:5} {:10.4g} {:10.4g} {:7.3f} {:7.3f} {:6.2f}\n", entry.name, space, samples.size(), chosen.measured_us,
                 best.measured_us, regrets.back(), top5.back(), rho);
      if (regrets.back() > 1.1) fmt::print("  chosen: {}\n  best:   {}\n", chosen.plan, best.plan);
      if (o.all)
        for (const Sample& s : samples)
          fmt::print("  {:4} predicted {:10.4g} measured {:10.4g} us  {}\n", s.rank, s.predicted_us, s.measured_us, s.plan);
      std::fflush(stdout);
    } else
      std::cerr << fmt::format("{} {:.3f}\n", entry.name, regrets.back());
    json row{{"name", entry.name},       {"space", space},      {"chosen_us", chosen.measured_us}, {"best_us", best.measured_us},
             {"regret", regrets.back()}, {"top5", top5.back()}, {"rank_correlation", rho},         {"chosen_plan", chosen.plan},
             {"best_plan", best.plan}};
    for (const Sample& s : samples)
      row["plans"].push_back({{"rank", s.rank}, {"predicted_us", s.predicted_us}, {"measured_us", s.measured_us}, {"plan", s.plan}});
    results.push_back(std::move(row));
  }
  if (!o.prepare.empty()) return 0;
  const auto share = [](const std::vector<double>& v, double limit) {
    return v.empty() ? 0.0 : 100.0 * double(std::count_if(v.begin(), v.end(), [&](double x) { return x <= limit; })) / double(v.size());
  };
  const json document{{"profile", profile->name},
                      {"threads", o.threads},
                      {"seed", o.seed},
                      {"breadth", o.breadth},
                      {"within_10_percent", share(regrets, 1.1)},
                      {"top5_within_3_percent", share(top5, 1.03)},
                      {"results", results}};
  if (o.as_json)
    fmt::print("{}\n", document.dump(1));
  else
    fmt::print("chosen within 10 % of the best: {:.0f} % of workloads; best of the first five within 3 %: {:.0f} %\n", share(regrets, 1.1),
               share(top5, 1.03));
} catch (const Error& e) {
  std::cerr << e.what() << "\n";
  return rgen::exit_status(e.code());
} catch (const json::exception& e) {
  std::cerr << "--times takes what an earlier run printed with --json, plans and all: " << e.what() << "\n";
  return rgen::exit_status(ErrorCode::invalid_spec);
}
