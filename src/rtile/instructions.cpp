#include <algorithm>
#include <bit>
#include <cmath>

#include "rtile/accesses.h"
#include "rtile/atoms.h"

namespace rgen::rtile {

namespace {

/// Stores at the end of a tile that drain while the next one begins; the rest of them hold it up (on Zen 4, with a store every two cycles:
/// 8 results a tile cost 2 cycles, 12 cost 5, 18 15, 27 41). Behind products of a factor that is broadcast, which leave the ports of loads
/// and stores alone, more of them where hw::Profile::burst_ns does not say how many (Zen 5, products of 8 to 32 steps: 12 results a tile 4
/// to 9 cycles, 16 8, 20 10 to 16, 24 16 to 18, 27 21 to 25).
constexpr double kBurst = 8, kBehindProducts = 12;
/// Loads for each multiply-add from which on it is not the multiply-adds that wait in the schedulers (hw::Profile::burst_ns).
constexpr double kWaiting = 0.8;
/// Cycles that the next row's load waits for the part of a vector that is stored before it in the same line, in place (rows of 21 and 49 on
/// Zen 4: 23 and 16).
constexpr double kPartInPlace = 20;

class Instructions : Accesses {
 public:
  Instructions(const CountedPlan& plan, hw::Workload& into) : Accesses(plan), w_(into) {}

  void run() {
    w_.functions.reserve(facts_.inner_functions.size() + facts_.outer_functions.size() + 5);
    w_.last.reserve(facts_.outer_functions.size() + 1);
    for (size_t i = 0; i < facts_.operands.size(); ++i) facts_.operands[i].is_store ? store(i) : load(i);
    products();
    functions();
    if (plan_.combining) combine();
    partial_sums();
    spills();
    if (nest_.has_reduction() && lanes_reduced_) reduce_lanes();
    // stores are collected on their way to the cache: half of what a second access would cost
    w_.loads = loads_ + broadcasts_ * (c_.profile.broadcast_loads() - 1) + split_loads_ * (c_.profile.split_as_loads() - 1);
    w_.stores = stores_ + split_stores_ / 2;
    w_.instructions = loads_ + stores_ + ops_ + 3 * iterations_ * calls_ + around_tile() * calls_;
    chain();
    ends_of_tiles();
  }

 private:
  hw::Workload& w_;
  const double calls_ = counts_.calls, points_ = counts_.points, steps_ = counts_.steps, chunks_ = counts_.chunks;
  const double inner_ = points_ * steps_ * calls_ * counts_.inside;  ///< points of the whole nest, in vectors
  /// Rows whose lanes are reduced side by side, and vectors of results per point: 1, or what is left where they are.
  const double side_ = plan_.finish_axis >= 0 ? axes_[size_t(plan_.finish_axis)].mean : 1,
               finished_ = std::ceil(side_ / plan_.lanes) / side_;
  const double outer_ = points_ * calls_ / chunks_ * finished_;
  const double iterations_ = trips_of_all();
  double loads_ = 0, stores_ = 0, ops_ = 0;  ///< instructions; ops: all others
  double broadcasts_ = 0, split_loads_ = 0;  ///< of the loads
  double split_stores_ = 0, last_stores_ = 0;
  double border_ = 0;  ///< cycles spent on bounds checks

  double trips_of_all() const {
    double n = 1;
    for (size_t a = 0; a < n_; ++a)
      if (reduced(a)) n *= axes_[a].trips;
    return n;
  }

  // ---- operands ----

