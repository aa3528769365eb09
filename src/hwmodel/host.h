// What this machine says about itself, before anything is measured. Internal to hwmodel: profile.h is the interface.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace rgen::hw {

/// Who made the processor and which one it is: CPUID's family and model on x86, the part number as family on Arm.
struct CpuIdentity {
  std::string vendor;  ///< "GenuineIntel", "AuthenticAMD", "ARM"
  int family = 0, model = 0, stepping = 0;
  std::string title;  ///< as the processor names itself
};
CpuIdentity cpu_identity();

struct CacheLevel {
  int level = 1;  ///< 1, 2, 3
  int64_t bytes = 0;
  int ways = 0, line = 0;  ///< 0: not said
  int shared_by = 1;       ///< physical cores
};
struct Topology {
  std::vector<int> cpus;           ///< one logical processor (system's number) of each physical core
  std::vector<CacheLevel> caches;  ///< of data, innermost first; as reported, which on a virtual machine may be more than it has
};
/// Restricted to the logical processors `usable`. By hwloc, else by sysfs; what neither knows is empty.
Topology detect_topology(const std::vector<int>& usable);

/// The online logical processors on which a thread of this process can be placed, whatever the caller's own affinity;
/// empty where the system lets nobody choose.
std::vector<int> usable_cpus();

/// The name of the shipped CPU profile nearest to this machine: by vector width, then family and model, then ISA.
/// Throws Error{unsupported} if none has this machine's architecture and vector width.
std::string nearest_shipped(const CpuIdentity& identity, const std::vector<std::string>& isa);

/// The document of this machine without measuring: detected figures over those of the nearest shipped profile, all `estimated`.
nlohmann::json detected_document(const CpuIdentity& identity, const Topology& topology, const std::vector<std::string>& isa);

/// A profile's JSON text with one figure a line; for the profile of a GPU too, which is measured where kernels can be run (driver).
std::string layout(const nlohmann::json& document);

}  // namespace rgen::hw
