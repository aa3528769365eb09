// Which instructions this process may execute: the processor has them and the system saves their registers.
#include <cstdio>
#include <fstream>

#include "hwmodel/host.h"
#include "hwmodel/profile.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace rgen::hw {

#if defined(__x86_64__)

namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

// XCR0: the register states that the system saves on a context switch.
uint64_t enabled_states() {
  if (!(cpuid(1).ecx & bit_OSXSAVE)) return 0;
  unsigned lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return uint64_t(hi) << 32 | lo;
}
constexpr uint64_t ymm_states = 0x6, zmm_states = 0xe6, tile_states = 0x60000;

}  // namespace

std::vector<std::string> host_isa() {
  const Registers one = cpuid(1), seven = cpuid(7), seven_one = cpuid(7, 1);
  const uint64_t states = enabled_states();
  struct Feature {
    const char* name;
    uint64_t states;
    unsigned word;
    int bit;
  };
  const Feature features[] = {
      {"sse2", 0, one.edx, 26},
      {"avx", ymm_states, one.ecx, 28},
      {"avx2", ymm_states, seven.ebx, 5},
      {"fma", ymm_states, one.ecx, 12},
      {"f16c", ymm_states, one.ecx, 29},
      {"avxvnni", ymm_states, seven_one.eax, 4},
      {"avx512f", zmm_states, seven.ebx, 16},
      {"avx512bw", zmm_states, seven.ebx, 30},
      {"avx512cd", zmm_states, seven.ebx, 28},
      {"avx512dq", zmm_states, seven.ebx, 17},
      {"avx512vl", zmm_states, seven.ebx, 31},
      {"avx512vbmi", zmm_states, seven.ecx, 1},
      {"avx512vnni", zmm_states, seven.ecx, 11},
      {"avx512bf16", zmm_states, seven_one.eax, 5},
      {"avx512fp16", zmm_states, seven.edx, 23},
      {"amx-tile", tile_states, seven.edx, 24},
      {"amx-bf16", tile_states, seven.edx, 22},
      {"amx-int8", tile_states, seven.edx, 25},
  };
  std::vector<std::string> isa;
  for (const Feature& f : features)
    if ((f.word >> f.bit & 1) && (states & f.states) == f.states) isa.emplace_back(f.name);
  return isa;
}

CpuIdentity cpu_identity() {
  CpuIdentity id;
  const Registers zero = cpuid(0), one = cpuid(1);
  for (unsigned word : {zero.ebx, zero.edx, zero.ecx})
    for (int shift = 0; shift < 32; shift += 8) id.vendor += char(word >> shift & 255);
  const int family = one.eax >> 8 & 15, model = one.eax >> 4 & 15;
  id.family = family == 15 ? family + int(one.eax >> 20 & 255) : family;
  id.model = family == 15 || family == 6 ? model + int(one.eax >> 16 & 15) * 16 : model;
  id.stepping = one.eax & 15;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Registers r = cpuid(leaf);
    for (unsigned word : {r.eax, r.ebx, r.ecx, r.edx})
      for (int shift = 0; shift < 32; shift += 8)
        if (char c = char(word >> shift & 255)) id.title += c;
  }
  while (id.title.ends_with(' ')) id.title.pop_back();
  id.title.erase(0, id.title.find_first_not_of(' ') == std::string::npos ? 0 : id.title.find_first_not_of(' '));
  if (id.title.empty()) id.title = id.vendor;
  return id;
}

#elif defined(__aarch64__)

std::vector<std::string> host_isa() {
  const unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);
  struct Feature {
    const char* name;
    unsigned long word;
    int bit;
  };
  // Bits of the kernel's interface (arch/arm64/include/uapi/asm/hwcap.h); older C libraries do not name them all.
  const Feature features[] = {{"neon", cap, 1}, {"fp16", cap, 10},  {"dotprod", cap, 20},
                              {"sve", cap, 22}, {"i8mm", cap2, 13}, {"bf16", cap2, 14}};
  std::vector<std::string> isa;
  for (const Feature& f : features)
    if (f.word >> f.bit & 1) isa.emplace_back(f.name);
  return isa;
}

CpuIdentity cpu_identity() {
  CpuIdentity id;
  std::ifstream in("/proc/cpuinfo");
  int implementer = 0;
  for (std::string line; std::getline(in, line);) {
    const char* text = line.c_str();
    std::sscanf(text, "CPU implementer : %i", &implementer);
    std::sscanf(text, "CPU part : %i", &id.family);
    std::sscanf(text, "CPU variant : %i", &id.model);
    std::sscanf(text, "CPU revision : %d", &id.stepping);
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "0x%02x", unsigned(implementer));
  id.vendor = implementer == 0x41 ? "ARM" : buffer;
  std::snprintf(buffer, sizeof buffer, " part 0x%03x", unsigned(id.family));
  id.title = id.vendor + buffer;
  return id;
}

#else
#error "rgen::hw knows x86-64 and aarch64; another architecture needs host_isa() and cpu_identity() here"
#endif

}  // namespace rgen::hw
