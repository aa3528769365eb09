// Values that are known not to be positive: an element less the largest of those that it is among, as softmax takes its exponentials.
#pragma once
#include "ir/tensor_program.h"

namespace rgen::ir {

/// Whether `e` is x − L[…], where L is the maximum in f32, over some of the axes, of what x is at every point. Rounding apart: x may be
/// formed with one rounding less here than there. Accesses of `e` are over any axes; `program` has the stage of L.
bool never_positive(const TensorProgram& program, const Expr& e);

}  // namespace rgen::ir
