#include "rtile/workload.h"

#include <algorithm>
#include <cmath>

#include "rtile/tile_counts.h"

namespace rgen::rtile {

namespace {

constexpr double kMovedNs = 10;  ///< of a line that goes from core to core, where many do
/// A core that writes lines fetches those behind them, so many bytes, in order to write them too: what other cores write lies further away.
constexpr int64_t kWrittenAhead = 256;

class Counter : CountedPlan {
 public:
  explicit Counter(const CountedPlan& plan) : CountedPlan(plan) {}

  hw::Workload run() {
    count_instructions(*this, w_);
    w_.levels.resize(c_.profile.levels.size());
    // registers ← L1: every load and store, as wide as a vector (broadcasts read one element)
    const double vector_bytes = c_.profile.vector_bits / 8.0;
    w_.levels[0] = {w_.loads * vector_bytes, w_.stores * vector_bytes};
    w_.loads += c_.ahead_bytes / c_.profile.levels[0].line_bytes, w_.instructions += c_.ahead_bytes / c_.profile.levels[0].line_bytes;
    if (!gpu()) count_traffic(*this, w_.levels);  // of a GPU's tasks together: GpuTile
    w_.workers = workers();
    if (c_.threads == 1) w_.regions = 0;  // a fused group's nests run inside its tasks
    if (!plan_.copies_alone) w_.regions += boxes();
    w_.call_overheads += copies_ns(plan_.copies_alone);
    other_tiles();
    if (plan_.combining) pieces();
    if (plan_.peeled) ends_of_rows();
    if (plan_.repacks_b()) repacks(size_t(plan_.operand_b));
    interleaved_stores();
    exchanges();
    return std::move(w_);
  }

  bool copied_alone() const { return workers() > 1 && copies_ns(true) < copies_ns(false) + boxes() * c_.profile.fork_join_us * 1e3; }

 private:
  hw::Workload w_;

  /// Workers that write neighbouring parts of a result: a core fetches ahead, in order to write them, lines that are the next one's.
  void interleaved_stores() {
    if (gpu()) return;
    for (const Parallel& split : plan_.parallel)
      for (size_t i = facts_.reads; split.parts > 1 && i < facts_.operands.size(); ++i)
        w_.call_overheads += kMovedNs * (lines_beside(facts_.operands[i], split) + lines_below(facts_.operands[i], split));
  }
  double stride(const NestFacts::OperandFacts& o, size_t a) const { return double(std::abs(o.coef[a]) * o.element_bytes); }

  /// ... pieces of the same rows. On two cores of Zen 4 a maximum whose workers share rows of 256 bytes takes 51 to 165 µs instead of 26.
  /// Partial sums are written again with each chunk (1 × 87 of 256 channels in planes, 174 chunks, whose 400 rows of a KiB of sums two
  /// workers share: 9.9 ms, those along the rows 8.1; Zen 5). Pieces of 256 bytes to 8 KiB beside the other core's take 13 to 240 ns each,
  /// read and written 45 to 288, where cores have different last caches.
  double lines_beside(const NestFacts::OperandFacts& o, const Parallel& split) const {
    const bool along_rows = sums_apart(o) && split.axis == plan_.vec;
    const double element = along_rows ? kSum : o.element_bytes, along = along_rows ? kSum : stride(o, size_t(split.axis));
    const double piece = along * double(axes_[size_t(split.axis)].covered);
    double bytes = element;
    bool rows = false;
    for (size_t a = 0; a < n_; ++a) {
      if (o.coef[a] == 0) continue;
      bytes *= double(axes_[a].covered);
      rows |= (along_rows ? int(a) != plan_.vec : stride(o, a) > along) && nest_.axes[a].extent > 1;
    }
    return rows && piece > 0 ? counts_.chunks * bytes / line() * std::min(1.0, kWrittenAhead / piece) : 0;
  }

