#include "rtile/plan_fused.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "rtile/layout.h"

namespace rgen::rtile {

namespace {

constexpr double kNearShare = 0.8;    ///< of a cache, for what nests of one tile hand on to each other
constexpr double kBetweenNests = 40;  ///< cycles that a nest waits for the last result of the one before
constexpr double kAhead = 256;        ///< cycles of the next tile in which a core looks for work meanwhile
/// Lines that are stored one after the other while a core goes on: what its store queue holds beside those of the next tile. The last nest
/// of a tile stores all of its results, and so do the first ones of the next their sums, behind them: of longer bursts the core waits for
/// the rest (softmaxes on Zen 4, 77 to 200 columns: row by row 1.3 to 1.4 times as fast as by four; of 96 to 320, which are streamed, 24
/// lines a tile at 0.6 of memory's time hidden, 48 at 0.35, 96 at none).
constexpr double kStored = 10, kStreamed = 16;
constexpr double kBufferShare = 0.25;  ///< of the second cache, for buffers that others stream past

/// Bytes that are asked for ahead at least: the last nest of a tile asks for all lines of the next in one go, so that memory's latency is
/// not all that they wait for. Of results that are streamed (layer norms on Zen 4, rows of 4 KiB: 1.02 ms a row ahead, 0.72 two rows, 0.78
/// four; of 2 KiB by four rows, 8 KiB ahead 2.33, 16 KiB 2.07), and of others, whose lines come from memory, too (softmaxes of 1600 bytes:
/// 2.6 ms a row ahead, 2.2 two rows; of 4000 bytes 1.4 a row ahead, 1.9 two).
constexpr int64_t kBesideStreams = 16384, kBesideLines = 3072;

/// Of all tensors that a nest uses, what one tile of the shared axes (the nest's `axes`) does; of those that it only writes, a share.
double tile_bytes(const ir::TensorProgram& program, const Nest& nest, const std::vector<int>& axes, const std::vector<Blocking>& shared,
                  double of_results = 1) {
  std::map<int, std::vector<bool>> walked;  // tensor → shared axes along which it is
  std::set<int> read;
  for (int t : tensors_in_memory(nest)) walked.try_emplace(t, axes.size(), false);
  nest.for_each_place([&](int tensor, const std::vector<ir::Index>& index, const ir::Access* reads) {
    if (reads) read.insert(tensor);
    const auto at = walked.find(tensor);
    if (at == walked.end()) return;
    for (size_t k = 0; k < axes.size(); ++k)
      for (const ir::Index& i : index)
        if (i.uses(axes[k])) at->second[k] = true;
  });
  double sum = 0;
  for (const auto& [tensor, along] : walked) {
    if (walked.contains(program[tensor].within)) continue;
    double bytes = tensor_bytes(program[tensor]) * (read.contains(tensor) ? 1 : of_results);
    for (size_t k = 0; k < axes.size(); ++k)
      if (along[k]) bytes /= double(shared[k].blocks);
    sum += bytes;
  }
  return sum;
}

/// An input in memory that several nests of a group read: the last of them fetches the next tile's while it computes, so that the first
/// finds it near.
struct Ahead {
  int tensor;
  size_t first, last;
  double bytes;  ///< of a tile
};

class FusedPlanner {
 public:
  FusedPlanner(const Group& g, const PlanContext& c, const PlanNest& plan_nest) : g_(g), c_(c), plan_nest_(plan_nest) {
    for (int t : g.local) local_bytes_ += tensor_bytes(c.program[t]);
    for (size_t n = 0; n < g.nests.size(); ++n) axes_.push_back(g.shared_axes_of(n)), continued_.push_back(continued(n));
    made_.assign(c.program.tensors.size(), false);
    for (const Nest& nest : g.nests) nest.for_each_statement([&](const Statement& s) { made_[size_t(s.tensor)] = true; });
  }

  std::vector<GroupPlan> run() {
    const int64_t extent = g_.shared_axis(last()).extent;
    int64_t outside = 1;  // tiles along the other axes
    for (size_t k = 0; k < last(); ++k) outside *= g_.shared_axis(k).extent;
    std::vector<int64_t> tried;
    std::vector<GroupPlan> all;
    for (int64_t size : reused_by_rows() ? product_rows(extent * outside) : few_rows()) {
      const int64_t equal = Blocking(extent, 1, std::min(size, ceil_div(extent * outside, c_.threads))).hi;  // a tile for every thread
      if (std::find(tried.begin(), tried.end(), equal) != tried.end()) continue;
      tried.push_back(equal);
      if (auto p = plan(equal)) all.push_back(std::move(*p));
    }
    std::stable_sort(all.begin(), all.end(), [](const GroupPlan& a, const GroupPlan& b) { return a.estimate.us < b.estimate.us; });
    return all;
  }

