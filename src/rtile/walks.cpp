#include "rtile/walks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace rgen::rtile {

namespace {

/// What prefetchers hold ahead of rows that are walked by turns, all together: what a turn takes beyond it is a stretch again. Column sums
/// of 4096 × 4096, chunks of 8 to 4096 rows, pieces of 64 to 960 bytes, measured on Zen 4.
constexpr double kAheadBytes = 4096;
/// Walks that skip lines, be it one in two, get from memory what misses bring that are under way at once: 8 to 10 GB/s of 31, for pieces
/// of 64 to 2048 bytes and gaps as long or longer, on Zen 4. From the last cache they get all.
constexpr double kSkipping = 2;
/// ... also where a tile skips what the next one takes, if it goes farther than this before it does: column sums of rows of 1 KiB, 64 rows
/// of half of it and then of the other half, read 11 GB/s.
constexpr double kFilledSoon = 16384;  ///< bytes
double slow_share(double bytes) { return bytes < Stretch::kPanel ? std::min(1.0, Stretch::kRampBytes / bytes) : 0; }

void distinct(std::vector<int64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

int64_t Walks::within_tile(size_t a) const {
  if (!reduced(a)) return plan_.tile[a].size();
  int64_t covered = nest_.axes[a].extent;
  for (const Loop& l : plan_.loops)
    if (size_t(l.axis) == a) covered = std::min(covered, l.step);
  return covered;
}

Stretch Walks::stretch(size_t i) const {
  const auto& o = facts_.operands[i];
  if (packed(i)) return {};  // panels follow one another
  // elements of the tile that lie side by side, then loops that step exactly past what is covered so far
  std::vector<int64_t> covered(n_, 1);
  const size_t vec = size_t(plan_.vec);
  const bool sums = reduced(vec);  // rows of a tile by turns, so many vectors of each; loops over other reduced axes are around them
  for (size_t a = 0; a < n_; ++a) covered[a] = sums && reduced(a) ? in_body(a) : within_tile(a);
  // elements from the first to the last, those of them that are touched, a window's again at each of its places (steps of few lines are
  // followed as well as neighbours are), and those without what loops cover again
  double span = 1, touched = 1, distinctly = 1;
  const double gap = double(kGapBytes / o.element_bytes);
  const auto follows = [&](double step) { return step <= span + gap; };
  std::vector<int64_t> within(n_, 1);  // of each axis
  const auto extend = [&](size_t a, int64_t extent) {
    const double step = double(std::abs(o.coef[a]));
    if (step == 0 || extent <= 1 || !follows(step) || step * double(extent - 1) + 1 <= span) return;
    span += step * double(extent - 1);
    touched = std::min(span, touched * double(extent));
    distinctly = std::min(span, distinctly * double(extent) / double(within[a]));
    within[a] = extent;
  };
  for (size_t round = 0; round < 2; ++round)
    for (size_t a = 0; a < n_; ++a) extend(a, covered[a]);
  double rows = 1;  // walked by turns
  for (size_t a = 0; a < n_; ++a)
    if (!follows(double(std::abs(o.coef[a])))) rows *= double(covered[a]);
  const double piece = touched * o.element_bytes, turn = std::max(64.0, piece);
  if (rows > kRowsFollowed) return {turn, slow_share(turn), 1, false, piece};
  if (sums) extend(vec, within_tile(vec));
  int64_t closest = 0;  // elements from one that is touched to the next
  for (const int64_t c : o.coef)
    if (c != 0) closest = closest == 0 ? std::abs(c) : std::min(closest, std::abs(c));
  const auto skipping = [&](double beyond) {
    return span * o.element_bytes > beyond && distinctly * double(std::max<int64_t>(1, closest)) < 0.75 * span;
  };
  bool skips = skipping(kFilledSoon), jumps = false;
  double jumps_over = 0, over = 0;
  for (size_t l = plan_.loops.size(); l-- > 0;) {
    const size_t a = size_t(plan_.loops[l].axis);
    const int64_t step = plan_.loops[l].step * step_unit(a);
    if (o.coef[a] == 0 || step >= covered_by(l)) continue;  // goes nowhere
    if (jumps) {
      jumps_over = over;
      break;
    }
    jumps = !follows(double(std::abs(o.coef[a]) * step)), over = trips_of(l) - 1;
    if (!jumps) extend(a, covered_by(l));
  }
  const double whole = !jumps && continued(o) ? Stretch::kPanel : std::clamp(touched * o.element_bytes, 64.0, Stretch::kPanel);
  const double ahead = std::max(0.0, 1 - kAheadBytes / (rows * turn));
  const double slow = std::max(slow_share(whole), rows > 1 ? slow_share(turn) * ahead : 0);
  skips |= skipping(double(c_.profile.levels[0].line_bytes));
  Stretch s{whole, skips ? std::max(slow, kSkipping) : slow, whole > turn ? rows : 1, false, rows > 1 ? piece : whole, jumps_over};
  if (sums && rows > 1) s.bytes = Stretch::kPanel, s.go_on = !jumps;  // what one row's end waits for, the others' lines hide
  return s;
}

double Walks::slow_rows(size_t i) const {
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

double Walks::slow_pieces(size_t i) const {
  constexpr double kEnds = 128;  // bytes
  const auto& o = facts_.operands[i];
  const int64_t piece = plan_.buffered_rows();
  return o.coef[size_t(plan_.combining->along)] == piece ? 0 : kEnds / double(piece * o.element_bytes);
}

double Walks::sharing_sets(const NestFacts::OperandFacts& o, const hw::MemoryLevel& from) const {
  constexpr std::array<double, 7> kShare = {0, 0.08, 0.14, 0.62, 1, 1.6, 2.2};  // of rows 1, 2, 4, … lines apart
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (l1.ways <= 0 || from.kib_columns == 0) return 0;
  const double all = double(l1.capacity_bytes / l1.ways / l1.line_bytes);
  const auto twice = size_t(std::log2(std::max(1.0, all / sets_of(o, l1))));
  return (from.kib_columns - from.columns) * kShare[std::min(twice, kShare.size() - 1)];
}

double Walks::column_bytes(size_t i) const {
  const auto& o = facts_.operands[i];
  const double line = double(c_.profile.levels[0].line_bytes);
  const auto across = [&](size_t a) { return double(std::abs(placed_coef(i)[a])) * o.element_bytes >= line; };
  std::vector<int64_t> places(n_, 1);  // covered from one piece to its neighbour
  for (size_t a = 0; a < n_; ++a)
    if (!reduced(a) && across(a)) places[a] = plan_.tile[a].size();
  for (size_t l = plan_.loops.size(); l-- > 0;) {
    const size_t a = size_t(plan_.loops[l].axis);
    if (o.coef[a] == 0 || reduced(a)) continue;
    if (across(a))
      places[a] = covered_by(l);
    else if (covered_by(l) > plan_.loops[l].step * step_unit(a))
      break;
  }
  double lines = 1;
  for (const int64_t n : places) lines *= double(n);
  return lines * line;
}

int64_t Walks::in_body(size_t a) const { return reduced(a) ? axes_[a].unroll * plan_.tile[a].unit : plan_.tile[a].size(); }

int64_t Walks::piece_bytes(size_t i) const {
  const int64_t element = facts_.operands[i].element_bytes;
  int64_t piece = element;
  for (size_t a = 0; a < n_; ++a)
    if (const int64_t step = std::abs(placed_coef(i)[a]) * element; step < c_.profile.levels[0].line_bytes)
      piece += step * (in_body(a) - 1);
  return piece;
}

double Walks::in_pieces(size_t i, const hw::MemoryLevel& last) const {
  constexpr double kShort = 1024, kOfShort = 0.5, kFar = 1.25,
                   kEveryOther = 0.35;  // bytes; of what a column's lines take beside; prefetchers bring both
  const auto& o = facts_.operands[i];
  if (packed(i)) return 1;
  int walked = -1;  // innermost
  for (const Loop& l : plan_.loops)
    if (o.coef[size_t(l.axis)] != 0) walked = l.axis;
  for (int a : plan_.reduce_order)
    if (o.coef[size_t(a)] != 0 && axes_[size_t(a)].trips > 1) walked = a;
  if (walked < 0) return 1;
  const double line = double(c_.profile.levels[0].line_bytes);
  const auto step = [&](size_t a) { return double(std::abs(placed_coef(i)[a])) * o.element_bytes; };
  double row = o.element_bytes;
  bool by_turns = false;
  for (size_t a = 0; a < n_; ++a) {
    if (step(a) < line)
      row += step(a) * double(nest_.axes[a].extent - 1);
    else
      by_turns |= step(a) > 2 * line && in_body(a) > 1;
  }
  const double piece = std::max(line, double(piece_bytes(i))), beside = last.columns - 1, shared = sharing_sets(o, last);
  if (piece >= row) return 1;
  if (step(size_t(walked)) > 2 * line) {
    // a line's neighbour comes with it, and the results take as much
    const double near_bytes = 4 * column_bytes(i);
    const double far = std::clamp(std::log2(near_bytes / double(c_.profile.levels[1].capacity_bytes)) / 2, 0.0, 1.0);
    return 1 + beside * (1 + (kFar - 1) * far) * std::sqrt(line / piece) + shared * line / piece;
  }
  if (step(size_t(walked)) == 2 * line && piece == line) return 1 + kEveryOther;
  return by_turns && row < kShort ? 1 + kOfShort * beside * (line / piece) * (line / piece) : 1;
}

/// All places again, `size` times in steps of `stride`.
static void repeat(std::vector<int64_t>& places, int64_t size, int64_t stride) {
  const size_t before = places.size();
  for (int64_t k = 1; k < size; ++k)
    for (size_t p = 0; p < before; ++p) places.push_back(places[p] + k * stride);
}

std::vector<int64_t> Walks::body_lines(size_t i, bool steps) const {
  const auto& o = facts_.operands[i];
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  std::vector<int64_t> lines{0};
  if (o.is_store || !o.inner || packed(i)) return lines;
  for (size_t a = 0; a < n_; ++a) {
    const int64_t size = int(a) == plan_.vec ? 1 : reduced(a) ? axes_[a].unroll : int64_t(std::ceil(axes_[a].mean));
    const int64_t stride = std::abs(placed_coef(i)[a]) * o.element_bytes;
    if (stride < l1.line_bytes || size <= 1 || int64_t(lines.size()) * size > 1024 || (reduced(a) && !steps)) continue;
    repeat(lines, size, stride);
    distinct(lines);
  }
  return lines;
}

std::vector<int64_t> Walks::body_places(size_t i, bool steps) const {
  constexpr int64_t kMost = 1024;
  std::vector<int64_t> places{0};
  for (size_t a = 0; a < n_; ++a) {
    const int64_t stride = std::abs(placed_coef(i)[a]) * facts_.operands[i].element_bytes, size = in_body(a);
    if (int(a) == plan_.vec || (reduced(a) && !steps) || stride < c_.profile.levels[0].line_bytes || size <= 1 ||
        int64_t(places.size()) * size > kMost)
      continue;
    repeat(places, size, stride);
    distinct(places);
  }
  return places;
}

std::vector<int64_t> Walks::rows_by_turns(size_t i) const {
  constexpr int64_t kMost = 256;
  const auto& o = facts_.operands[i];
  std::vector<int64_t> rows{0};
  for (size_t a = 0; a < n_; ++a) {
    const int64_t stride = std::abs(placed_coef(i)[a]) * o.element_bytes, size = plan_.tile[a].size();
    if (reduced(a) || stride < c_.profile.levels[0].line_bytes || size <= 1 || int64_t(rows.size()) * size > kMost) continue;
    repeat(rows, size, stride);
  }
  return rows;
}

double Walks::crowding(size_t i) const {
  constexpr int64_t kLive = 6;  // lines of a row: the one that is used, its neighbour, those ahead
  constexpr double kWait = 0.07;
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (facts_.contracts || l1.ways <= 0 || packed(i)) return 0;
  std::vector<int64_t> rows = rows_by_turns(i);
  if (rows.size() < 4) return 0;
  const int64_t way = l1.capacity_bytes / l1.ways, live = kLive * l1.line_bytes;
  double others = 0;  // rows of the other tensors, which lie anywhere
  for (size_t j = 0; j < facts_.operands.size(); ++j)
    if (j != i && !packed(j)) others += double(rows_by_turns(j).size()) * double(live) / double(way);
  for (int64_t& r : rows) r %= way;
  std::sort(rows.begin(), rows.end());
  size_t most = 0;
  for (size_t first = 0, behind = 0; first < rows.size(); ++first) {  // around the circle of sets
    behind = std::max(behind, first);
    const auto at = [&](size_t r) { return rows[r % rows.size()] + int64_t(r / rows.size()) * way; };
    while (behind + 1 < first + rows.size() && at(behind + 1) - rows[first] < live) ++behind;
    most = std::max(most, behind - first + 1);
  }
  return kWait * overfull(std::round(double(most) + others), l1);
}

bool Walks::factor_in_place(size_t i) const {
  const auto& o = facts_.operands[i];
  return facts_.products > 0 && !o.is_store && !packed(i) && o.affine && o.inner;
}

double Walks::rows_in_sets(size_t i) const {
  constexpr double kOneSet = 0.6, kTwoSets = 0.2, kFollowed = 0.02;
  const auto& o = facts_.operands[i];
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (!factor_in_place(i) || l1.ways <= 0) return 0;
  double waits = 0;
  for (size_t a = 0; a < n_; ++a) {
    const int64_t stride = std::abs(placed_coef(i)[a]) * o.element_bytes;
    if (!reduced(a) || stride < l1.line_bytes) continue;
    const double places = sets(stride, l1), in_set = double(within_tile(a)) / places;
    const double each = places > 2 ? 0 : axes_[a].unroll == 1 ? kFollowed / (places * places) : places == 2 ? kTwoSets : kOneSet;
    waits = std::max(waits, each * std::max(0.0, 1 - 2 * double(l1.ways) / in_set));
  }
  return waits;
}

double Walks::rows_beside_fetched(size_t i) const {
  constexpr double kWait = 0.12;
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (!factor_in_place(i) || !l1.prefetched || l1.ways <= 0 || facts_.operands[i].coef[size_t(plan_.vec)] != 0) return 0;
  const bool fetched =
      std::any_of(plan_.operands.begin(), plan_.operands.end(), [](const Operand& o) { return o.packed() && o.ahead > 0; });
  if (!fetched) return 0;
  return in_one_set(body_lines(i, false)) + 2 < l1.ways ? 0 : kWait;
}

double Walks::lines_alone(size_t i, bool tile_fits) const {
  constexpr double kOfLatency = 0.63, kWindow = 140, kInstructions = 1.65;  // instructions under way; for each product
  const auto& o = facts_.operands[i];
  const double line = double(c_.profile.levels[0].line_bytes);
  if (!factor_in_place(i) || plan_.operands[i].next_step > 0) return 0;
  const auto step = [&](size_t a) { return double(std::abs(placed_coef(i)[a])) * o.element_bytes; };
  double products = counts_.points;  // of a body
  int walked = -1;
  for (int a : plan_.reduce_order) {
    products *= double(axes_[size_t(a)].unroll);
    if (step(size_t(a)) > 0 && axes_[size_t(a)].trips > 1) walked = a;
  }
  if (walked < 0 || step(size_t(walked)) <= std::max(2 * line, double(piece_bytes(i)))) return 0;  // goes on in its row
  const auto waits = [&](double rows) {
    const double lines = rows * (double(piece_bytes(i)) / line + 0.5);
    return kOfLatency * std::min(1.0, kInstructions * products / lines / kWindow);
  };
  if (!tile_fits) return waits(double(body_lines(i).size()));  // what came beside these lines is gone, too
  for (size_t l = plan_.loops.size(); l-- > 0;) {
    const size_t a = size_t(plan_.loops[l].axis);
    if (reduced(a) || step(a) == 0 || covered_by(l) <= plan_.loops[l].step * step_unit(a)) continue;
    return step(a) <= 2 * line ? 0 : waits(1);  // of a window one row is new
  }
  return 0;
}

double Walks::rows_in_pages(size_t i) const {
  constexpr int64_t kNearest = 512, kFarthest = 2048;
  constexpr double kMeasured = 0.75;  // of four rows, three are not the first
  if (!factor_in_place(i) || plan_.operands[i].ahead > 0) return 0;
  const int64_t piece = piece_bytes(i);
  const std::vector<int64_t> lines = body_lines(i, false);
  int64_t rows = 0;
  for (size_t l = 1; l < lines.size(); ++l) {
    const int64_t gap = lines[l] - lines[l - 1];
    if (gap >= kNearest && gap < kFarthest && 2 * piece <= gap) ++rows;
  }
  return double(rows) / double(lines.size()) / kMeasured;
}

bool Walks::goes_on(size_t i) const {
  const auto& coef = placed_coef(i);
  const auto near = [&](size_t a) { return std::abs(coef[a]) * facts_.operands[i].element_bytes <= kGapBytes; };
  for (size_t a = 0; a < n_; ++a)
    if (reduced(a) && axes_[a].trips > 1 && coef[a] != 0) return near(a);
  for (size_t l = plan_.loops.size(); l-- > 0;)
    if (const size_t a = size_t(plan_.loops[l].axis); coef[a] != 0) return near(a);
  return false;
}

bool Walks::turns_in_registers() const {
  const auto turned = [](const Operand& x) { return x.transposed || x.neighbours > 0; };
  return plan_.store_transpose_axis >= 0 || std::any_of(plan_.operands.begin(), plan_.operands.end(), turned);
}

std::optional<double> Walks::by_turns(const std::vector<int64_t>& places, int64_t piece) const {
  constexpr int64_t kFar = 8, kGap = 5;        // lines
  constexpr double kFollowed = 8, kNone = 20;  // ... from the first to the last
  const int64_t line = c_.profile.levels[0].line_bytes;
  int64_t step = 0;
  for (size_t p = 1; p < places.size(); ++p) step = std::max(step, places[p] - places[p - 1]);
  if (step < piece + line) return std::nullopt;
  if (step >= kFar * line && step - piece >= kGap * line) return 1;
  const double over = double(places.back() - places.front() + piece) / double(line);
  return std::clamp((over - kFollowed) / (kNone - kFollowed), 0.0, 1.0);
}

double Walks::unfollowed(size_t i, const Stretch& s) const { return alone_in_body(i, s) * (1 - forgotten(i)); }

double Walks::forgotten(size_t i) const {
  constexpr double kRemembered = 96, kMost = 0.65;  // loads
  if (!nest_.has_reduction() || facts_.products > 0 || facts_.operands[i].is_store || reduced(size_t(plan_.vec))) return 0;
  double loads = 1;
  for (size_t a = 0; a < n_; ++a)
    if (placed_coef(i)[a] != 0) loads *= reduced(a) ? double(axes_[a].unroll) : double(plan_.tile[a].hi);
  return kMost * std::clamp(loads / kRemembered - 1, 0.0, 1.0);
}

double Walks::alone_in_body(size_t i, const Stretch& s) const {
  constexpr double kLearnt = 128, kFewRows = 2;  // lines
  const auto& o = facts_.operands[i];
  if ((facts_.contracts && !o.is_store) || packed(i) || turns_in_registers()) return 0;  // those load and store in groups
  const size_t along = size_t(plan_.vec);
  const double line = double(c_.profile.levels[0].line_bytes);
  const std::vector<int64_t> places = body_places(i);
  const int64_t piece = piece_bytes(i);
  if (const auto share = by_turns(places, piece)) {
    const double row = reduced(along) ? double(within_tile(along) * std::abs(o.coef[along])) * o.element_bytes : s.bytes;
    return s.piece > line ? *share : std::min(*share, kLearnt * line / row);
  }
  const double lines = double(places.back() - places.front() + piece) / line;
  if (s.jumps_over >= kFewRows || walked_bytes(i) >= (lines + 1) * line) return 1;
  return std::clamp(reduced(along) ? (lines - 4) / 14 : lines - double(kLoadsFollowed), 0.0, 1.0);
}

double Walks::walked_bytes(size_t i) const {
  const auto& o = facts_.operands[i];
  for (size_t r = plan_.reduce_order.size(); r-- > 0;)
    if (const size_t a = size_t(plan_.reduce_order[r]); axes_[a].trips > 1)
      return double(std::abs(placed_coef(i)[a]) * in_body(a)) * o.element_bytes;
  for (size_t l = plan_.loops.size(); l-- > 0;)
    if (const size_t a = size_t(plan_.loops[l].axis); trips_of(l) > 1)
      return double(std::abs(placed_coef(i)[a]) * plan_.loops[l].step * step_unit(a)) * o.element_bytes;
  return 0;
}

double Walks::in_one_set(std::vector<int64_t> places) const {
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  const double count = double(places.size());
  for (int64_t& p : places) p = p % (l1.capacity_bytes / l1.ways) / l1.line_bytes;
  distinct(places);
  return count / double(places.size());
}

Walks::Conflicts Walks::conflicts(const std::vector<int64_t>& lines) const {
  constexpr double kWaits = 0.25;
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (lines.size() <= 1 || l1.ways <= 0) return {};
  double steps = 1;
  for (size_t a = 0; a < n_; ++a)
    if (reduced(a)) steps *= axes_[a].trips;
  const double in_set = in_one_set(lines), again = double(lines.size()) * steps * counts_.calls;
  if (in_set + 2 <= l1.ways) return {};
  return {again * l1.line_bytes, again * kWaits * std::max(0.0, in_set / l1.ways - 1)};
}

Stretch stretch_of(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, size_t operand) {
  const TileCounts counts = count_tiles(nest, plan, context);
  return Walks(CountedPlan(nest, facts, plan, context, counts)).stretch(operand);
}

}  // namespace rgen::rtile
