#include "rtile/traffic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rgen::rtile {

namespace {

class Traffic {
 public:
  Traffic(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, const TileCounts& counts,
          std::vector<hw::LevelTraffic>& into)
      : nest_(nest), facts_(facts), plan_(plan), c_(context), n_(nest.axes.size()), counts_(counts), into_(into) {}

  /// Streams beyond the first-level cache.
  void run() {
    into_.back().read_bytes = (plan_.stream ? c_.missing_beside_streams : c_.missing) * c_.ahead_bytes;
    const std::vector<Loop> loops = all_loops();
    const size_t n_operands = facts_.operands.size(), n_loops = loops.size(), n_outside = plan_.loops.size();
    size_t farthest = 0;  // the last level that streams come from
    for (size_t i = 0; i < n_operands; ++i)
      while (leaves(i, farthest)) ++farthest;
    if (farthest == 0) return;
    // extents covered at every depth: depth 0 is the worker's whole share, the last one a single tile, or a step of it
    std::vector<int64_t> extents((n_loops + 1) * n_);
    std::vector<double> trips, total, bytes_touched((n_loops + 1) * n_operands);
    const auto covered = [&](size_t depth) { return std::span<const int64_t>(extents).subspan(depth * n_, n_); };
    const auto each = [&](size_t depth) { return std::span<double>(bytes_touched).subspan(depth * n_operands, n_operands); };
    for (size_t a = 0; a < n_; ++a) extents[a] = axes_[a].covered;
    trips.reserve(n_loops), total.reserve(n_loops + 1);
    total.push_back(footprint(covered(0), each(0)));
    for (size_t d = 0; d < n_loops; ++d) {
      const Loop& l = loops[d];
      const size_t a = size_t(l.axis);
      std::copy_n(&extents[d * n_], n_, &extents[(d + 1) * n_]);
      int64_t& x = extents[(d + 1) * n_ + a];
      const int64_t inside = reduced(a) ? l.step : int64_t(std::ceil(double(l.step) * axes_[a].mean)) * plan_.tile[a].unit;
      trips.push_back(std::ceil(double(x) / double(std::min(inside, x))));
      x = std::min(x, inside);
      total.push_back(footprint(covered(d + 1), each(d + 1)));
    }

    std::vector<Stretch> stretches(n_operands);
    std::vector<double> conflicts(n_operands, 0.0), by_turns(n_operands, 1.0);
    std::vector<bool> side_by_side(n_operands, false);  // rows that the body reads by turns
    double pages = 0;                                   // that one unrolled body walks at once
    for (size_t i = 0; i < n_operands; ++i) {
      if (!leaves(i, 0)) continue;
      stretches[i] = stretch(i);
      const std::vector<int64_t> lines = body_lines(i);
      conflicts[i] = conflict_bytes(lines);
      if (i < facts_.reads && !placed(i, Placement::prepack)) pages += pages_of(lines);
      side_by_side[i] = facts_.products == 0 && apart(body_lines(i, false));
      if (side_by_side[i] && c_.missing == 1 && !leaves(i, 1))
        by_turns[i] = std::max(1.0, c_.profile.levels[1].read_gbs(1) / (kByTurns * c_.profile.ghz));
    }
    const double unprefetched = 1 + std::max(0.0, pages - kStreams) / (2 * kStreams);
    const auto& levels = c_.profile.levels;
    for (size_t inner = 0; inner < farthest; ++inner) {
      const double capacity = 0.8 * double(levels[inner].capacity_bytes);
      size_t depth = 0;
      const auto occupied = [&](size_t d) { return total[d] + lost_to_conflicts(covered(d), each(d), levels[inner]); };
      while (depth < n_loops && occupied(depth) > capacity) ++depth;
      const bool fits = depth < n_loops || occupied(depth) <= capacity;
      hw::LevelTraffic& t = into_[inner + 1];
      double come = 0, concentrated = 0;
      for (size_t i = 0; i < facts_.operands.size(); ++i) {
        const auto& o = facts_.operands[i];
        if (!leaves(i, inner)) continue;
        double bytes = each(depth)[i], uses = 1;
        bool reusing = fits;  // else nothing survives until the next iteration
        for (size_t l = o.inner ? n_loops : n_outside; l-- > 0;) {
          const bool used = o.coef[size_t(loops[l].axis)] != 0;
          if (!used && reusing) uses *= trips[l];
          if (l >= depth) continue;
          // what neighbouring iterations of the loop around read in common is still there
          const bool slides = fits && l + 1 == depth && !o.is_store;
          reusing = reusing && !used;
          if (!reusing) bytes = slides ? std::min(bytes * trips[l], each(l)[i]) : bytes * trips[l];
        }
        const bool memory = inner + 2 == levels.size();
        if (memory && o.is_store && plan_.stream) {  // nothing waits for a line that is written whole
          bytes *= streamed_pieces(i, stretches[i]);
        } else {
          if (memory) bytes *= o.is_store ? c_.missing_results : plan_.stream ? c_.missing_beside_streams : c_.missing;
          if (memory && o.is_store) bytes *= 1 + slow_stores(o);
          const bool window = !o.is_store && plan_.operands[i].slides >= 0, asked = window || passes_by(i);  // for each line
          const double alone = memory ? 1 : o.is_store ? 0 : std::min(1.0, stretches[i].bytes / kOverlapped);
          if (!asked) t.runs += alone * bytes / stretches[i].bytes;
          const double slow = window ? std::min(2.0, 2 * stretches[i].slow) : asked ? slow_rows(i) : stretches[i].slow;
          if (memory && !o.is_store) bytes *= 1 + slow;
          if (memory && side_by_side[i]) bytes *= kReadTurns;
        }
        if (inner == 0) bytes = std::max(bytes, conflicts[i]) * by_turns[i];
        if (!o.is_store && !placed(i, Placement::prepack)) bytes *= unprefetched;
        come += bytes, concentrated += bytes * uses;
        if (inner == 0 && o.is_store) t.waits += bytes / levels[0].line_bytes * waiting_stores(o);
        if (o.is_store) {
          // the profile's write bandwidth has the reads that allocate lines in it; streaming stores have none
          if (plan_.stream)
            t.stream_bytes += memory ? bytes : 0;
          else
            t.write_bytes += bytes;
          if (const double partial = bytes * (1 - 1 / chunks_); chunks_ > 1) {  // sums, for which the tile waits
            t.read_bytes += partial;
            if (memory) t.runs += partial / tile_bytes(o) * kSumsWait;
          }
        } else {
          t.read_bytes += bytes;
          if (memory && plan_.operands[i].ahead > 0) t.ahead_bytes += bytes;
        }
      }
      if (come > 0) t.concentration = concentrated / come;
    }
  }

