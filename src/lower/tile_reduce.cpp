// The reduction of a tile: accumulators, loops, multiply-adds, and what follows across copies and lanes.
#include <algorithm>
#include <bit>
#include <iterator>
#include <set>
#include <utility>

#include "base/error.h"
#include "lower/tile.h"
#include "rtile/atoms.h"
#include "rtile/layout.h"

namespace rgen::lower {

bool Tile::integer_sum(const Statement& s) const {
  return !is_float(c_.program[s.tensor].dtype) && accumulation(c_.program[s.tensor].dtype) == DType::s32;
}

void Tile::start_accumulators() {
  if (c_.plan.chunked())  // partial sums are added when the tile is done: until then their lines have time to come near
    when(
        {before_ - Int(1)}, [&] { for_each_partial([&](int, const Statement&, const Address& at) { effect("prefetch_l1", {at}); }); },
        [] {});
  copies_ = vec_reduced_ && c_.plan.reduce_order.back() == vec_ ? c_.plan.tile[size_t(vec_)].hi : 1;
  for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
    const Statement& s = c_.nest.inner[i];
    if (s.reduce == ir::ReduceOp::none) continue;
    const bool integer = integer_sum(s);
    for (const Point& p : points_)
      for (int64_t u = 0; u < copies_; ++u) {
        const int r = b_.reg("acc", integer);
        accumulators_[{int(i), p.number, u}] = r;
        put({Op{integer ? "vi_set" : "vf_set", r, false, {identity(s.reduce, integer)}}});
      }
  }
  if (!c_.plan.interleaved() || c_.addressing[size_t(c_.plan.operand_b)].correction < 0) return;
  for (const Point& p : points_) {  // the panel's sums follow it: 4 bytes a lane, as wide as a group of four bytes
    const Addressing& m = c_.addressing[size_t(c_.plan.operand_b)];
    point_ = &p;
    Address where = address(m, "packed");
    where.offset = where.offset + Int(m.correction);
    corrections_.push_back(where);
  }
}

/// At the end: sums that begin at zero need no register before their first product (8 x 3 sums of 64 bytes 30.2 us, begun with these 28.0;
/// Zen 5).
void Tile::add_corrections() {
  for (const Point& p : points_) {
    point_ = &p;
    const int acc = accumulators_.at({0, p.number, 0});
    assign(acc, "add", {Reg{acc}, pure("vi_load_group", true, {corrections_[size_t(p.number)]}, "correction").arg});
  }
}

