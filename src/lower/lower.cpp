#include "lower/lower.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "lower/context.h"
#include "rtile/layout.h"
#include "rtile/nest_facts.h"

namespace rgen::lower {

using rtile::Blocking;
using rtile::GroupPlan;
using rtile::Nest;
using rtile::NestPlan;

namespace {

class ProgramLowering {
 public:
  ProgramLowering(const ir::TensorProgram& program, const rtile::RProgram& plan) : program_(program), plan_(plan), b_(result_) {}

  LoopProgram run() {
    result_.lanes = plan_.vector_bits / 32;
    place_arguments();
    for (const GroupPlan& g : plan_.groups) place_intermediates(g);
    int number = 0;
    for (const GroupPlan& g : plan_.groups) {
      if (g.shared.empty())
        for (size_t n = 0; n < g.nests.size(); ++n) single(g, n, name(g.group.nests[n], number++));
      else
        fused(g, number);
    }
    verify(result_);
    return std::move(result_);
  }

 private:
  const ir::TensorProgram& program_;
  const rtile::RProgram& plan_;
  LoopProgram result_;
  Builder b_;
  std::map<int, Location> location_;

  static int64_t span(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
    int64_t last = 0;
    for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
    return last + 1;
  }

  void place_arguments() {
    const auto place = [&](const std::vector<int>& tensors, Buffer::Kind kind, size_t base) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        const ir::Tensor& t = program_[tensors[i]];
        const auto shape = rtile::const_sizes(t.shape), strides = rtile::const_sizes(t.strides);
        result_.buffers.push_back({t.name, t.dtype, span(shape, strides), kind, int(base + i), 0, 0, false});
        location_[tensors[i]] = {int(result_.buffers.size()) - 1, strides, false};
      }
    };
    place(program_.inputs, Buffer::Kind::input, 0);
    place(program_.outputs, Buffer::Kind::output, program_.inputs.size());
    for (size_t t = 0; t < program_.tensors.size(); ++t)
      for (const int other : {program_.tensors[t].widens, program_.tensors[t].within})
        if (other >= 0) location_[int(t)] = location_.at(other);
  }

  /// Shared memory that the buffers of a group have taken so far: of each warp, and of the block, whose part comes first.
  struct Taken {
    int64_t of_warp = 0, of_block = 0;
  };
  /// Behind the taken bytes of a warp's, or of the block's part of shared memory.
  int shared_memory(const std::string& name, DType dtype, int64_t elements, Buffer::Kind kind, Taken& taken) {
    const bool of_warp = kind == Buffer::Kind::warp;
    const int64_t bytes = round_up(elements * size_of(dtype), rtile::kWarpAlignment);
    int64_t& at = of_warp ? taken.of_warp : taken.of_block;
    result_.buffers.push_back({name, dtype, elements, kind, -1, at, of_warp ? bytes : 0, false});
    at += bytes;
    return int(result_.buffers.size()) - 1;
  }

  /// Tensors between nests: whole ones in the workspace, those of a fused group as one tile per task.
  void place_intermediates(const GroupPlan& g) {
    Taken taken;
    for (size_t n = 0; n < g.group.nests.size(); ++n)
      g.group.nests[n].for_each_statement([&](const rtile::Statement& s) {
        if (!s.store || location_.count(s.tensor)) return;
        const ir::Tensor& t = program_[s.tensor];
        auto shape = rtile::const_sizes(t.shape);
        const bool local = !g.shared.empty() && std::count(g.group.local.begin(), g.group.local.end(), s.tensor);
        if (local)
          for (size_t k = 0; k < g.shared.size(); ++k)
            for (size_t d = 0; d < s.index.size(); ++d)
              if (s.index[d].is_affine() && s.index[d].coef(g.group.shared[k][n]) == 1) shape[d] = g.shared[k].hi;
        const Location::Room room = local && g.block_tasks == 0 ? room_for_vectors(g, s.tensor, shape) : Location::Room::none;
        if (room != Location::Room::none) shape.back() = round_up(shape.back(), result_.lanes);
        const auto strides = local ? rtile::row_major(shape) : rtile::const_sizes(t.strides);
        const int64_t elements = span(shape, strides) + (room == Location::Room::anywhere ? result_.lanes : 0);
        const bool own = g.tile_warps == 1 || rtile::by_all_warps(g.group.nests[n], g.nests[n], s);
        const Buffer::Kind kind = own ? Buffer::Kind::warp : Buffer::Kind::shared;
        const int buffer = local && g.block_tasks > 0 ? shared_memory(t.name, t.dtype, elements, kind, taken)
                                                      : b_.workspace(t.name, t.dtype, elements, local ? g.tasks : 1);
        location_[s.tensor] = {buffer, strides, local, room};
      });
    for (size_t n = 0; n < g.nests.size(); ++n) partials_.push_back(place_partials(g, n, taken));
  }