 private:
  const Nest& nest_;
  const NestFacts& facts_;
  const NestPlan& plan_;
  const PlanContext& c_;
  const size_t n_;
  const TileCounts& counts_;
  const std::vector<TileCounts::Axis>& axes_ = counts_.axes;
  const double calls_ = counts_.calls, chunks_ = counts_.chunks;
  std::vector<hw::LevelTraffic>& into_;

  bool reduced(size_t a) const { return nest_.axes[a].reduced; }

  /// The plan's; and those of the reduction inside the tile, where it matters what each of their iterations has in common with the next.
  std::vector<Loop> all_loops() const {
    std::vector<Loop> loops = plan_.loops;
    if (facts_.slides)
      for (int a : plan_.reduce_order)
        if (axes_[size_t(a)].trips > 1)
          loops.push_back({a, axes_[size_t(a)].unroll * (a == plan_.k_axis ? plan_.k_step : plan_.tile[size_t(a)].unit)});
    return loops;
  }

  /// Bytes touched by all operands, and by each, while the axes cover `extents`.
  double footprint(std::span<const int64_t> extents, std::span<double> each) const {
    double sum = 0;
    for (size_t i = 0; i < each.size(); ++i) {
      const auto& o = facts_.operands[i];
      each[i] = footprint_bytes(o, extents, c_.profile.levels[0].line_bytes, placed(i, Placement::prepack));
      if (placed(i, Placement::box)) each[i] *= o.box_spread;
      sum += each[i];
    }
    return sum;
  }

