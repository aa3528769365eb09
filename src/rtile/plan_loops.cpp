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
    if (beyond_caches && p.operands[i].packed() && contraction_ && !stays(p, i)) {
      const auto of_line = [&](int sharers) { return double(memory.line_bytes) / memory.read_gbs(sharers); };
      const bool many = reuse(p, i) >= kProducts || products_ns >= kProductsNs;
      const int64_t streams = products_ns < of_line(c_.threads) ? streams_of(p, i, many) : 1;
      const bool asked = streams > 1 ? kHidden * products_ns < of_line(1) : many;
      p.operands.change(i, [&](Operand& x) {
        x.streams = streams;
        if (asked) x.ahead = round_up(bytes / streams, memory.line_bytes) / o.element_bytes;
      });
    }
    p.operands.change(i, [&](Operand& x) { x.next_step = jumps_ahead(p, i); });
    if (const int axis = beyond_caches ? sliding_axis(p, i) : -1; axis >= 0) {
      const int64_t rows = std::abs(o.coef[size_t(axis)]) * p.tile[size_t(axis)].size();
      p.operands.change(i, [&](Operand& x) { x.ahead = rows * ceil_div(bytes, rows * o.element_bytes), x.slides = axis; });
    } else if (const int next = passes_by(p, i); next >= 0) {
      int64_t rows = 1;  // of other axes, walked side by side
      for (int a : outputs_)
        if (a != next && o.coef[size_t(a)] != 0) rows *= p.tile[size_t(a)].size();
      const int64_t step = std::abs(o.coef[size_t(next)]) * p.tile[size_t(next)].size();
      p.operands.change(i, [&](Operand& x) { x.ahead = step * ceil_div(bytes, step * o.element_bytes * rows), x.passes_by = true; });
    }
  }
  return p;
}

int64_t Planner::jumps_ahead(const NestPlan& p, size_t operand) const {
  constexpr double kProducts = 16;  // vectors of them beside each line that is asked for
  const auto& o = facts_.operands[operand];
  const int64_t line = c_.profile.levels[0].line_bytes;
  const int home = c_.home[size_t(o.tensor)];
  if (gpu() || fused() || !contraction_ || p.tiled() || p.operands[operand].placement != Placement::direct || !o.affine || !o.inner ||
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
  return step * int64_t(std::min(steps, trips));
}

void Planner::fetch_rows_ahead(NestPlan& p) const {
  constexpr int64_t kShortest = 1024;  // bytes; rows of 252 bytes take 1.1 to 1.2 times as long
  if (gpu() || fused() || contraction_ || !nest_.has_reduction()) return;
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
    const bool follows = walks_on(nest_, facts_, p, c_, i, bytes);
    p.operands.change(i, [&](Operand& x) { x.ahead = follows ? round_up(int64_t(bytes), memory.line_bytes) / o.element_bytes : 0; });
  }
}

int64_t Planner::streams_of(const NestPlan& p, size_t operand, bool fetched_ahead) const {
  constexpr double kFaster = 1.05;  // less is noise of a profile's measurement
  const hw::MemoryLevel& memory = c_.profile.levels.back();
  const auto& o = facts_.operands[operand];
  if (share_of_time(operand) < kNoticed || p.operands[operand].placement != Placement::prepack || p.tiled() || reduced(p.vec) ||
      o.coef[size_t(p.vec)] == 0)
    return 1;
  const int64_t vectors = p.tile[size_t(p.vec)].hi;
  if (memory.by_turns(1, c_.threads) > kFaster * memory.by_turns(memory.kRows, c_.threads)) return vectors;
  return vectors % 2 == 0 && !fetched_ahead ? 2 : 1;
}

bool Planner::stays(const NestPlan& p, size_t operand) const {
  const auto& o = facts_.operands[operand];
  int64_t walks = 1;
  for (int a : outputs_) walks *= o.coef[size_t(a)] == 0 ? p.tile[size_t(a)].blocks : 1;
  return walks > 1 && near_level(c_.profile, tensor_bytes(c_.program[o.tensor]), 0.8) <= 1;
}

int Planner::passes_by(const NestPlan& p, size_t operand) const {
  const auto& o = facts_.operands[operand];
  if (!contraction_ || p.reduce_order.empty() || fused() || !o.affine || !o.inner || p.operands[operand].placement != Placement::direct)
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
          q.loops.insert(q.loops.end() - 1, chunks.begin(), chunks.end());
          finish(std::move(q));
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
  if (p.form != AtomForm::matrix) return -1;
  const auto innermost = std::find_if(p.loops.rbegin(), p.loops.rend(), [&](const Loop& l) { return p.tile[size_t(l.axis)].blocks > 1; });
  if (innermost == p.loops.rend()) return -1;
  const auto walks = [&](int i) { return facts_.operands[size_t(i)].coef[size_t(innermost->axis)] != 0; };
  return walks(p.operand_a) == walks(p.operand_b) ? -1 : walks(p.operand_a) ? p.operand_a : p.operand_b;
}

void Planner::finish(NestPlan p) {
  p.copies_alone = c_.threads > 1 && copies(p) && copied_alone(nest_, facts_, p, c_);
  fetch_rows_ahead(p);
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