  /// Of a nest whose reduced axis is dealt out to the warps of a tile: per inner statement, shared memory for each warp's results
  /// (Tile::partial).
  std::vector<int> place_partials(const GroupPlan& g, size_t n, Taken& taken) {
    const Nest& nest = g.group.nests[n];
    const NestPlan& plan = g.nests[n];
    if (g.tile_warps == 1 || !rtile::in_parts(nest, plan)) return {};
    const int64_t numbers = rtile::partial_results(nest, plan, g.tile_warps);
    std::vector<int> all;
    for (const rtile::Statement& s : nest.inner) {
      const bool reduces = s.reduce != ir::ReduceOp::none;
      const DType kept = accumulation(program_[s.tensor].dtype);
      all.push_back(reduces ? shared_memory(program_[s.tensor].name + "_partial", kept, numbers, Buffer::Kind::shared, taken) : -1);
    }
    return all;
  }
  std::vector<std::vector<int>> partials_;  ///< of each nest of the groups, in order

  /// Where vectors of a group's local tensor may be stored whole: no index leaves its row, and the room for that does not take as much
  /// again. Loads wait for parts of vectors until they are in the first cache, and so for all that was stored before them: no masked store
  /// is forwarded (softmaxes of 100 columns from memory on Zen 4, row by row: 7.0 ms, 4.0 so).
  Location::Room room_for_vectors(const GroupPlan& g, int tensor, const std::vector<int64_t>& shape) const {
    if (shape.empty()) return Location::Room::none;
    const int64_t row = shape.back();
    const bool single = span(shape, rtile::row_major(shape)) == row;
    bool inside = single || row >= result_.lanes / 2;
    for (const Nest& nest : g.group.nests)
      nest.for_each_place([&](int t, const std::vector<ir::Index>& index, const ir::Access*) {
        if (t != tensor) return;
        int64_t last = index.back().constant;
        for (const ir::Index::Term& term : index.back().terms)
          last += std::max<int64_t>(0, term.coef) * (nest.axes[size_t(term.axis)].extent - 1);
        inside &= index.back().is_affine() && last < row;
      });
    return !inside ? Location::Room::none : single ? Location::Room::anywhere : Location::Room::ends;
  }

  static std::string name(const Nest& n, int number) { return (n.has_reduction() ? "reduce" : "map") + std::to_string(number); }

  /// Pre: `tasks` at most run the nest at once.
  NestContext context(const Nest& nest, const NestPlan& plan, const std::string& prefix, int64_t tasks) {
    NestContext c{b_, program_, nest, plan, location_, {}, std::vector<int>(nest.axes.size(), -1), {}, prefix};
    c.contraction = rtile::contraction(nest);
    if (plan.form == rtile::AtomForm::matrix && plan.chunked()) {
      c.waiting = waiting_tiles(c, tasks);
      return c;
    }
    for (const rtile::Statement& s : nest.inner) {
      Location at;
      if (s.reduce != ir::ReduceOp::none && plan.chunked()) at = partial_sums(nest, plan, s);
      c.accumulator.push_back(at);
    }
    return c;
  }

  NestContext::Waiting waiting_tiles(const NestContext& c, int64_t tasks) {
    int64_t elements = c.sums_of_tile();
    NestContext::Waiting w{-1, std::vector<int64_t>(c.nest.axes.size(), 0)};
    for (size_t i = c.plan.loops.size(); i-- > 0 && !c.nest.axes[size_t(c.plan.loops[i].axis)].reduced;) {
      const size_t a = size_t(c.plan.loops[i].axis);
      if (w.block[a] != 0) continue;
      w.block[a] = elements, elements *= c.plan.tile[a].blocks;
    }
    const rtile::Statement& sum = c.nest.inner[0];
    w.buffer = b_.workspace(program_[sum.tensor].name + "_partial", accumulation(program_[sum.tensor].dtype), elements, tasks);
    return w;
  }