  bool placed(size_t operand, Placement p) const { return operand < facts_.reads && plan_.operands[operand].placement == p; }

  bool passes_by(size_t operand) const { return operand < facts_.reads && plan_.operands[operand].passes_by; }

  /// It waits beyond this level between its uses.
  bool leaves(size_t operand, size_t level) const { return !c_.near && c_.home[size_t(facts_.operands[operand].tensor)] > int(level); }

  /// Bytes of a cache that operands cannot use because their rows fall into few of its sets: n rows that share p places fill n / p ways.
  /// Only small caches are indexed by plain address bits.
  double lost_to_conflicts(std::span<const int64_t> covered, std::span<const double> bytes, const hw::MemoryLevel& level) const {
    if (level.ways <= 0 || level.capacity_bytes > (int64_t{4} << 20)) return 0;
    const int64_t way = level.capacity_bytes / level.ways;
    double lost = 0;
    for (size_t i = 0; i < facts_.reads; ++i) {
      const auto& o = facts_.operands[i];
      if (!o.inner || placed(i, Placement::prepack)) continue;
      double ways = 0;
      for (size_t a = 0; a < n_; ++a) {
        const int64_t stride = std::abs(placed_coef(i)[a]) * o.element_bytes;
        if (stride < level.line_bytes || covered[a] <= 1) continue;
        const int64_t places = way / std::gcd(stride, way);
        ways = std::max(ways, std::ceil(double(covered[a]) / double(places)));
      }
      lost += std::max(0.0, ways * double(way) - bytes[i]);
    }
    return lost;
  }

  /// Of its axis by the loop: all that the worker does, or a step of the loop around it.
  int64_t covered_by(size_t loop) const {
    const size_t a = size_t(plan_.loops[loop].axis);
    int64_t within = axes_[a].covered;
    for (size_t outer = 0; outer < loop; ++outer)
      if (size_t(plan_.loops[outer].axis) == a) within = std::min(within, plan_.loops[outer].step * step_unit(a));
    return within;
  }
  /// Elements of a step of 1 of a loop over the axis.
  int64_t step_unit(size_t a) const { return reduced(a) ? 1 : plan_.tile[a].size(); }

