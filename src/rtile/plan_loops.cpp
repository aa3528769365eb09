// What goes around a register tile: chunks of the reduction, block loops, cache tiles, threads; on a GPU the shape of a launch.
#include <algorithm>
#include <cmath>
#include <span>

#include "rtile/layout.h"
#include "rtile/planner.h"
#include "rtile/walks.h"

namespace rgen::rtile {

bool Planner::sums_as_vectors(int vec) const {
  return std::all_of(nest_.inner.begin(), nest_.inner.end(), [&](const Statement& s) {
    const std::vector<int64_t> shape = const_sizes(c_.program[s.tensor].shape);
    if (linearise(s.index, row_major(shape), n_).coef[size_t(vec)] == 1) return true;
    // in a place of their own (not a fused axis, which walks several dimensions)
    const size_t d = s.index.empty() ? 0 : dimension_along(s.index, vec);
    return !s.index.empty() && single_axis(s.index[d]) == vec && extent(vec) <= shape[d];
  });
}

std::vector<std::vector<int>> Planner::loop_orders(const NestPlan& base) const {
  if (reduced(base.vec)) return {outputs_};
  std::vector<std::vector<int>> orders;
  std::vector<int> rest;
  for (int a : outputs_)
    if (a != base.vec) rest.push_back(a);
  auto inside = rest;
  inside.push_back(base.vec);
  orders.push_back(inside);
  if (!rest.empty()) {
    auto outside = std::vector<int>{base.vec};
    outside.insert(outside.end(), rest.begin(), rest.end());
    orders.push_back(outside);
    if (rest.size() > 1) {  // outermost of the rest (batch, lanes) stays outside
      std::vector<int> middle{rest[0], base.vec};
      middle.insert(middle.end(), rest.begin() + 1, rest.end());
      orders.push_back(middle);
    }
  }
  return orders;
}

void Planner::deal_out(NestPlan& p, const std::vector<int>& order) {
  p.loops.clear(), p.parallel.clear();
  for (int a : order) {
    p.loops.push_back({a, 1});
    if (p.tile[size_t(a)].blocks > 1) p.parallel.push_back({a, p.tile[size_t(a)].blocks});
  }
}

double Planner::launch(NestPlan& p, GpuTile& tile, int block_tasks, int block_rows) const {
  const size_t axes = p.parallel.size();
  const int tasks = int(std::min<int64_t>(block_tasks, p.tasks()));
  if (block_rows > 1 &&
      (axes < 2 || tasks % block_rows || p.parallel[axes - 2].parts % block_rows || p.parallel[axes - 1].parts % (tasks / block_rows)))
    return std::numeric_limits<double>::infinity();
  p.block_tasks = tasks, p.block_rows = block_rows;
  return hw::times(tile.launch(p), c_.profile).us;
}

void Planner::enumerate_launches(const NestPlan& base) {
  NestPlan p = base;
  deal_out(p, outputs_);
  GpuTile tile(nest_, facts_, p, c_);
  if (beaten(tile.least_us())) return;
  for (const auto& order : loop_orders(base)) {
    deal_out(p, order);
    for (int warps : {1, 2, 4, 8, 16}) {
      if (warps * c_.profile.gpu.warp > c_.profile.gpu.max_threads_per_block) break;
      if (shared_bytes(base) * warps > kStaticShared) break;
      for (int rows : {1, 2, 4}) {
        const double us = launch(p, tile, warps, rows);
        if (!std::isfinite(us) || beaten(us)) continue;
        p.estimate = hw::estimate(tile.launch(p), c_.profile);
        offer(p);
      }
      if (p.tasks() <= warps) break;
    }
  }
}

double Planner::time_in_warp(NestPlan& p, const std::vector<int>& order) const {
  p.loops.clear(), p.parallel.clear();
  for (int a : order) p.loops.push_back({a, 1});
  double best = std::numeric_limits<double>::infinity();
  int axis = -1;
  for (int a = 0; a < n_ && c_.tile_warps > 1; ++a) {
    if (!deals_out(p, a)) continue;
    p.parallel.assign(1, {a, c_.tile_warps});
    const double us = us_in_warp(hw::times(workload_in_warp(p), c_.profile));
    if (us < best) best = us, axis = a;
  }
  p.parallel.clear();
  if (axis < 0) return us_in_warp(hw::times(workload_in_warp(p), c_.profile));
  p.parallel.assign(1, {axis, c_.tile_warps});
  return best;
}

hw::GpuWorkload Planner::workload_in_warp(const NestPlan& p) const {
  constexpr int kWarps = 8;  // of a block; which it will be is decided for all nests of the task together
  hw::GpuWorkload w = rtile::workload_in_warp(nest_, facts_, p, c_, kWarps);
  w.together = 1;
  return w;
}

double Planner::us_in_warp(const hw::GpuTimes& t) const {
  return t.resident > 0 ? t.compute_us + t.level_us[1] + c_.profile.call_us : t.us;
}

bool Planner::deals_out(const NestPlan& p, int axis) const {
  if (!reduced(axis)) return p.tile[size_t(axis)].blocks > 1;
  // each warp reduces its part; what is kept of the points on the way must be its alone
  return p.form == AtomForm::vector && p.tile[size_t(axis)].units() > 1 && p.store_transpose_axis < 0 && !separated(p, axis) &&
         std::all_of(facts_.operands.begin(), facts_.operands.end(),
                     [&](const NestFacts::OperandFacts& o) { return !o.is_store || !o.inner || o.coef[size_t(axis)] != 0; });
}

void Planner::enumerate_in_warp(const NestPlan& base) {
  NestPlan p = base;
  for (const auto& order : loop_orders(base)) {
    const double us = time_in_warp(p, order);
    if (beaten(us)) continue;
    p.estimate = hw::estimate(workload_in_warp(p), c_.profile);
    p.estimate.us = us;
    offer(p);
  }
}

std::vector<std::vector<Loop>> Planner::chunkings(const NestPlan& base) const {
  std::vector<std::vector<Loop>> all{{}};
  if (base.reduce_order.empty() || reduced(base.vec) || !sums_as_vectors(base.vec)) return all;
  // panels of a product stay near for the next tile; of other reductions a few rows, walked from end to end, are streams for the prefetcher
  static constexpr int64_t kPanels[] = {1024, 682, 454, 302, 201, 134}, kRows[] = {64, 32, 16, 8}, kOne[] = {1};
  std::vector<Loop> prefix;
  for (size_t i = 0; i < base.reduce_order.size(); ++i) {
    const int a = base.reduce_order[i];
    const bool last = i + 1 == base.reduce_order.size();
    const int64_t step = (last && a == base.k_axis ? base.k_step : 1) * base.tile[size_t(a)].hi;
    if (last && base.interleaved() && extent(a) % base.k_step != 0) break;
    const std::span<const int64_t> pieces = !last          ? std::span<const int64_t>(kOne)
                                            : contraction_ ? std::span<const int64_t>(kPanels)
                                                           : kRows;
    for (const int64_t piece : pieces) {
      if (extent(a) < 2 * piece && !(last && extent(a) > piece * 5 / 4)) continue;
      const int64_t equal = round_up(ceil_div(extent(a), ceil_div(extent(a), piece)), step);
      if (equal >= extent(a)) continue;
      auto c = prefix;
      c.push_back({a, equal});
      all.push_back(std::move(c));
    }
    if (base.tile[size_t(a)].hi > 1 || last) break;  // an unrolled axis is not chunked
    if (extent(a) > 1) prefix.push_back({a, 1});
  }
  return all;
}

void Planner::enumerate_loops(const NestPlan& tile) {
  if (gpu()) return c_.warps > 0 ? enumerate_in_warp(tile) : enumerate_launches(tile);
  NestPlan base = fetch_ahead(tile);
  base.apart = apart(base);
  // loops with the best balanced split first; the best of them then with every other
  const auto orders = loop_orders(base);
  const auto chunked = chunkings(base);
  const auto splits = parallel_options(base);
  const size_t before = plans_.size();
  for (const auto& order : orders)
    for (const auto& chunks : chunked)
      for (int64_t tile_bytes : cache_tiles()) {
        const bool rows = !contraction_ && !chunks.empty();  // which the loop over vectors walks from end to end, right inside the chunks
        if (rows && tile_bytes > 0) continue;
        NestPlan p = base;
        p.parallel = splits.front();
        p.loops = chunks;
        add_blocks(p, order, tile_bytes);
        if (tile_bytes > 0 && p.loops.size() == chunks.size() + order.size()) continue;  // no tile came of it
        if (p.form == AtomForm::matrix && !chunks.empty()) {  // sums of the innermost loop alone wait, in their tiles
          NestPlan q = p;
          q.loops.clear();
          add_blocks(q, order, tile_bytes);
          const bool again = tile_bytes > 0 && q.loops.size() == order.size();
          q.loops.insert(q.loops.end() - 1, chunks.begin(), chunks.end());
          if (!again) finish(std::move(q));
        }
        if (rows)
          std::rotate(p.loops.begin(), p.loops.begin() + std::ptrdiff_t(chunks.size()),
                      std::find_if(p.loops.begin(), p.loops.end(), [&](const Loop& l) { return l.axis == p.vec; }));
        finish(std::move(p));
      }
  for (NestPlan& p : combining(base)) {
    const auto split = std::find_if(splits.begin(), splits.end(), [&](const auto& s) { return combines_along(p, s); });
    p.parallel = *split;
    finish(std::move(p));
  }
  keep_fastest(before, plans_.size());
  const size_t kept = std::min<size_t>(plans_.size(), before + kLoops * size_t(c_.breadth));
  for (size_t i = before; i < kept; ++i)
    for (size_t k = 1; k < splits.size(); ++k) {
      NestPlan p = plans_[i];
      if (!combines_along(p, splits[k])) continue;
      p.parallel = splits[k];
      finish(std::move(p));
    }
}

std::vector<int64_t> Planner::cache_tiles() const {
  std::vector<int64_t> bytes{0};
  for (const hw::MemoryLevel& l : c_.profile.levels)
    if (l.capacity_bytes > 0 && l.capacity_bytes <= (int64_t{4} << 20)) bytes.push_back(l.capacity_bytes / 2);
  return bytes;
}

void Planner::add_blocks(NestPlan& p, const std::vector<int>& order, int64_t tile_bytes) const {
  if (tile_bytes > 0 && order.size() >= 2) {
    std::vector<int64_t> e;
    for (int a = 0; a < n_; ++a) {
      int64_t x = reduced(a) ? extent(a) : p.tile[size_t(a)].size();
      for (const Loop& l : p.loops)
        if (l.axis == a) x = std::min(x, l.step);
      e.push_back(x);
    }
    // grow the innermost axis, then the next, while what they touch fits
    std::vector<Loop> tiles;
    for (size_t i = order.size(); i-- > 1;) {
      const int a = order[i];
      const Blocking& t = p.tile[size_t(a)];
      if (t.blocks == 1) continue;
      const auto bytes = [&](int64_t n) {
        e[size_t(a)] = std::min(extent(a), n * t.size());
        double sum = 0;
        for (size_t k = 0; k < facts_.operands.size(); ++k)
          if (facts_.operands[k].coef[size_t(a)] != 0)
            sum += footprint_bytes(facts_.operands[k], e, c_.profile.levels[0].line_bytes, fetch_of(facts_, p, k, Fetch::rows));
        return sum;
      };
      int64_t blocks = 1;
      for (int64_t more = t.blocks; blocks < more;) {  // the most that fit
        const int64_t middle = blocks + (more - blocks + 1) / 2;
        bytes(middle) <= double(tile_bytes) ? blocks = middle : more = middle - 1;
      }
      if (blocks < t.blocks) {
        blocks = ceil_div(t.blocks, ceil_div(t.blocks, blocks));
        if (blocks > 1 && blocks < t.blocks) tiles.push_back({a, blocks});
        break;
      }
      e[size_t(a)] = extent(a);
    }
    p.loops.insert(p.loops.end(), tiles.rbegin(), tiles.rend());
  }
  for (int a : order) p.loops.push_back({a, 1});
}

std::vector<std::vector<Parallel>> Planner::parallel_options(const NestPlan& p) const {
  std::vector<std::vector<Parallel>> options;
  if (c_.threads <= 1) return {{}};
  struct Option {
    std::vector<Parallel> split;
    double balance;
  };
  std::vector<Option> all;
  const int64_t T = c_.threads;
  for (int a : outputs_) {
    const int64_t parts = std::min<int64_t>(T, p.tile[size_t(a)].blocks);
    if (parts > 1) all.push_back({{{a, parts}}, balance(p, {a, parts}) * double(parts)});
    for (int b : outputs_)
      for (int64_t x = 2; x < T; ++x) {
        const int64_t y = T / x;
        if (b == a || y < 2 || p.tile[size_t(a)].blocks < x || p.tile[size_t(b)].blocks < y) continue;
        all.push_back({{{a, x}, {b, y}}, balance(p, {a, x}) * balance(p, {b, y}) * double(x * y)});
      }
  }
  std::stable_sort(all.begin(), all.end(), [](const Option& x, const Option& y) { return x.balance > y.balance; });
  for (size_t i = 0; i < all.size() && i < 3; ++i) options.push_back(all[i].split);
  options.push_back({});  // serial
  return options;
}

bool Planner::apart(const NestPlan& p) const {
  constexpr int kOfGroup = 11;  // constants that another nest of a fused group may want to keep over the loop of tiles: an exponential's
  // Multiply-adds beside which a call, of 3 to 8 cycles, is nothing. Several copies of a tile in one procedure, and what is lifted out of
  // the loops around them, took an accumulator's register (GCC 12; a 1 × 5 convolution over 73 channels, tiles of 5 × 16 with copies for
  // its sides: 2.2 ms, 1.6 apart)
  constexpr int64_t kLong = 1000;
  if (!nest_.has_reduction()) return false;
  const auto& epilogue = facts_.outer_functions;
  if (std::any_of(epilogue.begin(), epilogue.end(), [](const NestFacts::Function& f) { return transcendental(f.name); })) return true;
  bool loops = false;  // a tile without is short, and needs its accumulators once
  int64_t products = points(p);
  for (size_t a = 0; a < nest_.axes.size(); ++a)
    if (reduced(int(a))) loops |= p.tile[a].hi * p.tile[a].unit < extent(int(a)), products *= extent(int(a));
  if (!contraction_ || !loops) return false;
  const int needed = registers_needed(nest_, facts_, p) + used_as_loaded(nest_, facts_, p);
  const int constants = int(epilogue.size()) + (c_.made_beside.empty() ? 0 : kOfGroup);
  const bool crowded = p.guarded || needed + 1 >= c_.profile.vector_registers;  // copies for borders, or no register to spare
  return (products >= kLong && crowded) || needed + constants > c_.profile.vector_registers;
}

int Planner::passing_factor(const NestPlan& p) const {
  const int innermost = p.form == AtomForm::matrix ? p.innermost_axis() : -1;
  if (innermost < 0) return -1;
  const auto walks = [&](int i) { return facts_.operands[size_t(i)].coef[size_t(innermost)] != 0; };
  return walks(p.operand_a) == walks(p.operand_b) ? -1 : walks(p.operand_a) ? p.operand_a : p.operand_b;
}

void Planner::finish(NestPlan p) {
  p.copies_alone = c_.threads > 1 && copies(p) && copied_alone(nest_, facts_, p, c_);
  fetch_rows_ahead(p);
  read_in_order(p);
  p.stream = p.combining.has_value(), p.peeled = false;  // a plan that another was made of may have been otherwise
  p.estimate = hw::estimate(workload(nest_, facts_, p, c_), c_.profile);
  if (const int i = passing_factor(p); i >= 0) {
    NestPlan past = p;
    past.operands.change(size_t(i), [](Operand& x) { x.past_first = true; });
    past.estimate = hw::estimate(workload(nest_, facts_, past, c_), c_.profile);
    if (past.estimate.us < p.estimate.us) p = std::move(past);
  }
  // beside products results are few, and stores that nothing waits for are better buffered
  const bool by_memory = p.estimate.level_us.back() > (contraction_ ? p.estimate.compute_us : 0);
  if (by_memory && !p.combining && (streams(p) || peels(p))) {
    p.peeled = !streams(p), p.stream = true;
    hw::Estimate streamed = hw::estimate(workload(nest_, facts_, p, c_), c_.profile);
    p.stream = streamed.us < p.estimate.us, p.peeled &= p.stream;
    if (p.stream) p.estimate = std::move(streamed);
  }
  plans_.push_back(std::move(p));
}

}  // namespace rgen::rtile
