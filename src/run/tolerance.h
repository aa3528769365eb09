// How far a correct kernel may be from the f64 reference (docs/tolerances.md states the formula and its reasons).
#pragma once
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::run {

/// Rounding errors of an element of each tensor, in unit roundoffs of f32 times the magnitude that the reference gives it; 0: exact.
std::vector<double> roundings(const ir::TensorProgram& program, const std::vector<int64_t>& dim_values);

}  // namespace rgen::run
