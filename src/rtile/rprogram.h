// RProgram: how a tensor program is computed. Tiles per axis, loop order, placement, packing, threads; everything that the model ranks
// and that lowering follows. Immutable once constructed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/math.h"
#include "hwmodel/estimate.h"
#include "rtile/nest.h"
#include "rtile/padding.h"

namespace rgen::rtile {

/// An extent cut into nearly equal blocks: `n_hi` blocks of `hi` units, the rest of hi − 1. A unit is one element, or one vector of
/// `unit` lanes (the last of the extent may be partly filled). No divisor is ever required.
struct Blocking {
  int64_t extent = 1, unit = 1, hi = 1, blocks = 1, n_hi = 1;

  Blocking() = default;
  /// At most `size` elements a block; fewer when equal blocks come out smaller.
  Blocking(int64_t extent_, int64_t unit_, int64_t size) : extent(extent_), unit(unit_) {
    const int64_t units = ceil_div(extent, unit), most = std::max<int64_t>(1, ceil_div(std::min(size, extent), unit));
    blocks = ceil_div(units, most);
    hi = ceil_div(units, blocks);
    n_hi = units - blocks * (hi - 1);
  }
  bool ragged() const { return n_hi != blocks; }
  int64_t units() const { return ceil_div(extent, unit); }
  int64_t size() const { return std::min(hi * unit, extent); }    ///< elements of a full block
  int64_t tail() const { return extent - (units() - 1) * unit; }  ///< elements of the last unit
  int64_t start(int64_t block) const { return (block * hi - std::max<int64_t>(0, block - n_hi)) * unit; }
  /// Of the busiest of so many parts, of which the i-th has the blocks from ⌊blocks · i / parts⌋ on: larger ones come first.
  int64_t most_units(int64_t parts) const;
};

/// Bytes of a step of k on a GPU's tensor cores, and wherever products are staged: a row's.
constexpr int64_t kStepBytes = 64;
/// Of a row that a GPU's thread copies at a time.
constexpr int64_t kPieceBytes = 16;

/// How the products of a contraction are issued.
enum class AtomForm : uint8_t {
  vector,  ///< one multiply-add a lane; operands converted to the accumulation type
  group,   ///< `k_group` products a lane and instruction (vdpbf16ps, vpdpbusd, bfdot, sdot): operands interleaved along k
  warp,    ///< tiles of 16 × 32 sums spread over a warp's registers (mma.sync): rows of a as they lie, b packed in fragments
  staged,  ///< the same, a block's warps sharing both factors in shared memory, stages ahead of the products (Staging)
  matrix,  ///< tiles of 16 rows: accumulators, a and b in tile registers (AMX); b interleaved like `group`'s
};

/// Matrix form: products behind which a register is stored, in time for the next store to be quick (lower/tile_matrix.cpp).
constexpr int64_t kProductsBetweenStores = 16;

/// Matrix form: tile registers; accumulators and row tiles of a have one each, the columns of b take turns in what is left of them.
constexpr int64_t kTileRegisters = 8;
constexpr int64_t registers_of_b(int64_t row_tiles, int64_t columns) {
  return std::min(columns, kTileRegisters - row_tiles * columns - row_tiles);
}

/// One level of the blocked loops around the register tile, outermost first.
struct Loop {
  int axis = 0;
  int64_t step = 1;  ///< blocks of an output axis; elements of a reduced one (a chunk: partial sums go through memory)
};

/// A parallel axis: its blocks are dealt out in `parts` nearly equal runs. Among the warps of a tile (GroupPlan::tile_warps) a reduced one
/// may be dealt out too, in units of the tile (vectors, elements): the warps' partial results meet in shared memory.
struct Parallel {
  int axis = 0;
  int64_t parts = 1;
};

/// Where an access reads from.
enum class Placement : uint8_t {
  direct,   ///< the tensor as the caller laid it out
  prepack,  ///< a constant, packed once into [blocks…][reduced…][register tile] order, padded
  repack,   ///< an activation, packed so before the nest, at every call: the groups of dot products and matrix units do not lie in it
  box,      ///< copied at the head of the task into a buffer with padded rows, out-of-bounds elements filled in
};

struct Operand {
  ir::Access access;  ///< over the nest's axes
  Placement placement = Placement::direct;
  /// It is read in the tile's order, panel after panel.
  bool packed() const { return placement == Placement::prepack || placement == Placement::repack; }
  bool on_lines = false;     ///< box: each of its rows begins a line
  bool whole_steps = false;  ///< ... and is made up with what the packed factor multiplies by zero: the last step of k is a whole one
  bool past_first = false;   ///< matrix form: from the second cache into tile registers, past the first, which keeps the other factor
  bool transposed = false;   ///< vectors are loaded along `transpose_axis` and transposed in registers
  int transpose_axis = -1;
  /// > 0: `transpose_axis` has so many places, side by side, over which the vector axis steps: that many vectors are loaded at once and
  /// taken apart (red, green and blue of a row of pixels; the channels of a small group).
  int64_t neighbours = 0;
  /// > 0: with each line read, the one so many elements further on is fetched: of a packed operand into the first cache
  /// (Planner::fetch_ahead), of a direct one towards the second (a fused group's next tile, rows that a window will come to).
  int64_t ahead = 0;
  int64_t streams = 1;      ///< packed: so many panels of each tile, along the vector axis, each a row of its own through all tiles
  bool passes_by = false;   ///< ... whose rows a product takes from beyond the second cache, each once
  bool contiguous = false;  ///< ... and those of a tile follow one another without a gap: their lines are asked for in that order
  /// > 0: each step of the reduction is on other lines of it, of more rows than prefetchers follow: with each line that a step reads, it
  /// asks for the one so many elements further on, a later step's.
  int64_t next_step = 0;
  /// Its loads stay in the order of the program: rows from memory, of the first nest of a fused group to read them, and sums down columns
  /// of rows that are walked one after the other (Planner::read_in_order).
  bool in_order = false;
  int slides = -1;  ///< ... and only with lines that no earlier place of the tile along this axis read: a window slides along it
};

/// The most places side by side for which vectors are taken apart, rather than transposed.
constexpr int64_t kNeighbours = 8;

/// The distinct accesses of a nest: shared by its many plans, copied when one of them changes a placement.
class Operands {
 public:
  Operands() = default;
  Operands(std::vector<Operand> all) : all_(std::make_shared<const std::vector<Operand>>(std::move(all))) {}  // NOLINT
  size_t size() const { return all_ ? all_->size() : 0; }
  const Operand& operator[](size_t i) const { return (*all_)[i]; }
  auto begin() const { return all_->begin(); }
  auto end() const { return all_->end(); }
  template <class F>
  void change(size_t i, F&& f) {
    auto copy = std::make_shared<std::vector<Operand>>(*all_);
    f((*copy)[i]);
    all_ = std::move(copy);
  }