void Tile::reduce(size_t level) {
  if (!c_.nest.has_reduction() || level == c_.plan.reduce_order.size()) return body();
  const int a = c_.plan.reduce_order[level];
  const rtile::Blocking& t = c_.plan.tile[size_t(a)];
  const bool chunked = params_.begin[size_t(a)] >= 0;
  const bool vectors = a == vec_;
  const int64_t unit = a == c_.plan.k_axis ? c_.plan.k_step : vectors ? W_ : 1;
  const bool made_up = a == c_.plan.k_axis && c_.plan.operands[size_t(c_.plan.operand_a)].whole_steps;
  const int64_t extent = round_up(c_.nest.axes[size_t(a)].extent, made_up ? unit : 1);
  const int64_t step = unit * t.hi;
  const rtile::PaddedTaps* taps = c_.plan.taps_along(a);
  using LeftOut = rtile::NestPlan::LeftOut;
  const LeftOut left_out = taps ? c_.plan.left_out(*taps) : LeftOut::nowhere;
  const bool by_points = left_out == LeftOut::points;
  if (by_points && t.hi == 1) return write_out(level, *taps);
  const auto at = [&](const Int& value, int64_t count) {  // `count` units from `value`
    for (int64_t u = 0; u < count; ++u) {
      reduced_[size_t(a)] = value + Int(u * unit);
      unrolled_ = vectors ? u : unrolled_;
      const std::set<int> before = left_out_;
      if (by_points) left_out_.merge(outside(*taps).always);
      if (left_out == LeftOut::steps && v_.guarded)
        when(
            reads_inside(*taps, reduced_[size_t(a)]), [&] { reduce(level + 1); }, [] {});
      else
        reduce(level + 1);
      left_out_ = before;
    }
  };
  const auto loop = [&](const Int& begin, const Int& end, int64_t stride, int64_t count, int64_t hi,
                        const rtile::PaddedTaps* within = nullptr) {
    const int v = b_.variable(c_.nest.axes[size_t(a)].name, 0, hi);
    auto body = std::make_shared<Body>();
    scopes_.emplace_back();
    scopes_.back().var = v;
    const int64_t before = std::exchange(products_, 0);
    to_write_out_ = 0;  // results wait no longer than until here
    knowing(within ? reads_inside(*within, Int::var(v)) : std::vector<Int>{}, [&] { at(Int::var(v), count); });
    if (c_.plan.form == AtomForm::matrix) store_now_and_then();
    products_ = before + products_ * extent / step;
    *body = asked();
    Body steps = ordered(std::move(scopes_.back().body));
    std::move(steps.begin(), steps.end(), std::back_inserter(*body));
    scopes_.pop_back();
    if (level + 1 == c_.plan.reduce_order.size()) hold_sums(*body);
    put({For{v, begin, end, stride, std::move(body)}});
  };
  const int64_t whole = extent / unit * unit;  // elements in whole units
  const auto rest = [&] {
    active_ = int(extent - whole);
    reduced_[size_t(a)] = Int(whole);
    unrolled_ = vectors ? 0 : unrolled_;
    reduce(level + 1);
    active_ = 0;
  };
  if (whole < extent && a == c_.plan.k_axis && c_.plan.form == AtomForm::matrix) {
    active_ = int(extent - whole), reduced_[size_t(a)] = Int(whole);
    copy_partial_rows();
    active_ = 0;
  }
  if (left_out == LeftOut::tiles) {
    const Int begin = chunked ? Int::var(params_.begin[size_t(a)]) : Int(0), end = chunked ? Int::var(params_.end[size_t(a)]) : Int(extent);
    const auto [from, to] = inside(*taps, begin, end);
    const bool front = to_write_out_ > 0 && b_.range(from).second < b_.range(to).first;
    if (front) knowing(reads_inside(*taps, from), [&, first = from] { at(first, 1); });
    return loop(front ? from + Int(1) : from, to, 1, 1, extent - 1, taps);
  }
  if (chunked && !c_.plan.chunked()) {  // a warp's part of a tile's rows; what is left of a vector is the last one's
    const Int begin = Int::var(params_.begin[size_t(a)]), end = Int::var(params_.end[size_t(a)]);
    const int64_t units = t.units(), equal = units % c_.tile_warps == 0 && whole == units * unit ? units / c_.tile_warps * unit : 0;
    if (equal > 0) {  // as many steps for all, known to the compiler
      const int64_t main = equal / step * step;
      if (main == step)
        at(begin, t.hi);
      else if (main > 0)
        loop(begin, begin + Int(main), step, t.hi, extent - step);
      if (main < equal) at(begin + Int(main), (equal - main) / unit);
    } else {
      const int mid = b_.variable("mid", 0, whole), count = b_.variable("n", 0, whole / step);
      put({LetInt{LetInt::Op::floor_div, count, end - begin, Int(step)}});
      put({LetInt{LetInt::Op::value, mid, begin + Int::var(count, step), Int(0)}});
      if (whole >= step) loop(begin, Int::var(mid), step, t.hi, whole - step);
      if (whole >= unit && t.hi > 1) loop(Int::var(mid), end, unit, 1, whole - unit);
    }
    if (whole < extent) when({Int::var(c_.warp) - Int(c_.tile_warps - 1)}, rest, [] {});
    return;
  }
  if (chunked) {  // chunks are multiples of the unrolling but for the last; a unit is never split between chunks
    const Int begin = Int::var(params_.begin[size_t(a)]), end = Int::var(params_.end[size_t(a)]);
    if (step == unit || (extent % step == 0 && chunk_step(a) % step == 0)) {
      loop(begin, end, step, t.hi, extent - step);
    } else {
      const int mid = b_.variable("mid", 0, extent);
      const int count = b_.variable("n", 0, extent / step + 1);
      put({LetInt{LetInt::Op::floor_div, count, end - begin, Int(step)}});
      put({LetInt{LetInt::Op::value, mid, begin + Int::var(count, step), Int(0)}});
      loop(begin, Int::var(mid), step, t.hi, extent - step);
      loop(Int::var(mid), end, unit, 1, extent - unit);
    }
    return;
  }
  if (t.hi * unit >= whole) {
    at(Int(0), extent / unit);
  } else {
    const int64_t front = written_out(level), main = front + (whole - front) / step * step;
    at(Int(0), front / unit);
    if (main > front) loop(Int(front), Int(main), step, t.hi, main - step);
    if (main < whole) {
      if (whole - main <= kRest * unit)
        at(Int(main), (whole - main) / unit);
      else
        loop(Int(main), Int(whole), unit, 1, whole - unit);
    }
  }
  if (whole < extent) rest();
}

