// The search behind plan_nest, in three steps: starts (plan_starts.cpp), register tiles (plan_tiles.cpp), loops and launches
// (plan_loops.cpp). Internal to this folder.
#pragma once
#include <algorithm>
#include <limits>
#include <optional>

#include "rtile/plan_nest.h"

namespace rgen::rtile {

class Planner {
 public:
  /// Pre: keep > 0, of the plans.
  Planner(const Nest& nest, const PlanContext& c, int keep);
  std::vector<NestPlan> run();

 private:
  static constexpr size_t kLoops = 4;
  static constexpr int kEven = 8;              ///< register tiles that go on because workers share their blocks evenly
  static constexpr double kCacheTile = 0.001;  ///< by which a further loop should be faster
  static constexpr double kCopy = 0.02;        ///< by which a padded copy should be
  struct Scored {
    NestPlan plan;
    double us;
    size_t start;          ///< whose it is
    bool near;             ///< timed without memory, as are those that loops will bring their operands near for: not comparable with others
    bool uses_up = false;  ///< no other makes as much of an element of a factor that takes long to come: how it computes does not decide
  };

  /// The choices before any tile: vector axis, form, placement of operands, transposes.
  struct Start {
    NestPlan plan;
    int tile_axis = -1;  ///< an axis whose tile is fixed by a transpose
    int64_t tile_size = 0;
  };

  const Nest& nest_;
  const PlanContext& c_;
  const size_t keep_;
  const NestFacts facts_;
  const int n_;
  const std::vector<int> outputs_;                ///< axes that are not reduced
  const std::optional<Contraction> contraction_;  ///< nothing if the nest is none
  std::vector<std::vector<bool>> slides_;         ///< [operand][reduced axis]: it shares a dimension with an output axis
  std::shared_ptr<const std::vector<PaddedTaps>> taps_;
  int W_ = 1;
  std::shared_ptr<const hw::Atom> fma_;
  bool by_memory_ = false;  ///< what a product reads and writes beyond the second cache takes longer than the products
  bool waits_for_memory() const;
  /// The time to bring an operand from beyond the second cache, against that of the products.
  double share_of_time(size_t operand) const;
  static constexpr double kNoticed = 0.15;
  PlanContext alone_;  ///< one worker, everything in the nearest cache
  double fastest_[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};  ///< not near, near
  size_t start_ = 0;  ///< of the tiles that are enumerated
  std::vector<Scored> tiles_;
  std::vector<NestPlan> plans_;

  bool gpu() const { return c_.profile.kind == hw::Profile::Kind::gpu; }
  bool reduced(int a) const { return nest_.axes[size_t(a)].reduced; }
  int64_t extent(int a) const { return nest_.axes[size_t(a)].extent; }
  /// On a GPU plans_ are sorted, the fastest that there will be, from the start: there is one of every launch.
  void offer(const NestPlan& p);
  bool beaten(double us) const { return plans_.size() >= keep_ && us >= plans_.back().estimate.us; }
  /// Of plans_ from `first` on: `keep` of them, fastest first.
  void keep_fastest(size_t first, size_t keep);

