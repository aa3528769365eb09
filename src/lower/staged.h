// What is common to contractions whose thread block stages both factors in shared memory: where a block is, what its threads copy, and how
// its sums leave. Rows of a are the points of several axes (implicit GEMM); a row outside its tensor is filled with zeros on the way.
// A step of k is 64 bytes of a row.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lower/context.h"
#include "rtile/staged.h"

namespace rgen::lower {

class StagedBlock {
 protected:
  static constexpr int64_t kRowBytes = rtile::kStepBytes, kPiece = rtile::kPieceBytes, kPieces = kRowBytes / kPiece;  // of one copy

  explicit StagedBlock(NestContext& c);
  ~StagedBlock() = default;

  /// What one thread copies of a row at every step, from `pointer` + the reduced axes' part on, where all conditions hold.
  struct Source {
    int pointer;
    Int to;                               ///< bytes from the factor's part of a stage
    std::vector<Int> always;              ///< conditions without reduced axes
    std::vector<std::pair<Int, int>> in;  ///< coordinate at the reduced axes' origin, dimension: 0 <= coordinate + … < extent
    const rtile::Operand* operand;
    const Addressing* m;
    bool padded_k;  ///< k goes beyond its extent at the last step
    Int first_k;    ///< of the step, where `pointer` is
    /// Unit lane: so many single elements, `apart` of k from one to the next, whose rows are so many bytes. 0: 16 bytes.
    int64_t elements = 0, apart = 0, pitch = 0;
    bool turned = false;  ///< Staging::Copies::turned: 16 bytes by way of registers, to four k
  };

  NestContext& c_;
  Builder& b_;
  const rtile::Staging& s_;
  const rtile::BlockMemory memory_;
  const int n_, copiers_;  ///< axes; threads that copy
  const int64_t block_rows_, block_columns_;
  const int64_t part_b_;    ///< where in a stage b begins, behind all steps of a (bytes)
  std::vector<Int> start_;  ///< of the batch axes
  std::vector<Body*> bodies_;
  Int warp_, first_row_, first_column_, row_warp_, column_warp_, column_block_;
  Int first_step_ = Int(0);   ///< of k, of this block's part of them
  Int copier_, row_, piece_;  ///< which of the copying threads this is; the row and the 16 bytes of it that it copies first
  int ring_ = -1;

  const rtile::Operand& operand(int i) const { return c_.plan.operands[size_t(i)]; }
  const Addressing& addressing(int i) const { return c_.addressing[size_t(i)]; }
  int64_t extent(int a) const { return c_.nest.axes[size_t(a)].extent; }
  int64_t k_extent() const { return extent(c_.plan.k_axis); }
  int64_t row_tiles() const { return s_.row_tiles(); }
  int64_t column_tiles() const { return c_.plan.column_tiles(); }
  bool group() const { return s_.unit == rtile::Staging::Unit::group; }
  bool lanes() const { return s_.unit == rtile::Staging::Unit::lane; }
  /// Bytes of a step's rows of a and b, and unit lane: of those of one k.
  int64_t step_bytes_a() const { return rtile::Staging::pitch(block_rows_, s_.copies_a) * kRowBytes; }
  int64_t step_bytes_b() const { return rtile::Staging::pitch(block_columns_, s_.copies_b) * kRowBytes; }
  int64_t k_bytes_a() const { return step_bytes_a() / c_.plan.k_step; }
  int64_t k_bytes_b() const { return step_bytes_b() / c_.plan.k_step; }
  bool integer() const;
  DType factor() const;  ///< of the columns
  bool packed() const { return operand(c_.plan.operand_b).placement == rtile::Placement::prepack; }
  int64_t element_bytes(const rtile::Operand& o) const;

  void put(Stmt s) { bodies_.back()->push_back(std::move(s)); }
  void effect(const std::string& primitive, std::vector<Arg> args = {}) { put({Op{primitive, -1, false, std::move(args)}}); }
  Int quotient(const std::string& name, const Int& x, int64_t by) { return b_.quotient(*bodies_.back(), name, x, by); }
  Int remainder(const std::string& name, const Int& x, int64_t by) { return b_.remainder(*bodies_.back(), name, x, by); }
  Int value(const std::string& name, const Int& x);
  Int within(const std::string& name, const Int& x, int64_t count);  ///< of which it is known that 0 <= x < count
  /// A pointer to `bytes` of the block's shared memory, `at` bytes from its start; `offset` in elements.
  int shared(const std::string& name, DType dtype, int64_t at, int64_t bytes, const Int& offset = Int(0));