int64_t Tile::written_out(size_t level) const {
  if (to_write_out_ == 0) return 0;
  const int axis = c_.plan.reduce_order[level];
  const int64_t unit = axis == c_.plan.k_axis ? c_.plan.k_step : 1, whole = c_.nest.axes[size_t(axis)].extent / unit;
  int64_t inner = 1;
  for (size_t i = level + 1; i < c_.plan.reduce_order.size(); ++i) inner *= c_.plan.steps_along(c_.nest, c_.plan.reduce_order[i]);
  return std::min(whole, round_up(ceil_div(to_write_out_, inner), c_.plan.tile[size_t(axis)].hi)) * unit;
}

void Tile::hold_sums(Body& body) const {
  if (!in_place_ || accumulators_.empty()) return;
  Op hold{"hold", -1, false, {}};
  for (const auto& [where, sum] : accumulators_) hold.args.push_back(Reg{sum});
  body.insert(body.begin(), {hold});
  body.push_back({hold});
}

int64_t Tile::chunk_step(int axis) const {
  for (const rtile::Loop& l : c_.plan.loops)
    if (l.axis == axis) return l.step;
  return 1;
}

void Tile::body() {
  if (c_.plan.form == AtomForm::matrix) return tile_body();
  if (c_.plan.form == AtomForm::warp) return fragment_body();
  std::set<std::string> before;
  if (!c_.plan.window)
    for (const auto& [key, value] : scope().values) before.insert(key);
  if (slides_) effect("reload", {});  // else the compiler would keep what this step does not
  for (const Point& p : points_) {
    if (left_out_.count(p.number)) continue;
    point_ = &p;
    for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
      const Statement& s = c_.nest.inner[i];
      if (s.reduce == ir::ReduceOp::none)
        define(s);
      else
        accumulate(s, accumulators_.at({int(i), p.number, copies_ > 1 ? unrolled_ : 0}));
    }
    if (c_.nest.has_reduction())  // values of this point of the reduction are gone at the next
      std::erase_if(made_, [&](const auto& m) { return m.first.second == p.number; });
  }
  // keeping what only a later step might use would take the registers that the accumulators need, but for vectors that were taken apart:
  // each of the next steps uses one
  if (c_.plan.window || !c_.nest.has_reduction()) return;
  const bool more = more_of_separated();
  std::erase_if(scope().values, [&](const auto& v) { return v.first.starts_with(kSeparated) ? !more : !before.count(v.first); });
}

bool Tile::more_of_separated() const {
  // without products little is between the loads, which wait for memory: two by two maxima are 0.85 to 1.2 times as fast, mostly slower
  return c_.contraction && std::any_of(c_.plan.operands.begin(), c_.plan.operands.end(), [&](const Operand& o) {
           return o.neighbours > 0 && !is_output(o.transpose_axis) && reduced_[size_t(o.transpose_axis)].constant < o.neighbours - 1;
         });
}

bool Tile::shares_many() const {
  constexpr int64_t kMany = 24, kBesideLoop = 12;  // that no compiler has registers for beside the sums, or beside those of a loop
  if (!c_.contraction || slides_ || c_.plan.loops.empty()) return false;
  int64_t steps = 1;  // that are written out before, behind or without a loop
  bool loop = false;
  for (int a : c_.plan.reduce_order) {
    const rtile::Blocking& t = c_.plan.tile[size_t(a)];
    const int64_t whole = t.extent / t.unit, trips = whole / t.hi, rest = whole % t.hi;
    if (loop) return false;  // around this one
    loop = trips >= 2;
    steps *= (loop ? 0 : trips * t.hi) + (rest <= kRest || trips == 0 ? rest : 0) + int64_t(t.extent % t.unit != 0);
  }
  const int next = c_.plan.loops.back().axis;
  return std::any_of(c_.plan.operands.begin(), c_.plan.operands.end(), [&](const Operand& o) {
    std::set<int> along;
    for (const ir::Index& i : o.access.index)
      for (const ir::Index::Term& t : i.terms) along.insert(t.axis);
    int64_t values = steps;
    for (int a : along)
      if (is_output(a)) values *= v_.size[size_t(a)];
    return !along.count(next) && values > (loop ? kBesideLoop : kMany);
  });
}

