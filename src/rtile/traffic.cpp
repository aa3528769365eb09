#include "rtile/traffic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rtile/walks.h"

namespace rgen::rtile {

namespace {

class Traffic : Walks {
 public:
  Traffic(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, const TileCounts& counts,
          std::vector<hw::LevelTraffic>& into)
      : Walks(nest, facts, plan, context, counts), into_(into) {}

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
    double pages = 0;                                   // that one unrolled body walks on in at once
    for (size_t i = 0; i < n_operands; ++i) {
      if (!leaves(i, 0)) continue;
      stretches[i] = stretch(i);
      const std::vector<int64_t> lines = body_lines(i);
      conflicts[i] = conflict_bytes(lines);
      if (i < facts_.reads && !placed(i, Placement::prepack) && goes_on(i)) pages += pages_of(lines);
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
          const bool slides = fits && l + 1 == depth && !o.is_store && each(l)[i] < bytes * trips[l];
          reusing = reusing && !used;
          if (slides && !reusing)
            bytes = sliding(i, covered(l), covered(depth), loops[l].axis, total[depth], bytes, each(l)[i], capacity);
          else if (!reusing)
            bytes *= trips[l];
        }
        const bool memory = inner + 2 == levels.size();
        if (memory && o.is_store && plan_.stream) {  // nothing waits for a line that is written whole
          bytes *= streamed_pieces(i, stretches[i]);
        } else {
          if (memory) bytes *= o.is_store ? c_.missing_results : plan_.stream ? c_.missing_beside_streams : c_.missing;
          if (memory && o.is_store) bytes *= 1 + slow_stores(o);
          const bool window = !o.is_store && plan_.operands[i].slides >= 0, asked = window || passes_by(i);  // for each line
          const double alone = memory ? 1 : o.is_store ? 0 : std::min(1.0, stretches[i].bytes / kOverlapped);
          // lines of a window are asked for a tile ahead: soon enough for its next place, not to hide a jump
          if (!asked || (window && !memory)) t.runs += alone * bytes / stretches[i].bytes;
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
  const double chunks_ = counts_.chunks;
  std::vector<hw::LevelTraffic>& into_;

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

  /// Of an operand of whose bytes the iterations of a loop along `axis` read some in common, `bytes` each and `together` all: those that
  /// the cache still holds from the iterations before come once. A window over rows of which an iteration takes a piece finds none of them
  /// in the next ones. `around`, `within`: what the loop and one iteration cover; `occupied`: by all operands in one.
  double sliding(size_t operand, std::span<const int64_t> around, std::span<const int64_t> within, int axis, double occupied, double bytes,
                 double together, double capacity) const {
    const size_t a = size_t(axis);
    std::vector<int64_t> extents(within.begin(), within.end());
    std::vector<double> each(facts_.operands.size());
    const auto of = [&](double iterations) {
      extents[a] = std::min(around[a], int64_t(iterations) * within[a]);
      return footprint(extents, each);
    };
    const double all = double(around[a]) / double(within[a]), next = of(2) - occupied;
    const double held = std::clamp(1 + std::floor((capacity - occupied) / std::max(1.0, next)), 1.0, std::max(1.0, std::floor(all) - 1));
    of(held);
    const double before = each[operand];
    of(held + 1);
    return std::clamp(before + (all - held) * (each[operand] - before), together, std::max(all * bytes, together));
  }

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

  /// Misses of the first caches that are not followed by their neighbours overlap with five times as many others (48 of the second cache's;
  /// Zen 4: pieces of 64 and 128 bytes from the last one take 0.3 ns a line longer than long rows, pieces of 512 bytes and a KiB 0.2).
  static constexpr double kOverlapped = 320;  ///< bytes
  /// What reads of several rows by turns from memory take, against those of one row after the other (rows of 16 KiB in large pages on Zen
  /// 4: 31 GB/s, and by 2, 4 and 8 rows 22, 25 and 26).
  static constexpr double kReadTurns = 1.2;

  /// Bytes a cycle that the second cache delivers of several rows by turns: 119 against 180 to 235 GB/s of one row after the other on Zen
  /// 5; on Zen 4, whose second cache delivers half as much, all. Products hide it, and so does what memory delivers ahead of its use.
  static constexpr double kByTurns = 36;

  static double pages_of(const std::vector<int64_t>& lines) {
    double pages = 0;
    int64_t last = -1;
    for (int64_t l : lines)
      if (l / 4096 != last) last = l / 4096, pages += 1;
    return pages;
  }
};

}  // namespace

void traffic(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, const TileCounts& counts,
             std::vector<hw::LevelTraffic>& levels) {
  Traffic(nest, facts, plan, context, counts, levels).run();
}

}  // namespace rgen::rtile
