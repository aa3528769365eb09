// Lowering: RProgram → LoopProgram. Follows construct; precedes emit. Decides nothing: every choice is in the plan.
#pragma once
#include "ir/tensor_program.h"
#include "lower/loop_program.h"
#include "rtile/rprogram.h"

namespace rgen::lower {

/// Post: verify(result) holds.
LoopProgram lower(const ir::TensorProgram& program, const rtile::RProgram& plan);

}  // namespace rgen::lower
