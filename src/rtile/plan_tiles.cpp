// Register tiles: their enumeration, the unrolling of the reduced axes, and the score of a tile alone.
#include <algorithm>
#include <cmath>

#include "rtile/planner.h"
#include "rtile/staged.h"
#include "rtile/walks.h"

namespace rgen::rtile {

std::vector<int64_t> Planner::sizes(int64_t extent, int64_t most) {
  std::vector<int64_t> s;
  int64_t last = 0;
  for (int64_t u = 1; u <= std::min(extent, most); ++u) {
    const int64_t hi = ceil_div(extent, ceil_div(extent, u));  // what equal blocks of at most u come out as
    if (hi != last) s.push_back(hi);
    last = hi;
  }
  return s;
}

std::vector<int64_t> Planner::thinned(std::vector<int64_t> all) const {
  if (!gpu() || all.size() <= 6) return all;
  std::vector<int64_t> some;
  for (int64_t target : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64})
    for (int64_t s : all)
      if (s >= target) {
        if (some.empty() || some.back() != s) some.push_back(s);
        break;
      }
  return some;
}

bool Planner::rows_from_memory() const {
  return !nest_.fused() && std::any_of(facts_.operands.begin(), facts_.operands.end(),
                                       [&](const NestFacts::OperandFacts& o) { return !o.is_store && c_.beyond_caches(o.tensor); });
}

void Planner::enumerate_tiles(const Start& s) {
  if (s.plan.form == AtomForm::staged) {
    for (const NestPlan& p : plan_staged(nest_, facts_, s.plan, c_)) offer(p);
    return;
  }
  const int vec = s.plan.vec;
  // of a GPU's many registers, most are better spent on more warps
  const int registers = gpu() ? std::min(128, c_.profile.vector_registers) : c_.profile.vector_registers;
  // where there is nothing to accumulate (and on a GPU wherever there is no product) a few independent vectors are enough
  const bool accumulates = nest_.has_reduction() && (!gpu() || facts_.products > 0);
  const int64_t most = accumulates ? registers : std::max<int64_t>(9, s.tile_size);
  std::vector<int> others;
  for (int a : outputs_)
    if (a != vec && a != s.tile_axis && extent(a) > 1) others.push_back(a);
  const int64_t fixed = s.tile_axis >= 0 ? std::min(s.tile_size, extent(s.tile_axis)) : 1;
  const int64_t units = ceil_div(extent(vec), s.plan.lanes);
  // half a KiB of each stream, over which prefetchers follow the loads of a long body
  const bool streams = !gpu() && (!accumulates || (reduced(vec) && rows_from_memory()));
  const bool columns =
      !gpu() && sums_columns(nest_, facts_, vec) &&
      std::any_of(facts_.operands.begin(), facts_.operands.end(), [&](const auto& o) { return c_.home[size_t(o.tensor)] == 1; });
  for (int64_t nv : sizes(units, facts_.products > 0 || streams ? 8 : columns ? kLoadsFollowed : 16)) {
    NestPlan p = s.plan;
    p.tile[size_t(vec)] = Blocking(extent(vec), p.lanes, nv * p.lanes);
    if (s.tile_axis >= 0) p.tile[size_t(s.tile_axis)] = Blocking(extent(s.tile_axis), 1, fixed);
    const int64_t per = reduced(vec) ? nv : nv * fixed;
    if (per > registers) break;
    consider(p);
    for (int a : others) {
      const bool rows = p.tiled();
      for (int64_t u : thinned(sizes(extent(a), rows ? 64 : (most - 1) / per))) {
        if (u == 1) continue;
        NestPlan q = p;
        q.tile[size_t(a)] = Blocking(extent(a), 1, u);
        consider(q);
        // a second axis where the first is whole; along a reduced vector axis products need two to reuse both factors
        const bool square = !gpu() && reduced(vec) && facts_.products > 0;
        if (u != extent(a) && !square) continue;
        for (int b : others) {
          if (b == a) continue;
          for (int64_t v : sizes(extent(b), rows ? 3 : (most - 1) / (per * u))) {
            if (v == 1 || (square && u != extent(a) && v != extent(b) && b < a)) continue;
            NestPlan r = q;
            r.tile[size_t(b)] = Blocking(extent(b), 1, v);
            consider(r);
          }
        }
      }
    }
  }
}

