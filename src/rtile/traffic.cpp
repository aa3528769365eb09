// Streams between the levels of a CPU's memory: what crosses each level because it does not fit.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "rtile/accesses.h"
#include "rtile/footprints.h"

namespace rgen::rtile {

namespace {

class Traffic : Footprints {
 public:
  Traffic(const CountedPlan& plan, std::vector<hw::LevelTraffic>& into) : Footprints(plan), into_(into) {}

  /// Streams beyond the first-level cache.
  void run() {
    double ahead = (plan_.stream ? c_.missing_beside_streams : c_.missing) * c_.ahead_bytes, pieces = 1;
    for (size_t i = 0; i < facts_.reads && ahead > 0; ++i)
      if (plan_.operands[i].ahead > 0) pieces = std::max(pieces, jumping(stretch(i).piece));
    into_.back().read_bytes = pieces * ahead;
    for (size_t i = 0; i < facts_.reads; ++i) collide(i);
    crowd_out();
    place_sums();
    size_t farthest = 0;  // the last level that streams come from
    for (size_t i = 0; i < facts_.operands.size(); ++i)
      while (leaves(i, farthest)) ++farthest;
    if (farthest == 0) return;
    walk_depths();
    walk_streams();
    Fit near;
    for (size_t inner = 0; inner < farthest; ++inner) near = cross(inner, near);
  }

 private:
  const double chunks_ = counts_.chunks;
  std::vector<hw::LevelTraffic>& into_;

  /// Wherever the factor comes from that is broadcast: its rows, of whose lines a step takes a part, may share sets.
  void collide(size_t i) {
    if (facts_.products == 0 || !facts_.operands[i].inner || packed(i) || facts_.operands[i].coef[size_t(plan_.vec)] != 0) return;
    const auto shares_sets = [&](size_t a) {
      const int64_t stride = placed_coef(i)[a] * facts_.operands[i].element_bytes;
      return stride != 0 && stride % (8 * c_.profile.levels[0].line_bytes) == 0 && !reduced(a) && plan_.tile[a].hi > 1;
    };
    for (size_t a = 0; a < n_; ++a)
      if (shares_sets(a)) return void(into_[1].waits += conflicts(body_lines(i)).waits);
  }

  /// A level of each worker's own keeps, of what all of them together would have room for (Residence), what its worker touches, if it has
  /// room for that: a factor that all read whole is in each (128 × 768 by 768 × 768 with two L2 of 2 MiB: rows dealt out 487 us, columns
  /// 370; Granite Rapids). The level that has not; −1: there is none.
  int crowded_ = -1;
  void crowd_out() {
    if (workers() == 1 || c_.near) return;
    for (size_t l = 1; l + 2 < c_.profile.levels.size(); ++l) {
      const hw::MemoryLevel& level = c_.profile.levels[l];
      const bool home =
          std::any_of(facts_.operands.begin(), facts_.operands.end(), [&](const auto& o) { return c_.home[size_t(o.tensor)] == int(l); });
      if (!home || level.shared_by >= workers()) continue;
      if (touched_by_worker() > double(level.capacity_bytes)) crowded_ = int(l);
    }
  }

  /// Where partial sums wait that have a place of their own, because their results are narrower or not contiguous; −1: with the results.
  int sums_home_ = -1;

  struct Stream : Stretch {
    double conflicts = 0;   ///< bytes that are fetched again at every step
    double unfollowed = 1;  ///< how much longer the second cache takes for lines that no prefetcher asks for
  };
  std::vector<Stream> streams_;  ///< of every operand
  double turns_ = 1;             ///< how much longer lines take that memory delivers to so many rows by turns
  double unprefetched_ = 0;      ///< of what lines take longer of MemoryLevel::kTurns streams, so many times as much