 private:
  std::shared_ptr<const std::vector<Operand>> all_ = std::make_shared<const std::vector<Operand>>();
};

/// A contraction as a matrix product of a thread block: row m of a is the m-th point of `row_axes` (implicit GEMM: nothing is gathered in
/// memory). Columns are the vector axis', in blocks of its tile.
struct Staging {
  std::vector<int> row_axes, batch_axes;  ///< output axes of a alone; of both factors. Outermost first
  Blocking rows;                          ///< the product of the row axes' extents, in units of 16; the last block may be partly filled
  int warp_rows = 1, warp_columns = 1;    ///< warps of a block
  int stages = 2, depth = 1;              ///< buffers; steps of k in each
  /// Who multiplies: a warp's tensor core, from registers (mma.sync); four warps', 64 rows straight from shared memory (wgmma; one column
  /// of warps); every lane for itself, 4 × 4 of a tile of 16 × 32 sums.
  enum class Unit : uint8_t { warp, group, lane } unit = Unit::warp;
  /// How threads copy a factor: 16 bytes of a row at a time; of unit lane, whose stages have all rows of one k after the other, what was
  /// packed so, or 4 bytes at a time, of 4 rows 8 neighbours along k, or of one k 32 neighbouring rows; or where rows begin at multiples of
  /// 16 bytes, by way of registers, 4 neighbours along k of 8 rows at a time (`turned`).
  enum class Copies : uint8_t { pieces, along_k, along_rows, turned } copies_a = Copies::pieces, copies_b = Copies::pieces;
  int64_t raster = 1;  ///< row blocks that neighbouring tasks walk before the next column; divides rows.blocks
  /// Of unit group: neighbouring row blocks that run at once and bring a packed factor for each other (a thread block cluster); divides
  /// `raster`. Blocks that are launched, a multiple of it: each walks tasks `grid` apart.
  int cluster = 1;
  int64_t grid = 0;
  /// Of unit group, else 1: blocks of a cluster that share a task. Each multiplies so many-th of its rounds; then each finishes some of the
  /// tiles of sums, to which it adds the others' (CUTLASS and cuBLAS: split k, here without a pass through memory). Tasks are not walked.
  int parts = 1;
  int together() const { return cluster * parts; }  ///< blocks of a cluster; one of both is 1
  /// Unit lane: rows of a tile that are so far apart are a lane's, columns likewise, and take four places side by side in a stage; their
  /// sums leave one by one, without bank conflicts, and so need not lie in neighbouring registers, whose banks the products ask for.
  static constexpr int64_t kLaneRows = 4, kLaneColumns = 8;
  /// Unit lane: so many k have their factors in registers, 1 or 2: while one is multiplied, the next is on its way.
  int factor_sets = 1;
  /// Results that lie along the rows, not along the columns (planes of an image): so many rows, points of the last row axes, are neighbours
  /// in all that is stored, and neighbours or the same in what the epilogue reads. 1: the columns are, or nothing is.
  int64_t line = 1;
  static constexpr int64_t kOfLine = 16;  ///< ... of which so many leave at a time, one column after the other
  bool one_axis = false;  ///< all that has to do with results sees the row axes as one: its address is a multiple of the row
  /// Of unit group: groups of warps that take the block's tasks by turns; while the sums of one leave, the other multiplies (CUTLASS,
  /// "ping-pong").
  int turns = 1;               ///< 1 or 2
  bool tensor_copies = false;  ///< of unit group: the copy unit brings boxes of what is not packed (tensor_box), a thread asks for them
  int warps() const { return task_warps() * turns; }           ///< that multiply
  int task_warps() const { return warp_rows * warp_columns; }  ///< ... a task
  /// Warps that only copy. Their like have registers to spare, but sums of 128 columns and more leave none for addresses.
  int producers() const { return unit == Unit::group ? 4 : 0; }
  int threads() const { return 32 * (warps() + producers()); }
  int64_t block_rows() const { return rows.hi * rows.unit; }
  /// Results may be stored twice: nothing that is stored is read. The last block then begins so early that all its rows are inside the
  /// matrix, if there are as many: no bounds to be checked, and none that the copy unit takes longer for.
  bool repeatable = false;
  bool ends_inside() const { return repeatable && rows.extent > block_rows() && rows.extent % block_rows() != 0; }
  /// Of so many rows of a factor: those that a step takes the place of. Four more put 8 neighbours along k of 4 rows in different banks.
  static int64_t pitch(int64_t rows, Copies copies) { return rows + (copies == Copies::along_k || copies == Copies::turned ? 4 : 0); }
  int64_t row_tiles() const { return rows.hi / warp_rows; }  ///< of 16 rows, a warp's
  /// Stages that are being copied while one is multiplied; a group's products may still be under way when the next begin.
  int ahead() const { return stages - (unit == Unit::group ? 2 : 1); }
  /// Unit group: rounds of copies that a producer has under way before it says that the oldest is there. One fewer than `ahead`, so that
  /// consumers hear of a stage while they have another one left.
  int lag() const { return std::max(1, ahead() - 1); }
};

/// Software write-combining (Wassenberg and Sanders, "Engineering a Multi-core Radix Sort", Euro-Par 2011) of results whose rows do not
/// begin lines: pieces of several rows are collected in a buffer, from which whole lines stream to memory; what is left of a row's last
/// line waits there for the row's next piece.
struct WriteCombining {
  int along = 0, rows = 0;              ///< the axis of a piece, contiguous in the result; the one over the rows of the buffer
  bool whole = false;                   ///< rows follow one another in the result, and those of the buffer are one piece
  static constexpr int64_t kLine = 16;  ///< f32 elements
};

struct NestPlan {
  int vec = 0;                     ///< the vectorised axis
  int lanes = 1;                   ///< lanes used of it by one vector (the vector length; 1 = scalar code)
  std::vector<Blocking> tile;      ///< per axis: register tile of an output axis, unrolling of a reduced one
  std::vector<Loop> loops;         ///< every output axis ends with step 1; reduced axes appear only when chunked
  std::vector<int> reduce_order;   ///< loops inside the register tile, outermost first; the last one is unrolled
  bool window = false;             ///< values loaded for one unrolled step of the reduction are kept for the next ones
  std::vector<Parallel> parallel;  ///< outermost; empty = serial
  int block_tasks = 1;             ///< neighbouring tasks that run together: warps of a GPU's thread block
  int block_rows = 1;  ///< ... as a rectangle: so many along the last parallel axis but one, which they divide as the rest divides the last
  AtomForm form = AtomForm::vector;
  std::shared_ptr<const hw::Atom> atom;    ///< a copy: plans outlive the profile
  int k_axis = -1;                         ///< group and matrix: the axis whose neighbours one instruction multiplies
  int k_group = 1, k_step = 1;             ///< ... interleaved so many at a time; elements of k that one instruction takes
  int k_multiple = 1;                      ///< form staged: its steps of k are made up to a multiple of so many by zeros
  int m_axis = -1;                         ///< matrix: the axis along the rows of a tile
  int operand_a = -1, operand_b = -1;      ///< group and matrix: row (broadcast) and vector operand (indices into operands)
  bool offset_a = false;                   ///< signed bytes through an unsigned operand: sign bit flipped, corrected by the packed sums
  std::shared_ptr<const Staging> staging;  ///< form staged
  Operands operands;                       ///< the distinct accesses of the nest
  int finish_axis = -1;                    ///< ≥ 0: sums of a reduced vector axis are finished and stored as vectors along this axis
  int store_transpose_axis = -1;           ///< ≥ 0: results are transposed in registers and stored along this axis
  int64_t store_neighbours = 0;  ///< > 0: ... which has so many places side by side (Operand::neighbours): vectors are interleaved
  bool stream = false;           ///< f32 results go past the caches: they would leave them before anyone reads them
  /// f32 results go past the caches by way of a buffer (and `stream`). Loops end with: rows of the buffer, its pieces, both one by one.
  std::optional<WriteCombining> combining;
  /// f32 results go past the caches (`stream`) from the first line that begins in each row to the last; parts of lines are stored as usual.
  /// Tiles have one row, and the loop over the vectors is the last.
  bool peeled = false;
  bool apart = false;         ///< tiles are procedures of their own: constants of an epilogue, or of other nests of the fused group, lifted
                              ///< out of loops around inlined ones, or copies of the tile beside it would take the accumulators' registers
  bool copies_alone = false;  ///< padded copies are made by one worker: so small that starting the others takes longer
  bool guarded = false;       ///< some direct access can leave its tensor: border tiles take a guarded copy of the code
  std::shared_ptr<const std::vector<PaddedTaps>> taps;  ///< the nest's; nullptr: every step is done
  hw::Estimate estimate;