  void store(size_t i) {
    const auto& o = facts_.operands[i];
    const int64_t stride = o.coef[size_t(plan_.vec)];
    const double n = o.inner ? inner_ : outer_;
    if (stride == 0 || stride == 1 || scalar_) {
      stores_ += n, last_stores_ += o.inner ? 0 : n;
      if (stride == 1 && !scalar_) split_stores_ += n * split(i, plan_.vec) * stored_twice(o), by_halves(n);
      if (in_place(o) && nest_.axes[size_t(plan_.vec)].extent % plan_.lanes != 0)
        border_ += kPartInPlace * n / std::ceil(double(nest_.axes[size_t(plan_.vec)].extent) / plan_.lanes);
    } else if (plan_.store_neighbours > 0 && stride == plan_.store_neighbours) {
      stores_ += n, separation(stride, n);
      split_stores_ += n * split(i, plan_.vec, plan_.store_transpose_axis);
    } else if (plan_.store_transpose_axis >= 0 && o.coef[size_t(plan_.store_transpose_axis)] == 1) {
      const double vectors = transposition(plan_.store_transpose_axis, n);
      stores_ += vectors, split_stores_ += vectors * split(i, plan_.store_transpose_axis);
    } else if (gpu() || c_.profile.avx512) {
      // a scatter is a microprogram of a store and several operations a lane
      stores_ += n * plan_.lanes, ops_ += 3 * n * plan_.lanes, function("gather", 2 * n);
    } else {  // lane by lane, from the stack
      stores_ += n * (plan_.lanes + 1), loads_ += n * plan_.lanes, last_stores_ += o.inner ? 0 : n * plan_.lanes;
    }
  }

  /// Of vectors that end in the next line: their two parts are written one by one, unless the next store goes on in that line. Rows by
  /// turns are left in the midst of lines (by four rows of 24, 36 and 40 floats 0.93, 0.92 and 0.80 ns a line, read and written, row by row
  /// 0.70, 0.73 and 0.65, rows that begin lines 0.66 both ways; Zen 5); whole rows, and what one row after the other is written of, are
  /// not. Behind products, and of what the other nests of a group make, half of it shows.
  double stored_twice(const NestFacts::OperandFacts& o) const {
    if (facts_.contracts || nest_.fused() || gpu()) return 1;
    const size_t vec = size_t(plan_.vec);
    for (size_t a = 0; a < n_; ++a)
      if (a != vec && plan_.tile[a].size() > 1 && o.coef[a] != 0 && std::abs(o.coef[a]) > plan_.tile[vec].size())
        return 2 / axes_[vec].mean;
    return 0;
  }

  /// From the buffer to memory: vectors that begin lines there, hardly ever in the buffer, and what each piece takes beside.
  void combine() {
    constexpr double kPiece = 20;  // instructions
    const double vectors = outer_, pieces = vectors * plan_.lanes / double(plan_.piece());
    loads_ += vectors + pieces, split_loads_ += vectors, stores_ += vectors + pieces, ops_ += 2 * vectors + kPiece * pieces;
  }

