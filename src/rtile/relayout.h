// Products of an operand that lies along the reduction, Q·Kᵀ: vectors of it would be gathered or transposed again for every tile. A copy
// of the tensor with the vector's axis innermost, made once before the nest, is a nest of its own; the model says which way is faster.
#pragma once
#include <optional>
#include <vector>

#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests with those that copy (Nest::copies), each behind what it reads. Nothing if no product gains. Pre: `nests` are those of the
/// program, all or none of them copying.
std::optional<Rewritten> relayout(const ir::TensorProgram& program, const std::vector<Nest>& nests);

}  // namespace rgen::rtile