  void place_sums() {
    bool apart = false;
    for (size_t i = facts_.reads; i < facts_.operands.size(); ++i) apart |= sums_apart(facts_.operands[i]);
    if (apart) sums_home_ = near_level(c_.profile, touched_by_worker(), 0.8);
  }
  void walk_streams() {
    streams_.resize(facts_.operands.size());
    double pages = 0;  // that one unrolled body walks on in at once
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (!leaves(i, 0)) continue;
      Stream& s = streams_[i];
      static_cast<Stretch&>(s) = stretch(i);
      const std::vector<int64_t> lines = body_lines(i);
      s.conflicts = conflicts(lines).bytes;
      if (i < facts_.reads && !packed(i) && goes_on(i)) pages += pages_of(lines);
      s.unfollowed = delivered_alone(i, s);
    }
    unprefetched_ = std::max(0.0, pages - kStreams) / (hw::MemoryLevel::kTurns - kStreams);
    const hw::MemoryLevel& memory = c_.profile.levels.back();
    double rows = 0;
    bool go_on = false;
    for (size_t i = 0; i < facts_.reads; ++i)
      if (leaves(i, c_.profile.levels.size() - 2)) {
        const double streams = double(plan_.operands[i].streams);
        rows += streams > 1 ? streams : streams_[i].turns;
        go_on |= streams > 1 || streams_[i].go_on;
      }
    turns_ = memory.by_turns(rows, workers());
    if (go_on) turns_ = std::min(turns_, kGoingOn * memory.by_turns(1, workers()));
  }

  /// The outermost depth at which all that is touched fits a level.
  struct Fit {
    size_t depth = 0;
    bool fits = true;  ///< else not even one tile does, and nothing survives until the next iteration
    double capacity = 0;
  };
  Fit fit(size_t of) const {
    const hw::MemoryLevel& level = c_.profile.levels[of];
    Fit f{0, true, 0.8 * double(level.capacity_bytes)};
    const auto occupied = [&](size_t d) {
      double bytes = total_[d] + lost_to_conflicts(covered(d), touched(d), level);
      for (size_t i = 0; i < facts_.reads && of == 0; ++i) bytes -= past_first(i) ? touched(d)[i] : 0;
      return bytes;
    };
    while (f.depth < loops_.size() && occupied(f.depth) > f.capacity) ++f.depth;
    f.fits = f.depth < loops_.size() || occupied(f.depth) <= f.capacity;
    return f;
  }

  struct Moved {
    double bytes, uses = 1;  ///< uses: of each byte while it lies near
  };
  Moved moved(size_t i, const Fit& f) const {
    const auto& o = facts_.operands[i];
    Moved m{touched(f.depth)[i]};
    bool reusing = f.fits;
    for (size_t l = o.inner ? loops_.size() : plan_.loops.size(); l-- > 0;) {
      const bool used = o.coef[size_t(loops_[l].axis)] != 0;
      if (!used && reusing) m.uses *= trips_[l];
      if (l >= f.depth) continue;
      const double together = touched(l)[i];
      const bool slides = f.fits && l + 1 == f.depth && !o.is_store && together < m.bytes * trips_[l];
      reusing = reusing && !used;
      if (slides && !reusing)
        m.bytes = sliding(i, covered(l), covered(f.depth), loops_[l].axis, total_[f.depth], m.bytes, together, f.capacity);
      else if (!reusing)
        m.bytes *= trips_[l];
    }
    return m;
  }

  /// Bytes of operand `i` that come from memory again, so many having come once: of what lies between two uses that only the last cache
  /// holds (hw::MemoryLevel::kept). Measured on Zen 3, 32 MiB: of 8, 12 and 16 MiB the second pass finds 0.84, 0.56 and 0.42, which goes
  /// with the square of the size; each further pass misses 0.65 of what the one before missed.
  /// `near`: what fits the cache before.
  double comes_again(size_t i, double once, const hw::MemoryLevel& cache, const Fit& f, const Fit& near) const {
    constexpr double kNextMisses = 0.65;
    if (cache.kept >= 1 || !f.fits) return 0;
    double again = 0;
    for (size_t l = f.depth; l < near.depth; ++l) {
      if (facts_.operands[i].coef[size_t(loops_[l].axis)] != 0) continue;
      const double between = total_[l + 1] / (0.5 * double(cache.capacity_bytes));
      const double missed = std::min(1.0, (1 - cache.kept) * between * between);
      again += missed * (1 - std::pow(kNextMisses, trips_[l] - 1)) / (1 - kNextMisses);
    }
    return once * again;
  }

  /// What the loads of tile registers take of a factor that passes the first cache: nothing of it is there for the next, be it the rest of
  /// a line that one row ends in, or a window's place that the tap before had.
  double loaded_past(size_t i) const {
    const double line = double(c_.profile.levels[0].line_bytes), loads = counts_.steps * counts_.calls;
    if (int(i) == plan_.operand_b) return axes_[size_t(plan_.vec)].mean * double(plan_.k_step / plan_.k_group) * line * loads;
    double rows = 0;
    for (const int64_t r : plan_.row_tiles(nest_)) rows += double(r);
    return rows * (1 + rows_across_lines(nest_, placed_coef(i), plan_, facts_.operands[i].element_bytes)) * line * loads;
  }