void Planner::consider(const NestPlan& tile) {
  if (beaten(tile, true)) return;
  if (tile.tiled() && !fits_tiles(tile)) return;
  if (step_bytes(tile) > double(c_.profile.levels[0].capacity_bytes)) return;
  const int registers = gpu() ? std::min(192, c_.profile.vector_registers) : c_.profile.vector_registers;
  if (registers_needed(nest_, facts_, tile) > registers && points(tile) > 1) return;
  NestPlan p = tile;
  unroll(p);
  p.finish_axis = finish_axis(p);
  // neighbouring steps of an unrolled window share loads, if the registers hold them
  const bool unrolled =
      std::any_of(p.reduce_order.begin(), p.reduce_order.end(), [&](int a) { return a != p.vec && p.tile[size_t(a)].hi > 1; });
  if (!unrolled || p.interleaved()) return score(std::move(p));
  score(p);
  p.window = true;
  if (registers_needed(nest_, facts_, p) <= registers) score(std::move(p));
}

bool Planner::separated(const NestPlan& p, int a) {
  return std::any_of(p.operands.begin(), p.operands.end(), [a](const Operand& o) { return o.neighbours > 0 && o.transpose_axis == a; });
}

bool Planner::transposes(const NestPlan& p) {
  return p.store_transpose_axis >= 0 || std::any_of(p.operands.begin(), p.operands.end(), [](const Operand& o) { return o.transposed; });
}

void Planner::score(NestPlan p) {
  double us = 0;
  if (c_.warps > 0) {
    us = time_in_warp(p, outputs_);
  } else if (gpu()) {
    deal_out(p, outputs_);
    GpuTile tile(nest_, facts_, p, c_);
    if (tile.least_us() > fastest_[0] * limit()) return;
    us = launch(p, tile, 4, 1);
    const double side_by_side = launch(p, tile, 8, 2);
    us = std::min(us, std::isfinite(side_by_side) ? side_by_side : launch(p, tile, 8, 1));
    p.parallel.clear(), p.block_rows = 1;
  } else {
    alone_.near = (contraction_ && !by_memory_) || sums_rows(p);  // loops bring its operands near; others' pass by once
    const auto timed = [&](const std::vector<int>& order) {
      p.loops.clear();
      for (int a : order) p.loops.push_back({a, 1});
      return hw::estimate(workload(nest_, facts_, p, alone_), c_.profile).us;
    };
    us = timed(outputs_);
    if (transposes(p) || (contraction_ && by_memory_))  // which of the tensors is walked along its rows, and which once, decides
      for (const std::vector<int>& order : loop_orders(p))
        if (order != outputs_) us = std::min(us, timed(order));
  }
  p.loops.clear();
  const bool near = !gpu() && alone_.near;
  fastest_[near] = std::min(fastest_[near], us);
  if (us <= fastest_[near] * limit()) tiles_.push_back({std::move(p), us, start_, near});
}

double Planner::step_bytes(const NestPlan& p) const {
  std::vector<int64_t> e(static_cast<size_t>(n_));
  for (int a = 0; a < n_; ++a)
    e[size_t(a)] = std::min(extent(a), reduced(a) ? (a == p.k_axis ? p.k_step : p.tile[size_t(a)].unit) : p.tile[size_t(a)].size());
  double sum = 0;
  for (const auto& o : facts_.operands) sum += footprint_bytes(o, e, c_.profile.levels[0].line_bytes, Fetch::rows);
  return sum;
}

bool Planner::fits_tiles(const NestPlan& p) const {
  for (int x : outputs_)  // one panel of b serves all rows
    if (x != p.vec && facts_.operands[size_t(p.operand_b)].coef[size_t(x)] != 0 && p.tile[size_t(x)].hi > 1) return false;
  if (p.form == AtomForm::warp) return true;  // its tiles are ordinary registers
  return registers_of_b(int64_t(p.row_tiles(nest_).size()), p.tile[size_t(p.vec)].hi) > 0;
}