 private:
  const Group& g_;
  const PlanContext& c_;
  const PlanNest& plan_nest_;
  double local_bytes_ = 0;                    ///< of the tensors that live inside the group
  std::vector<std::vector<int>> axes_;        ///< of each nest, in the order of Group::shared
  std::vector<std::vector<bool>> continued_;  ///< of each nest: PlanContext::continued
  std::vector<bool> made_;                    ///< PlanContext::made_beside

  size_t last() const { return g_.shared.size() - 1; }

  /// Products want rows to reuse what they stream; rows alone stay smallest in the nearest cache.
  bool reused_by_rows() const {
    for (size_t n = 0; n < g_.nests.size(); ++n) {
      const NestFacts f = nest_facts(c_.program, g_.nests[n]);
      if (f.products > 0 && std::any_of(f.operands.begin(), f.operands.end(),
                                        [&](const NestFacts::OperandFacts& o) { return o.inner && o.coef[size_t(axes_[n].back())] == 0; }))
        return true;
    }
    return false;
  }

  /// A few, many, and between them as many whose buffers leave the second cache to what is streamed past them.
  std::vector<int64_t> product_rows(int64_t all_rows) const {
    std::vector<int64_t> sizes{16, 128};
    if (c_.profile.levels.size() > 2) {
      const auto rows =
          int64_t(kBufferShare * double(c_.profile.levels[1].capacity_bytes) / std::max(1.0, local_bytes_ / double(all_rows)));
      if (rows > 16 && rows < 128) sizes.push_back(rows);
    }
    return sizes;
  }
  /// A few, and as many as the nearest cache holds.
  std::vector<int64_t> few_rows() const {
    std::vector<int64_t> sizes{1, 2, 4, 8, 16};
    double row_bytes = 1;
    std::vector<Blocking> ones;
    for (size_t k = 0; k < g_.shared.size(); ++k) ones.emplace_back(g_.shared_axis(k).extent, 1, 1);
    for (size_t n = 0; n < g_.nests.size(); ++n) row_bytes = std::max(row_bytes, tile_bytes(c_.program, g_.nests[n], axes_[n], ones));
    const auto rows = int64_t(kNearShare * double(c_.profile.levels[0].capacity_bytes) / row_bytes);
    if (rows > 1) sizes.push_back(rows);
    return sizes;
  }

  std::vector<Ahead> read_ahead(int64_t tiles) const {
    std::vector<Ahead> all;
    if (c_.profile.levels.size() < 3) return all;
    for (int t : c_.program.inputs) {
      std::vector<size_t> readers;
      for (size_t n = 0; n < g_.nests.size(); ++n) {
        bool reads = false;
        g_.nests[n].for_each_statement([&](const Statement& s) {
          ir::for_each_access(*s.value,
                              [&](const ir::Access& a) { reads |= a.tensor == t && stride_along(g_.nests[n], a, axes_[n].back()) > 0; });
        });
        if (reads) readers.push_back(n);
      }
      const double bytes = tensor_bytes(c_.program[t]) / double(tiles);
      if (readers.size() > 1 && c_.beyond_caches(t) && bytes < kBufferShare * double(c_.profile.levels[1].capacity_bytes))
        all.push_back({t, readers.front(), readers.back(), bytes});
    }
    return all;
  }
  /// Elements from one value of the axis to the next; 0: not the same everywhere.
  int64_t stride_along(const Nest& nest, const ir::Access& a, int axis) const {
    if (!is_affine(a.index) || a.out_of_bounds) return 0;
    return linearise(a.index, const_sizes(c_.program[a.tensor].strides), int(nest.axes.size())).coef[size_t(axis)];
  }
  /// What a value of the innermost shared axis touches ends where the next one's begins.
  bool whole_rows(size_t n, const ir::Access& a) const {
    const Nest& nest = g_.nests[n];
    const int64_t stride = stride_along(nest, a, axes_[n].back());
    if (stride <= 0) return false;
    const Linear l = linearise(a.index, const_sizes(c_.program[a.tensor].strides), int(nest.axes.size()));
    int64_t span = 1;
    for (size_t axis = 0; axis < nest.axes.size(); ++axis)
      if (std::find(axes_[n].begin(), axes_[n].end(), int(axis)) == axes_[n].end())
        span += std::abs(l.coef[axis]) * (nest.axes[axis].extent - 1);
    return span == stride;
  }
  std::vector<bool> continued(size_t n) const {
    std::vector<bool> all(c_.program.tensors.size(), false);
    for (const Operand& o : collect_operands(g_.nests[n])) all[size_t(o.access.tensor)] = whole_rows(n, o.access);
    g_.nests[n].for_each_statement([&](const Statement& s) { all[size_t(s.tensor)] = whole_rows(n, {s.tensor, s.index, {}}); });
    return all;
  }
  /// The nth nest's part of what is read ahead. The first that reads keeps its loads in order: GCC moves them, and prefetchers lose a row
  /// whose lines are not asked for one after the other (norms and softmaxes of rows in memory take 0.87 to 1.01 of their time; a layer norm
  /// of 300 columns by hand 0.81; Zen 4). The last fetches.
  void read_in_time(const Ahead& x, size_t n, const Nest& nest, int axis, int64_t rows, NestPlan& p) const {
    for (size_t i = 0; i < p.operands.size(); ++i)
      if (p.operands[i].access.tensor == x.tensor && p.operands[i].placement == Placement::direct)
        p.operands.change(i, [&](Operand& o) {
          o.in_order = n == x.first;
          if (n != x.last) return;
          const int64_t row = stride_along(nest, o.access, axis),
                        soonest = (p.stream ? kBesideStreams : kBesideLines) / size_of(c_.program[x.tensor].dtype);
          o.ahead = round_up(std::max(rows * row, soonest), rows * row);
        });
  }

