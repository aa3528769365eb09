// The f64 evaluation of one stage, a block of points at a time: `Block` holds the axis values of up to 256 points, `StageCode` computes
// the body's value and error magnitude at all of them with one pass per operation.
//
// The magnitude of a value v is what its rounding error scales with: a computation in f32 differs from v by at most about
// k·2^-24·magnitude, where k grows with the depth of the expression and the length of its reductions (docs/tolerances.md). Per operation,
// to first order:
//
//   leaf v            |v|                              x + y, x − y     mx + my
//   x · y             |x|·my + mx·|y| − |x·y|          x / y            mx/|y| + |x|·my/y² − |x/y|
//   min, max          max(mx, my)                      f(x)             |f(x)| + |f'(x)|·mx
//   Σ, Π              by + and ·, term after term      max, min over    the largest of the terms'
//   comparison        the result's                     select           that of the arm taken
//   cast, floor       the result's
//
// Where the operand of a comparison, a select, a cast or a floor stands so near a jump that its error may cross it, the height of the
// jump is added (in units of 2^-24). Operands that are exact by construction (inputs, axes, integer sums) never do.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::ir::reference {

constexpr int block_size = 256;
constexpr double unit_roundoff = 0x1p-24;

using Row = std::array<double, block_size>;
using IntRow = std::array<int64_t, block_size>;

/// Values and magnitudes of a tensor that a stage writes; pages exist once something in them is known.
class Plane {
 public:
  static constexpr int page_bits = 12;
  struct Page {
    std::array<double, size_t{1} << page_bits> value, magnitude;
    std::array<bool, size_t{1} << page_bits> known{};
  };
  explicit Plane(int64_t elements) : pages_(size_t((elements >> page_bits) + 1)) {}

  const Page& page(int64_t i) const { return *pages_[size_t(i >> page_bits)]; }
  static size_t slot(int64_t i) { return size_t(i) & ((size_t{1} << page_bits) - 1); }
  bool known(int64_t i) const { return pages_[size_t(i >> page_bits)] && page(i).known[slot(i)]; }
  void set(int64_t i, double value, double magnitude) {
    auto& p = pages_[size_t(i >> page_bits)];
    if (!p) p.reset(new Page);  // not make_unique: it would clear the values too
    p->value[slot(i)] = value;
    p->magnitude[slot(i)] = magnitude;
    p->known[slot(i)] = true;
  }
  size_t n_pages() const { return pages_.size(); }
  std::unique_ptr<Page> take_page(size_t i) { return std::move(pages_[i]); }

 private:
  std::vector<std::unique_ptr<Page>> pages_;
};

/// A tensor as the evaluation sees it: an input in memory, or a plane.
struct Source {
  DType dtype = DType::f32;
  std::vector<int64_t> shape, strides;  ///< strides of a plane are row-major
  const void* data = nullptr;           ///< of an input
  const Plane* plane = nullptr;         ///< otherwise
  bool exact = true;                    ///< its values carry no rounding error
  bool round_on_read = false;           ///< an output kept unrounded: readers see it in its dtype
};

/// Axis values of the points evaluated together; an axis is `fixed` where all points agree.
struct Block {
  int size = 0;
  std::vector<IntRow> axis;
  std::vector<bool> fixed;
};

/// The body of a stage as a list of operations on rows.
class StageCode {
 public:
  /// `extents` of the stage's axes. `keep_last_cast`: false leaves out the body's outermost cast.
  StageCode(const Expr& body, const std::vector<Source>& sources, const TensorProgram& program, bool keep_last_cast);
  ~StageCode();

  /// The rows of the result; valid until the next call.
  void run(const Block& block, const Row*& value, const Row*& magnitude);
  bool exact() const;          ///< the result carries no rounding error
  int64_t operations() const;  ///< scalar operations per point, at least 1

  struct Op;

 private:
  int compile(const Expr& e, int depth);
  void load(const Op& op, const Block& block);

  const std::vector<Source>& sources_;
  const TensorProgram& program_;
  std::vector<Op> ops_;
  std::vector<Row> value_, magnitude_;  ///< one row per level of nesting
};

}  // namespace rgen::ir::reference
