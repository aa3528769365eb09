// What a plan asks for before it is used: lines of packed panels, of rows that pass by, of windows that slide, of later steps.
#include <algorithm>
#include <cmath>

#include "rtile/planner.h"
#include "rtile/walks.h"

namespace rgen::rtile {

/// Little's law: so many bytes must have been asked for to keep memory busy while the products of what has come are formed. The hardware's
/// prefetchers ask for less, and stop at pages: they do where nothing else is to be done, and lose up to half the time beside products.
NestPlan Planner::fetch_ahead(NestPlan p) const {
  // products of a line from which on asking pays (4 rows of f32, 1.08 ns, take 1.2 times as long with it, 6 rows 0.85, 12 rows 0.72; Zen 4;
  // 3 rows, 0.93 ns, 1.06, 4 rows, 1.23 ns, 0.8 to 0.98; Zen 3)
  constexpr double kProductsNs = 1.15;
  // ... or up to which: in so many times of theirs, memory delivers the line (4096 × 4096 in two streams: 1 row 0.7 to 0.86, 2 rows 0.95, 3
  // rows 1.07, 4 rows 1.2; Zen 4)
  constexpr double kHidden = 3;
  constexpr int64_t kProducts = 5;  // ... of each element
  const hw::MemoryLevel& memory = c_.profile.levels.back();
  if (memory.read_gbs(c_.threads) <= 0) return p;
  const int64_t bytes = round_up(int64_t(under_way()), memory.line_bytes);
  for (size_t i = 0; i < facts_.reads; ++i) {
    const auto& o = facts_.operands[i];
    const bool beyond_caches = c_.beyond_caches(o.tensor);
    const double products = double(memory.line_bytes) / o.element_bytes * double(reuse(p, i));
    const double products_ns = products / (double(p.atom->m) * p.atom->n * p.atom->k * p.atom->per_ns);
    if (p.operands[i].packed() && contraction_ && (beyond_caches ? !stays(p, i) : waits_in_last_cache(p, i))) {
      const auto of_line = [&](int sharers) { return double(memory.line_bytes) / memory.read_gbs(sharers); };
      const bool many = reuse(p, i) >= kProducts || products_ns >= kProductsNs;
      const bool waited_for = products_ns < of_line(c_.threads) * memory.by_turns(1, c_.threads);  // a line of one row
      const int64_t streams = waited_for ? streams_of(p, i, many) : 1;
      const bool asked = streams > 1 ? !turns_pay() && kHidden * products_ns < of_line(1) : many;
      p.operands.change(i, [&](Operand& x) {
        x.streams = streams;
        if (asked) x.ahead = round_up(bytes / streams, memory.line_bytes) / o.element_bytes;
      });
    }
    if (const int64_t n = jumps_ahead(p, i); n > 0) p.operands.change(i, [&](Operand& x) { x.next_step = n; });
    if (const int axis = beyond_caches ? sliding_axis(p, i) : -1; axis >= 0) {
      const int64_t rows = std::abs(o.coef[size_t(axis)]) * p.tile[size_t(axis)].size();
      p.operands.change(i, [&](Operand& x) { x.ahead = rows * ceil_div(bytes, rows * o.element_bytes), x.slides = axis; });
    } else if (const int next = passes_by(p, i); next >= 0) {
      int64_t rows = 1;  // of other axes, walked side by side
      for (int a : outputs_)
        if (a != next && o.coef[size_t(a)] != 0) rows *= p.tile[size_t(a)].size();
      const int64_t step = std::abs(o.coef[size_t(next)]) * p.tile[size_t(next)].size();
      const bool whole = rows == 1 && o.coef[size_t(next)] == extent(p.reduce_order.back()) && o.coef[size_t(p.reduce_order.back())] == 1;
      p.operands.change(i, [&](Operand& x) {
        x.ahead = step * ceil_div(bytes, step * o.element_bytes * rows), x.passes_by = true, x.contiguous = whole;
      });
    }
  }
  return p;
}

int64_t Planner::jumps_ahead(const NestPlan& p, size_t operand) const {
  constexpr double kProducts = 16;  // vectors of them beside each line that is asked for
  const auto& o = facts_.operands[operand];
  const int64_t line = c_.profile.levels[0].line_bytes;
  const int home = c_.home[size_t(o.tensor)];
  if (gpu() || nest_.fused() || !contraction_ || p.tiled() || p.operands[operand].placement != Placement::direct || !o.affine || !o.inner ||
      home < 2)
    return 0;
  const auto unrolled = [&](int a) {
    return reduced(a) ? std::min(extent(a), p.tile[size_t(a)].hi * p.tile[size_t(a)].unit) : p.tile[size_t(a)].size();
  };
  int walked = -1;
  double rows = 1, products = 1;
  int64_t piece = o.element_bytes;  // of a row
  for (int a = 0; a < n_; ++a) {
    const int64_t step = std::abs(o.coef[size_t(a)]) * o.element_bytes;
    products *= double(reduced(a) || a == p.vec ? p.tile[size_t(a)].hi : unrolled(a));
    if (step >= line)
      rows *= double(unrolled(a));
    else
      piece += step * (unrolled(a) - 1);
  }
  for (int a : p.reduce_order)
    if (o.coef[size_t(a)] != 0 && unrolled(a) < extent(a)) walked = a;
  if (walked < 0) return 0;
  const int64_t step = std::abs(o.coef[size_t(walked)]) * unrolled(walked);
  const double lines = rows * (double(piece) / double(line) + 0.5), trips = double(ceil_div(extent(walked), unrolled(walked)));
  if (step * o.element_bytes <= std::max(kGapBytes, piece) || rows * trips <= kRowsFollowed || products < kProducts * lines) return 0;
  const double steps = std::ceil(c_.profile.levels[size_t(home)].latency_ns / (products / p.atom->per_ns)) + 1;
  // those of the last steps are for nothing; those of steps that share sets push each other out, with what comes beside them (planes 36 KiB
  // apart under 3 × 3, four steps in the sets of 8 ways, 9.2 ms, not asked for 7.5; 40 KiB and a line 2.22 and 2.26; Zen 3)
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (2 * steps > trips || (l1.ways > 0 && 2 * (steps + 1) / Walks::sets(step * o.element_bytes, l1) >= double(l1.ways))) return 0;
  return step * int64_t(steps);
}

void Planner::fetch_rows_ahead(NestPlan& p) const {
  constexpr int64_t kShortest = 1024;  // bytes; rows of 252 bytes take 1.1 to 1.2 times as long
  if (gpu() || nest_.fused() || contraction_ || !nest_.has_reduction()) return;
  const hw::MemoryLevel& memory = c_.profile.levels.back();
  for (size_t i = 0; i < facts_.reads; ++i) {
    const auto& o = facts_.operands[i];
    if (!c_.beyond_caches(o.tensor) || p.operands[i].placement != Placement::direct || p.operands[i].transposed || !o.affine ||
        p.operands[i].slides >= 0 || o.coef[size_t(p.vec)] != 1 || extent(p.vec) * o.element_bytes < kShortest)
      continue;
    double rows = 1;  // by turns
    for (int a = 0; a < n_; ++a)
      if (a != p.vec && o.coef[size_t(a)] != 0 && (!reduced(a) || p.tile[size_t(a)].hi > 1)) rows *= double(p.tile[size_t(a)].size());
    const double bytes = under_way() / rows;
    const Stretch s = stretch_of(nest_, facts_, p, c_, i);
    const bool follows = s.go_on || s.bytes >= 4 * bytes;
    p.operands.change(i, [&](Operand& x) { x.ahead = follows ? round_up(int64_t(bytes), memory.line_bytes) / o.element_bytes : 0; });
  }
}

bool Planner::from_beyond_first(const NestPlan& p, size_t operand) const {
  const auto& o = facts_.operands[operand];
  return !gpu() && !facts_.slides && o.affine && o.coef[size_t(p.vec)] == 1 && p.operands[operand].placement == Placement::direct &&
         c_.home[size_t(o.tensor)] > 0;
}

void Planner::read_in_order(NestPlan& p) const {
  constexpr double kOnward = 16384;  // bytes
  if (gpu() || nest_.fused() || contraction_ || !nest_.has_reduction() || reduced(p.vec)) return;
  for (size_t i = 0; i < facts_.reads; ++i) {
    bool in_order = from_beyond_first(p, i);
    if (in_order) {
      const Stretch s = stretch_of(nest_, facts_, p, c_, i);
      in_order = s.turns == 1 && s.bytes >= kOnward;
    }
    if (in_order != p.operands[i].in_order) p.operands.change(i, [&](Operand& x) { x.in_order = in_order; });
  }
}

bool Planner::turns_pay() const {
  constexpr double kFaster = 1.05;  // less is noise of a profile's measurement
  const hw::MemoryLevel& memory = c_.profile.levels.back();
  return memory.by_turns(1, c_.threads) > kFaster * memory.by_turns(memory.kRows, c_.threads);
}

int64_t Planner::streams_of(const NestPlan& p, size_t operand, bool fetched_ahead) const {
  const auto& o = facts_.operands[operand];
  if (!c_.beyond_caches(o.tensor) || share_of_time(operand) < kNoticed || p.operands[operand].placement != Placement::prepack ||
      p.tiled() || reduced(p.vec) || o.coef[size_t(p.vec)] == 0)
    return 1;
  const int64_t vectors = p.tile[size_t(p.vec)].hi;
  if (turns_pay()) return vectors;
  return vectors % 2 == 0 && !fetched_ahead ? 2 : 1;
}

int64_t Planner::walks(const NestPlan& p, size_t operand) const {
  int64_t walks = 1;
  for (int a : outputs_) walks *= facts_.operands[operand].coef[size_t(a)] == 0 ? p.tile[size_t(a)].blocks : 1;
  return walks;
}

bool Planner::stays(const NestPlan& p, size_t operand) const {
  return walks(p, operand) > 1 && near_level(c_.profile, tensor_bytes(c_.program[facts_.operands[operand].tensor]), 0.8) <= 1;
}

bool Planner::waits_in_last_cache(const NestPlan& p, size_t operand) const {
  const int home = c_.home[size_t(facts_.operands[operand].tensor)];
  return home >= 2 && home + 2 == int(c_.profile.levels.size()) && c_.profile.levels[size_t(home)].overlap >= kNoticed && !p.tiled() &&
         walks(p, operand) == 1 && share_of_time(operand) >= kNoticed;
}

int Planner::passes_by(const NestPlan& p, size_t operand) const {
  const auto& o = facts_.operands[operand];
  if (!contraction_ || p.reduce_order.empty() || nest_.fused() || !o.affine || !o.inner ||
      p.operands[operand].placement != Placement::direct)
    return -1;
  if (reuse(p, operand) < 2 || stays(p, operand) || share_of_time(operand) < kNoticed) return -1;
  const size_t along = size_t(reduced(p.vec) ? p.vec : p.reduce_order.back());
  if (o.coef[along] != 1 || (!reduced(p.vec) && o.coef[size_t(p.vec)] != 0)) return -1;
  int next = -1;
  for (int a : outputs_)
    if (o.coef[size_t(a)] != 0 && p.tile[size_t(a)].blocks > 1 &&
        (next < 0 || std::abs(o.coef[size_t(a)]) < std::abs(o.coef[size_t(next)])))
      next = a;
  if (next < 0 || std::abs(o.coef[size_t(next)]) > extent(int(along))) return -1;  // what skips lines is not asked for
  return pushes_out(p, operand) ? -1 : next;
}

bool Planner::pushes_out(const NestPlan& p, size_t operand) const {
  const hw::MemoryLevel& l1 = c_.profile.levels[0];
  if (!l1.prefetched || l1.ways <= 0) return false;
  const auto& o = facts_.operands[operand];
  double in_set = 2;  // a line of each row, and those of the next rows
  for (int a : outputs_)
    if (const int64_t stride = std::abs(o.coef[size_t(a)]) * o.element_bytes; stride >= l1.line_bytes)
      in_set *= std::max(1.0, double(p.tile[size_t(a)].size()) / Walks::sets(stride, l1));
  return in_set > double(l1.ways);
}

int Planner::sliding_axis(const NestPlan& p, size_t operand) const {
  const auto& o = facts_.operands[operand];
  const bool loaded =
      o.coef[size_t(p.vec)] == 1 || (o.coef[size_t(p.vec)] == 2 && !p.operands[operand].transposed);  // or every other element
  if (p.operands[operand].placement != Placement::direct || !o.affine || !loaded || reuse(p, operand) > 1) return -1;
  int widest = -1;
  for (int a : outputs_) {
    const int64_t row = std::abs(o.coef[size_t(a)]) * p.tile[size_t(a)].size() * o.element_bytes;
    if (a == p.vec || p.tile[size_t(a)].blocks == 1 || 4 * row > c_.profile.levels[1].capacity_bytes) continue;
    const bool window = std::any_of(o.dim_coef.begin(), o.dim_coef.end(), [&](const std::vector<int64_t>& dim) {
      bool steps = false;
      for (size_t r = 0; r < dim.size(); ++r) steps |= dim[r] != 0 && reduced(int(r)) && extent(int(r)) > 1;
      return steps && dim[size_t(a)] != 0;
    });
    if (window && (widest < 0 || std::abs(o.coef[size_t(a)]) > std::abs(o.coef[size_t(widest)]))) widest = a;
  }
  return widest;
}

}  // namespace rgen::rtile
