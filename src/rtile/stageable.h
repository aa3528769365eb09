// Factors that a GPU cannot stage as they lie: across the reduction (images with the channels outermost, P·V), in rows that are no whole
// pieces of 16 bytes apart (1021 numbers), or in another type than the other factor. A copy in rows along the reduction, made once before
// the product, is a nest of its own; the model says which way is faster.
#pragma once
#include <optional>
#include <vector>

#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests with those that copy (Nest::copies), each behind what it reads, and their products to be staged (Nest::stage). Nothing if no
/// product gains. Pre: `nests` are those of the program, none of them copying.
std::optional<Rewritten> stageable(const ir::TensorProgram& program, const std::vector<Nest>& nests);

}  // namespace rgen::rtile