  void load(size_t i) {
    const auto& o = facts_.operands[i];
    const Operand& how = plan_.operands[i];
    const int64_t coef = o.coef[size_t(plan_.vec)], stride = how.packed() ? coef != 0 : coef;
    const double n = loads_of(i);
    if (!o.affine || stride == 0 || stride == 1 || scalar_) {
      loads_ += n * (1 + masked(i));
      if (cleared(i)) ops_ += n * parts();
      if (!o.affine) ops_ += 10 * n;
      if (o.affine && stride == 1 && !scalar_) split_loads_ += n * split(i, plan_.vec);
      if (o.affine && stride == 0 && !scalar_ && !gpu() && !plan_.tiled()) broadcasts_ += n;
    } else if (how.neighbours > 0) {
      loads_ += n, separation(stride, n);
      split_loads_ += n * split(i, plan_.vec, how.transpose_axis);
    } else if (how.transposed) {
      const double vectors = transposition(how.transpose_axis, n);
      loads_ += vectors, split_loads_ += vectors * split(i, how.transpose_axis);
    } else {
      stride == 2 ? function("shuffle", n) : function("gather", n);
      const double vectors = stride == 2 && !gpu() ? 2 : 1;  // every other element of two
      loads_ += vectors * n, ops_ += n;
      if (vectors == 2) split_loads_ += vectors * n * split(i, plan_.vec);
      if (vectors == 2 && avx2()) function("shuffle", n / 2), ops_ += n;  // blended: no shuffle takes lanes of both
    }
    // a GPU reads neighbours along the unrolled reduction 16 bytes at a time where their rows are aligned
    if (gpu() && stride == 0 && o.inner) loads_ -= n * (1 - 1 / double(merged(o)));
    const bool grouped = plan_.interleaved() && (int(i) == plan_.operand_a || int(i) == plan_.operand_b);
    if (o.element_bytes < 4 && !grouped) function("convert", n), ops_ += n;
    if (how.passes_by && stride == 0) loads_ += asked_ahead(i);
    if (int(i) == plan_.operand_b && plan_.widens_b(o.element_bytes)) function("convert", n);
    if (!checked(i) || plan_.form == AtomForm::matrix) return;  // matrix: outside_rows
    const double at_border = n * border_share(i);
    if (gpu())
      guard(at_border, distinct(o));
    else if (o.coef[size_t(plan_.vec)] != 0 && !scalar_ && !checked(i, false))
      ops_ += masking(i) * at_border;
    else if (c_.program[o.tensor].dtype == DType::f32 && (stride == 0 || stride == 1))
      ops_ += (by_step(i) ? 5 : 2) * at_border;  // the address is that of zeros (prelude/memory_loads.h)
    else
      border_ += branch_cycles(distinct(o) * (1 - in_body_inside(i))) * at_border;
  }

  void by_halves(double vectors) {
    if (!vector_masks()) return;
    const double more = parts() * double(std::popcount(uint64_t(plan_.tile[size_t(plan_.vec)].tail())) - 1);
    stores_ += more * vectors, ops_ += more * vectors;
  }

  /// Requests for the rows of later tiles: each line once where they are in order, else each row at every body.
  double asked_ahead(size_t i) const {
    const auto& o = facts_.operands[i];
    const size_t along = size_t(plan_.reduce_order.back());
    double rows = 1;
    for (size_t a = 0; a < n_; ++a)
      if (!reduced(a) && o.coef[a] != 0) rows *= axes_[a].mean;
    const double bytes = double(axes_[along].unroll * plan_.tile[along].unit) * o.element_bytes;
    return (plan_.asks_line_by_line(plan_.operands[i]) ? std::ceil(rows * bytes / double(c_.profile.levels[0].line_bytes)) : rows) *
           iterations_ * calls_;
  }

  double loads_of(size_t i) const {
    const auto& o = facts_.operands[i];
    bool every_step = false;
    for (size_t a = 0; a < n_; ++a) every_step |= reduced(a) && o.coef[a] != 0;
    if (o.inner) return distinct(o) * (every_step ? iterations_ : 1) * calls_ * points_inside(o);
    const bool finished = plan_.finish_axis >= 0 && o.coef[size_t(plan_.finish_axis)] != 0;
    return distinct(o) * calls_ / chunks_ * (finished ? finished_ : 1);
  }

  /// Vectors that pass through registers to be turned, each once at every level: pairs, pairs of pairs, …; partly filled transposes cost as
  /// much as full ones.
  double transposition(int axis, double n) {
    n /= std::min(1.0, axes_[size_t(axis)].mean / plan_.lanes);
    const double levels = std::log2(plan_.lanes);
    function("shuffle", levels * n), ops_ += (levels + 1) * n;
    return n;
  }

  /// Points of a tile with the same value, which is computed once: results; and steps, before whose loops it is if it depends on none.
  double results_sharing(const NestFacts::Function& f) const {
    double n = 1;
    for (size_t a = 0; a < n_; ++a)
      if (!reduced(a) && !f.along[a]) n *= axes_[a].mean;
    return n;
  }
  double steps_sharing(const NestFacts::Function& f) const {
    bool none = true;
    double unrolled = 1;
    for (size_t a = 0; a < n_; ++a)
      if (reduced(a) && f.along[a])
        none = false;
      else if (reduced(a))
        unrolled *= double(axes_[a].unroll);
    return none ? steps_ : unrolled;
  }