  /// combining: elements of a row in the buffer, rows, and its elements from row to row: what waits and the row; an odd number of lines,
  /// so that rows fall into different sets.
  int64_t buffered_columns() const { return covered_by(loops[loops.size() - 3]); }
  int64_t buffered_rows() const { return covered_by(loops[loops.size() - 4]); }
  int64_t buffered_pitch() const {
    return combining->whole ? buffered_columns() : WriteCombining::kLine * ((ceil_div(buffered_columns(), WriteCombining::kLine) + 1) | 1);
  }
  int64_t piece() const { return buffered_columns() * (combining->whole ? buffered_rows() : 1); }
  /// Elements of a step of the loop, over an output axis.
  int64_t covered_by(const Loop& l) const {
    const Blocking& t = tile[size_t(l.axis)];
    return std::min(t.extent, l.step * t.hi * t.unit);
  }
  bool interleaved() const { return form != AtomForm::vector; }
  /// Bytes of b that become the 16 bits of an instruction where they are loaded; b's elements have so many bytes.
  bool widens_b(int element_bytes) const { return form == AtomForm::group && element_bytes < size_of(atom->b); }
  bool repacks_b() const { return operand_b >= 0 && operands[size_t(operand_b)].placement == Placement::repack; }
  /// offset_a: the padded copy has the sign bits flipped, and the tiles read it as it is.
  bool copy_flips() const { return offset_a && operands[size_t(operand_a)].placement == Placement::box; }
  /// Form staged: columns of a block; tiles of 32 of them, a warp's; steps of k over all reduced axes.
  int64_t block_columns() const { return tile[size_t(vec)].hi * tile[size_t(vec)].unit; }
  int64_t column_tiles() const { return tile[size_t(vec)].hi / staging->warp_columns; }
  int64_t k_steps(const Nest& nest) const;
  /// Matrix: elements of the last step along k that rows of a have, if it is not a whole one; they are copied before each tile.
  int64_t partial_step(const Nest& nest) const;
  int64_t steps_along(const Nest& nest, int axis) const;  ///< of which those of one reduced axis
  bool tiled() const { return form == AtomForm::matrix || form == AtomForm::warp; }
  /// The output axes in the order in which the points of a register tile are walked, outermost first: the longest side outermost, so that
  /// what waits in registers is the shorter one's; a vectorised axis innermost.
  std::vector<int> point_axes(const Nest& nest) const;
  /// Matrix form: the rows of each accumulator tile of a register tile with `size` elements per axis (other axes unrolled outside).
  std::vector<int64_t> row_tiles(const std::vector<int64_t>& size, const Nest& nest) const;
  /// ... of a whole one.
  std::vector<int64_t> row_tiles(const Nest& nest) const;
  /// Matrix form: wherever a tile lies but at the beginning of its axis, the row of a before its first can be loaded.
  bool has_row_before() const { return operands[size_t(operand_a)].placement == Placement::direct && !taps && !guarded; }
  /// The axis of the innermost loop that has more than one block of it; −1: none has.
  int innermost_axis() const;
  /// Matrix form: the axis along which the results of a tile leave beside the next tile's products; −1: none.
  int run_axis() const;
  /// Blocks [from, to) of an output axis that are alike: so many units each, the last of them partly filled or not.
  struct Run {
    int64_t from, to, units;
    bool partly;
    int64_t length() const { return to - from; }
  };
  std::vector<Run> runs(int axis) const;
  /// The axis that is dealt out to a tile's warps; −1: none.
  int dealt_axis() const { return parallel.empty() ? -1 : parallel.front().axis; }
  int64_t tasks() const {
    int64_t n = 1;
    for (const Parallel& p : parallel) n *= p.parts;
    return n;
  }
  bool chunked() const;  ///< a reduced axis among `loops`
  /// Of an operand that passes by: for the lines of later tiles in their order, each once; else for each row at every body.
  bool asks_line_by_line(const Operand& o) const { return o.contiguous && !chunked(); }
  /// How steps that read padding are left out.
  enum class LeftOut : uint8_t {
    nowhere,
    tiles,   ///< the loop over the taps goes from the first to the last that some place of the tile needs
    steps,   ///< the taps are written out, each passed over where the tile's one place reads outside
    points,  ///< the taps are written out, each without the points that read outside
  };
  LeftOut left_out(const PaddedTaps& t) const;
  /// Vectors of fewer than 512 bits: loads take no masks of other kinds, or none at all.
  bool masks_are_vectors() const { return lanes > 1 && lanes <= 8; }
  /// Where masks are vectors, those that are needed in part are read whole but at the ends of their tensors: masked loads take half as long
  /// again of lines that are not in the first cache (Zen 3), and the tile's copy for the end costs nothing. In rows of many vectors those
  /// in part are too few.
  bool reads_on() const { return masks_are_vectors() && tile[size_t(vec)].units() <= 16; }
  /// The taps of a reduced axis, if steps of it are left out; else nullptr.
  const PaddedTaps* taps_along(int axis) const;
};

/// To which a tile of a group's local tensor is aligned in a warp's part of shared memory.
constexpr int64_t kWarpAlignment = 16;

struct GroupPlan {
  Group group;                   ///< nests with simplified axes
  std::vector<Blocking> shared;  ///< per shared axis
  std::vector<NestPlan> nests;   ///< planned for a full shared tile
  int64_t tasks = 1;             ///< of the shared tiles (a single nest parallelises itself)
  hw::Estimate estimate;
  int block_tasks = 0;  ///< > 0: every tile is a task of one warp of a GPU, and so many neighbouring ones are a thread block
  /// ... or of so many warps, which are a thread block then: a nest's NestPlan::parallel says which part of the tile is whose; without it
  /// all of them do the same.
  int tile_warps = 1;
};

/// Do all warps of a tile compute the statement for themselves? They do what no axis is dealt out of, and what follows a reduction of which
/// each has a part: then each has the whole result.
bool by_all_warps(const Nest& nest, const NestPlan& plan, const Statement& s);
/// A reduced axis is dealt out to the warps of a tile.
bool in_parts(const Nest& nest, const NestPlan& plan);
/// Numbers that wait in shared memory for each of its reductions, of so many warps. Sums along the lanes are single numbers, those of the
/// warps side by side; others are vectors.
int64_t partial_results(const Nest& nest, const NestPlan& plan, int warps);

struct RProgram {
  std::vector<GroupPlan> groups;
  std::shared_ptr<const ir::TensorProgram> extended;  ///< the planned program and the tensors of its rewriting (Rewritten); nullptr: none
  int threads = 1;
  int vector_bits = 0;
  /// The program whose nests are planned: `given`, or with further tensors.
  const ir::TensorProgram& planned(const ir::TensorProgram& given) const { return extended ? *extended : given; }
};

/// One distinct access of a nest: all reads with the same tensor and index are the same.
int find_operand(const Operands& operands, const ir::Access& access);
std::vector<Operand> collect_operands(const Nest& nest);
/// How many operands of the nests each tensor is.
std::vector<int> count_reads(const ir::TensorProgram& program, const std::vector<Nest>& nests);
/// Will every plan of the nest prepack the constant that it reads so (Planner::add_forms)? `reads`: count_reads of all nests.
bool packable(const ir::TensorProgram& program, const Nest& nest, const ir::Access& access, const std::vector<int>& reads);

}  // namespace rgen::rtile
