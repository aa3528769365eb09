// What the parts of lowering share while one nest becomes procedures: where tensors live, how operands are addressed, fresh names.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lower/loop_program.h"
#include "rtile/nest_facts.h"
#include "rtile/rprogram.h"

namespace rgen::lower {

/// Where a tensor's elements are: a buffer and strides. A tile buffer holds one tile of the shared axes, so their origin is not added.
struct Location {
  int buffer = -1;
  std::vector<int64_t> strides;
  bool tile_local = false;
  /// For whole vectors where parts of them are stored: at the ends of rows; of a single one, from each of its elements on.
  enum class Room : uint8_t { none, ends, anywhere } room = Room::none;
};

/// An operand's address, in elements of its buffer:
///   constant + Σ_axis ( value·(start of the block, or value of the reduced axis) + block·(block number) + inside·(offset in the tile)
///                       + chunk·(start of the chunk) )
struct Addressing {
  int buffer = -1;
  std::vector<int64_t> value, block, inside, chunk;  ///< per axis
  int64_t constant = 0;
  bool tile_local = false;
  bool padded = false;  ///< whole vectors may be read at the tail (packed)
  bool groups = false;  ///< whole groups of integers may be read at the tail (a padded copy)
  int64_t stream = 0;   ///< > 0: from one stream of the tile to the next along the vector axis: `inside` counts within one alone
  int64_t stream_columns = 0;
  bool combined = false;    ///< in the buffer of NestPlan::combining: `value` counts from where it begins (TileParams::base)
  int64_t correction = -1;  ///< group form with signed × signed bytes: offset of the sums after a block's panel (in elements)
};

/// One program being built.
class Builder {
 public:
  explicit Builder(LoopProgram& p) : program(p) {}
  LoopProgram& program;
  /// Activations that are packed already, with what tells one packing from another: the copies of a fused group's tile share them.
  std::vector<std::pair<std::vector<int64_t>, Addressing>> repacked;

  int variable(const std::string& name, int64_t lo, int64_t hi);  ///< names are made unique on printing clashes
  int pointer(int buffer, const std::string& name);
  int reg(const std::string& name, bool integer, int array = 0);
  int proc(Proc p) {
    program.procs.push_back(std::move(p));
    return int(program.procs.size()) - 1;
  }
  std::pair<int64_t, int64_t> range(const Int& i) const;  ///< over the variables' ranges
  /// ⌊x / by⌋: a new variable of the body unless it is known.
  Int quotient(Body& body, const std::string& name, const Int& x, int64_t by);
  Int remainder(Body& body, const std::string& name, const Int& x, int64_t by);
  /// Blocking::start of a block that is at most the `last`: (b·hi − max(0, b − n_hi))·unit.
  Int start(Body& body, const rtile::Blocking& t, const Int& block, int64_t last);
  /// The place of the x-th row (column) in a stage of rtile::Staging's unit lane: those of a lane, `apart` from each other, side by side.
  Int place_in_lanes(Body& body, const Int& x, int64_t apart);
  /// Of `count` items dealt out in nearly equal runs to `tasks`: where the task's run begins and ends.
  std::pair<Int, Int> share(Body& body, int task, int64_t count, int64_t tasks);
  /// A pointer to a buffer on the stack of the procedure with this body.
  int local(Body& body, const std::string& name, DType dtype, int64_t elements);
  /// A buffer behind what the workspace has so far: one, or one for each of several tasks, half a page and more from the next one's.
  int workspace(const std::string& name, DType dtype, int64_t elements, int64_t tasks = 1, bool byte_wide = false);

 private:
  bool half_page_ = true;                            ///< where the next large buffer begins
  int64_t page_ = 0, page_tasks_ = 0, in_page_ = 0;  ///< of the short buffers of so many tasks: where they are, bytes taken of each task's
};

/// A number that counts through the places of several axes, taken apart by integer lets, the outermost axis first.
class Places {
 public:
  Places(Builder& b, Body& body, Int number, int64_t count) : b_(b), body_(body), rest_(std::move(number)), remaining_(count) {}
  Int next(const std::string& name, int64_t extent);

