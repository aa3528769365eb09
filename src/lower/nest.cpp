// The blocked loops around a register tile: parallel parts, cache tiles, chunks of the reduction.
#include <algorithm>

#include "lower/nest_lowering.h"

namespace rgen::lower {

using rtile::Blocking;

int NestLowering::run() {
  Proc p;
  p.name = c_.prefix;
  for (int o : c_.origin)
    if (o >= 0) p.params.push_back(o);
  bodies_.push_back(&p.body);
  if (c_.plan.form == rtile::AtomForm::matrix) put(main_shape());
  if (c_.plan.combining) c_.combined = combining_buffer();
  if (c_.warp >= 0) {
    p.params.push_back(c_.warp);
    if (c_.plan.dealt_axis() >= 0) deal_out(c_.plan.dealt_axis());
  } else if (c_.plan.tasks() > 1) {
    const int task = b_.variable("task", 0, c_.plan.tasks() - 1);
    p.params.push_back(task);
    split(task);
  }
  loops(0);
  if (c_.plan.form == rtile::AtomForm::matrix) put({Op{"tile_release", -1, false, {}}});
  const bool in_group = std::any_of(c_.origin.begin(), c_.origin.end(), [](int o) { return o >= 0; });
  if (c_.plan.stream && !in_group) put({Op{"stream_fence", -1, false, {}}});
  return b_.proc(std::move(p));
}

Stmt NestLowering::main_shape() const { return configure_tiles(c_, c_.plan.row_tiles(c_.nest), tile(c_.plan.vec).hi); }

void NestLowering::split(int task) {
  Int rest = Int::var(task);
  int64_t remaining = c_.plan.tasks();
  // blocks of tasks that are rectangles: the place within one, then the block's among all
  const size_t axes = c_.plan.parallel.size();
  const int64_t rows = c_.plan.block_rows, columns = c_.plan.block_tasks / rows;
  Int row(0), column(0);
  if (rows > 1) {
    const int block = b_.variable("block", 0, remaining / c_.plan.block_tasks - 1);
    const int place = b_.variable("place", 0, c_.plan.block_tasks - 1);
    const int r = b_.variable("row", 0, rows - 1), l = b_.variable("column", 0, columns - 1);
    put({LetInt{LetInt::Op::floor_div, block, rest, Int(c_.plan.block_tasks)}});
    put({LetInt{LetInt::Op::floor_mod, place, rest, Int(c_.plan.block_tasks)}});
    put({LetInt{LetInt::Op::floor_div, r, Int::var(place), Int(columns)}});
    put({LetInt{LetInt::Op::floor_mod, l, Int::var(place), Int(columns)}});
    row = Int::var(r), column = Int::var(l), rest = Int::var(block), remaining /= c_.plan.block_tasks;
  }
  for (size_t i = 0; i < axes; ++i) {
    const int a = c_.plan.parallel[i].axis;
    const int64_t within = rows == 1 ? 1 : i + 1 == axes ? columns : i + 2 == axes ? rows : 1;
    const int64_t parts = c_.plan.parallel[i].parts / within;
    if (c_.plan.parallel[i].parts == 1) continue;
    Int part = rest;
    if (remaining != parts) {
      remaining /= parts;
      const int q = b_.variable(name(a) + "_part", 0, parts - 1), r = b_.variable("rest", 0, remaining - 1);
      put({LetInt{LetInt::Op::floor_div, q, rest, Int(remaining)}});
      put({LetInt{LetInt::Op::floor_mod, r, rest, Int(remaining)}});
      part = Int::var(q), rest = Int::var(r);
    }
    const int64_t blocks = tile(a).blocks;
    if (parts * within == blocks) {
      const Int at = parts == 1 ? Int(0) : part * within;
      const Int block = at + (within == 1 ? Int(0) : i + 1 == axes ? column : row);
      begin_[size_t(a)] = block, end_[size_t(a)] = block + Int(1);
      continue;
    }
    const int lo = b_.variable(name(a) + "_from", 0, blocks), hi = b_.variable(name(a) + "_to", 0, blocks);
    put({LetInt{LetInt::Op::floor_div, lo, part * blocks, Int(parts)}});
    put({LetInt{LetInt::Op::floor_div, hi, part * blocks + Int(blocks), Int(parts)}});
    begin_[size_t(a)] = Int::var(lo), end_[size_t(a)] = Int::var(hi);
  }
}

void NestLowering::deal_out(int a) {
  const size_t x = size_t(a);
  const Blocking& t = tile(a);
  const int64_t warps = c_.tile_warps, pieces = is_output(a) ? t.blocks : t.units(), unit = is_output(a) ? 1 : t.unit;
  const int64_t last = is_output(a) ? t.blocks : extent(a) / unit * unit;  // what is left of a vector is the last warp's
  const auto bound = [&](const std::string& what, const Int& warp) {
    const int v = b_.variable(name(a) + what, 0, last);
    if (pieces % warps == 0 && last == pieces * unit) {
      put({LetInt{LetInt::Op::value, v, warp * (pieces / warps * unit), Int(0)}});
      return Int::var(v);
    }
    const int piece = b_.variable("piece", 0, pieces);
    put({LetInt{LetInt::Op::floor_div, piece, warp * pieces, Int(warps)}});
    put({LetInt{LetInt::Op::min, v, Int::var(piece, unit), Int(last)}});
    return Int::var(v);
  };
  begin_[x] = bound("_from", Int::var(c_.warp)), end_[x] = bound("_to", Int::var(c_.warp) + Int(1));
  if (!is_output(a)) params_.begin[x] = begin_[x].terms.front().first, params_.end[x] = end_[x].terms.front().first;
}

void NestLowering::in_loop(int var, Int begin, Int end, int64_t step, const std::function<void()>& inside) {
  auto body = std::make_shared<Body>();
  bodies_.push_back(body.get());
  inside();
  bodies_.pop_back();
  put({For{var, std::move(begin), std::move(end), step, std::move(body)}});
}

void NestLowering::branch(Conditions all, const std::function<void()>& yes, const std::function<void()>& no) {
  If s{std::move(all), std::make_shared<Body>(), std::make_shared<Body>()};
  bodies_.push_back(s.then.get());
  yes();
  bodies_.back() = s.otherwise.get();
  no();
  bodies_.pop_back();
  put({std::move(s)});
}

Int NestLowering::let(LetInt::Op op, const std::string& what, const Int& a, const Int& b, int64_t most) {
  const int v = b_.variable(what, 0, most);
  put({LetInt{op, v, a, b}});
  return Int::var(v);
}

void NestLowering::loops(size_t i) {
  if (i == c_.plan.loops.size()) return choose();
  const auto [a, step] = c_.plan.loops[i];
  const size_t x = size_t(a);
  if (!is_output(a)) {  // a chunk of the reduction
    const int from = b_.variable(name(a) + "_from", 0, extent(a) - 1), to = b_.variable(name(a) + "_to", 1, extent(a));
    params_.begin[x] = from, params_.end[x] = to;
    in_loop(from, begin_[x], end_[x], step, [&] {
      put({LetInt{LetInt::Op::min, to, Int::var(from) + Int(step), end_[x]}});
      loops(i + 1);
    });
    params_.begin[x] = params_.end[x] = -1;
    return;
  }
  if (c_.plan.combining && i + 4 == c_.plan.loops.size()) return combine(i);
  if (a == c_.plan.run_axis() && step == 1) return choose();
  if (step > 1) return tile_of_blocks(c_.plan.loops[i], [&] { loops(i + 1); });
  if (c_.plan.peeled && i + 1 == c_.plan.loops.size()) return by_lines();
  const bool dealt_out = c_.warp >= 0 && a == c_.plan.dealt_axis();
  if (tile(a).blocks == 1 && !dealt_out) return loops(i + 1);
  const Blocking& t = tile(a);
  const bool one = end_[x] - begin_[x] == Int(1);  // a part of one block
  if (i + 1 == c_.plan.loops.size() && !one && !b_.program.warps() && c_.plan.runs(a).size() > 1) return loops_of_runs(a);
  const int block = b_.variable(name(a) + "_block", 0, t.blocks - 1);
  const int start = b_.variable(name(a), 0, t.start(t.blocks - 1));
  const auto inside = [&] {
    put({LetInt{LetInt::Op::value, start, b_.start(*bodies_.back(), t, Int::var(block), t.blocks - 1), Int(0)}});
    params_.start[x] = start, params_.block[x] = block;
    loops(i + 1);
    params_.start[x] = params_.block[x] = -1;
  };
  if (one) {
    put({LetInt{LetInt::Op::value, block, begin_[x], Int(0)}});
    inside();
  } else {
    in_loop(block, begin_[x], end_[x], 1, inside);
  }
}

std::optional<NestLowering::Range> NestLowering::blocks_of(int a, const rtile::NestPlan::Run& r) {
  const size_t x = size_t(a);
  const auto [first_begin, last_begin] = b_.range(begin_[x]);
  const auto [first_end, last_end] = b_.range(end_[x]);
  if (first_begin >= r.to || last_end <= r.from) return {};
  const int64_t blocks = tile(a).blocks;
  const Int from = last_begin <= r.from    ? Int(r.from)
                   : first_begin >= r.from ? begin_[x]
                                           : let(LetInt::Op::max, name(a) + "_from", begin_[x], Int(r.from), blocks);
  const Int to = first_end >= r.to  ? Int(r.to)
                 : last_end <= r.to ? end_[x]
                                    : let(LetInt::Op::min, name(a) + "_to", end_[x], Int(r.to), blocks);
  return Range{from, to};
}

void NestLowering::loops_of_runs(int a) {
  const size_t x = size_t(a);
  const Blocking& t = tile(a);
  for (const rtile::NestPlan::Run& r : c_.plan.runs(a)) {
    const std::optional<Range> blocks = blocks_of(a, r);
    if (!blocks) continue;
    const int block = b_.variable(name(a) + "_block", r.from, r.to - 1);
    const int start = b_.variable(name(a), t.start(r.from), t.start(r.to - 1));
    const auto inside = [&] {
      const int64_t each = (r.from < t.n_hi ? t.hi : t.hi - 1) * t.unit;
      put({LetInt{LetInt::Op::value, start, Int::var(block, each) + Int(t.start(r.from) - r.from * each), Int(0)}});
      params_.start[x] = start, params_.block[x] = block, in_runs_ = a, run_ = r;
      choose();
      params_.start[x] = params_.block[x] = in_runs_ = -1;
    };
    if (blocks->length() == Int(1)) {
      put({LetInt{LetInt::Op::value, block, blocks->from, Int(0)}});
      inside();
    } else {
      in_loop(block, blocks->from, blocks->to, 1, inside);
    }
  }
}

void NestLowering::tile_of_blocks(const rtile::Loop& l, const std::function<void()>& inside) {
  const size_t x = size_t(l.axis);
  const int64_t blocks = tile(l.axis).blocks;
  if (l.step >= blocks) return inside();
  const int from = b_.variable(name(l.axis) + "_tile", 0, blocks - 1), to = b_.variable(name(l.axis) + "_tile_end", 0, blocks);
  const Int saved_begin = begin_[x], saved_end = end_[x];
  in_loop(from, saved_begin, saved_end, l.step, [&] {
    put({LetInt{LetInt::Op::min, to, Int::var(from) + Int(l.step), saved_end}});
    begin_[x] = Int::var(from), end_[x] = Int::var(to);
    inside();
  });
  begin_[x] = saved_begin, end_[x] = saved_end;
}

int lower_nest(NestContext& context) { return NestLowering(context).run(); }

}  // namespace rgen::lower
