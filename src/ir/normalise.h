// Forms that every program has, whoever made it.
#pragma once
#include "ir/tensor_program.h"

namespace rgen::ir {

/// `body` with `out_of_bounds` only where an access may leave its tensor, so that later passes mask nothing in vain.
/// Accesses with symbolic extents keep theirs.
ExprPtr without_needless_bounds(const TensorProgram& program, const std::vector<Axis>& axes, const ExprPtr& body);

}  // namespace rgen::ir