  /// Tiles of `size` values of the innermost shared axis.
  std::optional<GroupPlan> plan(int64_t size) const {
    GroupPlan p;
    p.group.local = g_.local;
    p.group.shared.assign(g_.shared.size(), {});
    int64_t tiles = 1;
    bool ragged = false;
    for (size_t k = 0; k < g_.shared.size(); ++k) {
      p.shared.emplace_back(g_.shared_axis(k).extent, 1, k == last() ? size : 1);
      tiles *= p.shared.back().blocks;
      ragged |= p.shared.back().ragged();
    }
    p.tasks = std::min<int64_t>(c_.threads, tiles);
    PlanContext c = c_;
    c.threads = 1;
    c.register_tiles = 6;  // of several nests for each of several sizes
    c.sharers = int(p.tasks);
    if (ragged) std::fill(c.prepackable.begin(), c.prepackable.end(), false);  // two copies of the code would pack twice
    for (int t : g_.local) c.home[size_t(t)] = near_level(c.profile, local_bytes_ / double(tiles));
    c.made_beside = made_;
    keep_near(c, p.shared);
    const std::vector<Ahead> ahead = read_ahead(tiles);
    std::vector<bool> touched(c.program.tensors.size(), false);
    for (size_t n = 0; n < g_.nests.size(); ++n) {
      const PlannedNest& planned = plan_nest_(nest_in_tile(g_, n, p.shared), axes_[n], context_of(n, c, p.shared, touched, ahead));
      if (planned.plans.empty()) return {};
      for (size_t k = 0; k < g_.shared.size(); ++k) p.group.shared[k].push_back(planned.kept[k]);
      p.nests.push_back(planned.plans.front());
      for (const Operand& o : p.nests.back().operands)
        if (o.placement == Placement::box) return {};  // no padded copies inside a tile: their placement is per region
      for (const Ahead& x : ahead)
        if (x.first == n || x.last == n) read_in_time(x, n, planned.nest, planned.kept.back(), p.shared.back().hi, p.nests.back());
      for (int t : tensors_in_memory(planned.nest)) {
        touched[size_t(t)] = true;
        if (const int place = c.program[t].within; place >= 0) touched[size_t(place)] = true;
      }
      p.group.nests.push_back(planned.nest);
    }
    add_up(p, double(ceil_div(tiles, p.tasks)), double(tiles));
    return p;
  }

