#include "rtile/workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rtile/atoms.h"
#include "rtile/traffic.h"

namespace rgen::rtile {

namespace {

/// Stores at the end of a tile that drain while the next one begins; the rest of them hold it up (on Zen 4, with a store every two cycles:
/// 8 results a tile cost 2 cycles, 12 cost 5, 18 15, 27 41).
constexpr double kBurst = 8;

class Counter {
 public:
  Counter(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context)
      : nest_(nest), facts_(facts), plan_(plan), c_(context), n_(nest.axes.size()), counts_(count_tiles(nest, plan)) {}

  hw::Workload run() {
    instructions();
    w_.levels.resize(c_.profile.levels.size());
    // registers ← L1: every load and store, as wide as a vector (broadcasts read one element)
    const double vector_bytes = c_.profile.vector_bits / 8.0;
    w_.levels[0] = {w_.loads * vector_bytes, w_.stores * vector_bytes};
    w_.loads += c_.ahead_bytes / c_.profile.levels[0].line_bytes, w_.instructions += c_.ahead_bytes / c_.profile.levels[0].line_bytes;
    if (c_.profile.kind == hw::Profile::Kind::cpu)
      traffic(nest_, facts_, plan_, c_, counts_, w_.levels);  // of a GPU's tasks together: GpuTile
    w_.workers = int(std::max<int64_t>(c_.sharers, std::min<int64_t>(plan_.tasks(), c_.threads)));
    if (c_.threads == 1) w_.regions = 0;  // a fused group's nests run inside its tasks
    for (const Operand& o : plan_.operands)
      if (o.placement == Placement::box) ++w_.regions;
    copies();
    interleaved_stores();
    return std::move(w_);
  }

 private:
  const Nest& nest_;
  const NestFacts& facts_;
  const NestPlan& plan_;
  const PlanContext& c_;
  const size_t n_;
  const TileCounts counts_;
  const std::vector<TileCounts::Axis>& axes_ = counts_.axes;
  const double calls_ = counts_.calls, points_ = counts_.points, steps_ = counts_.steps, chunks_ = counts_.chunks;
  double border_ = 0;  ///< cycles spent on bounds checks
  hw::Workload w_;

  bool reduced(size_t a) const { return nest_.axes[a].reduced; }
  /// Distinct values of the operand's address among the points of one unrolled body.
  double distinct(const NestFacts::OperandFacts& o) const {
    double n = 1;
    for (const auto& dim : o.dim_coef) {
      double product = 1, span = 1, steps = 1;
      for (size_t a = 0; a < n_; ++a) {
        if (dim[a] == 0 || int(a) == plan_.vec) continue;
        const double size = reduced(a) ? double(axes_[a].unroll) : axes_[a].mean;
        if (reduced(a) && !plan_.window) {  // loaded again for every step
          steps *= size;
          continue;
        }
        product *= size;
        span += double(std::abs(dim[a])) * (size - 1);
      }
      n *= std::min(product, span) * steps;
    }
    if (o.coef[size_t(plan_.vec)] != 0)
      n *= reduced(size_t(plan_.vec)) ? double(axes_[size_t(plan_.vec)].unroll) : axes_[size_t(plan_.vec)].mean;
    return n;
  }