  /// Vectors of n neighbours are taken apart, or put together: prelude/interleave.h.
  void separation(int64_t n, double vectors) {
    double shuffles = 0;
    for (; n % 2 == 0; n /= 2) shuffles += 1;
    shuffles += double(n - 1);
    const bool halves = avx2();  // no instruction takes lanes of two vectors
    function("shuffle", (halves ? 2 : 1) * shuffles * vectors);
    ops_ += (halves ? 3 : 1) * shuffles * vectors;
  }

  /// Cycles of one bounds check by a branch: next to nothing in a small body; once the checks of an unrolled body outgrow the micro-op
  /// cache, the decoders set the pace; and where sums take more than half of the registers, the compiler keeps the others on the stack from
  /// branch to branch (six checks in a body of 28 sums and 32 registers, 165 of their loads and stores, 87 cycles; of 14 sums none).
  double branch_cycles(double checks) const {
    constexpr double kCheck = 0.75, kDecoded = 4, kMoved = 1.1;
    const double sums = facts_.products > 0 ? points_ - c_.profile.vector_registers / 2.0 : 0;
    return std::max(checks > 100 ? kDecoded : 0, kCheck + kMoved * std::max(0.0, sums));
  }

  /// Bounds checks of a GPU's loads. In a body of few they become predicates: comparisons and a zero. In a large one each has two
  /// comparisons, a branch, a barrier where its lanes meet again, a zero and the lane's address of its own (as compiled kernels show).
  void guard(double loads, double in_body) {
    const bool branch = in_body > 64;
    ops_ += (branch ? 10 : 4) * loads;
    w_.guarded_loads += branch ? loads : 0;
  }

  // ---- what is computed ----

  void function(std::string_view name, double n) { add(w_.functions, name, n); }
  static void add(hw::Workload::Functions& to, std::string_view name, double n) {
    for (auto& [f, m] : to)
      if (f == name) {
        m += n;
        return;
      }
    to.push_back({name, n});
  }

  /// What follows the products of a tile runs beside those of the next one where they are all that is issued: each element that is
  /// broadcast is one product's operand in memory (tiles of 8 to 16 results, 6 to 32 steps, three functions a result, Zen 4: 0 to 3 cycles
  /// a tile; of several vectors a row, with broadcasts of their own, 22 to 35). Pre: loads are counted.
  bool hides_last() const { return facts_.products == 0 || (broadcasts_ > 0 && c_.profile.avx512 && axes_[size_t(plan_.vec)].mean <= 1); }

  void products() {
    if (plan_.tiled()) return tile_products();
    if (facts_.products == 0) return;
    if (plan_.form != AtomForm::group) {
      w_.atoms.push_back({plan_.atom, inner_ * facts_.products});
      ops_ += inner_ * facts_.products;
      if (!gpu() && !is_float(c_.program[nest_.inner.front().tensor].dtype)) {  // of two passes, and an addition of its own
        const double n = inner_ * facts_.products;
        function("mul", n), function("add", n), ops_ += n;
      }
      return;
    }
    w_.atoms.push_back({plan_.atom, inner_});
    const auto& a = facts_.operands[size_t(plan_.operand_a)];
    const double broadcasts = distinct(a) * iterations_ * calls_;
    if (plan_.offset_a && !plan_.copy_flips()) function("select", broadcasts), ops_ += broadcasts;  // as long as other choices of bits
    // a group that has fewer elements is put together in other registers (3 × 3 of bytes, groups of three, 131 µs; read whole 74; Zen 5)
    const bool read_whole = plan_.operands[size_t(plan_.operand_a)].placement == Placement::box && !is_float(c_.program[a.tensor].dtype);
    if (const int64_t k = nest_.axes[size_t(plan_.k_axis)].extent; k % plan_.k_group != 0 && !read_whole) {
      const double parts = broadcasts / double(ceil_div(k, plan_.k_group));
      function("shuffle", parts), ops_ += 2 * parts;
    }
    ops_ += inner_ * find_atom_row(plan_.atom->name)->instructions;
    if (plan_.offset_a) function("add", points_ * calls_), ops_ += points_ * calls_;  // what the packed factor's sums correct
  }

