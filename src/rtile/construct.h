// Construction: from a tensor program and a profile to ranked tile programs (OSDI'22 Roller, generalised). No search, no measuring.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hwmodel/estimate.h"
#include "hwmodel/profile.h"
#include "ir/tensor_program.h"

namespace rgen::rtile {

struct RProgram;  // rtile/rprogram.h: tiles, order, placement, packing, threads

/// One ranked plan of the whole program. Immutable, shared.
struct Candidate {
  std::shared_ptr<const RProgram> program;
  hw::Estimate estimate;    ///< of the whole kernel
  double limit_us = 0;      ///< the machine's bound for this work: roofline over compute and each level's compulsory traffic
  std::string limit_bound;  ///< what binds the limit
  std::string plan_json;    ///< the manifest's "plan": tiles per level, order, packing, threads, the estimate per group
  std::string explanation;  ///< several lines: why this tile
};

struct ConstructOptions {
  int threads = 0;  ///< workers planned for; 0 = the profile's cores
  int top_k = 1;    ///< candidates kept
  int breadth = 1;  ///< how many times more of the space is looked at than the pruner would (what regret is measured against)
};

/// The best `top_k` plans, best first; deterministic. Pre: the program is verified and static.
/// Throws Error{does_not_fit} when no tile fits, Error{unsupported} when the program is beyond this version.
std::vector<Candidate> construct(const ir::TensorProgram& program, const hw::Profile& profile, const ConstructOptions& options);

}  // namespace rgen::rtile
