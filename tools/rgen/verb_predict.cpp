// rgen predict and rgen explain: what the model says, without a compiler or the device.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rgen/explain_html.h"
#include "rgen/session.h"

namespace rgen::cli {

namespace {

Json breakdown_json(const Breakdown& b) {
  Json levels = Json::object();
  for (const auto& [name, us] : b.levels) levels[name] = us;
  return {{"compute_us", b.compute_us}, {"levels_us", levels}, {"overhead_us", b.overhead_us}};
}

/// One bar a resource, the longest as wide as 40 characters.
std::string breakdown_text(const Breakdown& b) {
  std::vector<std::pair<std::string, double>> rows = {{"compute", b.compute_us}};
  rows.insert(rows.end(), b.levels.begin(), b.levels.end());
  rows.emplace_back("overhead", b.overhead_us);
  double longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.second);
  Table table({"resource", ">time", ""});
  for (const auto& [name, us] : rows) {
    std::string bar;
    for (int i = 0; longest > 0 && i < int(40 * us / longest + 0.5); ++i) bar += "█";
    table.add({name, time_text(us), bar});
  }
  return table.text();
}

std::string rivals_text(const std::vector<Plan>& plans) {
  Table table({">rank", ">predicted", ">against best", "bound", ">compute", ">memory", ">overhead"});
  for (size_t i = 0; i < plans.size(); ++i) {
    const Breakdown& b = plans[i].breakdown();
    double memory = 0;
    for (const auto& level : b.levels) memory = std::max(memory, level.second);
    table.add({fmt::format("{}", i + 1), time_text(plans[i].predicted_us()),
               fmt::format("{:.2f}", plans[i].predicted_us() / plans[0].predicted_us()), plans[i].bound(), time_text(b.compute_us),
               time_text(memory), time_text(b.overhead_us)});
  }
  return table.text();
}

std::string indented(const std::string& text) {
  std::string s;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    s += "  " + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return s;
}

}  // namespace

int predict(const Options& o) {
  Session session(o);
  Table table({"name", ">predicted", ">limit", ">of limit", ">rate", "bound", ">threads", ">planned in"});
  const int status = session.for_each([&](const Item& item, Json& entry) {
    const Plan best = plan(item.program, session.profile(), session.plan_options()).front();
    describe(best, item.parse_ms, entry);
    entry["breakdown"] = breakdown_json(best.breakdown());
    table.add({item.program.name(), time_text(best.predicted_us()), time_text(best.limit_us()),
               percent_text(best.limit_us(), best.predicted_us()),
               item.program.work() ? rate_text(*item.program.work(), best.predicted_us()) : "-", best.bound(),
               fmt::format("{}", best.threads()), fmt::format("{:.1f} ms", best.construct_ms())});
  });
  if (!table.empty()) session.say(table.text());
  return status;
}

int explain(const Options& o) {
  Session session(o);
  std::vector<ExplainedPlan> pages;
  bool first = true;
  const int status = session.for_each([&](const Item& item, Json& entry) {
    const std::vector<Plan> plans = plan(item.program, session.profile(), session.plan_options());
    const Plan& best = plans.front();
    describe(best, item.parse_ms, entry);
    entry["breakdown"] = breakdown_json(best.breakdown());
    entry["explanation"] = best.explanation();
    for (size_t i = 1; i < plans.size(); ++i)
      entry["rivals"].push_back({{"predicted_us", plans[i].predicted_us()},
                                 {"bound", plans[i].bound()},
                                 {"breakdown", breakdown_json(plans[i].breakdown())},
                                 {"plan", Json::parse(plans[i].json())}});
    pages.push_back({item.program.name(), item.program.work(), plans});
    session.say(fmt::format("{}{}: {} predicted, {} of the limit of {}, bound by {}\n\n{}\n{}", first ? "" : "\n", item.program.name(),
                            time_text(best.predicted_us()), percent_text(best.limit_us(), best.predicted_us()), time_text(best.limit_us()),
                            best.bound(), indented(best.explanation()), indented(breakdown_text(best.breakdown()))));
    if (plans.size() > 1) session.say("\n" + indented(rivals_text(plans)));
    first = false;
  });
  if (!o.html.empty()) write_file(o.html, explain_html(session.profile(), pages));
  return status;
}

}  // namespace rgen::cli