  /// How an operand is walked, from the tile outwards through the loops.
  struct Stretch {
    double bytes = kPanel;  ///< touched before a jump
    double slow = 0;        ///< what is added to their time where they come from memory, 1 at half the rate
    double turns = 1;       ///< rows that are walked by turns
    double piece = kPanel;  ///< bytes of one before the next one's turn, or before a jump
  };
  Stretch stretch(size_t i) const {
    const auto& o = facts_.operands[i];
    if (placed(i, Placement::prepack)) return {};  // panels follow one another
    // elements of the tile that lie side by side, then loops that step exactly past what is covered so far
    std::vector<int64_t> covered(n_, 1);
    for (size_t a = 0; a < n_; ++a) {
      covered[a] = reduced(a) ? nest_.axes[a].extent : plan_.tile[a].size();
      for (const Loop& l : plan_.loops)
        if (reduced(a) && size_t(l.axis) == a) covered[a] = std::min(covered[a], l.step);
    }
    // elements from the first to the last, and those of them that are touched: steps of few lines are followed as well as neighbours are
    double span = 1, touched = 1;
    const double gap = double(kGapBytes / o.element_bytes);
    const auto follows = [&](double step) { return step <= span + gap; };
    const auto extend = [&](size_t a, int64_t extent) {
      const double step = double(std::abs(o.coef[a]));
      if (step == 0 || extent <= 1 || !follows(step) || step * double(extent - 1) + 1 <= span) return;
      span += step * double(extent - 1);
      touched = std::min(span, touched * double(extent));
    };
    for (size_t round = 0; round < 2; ++round)
      for (size_t a = 0; a < n_; ++a) extend(a, covered[a]);
    double rows = 1;  // walked by turns
    for (size_t a = 0; a < n_; ++a)
      if (!follows(double(std::abs(o.coef[a])))) rows *= double(covered[a]);
    const double turn = std::max(64.0, touched * o.element_bytes);
    if (rows > kFollowed) return {turn, slow_share(turn), 1, turn};
    for (size_t l = plan_.loops.size(); l-- > 0;) {
      const size_t a = size_t(plan_.loops[l].axis);
      if (o.coef[a] == 0) continue;
      if (!follows(double(std::abs(o.coef[a]) * plan_.loops[l].step * step_unit(a)))) break;  // the next iteration jumps
      extend(a, covered_by(l));
    }
    const double whole = std::clamp(touched * o.element_bytes, 64.0, kPanel);
    const double ahead = std::max(0.0, 1 - kAheadBytes / (rows * turn));
    const double slow = std::max(slow_share(whole), rows > 1 ? slow_share(turn) * ahead : 0);
    int64_t closest = 0;  // elements from one that is touched to the next
    for (const int64_t c : o.coef)
      if (c != 0) closest = closest == 0 ? std::abs(c) : std::min(closest, std::abs(c));
    const bool lines = span * o.element_bytes > c_.profile.levels[0].line_bytes;
    const bool skips = lines && touched * double(std::max<int64_t>(1, closest)) < 0.75 * span;
    return {whole, skips ? std::max(slow, kSkipping) : slow, whole > turn ? rows : 1, rows > 1 ? turn : whole};
  }

  /// Rows that pass by are asked for, each line ahead of its use; but short ones of which a tile reads many by turns are not followed on
  /// their way to it (of 256 bytes, a product of 2 columns: 2 to 4 rows 0.9 to 1.0 ms, 7 rows 1.5, 8 rows 1.9, 9 rows 2.2; Zen 4).
  double slow_rows(size_t i) const {
    constexpr double kFew = 5, kRow = 0.5, kShort = 256;
    const auto& o = facts_.operands[i];
    double rows = 1, bytes = o.element_bytes;
    for (size_t a = 0; a < n_; ++a) {
      if (o.coef[a] == 0) continue;
      if (reduced(a))
        bytes *= o.coef[a] == 1 ? double(nest_.axes[a].extent) : 1;
      else
        rows *= double(plan_.tile[a].size());
    }
    return std::clamp(kRow * (rows - kFew), 0.0, kSkipping) * std::min(1.0, kShort / bytes);
  }