bool Tile::slides() const {
  if (c_.plan.window) return false;
  return std::any_of(c_.plan.operands.begin(), c_.plan.operands.end(), [&](const Operand& o) {
    return std::any_of(o.access.index.begin(), o.access.index.end(), [&](const ir::Index& i) {
      bool by_tile = false, by_reduction = false;
      for (const ir::Index::Term& t : i.terms) is_output(t.axis) ? by_tile |= v_.size[size_t(t.axis)] > 1 : by_reduction = true;
      return by_tile && by_reduction;
    });
  });
}

const ir::Binary* Tile::product(const ExprPtr& e) {
  const ir::Binary* b = std::get_if<ir::Binary>(&e->node);
  return b && b->op == ir::BinaryOp::mul ? b : nullptr;
}

bool Tile::zero_beyond(const ir::Expr& e) const {
  return std::visit(ir::overloaded{[&](const ir::Access& a) {
                                     const rtile::Linear l =
                                         rtile::linearise(a.index, rtile::const_sizes(c_.program[a.tensor].strides), n_axes_);
                                     return !made_.count({a.tensor, point_->number}) && a.out_of_bounds.value_or(0) == 0 &&
                                            rtile::is_affine(a.index) && l.coef[size_t(vec_)] != 0;
                                   },
                                   [&](const ir::Cast& c) { return zero_beyond(*c.x); },
                                   [&](const ir::Binary& b) {
                                     const bool sums = b.op == ir::BinaryOp::add || b.op == ir::BinaryOp::sub || b.op == ir::BinaryOp::mul;
                                     return sums && zero_beyond(*b.x) && zero_beyond(*b.y);
                                   },
                                   [](const auto&) { return false; }},
                    e.node);
}

void Tile::accumulate(const Statement& s, int acc) {
  const bool integer = integer_sum(s);
  if (c_.plan.form == AtomForm::group) return accumulate_group(acc);
  const bool masked = vec_reduced_ && active_ != 0 && !(s.reduce == ir::ReduceOp::sum && zero_beyond(*s.value));
  if (const ir::Binary* p = s.reduce == ir::ReduceOp::sum && !integer && !masked ? product(s.value) : nullptr) {
    const Value x = vectorised(as_float(eval(p->x))), y = vectorised(as_float(eval(p->y)));
    return put({Op{"vf_fma", acc, true, {x.arg, y.arg, Reg{acc}}, in_place_ || one_each_, one_each_}});
  }
  Value v = vectorised(eval(s.value));
  if (!integer) v = as_float(v);
  if (integer && !v.integer) v = pure("vi_from_vf_rne", true, {v.arg}, "n");
  if (masked) {
    const Value iota = pure("vi_iota", true, {}, "iota"), n = pure("vi_set", true, {Int(active_)}, "c");
    const Value in = pure("vi_lt", true, {iota.arg, n.arg}, "in");
    const Value none = vectorised({identity(s.reduce, integer), integer});
    v = pure(integer ? "vi_select" : "vf_select", integer, {in.arg, v.arg, none.arg}, "v");
  }
  assign(acc, combine(s.reduce, integer), {Reg{acc}, v.arg});
}