  /// Of tiles of registers, which are loaded in rows; they replace the loads counted so far.
  void tile_products() {
    const std::vector<int64_t> row_tiles = plan_.row_tiles(nest_);
    const double columns = axes_[size_t(plan_.vec)].mean, rows = double(row_tiles.size());
    stores_ += points_ * calls_;
    if (plan_.form == AtomForm::matrix) return matrix_products(row_tiles, columns);
    w_.atoms.push_back({plan_.atom, rows * columns * steps_ * calls_});
    // 64 bytes a row of a and a column of b, in vectors of 128; the products themselves are instructions
    // rows that begin anywhere come byte by byte: 32 a thread, each with its predicate and its place in a word
    constexpr double kBytes = 32, kOfByte = 3;
    const double of_rows = aligned_rows() ? 8 : kBytes, more = aligned_rows() ? -6 : (kOfByte - 1) * kBytes;
    loads_ = (of_rows * rows + 16 * columns) * steps_ * calls_ + points_ * calls_;
    ops_ += (8 * rows * columns + more * rows - 12 * columns) * steps_ * calls_;
  }

  /// Measured on Granite Rapids: a product takes a cycle a row, nine at least; a register two rows a cycle, of which those that lie across
  /// two lines count for five and a half.
  void matrix_products(const std::vector<int64_t>& row_tiles, double columns) {
    constexpr int64_t kFewest = 9;
    constexpr double kAcross = 4.5;
    double rows = 0, busy = 0;
    for (int64_t r : row_tiles) rows += double(r), busy += double(std::max(kFewest, r)) / double(plan_.atom->m);
    w_.atoms.push_back({plan_.atom, busy * columns * steps_ * calls_});
    const size_t a = size_t(plan_.operand_a);
    const double across = rows_across_lines(nest_, placed_coef(a), plan_, facts_.operands[a].element_bytes);
    loads_ = ((1 + kAcross * across) * rows + columns * double(plan_.k_step / plan_.k_group)) * steps_ * calls_ + points_ * calls_;
    ops_ += 40 * calls_;
    border_ += kOutsideRow * rows * steps_ * calls_ * outside_rows();
    border_ += (beside_products(rows) - hidden_results(double(plan_.atom->m) * busy * columns * steps_)) * calls_;
  }

  static constexpr double kOutsideRow = 4;  ///< cycles in which a row is checked and copied

  /// Of the row tiles that the steps load where they lie, the share that has rows outside the tensor.
  double outside_rows() const {
    const auto& o = facts_.operands[size_t(plan_.operand_a)];
    if (plan_.operands[size_t(plan_.operand_a)].placement != Placement::direct || !plan_.taps) return 0;
    double inside = 1;
    for (const PaddedTaps& t : *plan_.taps) {
      if (o.coef[size_t(t.output)] == 0 || o.coef[size_t(t.reduced)] == 0) continue;
      const int64_t size = t.output == plan_.m_axis ? std::min<int64_t>(plan_.tile[size_t(t.output)].hi, plan_.atom->m) : 1;
      inside *= plan_.left_out(t) == NestPlan::LeftOut::nowhere || size > 1 ? t.whole(size) : 1;
    }
    return 1 - inside;
  }

  /// Cycles of a tile's results that pass beside the next tile's products, which take so many.
  double hidden_results(double products) const {
    const int run = plan_.run_axis();
    if (run < 0) return 0;
    const double last = double(plan_.runs(run).size()) / double(plan_.tile[size_t(run)].blocks);  // share of tiles that none follows
    return (1 - last) * std::min(kResult * points_, kBeside * products);
  }