  /// What lines in memory cost beyond their own time because they are written out of order: a core waits for a line before it writes the
  /// next one, unless prefetchers have asked for it, and they follow what is written in order. Rows by turns count as far as each goes on,
  /// and together where they are neighbours that soon are complete. Rows of 256, 1024 and 4096 floats, two to sixteen by turns, take 3, 1.7
  /// and 1.4 times as long as one after the other, pieces of 64 to 512 bytes of every row before the next piece 3 to 6 times (Zen 4).
  double slow_stores(const NestFacts::OperandFacts& o) const {
    std::vector<size_t> closest;  // its axes
    for (size_t a = 0; a < n_; ++a)
      if (o.coef[a] != 0 && nest_.axes[a].extent > 1) closest.push_back(a);
    std::sort(closest.begin(), closest.end(), [&](size_t a, size_t b) { return std::abs(o.coef[a]) < std::abs(o.coef[b]); });
    int64_t run = 1;                        // elements without a gap
    std::vector<int64_t> covered(n_, 1);    // by them
    int64_t rows = 1, from_row_to_row = 0;  // runs of a tile
    const auto extend = [&](size_t a, int64_t extent) {
      if (std::abs(o.coef[a]) * covered[a] > run) return false;
      run += std::abs(o.coef[a]) * std::max<int64_t>(0, extent - covered[a]);
      covered[a] = std::max(covered[a], extent);
      return true;
    };
    for (size_t a : closest)
      if (const int64_t size = plan_.tile[a].size(); !extend(a, size) && size > 1) {
        if (rows == 1) from_row_to_row = std::abs(o.coef[a]);
        rows *= size;
      }
    for (size_t l = plan_.loops.size(); l-- > 0;) {
      const size_t a = size_t(plan_.loops[l].axis);
      if (o.coef[a] == 0) continue;
      if (covered[a] < std::min(nest_.axes[a].extent, plan_.loops[l].step * step_unit(a))) break;  // a row of the next ones
      if (!extend(a, covered_by(l))) break;
    }
    const double bytes = double(run) * o.element_bytes, in_order = kRampBytes / 2;
    const bool neighbours = rows > 1 && from_row_to_row <= run;
    const double apart = neighbours ? std::clamp((bytes * double(rows) - in_order) / kRampBytes, 0.0, 1.0) : 1;
    return unfollowed_store() * std::min(1.0, in_order / bytes) * apart;
  }
  /// The share of its lines that a map's result, in a cache, waits for because its rows fall into few sets of the first-level cache: rows
  /// by turns, of which more come between two pieces of one than a set has ways, lose what was fetched behind the first piece, and stores
  /// under way to one set come one after the other. Transpositions into rows of 1024, 2048 and 3072 bytes from one whole column of the
  /// result after the other, pieces of one line, take 2.4, 3.8 and 2.3 times as long as along rows of 16 columns, of two lines 2.3, 2
  /// and 1.2 times; into rows of 4000 bytes as long (Zen 5).
  double waiting_stores(const NestFacts::OperandFacts& o) const {
    constexpr double kUnderWay = 16, kAtOnce = 2, kInTurn = 6;  // stores; to one set
    const hw::MemoryLevel& l1 = c_.profile.levels[0];
    if (l1.ways <= 0 || facts_.products > 0) return 0;
    const int64_t way = l1.capacity_bytes / l1.ways;
    int64_t apart = way, piece = o.element_bytes;
    double between = 1;  // rows from one piece of a row to the next
    const auto across = [&](size_t a) { return std::abs(o.coef[a]) * o.element_bytes >= l1.line_bytes; };
    for (size_t a = 0; a < n_; ++a) {
      if (o.coef[a] == 0 || nest_.axes[a].extent == 1) continue;
      if (across(a))
        between *= double(plan_.tile[a].size()), apart = std::gcd(apart, std::abs(o.coef[a]) * o.element_bytes);
      else
        piece += std::abs(o.coef[a]) * o.element_bytes * (plan_.tile[a].size() - 1);
    }
    bool goes_on = false;
    for (size_t l = plan_.loops.size(); l-- > 0 && !goes_on;) {
      const size_t a = size_t(plan_.loops[l].axis);
      if (o.coef[a] == 0) continue;
      const int64_t covered = covered_by(l), step = plan_.loops[l].step * step_unit(a);
      if (across(a))
        between *= double(ceil_div(covered, step));
      else
        goes_on = covered > step;
    }
    if (!goes_on) return 0;
    const double sets = double(std::min(way / l1.line_bytes, way / apart)), ways = double(l1.ways);
    const double lost = std::clamp((between / sets - ways) / (ways / 2), 0.0, 1.0);
    const double in_turn = std::clamp((kUnderWay / sets - kAtOnce) / (kInTurn - kAtOnce), 0.0, 1.0);
    const double cached = c_.beyond_caches(o.tensor) ? 1 - c_.missing_results : 1;  // others: slow_stores
    return cached * lost * in_turn / double(ceil_div(piece, l1.line_bytes));
  }
  /// Of a line that prefetchers do not ask for: stores of a tile come together, others as many as a core looks ahead.
  double unfollowed_store() const {
    constexpr double kWindow = 256, kMisses = 24;  // instructions; stores under way
    const hw::MemoryLevel& memory = c_.profile.levels.back();
    const double under_way = std::clamp(std::max(counts_.points, kWindow / (1.5 * counts_.steps + 2)), 1.0, kMisses);
    return std::max(0.0, memory.latency_ns / under_way * memory.write_gbs(1) / memory.line_bytes - 1);
  }