  /// Between the level and the next one outwards; returns what fits the level. `near`: what fits the one before.
  Fit cross(size_t inner, const Fit& near) {
    const Fit f = fit(inner);
    const bool memory = inner + 2 == c_.profile.levels.size(), tile_fits = f.fits && f.depth <= plan_.loops.size();
    const hw::MemoryLevel& from = c_.profile.levels[inner + 1];
    hw::LevelTraffic& t = into_[inner + 1];
    double come = 0, concentrated = 0;
    for (size_t i = 0; i < facts_.operands.size(); ++i) {
      if (!leaves(i, inner)) continue;
      const auto& o = facts_.operands[i];
      const Moved m = inner == 0 && past_first(i) ? Moved{loaded_past(i)} : moved(i, f);
      double bytes = m.bytes + (memory && !o.is_store ? comes_again(i, m.bytes, c_.profile.levels[inner], f, near) : 0);
      if (!memory && int(inner) + 1 == c_.together) bytes -= (1 - c_.missing) * std::min(bytes, touched(0)[i]);
      if (memory && o.is_store && plan_.stream)  // nothing waits for a line that is written whole
        bytes *= streamed_pieces(i, streams_[i]);
      else
        bytes = waited_for(i, bytes, from, t);
      if (inner == 0) {
        bytes = std::max(bytes, streams_[i].conflicts);
        if (const double ns = split_ns(i, m.bytes, from); ns > 0)
          o.is_store ? t.write_bytes += ns * from.write_gbs(workers()) : t.read_bytes += ns * from.read_gbs(workers());
      }
      const bool asked = next_rows_asked_for(i);
      if (inner > 0 && !memory && !asked && !o.is_store) bytes *= in_pieces(i, from);
      const double longer = inner > 0 && !memory && o.is_store ? written_in_pieces(o, from) : 1;
      if (longer > 1) t.piece_bytes += bytes * longer;
      double slower = inner == 0 ? streams_[i].unfollowed : 1;
      if (!o.is_store && !packed(i) && !asked && !(inner == 0 && plan_.tiled()))
        slower = std::max(slower, 1 + unprefetched_ * (from.turns - 1));
      bytes *= slower;
      if (inner == 0 && !o.is_store && o.inner && plan_.tiled()) bytes *= kByTiles;
      if (inner > 0 && past_first(i)) bytes *= kPastFirst;
      if (memory && !o.is_store) bytes *= turns_;
      const bool ahead = comes_ahead(i, inner + 1);
      if (memory || !ahead) come += bytes, concentrated += bytes * m.uses;
      if (inner == 0) t.waits += m.bytes / c_.profile.levels[0].line_bytes * (crowding(i) + rows_in_sets(i) + rows_beside_fetched(i));
      if (inner == 1 && !memory) t.waits += m.bytes / c_.profile.levels[0].line_bytes * lines_alone(i, tile_fits);
      if (inner == 0 && o.is_store && !plan_.combining)
        t.waits += bytes / c_.profile.levels[0].line_bytes * (waiting_stores(o) + displacing_stores(o, total_)) + evicted_stores(o) +
                   crowded_stores(o);
      if (o.is_store)
        written(o, bytes, longer, memory, t);
      else
        t.read_bytes += bytes, t.ahead_bytes += ahead ? bytes : 0;
    }
    if (come > 0) t.concentration = concentrated / come;
    return f;
  }

