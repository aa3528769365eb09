// Operands that lie the wrong way round for how a product reads them. On a CPU, along the reduction (Q·Kᵀ): vectors would be gathered or
// transposed again for every tile. On a GPU, across it (images with the channels outermost, P·V): rows could not be staged 16 bytes at a
// time. A copy of the tensor with the other axis innermost, made once before the nest, is a nest of its own; the model says which way is
// faster.
#pragma once
#include <optional>
#include <vector>

#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests with those that copy (Nest::copies), each behind what it reads; `staged`: for a GPU that stages. Nothing if no product gains.
/// Pre: `nests` are those of the program, all or none of them copying.
std::optional<Rewritten> relayout(const ir::TensorProgram& program, const std::vector<Nest>& nests, bool staged = false);

}  // namespace rgen::rtile
