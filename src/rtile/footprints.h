// What tiles touch: bytes of each operand at every depth of a plan's loops, and what the iterations of a loop have in common.
#pragma once
#include <span>
#include <vector>

#include "rtile/walks.h"

namespace rgen::rtile {

class Footprints : public Walks {
 protected:
  explicit Footprints(const CountedPlan& plan) : Walks(plan) {}

  // of every depth: 0 is the worker's whole share, the last one a single tile, or a step of it. Valid after walk_depths().
  std::vector<Loop> loops_;
  std::vector<double> trips_, total_;  ///< of the loop inside the depth; all bytes touched
  void walk_depths();
  std::span<const int64_t> covered(size_t depth) const { return std::span(extents_).subspan(depth * n_, n_); }
  std::span<const double> touched(size_t depth) const {
    return std::span(touched_).subspan(depth * facts_.operands.size(), facts_.operands.size());
  }

  /// Bytes of the worker's whole share.
  double touched_by_worker() const;

  /// Of an operand of whose bytes the iterations of a loop along `axis` read some in common, `bytes` each and `together` all: those that
  /// the cache still holds from the iterations before come once. A window over rows of which an iteration takes a piece finds none of them
  /// in the next ones. `around`, `within`: what the loop and one iteration cover; `occupied`: by all operands in one.
  double sliding(size_t operand, std::span<const int64_t> around, std::span<const int64_t> within, int axis, double occupied, double bytes,
                 double together, double capacity) const;

 private:
  std::vector<int64_t> extents_;  ///< covered, of all axes, at every depth
  std::vector<double> touched_;   ///< bytes, of all operands, at every depth

  /// The plan's; and those of the reduction inside the tile, where it matters what each of their iterations has in common with the next.
  std::vector<Loop> all_loops() const;
  /// Bytes touched by all operands, and by each, while the axes cover `extents`.
  double footprint(std::span<const int64_t> extents, std::span<double> each) const;
  /// A packed operand's place over that of its elements: whole vectors, and whole steps of k.
  double made_up(size_t operand, std::span<const int64_t> extents) const;
  /// The share of what boxes of such extents reach that is read, on average over the nest: what is outside of a tensor is not there, and
  /// where taps are left out, of a factor come only those that some place of the box needs.
  double inside(size_t operand, std::span<const int64_t> extents) const;
};

}  // namespace rgen::rtile
