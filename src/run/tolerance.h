// How far a correct kernel may be from the f64 reference (docs/tolerances.md states the formula and its reasons).
#pragma once
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::run {

struct ErrorBound {
  /// Absolute part: a computed float that was rounded to an integer on the way may have gone to the neighbour.
  double steps = 0;
  /// Rounding errors of one element, in unit roundoffs of the accumulation type times the element's magnitude; 0: computed exactly.
  double roundings = 0;
};
/// One per tensor of the program.
std::vector<ErrorBound> error_bounds(const ir::TensorProgram& program, const std::vector<int64_t>& dim_values);

}  // namespace rgen::run
