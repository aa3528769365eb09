#include "hwmodel/host.h"

#include <nlohmann/json.hpp>

#include "hwmodel/profile.h"

namespace rgen::hw {

std::string host_profile_json(const HostOptions&) {
  return layout(detected_document(cpu_identity(), detect_topology(usable_cpus()), host_isa()));
}

}  // namespace rgen::hw
