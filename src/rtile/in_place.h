// An intermediate that is made over again into an output, element by element (a softmax's exponentials), may lie where that output will:
// one tensor less in the caches, and the lines of the output come while the intermediate is computed. A tile buffer that never leaves the
// first cache may be better; the model says which.
#pragma once
#include <optional>

#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests as they are, of a program in which such intermediates have a place (ir::Tensor::within). Nothing if there are none. Pre:
/// `nests` are those of the program, in the order in which they run.
std::optional<Rewritten> in_place(const ir::TensorProgram& program, const std::vector<Nest>& nests);

}  // namespace rgen::rtile