  static constexpr double kResult = 3, kBeside = 0.75;

  /// Cycles of a tile of so many rows beside its products. Its sums go through memory, which the next tile's products hardly hide (16 to 64
  /// vectors of bf16 results, 1 to 32 steps: 3 to 4 each and 70 for all). The rows of a last, shorter step are copied. A tile of a row less
  /// than the others that cannot take the row before it along has the registers' shapes changed twice.
  double beside_products(double rows) const {
    constexpr double kTile = 70, kCopiedRow = 3, kShapes = 400;
    double cycles = kTile + kResult * points_ / chunks_, ragged = 0, copies = 1;
    for (size_t a = 0; a < n_; ++a) {
      if (!reduced(a) && int(a) != plan_.vec) ragged = std::max(ragged, 1 - double(plan_.tile[a].n_hi) / double(plan_.tile[a].blocks));
      if (reduced(a) && int(a) != plan_.k_axis) copies *= axes_[a].trips * double(axes_[a].unroll);
    }
    if (plan_.partial_step(nest_) != 0) cycles += kCopiedRow * rows * copies;
    if (!plan_.has_row_before() && plan_.tile[size_t(plan_.m_axis)].hi <= plan_.atom->m) cycles += kShapes * ragged;
    return cycles;
  }

  /// Those of a, at multiples of 16 bytes.
  bool aligned_rows() const {
    const auto& o = facts_.operands[size_t(plan_.operand_a)];
    bool aligned = o.constant * o.element_bytes % 16 == 0;
    for (size_t a = 0; a < n_; ++a) aligned &= int(a) == plan_.k_axis || o.coef[a] * o.element_bytes % 16 == 0;
    return aligned;
  }

  void functions() {
    for (const NestFacts::Function& f : facts_.inner_functions) {
      const double n = inner_ / results_sharing(f) / steps_sharing(f);
      if (!plan_.interleaved() || f.name != "convert") function(f.name, f.times * n);
      ops_ += f.instructions * n;
    }
    for (const NestFacts::Function& f : facts_.outer_functions) {
      const double n = outer_ / results_sharing(f);
      add(hides_last() ? w_.functions : w_.last, f.name, f.times * n), ops_ += f.instructions * n;
    }
  }

  // ---- sums ----

  void partial_sums() {
    const double partial = points_ * calls_ * (1 - 1 / chunks_);
    if (chunks_ > 1) loads_ += partial, stores_ += partial, last_stores_ += partial;
  }

  /// What does not fit the register file is stored and loaded again at every step; compilers that have no register to spare spill one.
  void spills() {
    const int left = c_.profile.vector_registers - registers_needed(nest_, facts_, plan_);
    const double spilled = std::max(-left, left == 0 && used_as_loaded(nest_, facts_, plan_) ? 1 : 0) * steps_ * calls_;
    loads_ += spilled, stores_ += spilled;
  }

  void reduce_lanes() {
    const double reductions = points_ * calls_;
    if (plan_.finish_axis < 0) {
      function("shuffle", 4 * reductions), function("add", 4 * reductions);
      ops_ += 10 * reductions;
      return;
    }
    // a tree of pairs, two shuffles each, then the levels that are left of it
    const double rows = std::min(side_, double(plan_.lanes)), levels = std::log2(plan_.lanes / rows);
    const double folds = reductions * (1 + (levels - 1) / rows);
    function("shuffle", 2 * folds), add(w_.last, "add", folds);
    ops_ += 3 * folds;
    // of more rows than a tree takes, the others wait on the stack, and more than once (compiled code; 16 to 30 rows of 37 floats, Zen 4)
    constexpr double kTree = 15, kMoves = 3;
    const double waiting = kMoves * reductions * std::max(0.0, side_ - kTree) / side_;
    loads_ += waiting, stores_ += waiting;
  }

