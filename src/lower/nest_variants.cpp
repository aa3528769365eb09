// Which copy of the register tile runs where: full, ragged, last vector, border, end of an operand.
#include <algorithm>
#include <set>
#include <sstream>

#include "lower/nest_lowering.h"
#include "rtile/layout.h"

namespace rgen::lower {

using rtile::Blocking;
using rtile::NestPlan;

void NestLowering::choose() {
  TileVariant v;
  v.size.assign(size_t(n_), 0);
  v.tail = c_.plan.lanes;
  choose_size(0, v);
}

void NestLowering::choose_size(int a, const TileVariant& v) {
  if (a == n_) return choose_guard(v);
  if (!is_output(a)) return choose_size(a + 1, v);
  if (a == c_.plan.run_axis()) return choose_run(a, v);
  if (a == in_runs_) return choose_size(a + 1, sized(v, a, run_));
  const std::vector<NestPlan::Run> runs = c_.plan.runs(a);
  const auto one = [&](const NestPlan::Run& r) { among(a, r.from, r.to, [&] { choose_size(a + 1, sized(v, a, r)); }); };
  if (runs.size() == 1) return one(runs.front());
  const Int block = Int::var(params_.block[size_t(a)]);
  const NestPlan::Run& last = runs.back();
  const size_t whole = runs.size() - size_t(last.partly);
  const auto by_size = [&] {
    if (whole == 1) return one(runs[0]);
    branch(
        {Int(runs[0].to - 1) - block}, [&] { one(runs[0]); }, [&] { one(runs[1]); });
  };
  if (!last.partly) return by_size();
  branch(
      {block - Int(last.from)}, [&] { one(last); }, by_size);
}

TileVariant NestLowering::sized(TileVariant v, int a, const NestPlan::Run& r) const {
  v.size[size_t(a)] = r.units;
  if (r.partly) v.tail = int(tile(a).tail());
  return v;
}

void NestLowering::choose_run(int a, const TileVariant& v) {
  const size_t x = size_t(a);
  const Blocking& t = tile(a);
  const auto [first_begin, last_begin] = b_.range(begin_[x]);
  const auto [first_end, last_end] = b_.range(end_[x]);
  for (const NestPlan::Run& r : c_.plan.runs(a)) {
    const std::optional<Range> blocks = blocks_of(a, r);
    if (!blocks) continue;
    TileVariant w = sized(v, a, r);
    const auto variable = [](const Int& i) { return i.terms.front().first; };
    const auto named = [&](const char* what, const Int& i) {
      const bool is = i.terms.size() == 1 && i == Int::var(variable(i));
      return variable(is ? i : let(LetInt::Op::value, name(a) + what, i, Int(0), t.blocks));
    };
    const auto run = [&] {
      if (r.length() > 1) {
        w.run = true;
        params_.run_from = named("_from", blocks->from), params_.run_to = named("_to", blocks->to);
      } else {
        params_.block[x] = variable(let(LetInt::Op::value, name(a) + "_block", Int(r.from), Int(0), r.from));
        params_.start[x] = variable(let(LetInt::Op::value, name(a), Int(t.start(r.from)), Int(0), t.start(r.from)));
      }
      choose_size(a + 1, w);
    };
    if (last_begin < r.to && first_end > r.from && last_begin < first_end)
      run();
    else
      branch({blocks->length() - Int(1)}, run, [] {});
    params_.start[x] = params_.block[x] = params_.run_from = params_.run_to = -1;
  }
}

void NestLowering::among(int axis, int64_t from, int64_t to, const std::function<void()>& inside) {
  const Blocking& t = tile(axis);
  int& start = params_.start[size_t(axis)];
  if (!leads_out(axis) || to - from == t.blocks) return inside();
  const int any = start;
  start = b_.variable(name(axis), t.start(from), t.start(to - 1));
  put({LetInt{LetInt::Op::value, start, from + 1 == to ? Int(t.start(from)) : Int::var(any), Int(0)}});
  inside();
  start = any;
}

void NestLowering::choose_guard(TileVariant v) {
  if (!c_.plan.guarded) return choose_end(v);
  Conditions inside = interior(v);
  bool never = false;
  std::erase_if(inside, [&](const Int& i) {
    const auto [least, most] = b_.range(i);
    never |= most < 0;
    return least >= 0;
  });
  const auto border = [&](bool sides) {
    TileVariant w = v;
    w.guarded = true, w.sides = sides;
    choose_end(w);
  };
  const auto guarded = [&] {
    const std::optional<Conditions> at_sides = sides(v);
    if (!at_sides) return border(false);
    branch(
        *at_sides, [&] { border(true); }, [&] { border(false); });
  };
  if (never) return guarded();
  if (inside.empty()) return choose_end(v);
  branch(
      inside, [&] { choose_end(v); }, guarded);
}

void NestLowering::for_each_guarded(const std::function<void(const ir::Index&, int64_t)>& visit) const {
  for (const rtile::Operand& o : c_.plan.operands) {
    if (o.placement != rtile::Placement::direct || !rtile::is_affine(o.access.index)) continue;
    for (int d : rtile::guarded_dims(c_.program, o.access, c_.nest.full_extents()))
      visit(o.access.index[size_t(d)], c_.program[o.access.tensor].shape[size_t(d)].value());
  }
}

bool NestLowering::leads_out(int axis) const {
  bool any = false;
  if (c_.plan.guarded) for_each_guarded([&](const ir::Index& i, int64_t) { any |= i.uses(axis); });
  return any;
}

bool NestLowering::left_out(const ir::Index& i, int64_t size) const {
  if (!c_.plan.taps) return false;
  return std::any_of(c_.plan.taps->begin(), c_.plan.taps->end(), [&](const rtile::PaddedTaps& t) {
    if (i.coef(t.reduced) != t.dilation || i.coef(t.output) != t.stride || i.constant != t.offset || size != t.extent) return false;
    const Blocking& places = tile(t.output);
    switch (c_.plan.left_out(t)) {
      case NestPlan::LeftOut::tiles:
        return places.size() == 1;
      case NestPlan::LeftOut::points: {
        if (c_.origin[size_t(t.output)] >= 0) return false;
        if (places.blocks == 1) return true;
        const int64_t before_last = places.start(places.blocks - 1) - 1;
        return t.stride * places.start(1) + t.offset >= 0 && t.stride * before_last + t.dilation * (t.taps - 1) + t.offset < t.extent;
      }
      case NestPlan::LeftOut::steps:
      case NestPlan::LeftOut::nowhere:
        return false;
    }
    return false;
  });
}

std::pair<Int, Int> NestLowering::reach(const ir::Index& index, const TileVariant& v) const {
  Int lo(index.constant), hi(index.constant);
  for (const ir::Index::Term& t : index.terms) {
    const size_t x = size_t(t.axis);
    Int base(0);
    int64_t span = extent(t.axis) - 1;
    if (is_output(t.axis)) {
      if (params_.start[x] >= 0) base = Int::var(params_.start[x]);
      if (c_.origin[x] >= 0) base = base + Int::var(c_.origin[x]);
      span = (v.size[x] - 1) * tile(t.axis).unit + (t.axis == c_.plan.vec ? v.tail : tile(t.axis).unit) - 1;
    }
    lo = lo + base * t.coef, hi = hi + base * t.coef;
    (t.coef > 0 ? hi : lo) = (t.coef > 0 ? hi : lo) + Int(span * t.coef);
  }
  return {lo, hi};
}

NestLowering::Conditions NestLowering::inside(const TileVariant& v, const std::function<bool(const ir::Index&, int64_t)>& counts) const {
  Conditions all;
  for_each_guarded([&](const ir::Index& i, int64_t size) {
    if (!counts(i, size)) return;
    const auto [lo, hi] = reach(i, v);
    all.push_back(lo), all.push_back(Int(size - 1) - hi);
  });
  return all;
}

NestLowering::Conditions NestLowering::interior(const TileVariant& v) const {
  return inside(v, [&](const ir::Index& i, int64_t size) { return !left_out(i, size); });
}

NestLowering::Conditions NestLowering::rows_inside(const TileVariant& v) const {
  return inside(v, [&](const ir::Index& i, int64_t) { return !i.uses(c_.plan.vec); });
}

std::optional<NestLowering::Conditions> NestLowering::sides(const TileVariant& v) const {
  constexpr double kMost = 0.5;  // of the tiles; for fewer a copy more costs as much as it saves (960 planes of 7 × 7 by 3 rows)
  const int vec = c_.plan.vec;
  bool leaves = false;
  std::set<int> across;  // axes from row to row
  for_each_guarded([&](const ir::Index& i, int64_t) {
    leaves |= i.uses(vec);
    for (const ir::Index::Term& t : i.terms)
      if (!i.uses(vec) && is_output(t.axis)) across.insert(t.axis);
  });
  double rows = 1;
  for (const int a : across) rows *= std::max(0.0, 1 - 2 / double(tile(a).blocks));
  if (!leaves || rows < kMost || !is_output(vec) || c_.plan.lanes > 16) return {};
  Conditions all = rows_inside(v);
  if (c_.plan.masks_are_vectors())
    for (size_t i = 0; i < c_.plan.operands.size(); ++i) {
      if (!masked_where_read(c_, int(i))) continue;
      const Addressing& m = c_.addressing[i];
      all.push_back(first_vector(m));
      all.push_back(Int(b_.program.buffers[size_t(m.buffer)].elements - c_.plan.lanes) - last_vector(m, v));
    }
  const bool never = std::any_of(all.begin(), all.end(), [&](const Int& i) { return b_.range(i).second < 0; });
  std::erase_if(all, [&](const Int& i) { return b_.range(i).first >= 0; });
  return never || (all.empty() && !c_.plan.masks_are_vectors()) ? std::nullopt : std::optional(std::move(all));
}

void NestLowering::choose_end(const TileVariant& v) {
  Conditions room = room_behind(v);
  if (v.run) {  // whichever of its tiles that is
    TileVariant w = v;
    w.at_end = !room.empty();
    return call(w);
  }
  std::erase_if(room, [&](const Int& i) { return b_.range(i).first >= 0; });
  if (room.empty()) return call(v);
  const auto at_end = [&] {
    TileVariant w = v;
    w.at_end = true;
    call(w);
  };
  if (std::any_of(room.begin(), room.end(), [&](const Int& i) { return b_.range(i).second < 0; })) return at_end();
  branch(
      room, [&] { call(v); }, at_end);
}

NestLowering::Conditions NestLowering::room_behind(const TileVariant& v) const {
  Conditions all;
  const int vec = c_.plan.vec;
  const int64_t lanes = c_.plan.lanes;
  if (is_output(vec) ? v.tail == lanes : extent(vec) % lanes == 0) return all;
  for (size_t i = 0; i < c_.plan.operands.size(); ++i) {
    if (!reads_on(c_, int(i)) || (v.sides && masked_where_read(c_, int(i)))) continue;
    const Addressing& m = c_.addressing[i];
    all.push_back(Int(b_.program.buffers[size_t(m.buffer)].elements - lanes) - last_vector(m, v));
  }
  return all;
}

Int NestLowering::tile_begin(const Addressing& m) const {
  Int begin(m.constant);
  for (int a = 0; a < n_; ++a) {
    const size_t x = size_t(a);
    if (!is_output(a)) continue;
    if (params_.start[x] >= 0) begin = begin + Int::var(params_.start[x], m.value[x]);
    if (c_.origin[x] >= 0 && !m.tile_local) begin = begin + Int::var(c_.origin[x], m.value[x]);
  }
  return begin;
}

Int NestLowering::last_vector(const Addressing& m, const TileVariant& v) const {
  const int64_t lanes = c_.plan.lanes;
  int64_t behind = 0;
  for (int a = 0; a < n_; ++a) {
    const size_t x = size_t(a);
    behind += is_output(a) ? std::max<int64_t>(0, m.inside[x]) * (v.size[x] - 1) * tile(a).unit
                           : std::max<int64_t>(0, m.value[x]) * (a == c_.plan.vec ? extent(a) / lanes * lanes : extent(a) - 1);
  }
  return tile_begin(m) + Int(behind);
}

Int NestLowering::first_vector(const Addressing& m) const {
  int64_t before = 0;
  for (int a = 0; a < n_; ++a)
    if (!is_output(a)) before += std::min<int64_t>(0, m.value[size_t(a)]) * (extent(a) - 1);
  return tile_begin(m) + Int(before);
}

void NestLowering::call(const TileVariant& v) {
  auto it = tiles_.find(v);
  if (it == tiles_.end()) {
    std::ostringstream tile_name;
    tile_name << c_.prefix << "_tile";
    const char* separator = "_";
    for (int a = 0; a < n_; ++a)
      if (is_output(a) && (v.size[size_t(a)] > 1 || a == c_.plan.vec)) {
        tile_name << separator << (a == c_.plan.vec ? (v.size[size_t(a)] - 1) * c_.plan.lanes + v.tail : v.size[size_t(a)]);
        separator = "x";
      }
    if (v.part) tile_name << "_part";
    if (v.run) tile_name << "_run";
    if (v.guarded) tile_name << (v.sides ? "_sides" : "_border");
    if (v.at_end) tile_name << "_end";
    TileParams params = params_;
    if (v.sides) params.known = rows_inside(v);
    it = tiles_.emplace(v, b_.proc((v.run ? lower_run : lower_tile)(c_, params, v, tile_name.str()))).first;
  }
  Call c{it->second, {}};
  for (int p : b_.program.procs[size_t(it->second)].params) c.args.push_back(Int::var(p));
  put({std::move(c)});
}

}  // namespace rgen::lower
