#include "rgen/explain_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rgen/report.h"

namespace rgen::cli {

namespace {

constexpr std::string_view style = R"(
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2.5rem;border-top:1px solid #ddd;padding-top:1.5rem}
table{border-collapse:collapse;margin:.7rem 0}td,th{padding:.2rem .8rem .2rem 0;text-align:left;font-weight:normal}
th{color:#666}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.bar{display:inline-block;height:.8rem;background:#4a7ebb;min-width:1px}.bound .bar{background:#c0504d}
pre{background:#f6f6f6;padding:.8rem;overflow-x:auto;font-size:13px}tr.best td{font-weight:600}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#242424}h2{border-color:#444}th{color:#999}}
)";

std::string escaped(const std::string& text) {
  std::string s;
  for (char c : text) {
    switch (c) {
      case '&':
        s += "&amp;";
        break;
      case '<':
        s += "&lt;";
        break;
      case '>':
        s += "&gt;";
        break;
      case '"':
        s += "&quot;";
        break;
      default:
        s += c;
    }
  }
  return s;
}

std::string bars(const Plan& plan) {
  const Breakdown& b = plan.breakdown();
  std::vector<std::pair<std::string, double>> rows = {{"compute", b.compute_us}};
  rows.insert(rows.end(), b.levels.begin(), b.levels.end());
  rows.emplace_back("overhead", b.overhead_us);
  double longest = 1e-9;
  for (const auto& row : rows) longest = std::max(longest, row.second);
  std::string s = "<table><tr><th>resource</th><th class=n>time</th><th></th></tr>\n";
  for (const auto& [name, us] : rows)
    s += fmt::format("<tr{}><td>{}</td><td class=n>{}</td><td><span class=bar style=\"width:{:.0f}px\"></span></td></tr>\n",
                     name == plan.bound() ? " class=bound" : "", escaped(name), time_text(us), 420 * us / longest);
  return s + "</table>\n";
}

std::string rivals(const std::vector<Plan>& plans) {
  std::string s = "<table><tr><th class=n>rank</th><th class=n>predicted</th><th class=n>against best</th><th>bound</th></tr>\n";
  for (size_t i = 0; i < plans.size(); ++i)
    s += fmt::format("<tr{}><td class=n>{}</td><td class=n>{}</td><td class=n>{:.2f}</td><td>{}</td></tr>\n", i == 0 ? " class=best" : "",
                     i + 1, time_text(plans[i].predicted_us()), plans[i].predicted_us() / plans[0].predicted_us(),
                     escaped(plans[i].bound()));
  return s + "</table>\n";
}

std::string details(const std::string& title, const std::string& text) {
  return fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", title, escaped(text));
}

}  // namespace

std::string explain_html(const Profile& profile, const std::vector<ExplainedPlan>& pages) {
  std::string s = fmt::format(
      "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\n"
      "<title>rgen: plans for {0}</title><style>{1}</style>\n<h1>Plans for {2}</h1>\n",
      escaped(profile.name()), style, escaped(profile.title()));
  for (const ExplainedPlan& page : pages) {
    const Plan& best = page.plans.front();
    const std::string rate = page.work ? ", " + rate_text(*page.work, best.predicted_us()) : "";
    s += fmt::format("<h2>{}</h2>\n<p>{} predicted{}, {} of the machine's limit of {}; bound by {}; {}.</p>\n", escaped(page.name),
                     time_text(best.predicted_us()), rate, percent_text(best.limit_us(), best.predicted_us()), time_text(best.limit_us()),
                     escaped(best.bound()), count_text(best.threads(), "thread"));
    s += bars(best) + "<pre>" + escaped(best.explanation()) + "</pre>\n";
    if (page.plans.size() > 1) s += "<h3>Rivals</h3>\n" + rivals(page.plans);
    for (size_t i = 0; i < page.plans.size(); ++i)
      s += details(i == 0 ? "The plan" : fmt::format("Plan {}", i + 1), nlohmann::ordered_json::parse(page.plans[i].json()).dump(2));
  }
  return s + "</html>\n";
}

}  // namespace rgen::cli
