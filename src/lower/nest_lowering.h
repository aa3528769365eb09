// One nest becoming a procedure: loops around the register tile, and calls of its copies.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lower/context.h"

namespace rgen::lower {

class NestLowering {
 public:
  explicit NestLowering(NestContext& c) : c_(c), b_(c.builder), n_(int(c.nest.axes.size())) {
    const auto none = std::vector<int>(size_t(n_), -1);
    params_ = {none, none, none, none, none};
    begin_.assign(size_t(n_), Int(0));
    for (int a = 0; a < n_; ++a) end_.push_back(Int(is_output(a) ? tile(a).blocks : extent(a)));
  }

  int run();

 private:
  NestContext& c_;
  Builder& b_;
  const int n_;
  TileParams params_;
  std::vector<Int> begin_, end_;  ///< per axis: current block range (output) or element range (reduced)
  int in_runs_ = -1;              ///< the axis of which one run's blocks are lowered ...
  rtile::NestPlan::Run run_ = {};
  std::vector<Body*> bodies_;
  std::map<TileVariant, int> tiles_;

  bool is_output(int a) const { return !c_.nest.axes[size_t(a)].reduced; }
  int64_t extent(int a) const { return c_.nest.axes[size_t(a)].extent; }
  const rtile::Blocking& tile(int a) const { return c_.plan.tile[size_t(a)]; }
  const std::string& name(int a) const { return c_.nest.axes[size_t(a)].name; }
  void put(Stmt s) { bodies_.back()->push_back(std::move(s)); }
  /// The tile shapes of most of the nest; other copies of the tile change them and change them back.
  Stmt main_shape() const;

  /// Blocks of the parallel axes dealt out to the task: part i of P gets blocks [⌊N·i/P⌋, ⌊N·(i+1)/P⌋).
  void split(int task);
  /// The blocks of an output axis, or the units of a reduced one, dealt out to the warps of the tile in the same way.
  void deal_out(int axis);

  void in_loop(int var, Int begin, Int end, int64_t step, const std::function<void()>& inside);
  using Conditions = std::vector<Int>;  ///< all not negative
  void branch(Conditions all, const std::function<void()>& yes, const std::function<void()>& no);
  /// A new variable, at most so large.
  Int let(LetInt::Op op, const std::string& what, const Int& a, const Int& b, int64_t most);
  /// The loops from the i-th on, the tile inside.
  void loops(size_t i);
  void tile_of_blocks(const rtile::Loop& l, const std::function<void()>& inside);
  struct Range {
    Int from, to;
    Int length() const { return to - from; }
  };
  /// The run's blocks among the axis' current ones, as far as they overlap; none: nowhere.
  std::optional<Range> blocks_of(int axis, const rtile::NestPlan::Run& r);
  /// The innermost loop, one for each run of blocks that are alike: to choose in each iteration takes a tenth of the time of tiles that are
  /// short (3 × 3 depthwise, 60 × 60 by four tiles of 8 and four of 7 a row: 39 µs; 35).
  void loops_of_runs(int axis);

  // ---- rows from line to line (NestPlan::peeled; nest_stores.cpp) ----

  /// The tiles of a row: what stands before its first line, as many whole vectors as there are, the rest.
  void by_lines();
  /// Where the result's row begins, of axes whose place is not known yet the first.
  Int first_of_row() const;
  const rtile::Statement& stored_statement() const;  ///< the only one

  // ---- write combining (NestPlan::combining) ----

  int combining_buffer();

  /// Of the elements of the axis' current blocks.
  Range elements(int axis) { return {element(axis, begin_[size_t(axis)]), element(axis, end_[size_t(axis)])}; }
  /// The first of a block, or the axis' extent.
  Int element(int axis, const Int& block);

  /// The loop over the rows of the buffer, the one over their pieces, and what is inside; then the pieces go to memory.
  void combine(size_t i);

  /// `count` pieces, of `length` elements, with so many elements of the worker's before and after each.
  void stream(const Range& rows, const Range& columns, const Int& count, const Int& length, const Int& before, const Int& after);

  // ---- which copy of the tile (nest_variants.cpp) ----
  void choose();
  void choose_size(int a, const TileVariant& v);
  /// The variant with the run's size along the axis.
  TileVariant sized(TileVariant v, int a, const rtile::NestPlan::Run& r) const;
  /// Blocks of NestPlan::run_axis that are alike are one call.
  void choose_run(int a, const TileVariant& v);
  /// What is lowered `inside` knows that the block is one of [from, to): a border tile then tests and masks only where it may leave a
  /// tensor.
  void among(int axis, int64_t from, int64_t to, const std::function<void()>& inside);

  void choose_guard(TileVariant v);

  /// Calls `visit` with each index, and its tensor's extent, that can leave the tensor.
  void for_each_guarded(const std::function<void(const ir::Index&, int64_t)>& visit) const;
  bool leads_out(int axis) const;

  /// Does the tile leave out, wherever it is, each step at which the index would leave the tensor? (Tile::write_out leaves out all points
  /// that may be outside where the last of them is: in the first or the last block, or nowhere.)
  bool left_out(const ir::Index& i, int64_t size) const;

  /// Conditions under which no access of the tile leaves its tensor.
  Conditions interior(const TileVariant& v) const;
  /// ... under which at most lanes of vectors do (TileVariant::sides): the rows are inside, also those whose steps are left out elsewhere,
  /// and so are the buffers' elements that whole vectors read. None: there is no such copy of the tile, or it would be the guarded one.
  std::optional<Conditions> sides(const TileVariant& v) const;
  Conditions rows_inside(const TileVariant& v) const;
  /// ... under which the indices that count do not leave their tensors.
  Conditions inside(const TileVariant& v, const std::function<bool(const ir::Index&, int64_t)>& counts) const;
  /// From the first to the last element that an index reaches.
  std::pair<Int, Int> reach(const ir::Index& index, const TileVariant& v) const;

  void choose_end(const TileVariant& v);

  /// Not negative where whole vectors may be read of operands that need a part of the last one.
  Conditions room_behind(const TileVariant& v) const;
  /// Of the operand's buffer: where the tile's first point is at the first step; where its last vector begins, after whole ones along a
  /// reduced vector axis; and its first.
  Int tile_begin(const Addressing& m) const;
  Int last_vector(const Addressing& m, const TileVariant& v) const;
  Int first_vector(const Addressing& m) const;

  void call(const TileVariant& v);
};

}  // namespace rgen::lower