  // ---- vector axis, form, placement ----
  std::vector<Start> starts() const;
  NestPlan blank(int vec, int lanes) const;
  bool affine_along(int axis) const;
  /// Non-affine accesses are computed lane by lane, so every access must be affine for vector code.
  bool all_affine() const;
  bool reads_widened() const;  ///< a constant that exists only where it is prepacked
  /// Worth a try as vector axis: something is contiguous along it (or can be packed, transposed) and nothing prevents it.
  bool vectorisable(int a) const;
  static bool copies(const NestPlan& p) {
    return std::any_of(p.operands.begin(), p.operands.end(), [](const Operand& o) { return o.placement == Placement::box; });
  }
  bool any_guard(const NestPlan& p) const;
  bool can_box(size_t i) const;
  bool collides(size_t i) const;
  /// Tile registers take the operand's rows across two lines each.
  bool crosses_lines(const NestPlan& p, size_t i) const;
  /// Matrix: a may stay where it is though its accesses leave it: row tiles with rows outside are copied, step by step (Tile::load_a).
  bool copies_outside_rows(const NestPlan& p) const;
  /// A copy of a whose rows begin lines would have steps that do not, unless each is as long as a line.
  bool whole_steps(const NestPlan& p, size_t i) const;
  /// An activation can be packed before the nest, in groups along k: vectors of it lie along either axis.
  bool can_repack(size_t i, int vec, int k) const;
  void add_forms(std::vector<Start>& all, NestPlan p) const;
  /// Can a product be made of this instruction, beside the form that every nest has?
  bool issuable(const hw::Atom& atom, AtomForm form) const;
  /// Instructions that multiply and add `k` neighbours a lane.
  void add_group_form(std::vector<NestPlan>& forms, const NestPlan& p, const Contraction& con) const;
  /// Transposes: operands (or the result) contiguous along another axis than the vector's.
  void finish_start(std::vector<Start>& all, NestPlan p) const;
  void add_transposes(std::vector<Start>& all, const NestPlan& p) const;
  /// Operand::neighbours, of vectors along `vec` that step over the whole axis t; 0: they do not.
  int64_t neighbours(const std::vector<int64_t>& coef, int vec, int t) const;
  /// Operands whose neighbours along a reduced axis are taken apart; false: there are none.
  bool separate(NestPlan& p) const;

  // ---- register tiles ----
  /// Sizes of at most `most` in which equal blocks of an extent come out.
  static std::vector<int64_t> sizes(int64_t extent, int64_t most);
  /// Of many sizes, on a GPU: those next to powers of two and their halves between. Its tiles are larger, and no longer depend on each row.
  std::vector<int64_t> thinned(std::vector<int64_t> all) const;
  void enumerate_tiles(const Start& s);
  /// On a GPU: what the products take at least, on all SMs, and the loads of a tile's factors.
  double least_us(const NestPlan& p, bool tile) const;
  /// ... which is more than what as many plans take as are kept, or than what leaves a tile in the race.
  bool beaten(const NestPlan& p, bool tile) const;
  /// Operands come from memory, not from an earlier nest of the same tile.
  bool rows_from_memory() const;
  /// Unrolling of the reduced axes, then the score of the tile alone: everything in L1, one worker.
  void consider(const NestPlan& tile);
  void score(NestPlan p);
  static bool transposes(const NestPlan& p);
  /// Vectors of some operand are taken apart along the axis.
  static bool separated(const NestPlan& p, int axis);
  /// Register tiles slower than the fastest one by more than this are given up.
  double limit() const { return 1 + 0.25 * c_.breadth; }
  /// What one step of the tile touches: it must fit the innermost cache.
  double step_bytes(const NestPlan& p) const;
  /// Tile registers: accumulators, one for every row tile of a, and any for b.
  bool fits_tiles(const NestPlan& p) const;
  int64_t points(const NestPlan& p) const;
  int64_t in_step(const NestPlan& p) const;  ///< results of one step of the reduction: points, of each statement
  /// Points of the register tile that one load of the operand serves.
  int64_t reuse(const NestPlan& p, size_t operand) const;
  /// The share of their time for which the parts of a split have work.
  static double balance(const NestPlan& p, const Parallel& split);
  /// Tiles with more reuse of some factor than any faster one go to the front, then some whose blocks the workers share more evenly: loops,
  /// caches and threads may make more of them. Pre: fastest first.
  void prefer_reuse();
  void unroll(NestPlan& p) const;
  int64_t bodies(const NestPlan& p) const;  ///< of the register tile: one a size, those for borders, and one for each tap that is left out
  double written_out(const NestPlan& p) const;  ///< instructions of all of them
  /// Elements between the end of the tile's row and the next one down the reduced axis, of an operand that is summed as it comes from
  /// beyond the first cache: 0 between whole rows, more between pieces of them; −1: it is no such operand.
  int64_t gap_down(const NestPlan& p, size_t operand, int axis) const;
  bool by_pieces(const NestPlan& p, int axis) const;
  int64_t without_rest(const NestPlan& p, int axis, int64_t steps, int64_t most) const;
  int64_t followed_steps(const NestPlan& p, int axis, int64_t unit) const;
  /// NestPlan::finish_axis: the longest side of the tile along which all results are contiguous; −1: none.
  int finish_axis(const NestPlan& p) const;