int64_t Planner::points(const NestPlan& p) const {
  int64_t n = 1;
  for (int a : outputs_) n *= p.tile[size_t(a)].hi;
  return n;
}

int Planner::finish_axis(const NestPlan& p) const {
  if (gpu() || p.lanes == 1 || !reduced(p.vec)) return -1;
  int best = -1;
  for (int f : outputs_) {
    if (p.tile[size_t(f)].hi < 2 || (best >= 0 && p.tile[size_t(f)].hi <= p.tile[size_t(best)].hi)) continue;
    if (std::all_of(facts_.operands.begin(), facts_.operands.end(), [&](const auto& o) {
          const int64_t stride = o.coef[size_t(f)];
          return o.inner || (o.affine && (stride == 1 || (stride == 0 && !o.is_store)));
        }))
      best = f;
  }
  return best;
}

int64_t Planner::gap_down(const NestPlan& p, size_t operand, int a) const {
  if (!sums_columns(nest_, facts_, p.vec) || !from_beyond_first(p, operand)) return -1;
  const auto& o = facts_.operands[operand];
  int64_t row = 1;
  for (int x : outputs_)
    if (o.coef[size_t(x)] != 0) row *= p.tile[size_t(x)].size();
  return std::abs(o.coef[size_t(a)]) - row;
}

/// Steps along the reduced axis `a` that prefetchers into the first cache follow. Every load of a packed operand advances by at most 1 KiB:
/// they follow a load instruction over short strides (up to 2 KiB: Intel 64 and IA-32 Optimization Reference Manual, IP-based stride
/// prefetcher; on Zen 5, products of one row with weights in L2 run at half the rate from 2 KiB on, some of them from 1.5). Of whole rows
/// that are summed, a body has as many loads as are followed (Walks::unfollowed).
int64_t Planner::followed_steps(const NestPlan& p, int a, int64_t unit) const {
  constexpr int64_t kStride = 1024;
  int64_t steps = kStride;
  for (size_t i = 0; i < facts_.reads && !gpu(); ++i) {
    const auto& o = facts_.operands[i];
    if (o.coef[size_t(a)] == 0) continue;
    int64_t bytes = o.element_bytes * unit, loads = 1;
    for (int x : outputs_)
      if (o.coef[size_t(x)] != 0) bytes *= p.tile[size_t(x)].size(), loads *= p.tile[size_t(x)].hi;
    if (p.operands[i].packed()) steps = std::min(steps, kStride / bytes);
    if (gap_down(p, i, a) == 0) steps = std::min(steps, kLoadsFollowed / loads);
  }
  return std::max<int64_t>(1, steps);
}

int64_t Planner::bodies(const NestPlan& p) const {
  int64_t copies = 1;
  for (int a : outputs_) copies *= int64_t(p.runs(a).size());
  size_t guards = 0;
  for (size_t i = 0; i < p.operands.size() && p.guarded; ++i)
    if (p.operands[i].placement == Placement::direct) guards += facts_.operands[i].guards.size();
  if (p.taps)
    for (const PaddedTaps& t : *p.taps) {
      const Blocking &steps = p.tile[size_t(t.reduced)], &places = p.tile[size_t(t.output)];
      const NestPlan::LeftOut left_out = p.left_out(t);
      if (left_out == NestPlan::LeftOut::points && steps.hi == 1) copies *= 2 * steps.extent;  // those at the ends, too
      const bool gone = left_out == NestPlan::LeftOut::tiles ? places.size() == 1 : left_out != NestPlan::LeftOut::nowhere;
      guards -= guards > 0 && gone;
    }
  return guards > 0 ? 2 * copies : copies;
}

int64_t Planner::in_step(const NestPlan& p) const { return points(p) * std::max<int64_t>(1, int64_t(nest_.inner.size())); }

