// Where tensors wait between calls in the steady state: the same buffers, called again and again.
#pragma once
#include <vector>

#include "hwmodel/profile.h"
#include "rtile/nest.h"

namespace rgen::rtile {

struct Residence {
  std::vector<int> home;  ///< per tensor: memory level (index into Profile::levels) where it waits between uses
  int together = 0;       ///< ... where the program's tensors do, those that no group has moved nearer
  /// The share of what waits there that is not in the cache before it between calls. In memory: of what is read, that also while streaming
  /// stores keep the results out of the last cache, and of what is written.
  double missing = 1, missing_beside_streams = 1, missing_results = 1;
  double missing_at(int level) const { return level == together ? missing : 1; }
};
/// Buffers that fit a level together stay there. Pre: `nests` are the program's.
Residence residence(const ir::TensorProgram& program, const std::vector<Nest>& nests, const hw::Profile& profile, int threads);
/// ... without those that live inside one of its groups, tile by tile.
Residence residence(const ir::TensorProgram& program, const std::vector<Group>& groups, const hw::Profile& profile, int threads);

/// The level a share of which holds what a tile works on; the rest is for what passes by.
int near_level(const hw::Profile& profile, double bytes, double share = 0.5);

double tensor_bytes(const ir::Tensor& tensor);

}  // namespace rgen::rtile
