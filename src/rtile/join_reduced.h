// Few channels, and instructions that multiply neighbours along the reduction: of three channels by pairs every fourth product is of
// padding, by AMX's 32 nearly all are. The places of a window's row and their channels lie side by side in the image, so they can be one
// axis of the reduction, 9 or 21 long. Its constants do not lie like that (OIHW), but they are packed anyway. Where the window leaves the
// image, the image is first copied with its border. A GPU stages rows that begin at multiples of 16 bytes: what each place of the window
// reads in a row of the image is copied side by side (im2col along the width alone).
#pragma once
#include <optional>
#include <vector>

#include "hwmodel/profile.h"
#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests with such axes as one, the constants as further tensors (ir::Tensor::view), behind those that copy (Nest::copies). Nothing if
/// no instruction of the profile takes fewer steps so. Pre: `nests` are those of the program.
std::optional<Rewritten> join_reduced(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile);

}  // namespace rgen::rtile