void Tile::accumulate_group(int acc) {
  const Operand& a = c_.plan.operands[size_t(c_.plan.operand_a)];
  const Addressing& ma = c_.addressing[size_t(c_.plan.operand_a)];
  const Addressing& mb = c_.addressing[size_t(c_.plan.operand_b)];
  const DType ta = c_.program[a.access.tensor].dtype;
  const Address pa = address(ma, c_.program[a.access.tensor].name), pb = address(mb, "packed");
  // all of the last group may be read where the other factor has zeros, which make any integers none
  const char* const part = ma.groups && mb.padded ? "vi_bcast_group_of" : "vi_bcast_group_n";
  Value va = active_ == 0 ? broadcast(a, "vi_bcast_group", true, {pa}) : broadcast(a, part, true, {pa, Int(active_ * size_of(ta))});
  const Operand& b = c_.plan.operands[size_t(c_.plan.operand_b)];
  const DType tb = c_.program[b.access.tensor].dtype;
  const std::string load_b = "vi_load_group" + (c_.plan.widens_b(size_of(tb)) ? "_" + std::string(to_string(tb)) : "");
  const Value vb = shared_load(b, load_b, true, {pb}, "b");
  if (c_.plan.offset_a && !c_.plan.copy_flips()) {
    const Value flip = pure("vi_set", true, {Int(kSignBits)}, "flip");
    // a compiler that knew all lanes to be alike would flip before it broadcasts, by way of the other registers
    const size_t made = reg_depth(std::get<Reg>(flip.arg).id);
    if (Op* op = std::get_if<Op>(&scopes_[made].body.back().node); op && op->result == std::get<Reg>(flip.arg).id) op->keep = true;
    va = pure("xor", true, {va.arg, flip.arg}, c_.program[a.access.tensor].name);
  }
  assign(acc, std::string(rtile::find_atom_row(c_.plan.atom->name)->primitive), {Reg{acc}, va.arg, vb.arg});
}

void Tile::finish_rows() {
  const size_t axis = size_t(c_.plan.finish_axis);
  std::vector<Point> vectors;
  std::vector<std::vector<Value>> results;  // per vector, of each statement
  for (const Point& first : points_) {
    if (first.offset[axis] % W_ != 0) continue;
    const int lanes = int(std::min<int64_t>(W_, v_.size[axis] - first.offset[axis]));
    const int rows = int(std::bit_ceil(unsigned(lanes)));
    vectors.push_back({first.offset, lanes, int(vectors.size())});
    results.emplace_back();
    for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
      const Statement& s = c_.nest.inner[i];
      if (s.reduce == ir::ReduceOp::none) {
        results.back().emplace_back();
        continue;
      }
      const bool integer = integer_sum(s);
      const int r = rows_along(c_.plan.finish_axis, first, rows, integer, [&](const Point& p) {
        return Reg{accumulators_.at({int(i), p.number, 0})};
      });
      results.back().push_back({Reg{b_.reg("v", integer)}, integer});
      const std::string op = horizontal(s.reduce, integer).substr(4);  // vf_hsum → vf_rows_sum
      put({Op{(integer ? "vi_rows_" : "vf_rows_") + op, std::get<Reg>(results.back().back().arg).id, false, {Reg{r}, Int(rows)}}});
    }
  }
  vec_ = c_.plan.finish_axis, vec_reduced_ = false;
  points_ = std::move(vectors);
  made_.clear();
  for (const Point& p : points_) {
    point_ = &p;
    for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
      const Statement& s = c_.nest.inner[i];
      if (s.reduce == ir::ReduceOp::none) continue;
      const Value& v = results[size_t(p.number)][i];
      made_[{s.tensor, p.number}] = v;
      if (s.store) store(s, v);
    }
  }
}

void Tile::finish_accumulators() {
  if (!corrections_.empty()) add_corrections();
  // pairwise over the independent copies
  for (const Point& p : points_)
    for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
      const Statement& s = c_.nest.inner[i];
      if (s.reduce == ir::ReduceOp::none) continue;
      for (int64_t half = 1; half < copies_; half *= 2)
        for (int64_t u = 0; u + half < copies_; u += 2 * half) {
          const int x = accumulators_.at({int(i), p.number, u}), y = accumulators_.at({int(i), p.number, u + half});
          assign(x, combine(s.reduce, integer_sum(s)), {Reg{x}, Reg{y}});
        }
    }
  if (c_.plan.finish_axis >= 0) return finish_rows();
  if (vec_reduced_ && vector_code())
    for (const Point& p : points_)
      for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
        const Statement& s = c_.nest.inner[i];
        if (s.reduce == ir::ReduceOp::none) continue;
        const int acc = accumulators_.at({int(i), p.number, 0});
        assign(acc, horizontal(s.reduce, integer_sum(s)), {Reg{acc}});
      }
  if (!c_.partials.empty()) meet();
  if (c_.plan.chunked() && c_.plan.form != AtomForm::matrix)
    when(
        {before_ - Int(1)}, [&] { add_partial_sums(); }, [] {});
}

