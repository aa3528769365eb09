// The plans of one nest, ranked by the model: vector axis, register tile, placement of operands, loops around the tile, threads.
#pragma once
#include "rtile/workload.h"

namespace rgen::rtile {

/// Best first, at most `keep`; deterministic. Empty only where a widened constant (ir::Tensor::widens) cannot be packed. Throws
/// Error{does_not_fit} where no tile does, Error{unsupported} where no atom computes the nest's types.
std::vector<NestPlan> plan_nest(const Nest& nest, const PlanContext& context, int keep);

}  // namespace rgen::rtile
