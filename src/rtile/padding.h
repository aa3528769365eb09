// Padding that a reduction walks through: steps that read beyond the end of an input, where what they read is neutral (0 in a product that
// is summed, −∞ in a maximum), and that may be left out. A 3 × 3 convolution of a 7 × 7 image has 18 % of them.
#pragma once
#include <vector>

#include "rtile/nest.h"

namespace rgen::rtile {

/// A reduced axis, step r of which reads a dimension at stride·o + dilation·r + offset for place o of an output axis: outside of
/// [0, extent) at some o and r.
struct PaddedTaps {
  int reduced = 0, output = 0;
  int64_t stride = 1, dilation = 1, offset = 0, extent = 0;  ///< stride, dilation > 0
  int64_t taps = 1, places = 1;                              ///< extents of the two axes

  /// Places from the first (the last) on at which step r reads outside.
  int64_t front(int64_t r) const;
  int64_t back(int64_t r) const;
  /// The share of steps that is left if equalised blocks of at most `size` places leave out what none of them reads inside.
  double share(int64_t size) const;
  /// ... and of the points of their steps, the share that is left if each place leaves out what it reads outside.
  double points_share(int64_t size) const { return share(1) / share(size); }
  /// The share of steps that equalised blocks of at most `size` places read inside, all of them.
  double whole(int64_t size) const;
  /// Of the stretches of the dimension that blocks of so many steps and at most so many places reach, the share inside.
  double inside(int64_t steps, int64_t size) const;
};

/// Post: an axis is reduced in one of them at most.
std::vector<PaddedTaps> padded_taps(const ir::TensorProgram& program, const Nest& nest);

}  // namespace rgen::rtile
