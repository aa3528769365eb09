// What the command line says.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace rgen::cli {

struct Options {
  std::string hardware;                ///< --hw
  std::vector<std::string> specs;      ///< SPEC…
  std::vector<std::string> extents;    ///< -D name=value
  bool no_measure = false;             ///< --no-measure
  bool json = false;                   ///< --json
  int threads = 0;                     ///< --threads; 0 = the profile's cores
  int top_k = 1;                       ///< --top-k
  std::string output = ".";            ///< -o
  std::string emit;                    ///< --emit; "" = the source for the profile's kind
  bool cc = false, jit = false;        ///< --cc, --jit
  std::string compiler;                ///< --compiler
  bool no_cache = false;               ///< --no-cache
  uint64_t seed = 1;                   ///< --seed
  double seconds = 0.2;                ///< --seconds
  int device = 0;                      ///< --device
  bool on_device = false;              ///< --device was given
  std::string html;                    ///< --html
  std::vector<std::string> arguments;  ///< of profile, cache and ops
};

/// The verbs; each returns the exit status and throws rgen::Error for what fails as a whole.
int gen(const Options& o);
int run(const Options& o);
int predict(const Options& o);
int explain(const Options& o);
int bench(const Options& o);
int profile_list(const Options& o);
int profile_show(const Options& o);
int profile_check(const Options& o);
int profile_diff(const Options& o);
int profile_new(const Options& o);
int cache_show(const Options& o);
int cache_empty(const Options& o);
int ops(const Options& o);

const std::vector<std::string>& verbs();

}  // namespace rgen::cli
