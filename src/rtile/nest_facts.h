// What a nest asks of memory and registers, whatever the loops around its tile: its accesses as coefficients, footprints, counts of
// operations, the registers of a tile.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "rtile/rprogram.h"

namespace rgen::rtile {

/// Of a matrix form's rows of a, whose coefficients (elements) these are: the share that lies across two lines.
double rows_across_lines(const Nest& nest, const std::vector<int64_t>& coef, const NestPlan& plan, int element_bytes);

/// Facts about a nest that every plan of it shares; computed once.
struct NestFacts {
  struct OperandFacts {
    int tensor = 0, element_bytes = 4;
    bool affine = true;
    std::vector<int64_t> coef;    ///< per axis, elements of the tensor
    int64_t constant = 0;         ///< ... and what is added to them
    struct Box {                  ///< a padded copy of it
      std::vector<int64_t> coef;  ///< as above; empty where there can be none
      int64_t rows = 0, row = 0;  ///< so many, of so many elements
      double spread = 1;          ///< so many times the tensor's place: borders, and what lies between rows
    };
    Box boxes[2];                    ///< the second: whose rows all begin lines
    std::vector<int64_t> box_shape;  ///< BoxLayout::shape
    const Box& box(const Operand& o) const { return boxes[o.on_lines]; }
    std::vector<std::vector<int64_t>> dim_coef;  ///< [dimension][axis]
    struct Walk {
      size_t dimension, axis;
      int64_t coef;  ///< |dim_coef|, not 0
    };
    std::vector<Walk> walks;              ///< dim_coef without its zeros, last dimension first
    std::vector<int64_t> shape, strides;  ///< the tensor's
    std::vector<int> guards;              ///< dimensions that can leave the tensor
    std::vector<double> outside;          ///< ... and of each the share of the indices reached that do
    bool is_store = false;
    bool inner = true;  ///< read (written) at every point, not only after the reduction
  };
  std::vector<int64_t> extents, full_extents;  ///< the nest's
  std::vector<OperandFacts> operands;          ///< reads (as NestPlan::operands), then one per stored statement
  size_t reads = 0;
  int products = 0;        ///< inner sum statements that are one multiply-add
  bool contracts = false;  ///< ... whose factors are used again along output axes, not those of squares
  bool slides = false;     ///< a dimension is walked by a reduced and by an output axis: neighbouring steps read the same
  struct Function {
    std::string_view name;    ///< as in a profile
    std::vector<bool> along;  ///< the axes on which its argument depends: points that differ in others share one evaluation
    double times = 0, instructions = 0;
  };
  std::vector<Function> inner_functions, outer_functions;  ///< of every point; after the reduction
};
/// A function of the profile that is computed as a polynomial, whose coefficients take registers.
bool transcendental(std::string_view function);
/// Vectors of results, each a sum (or maximum) of values that no other result takes: sums down columns, neither products nor windows.
bool sums_columns(const Nest& nest, const NestFacts& facts, int vec);
std::vector<NestFacts::OperandFacts::Walk> walks_of(const std::vector<std::vector<int64_t>>& dim_coef);
NestFacts nest_facts(const ir::TensorProgram& program, const Nest& nest);

/// The two factors of a sum of products of affine accesses, casts stripped.
struct Contraction {
  const ir::Access *x = nullptr, *y = nullptr;
};
/// Nothing if the nest's one inner statement is no such sum.
std::optional<Contraction> contraction(const Nest& nest);

/// Readings of an element from which a copy in another layout or type can pay.
constexpr int64_t kWorthCopying = 8;

/// What comes with the elements that are asked for.
enum class Fetch {
  rows,     ///< CPU: the lines that the ends of rows are in, and what a strided walk steps over inside of a page, which prefetchers bring
  sectors,  ///< GPU: at least a line a row; neighbouring tiles run at once and share the others; what is stepped over is not fetched
  packed    ///< nothing: they are laid out in the tile's order
};
/// Bytes of an operand touched while the axes cover `extents`, on average over all places of such a box in the tensor.
double footprint_bytes(const NestFacts::OperandFacts& o, std::span<const int64_t> extents, int line_bytes, Fetch fetch);
/// How a plan's operand comes: packed, or as the machine fetches what is not.
inline Fetch fetch_of(const NestFacts& facts, const NestPlan& plan, size_t operand, Fetch unpacked) {
  return operand < facts.reads && plan.operands[operand].packed() ? Fetch::packed : unpacked;
}

/// GPU: shared memory of one warp, through which fragments become rows; and what a block has without being asked for more.
int64_t shared_bytes(const NestPlan& plan);
constexpr int64_t kStaticShared = 48 << 10;
constexpr int64_t kFragmentRow = 40, kFragmentTile = 16 * kFragmentRow;  // rows apart by 40: no bank conflicts
constexpr int64_t kFragmentPairRow = 72;                                 // of two tiles side by side, and so is this

/// Form staged: a block's shared memory. Unit group: stages, two barriers for each, one for each turn, then a tile of rows of every warp's
/// sums, which leave while the stages are filled for the next task; else the rows take the stages' place. Bytes, from the start.
struct BlockMemory {
  static constexpr int64_t kBarrier = 8;  ///< bytes of one
  int64_t stage = 0;                      ///< of one
  int64_t barriers = 0, rows = 0, bytes = 0;
};
BlockMemory block_memory(const NestPlan& plan);

/// Vector registers that the tile needs at once.
int registers_needed(const Nest& nest, const NestFacts& facts, const NestPlan& plan);
/// Both factors of the products go from memory into a register and from there into the products, so that nothing else needs one between.
bool used_as_loaded(const Nest& nest, const NestFacts& facts, const NestPlan& plan);

}  // namespace rgen::rtile