  /// ... rows that the innermost loop walks: prefetchers follow its steps into the next worker's rows, a tile's lines at the end of every
  /// walk. 45 × 41 by 41 × 2432 of bytes on two cores of Zen 4, each 76 times down its half of the rows: 21 µs; up the first half and down
  /// the second, or each along half of the columns, 13.
  double lines_below(const NestFacts::OperandFacts& o, const Parallel& split) const {
    const int home = c_.home[size_t(o.tensor)];
    const bool own = home < 0 || (!c_.beyond_caches(o.tensor) && c_.profile.levels[size_t(home)].shared_by == 1);  // a worker's caches
    if (!own || stride(o, size_t(split.axis)) < line()) return 0;
    double walks = 1;
    int innermost = -1;
    for (size_t l = 0; l < plan_.loops.size(); ++l) {
      const double trips = trips_of(l);
      if (trips <= 1) continue;
      innermost = plan_.loops[l].axis;
      if (innermost != split.axis) walks *= trips;
    }
    double lines = 1;
    for (size_t a = 0; a < n_; ++a)
      if (o.coef[a] != 0) lines *= stride(o, a) < line() ? std::ceil(stride(o, a) * double(plan_.tile[a].size()) / line()) : axes_[a].mean;
    return innermost == split.axis ? walks * lines : 0;
  }

  /// Lines of intermediate tensors that other workers' caches have. Whoever reads all of one finds the other workers' parts there; whoever
  /// reads a part finds it at home, but for what a window reaches beyond it, if the nest that made the tensor had the same parts. Copies in
  /// another layout of which each worker makes some places and reads some channels, a quarter of the lines: 14 to 18 ns a line where a
  /// virtual machine's cores have different last caches, and nothing worth mentioning where they share one (from minute to minute; Zen 5).
  void exchanges() {
    if (c_.exchanged.empty()) return;
    const double others = 1 - 1.0 / c_.threads;
    for (size_t i = 0; i < facts_.operands.size(); ++i) {
      const auto& o = facts_.operands[i];
      Exchange e = c_.exchanged[size_t(o.tensor)];
      if (!e.made || c_.beyond_caches(o.tensor)) continue;
      (o.is_store ? e.made_parts : e.read_parts) = part_of_worker(o, nest_, plan_);
      // in other parts, of which each has a piece, or all by one worker; else in the parts in which it was made, or whole by each
      double share = 0;
      if (e.other_parts())
        share = e.read_parts < 0 ? others : (e.made_parts < 0 ? 1 : others) / c_.threads;
      else if (!o.is_store)
        share = e.read_parts == 0 ? others : e.read_parts > 0 ? reached_beyond(o) / c_.threads : 0;
      w_.call_overheads += share * tensor_bytes(c_.program[o.tensor]) / line() * kMovedNs;
    }
  }
  /// What the windows of a worker's places reach beyond its part, against that part. The first and the last worker have one neighbour.
  double reached_beyond(const NestFacts::OperandFacts& o) const {
    for (const Parallel& p : plan_.parallel)
      for (const std::vector<int64_t>& dim : o.dim_coef) {
        const size_t along = size_t(p.axis);
        if (p.parts == 1 || dim[along] == 0) continue;
        double beyond = 0;
        for (size_t a = 0; a < n_; ++a)
          if (a != along) beyond += double(std::abs(dim[a]) * (nest_.axes[a].extent - 1));
        return std::min(1.0, beyond / double(std::abs(dim[along]) * axes_[along].covered)) * (c_.threads == 2 ? 0.5 : 1);
      }
    return 0;
  }

