// The blocked loops around a register tile: parallel parts, cache tiles, chunks of the reduction, and the choice of the tile's copy
// (full, ragged, last vector, border, end of an operand).
#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "lower/context.h"
#include "rtile/layout.h"

namespace rgen::lower {

using rtile::Blocking;
using rtile::NestPlan;

namespace {

class NestLowering {
 public:
  explicit NestLowering(NestContext& c) : c_(c), b_(c.builder), n_(int(c.nest.axes.size())) {
    const auto none = std::vector<int>(size_t(n_), -1);
    params_ = {none, none, none, none, none, -1};
    begin_.assign(size_t(n_), Int(0));
    for (int a = 0; a < n_; ++a) end_.push_back(Int(is_output(a) ? tile(a).blocks : extent(a)));
  }

  int run() {
    Proc p;
    p.name = c_.prefix;
    for (int o : c_.origin)
      if (o >= 0) p.params.push_back(o);
    bodies_.push_back(&p.body);
    if (c_.plan.form == rtile::AtomForm::matrix) put(main_shape());
    if (c_.plan.combining) c_.combined = combining_buffer();
    if (c_.plan.tasks() > 1) {
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

 private:
  NestContext& c_;
  Builder& b_;
  const int n_;
  TileParams params_;
  std::vector<Int> begin_, end_;  ///< per axis: current block range (output) or element range (reduced)
  std::vector<Body*> bodies_;
  std::map<TileVariant, int> tiles_;

  bool is_output(int a) const { return !c_.nest.axes[size_t(a)].reduced; }
  int64_t extent(int a) const { return c_.nest.axes[size_t(a)].extent; }
  const Blocking& tile(int a) const { return c_.plan.tile[size_t(a)]; }
  const std::string& name(int a) const { return c_.nest.axes[size_t(a)].name; }
  void put(Stmt s) { bodies_.back()->push_back(std::move(s)); }
  /// The tile shapes of most of the nest; other copies of the tile change them and change them back.
  Stmt main_shape() const {
    std::vector<int64_t> size(size_t(n_), 1);
    for (int a = 0; a < n_; ++a)
      if (is_output(a)) size[size_t(a)] = tile(a).hi;
    return configure_tiles(c_, c_.plan.row_tiles(size, c_.nest), size[size_t(c_.plan.vec)]);
  }

  /// Blocks of the parallel axes dealt out to the task: part i of P gets blocks [⌊N·i/P⌋, ⌊N·(i+1)/P⌋).
  void split(int task) {
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

  void in_loop(int var, Int begin, Int end, int64_t step, const std::function<void()>& inside) {
    auto body = std::make_shared<Body>();
    bodies_.push_back(body.get());
    inside();
    bodies_.pop_back();
    put({For{var, std::move(begin), std::move(end), step, std::move(body)}});
  }

  void loops(size_t i) {
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
    if (step > 1) return tile_of_blocks(c_.plan.loops[i], [&] { loops(i + 1); });
    if (c_.plan.peeled && i + 1 == c_.plan.loops.size()) return by_lines();
    if (tile(a).blocks == 1) return loops(i + 1);
    const Blocking& t = tile(a);
    const int block = b_.variable(name(a) + "_block", 0, t.blocks - 1);
    const int start = b_.variable(name(a), 0, t.start(t.blocks - 1));
    const auto inside = [&] {
      // start(b) = (b·hi − max(0, b − n_hi))·unit
      Int at = Int::var(block, t.hi * t.unit);
      if (t.n_hi < t.blocks - 1) {
        const int over = b_.variable("short", 0, t.blocks - t.n_hi);
        put({LetInt{LetInt::Op::max, over, Int::var(block) - Int(t.n_hi), Int(0)}});
        at = at - Int::var(over, t.unit);
      }
      put({LetInt{LetInt::Op::value, start, at, Int(0)}});
      params_.start[x] = start, params_.block[x] = block;
      loops(i + 1);
      params_.start[x] = params_.block[x] = -1;
    };
    if (end_[x] - begin_[x] == Int(1)) {  // a part of one block
      put({LetInt{LetInt::Op::value, block, begin_[x], Int(0)}});
      inside();
    } else {
      in_loop(block, begin_[x], end_[x], 1, inside);
    }
  }

  void tile_of_blocks(const rtile::Loop& l, const std::function<void()>& inside) {
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

  // ---- rows from line to line (NestPlan::peeled) ----

  /// The tiles of a row: what stands before its first line, as many whole vectors as there are, the rest.
  void by_lines() {
    const int vec = c_.plan.vec;
    const int64_t lanes = c_.plan.lanes, most = extent(vec) / lanes;
    const int64_t vectors = std::max<int64_t>(1, std::min(tile(vec).hi, (extent(vec) - lanes + 1) / lanes));
    TileVariant v;
    v.size.assign(size_t(n_), 1), v.tail = int(lanes);
    const int start = params_.start[size_t(vec)] = b_.variable(name(vec), 0, extent(vec) - 1);
    const auto at = [&](const Int& first, int64_t size) {
      put({LetInt{LetInt::Op::value, start, first, Int(0)}});
      v.size[size_t(vec)] = size;
      call(v);
    };
    params_.part = b_.variable("part", 1, lanes - 1);
    const auto part = [&](const Int& first, const Int& count) {
      const auto inside = [&] {
        put({LetInt{LetInt::Op::value, params_.part, count, Int(0)}});
        v.part = true;
        at(first, 1);
        v.part = false;
      };
      branch({count - Int(1)}, inside, [] {});
    };
    const Int head = let(LetInt::Op::floor_mod, "head", Int(0) - first_of_row(), Int(lanes), lanes - 1);
    const Int whole = let(LetInt::Op::floor_div, "vectors", Int(extent(vec)) - head, Int(lanes), most);
    const Int tiles = let(LetInt::Op::floor_div, "tiles", whole, Int(vectors), most / vectors);
    part(Int(0), head);
    const int number = b_.variable("tile", 0, most / vectors - 1), vector = b_.variable("vector", 0, most - 1);
    in_loop(number, Int(0), tiles, 1, [&] { at(head + Int::var(number, vectors * lanes), vectors); });
    if (vectors > 1) in_loop(vector, tiles * vectors, whole, 1, [&] { at(head + Int::var(vector, lanes), 1); });
    part(head + whole * lanes, Int(extent(vec)) - head - whole * lanes);
    params_.start[size_t(vec)] = params_.part = -1;
  }
  Int let(LetInt::Op op, const std::string& what, const Int& a, const Int& b, int64_t most) {
    const int v = b_.variable(what, 0, most);
    put({LetInt{op, v, a, b}});
    return Int::var(v);
  }
  /// Where the result's row begins.
  Int first_of_row() const {
    const rtile::Statement& s = stored_statement();
    const rtile::Linear l = rtile::linearise(s.index, c_.location.at(s.tensor).strides, n_);
    Int i(l.constant);
    for (int a = 0; a < n_; ++a) {
      if (a == c_.plan.vec) continue;
      if (params_.start[size_t(a)] >= 0) i = i + Int::var(params_.start[size_t(a)], l.coef[size_t(a)]);
      if (c_.origin[size_t(a)] >= 0) i = i + Int::var(c_.origin[size_t(a)], l.coef[size_t(a)]);
    }
    return i;
  }

  // ---- write combining (NestPlan::combining) ----

  const rtile::Statement& stored_statement() const {
    const rtile::Statement* stored = nullptr;
    c_.nest.for_each_statement([&](const rtile::Statement& s) {
      if (s.store) stored = &s;
    });
    return *stored;
  }
  int combining_buffer() {
    return b_.workspace(c_.program[stored_statement().tensor].name + "_pieces", DType::f32,
                        c_.plan.buffered_rows() * c_.plan.buffered_pitch() + 2 * rtile::WriteCombining::kLine, c_.plan.tasks());
  }

  struct Range {
    Int from, to;
    Int length() const { return to - from; }
  };
  /// Of the elements of the axis' current blocks.
  Range elements(int axis) { return {element(axis, begin_[size_t(axis)]), element(axis, end_[size_t(axis)])}; }
  /// The first of a block, or the axis' extent.
  Int element(int axis, const Int& block) {
    const Blocking& t = tile(axis);
    if (block.is_const()) return Int(std::min(t.start(block.constant), t.extent));
    Int at = block * (t.hi * t.unit);
    if (t.ragged()) {
      const int over = b_.variable("short", 0, t.blocks - t.n_hi);
      put({LetInt{LetInt::Op::max, over, block - Int(t.n_hi), Int(0)}});
      at = at - Int::var(over, t.unit);
    }
    const int v = b_.variable(name(axis) + "_at", 0, t.extent);
    put({LetInt{LetInt::Op::min, v, at, Int(t.extent)}});
    return Int::var(v);
  }

  /// The loop over the rows of the buffer, the one over their pieces, and what is inside; then the pieces go to memory.
  void combine(size_t i) {
    const auto& [along, over, whole] = *c_.plan.combining;
    const auto base = [&](int axis, const Int& at) { params_.base[size_t(axis)] = at.is_const() ? -1 : at.terms[0].first; };
    const Range all_rows = elements(over), all = elements(along);
    tile_of_blocks(c_.plan.loops[i], [&] {
      const Range rows = elements(over);
      tile_of_blocks(c_.plan.loops[i + 1], [&] {
        const Range piece = elements(along);
        base(over, rows.from), base(along, piece.from);
        loops(i + 2);
        base(over, 0), base(along, 0);
        const int64_t columns = c_.plan.buffered_columns();
        if (whole)
          stream(rows, piece, Int(1), rows.length() * columns, (rows.from - all_rows.from) * columns, (all_rows.to - rows.to) * columns);
        else
          stream(rows, piece, rows.length(), piece.length(), piece.from - all.from, all.to - piece.to);
      });
    });
  }

  /// `count` pieces, of `length` elements, with so many elements of the worker's before and after each.
  void stream(const Range& rows, const Range& columns, const Int& count, const Int& length, const Int& before, const Int& after) {
    const rtile::Statement& s = stored_statement();
    const Location& at = c_.location.at(s.tensor);
    const rtile::Linear l = rtile::linearise(s.index, at.strides, n_);
    const int64_t stride = l.coef[size_t(c_.plan.combining->rows)];
    Int to(l.constant);
    for (int a = 0; a < n_; ++a)
      if (params_.start[size_t(a)] >= 0) to = to + Int::var(params_.start[size_t(a)], l.coef[size_t(a)]);
    const int result = b_.pointer(at.buffer, c_.program[s.tensor].name), pieces = b_.pointer(c_.combined, "pieces");
    put({LetPtr{result, to + rows.from * stride + columns.from}});
    put({LetPtr{pieces, Int(rtile::WriteCombining::kLine)}});
    const auto piece = [&](const Int& row) {
      const Address target{result, row * stride}, source{pieces, row * c_.plan.buffered_pitch()};
      put({Op{"stream_piece_f32", -1, false, {target, source, length, before, after}}});
    };
    if (count == Int(1)) return piece(Int(0));
    const int row = b_.variable("row", 0, c_.plan.buffered_rows() - 1);
    in_loop(row, Int(0), count, 1, [&] { piece(Int::var(row)); });
  }

  // ---- which copy of the tile ----
  using Conditions = std::vector<Int>;

  void branch(Conditions all, const std::function<void()>& yes, const std::function<void()>& no) {
    If s{std::move(all), std::make_shared<Body>(), std::make_shared<Body>()};
    bodies_.push_back(s.then.get());
    yes();
    bodies_.back() = s.otherwise.get();
    no();
    bodies_.pop_back();
    put({std::move(s)});
  }

  void choose() {
    TileVariant v;
    v.size.assign(size_t(n_), 0);
    v.tail = c_.plan.lanes;
    choose_size(0, v);
  }

  void choose_size(int a, TileVariant v) {
    if (a == n_) return choose_guard(v);
    if (!is_output(a)) return choose_size(a + 1, v);
    const size_t x = size_t(a);
    const Blocking& t = tile(a);
    const auto with = [&](int64_t units, bool last) {
      TileVariant w = v;
      w.size[x] = units;
      if (a == c_.plan.vec && last) w.tail = int(t.tail());
      choose_size(a + 1, w);
    };
    const bool tail = a == c_.plan.vec && t.tail() != t.unit;
    const int64_t last_size = t.ragged() ? t.hi - 1 : t.hi, whole = t.blocks - int(tail);
    if (t.blocks == 1) return with(t.hi, true);
    const Int block = Int::var(params_.block[x]);
    const auto by_size = [&] {
      if (t.n_hi >= whole) return among(a, 0, whole, [&] { with(t.hi, false); });
      branch(
          {Int(t.n_hi - 1) - block}, [&] { among(a, 0, t.n_hi, [&] { with(t.hi, false); }); },
          [&] { among(a, t.n_hi, whole, [&] { with(t.hi - 1, false); }); });
    };
    if (!tail) return by_size();
    branch(
        {block - Int(t.blocks - 1)}, [&] { among(a, whole, t.blocks, [&] { with(last_size, true); }); }, by_size);
  }

  /// What is lowered `inside` knows that the block is one of [from, to): a border tile then tests and masks only where it may leave a
  /// tensor.
  void among(int axis, int64_t from, int64_t to, const std::function<void()>& inside) {
    const Blocking& t = tile(axis);
    int& start = params_.start[size_t(axis)];
    if (!leads_out(axis) || to - from == t.blocks) return inside();
    const int any = start;
    start = b_.variable(name(axis), t.start(from), t.start(to - 1));
    put({LetInt{LetInt::Op::value, start, from + 1 == to ? Int(t.start(from)) : Int::var(any), Int(0)}});
    inside();
    start = any;
  }

  void choose_guard(TileVariant v) {
    if (!c_.plan.guarded) return choose_end(v);
    Conditions inside = interior(v);
    bool never = false;
    std::erase_if(inside, [&](const Int& i) {
      const auto [least, most] = b_.range(i);
      never |= most < 0;
      return least >= 0;
    });
    const auto guarded = [&] {
      TileVariant w = v;
      w.guarded = true;
      choose_end(w);
    };
    if (never) return guarded();
    if (inside.empty()) return choose_end(v);
    branch(
        inside, [&] { choose_end(v); }, guarded);
  }

  /// Calls `visit` with each index, and its tensor's extent, that can leave the tensor.
  void for_each_guarded(const std::function<void(const ir::Index&, int64_t)>& visit) const {
    for (const rtile::Operand& o : c_.plan.operands) {
      if (o.placement != rtile::Placement::direct || !rtile::is_affine(o.access.index)) continue;
      for (int d : rtile::guarded_dims(c_.program, o.access, c_.nest.full_extents()))
        visit(o.access.index[size_t(d)], c_.program[o.access.tensor].shape[size_t(d)].value());
    }
  }
  bool leads_out(int axis) const {
    bool any = false;
    if (c_.plan.guarded) for_each_guarded([&](const ir::Index& i, int64_t) { any |= i.uses(axis); });
    return any;
  }

  /// Does the tile leave out, wherever it is, each step at which the index would leave the tensor? (Tile::write_out leaves out all points
  /// that may be outside where the last of them is: in the first or the last block, or nowhere.)
  bool left_out(const ir::Index& i, int64_t size) const {
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

  /// Conditions under which no access of the tile leaves its tensor.
  Conditions interior(const TileVariant& v) const {
    Conditions all;
    for_each_guarded([&](const ir::Index& i, int64_t size) {
      if (left_out(i, size)) return;
      Int lo(i.constant), hi(i.constant);
      for (const ir::Index::Term& t : i.terms) {
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
      all.push_back(lo);
      all.push_back(Int(size - 1) - hi);
    });
    return all;
  }

  void choose_end(const TileVariant& v) {
    Conditions room = room_behind(v);
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

  /// Not negative where whole vectors may be read of operands that need a part of the last one.
  Conditions room_behind(const TileVariant& v) const {
    Conditions all;
    const int vec = c_.plan.vec;
    const int64_t lanes = c_.plan.lanes;
    if (is_output(vec) ? v.tail == lanes : extent(vec) % lanes == 0) return all;
    for (size_t i = 0; i < c_.plan.operands.size(); ++i) {
      if (!reads_on(c_, int(i))) continue;
      const Addressing& m = c_.addressing[i];
      Int last(m.constant);
      for (int a = 0; a < n_; ++a) {
        const size_t x = size_t(a);
        if (is_output(a)) {
          if (params_.start[x] >= 0) last = last + Int::var(params_.start[x], m.value[x]);
          if (c_.origin[x] >= 0 && !m.tile_local) last = last + Int::var(c_.origin[x], m.value[x]);
          last = last + Int(std::max<int64_t>(0, m.inside[x]) * (v.size[x] - 1) * tile(a).unit);
        } else {
          last = last + Int(std::max<int64_t>(0, m.value[x]) * (a == vec ? extent(a) / lanes * lanes : extent(a) - 1));
        }
      }
      all.push_back(Int(b_.program.buffers[size_t(m.buffer)].elements - lanes) - last);
    }
    return all;
  }

  void call(const TileVariant& v) {
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
      if (v.guarded) tile_name << "_border";
      if (v.at_end) tile_name << "_end";
      it = tiles_.emplace(v, b_.proc(lower_tile(c_, params_, v, tile_name.str()))).first;
    }
    Call c{it->second, {}};
    for (int p : b_.program.procs[size_t(it->second)].params) c.args.push_back(Int::var(p));
    put({std::move(c)});
  }
};

}  // namespace

int lower_nest(NestContext& context) { return NestLowering(context).run(); }

}  // namespace rgen::lower
