// What is tried, and what came of it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rgen::fuzz {

/// How a program is planned. Part of a failure's description: with the spec it repeats it.
struct Setting {
  std::string profile;  ///< a name of `profile_names()`
  int threads = 1;      ///< planned for
  int rank = 0;         ///< which of the ranked plans, modulo their number
};

/// One program under one setting. The program is `spec`, or what `draws` replayed, or `seed` gives.
struct Task {
  uint64_t seed = 0;
  std::optional<std::vector<uint32_t>> draws;
  std::optional<std::string> spec;
  Setting setting;
};

enum class Status : uint8_t {
  ok,
  unsupported,  ///< refused with a reason: unsupported or does_not_fit
  wrong,        ///< the result differs from the reference, between orders of tasks, or bytes outside the outputs changed
  crash,        ///< a signal, in the kernel or in the generator
  error,        ///< an error that a valid program must not meet, or source that does not compile
};
std::string_view to_string(Status status);
inline bool failed(Status s) { return s != Status::ok && s != Status::unsupported; }

struct Outcome {
  Status status = Status::ok;
  std::string message;                ///< one line
  std::vector<std::string> features;  ///< what the program and its plan exercised: "dtype bf16", "placement prepack"
};

struct Options {
  std::string compiler, search_path;  ///< run::find_compiler
  int batch = 25;                     ///< kernels in one translation unit
  int jobs = 1;                       ///< processes
  std::string optimise = "-O1";
  std::filesystem::path save;  ///< folder for failing specs and sources; "" = none
};

/// The text of the task's program, in JSON.
std::string spec_of(const Task& task);
/// The setting that a seed draws. Seeds of one block of 25 share a profile, so that they compile together.
Setting draw_setting(uint64_t seed, const std::vector<std::string>& profiles, const std::vector<int>& threads);

}  // namespace rgen::fuzz
