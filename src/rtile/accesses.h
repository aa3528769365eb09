// What one unrolled body of a plan reads and writes: distinct addresses, vectors in two lines, masks, bounds checks.
#pragma once
#include <functional>

#include "rtile/tile_counts.h"

namespace rgen::rtile {

class Accesses : public CountedPlan {
 public:
  explicit Accesses(const CountedPlan& plan) : CountedPlan(plan) {}

  // ---- vectors in part ----

  /// Whether masks are vectors, which masked loads bring from memory too, and parts of vectors are stored by halves (prelude/avx2.h).
  bool vector_masks() const { return !scalar_ && avx2(); }
  bool avx2() const { return c_.profile.vector_bits == 256 && !c_.profile.avx512; }
  /// The share of vectors along the vector axis that are the last of a row, and no whole ones.
  double parts() const;
  /// Of the loads of an operand along the vectors, those with a mask: of parts, and of the first and last of rows that may begin or end
  /// outside.
  double masked(size_t i) const;
  /// Instructions of a load that leaves out some of its lanes: its mask, and what stands in for them. A compiler has no registers to keep
  /// those masks in that depend on the place of the tile, three for every other element of two vectors (3 × 3, stride 2, 8 rows a tile:
  /// 1.3 cycles a load; Zen 3).
  double masking(size_t i) const;
  /// Vectors in part are read whole, and their other lanes cleared.
  bool cleared(size_t i) const {
    return vector_masks() && lanes_reduced_ && facts_.operands[i].coef[size_t(plan_.vec)] == 1 && reads_on(i);
  }
  // ---- addresses ----

  /// The result takes the place of an operand, element by element (in_place.h).
  bool in_place(const NestFacts::OperandFacts& store) const;
  /// Of the operand's places at a step, those of points that are not left out.
  double points_inside(const NestFacts::OperandFacts& o) const;
  /// Distinct values of the operand's address among the points of one unrolled body.
  double distinct(const NestFacts::OperandFacts& o) const;
  /// Of the vectors of operand `i` that are read or written along `along`, the share that begins in one line and ends in the next: the
  /// cache gives or takes both (Intel 64 and IA-32 Optimization Reference Manual, "Store forwarding and line splits"; on Zen 5, too).
  /// Tensors begin where lines do. `beside`: an axis over whose places the vectors step, all of which are read together.
  double split(size_t i, int along, int beside = -1) const;
  /// Elements of a broadcast operand that one load brings.
  int64_t merged(const NestFacts::OperandFacts& o) const;
  // ---- what may be outside of its tensor ----

  /// Whether the place of the tile decides if the access is inside; what an unrolled body knows by itself costs nothing, nor what loops
  /// over taps leave out. `by_lanes`: or which of its lanes are.
  bool checked(size_t i, bool by_lanes = true) const;
  /// Whether a loop of the reduction moves the access out and in again.
  bool by_step(size_t i) const;
  /// The share of the accesses of operand `i` that are checked: in tiles that may leave the tensor, and of an unrolled body only those
  /// next to its border.
  double border_share(size_t i) const;
  /// The share of the accesses of a border tile's body that need no check: of steps that it knows, all but the padding's width.
  double in_body_inside(size_t i) const;

 protected:
  const bool lanes_reduced_ = reduced(size_t(plan_.vec)), scalar_ = plan_.lanes == 1;

 private:
  /// Vectors in part are read whole (lower/context.h).
  bool reads_on(size_t i) const;
  bool checked(const std::vector<int64_t>& dim, bool by_lanes = true) const;
  /// The product of `of` (coefficients of a dimension, its share outside) over the dimensions that are checked.
  double inside(const NestFacts::OperandFacts& o, const std::function<double(const std::vector<int64_t>&, double)>& of) const;
  /// An unrolled body knows all steps along the dimension.
  bool unrolled(const std::vector<int64_t>& dim) const;
};

}  // namespace rgen::rtile