  /// Where partial sums wait: the output itself if it holds the accumulation type at the same index, vectors side by side, else the
  /// workspace, the dimension along which the vectors lie innermost.
  Location partial_sums(const Nest& nest, const NestPlan& plan, const rtile::Statement& s) {
    const DType kept = accumulation(program_[s.tensor].dtype);
    const auto shape = rtile::const_sizes(program_[s.tensor].shape);
    const size_t d = rtile::dimension_along(s.index, plan.vec);
    std::optional<Location> place;
    nest.for_each_statement([&](const rtile::Statement& t) {
      if (t.store && program_[t.tensor].dtype == kept && t.index == s.index && location_.at(t.tensor).strides[d] == 1 && !place)
        place = location_.at(t.tensor);
    });
    if (place) return *place;
    const auto strides = rtile::row_major(shape, d);
    return {b_.workspace(program_[s.tensor].name + "_partial", kept, span(shape, strides)), strides, false};
  }

  void single(const GroupPlan& g, size_t n, const std::string& prefix) {
    const NestPlan& plan = g.nests[n];
    NestContext c = context(g.group.nests[n], plan, prefix, plan.tasks());
    c.workers = plan.tasks();
    place_operands(c);
    if (const rtile::Staging* staging = plan.staging.get())
      result_.regions.push_back({lower_staged(c), staging->producers() > 0 ? staging->grid : plan.tasks(), "", 1, plan.estimate.resident,
                                 staging->threads(), staging->together()});
    else
      result_.regions.push_back({lower_nest(c), plan.tasks(), "", plan.block_tasks});
  }

  /// Tiles of the shared axes dealt out to the tasks; each tile runs all nests in order.
  void fused(const GroupPlan& g, int& number) {
    Proc p;
    p.name = "group" + std::to_string(number);
    const int64_t tasks = g.tasks;
    const bool by_warps = g.block_tasks > 0;  // a tile each
    const std::vector<Wait> waiting = by_warps ? waits(g, size_t(number)) : std::vector<Wait>(g.nests.size(), Wait::none);
    int64_t tiles = 1;
    for (const Blocking& s : g.shared) tiles *= s.blocks;
    const int task = b_.variable("task", 0, tasks - 1);
    p.params.push_back(task);
    const int warp = g.tile_warps > 1 ? b_.variable("warp", 0, g.tile_warps - 1) : -1;
    if (warp >= 0) p.params.push_back(warp);
    const int tile = by_warps ? task : b_.variable("tile", 0, tiles - 1);
    Int first(0), last(tiles);
    if (!by_warps) std::tie(first, last) = b_.share(p.body, task, tiles, tasks);
    auto body = std::make_shared<Body>();
    std::vector<int> origin, block;
    Int rest = Int::var(tile);
    int64_t remaining = tiles;
    for (size_t k = 0; k < g.shared.size(); ++k) {
      const Blocking& s = g.shared[k];
      const std::string axis = g.group.shared_axis(k).name;
      remaining /= s.blocks;
      const int q = b_.variable(axis + "_tile", 0, s.blocks - 1), o = b_.variable(axis + "0", 0, s.start(s.blocks - 1));
      if (by_warps && s.blocks == 1) {
        body->push_back({LetInt{LetInt::Op::value, q, Int(0), Int(0)}});
      } else if (remaining > 1) {
        const int r = b_.variable("rest", 0, remaining - 1);
        body->push_back({LetInt{LetInt::Op::floor_div, q, rest, Int(remaining)}});
        body->push_back({LetInt{LetInt::Op::floor_mod, r, rest, Int(remaining)}});
        rest = Int::var(r);
      } else {
        body->push_back({LetInt{LetInt::Op::value, q, rest, Int(0)}});
        rest = Int(0);
      }
      body->push_back({LetInt{LetInt::Op::value, o, b_.start(*body, s, Int::var(q), s.blocks), Int(0)}});
      origin.push_back(o), block.push_back(q);
    }
    const std::function<void(size_t, std::vector<int64_t>, Body&)> variants = [&](size_t k, std::vector<int64_t> extents, Body& into) {
      if (k == g.shared.size()) {
        std::string suffix;
        for (size_t i = 0; i < extents.size(); ++i)
          if (g.shared[i].ragged()) suffix += "_" + std::to_string(extents[i]);
        for (size_t n = 0; n < g.nests.size(); ++n) {
          nests_.push_back(std::make_unique<Tiled>());
          Tiled& t = *nests_.back();
          t.nest = g.group.nests[n];
          t.plan = g.nests[n];
          for (size_t i = 0; i < extents.size(); ++i) {
            const size_t axis = size_t(g.group.shared[i][n]);
            Blocking& b = t.plan.tile[axis];
            if (t.nest.axes[axis].full == 0) t.nest.axes[axis].full = g.shared[i].extent;
            t.nest.axes[axis].extent = extents[i];
            b = Blocking(extents[i], b.unit, b.hi * b.unit);
          }
          NestContext c = context(t.nest, t.plan, name(t.nest, number + int(n)) + suffix, tasks);
          for (size_t i = 0; i < extents.size(); ++i) c.origin[size_t(g.group.shared[i][n])] = origin[i];
          c.workers = tasks;
          c.warp = warp, c.tile_warps = g.tile_warps;
          c.partials = partials_[size_t(number) + n];
          place_operands(c);
          if (waiting[n] != Wait::none) into.push_back({Op{waiting[n] == Wait::block ? "block_sync" : "warp_sync", -1, false, {}}});
          const int proc = lower_nest(c);
          Call call{proc, {}};
          for (int v : b_.program.procs[size_t(proc)].params) call.args.push_back(Int::var(v));
          into.push_back({std::move(call)});
        }
        return;
      }
      const Blocking& s = g.shared[k];
      const auto with = [&](int64_t size, Body& to) {
        auto e = extents;
        e.push_back(size);
        variants(k + 1, e, to);
      };
      if (!s.ragged()) return with(s.hi, into);
      If choice{{Int(s.n_hi - 1) - Int::var(block[k])}, std::make_shared<Body>(), std::make_shared<Body>()};
      with(s.hi, *choice.then);
      with(s.hi - 1, *choice.otherwise);
      into.push_back({std::move(choice)});
    };
    variants(0, {}, *body);
    number += int(g.nests.size());
    if (by_warps)
      p.body = std::move(*body);
    else
      p.body.push_back({For{tile, first, last, 1, body}});
    if (std::any_of(g.nests.begin(), g.nests.end(), [](const NestPlan& n) { return n.stream; }))
      p.body.push_back({Op{"stream_fence", -1, false, {}}});
    const int proc = b_.proc(std::move(p));
    Region region{proc, tasks, "", std::max(1, g.block_tasks)};
    if (warp >= 0) region.warps = g.tile_warps, region.resident = g.estimate.resident;
    result_.regions.push_back(std::move(region));
  }