  /// Results that are collected: nothing hides that they go to the second cache and come back, if the first one does not hold the buffer
  /// beside what is read; and parts of lines at the ends of rows are written as usual.
  void pieces() {
    constexpr double kEndNs = 15;
    const auto& o = facts_.operands.back();
    double elements = 1;
    for (size_t a = 0; a < n_; ++a)
      if (o.coef[a] != 0) elements *= double(axes_[a].covered);
    const double bytes = elements * o.element_bytes, buffer = double(plan_.buffered_rows() * plan_.buffered_pitch() * o.element_bytes);
    const size_t home = size_t(near_level(c_.profile, buffer, 0.5));
    if (const hw::MemoryLevel& level = c_.profile.levels[home]; home > 0)
      w_.levels[home].waits += (bytes / level.write_gbs(1) + bytes / level.read_gbs(1)) / level.latency_ns;
    const WriteCombining& w = *plan_.combining;
    const double row = double(axes_[size_t(w.along)].covered * (w.whole ? axes_[size_t(w.rows)].covered : 1));
    w_.call_overheads += kEndNs * elements / row;
  }
  /// Parts of lines before and behind what is streamed of each row.
  void ends_of_rows() {
    constexpr double kEndNs = 12;
    double rows = 1;
    for (size_t a = 0; a < n_; ++a)
      if (int(a) != plan_.vec) rows *= double(axes_[a].covered);
    w_.call_overheads += 2 * kEndNs * rows;
  }
  double line() const { return c_.profile.levels[0].line_bytes; }

  /// Tiles of other sizes are copies of the code, which come from the second cache each time that the nest begins.
  void other_tiles() {
    constexpr double kMost = 60, kInstructions = 5;  // cycles; that arrive in one
    if (gpu()) return;
    double sizes = 1, bodies = counts_.calls;
    for (size_t a = 0; a < n_; ++a)
      if (reduced(a))
        bodies *= axes_[a].trips;
      else if (plan_.tile[a].ragged())
        sizes *= 2;
    w_.call_overheads += (sizes - 1) * std::min(kMost, w_.instructions / bodies / kInstructions) / c_.profile.ghz;
  }

  int boxes() const {
    return int(std::count_if(plan_.operands.begin(), plan_.operands.end(), [](const Operand& o) { return o.placement == Placement::box; }));
  }
  /// Padded copies made before the nest, row by row: where it comes from, which parts of it are inside; then whole vectors. `alone`: by one
  /// worker, from whose cache the others fetch them.
  double copies_ns(bool alone) const {
    constexpr double kRow = 24, kVector = 5;  // instructions; of narrow types most vectors are copied as bytes
    const auto& p = c_.profile;
    double ns = 0;
    for (size_t i = 0; i < facts_.reads; ++i) {
      if (plan_.operands[i].placement != Placement::box) continue;
      const auto& o = facts_.operands[i];
      const auto& box = o.box(plan_.operands[i]);
      const int64_t tasks = alone ? 1 : std::max<int64_t>(1, plan_.tasks());  // fewer rows than tasks are divided
      const double rows = box.rows < tasks ? double(box.rows) / double(tasks) : double(ceil_div(box.rows, tasks));
      const double copied = rows * double(box.row * o.element_bytes),
                   vectors = rows * std::ceil(double(box.row * o.element_bytes) * 8 / p.vector_bits);
      double read = o.element_bytes;
      for (int64_t s : o.shape) read *= double(s);
      read *= rows / double(box.rows);
      ns += std::max((kRow * rows + kVector * vectors) / (p.issue_width * p.ghz), moved_ns(o, read, copied));
      if (alone) ns += copied / line() * (1 - 1.0 / workers()) * kMovedNs;
    }
    return ns;
  }

  /// What a copy reads from the tensor's home and writes to the nearest level that holds it.
  double moved_ns(const NestFacts::OperandFacts& o, double read, double written) const {
    const auto& p = c_.profile;
    const size_t home = size_t(std::max(0, c_.home[size_t(o.tensor)]));
    const hw::MemoryLevel &from = p.levels[home], &to = p.levels[std::max(home, size_t(near_level(p, written, 0.8)))];
    return c_.missing_at(int(home)) * read / from.read_gbs(workers()) + written / to.write_gbs(workers());
  }

