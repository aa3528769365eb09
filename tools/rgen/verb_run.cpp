// rgen run and rgen bench: compile, verify against the reference, time.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "rgen/session.h"

namespace rgen::cli {

namespace {

/// A plan's kernel, verified and timed.
struct Measured {
  Plan plan;
  Source source;
  Kernel kernel;
  Verification verification;
  Timing timing;
};

Measured measure(const Session& session, const Plan& plan, const rgen_threads* threads) {
  const Options& o = session.options();
  Measured m{plan, plan.emit(), Kernel::build(plan, session.build_options()), {}, {}};
  m.verification = m.kernel.verify(o.seed, threads);
  if (m.verification.ok) m.timing = m.kernel.time(o.seconds, o.seed, threads);
  return m;
}

/// Pools of threads by their count: specs of one call mostly share one.
class Pools {
 public:
  /// Never more threads than CPUs: they would wait for each other.
  const rgen_threads* of(int planned) {
    const int count = std::min(planned, available_cpus());
    return pools_.try_emplace(count, count).first->second.handle();
  }

 private:
  std::map<int, ThreadPool> pools_;
};

void describe_measured(const Measured& m, Json& entry) {
  entry["isa"] = m.source.isa;
  entry["emit_ms"] = m.source.emit_ms;
  describe(m.kernel.report(), entry);
  entry["load_ms"] = m.kernel.report().load_ms;
  entry["verified"] = m.verification.ok;
  entry["max_rel_err"] = m.verification.max_rel_err;
  entry["tolerance"] = m.verification.tolerance;
  if (!m.verification.ok) return;
  entry["measured_us"] = m.timing.median_us;
  entry["measured_min_us"] = m.timing.min_us;
}

/// Builds, verifies and times the plans of a program; with --top-k the fastest of them is the result.
Measured best_of(const Session& session, const Item& item, Pools& pools, Json& entry) {
  session.require_device();  // before any planning
  std::optional<Measured> best;
  for (const Plan& p : plan(item.program, session.profile(), session.plan_options())) {
    Measured m = measure(session, p, session.profile().is_gpu() ? nullptr : pools.of(p.threads()));
    if (!m.verification.ok || !best || m.timing.median_us < best->timing.median_us) best = std::move(m);
    if (!best->verification.ok) break;
  }
  describe(best->plan, item.parse_ms, entry);
  describe_measured(*best, entry);
  if (!best->verification.ok)
    throw Error(ErrorCode::verification, "differs from the reference: " + best->verification.worst, item.program.name());
  return std::move(*best);
}

std::string run_text(const Program& program, const Measured& m) {
  const BuildReport& build = m.kernel.report();
  const std::string rate = program.work() ? ", " + rate_text(*program.work(), m.timing.median_us) : "";
  std::string s = fmt::format("{}\n", program.name());
  s += fmt::format("  target     {} ({}), {}\n", m.plan.target(), m.source.isa,
                   m.kernel.on_gpu() ? build.device : count_text(m.plan.threads(), "thread"));
  s += fmt::format("  planned    {:.1f} ms, emitted {:.1f} ms, compiled {:.0f} ms (cache {}), loaded {:.1f} ms\n", m.plan.construct_ms(),
                   m.source.emit_ms, build.compile_ms, build.cache, build.load_ms);
  s += fmt::format("  verified   max error {} of the largest value (tolerance {})\n", error_text(m.verification.max_rel_err),
                   error_text(m.verification.tolerance));
  s += fmt::format("  predicted  {}, bound by {}\n", time_text(m.plan.predicted_us()), m.plan.bound());
  s += fmt::format("  measured   {} (best {}){}, {} of the machine's limit\n", time_text(m.timing.median_us), time_text(m.timing.min_us),
                   rate, percent_text(m.plan.limit_us(), m.timing.median_us));
  return s;
}

}  // namespace

int run(const Options& o) {
  check_backend(o);
  Session session(o);
  Pools pools;
  return session.for_each(
      [&](const Item& item, Json& entry) { session.say(run_text(item.program, best_of(session, item, pools, entry))); });
}

int bench(const Options& o) {
  check_backend(o);
  Session session(o);
  Pools pools;
  Table table({"name", ">predicted", ">measured", ">ratio", ">of limit", ">rate", "bound", "verified"});
  const int status = session.for_each([&](const Item& item, Json& entry) {
    const Measured m = best_of(session, item, pools, entry);
    const double us = m.timing.median_us;
    table.add({item.program.name(), time_text(m.plan.predicted_us()), time_text(us), fmt::format("{:.2f}", m.plan.predicted_us() / us),
               percent_text(m.plan.limit_us(), us), item.program.work() ? rate_text(*item.program.work(), us) : "-", m.plan.bound(),
               error_text(m.verification.max_rel_err)});
  });
  if (!table.empty()) session.say(table.text());
  return status;
}

}  // namespace rgen::cli
