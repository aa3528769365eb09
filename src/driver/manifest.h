// NAME.manifest.json: what a caller of an emitted kernel needs to know.
#pragma once
#include <string>

#include "driver/compile.h"

namespace rgen::driver {

std::string print_manifest(const Planned& planned, const emit::Emitted& code);

}  // namespace rgen::driver