  /// For whom a nest of a tile waits before it reads what they have written.
  enum class Wait : uint8_t { none, warp, block };

  /// The nests of a tile's task that read what other lanes, or other warps of the tile, have written since those last waited for each
  /// other. `first`: the number of the group's first nest.
  std::vector<Wait> waits(const GroupPlan& g, size_t first) {
    std::set<int> written, of_lanes, of_warps;  // tensors; of the last two, those that were written since
    std::vector<Wait> all;
    for (size_t n = 0; n < g.nests.size(); ++n) {
      const Nest& nest = g.group.nests[n];
      Wait wait = Wait::none;
      nest.for_each_statement([&](const rtile::Statement& s) {
        ir::for_each_access(*s.value, [&](const ir::Access& a) {
          if (of_lanes.count(a.tensor)) wait = std::max(wait, Wait::warp);
          if (of_warps.count(a.tensor)) wait = Wait::block;
          if (written.count(a.tensor)) result_.buffers[size_t(location_.at(a.tensor).buffer)].exchanged = true;
        });
      });
      if (wait != Wait::none) of_lanes.clear();
      if (wait == Wait::block) of_warps.clear();
      const bool meet = !partials_[first + n].empty();  // all warps, after its points and before its results
      if (meet) of_lanes.clear(), of_warps.clear();
      nest.for_each_statement([&](const rtile::Statement& s) {
        if (!s.store) return;
        written.insert(s.tensor);
        const bool by_all = rtile::by_all_warps(nest, g.nests[n], s);
        if (g.tile_warps == 1 || (by_all && location_.at(s.tensor).tile_local))
          of_lanes.insert(s.tensor);
        else if (by_all || !meet)
          of_warps.insert(s.tensor);
      });
      all.push_back(wait);
    }
    return all;
  }

  struct Tiled {
    Nest nest;
    NestPlan plan;
  };
  std::vector<std::unique_ptr<Tiled>> nests_;
};

}  // namespace

LoopProgram lower(const ir::TensorProgram& program, const rtile::RProgram& plan) {
  return ProgramLowering(plan.planned(program), plan).run();
}

}  // namespace rgen::lower