std::pair<Address, int64_t> Tile::partial(size_t i) {
  const std::vector<int64_t> none(size_t(n_axes_), 0);
  std::vector<int64_t> stride = none;
  int64_t results = 1;
  for (int a = n_axes_; a-- > 0;) {
    if (!is_output(a) || a == vec_) continue;
    stride[size_t(a)] = results, results *= c_.nest.axes[size_t(a)].extent;
  }
  const int64_t together = one_number() ? c_.tile_warps : round_up(c_.nest.axes[size_t(vec_)].extent, W_);
  for (int64_t& s : stride) s *= together;
  if (is_output(vec_)) stride[size_t(vec_)] = one_number() ? together * results : 1;
  Addressing m{c_.partials[i], stride, none, stride, none, 0};
  m.tile_local = true;
  return {address(m, "partial"), one_number() ? 1 : results * together};
}

void Tile::meet() {
  const auto for_each_result = [&](const std::function<void(const Statement&, int, const Address&, int64_t)>& visit) {
    for (const Point& p : points_) {
      point_ = &p;
      for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
        const Statement& s = c_.nest.inner[i];
        if (s.reduce == ir::ReduceOp::none) continue;
        const auto [first, stride] = partial(i);
        visit(s, accumulators_.at({int(i), p.number, 0}), first, stride);
      }
    }
  };
  const auto family = [&](const Statement& s) { return std::string(integer_sum(s) ? "vi_" : "vf_"); };
  const auto type = [&](const Statement& s) { return std::string(integer_sum(s) ? "s32" : "f32"); };
  for_each_result([&](const Statement& s, int acc, const Address& first, int64_t stride) {
    const Address own{first.pointer, first.offset + Int::var(c_.warp, stride)};
    if (one_number())
      effect(family(s) + "store_" + type(s) + "_n", {own, Reg{acc}, Int(1)});
    else
      effect(family(s) + "store_" + type(s), {own, Reg{acc}});
  });
  effect("block_sync", {});
  for_each_result([&](const Statement& s, int acc, const Address& first, int64_t stride) {
    const bool integer = integer_sum(s);
    if (one_number()) {  // a lane takes a warp's
      assign(acc, family(s) + "load_" + type(s) + "_range", {first, Int(0), Int(c_.tile_warps), identity(s.reduce, integer)});
      return assign(acc, horizontal(s.reduce, integer), {Reg{acc}});
    }
    assign(acc, family(s) + "load_" + type(s), {first});
    for (int w = 1; w < c_.tile_warps; ++w) {
      const int other = define_reg(scopes_.size() - 1, "other", integer, family(s) + "load_" + type(s),
                                   {Address{first.pointer, first.offset + Int(w * stride)}});
      assign(acc, combine(s.reduce, integer), {Reg{acc}, Reg{other}});
    }
  });
}

void Tile::for_each_partial(const std::function<void(int, const Statement&, const Address&)>& visit) {
  for (const Point& p : points_) {
    point_ = &p;
    for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
      const Statement& s = c_.nest.inner[i];
      if (s.reduce != ir::ReduceOp::none) visit(int(i), s, address(statement_addressing(s, c_.accumulator[i]), "partial"));
    }
  }
}

Value Tile::load_partial(const Statement& s, const Address& at) {
  const bool integer = integer_sum(s);
  const std::string load = integer ? "vi_load_s32" : "vf_load_f32";
  const int lanes = point_->lanes;
  return lanes == physical() ? pure(load, integer, {at}, "before") : pure(load + "_n", integer, {at, Int(lanes)}, "before");
}

void Tile::add_partial_sums() {
  for_each_partial([&](int i, const Statement& s, const Address& at) {
    const int acc = accumulators_.at({i, point_->number, 0});
    assign(acc, combine(s.reduce, integer_sum(s)), {Reg{acc}, load_partial(s, at).arg});
  });
}

void Tile::store_partial_sums() {
  for_each_partial([&](int i, const Statement& s, const Address& at) {
    const std::string store = integer_sum(s) ? "vi_store_s32" : "vf_store_f32";
    const Reg acc{accumulators_.at({i, point_->number, 0})};
    if (point_->lanes == physical())
      effect(store, {at, acc});
    else
      effect(store + "_n", {at, acc, Int(point_->lanes)});
  });
}

}  // namespace rgen::lower