  // ---- loops around the tile, threads ----
  /// Further tiles of starts of which fewer than four are `done`, the fastest of each and more of one that comes near the best plan: other
  /// orders of the reduction, other vector axes and layouts walk memory in other ways, which a tile alone does not tell.
  void try_more_of_starts(const std::vector<bool>& done);
  void enumerate_loops(const NestPlan& tile);
  /// With what waits in memory brought in time: packed operands by several rows at once, or with their lines asked for ahead of their use;
  /// and so rows that a window slides over.
  NestPlan fetch_ahead(NestPlan p) const;
  /// Bytes that must have been asked for to keep memory busy, twice: 2 · latency · bandwidth (Little's law).
  double under_way() const { return 2 * c_.profile.levels.back().latency_ns * c_.profile.levels.back().read_gbs(c_.threads); }
  /// Rows of a reduction that come from memory: where the loops walk them to their ends, their lines are asked for as soon as memory could
  /// bring them (Little's law), those of all rows by turns together.
  void fetch_rows_ahead(NestPlan& p) const;
  /// Sums down columns whose rows are walked one after the other, each line once, load them in that order: GCC's, a line or two otherwise,
  /// loses the first cache's prefetchers (1648 × 104 from the second cache, two rows of 6½ vectors at a time, 5.1 us; in order 2.7; Zen 5).
  void read_in_order(NestPlan& p) const;
  /// Vectors of it are loaded as they lie, each line once, from beyond the first cache.
  bool from_beyond_first(const NestPlan& p, size_t operand) const;
  /// Memory delivers several rows by turns faster than one: prefetchers follow each, and requests for lines would only take their buffers.
  bool turns_pay() const;
  /// Rows in which a packed operand from memory lies: where turns pay each vector in one of its own; else two, whose page ends hide behind
  /// each other, unless its lines can be fetched ahead. 1: as one.
  int64_t streams_of(const NestPlan& p, size_t operand, bool fetched_ahead) const;
  /// How often the operand is walked from end to end.
  int64_t walks(const NestPlan& p, size_t operand) const;
  /// It comes once, from a last cache that a core waits for while products are formed, and takes a share of their time that is noticed.
  bool waits_in_last_cache(const NestPlan& p, size_t operand) const;
  /// The operand is walked again and again, and stays in the second cache.
  bool stays(const NestPlan& p, size_t operand) const;
  /// The output axis along which an operand's rows, walked along the reduction, follow one another, if it comes from beyond the second
  /// cache, each once, and bringing it is a good part of the time: products fill the window in which a core looks ahead. −1: it does not.
  int passes_by(const NestPlan& p, size_t operand) const;
  int64_t jumps_ahead(const NestPlan& p, size_t operand) const;  ///< Operand::next_step
  /// Matrix form: the factor that comes anew for each tile of the innermost loop, the other being the same for all of them; −1: none does.
  int passing_factor(const NestPlan& p) const;
  /// Where what is asked for comes into the first cache, too: the next rows' lines and those in use are more than their set has ways for
  /// (512 × 1024 by 1024 × 16, rows of 4 KiB: 227 µs, not asked for 172; rows of 4032 bytes 180 and 187; Zen 3).
  bool pushes_out(const NestPlan& p, size_t operand) const;
  /// The output axis along which a window of the operand slides from row to row; −1: there is none, or a row is too long to wait for.
  int sliding_axis(const NestPlan& p, size_t operand) const;
  /// Partial sums pass through memory as vectors: where their results lie, or in the workspace.
  bool sums_as_vectors(int vec) const;
  /// Chunks of the reduction: leading reduced axes one value at a time, or pieces of the last. None, and of a product those whose panels
  /// stay in a near cache, else a few rows.
  std::vector<std::vector<Loop>> chunkings(const NestPlan& base) const;
  /// A reduction that is no product, of rows that loops may take a few at a time.
  bool sums_rows(const NestPlan& base) const { return !contraction_ && chunkings(base).size() > 1; }
  /// The vector axis outside or inside the other block loops.
  std::vector<std::vector<int>> loop_orders(const NestPlan& base) const;
  /// Sizes at which an outer tile of blocks may be cut: none, half of each cache.
  std::vector<int64_t> cache_tiles() const;
  /// Block loops in `order`; with `tile_bytes`, the innermost loops but the last are first cut into tiles of blocks whose operands
  /// (over the whole chunk of the reduction) take that many bytes, and the outer axes walk inside such a tile.
  void add_blocks(NestPlan& p, const std::vector<int>& order, int64_t tile_bytes) const;
  std::vector<std::vector<Parallel>> parallel_options(const NestPlan& p) const;
  /// Results that live in memory beyond the caches need not be fetched in order to be overwritten.
  bool streams(const NestPlan& p) const;
  /// NestPlan::combining of the tile's results, if there is one.
  std::optional<WriteCombining> pieces(const NestPlan& p) const;
  /// What is read along the rows is asked for some tiles ahead: each piece of a row ends before prefetchers follow.
  void fetch_next_rows(NestPlan& p) const;
  /// No worker has a part of a whole row of the buffer.
  bool combines_along(const NestPlan& p, const std::vector<Parallel>& split) const;
  /// Plans of the tile that collect pieces of rows which do not begin lines (NestPlan::combining), serial ones; none if it is no map to
  /// memory, or there is one row.
  std::vector<NestPlan> combining(const NestPlan& base) const;
  /// The nest is a map whose one result lives in memory, contiguous along the axis, in rows that do not begin lines.
  bool rows_inside_lines(size_t along) const;
  /// ... which go past the caches from line to line of each row (NestPlan::peeled).
  bool peels(const NestPlan& p) const;
  bool rows_on_lines(const NestFacts::OperandFacts& o, size_t along) const;
  /// Its tiles are procedures: of a transcendental epilogue, or where the accumulators leave too few registers for the constants of one.
  /// Compilers lift those out of the loops around an inlined tile, and the accumulators go to the stack: a 1 × 1 convolution with bias and
  /// relu6, tiles of 6 × 16 in 16 registers, 246 us instead of 144 (GCC 12, Zen 3).
  bool apart(const NestPlan& p) const;
  void finish(NestPlan p);

  // ---- launches of a GPU ----
  /// On a GPU every tile is a task, in the order of the axes.
  static void deal_out(NestPlan& p, const std::vector<int>& order);
  /// The time with blocks of neighbouring tasks, a rectangle of them; infinite: such rectangles do not come out even, or an SM holds none.
  double launch(NestPlan& p, GpuTile& tile, int block_tasks, int block_rows) const;
  void enumerate_launches(const NestPlan& base);
  /// Of a nest that is part of a warp's task, or of one that several warps share: loops over its blocks, and no others.
  void enumerate_in_warp(const NestPlan& base);
  /// The time; and, where several warps share the task, the axis of which each of them has a part, if there is one.
  double time_in_warp(NestPlan& p, const std::vector<int>& order) const;
  hw::GpuWorkload workload_in_warp(const NestPlan& p) const;
  /// The SM's time, to which the other nests' come, and L2's, which does not have to bring what waits in registers: memory's is the same
  /// whatever the tile.
  double us_in_warp(const hw::GpuTimes& times) const;
  bool deals_out(const NestPlan& p, int axis) const;
};

}  // namespace rgen::rtile