 private:
  Builder& b_;
  Body& body_;
  Int rest_;
  int64_t remaining_;
};

/// Added to a group of four signed bytes without carries, or in its place: their values, 128 more, as unsigned ones.
constexpr auto kSignBits = int32_t(0x80808080u);

/// Matrix form: elements of an accumulator tile in the buffer through which sums leave the tile registers.
constexpr int64_t kSumsOfTile = 256;

/// A nest being lowered.
struct NestContext {
  Builder& builder;
  const ir::TensorProgram& program;
  const rtile::Nest& nest;
  const rtile::NestPlan& plan;
  std::map<int, Location> location;    ///< tensor → where it is
  std::vector<Addressing> addressing;  ///< per plan operand
  std::vector<int> origin;             ///< per axis: variable of the shared tile's origin, or −1
  std::vector<Location> accumulator;   ///< per inner statement: where partial sums wait between chunks (chunked reductions)
  std::string prefix;                  ///< of procedure names
  int64_t workers = 1;                 ///< tasks that may copy operands before the nest
  std::optional<rtile::Contraction> contraction = {};
  int combined = -1;  ///< the buffer of plan.combining
  /// Of a tile that several warps share: the variable of the warp's number (−1: one has it alone), how many they are, and per inner
  /// statement the shared memory for the partial results of a reduced axis that is dealt out to them.
  int warp = -1, tile_warps = 1;
  std::vector<int> partials = {};
  /// Matrix form, chunked: where partial sums wait, whole tiles as they are in the registers, those of the loops inside the chunks.
  struct Waiting {
    int buffer = -1;
    std::vector<int64_t> block = {};  ///< elements from block to block, per axis
  };
  Waiting waiting = {};
  const ir::Tensor& tensor_of(int operand) const { return program[plan.operands[size_t(operand)].access.tensor]; }
  /// Matrix form: elements of a whole register tile's sums.
  int64_t sums_of_tile() const { return int64_t(plan.row_tiles(nest).size()) * plan.tile[size_t(plan.vec)].hi * kSumsOfTile; }
};

/// Variables through which a tile procedure learns where it is; −1 where the value is constant.
struct TileParams {
  std::vector<int> start, block;   ///< per output axis
  std::vector<int> begin, end;     ///< per chunked reduced axis
  std::vector<int> base;           ///< per output axis: where the buffer of NestPlan::combining begins
  int part = -1;                   ///< TileVariant::part: the lanes
  int run_from = -1, run_to = -1;  ///< TileVariant::run: the first block and the one behind the last
  int sums = -1;                   ///< form staged: where the sums of the tile's points lie, a vector each; of a run: the buffer (pointers)
  Int sums_at = 0;                 ///< ... from this element on
  int64_t sums_apart = 1;          ///< ... from lane to lane, as many as the tile's variant has
  std::vector<Int> known = {};     ///< not negative wherever the tile is called
};

/// One copy of the register tile's code.
struct TileVariant {
  std::vector<int64_t> size;  ///< per axis: elements of the tile; of the vectorised output axis: vectors
  int tail = 0;               ///< lanes of the last vector (lanes: all)
  bool guarded = false;       ///< accesses may leave their tensors
  bool sides = false;         ///< ... but only lanes of vectors, all of which may be read whole (NestPlan::masks_are_vectors)
  bool part = false;          ///< one vector, of which as many lanes as a variable says (NestPlan::peeled)
  bool at_end = false;        ///< parts of vectors may be the last of their tensors (reads_on)
  bool run = false;           ///< blocks of NestPlan::run_axis one after the other, the results of each beside the next one's products
  auto operator<=>(const TileVariant&) const = default;
};

/// A nest of form staged: the procedure of a block, proc(task, thread).
int lower_staged(NestContext& context);

/// What follows the reduction at the points of a tile whose sums are in memory (TileParams::sums).
Body lower_epilogue(NestContext& context, const TileParams& params, const TileVariant& variant);

/// The types of a contraction's factors, in the names of products: "f16", "u8s8".
std::string factors(const NestContext& context);

/// Where a vector of the operand is needed in part, may a tile that is not at its end read all of it? (NestPlan::reads_on)
bool reads_on(const NestContext& context, int operand);

/// Is it read along the plan's vectors, lanes of which may be outside of it, by loads that may take whole vectors (TileVariant::sides)?
bool masked_where_read(const NestContext& context, int operand);

/// A GPU's statements in an order in which loads do not wait behind stores of other buffers: about `ahead` of them under way before the
/// first store, more would take the registers of other warps.
Body loads_first(const LoopProgram& program, Body body, int ahead = 12);

/// Stores of 16-bit vectors that are neighbours, as one: a GPU's, of a body without loops in which nothing is read after it is stored.
Body pair_stores(const LoopProgram& program, Body body);

/// Tiles of NestPlan::run_axis, whose blocks are alike (TileVariant::run), as a procedure.
Proc lower_run(NestContext& context, const TileParams& params, const TileVariant& variant, const std::string& name);

/// The register tile as a procedure.
Proc lower_tile(NestContext& context, const TileParams& params, const TileVariant& variant, const std::string& name);

/// Strides and buffers of every operand under the plan's placements; packed buffers and their packing procedures are created.
void place_operands(NestContext& context);

/// The prepack procedure of operand `i` (placement prepack): fills `addressing[i]`.
void lower_prepack(NestContext& context, int operand);
/// The copy of operand `i` in the order of the tiles (placement repack), as a region before the nest: fills `addressing[i]`.
void lower_repack(NestContext& context, int operand);
/// The copy of operand `i` into a padded buffer (placement box), as a region before the nest: fills `addressing[i]`.
void lower_box(NestContext& context, int operand);

/// Gives the tile registers the shapes of a variant (matrix form): rows of the accumulator tiles, then columns.
Stmt configure_tiles(const NestContext& context, const std::vector<int64_t>& rows, int64_t columns);

/// Procedure(s) of a whole nest; returns the one to call: proc(task) when parallel, proc(origins…) otherwise.
int lower_nest(NestContext& context);

}  // namespace rgen::lower