  /// ns beside the transfer of so many bytes of operand `i` from or to `second`, the second cache, for the vectors that end in the next
  /// line (hw::MemoryLevel::split_reads_ns, split_writes_ns). Products hide both, and so do transposes in registers, whose loads and stores
  /// come in groups: a 783 × 18 transposed by 6 rows of gathers 2.75 us, by 9 and 18 rows turned 1.6 (Granite Rapids).
  double split_ns(size_t i, double bytes, const hw::MemoryLevel& second) const {
    constexpr double kInRow = 0.35;  // of stores that follow one another: 1.24 ns a line, 1.8 across lines, by four rows 3.06
    const auto& o = facts_.operands[i];
    const size_t along = size_t(plan_.vec);
    const double each = o.is_store ? second.split_writes_ns : second.split_reads_ns;
    if (each == 0 || facts_.products > 0 || plan_.lanes == 1 || o.coef[along] != 1 || packed(i) || turns_in_registers()) return 0;
    const double vectors = bytes / double(plan_.lanes * o.element_bytes) * Accesses(*this).split(i, plan_.vec);
    if (!o.is_store) return vectors * each;
    bool rows = false;  // by turns
    for (size_t a = 0; a < n_; ++a) rows |= a != along && o.coef[a] != 0 && plan_.tile[a].size() > 1;
    const double ends = rows ? 1 / double(plan_.tile[along].units()) * double(plan_.tile[along].blocks) : 0;  // of a piece of a row
    return vectors * each * (ends + (1 - ends) * kInRow);
  }

  /// Bytes that count as much as these, which come or go line by line; and the misses that nothing follows.
  double waited_for(size_t i, double bytes, const hw::MemoryLevel& from, hw::LevelTraffic& t) const {
    const auto& o = facts_.operands[i];
    const Stream& s = streams_[i];
    const bool memory = &from == &c_.profile.levels.back();
    if (memory) bytes *= o.is_store ? c_.missing_results : plan_.stream ? c_.missing_beside_streams : c_.missing;
    if (memory && from.page_rows_ns > 0) t.waits += bytes / from.line_bytes * from.page_rows_ns / from.latency_ns * rows_in_pages(i);
    if (memory && o.is_store) bytes *= 1 + slow_stores(o);
    const bool window = !o.is_store && plan_.operands[i].slides >= 0;
    const bool asked = window || passes_by(i) || next_rows_asked_for(i);  // for each line
    const bool measured = from.kib_columns > 0;                           // what columns take, misses and all
    const double alone = memory ? 1 : o.is_store || measured ? 0 : std::min(1.0, s.bytes / kOverlapped);
    // lines of a window are asked for a tile ahead: soon enough for its next place, not to hide a jump
    if (!asked || (window && !memory)) t.runs += alone * bytes / s.bytes;
    const double slow = window ? std::min(2.0, 2 * s.slow) : next_rows_asked_for(i) ? slow_pieces(i) : asked ? slow_rows(i) : s.slow;
    if (memory && !o.is_store) bytes *= 1 + slow;
    if (memory && from.rows.empty() && side_by_side(i)) bytes *= kReadTurns;
    return bytes;
  }

  /// `longer`: pieces of rows than whole ones.
  void written(const NestFacts::OperandFacts& o, double bytes, double longer, bool memory, hw::LevelTraffic& t) const {
    // the profile's write bandwidth has the reads that allocate lines in it; streaming stores have none
    if (!plan_.stream)
      t.write_bytes += bytes;
    else if (memory && plan_.combining)  // between tiles, which wait
      t.waits += c_.profile.levels.back().streaming_ns(0, bytes, workers()) / c_.profile.levels.back().latency_ns;
    else if (memory)
      t.stream_bytes += bytes;
    if (chunks_ <= 1) return;
    const double partial = bytes * (1 - 1 / chunks_);  // sums, for which the tile waits
    t.read_bytes += partial * longer;
    if (memory) t.runs += partial / tile_bytes(o) * kSumsWait;
  }

  /// How many times as long the second cache takes for an operand because prefetchers of the first one do not ask for some of its lines.
  /// Lines that are written alone wait behind nothing where all that is read lies near; and memory delivers nothing meanwhile. What is
  /// written counts where that is measured.
  double delivered_alone(size_t i, const Stretch& s) const {
    const hw::MemoryLevel& second = c_.profile.levels[1];
    if (size_t(c_.together) + 1 == c_.profile.levels.size()) return 1;
    const bool store = facts_.operands[i].is_store;
    const auto waited_for = [&] {
      for (size_t r = 0; r < facts_.reads; ++r)
        if (leaves(r, 0)) return true;
      return false;
    };
    if (store && (second.apart_ns == 0 || !waited_for())) return 1;
    const double line = second.line_bytes, alone = second.apart_ns > 0 ? second.apart_ns : line / (kApart * c_.profile.ghz);
    const double longer = alone * (store ? second.write_gbs(1) : second.read_gbs(1)) / line - 1;
    return longer > 0 ? 1 + unfollowed(i, s) * longer : 1;
  }

