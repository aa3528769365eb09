// Factors of products in narrow types for which the processor has no instruction, or none that reads them as they lie: bf16 and f16 without
// their products, bytes before VNNI. Converted where they are multiplied, each value would be widened as often as it is reused. A copy in
// the type that is multiplied (f32; s16 for vpmaddwd) is made once: of a constant by prepacking, of another tensor by a nest of its own.
// The model says whether that is faster: the copies take more bytes.
#pragma once
#include <optional>
#include <vector>

#include "hwmodel/profile.h"
#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests with those that copy (Nest::copies), each behind what it reads; constants get a further tensor (ir::Tensor::widens). Nothing
/// if no product gains. Pre: `nests` are those of the program.
/// Without `constants`, those that are multiplied as s16 stay bytes, which vpmaddwd's plans widen where they load them.
std::optional<Rewritten> widen(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile,
                               bool constants = true);

}  // namespace rgen::rtile