  /// An activation packed before the nest, or before the fused group of which this is one tile: rows of 32-bit groups that change places
  /// with lanes, or rows that are interleaved.
  void repacks(size_t i) {
    const auto& o = facts_.operands[i];
    const auto& p = c_.profile;
    double elements = 1, panels = 1, tiles = 1;
    for (size_t a = 0; a < n_; ++a) {
      const NestAxis& axis = nest_.axes[a];
      if (axis.full > 0) tiles *= std::ceil(double(axis.full) / double(axis.extent));
      if (o.coef[a] == 0) continue;
      elements *= double(axis.full > 0 ? axis.full : axis.extent);
      if (!axis.reduced) panels *= double(axis.full > 0 ? axis.full : plan_.tile[a].blocks);
    }
    const double workers = tiles > 1 ? c_.sharers : double(plan_.tasks());
    const double bytes = elements * o.element_bytes * std::ceil(panels / workers) / panels, vectors = bytes * 8 / p.vector_bits;
    const double rows = 4.0 / o.element_bytes;  // of a group
    const bool along_k = o.coef[size_t(plan_.k_axis)] == 1;
    const double instructions = along_k ? 6 : 1 + rows + 3 * (rows - 1), shuffles = along_k ? 4 : rows;
    const double cycles = std::max(instructions / p.issue_width, shuffles * p.cost("shuffle"));
    const double starts_ns = w_.workers > 1 ? p.fork_join_us * 1e3 : 0;
    w_.call_overheads += (std::max(vectors * cycles / p.ghz, moved_ns(o, bytes, bytes)) + starts_ns) * workers / std::max(tiles, workers);
  }
};

}  // namespace

TileCounts count_tiles(const Nest& nest, const NestPlan& plan, const PlanContext& context) {
  TileCounts c;
  c.axes.resize(nest.axes.size());
  for (size_t a = 0; a < c.axes.size(); ++a) {
    const Blocking& t = plan.tile[a];
    const int64_t extent = nest.axes[a].extent;
    c.axes[a].covered = extent;
    if (!nest.axes[a].reduced) {
      int64_t blocks = t.blocks;
      c.axes[a].mean = double(t.units()) / double(t.blocks);
      for (const Parallel& p : plan.parallel) {
        if (size_t(p.axis) != a) continue;
        blocks = ceil_div(t.blocks, p.parts);
        if (context.profile.kind == hw::Profile::Kind::cpu) c.axes[a].mean = double(t.most_units(p.parts)) / double(blocks);
      }
      c.axes[a].covered = std::min(extent, int64_t(std::ceil(double(blocks) * c.axes[a].mean * double(t.unit))));
      c.calls *= double(blocks);
      c.points *= c.axes[a].mean;
    } else {
      int64_t inside = extent;
      for (const Loop& l : plan.loops)
        if (size_t(l.axis) == a) inside = std::min(l.step, extent), c.chunks *= double(ceil_div(extent, l.step));
      for (const Parallel& p : plan.parallel)  // among the warps of a tile
        if (size_t(p.axis) == a) inside = std::min(inside, ceil_div(t.units(), p.parts) * t.unit);
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
      if (left_out == NestPlan::LeftOut::nowhere) continue;
      const double share = t.share(plan.tile[size_t(t.output)].size());
      c.axes[size_t(t.reduced)].trips *= share, c.steps *= share;
      if (left_out == NestPlan::LeftOut::points) c.inside *= t.points_share(plan.tile[size_t(t.output)].size());
    }
  return c;
}

int64_t part_of_worker(const NestFacts::OperandFacts& o, const Nest& nest, const NestPlan& plan) {
  for (const Parallel& p : plan.parallel)
    if (const size_t a = size_t(p.axis); p.parts > 1 && o.coef[a] != 0) return std::abs(o.coef[a]) * ceil_div(nest.axes[a].extent, p.parts);
  return plan.tasks() > 1 ? 0 : -1;
}

hw::Workload workload(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context) {
  const TileCounts counts = count_tiles(nest, plan, context);
  return Counter(CountedPlan(nest, facts, plan, context, counts)).run();
}

bool copied_alone(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context) {
  const TileCounts counts = count_tiles(nest, plan, context);
  return Counter(CountedPlan(nest, facts, plan, context, counts)).copied_alone();
}

}  // namespace rgen::rtile