  /// Of the vectors of operand `i` that are read or written along `along`, the share that begins in one line and ends in the next: the
  /// cache gives or takes both (Intel 64 and IA-32 Optimization Reference Manual, "Store forwarding and line splits"; on Zen 5, too).
  /// Tensors begin where lines do. `beside`: an axis over whose places the vectors step, all of which are read together.
  double split(size_t i, int along, int beside = -1) const {
    const auto& o = facts_.operands[i];
    const int64_t line = c_.profile.levels[0].line_bytes, width = int64_t(plan_.lanes) * o.element_bytes;
    const bool placed = i < facts_.reads && plan_.operands[i].placement != Placement::direct;
    if (gpu() || width > line || (placed && plan_.operands[i].placement == Placement::prepack)) return 0;
    const std::vector<int64_t>& coef = placed ? o.box_coef : o.coef;
    int64_t step = line;
    for (size_t a = 0; a < n_; ++a) {
      const int64_t units = int(a) == along ? plan_.lanes : 1;
      if (int(a) == beside) continue;
      if (nest_.axes[a].extent > units) step = std::gcd(step, coef[a] * o.element_bytes * units);
    }
    const int64_t first = floor_mod((placed ? 0 : o.constant) * o.element_bytes, step);
    int64_t crossing = 0;
    for (int64_t at = first; at < line; at += step) crossing += at + width > line;
    return double(crossing) / double(line / step);
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
  void separation(int64_t n, double vectors, double& instructions) {
    double shuffles = 0;
    for (; n % 2 == 0; n /= 2) shuffles += 1;
    shuffles += double(n - 1);
    const bool halves = c_.profile.vector_bits == 256;  // no instruction takes lanes of two vectors
    function("shuffle", (halves ? 2 : 1) * shuffles * vectors);
    instructions += (halves ? 3 : 1) * shuffles * vectors;
  }

  bool gpu() const { return c_.profile.kind == hw::Profile::Kind::gpu; }
  void function(std::string_view name, double n) {
    for (auto& [f, m] : w_.functions)
      if (f == name) {
        m += n;
        return;
      }
    w_.functions.push_back({name, n});
  }

  void instructions() {
    w_.functions.reserve(facts_.inner_functions.size() + facts_.outer_functions.size() + 5);
    const bool vec_reduced = reduced(size_t(plan_.vec));
    const double inner = points_ * steps_ * calls_ * counts_.inside;  // points of the whole nest, in vectors
    // vectors of results per point: 1, or what is left where a reduced vector axis' results are finished side by side
    const double side = plan_.finish_axis >= 0 ? axes_[size_t(plan_.finish_axis)].mean : 1;
    const double finished = std::ceil(side / plan_.lanes) / side;
    const double outer = points_ * calls_ / chunks_ * finished;
    double iterations = 1;
    for (size_t a = 0; a < n_; ++a)
      if (reduced(a)) iterations *= axes_[a].trips;
    double loads = 0, stores = 0, extra = 0, broadcasts = 0, load_splits = 0, store_splits = 0, last_stores = 0;
    for (size_t i = 0; i < facts_.operands.size(); ++i) {
      const auto& o = facts_.operands[i];
      const int64_t stride = i < facts_.reads && plan_.operands[i].placement == Placement::prepack ? (o.coef[size_t(plan_.vec)] ? 1 : 0)
                                                                                                   : o.coef[size_t(plan_.vec)];
      const bool scalar = plan_.lanes == 1;
      if (o.is_store) {
        const double n = o.inner ? inner : outer;
        if (stride == 0 || stride == 1 || scalar) {
          stores += n, last_stores += o.inner ? 0 : n;
          if (stride == 1 && !scalar) store_splits += n * split(i, plan_.vec);
        } else if (plan_.store_neighbours > 0 && stride == plan_.store_neighbours) {
          stores += n, separation(stride, n, extra);
          store_splits += n * split(i, plan_.vec, plan_.store_transpose_axis);
        } else if (plan_.store_transpose_axis >= 0 && o.coef[size_t(plan_.store_transpose_axis)] == 1) {
          // partly filled transposes cost as much as full ones
          const double fill = std::min(1.0, axes_[size_t(plan_.store_transpose_axis)].mean / plan_.lanes);
          stores += n / fill, function("shuffle", 4 * n / fill), extra += 5 * n / fill;
          store_splits += n / fill * split(i, plan_.store_transpose_axis);
        } else {
          // a scatter is a microprogram of a store and several operations a lane
          stores += n * plan_.lanes, extra += 3 * n * plan_.lanes, function("gather", 2 * n);
        }
        continue;
      }
      bool uses_reduced = false;
      for (size_t a = 0; a < n_; ++a) uses_reduced |= reduced(a) && o.coef[a] != 0;
      double n = o.inner ? distinct(o) * (uses_reduced ? iterations : 1) * calls_ : distinct(o) * calls_ / chunks_;
      if (!o.inner && plan_.finish_axis >= 0 && o.coef[size_t(plan_.finish_axis)] != 0) n *= finished;
      if (!o.affine || stride == 0 || stride == 1 || scalar) {
        loads += n;
        if (!o.affine) extra += 10 * n;
        if (o.affine && stride == 1 && !scalar) load_splits += n * split(i, plan_.vec);
        if (o.affine && stride == 0 && !scalar && !gpu()) broadcasts += n;
      } else if (plan_.operands[i].neighbours > 0) {
        loads += n, separation(stride, n, extra);
        load_splits += n * split(i, plan_.vec, plan_.operands[i].transpose_axis);
      } else if (plan_.operands[i].transposed) {
        const double fill = std::min(1.0, axes_[size_t(plan_.operands[i].transpose_axis)].mean / plan_.lanes);
        loads += n / fill, function("shuffle", 4 * n / fill), extra += 5 * n / fill;
        load_splits += n / fill * split(i, plan_.operands[i].transpose_axis);
      } else {
        stride == 2 ? function("shuffle", n) : function("gather", n);
        loads += stride == 2 && !gpu() ? 2 * n : n, extra += n;  // every other element of two vectors
      }
      // a GPU reads neighbours along the unrolled reduction 16 bytes at a time where their rows are aligned
      if (gpu() && stride == 0 && o.inner) loads -= n * (1 - 1 / double(merged(o)));
      const bool narrow = o.element_bytes < 4 && !(plan_.interleaved() && (int(i) == plan_.operand_a || int(i) == plan_.operand_b));
      if (narrow) function("convert", n), extra += n;
      // a border tile checks each access, and waits for the branch
      if (!gpu() && checked(i)) border_ += guard_cycles(distinct(o)) * n * border_share(i);
      if (gpu() && checked(i)) guard(n * border_share(i), distinct(o), extra);
    }
    if (plan_.tiled()) {
      broadcasts = 0;
      std::vector<int64_t> size(n_, 1);
      for (size_t a = 0; a < n_; ++a)
        if (!reduced(a)) size[a] = plan_.tile[a].hi;
      const double rows = double(plan_.row_tiles(size, nest_).size()), columns = axes_[size_t(plan_.vec)].mean;
      w_.atoms.push_back({plan_.atom.get(), rows * columns * steps_ * calls_});
      if (plan_.form == AtomForm::matrix) {
        loads = (rows + columns) * plan_.atom->m * steps_ * calls_ + points_ * calls_;  // tiles are loaded row by row
        stores += points_ * calls_, extra += 40 * calls_;
      } else {  // 64 bytes a row of a and a column of b, in vectors of 128; the products themselves are instructions
        loads = (8 * rows + 16 * columns) * steps_ * calls_ + points_ * calls_;
        stores += points_ * calls_, extra += (8 * rows * columns - 6 * rows - 12 * columns) * steps_ * calls_;
      }
    } else if (plan_.form == AtomForm::group) {
      w_.atoms.push_back({plan_.atom.get(), inner});
      const auto& a = facts_.operands[size_t(plan_.operand_a)];
      if (a.element_bytes == 1 && plan_.offset_a) extra += distinct(a) * iterations * calls_;  // the sign flip
    } else if (facts_.products > 0) {
      w_.atoms.push_back({plan_.atom.get(), inner * facts_.products});
    }
    double ops = extra + (plan_.form == AtomForm::group ? inner * find_atom_row(plan_.atom->name)->instructions
                          : plan_.tiled()               ? 0
                                                        : inner * facts_.products);
    for (const NestFacts::Function& f : facts_.inner_functions) {
      const double n = inner / results_sharing(f) / steps_sharing(f);
      if (!plan_.interleaved() || f.name != "convert") function(f.name, f.times * n);
      ops += f.instructions * n;
    }
    for (const NestFacts::Function& f : facts_.outer_functions) {
      const double n = outer / results_sharing(f);
      function(f.name, f.times * n), ops += f.instructions * n;
    }
    if (const double partial = points_ * calls_ * (1 - 1 / chunks_); chunks_ > 1)
      loads += partial, stores += partial, last_stores += partial;
    // what does not fit the register file is stored and loaded again at every step
    const int spilled = std::max(0, registers_needed(nest_, facts_, plan_) - c_.profile.vector_registers);
    if (spilled > 0) loads += spilled * iterations * calls_, stores += spilled * iterations * calls_;
    const double reductions = nest_.has_reduction() && vec_reduced ? points_ * calls_ : 0;  // across the lanes
    if (plan_.finish_axis >= 0) {  // a tree of pairs, two shuffles each, then the levels that are left of it
      const double rows = std::min(side, double(plan_.lanes)), levels = std::log2(plan_.lanes / rows);
      const double folds = reductions * (1 + (levels - 1) / rows);
      function("shuffle", 2 * folds), function("add", folds);
      ops += 3 * folds;
      // of more rows than a tree takes, the others wait on the stack, and more than once (compiled code; 16 to 30 rows of 37 floats, Zen 4)
      constexpr double kTree = 15, kMoves = 3;
      const double waiting = kMoves * reductions * std::max(0.0, side - kTree) / side;
      loads += waiting, stores += waiting;
    } else {
      function("shuffle", 4 * reductions), function("add", 4 * reductions);
      ops += 10 * reductions;
    }
    // stores are collected on their way to the cache: half of what a second access would cost
    w_.loads = loads + broadcasts * (c_.profile.broadcast_loads() - 1) + load_splits * (c_.profile.split_as_loads() - 1);
    w_.stores = stores + store_splits / 2;
    const bool loops = iterations > 1;
    w_.instructions = loads + stores + ops + 3 * iterations * calls_ + (loops ? 30 : 12) * calls_;
    // the reorder buffer holds several small tiles at once, whose chains run side by side
    // (kReorderBuffer), and of a longer one's end and the next one's begin what waits in the schedulers (one row of bf16 on Zen 4, chunks
    // of 330 to 1650 instructions: 0.74 to 0.96 of the chain)
    constexpr double kReorderBuffer = 256, kSchedulers = 96;
    const double of_call = w_.instructions / calls_;
    const double overlapped = gpu() ? 1 : std::min(of_call / kReorderBuffer, of_call / (of_call + kSchedulers));
    const double latency = plan_.atom ? plan_.atom->latency_ns : 4 / c_.profile.ghz;
    if (nest_.has_reduction()) {
      const double copies = vec_reduced ? double(axes_[size_t(plan_.vec)].unroll) : 1;
      w_.chain_steps = steps_ / copies * calls_ + (vec_reduced ? (6 + std::log2(copies)) * calls_ : 0);
      w_.chain_latency_ns = latency * overlapped;
    }
    // a long loop ends with a mispredicted branch; short ones are foreseen, and a body without loops flows into the next
    constexpr double kForeseen = 32;
    const double innermost = plan_.reduce_order.empty() ? 1 : axes_[size_t(plan_.reduce_order.back())].trips;
    w_.call_overheads = (calls_ * (innermost > kForeseen ? 12 : 3) + border_) / c_.profile.ghz;
    if (nest_.has_reduction() && !plan_.tiled() && !gpu())
      w_.call_overheads +=
          std::max(0.0, last_stores / calls_ - kBurst) * calls_ * (c_.profile.vector_bits / 8.0) / c_.profile.levels[0].write_gbs(1);
  }

  /// Elements of a broadcast operand that one load brings.
  int64_t merged(const NestFacts::OperandFacts& o) const {
    if (plan_.reduce_order.empty()) return 1;
    const size_t last = size_t(plan_.reduce_order.back());
    const int64_t most = 16 / o.element_bytes;
    if (o.coef[last] != 1 || !o.guards.empty() || axes_[last].unroll % most != 0) return 1;
    for (size_t a = 0; a < n_; ++a)
      if (a != last && o.coef[a] % most != 0) return 1;
    return most;
  }

  /// Cycles of one bounds check: next to nothing in a small body; once the checks of an unrolled body outgrow the micro-op cache, the
  /// decoders set the pace.
  static double guard_cycles(double checks) { return checks > 100 ? 4 : 0.75; }

  /// Bounds checks of a GPU's loads. In a body of few they become predicates: comparisons and a zero. In a large one each has two
  /// comparisons, a branch, a barrier where its lanes meet again, a zero and the lane's address of its own (as compiled kernels show).
  void guard(double loads, double in_body, double& instructions) {
    const bool branch = in_body > 64;
    instructions += (branch ? 10 : 4) * loads;
    w_.guarded_loads += branch ? loads : 0;
  }
  /// Whether the place of the tile decides if the access is inside; what an unrolled body knows by itself costs nothing, nor what loops
  /// over taps leave out.
  bool checked(size_t i) const {
    const auto& o = facts_.operands[i];
    if (plan_.operands[i].placement != Placement::direct) return false;
    return std::any_of(o.guards.begin(), o.guards.end(), [&](int d) {
      if (plan_.taps)
        for (const PaddedTaps& t : *plan_.taps) {
          if (o.dim_coef[size_t(d)][size_t(t.reduced)] == 0 || o.dim_coef[size_t(d)][size_t(t.output)] == 0) continue;
          const NestPlan::LeftOut left_out = plan_.left_out(t);
          if (left_out == NestPlan::LeftOut::points) return false;
          if (left_out != NestPlan::LeftOut::nowhere && plan_.tile[size_t(t.output)].size() == 1) return false;
        }
      for (size_t a = 0; a < n_; ++a)
        if (o.dim_coef[size_t(d)][a] != 0 && (reduced(a) ? axes_[a].trips : double(plan_.tile[a].blocks)) > 1) return true;
      return false;
    });
  }

  /// The share of the accesses of operand `i` that are checked: in tiles that may leave the tensor, and of an unrolled body only those
  /// next to its border.
  double border_share(size_t i) const {
    const auto& o = facts_.operands[i];
    double inside = 1;
    for (size_t g = 0; g < o.guards.size(); ++g) {
      const std::vector<int64_t>& dim = o.dim_coef[size_t(o.guards[g])];
      double blocks = 1;
      bool unrolled = !gpu();
      for (size_t a = 0; a < n_; ++a) {
        if (dim[a] == 0) continue;
        if (reduced(a))
          unrolled &= axes_[a].trips <= 1;
        else
          blocks *= double(plan_.tile[a].blocks);
      }
      inside *= unrolled ? 1 - o.outside[g] : std::max(0.0, 1 - 2 / blocks);
    }
    return 1 - inside;
  }

  /// Workers that write neighbouring pieces of the same rows: a core fetches ahead, in order to write them, lines that are the next
  /// one's. On two cores of Zen 4 a maximum whose workers share rows of 256 bytes takes 51 to 165 µs instead of 26.
  void interleaved_stores() {
    constexpr double kMovedNs = 10;  // of a line that goes from core to core, per line stored
    if (gpu()) return;
    for (const Parallel& split : plan_.parallel)
      for (size_t i = facts_.reads; split.parts > 1 && i < facts_.operands.size(); ++i) {
        const auto& o = facts_.operands[i];
        const auto stride = [&](size_t a) { return double(std::abs(o.coef[a]) * o.element_bytes); };
        const double along = stride(size_t(split.axis)), piece = along * double(axes_[size_t(split.axis)].covered);
        double bytes = o.element_bytes;
        bool rows = false;
        for (size_t a = 0; a < n_; ++a) {
          if (o.coef[a] == 0) continue;
          bytes *= double(axes_[a].covered), rows |= stride(a) > along && nest_.axes[a].extent > 1;
        }
        if (rows && piece > 0)
          w_.call_overheads += bytes / c_.profile.levels[0].line_bytes * std::min(1.0, kWrittenAhead / piece) * kMovedNs;
      }
  }

  /// Padded copies made before the nest, row by row: where it comes from, which parts of it are inside; then whole vectors.
  void copies() {
    constexpr double kRow = 24, kVector = 5;  // instructions
    for (size_t i = 0; i < facts_.reads; ++i) {
      if (plan_.operands[i].placement != Placement::box) continue;
      const auto& o = facts_.operands[i];
      const auto& p = c_.profile;
      const double rows = double(ceil_div(o.box_rows, std::max<int64_t>(1, plan_.tasks())));
      const double copied = rows * double(o.box_row * o.element_bytes), vectors = rows * std::ceil(double(o.box_row) * 32 / p.vector_bits);
      double read = o.element_bytes;
      for (int64_t s : o.shape) read *= double(s);
      read *= rows / double(o.box_rows);
      const size_t home = size_t(std::max(0, c_.home[size_t(o.tensor)]));
      const hw::MemoryLevel &from = p.levels[home], &to = p.levels[std::max(home, size_t(near_level(p, copied, 0.8)))];
      const double missing = home + 1 == p.levels.size() ? c_.missing : 1;
      const double moved_ns = missing * read / from.read_gbs(w_.workers) + copied / to.write_gbs(w_.workers);
      w_.call_overheads += std::max((kRow * rows + kVector * vectors) / (p.issue_width * p.ghz), moved_ns);
    }
  }
};

}  // namespace

TileCounts count_tiles(const Nest& nest, const NestPlan& plan) {
  TileCounts c;
  c.axes.resize(nest.axes.size());
  for (size_t a = 0; a < c.axes.size(); ++a) {
    const Blocking& t = plan.tile[a];
    const int64_t extent = nest.axes[a].extent;
    c.axes[a].covered = extent;
    if (!nest.axes[a].reduced) {
      int64_t blocks = t.blocks;
      for (const Parallel& p : plan.parallel)
        if (size_t(p.axis) == a) blocks = ceil_div(t.blocks, p.parts);
      c.axes[a].mean = double(t.units()) / double(t.blocks);
      c.axes[a].covered = std::min(extent, int64_t(std::ceil(double(blocks) * c.axes[a].mean * double(t.unit))));
      c.calls *= double(blocks);
      c.points *= c.axes[a].mean;
    } else {
      int64_t inside = extent;
      for (const Loop& l : plan.loops)
        if (size_t(l.axis) == a) inside = std::min(l.step, extent), c.chunks *= double(ceil_div(extent, l.step));
      const double units = std::ceil(double(inside) / double(int(a) == plan.k_axis ? plan.k_step : t.unit));
      c.axes[a].unroll = std::min<int64_t>(t.hi, int64_t(units));
      c.axes[a].trips = std::ceil(units / double(c.axes[a].unroll));
      c.steps *= units;
    }
  }
  c.calls *= c.chunks;
  if (plan.taps)
    for (const PaddedTaps& t : *plan.taps) {
      const NestPlan::LeftOut left_out = plan.left_out(t);
      if (left_out == NestPlan::LeftOut::points) c.inside *= t.share(1);
      if (left_out != NestPlan::LeftOut::tiles && left_out != NestPlan::LeftOut::steps) continue;
      const double share = t.share(plan.tile[size_t(t.output)].size());
      c.axes[size_t(t.reduced)].trips *= share, c.steps *= share;
    }
  return c;
}

hw::Workload workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context) {
  return Counter(nest, facts, plan, context).run();
}

}  // namespace rgen::rtile
