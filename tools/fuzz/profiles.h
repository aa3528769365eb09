// The machines that kernels are generated for and run as: shipped profiles, less what this machine cannot execute, and variants that
// bring the paths of large problems to small ones.
#pragma once
#include <string>
#include <vector>

#include "hwmodel/profile.h"

namespace rgen::fuzz {

/// All that this machine can execute, AMX in software if need be: shipped names, "portable", and each with "/small" after it: caches of a
/// few KiB, so that small programs are chunked and tiled for them too.
std::vector<std::string> profile_names();
/// Throws Error{usage} for a name not among them.
hw::Profile profile(const std::string& name);

}  // namespace rgen::fuzz