  /// A tile that goes on with partial sums from memory begins when they are there: most of the latency, in shares of it as runs count (6
  /// to 24 rows of 256 bytes on Zen 4: 100 ns).
  static constexpr double kSumsWait = 6;
  double tile_bytes(const NestFacts::OperandFacts& o) const {
    double bytes = o.element_bytes;
    for (size_t a = 0; a < n_; ++a)
      if (o.coef[a] != 0) bytes *= double(plan_.tile[a].size());
    return bytes;
  }

  /// Streams that prefetchers follow at once; with three times as many, lines arrive half as fast. Measured on Zen 5, from L3 and from
  /// memory.
  static constexpr double kStreams = 8;

  static constexpr double kPanel = 65536;
  /// Misses of the first caches that are not followed by their neighbours overlap with five times as many others (48 of the second cache's;
  /// Zen 4: pieces of 64 and 128 bytes from the last one take 0.3 ns a line longer than long rows, pieces of 512 bytes and a KiB 0.2).
  static constexpr double kOverlapped = 320;  ///< bytes
  static constexpr int64_t kGapBytes = 2048;  ///< of the steps that prefetchers follow (Intel 2023, Optimization Reference Manual, §E.2.5)

  /// Of each stretch from memory so much comes at half the rate, until the prefetchers are far enough ahead. They follow so many rows that
  /// are walked by turns, and hold so much ahead of them, all together: what a turn takes beyond it is a stretch again. Column sums of
  /// 4096 × 4096, chunks of 8 to 4096 rows, pieces of 64 to 960 bytes, measured on Zen 4.
  static constexpr double kRampBytes = 2048, kFollowed = 16, kAheadBytes = 4096;
  /// Walks that skip lines, be it one in two, get from memory what misses bring that are under way at once: 8 to 10 GB/s of 31, for pieces
  /// of 64 to 2048 bytes and gaps as long or longer, on Zen 4. From the last cache they get all.
  static constexpr double kSkipping = 2;
  static double slow_share(double bytes) { return bytes < kPanel ? std::min(1.0, kRampBytes / bytes) : 0; }

  /// Lines that are streamed to k rows by turns take k times as long, up to so many (a map of 4096 × 3072 on Zen 4: 5.3, 6.2, 7, 8.7 and 10
  /// to 14 ms for 1, 2, 3, 4 and more rows).
  static constexpr double kStreamedTurns = 8;
  /// ... by vectors that are whole lines. Of narrower ones, where a line may leave before its second half is there, it is the short pieces
  /// that cost: a copy of 4096 rows of 4 KiB takes 0.9 ms row by row, by two rows in turn 1.3, and by four, pieces of 64, 128 and 256
  /// bytes, 4.6, 3.7 and 2.0 (Zen 3).
  double streamed_pieces(size_t i, const Stretch& s) const {
    constexpr double kWhole = 512, kMost = 4, kTwoRows = 1.4;
    if (plan_.lanes * facts_.operands[i].element_bytes >= c_.profile.levels[0].line_bytes) return std::min(s.turns, kStreamedTurns);
    return s.turns == 2 ? kTwoRows : std::clamp(kWhole / s.piece, 1.0, kMost);
  }
  /// What reads of several rows by turns from memory take, against those of one row after the other (rows of 16 KiB in large pages on Zen
  /// 4: 31 GB/s, and by 2, 4 and 8 rows 22, 25 and 26).
  static constexpr double kReadTurns = 1.2;