  template <class F>
  void body(Body& into, F&& inside) {
    bodies_.push_back(&into);
    inside();
    bodies_.pop_back();
  }
  template <class Then, class Else>
  void choose(std::vector<Int> conditions, Then&& then, Else&& otherwise) {
    If s{std::move(conditions), std::make_shared<Body>(), std::make_shared<Body>()};
    body(*s.then, then), body(*s.otherwise, otherwise);
    put({std::move(s)});
  }
  template <class F>
  void when(std::vector<Int> conditions, F&& inside) {
    if (conditions.empty()) return inside();
    choose(std::move(conditions), inside, [] {});
  }
  /// The conditions of x = value.
  std::vector<Int> equal(const Int& x, int64_t value) const;
  template <class F>
  void loop(int var, const Int& count, F&& inside, For::Unroll unroll = For::Unroll::as_compiled) {
    auto inner = std::make_shared<Body>();
    body(*inner, inside);
    put({For{var, Int(0), count, 1, std::move(inner), unroll}});
  }

  void place(Int task);              ///< the block's place among all
  void place_warp(const Int& warp);  ///< a multiplying warp's in the block
  void place_copier(const Int& copier);
  std::vector<Source> rows();     ///< what this thread copies of a
  std::vector<Source> columns();  ///< ... and of b, but for what comes in bulk
  std::vector<Int> reduced_at(const Int& step);
  Int along_k(const Addressing& m, const std::vector<Int>& at) const;  ///< of an operand's address
  Int panel(const Addressing& m) const;                                ///< where this block's part of the packed constant begins (elements)
  /// A factor as the copy unit takes it (rtile::tensor_box): a pointer to its map, and the axes of its further dimensions.
  struct Box {
    int map;
    const rtile::Operand* operand;
    std::vector<int> axes;
    Int first;            ///< of the rows
    int64_t rows, pitch;  ///< that come; of which a step in the stage takes the place
    int64_t bytes(int64_t steps) const { return steps * kRowBytes * rows; }
    std::optional<rtile::PixelBox> pixels = {};  ///< the copy unit walks them instead, from this one on: width, height, image
    std::vector<Int> pixel = {};
  };
  Box box(int operand, const std::vector<int>& row_axes, const Int& first, int64_t rows);
  /// ... of the steps of k from `step` on that a stage has: rows of 128 bytes to the place `to` of the ring, `barrier` is told.
  void copy_box(const Box& box, const Int& step, const Int& to, const Address& barrier);
  void copy(const std::vector<Source>& sources, const std::vector<Int>& at, const Int& to);
  /// Both factors' steps of a round into the stage `fill`, but for what is turned.
  void copy_stage(const std::vector<Source>& of_a, const std::vector<Source>& of_b, int round, const Int& fill);
  /// 16 bytes of what is turned, into part `part` of a thread's fragments; and from there to the stage, from `to` on.
  void load_piece(const Source& source, const std::vector<Int>& at, int64_t part);
  void store_piece(const Source& source, const Int& to, int64_t part);
  void zero_sums();
  void settle();
  /// Sums of 16 rows and `together` tiles of columns at a time pass through `sums`, this warp's, and come back as vectors; those of the
  /// tiles [first, end) alone, row by row.
  void epilogue(int sums, int64_t together, int64_t first, int64_t end);
  void epilogue(int sums, int64_t together) { epilogue(sums, together, 0, row_tiles() * column_tiles()); }

 private:
  int64_t count(int a) const;
  void unravel(const std::vector<int>& axes, Int x, std::vector<Int>& at);
  std::vector<Int> point(const std::vector<int>& axes, const Int& x);
  int64_t points(const std::vector<int>& axes) const;
  Int lands(int64_t rows, int64_t pass) const;
  Source source(int operand, const std::vector<int>& axes, const Int& row, const Int& first_k, bool guarded);
  std::vector<Source> gather(int operand, const std::vector<int>& axes, const Int& first, int64_t rows, bool guarded);
  std::vector<Source> gather_turned(int operand, const std::vector<int>& axes, const Int& first, int64_t rows, bool guarded);
  std::vector<Source> gather_elements(int operand, const std::vector<int>& axes, const Int& first, int64_t rows, bool guarded);
  std::vector<Int> conditions(const Source& source, const std::vector<Int>& at);
  std::vector<Source> panel_pieces(const Addressing& m);
  int64_t rows_together() const;
  /// Sums of some rows of a warp: their first row and column in the matrix, the memory where they wait, tiles side by side; rows, and how
  /// far apart those and the tiles are there.
  struct Leaving {
    Int row, column;
    int sums;
    int64_t tiles, rows = 16, pitch = rtile::kFragmentRow, apart = rtile::kFragmentTile;
  };
  bool in_pairs() const;
  void leave(const Leaving& l);
  void leave_columns(const Leaving& l);
  void leave_rows(const Leaving& l);
  void leave_whole(const Leaving& l);
  void leave_part(const Leaving& l);
  void leave_some(const Int& rows, const std::function<void(const Int&)>& leave_row);
  void leave_vector(const std::vector<Int>& at, int sums, const Int& sums_at, const Int& n, int lanes);
  std::vector<Int> result(const Int& row);
  TileParams parameters(const std::vector<Int>& at, const Int& n);
  void by_columns(const Int& n, const std::function<void(const Int& n, int lanes)>& leave);
};

/// Warps that copy and warps that multiply, each at its own pace (specialised.cpp).
int lower_specialised(NestContext& context);

}  // namespace rgen::lower
