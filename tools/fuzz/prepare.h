// From a task to source: parse, print and parse again, construct, emit.
#pragma once
#include <vector>

#include "emit/backend.h"
#include "fuzz/task.h"
#include "ir/ir.h"
#include "run/kernel.h"

namespace rgen::fuzz {

/// A task that is ready to compile, and what its result must be.
struct Case {
  ir::TensorProgram program;
  emit::Emitted code;
  std::vector<run::Buffer> inputs;
  ir::Reference reference;
  std::vector<std::string> features;
};

/// Throws the errors of the passes, and Error{internal} where a printed program does not read back as itself.
Case prepare(const Task& task);

}  // namespace rgen::fuzz
