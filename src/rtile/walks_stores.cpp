// Walks of results: stores that are waited for, and streamed ones.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "rtile/walks.h"

namespace rgen::rtile {

Walks::WriteWalk Walks::write_walk(const NestFacts::OperandFacts& o) const {
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
    if (const int64_t size = within_tile(a); !extend(a, size) && size > 1) {
      if (rows == 1) from_row_to_row = std::abs(o.coef[a]);
      rows *= size;
    }
  bool jumps = rows > 1;
  for (size_t l = plan_.loops.size(); l-- > 0;) {
    const size_t a = size_t(plan_.loops[l].axis);
    if (o.coef[a] == 0 || plan_.loops[l].step * step_unit(a) >= covered_by(l)) continue;
    const bool next_row = covered[a] < std::min(nest_.axes[a].extent, plan_.loops[l].step * step_unit(a));
    if (next_row || !extend(a, covered_by(l))) {
      jumps = true;
      break;
    }
  }
  return {double(run) * o.element_bytes, double(rows), rows > 1 && from_row_to_row <= run, jumps || !continued(o)};
}

double Walks::slow_stores(const NestFacts::OperandFacts& o) const {
  const WriteWalk w = write_walk(o);
  if (!w.jumps) return 0;
  const double in_order = Stretch::kRampBytes / 2;
  const double apart = w.neighbours ? std::clamp((w.bytes * w.rows - in_order) / Stretch::kRampBytes, 0.0, 1.0) : 1;
  return unfollowed_store() * std::min(1.0, in_order / w.bytes) * apart;
}

double Walks::written_in_pieces(const NestFacts::OperandFacts& o, const hw::MemoryLevel& to) const {
  constexpr double kOfRead = 0.75, kFewSets = 4;  // those wait for their stores (waiting_stores)
  const WriteWalk w = write_walk(o);
  if (!w.jumps || w.neighbours) return 1;
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  const double line = double(l1.line_bytes), piece = std::max(line, w.bytes);
  const double shared = l1.ways > 0 && sets_of(o, l1) > kFewSets ? kOfRead * sharing_sets(o, to) : 0;
  return 1 + (to.pieces - 1) * std::sqrt(line / piece) + shared * line / piece;
}

bool Walks::across(const NestFacts::OperandFacts& o, size_t a) const {
  return std::abs(o.coef[a]) * o.element_bytes >= c_.profile.levels[0].line_bytes;
}

double Walks::sets(int64_t stride, const hw::MemoryLevel& level) {
  const int64_t way = level.capacity_bytes / level.ways;
  return double(std::min(way / level.line_bytes, way / std::gcd(stride, way)));
}

double Walks::sets_of(const NestFacts::OperandFacts& o, const hw::MemoryLevel& level) const {
  int64_t apart = 0;
  for (size_t a = 0; a < n_; ++a)
    if (nest_.axes[a].extent > 1 && across(o, a)) apart = std::gcd(apart, std::abs(o.coef[a]) * o.element_bytes);
  return sets(apart, level);
}

std::optional<size_t> Walks::loop_along_rows(const NestFacts::OperandFacts& o) const {
  for (size_t l = plan_.loops.size(); l-- > 0;)
    if (const size_t a = size_t(plan_.loops[l].axis); o.coef[a] != 0 && !across(o, a) && covered_by(l) > plan_.loops[l].step * step_unit(a))
      return l;
  return std::nullopt;
}

int64_t Walks::written_piece(const NestFacts::OperandFacts& o) const {
  int64_t bytes = o.element_bytes;
  for (size_t a = 0; a < n_; ++a)
    if (o.coef[a] != 0 && !across(o, a)) bytes += std::abs(o.coef[a]) * o.element_bytes * (plan_.tile[a].size() - 1);
  return bytes;
}

double Walks::rows_inside(const NestFacts::OperandFacts& o, size_t loop) const {
  double rows = 1;
  for (size_t a = 0; a < n_; ++a)
    if (across(o, a)) rows *= double(plan_.tile[a].size());
  for (size_t l = loop + 1; l < plan_.loops.size(); ++l)
    if (const size_t a = size_t(plan_.loops[l].axis); across(o, a)) rows *= trips_of(l);
  return rows;
}

double Walks::rows_in_set(const NestFacts::OperandFacts& o, size_t loop) const {
  constexpr double kFew = 2;
  const auto sets_along = [&](size_t a) { return sets(std::abs(o.coef[a]) * o.element_bytes, c_.profile.levels[0]); };
  double rows = 1;
  for (size_t a = 0; a < n_; ++a)
    if (across(o, a)) rows *= std::max(1.0, double(plan_.tile[a].size()) / sets_along(a));
  for (size_t l = plan_.loops.size(); l-- > loop + 1;) {
    const size_t a = size_t(plan_.loops[l].axis);
    if (!across(o, a) || trips_of(l) == 1) continue;
    if (sets_along(a) > kFew) break;  // stores under way go to many
    rows *= trips_of(l) / sets_along(a);
  }
  return rows;
}

double Walks::store_wait(double in_set, double sets, int64_t piece) const {
  constexpr double kFree = 2.0 / 3, kMost = 2.4, kWhole = 0.5;
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (in_set <= double(l1.ways)) return 0;
  const double together = std::max(0.0, 1 - std::log2(sets) / 3);  // 1 in one set, 2/3 in two, 1/3 in four
  const double waits = in_set / double(l1.ways) - kFree, lines = double(piece) / double(l1.line_bytes);
  return piece % l1.line_bytes == 0 ? kWhole * together * std::min(waits, kMost) / std::sqrt(lines) : std::min(waits, together * kMost);
}

double Walks::waiting_stores(const NestFacts::OperandFacts& o) const {
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  const std::optional<size_t> along = l1.ways > 0 && facts_.products == 0 ? loop_along_rows(o) : std::nullopt;
  if (!along) return 0;
  double in_set = 0;  // lines that come between the two pieces
  for (const NestFacts::OperandFacts& x : facts_.operands) in_set += rows_inside(x, *along) / sets_of(x, l1);
  const double cached = c_.beyond_caches(o.tensor) ? 1 - c_.missing_results : 1;  // others: slow_stores
  return cached * store_wait(in_set, sets_of(o, l1), written_piece(o));
}

double Walks::read_beside_stores() const {
  constexpr double kOfRead = 0.5;
  double in_set = 0;
  for (size_t a = 0; a < n_; ++a)
    if (reduced(a) && axes_[a].trips > 1) return 0;  // one tile's stores are over before the next one's last loads
  for (size_t i = 0; i < facts_.reads; ++i)
    if (factor_in_place(i)) in_set += in_one_set(body_lines(i));
  return kOfRead * in_set;
}

double Walks::crowded_stores(const NestFacts::OperandFacts& o) const {
  const bool results = o.is_store && c_.profile.levels[0].ways > 0 && facts_.products > 0 && !plan_.tiled();
  const std::optional<size_t> along = results ? loop_along_rows(o) : std::nullopt;
  if (!along) return 0;
  const size_t tile = plan_.loops.size() - 1;
  const double rows = rows_inside(o, tile), sets = rows / rows_in_set(o, tile);
  const double burst = rows * double(ceil_div(written_piece(o), c_.profile.levels[0].line_bytes)) *
                       store_wait(rows_in_set(o, *along) + read_beside_stores(), sets, written_piece(o));
  const double products = counts_.points * counts_.steps / plan_.atom->per_ns / c_.profile.levels[1].latency_ns;
  return counts_.calls / counts_.chunks * std::max(0.0, burst - products);
}

double Walks::displacing_stores(const NestFacts::OperandFacts& o, std::span<const double> touched) const {
  constexpr double kStays = 0.8, kMost = 0.5;  // of the cache
  const hw::MemoryLevel& l2 = c_.profile.levels[1];
  const std::optional<size_t> along = l2.ways > 0 && facts_.products > 0 ? loop_along_rows(o) : std::nullopt;
  if (!along) return 0;
  const double inside = touched[*along + 1] / double(l2.capacity_bytes);
  return inside > kStays ? 0 : overfull(rows_inside(o, *along) / sets_of(o, l2), l2) * std::min(1.0, inside / kMost);
}

double Walks::overfull(double lines, const hw::MemoryLevel& level) {
  const double ways = double(level.ways);
  return std::clamp((lines - ways) / (ways / 2), 0.0, 1.0);
}

double Walks::evicted_stores(const NestFacts::OperandFacts& o) const {
  constexpr double kAtOnce = 2, kOthers = 2;
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  const int64_t stride = std::abs(o.coef[size_t(plan_.vec)]) * o.element_bytes;
  if (l1.ways <= 0 || plan_.lanes == 1 || plan_.store_transpose_axis >= 0 || (o.inner && nest_.has_reduction()) || stride < l1.line_bytes)
    return 0;
  const double rows = double(plan_.tile[size_t(plan_.vec)].size()) / sets(stride, l1);
  return counts_.points * counts_.calls / counts_.chunks * plan_.lanes * overfull(rows + kOthers, l1) / kAtOnce;
}

double Walks::unfollowed_store() const {
  constexpr double kWindow = 256, kMisses = 24;  // instructions; stores under way
  const hw::MemoryLevel& memory = c_.profile.levels.back();
  const double under_way = std::clamp(std::max(counts_.points, kWindow / (1.5 * counts_.steps + 2)), 1.0, kMisses);
  return std::max(0.0, memory.latency_ns / under_way * memory.write_gbs(1) / memory.line_bytes - 1);
}

double Walks::jumping(double piece) const {
  constexpr double kOneLine = 1.5;
  const double lines = piece / double(c_.profile.levels[0].line_bytes);
  return 1 + kOneLine / (lines * lines);
}

double Walks::streamed_pieces(size_t i, const Stretch& s) const {
  constexpr double kStreamedTurns = 8, kWhole = 512, kMost = 4, kParts = 8, kTwoRows = 1.4;
  const double line = double(c_.profile.levels[0].line_bytes);
  if (plan_.combining) return jumping(double(plan_.piece() * facts_.operands[i].element_bytes));
  if (plan_.lanes * facts_.operands[i].element_bytes >= line) return std::max(std::min(s.turns, kStreamedTurns), jumping(s.piece));
  const double most = s.piece < line ? kParts : kMost;
  return s.turns == 2 ? kTwoRows : std::clamp(kWhole / s.piece, 1.0, most);
}

}  // namespace rgen::rtile