double Planner::written_out(const NestPlan& p) const {
  const double at_once = double(in_step(p));
  double instructions = at_once;
  for (size_t i = 0; i < facts_.reads; ++i) {
    const auto& o = facts_.operands[i];
    double elements = 1;
    for (int a : outputs_)
      if (o.coef[size_t(a)] != 0) elements *= double(p.tile[size_t(a)].hi);
    if (elements < at_once) instructions += elements;  // what one result alone needs is its instruction's operand in memory
  }
  for (int a : p.reduce_order) instructions *= double(p.tile[size_t(a)].hi);
  return instructions * double(bodies(p));
}

/// At most `most` of so many steps at once: a divisor where there are many, unless rows of a sum are short without one; of pieces of rows,
/// where it is the number of loads that counts, what leaves few over.
int64_t Planner::without_rest(const NestPlan& p, int a, int64_t steps, int64_t most) const {
  if (steps <= 8) return most;
  int64_t whole = most, least = most;
  while (steps % whole != 0) --whole;
  for (int64_t u = most; 4 * u >= 3 * most; --u)
    if (steps % u < steps % least) least = u;
  if (by_pieces(p, a)) return least;
  for (size_t i = 0; i < facts_.reads && 2 * whole < most; ++i)
    if (gap_down(p, i, a) == 0) return most;
  return whole;
}

/// Sums of pieces of rows in the second cache.
bool Planner::by_pieces(const NestPlan& p, int a) const {
  for (size_t i = 0; i < facts_.reads; ++i)
    if (gap_down(p, i, a) > 0 && c_.home[size_t(facts_.operands[i].tensor)] == 1) return true;
  return false;
}

void Planner::unroll(NestPlan& p) const {
  // A cache of micro-operations has 4096: bodies that are left and entered again are decoded anew where they do not fit together (Zen 3: 3
  // × 3 of groups of 24 channels, 3 × 4 places a tile, 670 µs of 1.7 times as many, four times 924; four bodies of 480 instructions, two of
  // them for the borders of rows of 8 tiles, 1.25 times as long as two).
  constexpr double kDecoded = 1900;
  if (p.reduce_order.empty()) return;
  const int last = p.reduce_order.back();
  if (last == p.vec) return;
  const int64_t body = in_step(p);
  // multiply-adds in one unrolled body
  const int64_t budget = std::max<int64_t>(1, (gpu() || by_pieces(p, last) ? 256 : 96) / body);
  // small windows are unrolled whole, innermost first, so that neighbours share their loads
  const bool window = !contraction_ || p.k_axis < 0;
  const int64_t unit = last == p.k_axis ? p.k_step : 1;
  const int64_t steps = ceil_div(extent(last), unit);
  const auto by = [&](int axis, int64_t of, int64_t n) {
    p.tile[size_t(axis)] = Blocking(extent(axis), of, n * of);
    p.tile[size_t(axis)].hi = n;
    return gpu() || written_out(p) <= kDecoded;
  };
  int64_t u = std::min<int64_t>(steps, std::max<int64_t>(1, std::min<int64_t>({budget, 8, followed_steps(p, last, unit)})));
  if (p.form == AtomForm::matrix) {
    u = std::min(steps, ceil_div(kProductsBetweenStores, int64_t(p.row_tiles(nest_).size()) * p.tile[size_t(p.vec)].hi));
  } else {
    u = without_rest(p, last, steps, u);
    while (u > 1 && !by(last, unit, u)) u = without_rest(p, last, steps, u - 1);
  }
  if (window && steps <= 7 && steps * body <= 256 && by(last, unit, steps)) u = steps;
  if (separated(p, last)) u = steps;
  by(last, unit, u);
  if (u < steps || (p.form == AtomForm::matrix && steps > 1)) return;
  int64_t left = std::max<int64_t>(1, (gpu() ? 320 : 640) / (body * u));
  for (size_t i = p.reduce_order.size() - 1; i-- > 0;) {
    const int a = p.reduce_order[i];
    const bool whole = separated(p, a);
    if ((extent(a) > 7 || extent(a) > left) && !whole) return;
    const Blocking rolled = p.tile[size_t(a)];
    if (!by(a, 1, extent(a)) && !whole) {
      p.tile[size_t(a)] = rolled;
      return;
    }
    left /= extent(a);
  }
}

}  // namespace rgen::rtile
