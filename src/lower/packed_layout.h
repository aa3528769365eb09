// The order of an operand that the tiles read panel after panel. Innermost first: groups of neighbours along the reduction (forms that
// multiply such), the places of the register tile, the reduced axes within a chunk, what corrects the sums of a panel, blocks, streams,
// axes of a fused group's tile, chunks.
#pragma once
#include "lower/context.h"
#include "rtile/layout.h"

namespace rgen::lower {

struct PackedLayout {
  PackedLayout(const NestContext& c, int operand);

  const rtile::NestPlan& plan;
  const std::vector<rtile::NestAxis>& axes;
  const ir::Access& access;
  const ir::Tensor& tensor;
  const Location& source;
  const std::vector<ir::Index> index;  ///< in the tensor that the caller gives (ir::Tensor::view)
  const rtile::Linear given;           ///< place in it, but for the floors of the index

  bool grouped;    ///< the operand whose neighbours along k one instruction multiplies
  bool fragments;  ///< ... in the order of a warp's fragments
  bool lanes;      ///< ... a lane's columns side by side (rtile::Staging::kLaneColumns)
  bool corrected;  ///< ... with the sums of its columns after each panel
  bool rounded;    ///< ... to tf32, of which narrower types have no more bits

  /// Neighbours along an axis of the reduction that stay neighbours, and how far that axis is padded.
  int k_axis = -1;
  int64_t group = 1, k_step = 1, k_whole = 1;  ///< ... of which k is made up to a multiple

  /// Axes of the operand, outermost first: of a fused group's tile; others that are not reduced; reduced ones.
  std::vector<int> whole, outputs, reduced;
  std::vector<rtile::Loop> chunks;    ///< outermost first
  std::vector<int64_t> tile, length;  ///< of every axis: in the register tile, and within a chunk
  int64_t columns = 1;                ///< of one panel: all places of the operand in the register tile, or those of one stream
  int64_t streams = 1;                ///< Operand::streams: panels of a tile, along the vector axis

  Addressing packed;
  int64_t elements = 1;

  int64_t stride(int axis) const { return given.coef[size_t(axis)]; }
  bool uses(size_t axis) const { return given.coef[axis] != 0; }
  const std::string& name(int axis) const { return axes[size_t(axis)].name; }
  int64_t extent(int axis) const { return axes[size_t(axis)].extent; }
  const rtile::Blocking& blocking(int axis) const { return plan.tile[size_t(axis)]; }

 private:
  void find_axes();
  void lay_out();
};

/// The first place of a block.
Int start_of(Builder& b, Body& body, const rtile::Blocking& t, const Int& block);

/// After the panel at `panel`: −128·Σ b for every column, because the signed operand is read with its sign bit flipped.
void correct_sums(Builder& b, const PackedLayout& layout, Body& body, int to, const Int& panel);

}  // namespace rgen::lower
