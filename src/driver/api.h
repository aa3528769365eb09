// What the public handles hold.
#pragma once
#include "driver/compile.h"
#include "rgen/rgen.hpp"

namespace rgen {

struct Program::Impl {
  std::shared_ptr<const ir::TensorProgram> program;
};
struct Profile::Impl {
  std::shared_ptr<const hw::Profile> profile;
};
struct Plan::Impl {
  driver::Planned planned;
  Breakdown breakdown;
};
struct Kernel::Impl {
  driver::Kernel kernel;
  BuildReport report;
};

}  // namespace rgen
