#include "support/programs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

#include "ir/ir.h"

namespace rgen::test {

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return text.str();
}

}  // namespace

std::vector<ProgramPtr> programs_in(const std::string& file) {
  std::vector<ProgramPtr> programs;
  for (const ir::SpecEntry& entry : ir::parse_specs(text_of(file), file))
    programs.push_back(std::make_shared<const ir::TensorProgram>(entry.build()));
  return programs;
}

std::vector<ProgramPtr> example_programs(const std::string& source_dir) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir + "/examples"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<ProgramPtr> programs;
  for (const auto& file : files)
    for (ProgramPtr& p : programs_in(file))
      if (p->is_static()) programs.push_back(std::move(p));
  return programs;
}

hw::Profile portable_profile() {
  hw::Profile p = hw::load_profile("neoverse_n1");
  p.name = "portable", p.title = "a machine with 128-bit vectors";
  p.arch = "other";
  p.isa.clear(), p.avx512 = false;
  return p;
}

hw::Profile with_tiny_caches(hw::Profile profile) {
  for (size_t l = 0; l + 1 < profile.levels.size(); ++l) profile.levels[l].capacity_bytes = int64_t{4096} << l;
  return profile;
}

hw::Profile random_profile(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return random() % n; };
  const char* shipped[] = {"zen5", "zen4", "sapphire_rapids", "skylake_avx512", "haswell_avx2", "neoverse_n1", "cortex_a76"};
  hw::Profile p = hw::load_profile(shipped[below(std::size(shipped))]);
  if (p.avx512 && below(2) == 0) p.halves = 2;
  const auto vary = [&](double& x) { x *= std::exp2(double(below(5)) - 2); };  // by powers of two from 1/4 to 4
  p.name = "random_" + std::to_string(seed);
  const int registers[] = {8, 13, 16, 24, 32};
  p.vector_registers = registers[below(5)];
  p.load_ports = 1 + int(below(3)), p.store_ports = 1 + int(below(2)), p.issue_width = 2 + int(below(6));
  const int64_t smaller = int64_t{1} << below(6);  // so that small problems are large for their caches
  for (hw::MemoryLevel& l : p.levels) {
    if (l.capacity_bytes > 0) l.capacity_bytes = std::max<int64_t>(2048, l.capacity_bytes * int64_t(1 + below(6)) / 3 / smaller / 64 * 64);
    l.overlap = double(below(5)) / 4;
    for (auto* side : {&l.read, &l.write})
      for (hw::SharedBandwidth& b : *side) vary(b.gbs);
  }
  hw::MemoryLevel& memory = p.levels.back();
  if (below(2) == 0) memory.page_rows_ns = 1 + below(8);
  p.levels.front().prefetched = below(2) == 0;
  if (below(2) == 0) p.levels[1].split_reads_ns = double(below(3)) / 8, p.levels[1].split_writes_ns = 1 + double(below(3));
  if (p.levels.size() > 3 && below(2) == 0) p.levels[2].pieces = 1 + double(below(4)) / 2;
  if (below(2) == 0) {
    memory.rows = memory.row = memory.read;
    for (hw::SharedBandwidth& b : memory.row) b.gbs /= 1 + below(3);
  }
  for (size_t i = 1; i + 1 < p.levels.size(); ++i)  // a level further out is no smaller
    p.levels[i].capacity_bytes = std::max(p.levels[i].capacity_bytes, p.levels[i - 1].capacity_bytes);
  for (hw::Atom& a : p.atoms) vary(a.per_ns), vary(a.latency_ns);
  for (auto& [name, cycles] : p.cycles) vary(cycles);
  vary(p.fork_join_us), vary(p.call_us);
  return p;
}

}  // namespace rgen::test
