// A plan in words and as JSON.
#pragma once
#include "rtile/rprogram.h"

namespace rgen::rtile {

/// The manifest's "plan". Axes are given by name and number, so that renaming changes names only.
std::string plan_json(const ir::TensorProgram& program, const hw::Profile& profile, const RProgram& plan, const hw::Estimate& estimate);
/// Several lines: tiles, placement, loops and the estimate with what binds it.
std::string explain(const ir::TensorProgram& program, const hw::Profile& profile, const RProgram& plan, const hw::Estimate& estimate,
                    double limit_us, const std::string& limit_bound);

}  // namespace rgen::rtile
