// A self-contained page about plans: per-level bars, the rivals, the plan itself.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rgen/rgen.hpp"

namespace rgen::cli {

struct ExplainedPlan {
  std::string name;
  std::optional<WorkAmount> work;
  std::vector<Plan> plans;  ///< best first
};
std::string explain_html(const Profile& profile, const std::vector<ExplainedPlan>& pages);

}  // namespace rgen::cli
