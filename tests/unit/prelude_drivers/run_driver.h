// Compiles one of the programs beside this file on top of a prelude text, for each compiler that is here, and runs it where
// the machine (or an emulator) can.
#pragma once
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "emit/prelude.h"
#include "support/process.h"

namespace rgen::test {

struct DriverTarget {
  emit::Simd simd;
  std::string name;
  std::vector<std::string> flags;         ///< what the compiler is told of the machine
  std::vector<std::string> cpu_features;  ///< as /proc/cpuinfo names them
  bool extra = false;                     ///< beyond the base: matters only to the primitives with an `#if`
};

/// Every vector unit at its base, and with the instructions that some primitives pick up if `extras`.
inline std::vector<DriverTarget> driver_targets(bool extras) {
  const std::vector<std::string> avx2 = {"-mavx2", "-mfma", "-mf16c"}, avx2_cpu = {"avx2", "fma", "f16c"};
  auto with = [](std::vector<std::string> list, std::initializer_list<const char*> more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  };
  const auto avx512 = with(avx2, {"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"});
  const auto avx512_cpu = with(avx2_cpu, {"avx512f", "avx512bw", "avx512dq", "avx512vl"});
  using emit::Simd;
  std::vector<DriverTarget> targets = {
    {Simd::portable, "portable", {}, {}},
#if defined(__x86_64__)
    {Simd::portable, "portable with FMA", avx2, avx2_cpu, true},
    {Simd::avx2, "avx2", avx2, avx2_cpu},
    {Simd::avx2, "avx2 with VNNI", with(avx2, {"-mavxvnni"}), with(avx2_cpu, {"avx_vnni"}), true},
    {Simd::avx512, "avx512", avx512, avx512_cpu},
    {Simd::avx512vl, "avx512vl", avx512, avx512_cpu},
    {Simd::avx512vl, "avx512vl with BF16 and VNNI", with(avx512, {"-mavx512bf16", "-mavx512vnni"}),
     with(avx512_cpu, {"avx512_bf16", "avx512_vnni"}), true},
    {Simd::avx512, "avx512 with BF16 and VNNI", with(avx512, {"-mavx512bf16", "-mavx512vnni"}),
     with(avx512_cpu, {"avx512_bf16", "avx512_vnni"}), true},
#endif
    {Simd::neon, "neon", {}, {}},
    {Simd::neon, "neon with dotprod, bf16 and i8mm", {"-march=armv8.6-a+bf16+i8mm"}, {}, true},
  };
  if (!extras) targets.erase(std::remove_if(targets.begin(), targets.end(), [](const DriverTarget& t) { return t.extra; }), targets.end());
  return targets;
}

inline bool cpu_has(const std::vector<std::string>& features) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    line += ' ';
    for (const std::string& f : features)
      if (line.find(' ' + f + ' ') == std::string::npos) return false;
    return true;
  }
  return features.empty();
}

inline bool can_start(const std::string& program) {
  try {
    return run_process({program, "--version"}).status == 0;
  } catch (const std::exception&) { return false; }
}

/// How programs for a target are made and started; empty compilers: not on this machine.
struct Toolchain {
  std::vector<std::string> compilers, runner;
};
inline Toolchain toolchain_for(emit::Simd simd) {
  Toolchain result;
#if defined(__aarch64__)
  const bool native = true;
#else
  const bool native = simd != emit::Simd::neon;
#endif
  for (const char* compiler : {"g++", "clang++"})
    if (native && can_start(compiler)) result.compilers.push_back(compiler);
  if (!native && can_start("aarch64-linux-gnu-g++") && can_start("qemu-aarch64")) {
    result.compilers = {"aarch64-linux-gnu-g++"};
    result.runner = {"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"};
  }
  return result;
}

/// A directory of its own, gone at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rgen_driver_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The program must compile, and print no failed check.
inline void run_driver(const std::string& driver, const DriverTarget& target, const std::string& prelude,
                       const std::vector<std::string>& arguments = {}) {
  const Toolchain tools = toolchain_for(target.simd);
  if (tools.compilers.empty()) {
    MESSAGE("skipped: no compiler or emulator here for ", target.name);
    return;
  }
  ProcessOptions patient;
  patient.timeout = std::chrono::minutes(5);
  const TemporaryDirectory directory;
  const std::string header = directory.path() / "prelude.h", program = directory.path() / "driver";
  std::ofstream(header) << prelude;
  for (const std::string& compiler : tools.compilers) {
    if (target.extra && compiler != tools.compilers.front()) continue;  // one compiler will do: these builds take seconds each
    CAPTURE(target.name);
    CAPTURE(compiler);
    std::vector<std::string> command = {compiler, "-std=c++20", "-O2", "-w", "-include", header};
    command.insert(command.end(), target.flags.begin(), target.flags.end());
    command.insert(command.end(), {std::string(RGEN_SOURCE_DIR) + "/tests/unit/prelude_drivers/" + driver + ".cpp", "-o", program});
    const ProcessResult compiled = run_process(command, patient);
    REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
    if (!cpu_has(target.cpu_features)) {
      MESSAGE("compiled but not run: this processor has not all of ", target.name);
      continue;
    }
    std::vector<std::string> start = tools.runner;
    start.push_back(program);
    start.insert(start.end(), arguments.begin(), arguments.end());
    const ProcessResult run = run_process(start, patient);
    CHECK_MESSAGE(run.status == 0, "signal ", run.signal, "\n", run.out, run.err);
  }
}

inline std::string whole_prelude(emit::Simd simd) {
  const std::vector<std::string> names = emit::prelude_names(simd);
  std::set<std::string> used(names.begin(), names.end());
  if (simd == emit::Simd::avx512)  // tiles are tested by themselves: their instructions need flags of their own
    for (const std::string& name : names)
      if (name.rfind("tile_", 0) == 0) used.erase(name);
  return emit::prelude_text(simd, used);
}

}  // namespace rgen::test