  /// Rows of a map or of columns that one body reads by turns.
  bool side_by_side(size_t i) const {
    return i < facts_.reads && !packed(i) && !facts_.contracts && !reduced(size_t(plan_.vec)) &&
           by_turns(body_places(i, false), piece_bytes(i)).value_or(0) == 1;
  }

  /// Nothing waits for it: asked for while what came before is used, from memory, or all the time, of a packed factor from the last cache.
  bool comes_ahead(size_t i, size_t from) const {
    if (i >= facts_.reads || plan_.operands[i].ahead == 0 || int(from) != c_.home[size_t(facts_.operands[i].tensor)]) return false;
    if (from + 1 < c_.profile.levels.size()) return packed(i);
    // of several streams, memory is what binds: their time is that of turns_
    return plan_.operands[i].streams == 1 && (facts_.products > 0 || !nest_.has_reduction() || plan_.operands[i].slides >= 0);
  }

  bool past_first(size_t operand) const { return operand < facts_.reads && plan_.operands[operand].past_first; }
  bool passes_by(size_t operand) const { return operand < facts_.reads && plan_.operands[operand].passes_by; }

  /// It waits beyond this level between its uses.
  bool leaves(size_t operand, size_t level) const {
    const int home = c_.home[size_t(facts_.operands[operand].tensor)];
    return !c_.near && std::max(home + (home == crowded_), sums_apart(facts_.operands[operand]) ? sums_home_ : 0) > int(level);
  }

  /// Bytes of a cache that operands cannot use because their rows fall into few of its sets: n rows that share p places fill n / p ways.
  /// Only small caches are indexed by plain address bits.
  double lost_to_conflicts(std::span<const int64_t> covered, std::span<const double> bytes, const hw::MemoryLevel& level) const {
    if (level.ways <= 0 || level.capacity_bytes > (int64_t{4} << 20)) return 0;
    const int64_t way = level.capacity_bytes / level.ways;
    double lost = 0;
    for (size_t i = 0; i < facts_.reads; ++i) {
      const auto& o = facts_.operands[i];
      if (!o.inner || packed(i)) continue;
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

  /// Streams that all prefetchers follow at once (measured on Zen 5, from L3 and from memory).
  static constexpr double kStreams = 8;

  /// Misses of the first caches that are not followed by their neighbours overlap with more others (48 of the second cache's). On a quiet
  /// Zen 4 pieces of 64 and 128 bytes from the last one take 0.3 ns a line longer than long rows, pieces of 512 bytes and a KiB 0.2; where
  /// other guests use that cache, 1 to 3. Between them, fitted to 128 drawn shapes.
  static constexpr double kOverlapped = 160;  ///< bytes
  /// What reads of several rows by turns from memory take, against those of one row after the other (rows of 16 KiB in large pages on Zen
  /// 4: 31 GB/s, and by 2, 4 and 8 rows 22, 25 and 26).
  static constexpr double kReadTurns = 1.2;

  /// ... and against one row after the other where the rows are parts of a tensor apart (rows_apart.h): 0.7 to 0.85 in pages of 4 KiB, 0.83
  /// to 1.1 in large ones, and no plan knows its caller's pages.
  static constexpr double kGoingOn = 0.9;

  /// Bytes a cycle that the second cache delivers and takes of several rows by turns, where that is not measured (Zen 5; on Zen 4, whose
  /// second cache delivers half as much, all). Products hide it, and so does what memory delivers ahead of its use.
  static constexpr double kApart = 33;

  /// What tile registers take from the second cache, rows one after the other or apart, against vectors (Granite Rapids: 165 GB/s of 201).
  static constexpr double kByTiles = 1.2;

  /// ... and what those loads that pass the first cache take from beyond the second, whose prefetchers do not follow them as well (three
  /// products of 55 to 96 rows by weights of 1.5 to 2 MB in L3: 1.1 to 1.6).
  static constexpr double kPastFirst = 1.4;

  static double pages_of(const std::vector<int64_t>& lines) {
    double pages = 0;
    int64_t last = -1;
    for (int64_t l : lines)
      if (l / 4096 != last) last = l / 4096, pages += 1;
    return pages;
  }
};

}  // namespace

void count_traffic(const CountedPlan& plan, std::vector<hw::LevelTraffic>& levels) { Traffic(plan, levels).run(); }

}  // namespace rgen::rtile