  /// Pre: the instructions are counted.
  void chain() {
    if (!nest_.has_reduction()) return;
    // the reorder buffer holds several small tiles at once, whose chains run side by side
    // (kReorderBuffer), and of a longer one's end and the next one's begin what waits in the schedulers (one row of bf16 on Zen 4, chunks
    // of 330 to 1650 instructions: 0.74 to 0.96 of the chain)
    constexpr double kReorderBuffer = 256, kSchedulers = 96;
    const double of_call = w_.instructions / calls_;
    const double overlapped = gpu() ? 1 : std::min(of_call / kReorderBuffer, of_call / (of_call + kSchedulers));
    const double latency = step_latency_ns();
    const double copies = lanes_reduced_ ? double(axes_[size_t(plan_.vec)].unroll) : 1;
    w_.chain_steps = steps_ / copies * calls_ + (lanes_reduced_ ? (6 + std::log2(copies)) * calls_ : 0);
    w_.chain_latency_ns = latency * overlapped;
  }

  /// From a step's result to the next one's: a product's, or of what the reduction combines by.
  double step_latency_ns() const {
    if (facts_.products == 0)
      for (const Statement& s : nest_.inner) {
        const char* by = s.reduce == ir::ReduceOp::sum                                      ? "add"
                         : s.reduce == ir::ReduceOp::none || s.reduce == ir::ReduceOp::prod ? ""
                                                                                            : "max";
        if (const auto it = c_.profile.latency_cycles.find(by); it != c_.profile.latency_cycles.end()) return it->second / c_.profile.ghz;
      }
    return plan_.atom ? plan_.atom->latency_ns : 4 / c_.profile.ghz;
  }

  /// More stores wait for their results than may at once (hw::Profile::burst_ns): it is multiply-adds that wait in the schedulers, and
  /// neither functions nor transposes spread the stores.
  bool holds_up() const {
    constexpr double kSpread = 12;
    double functions = 0;
    for (const NestFacts::Function& f : facts_.outer_functions) functions += f.instructions;
    return loads_ < kWaiting * inner_ * facts_.products && functions < kSpread && last_stores_ <= points_ * calls_ &&
           plan_.store_transpose_axis < 0;
  }

  /// Instructions that lead to a tile. A map's follow one another as a loop's iterations: 746 rows of 24 floats by a vector a tile, two
  /// cycles each, take no longer than by eight (Zen 5).
  double around_tile() const {
    constexpr double kLoops = 30, kNone = 12;
    if (nest_.has_reduction() || gpu() || plan_.loops.empty()) return iterations_ > 1 ? kLoops : kNone;
    return kNone / trips_of(plan_.loops.size() - 1);
  }

  void ends_of_tiles() {
    // a long loop ends with a mispredicted branch; short ones are foreseen, and a body without loops flows into the next
    constexpr double kForeseen = 32;
    const double innermost = plan_.reduce_order.empty() ? 1 : axes_[size_t(plan_.reduce_order.back())].trips;
    w_.call_overheads = (calls_ * (innermost > kForeseen ? 12 : nest_.has_reduction() || gpu() ? 3 : 0) + border_) / c_.profile.ghz;
    if (!nest_.has_reduction() || plan_.tiled() || gpu()) return;
    const double stored = last_stores_ / calls_, store_ns = (c_.profile.vector_bits / 8.0) / c_.profile.levels[0].write_gbs(1);
    w_.call_overheads += std::max(0.0, stored - (broadcasts_ > 0 && c_.profile.burst_ns == 0 ? kBehindProducts : kBurst)) * calls_ *
                         (holds_up() ? std::max(store_ns, c_.profile.burst_ns) : store_ns);
  }
};

}  // namespace

void count_instructions(const CountedPlan& plan, hw::Workload& w) { Instructions(plan, w).run(); }

}  // namespace rgen::rtile