  /// Bytes a cycle that the second cache delivers of several rows by turns: 119 against 180 to 235 GB/s of one row after the other on Zen
  /// 5; on Zen 4, whose second cache delivers half as much, all. Products hide it, and so does what memory delivers ahead of its use.
  static constexpr double kByTurns = 36;

  /// Where the lines begin that one unrolled body reads along other axes than the contiguous one: bytes, ascending. Without the steps of
  /// its reduction: of a window that slides, one row is new.
  std::vector<int64_t> body_lines(size_t i, bool steps = true) const {
    const auto& o = facts_.operands[i];
    const hw::MemoryLevel& l1 = c_.profile.levels[0];
    std::vector<int64_t> lines{0};
    if (o.is_store || !o.inner || placed(i, Placement::prepack)) return lines;
    for (size_t a = 0; a < n_; ++a) {
      const int64_t size = int(a) == plan_.vec ? 1 : reduced(a) ? axes_[a].unroll : int64_t(std::ceil(axes_[a].mean));
      const int64_t stride = std::abs(placed_coef(i)[a]) * o.element_bytes;
      if (stride < l1.line_bytes || size <= 1 || int64_t(lines.size()) * size > 1024 || (reduced(a) && !steps)) continue;
      const size_t before = lines.size();
      for (int64_t k = 1; k < size; ++k)
        for (size_t l = 0; l < before; ++l) lines.push_back(lines[l] + k * stride);
      distinct(lines);
    }
    return lines;
  }
  /// Rows side by side, neither one after the other nor next to each other.
  bool apart(const std::vector<int64_t>& lines) const {
    const int64_t line = c_.profile.levels[0].line_bytes;
    const auto gap = [&](int64_t a, int64_t b) { return b - a > 2 * line; };
    return lines.back() - lines.front() > 8 * line && std::adjacent_find(lines.begin(), lines.end(), gap) != lines.end();
  }
  static double pages_of(const std::vector<int64_t>& lines) {
    double pages = 0;
    int64_t last = -1;
    for (int64_t l : lines)
      if (l / 4096 != last) last = l / 4096, pages += 1;
    return pages;
  }
  /// The lines of a body come back at the next steps; where too many of them fall into the same sets of the first-level cache, they are
  /// fetched again at every step.
  double conflict_bytes(std::vector<int64_t> lines) const {
    const hw::MemoryLevel& l1 = c_.profile.levels[0];
    if (lines.size() <= 1 || l1.ways <= 0) return 0;
    const int64_t way = l1.capacity_bytes / l1.ways;
    double steps = 1;
    for (size_t a = 0; a < n_; ++a)
      if (reduced(a)) steps *= axes_[a].trips;
    const double count = double(lines.size());
    for (int64_t& l : lines) l = l % way / l1.line_bytes;
    distinct(lines);
    if (count / double(lines.size()) + 2 <= l1.ways) return 0;
    return count * steps * calls_ * l1.line_bytes;
  }
  static void distinct(std::vector<int64_t>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }
  /// Elements between neighbours along each axis, where the plan puts the operand.
  const std::vector<int64_t>& placed_coef(size_t i) const {
    const auto& o = facts_.operands[i];
    return placed(i, Placement::box) && !o.box_coef.empty() ? o.box_coef : o.coef;
  }
};

}  // namespace

void traffic(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, const TileCounts& counts,
             std::vector<hw::LevelTraffic>& levels) {
  Traffic(nest, facts, plan, context, counts, levels).run();
}

}  // namespace rgen::rtile