  /// What every tile reads again stays where all that a tile touches fits: gains and offsets of a normalisation, which live in memory only
  /// because the program's tensors together do.
  void keep_near(PlanContext& c, const std::vector<Blocking>& shared) const {
    if (shared.back().blocks == 1) return;
    double bytes = 0;
    std::set<int> again;
    for (size_t n = 0; n < g_.nests.size(); ++n) {
      bytes += tile_bytes(c.program, g_.nests[n], axes_[n], shared);
      for (int t : tensors_in_memory(g_.nests[n])) again.insert(t);
    }
    for (size_t n = 0; n < g_.nests.size(); ++n)
      g_.nests[n].for_each_place([&](int tensor, const std::vector<ir::Index>& index, const ir::Access*) {
        if (std::any_of(index.begin(), index.end(), [&](const ir::Index& i) { return i.uses(axes_[n].back()); })) again.erase(tensor);
      });
    const int near = near_level(c.profile, bytes, kNearShare);
    for (int t : again) c.home[size_t(t)] = std::min(c.home[size_t(t)], near);
  }

  /// `c` for the nth nest, when earlier ones have `touched` tensors.
  PlanContext context_of(size_t n, PlanContext c, const std::vector<Blocking>& shared, const std::vector<bool>& touched,
                         const std::vector<Ahead>& ahead) const {
    // a packing is in the order of one tile's reads, so other tiles must read the same
    for (const Operand& o : collect_operands(g_.nests[n]))
      for (int axis : axes_[n])
        for (const ir::Index& i : o.access.index)
          if (i.uses(axis)) c.prepackable[size_t(o.access.tensor)] = false;
    // what an earlier nest of the tile read or wrote is still near; of the results that come between, on average half are there by then
    const int near = near_level(c.profile, tile_bytes(c.program, g_.nests[n], axes_[n], shared, 0.5), kNearShare);
    for (size_t t = 0; t < touched.size(); ++t)
      if (touched[t]) c.home[t] = std::min(c.home[t], near);
    c.continued = continued_[n];
    for (const Ahead& x : ahead) {
      if (x.first == n) c.home[size_t(x.tensor)] = 1;
      if (x.last == n) c.ahead_bytes += x.bytes;
    }
    return c;
  }

  /// Lines that go from the nest to memory in one of so many tiles.
  double lines_stored(size_t n, double tiles) const {
    std::set<int> stored;
    g_.nests[n].for_each_statement([&](const Statement& s) {
      if (s.store && c_.beyond_caches(s.tensor)) stored.insert(s.tensor);
    });
    double bytes = 0;
    for (int t : stored) bytes += tensor_bytes(c_.program[t]) / tiles;
    return bytes / double(c_.profile.levels[0].line_bytes);
  }

  /// The estimate of a worker that runs the nests `rounds` times, one of `tiles` each time: memory works beside all of them.
  void add_up(GroupPlan& p, double rounds, double tiles) const {
    double waits_us = 0;  // for stores that the queue has no place for
    const double of_line = std::min(1.0, c_.profile.vector_bits / 8.0 / double(c_.profile.levels[0].line_bytes));  // a vector
    for (size_t n = 0; n < p.nests.size(); ++n) {
      const hw::Estimate& e = p.nests[n].estimate;
      const double lines = lines_stored(n, tiles), queued = p.nests[n].stream ? kStreamed * of_line : kStored;
      p.estimate += e;
      waits_us += e.stores_us * std::max(0.0, 1 - queued / std::max(1.0, lines));
    }
    const double near_us = p.estimate.near_us - c_.profile.call_us * double(p.nests.size()), ahead_us = kAhead / c_.profile.ghz / 1e3;
    const double between_us = kBetweenNests / c_.profile.ghz / 1e3 * double(p.nests.size() - 1) * near_us / (near_us + ahead_us);
    const double worked_us = near_us + between_us + waits_us, memory_us = p.estimate.loads_us + p.estimate.stores_us;
    p.estimate.us = std::cbrt(worked_us * worked_us * worked_us + memory_us * memory_us * memory_us);
    p.estimate.near_us = near_us + between_us, p.estimate.overhead_us += between_us;
    hw::Estimate& e = p.estimate;
    for (double* x : {&e.us, &e.near_us, &e.loads_us, &e.stores_us, &e.compute_us, &e.overhead_us}) *x *= rounds;
    for (double& x : p.estimate.level_us) x *= rounds;
    p.estimate.us += c_.profile.call_us + (p.tasks > 1 ? c_.profile.fork_join_us : 0);
  }
};

}  // namespace

std::vector<GroupPlan> plan_fused(const Group& group, const PlanContext& context, const PlanNest& plan_nest) {
  return FusedPlanner(group, context, plan_nest).run();
}

}  // namespace rgen::rtile
