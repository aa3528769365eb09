// One call of gen, run, predict, explain or bench: the profile, the jobs one after the other, and the results as text or JSON.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rgen/options.h"
#include "rgen/report.h"
#include "rgen/rgen.hpp"
#include "rgen/specs.h"

namespace rgen::cli {

using Json = nlohmann::ordered_json;

/// A program to work on, and how long reading it took.
struct Item {
  const Program& program;
  double parse_ms;
};

class Session {
 public:
  using Work = std::function<void(const Item& item, Json& entry)>;
  explicit Session(const Options& options);

  const Options& options() const { return options_; }
  const Profile& profile() const { return profile_; }
  PlanOptions plan_options() const;
  BuildOptions build_options() const;
  /// Throws Error{device} unless this machine executes the profile's kernels.
  void require_device() const;

  /// Calls `work` with every program and its JSON entry. A failure becomes the entry's "error" and a message, and the rest go on.
  /// Returns the first failure's exit status, or 0.
  int for_each(const Work& work);
  /// Text between two jobs: after the progress line is gone, and not at all with --json.
  void say(const std::string& text);

 private:
  const Options& options_;
  Profile profile_;
  Progress* progress_ = nullptr;
};

Profile load_profile(const Options& options, const std::string& name);
/// What every entry says of a plan.
void describe(const Plan& plan, double parse_ms, Json& entry);
/// What every entry says of a compilation; of several kernels the most that one takes.
void describe(const BuildReport& report, Json& entry);
/// Refuses --jit.
void check_backend(const Options& options);

}  // namespace rgen::cli
