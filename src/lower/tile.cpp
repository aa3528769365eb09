// The register tile: its points, its elementwise statements and its stores.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "lower/tile.h"
#include "rtile/layout.h"

namespace rgen::lower {

static std::string lower_case(DType t) { return std::string(to_string(t)); }

namespace {

/// Of a body without loops, pointers from which more places are addressed than GCC follows from tile to tile (it considers 40 of them, and
/// keeps what it steps on the stack: 3 × 3 maxima with stride 2, four rows a tile, 27 gathers of two loads, 45 addresses there: 99 µs; 51).
void mark_bases(const LoopProgram& program, Body& body) {
  constexpr size_t kMany = 48;
  std::map<int, std::set<std::pair<int64_t, bool>>> places;
  bool loops = false;
  const std::function<void(const Body&)> count = [&](const Body& b) {
    for (const Stmt& s : b) {
      loops |= std::holds_alternative<For>(s.node);
      if (const If* i = std::get_if<If>(&s.node)) count(*i->then), count(*i->otherwise);
      const Op* o = std::get_if<Op>(&s.node);
      if (!o) continue;
      for (const Arg& a : o->args)
        if (const Address* m = std::get_if<Address>(&a); m && m->offset.terms.empty()) {
          places[m->pointer].insert({m->offset.constant, false});
          if (o->primitive.find("gather") != std::string::npos) places[m->pointer].insert({m->offset.constant, true});
        }
    }
  };
  count(body);
  for (Stmt& s : body)
    if (LetPtr* l = std::get_if<LetPtr>(&s.node))
      l->base = !loops && program.buffers[size_t(program.pointers[size_t(l->pointer)].buffer)].kind != Buffer::Kind::local &&
                places[l->pointer].size() >= kMany;
}

}  // namespace

Body Tile::emit() {
  if (c_.plan.form == AtomForm::matrix) {
    multiply_tiles();
  } else if (c_.plan.form == AtomForm::warp) {
    multiply_fragments();
  } else if (c_.plan.form == AtomForm::staged) {
    load_sums();
  } else {
    if (shares_many()) effect("reload", {});
    start_accumulators();
    reduce(0);
  }
  finishing_ = true;
  if (c_.nest.has_reduction()) finish_accumulators();
  if (c_.plan.chunked())
    when(
        {Int(0) - after_}, [&] { epilogue(); },
        [&] {
          if (c_.plan.form != AtomForm::matrix) store_partial_sums();
        });
  else
    epilogue();
  if (c_.plan.form == AtomForm::matrix) restore_shapes();
  Body body = ordered(std::move(scopes_[0].body));
  if (!b_.program.warps()) mark_bases(b_.program, body);
  return body;
}

void Tile::epilogue() {
  const bool late = c_.plan.form == AtomForm::matrix;  // each sum is loaded where it is used
  const auto sums = [&](const Point& p) {
    point_ = &p;
    for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
      const Statement& s = c_.nest.inner[i];
      if (s.reduce == ir::ReduceOp::none) continue;
      const int sum = late ? load_sum(p) : accumulators_.at({int(i), p.number, 0});
      const Value v = made_[{s.tensor, p.number}] = {Reg{sum}, integer_sum(s)};
      if (s.store) store(s, v);
    }
  };
  if (c_.plan.finish_axis < 0 && !late) std::for_each(points_.begin(), points_.end(), sums);
  for (const Point& p : points_) {
    if (late) sums(p);
    point_ = &p;
    for (const Statement& s : c_.nest.outer) define(s);
  }
  flush_transposed_stores();
}

void Tile::enumerate_points() {
  const std::vector<int> axes = c_.plan.point_axes(c_.nest);
  std::vector<int64_t> offset(size_t(n_axes_), 0);
  const std::function<void(size_t)> walk = [&](size_t level) {
    if (level == axes.size()) {
      Point p{offset, is_output(vec_) ? W_ : 1, int(points_.size())};
      if (is_output(vec_) && offset[size_t(vec_)] == (v_.size[size_t(vec_)] - 1) * W_) p.lanes = v_.tail;
      points_.push_back(std::move(p));
      return;
    }
    const size_t axis = size_t(axes[level]);
    const int64_t unit = axes[level] == vec_ ? W_ : 1;
    for (int64_t o = 0; o < v_.size[axis]; ++o) {
      offset[axis] = o * unit;
      walk(level + 1);
    }
    offset[axis] = 0;
  };
  walk(0);
}

void Tile::define(const Statement& s) {
  const DType kept = c_.program[s.tensor].dtype;
  // a store rounds to its type by itself
  const ir::Cast* cast = std::get_if<ir::Cast>(&s.value->node);
  const bool rounds = cast && cast->dtype == kept && (kept == DType::bf16 || kept == DType::f16);
  const Value v = vectorised(eval(rounds ? cast->x : s.value));
  if (s.store) store(s, rounds ? as_float(v) : v);
  bool read = false;
  c_.nest.for_each_statement(
      [&](const Statement& other) { ir::for_each_access(*other.value, [&](const Access& a) { read |= a.tensor == s.tensor; }); });
  if (read) made_[{s.tensor, point_->number}] = eval_cast(kept, v);
}

Addressing Tile::statement_addressing(const Statement& s, const Location& at) const {
  const std::vector<int64_t> none(size_t(n_axes_), 0);
  if (c_.combined >= 0) {
    std::vector<int64_t> coef = none;
    coef[size_t(c_.plan.combining->rows)] = c_.plan.buffered_pitch(), coef[size_t(c_.plan.combining->along)] = 1;
    Addressing m{c_.combined, coef, none, coef, none, rtile::WriteCombining::kLine};
    m.combined = true;
    return m;
  }
  const rtile::Linear l = rtile::linearise(s.index, at.strides, n_axes_);
  return {at.buffer, l.coef, none, l.coef, none, l.constant, at.tile_local};
}

void Tile::store(const Statement& s, const Value& v) {
  if (c_.plan.store_transpose_axis >= 0 && (finishing_ || !c_.nest.has_reduction()) && stores_transposed(s)) {
    for (Pending& p : pending_)
      if (p.statement == &s) {
        p.by_point[point_->number] = v;
        return;
      }
    pending_.push_back({&s, {{point_->number, v}}});
    return;
  }
  // what all warps of a tile have, the first stores for all
  if (c_.warp >= 0 && rtile::by_all_warps(c_.nest, c_.plan, s) && !c_.location.at(s.tensor).tile_local)
    return when(
        {Int(0) - Int::var(c_.warp)}, [&] { store_at(s, v); }, [] {});
  store_at(s, v);
}

void Tile::store_at(const Statement& s, const Value& v) {
  const Addressing m = statement_addressing(s, c_.location.at(s.tensor));
  const int64_t stride = vector_code() ? m.inside[size_t(vec_)] : 0;
  int lanes = vec_reduced_ ? (stride == 0 ? 1 : active_ ? active_ : W_) : point_->lanes;
  if (!vector_code()) lanes = 1;
  const Address where = address(m, c_.program[s.tensor].name);
  const bool full = lanes == physical();
  if (stride == 0 || stride == 1) {
    store_first(s, v.integer, where, v.arg, stride == 0 && !full ? 1 : lanes);
    return;
  }
  const std::string family = v.integer ? "vi_" : "vf_", type = lower_case(c_.program[s.tensor].dtype);
  if (full)
    effect(family + "scatter_" + type, {where, Int(stride), v.arg});
  else
    effect(family + "scatter_" + type + "_n", {where, Int(stride), v.arg, Int(lanes)});
}

void Tile::store_first(const Statement& s, bool integer, const Address& to, const Arg& vector, int64_t lanes) {
  const std::string family = integer ? "vi_" : "vf_", type = lower_case(c_.program[s.tensor].dtype);
  const Buffer& b = b_.program.buffers[size_t(c_.location.at(s.tensor).buffer)];
  const bool past = c_.plan.stream && c_.combined < 0 && b.kind == Buffer::Kind::output && b.dtype == DType::f32 && !integer;
  if ((lanes == physical() || ends_row(s)) && !v_.part)
    effect(family + (past ? "stream_" : "store_") + type, {to, vector});
  else
    effect(family + "store_" + type + "_n", {to, vector, v_.part ? Int::var(params_.part) : Int(lanes)});
}

bool Tile::ends_row(const Statement& s) const {
  const Location& at = c_.location.at(s.tensor);
  if (at.room == Location::Room::none || !vector_code() || c_.plan.store_transpose_axis >= 0) return false;
  const ir::Index& i = s.index.back();
  if (i.coef(vec_) != 1 || i.terms.size() != 1 || i.constant != 0) return false;
  // the last vector of the axis; results that tiles finish together follow one another, and of a single row the next tile's come later
  return vec_ != c_.plan.finish_axis || at.room == Location::Room::anywhere || c_.plan.tile[size_t(vec_)].blocks == 1;
}

bool Tile::stores_transposed(const Statement& s) const {
  const rtile::Linear l = rtile::linearise(s.index, c_.location.at(s.tensor).strides, n_axes_);
  return l.coef[size_t(c_.plan.store_transpose_axis)] == 1 && l.coef[size_t(vec_)] != 1;
}

int Tile::rows_along(int axis, const Point& first, int rows, bool integer, const std::function<Arg(const Point&)>& vector) {
  const int r = b_.reg("rows", integer, rows);
  int filled = 0;
  for (const Point& p : points_) {
    bool same = true;
    for (int a = 0; a < n_axes_; ++a) same &= a == axis || p.offset[size_t(a)] == first.offset[size_t(a)];
    const int64_t row = p.offset[size_t(axis)] - first.offset[size_t(axis)];
    if (!same || row < 0 || row >= rows) continue;
    put({Op{"copy", r, true, {Reg{r, int(row)}, vector(p)}}});
    ++filled;
  }
  for (; filled < rows; ++filled) put({Op{integer ? "vi_set" : "vf_set", r, true, {Reg{r, filled}, 0.0}}});
  return r;
}

void Tile::flush_transposed_stores() {
  const int t = c_.plan.store_transpose_axis;
  for (const Pending& pending : pending_) {
    const Statement& s = *pending.statement;
    const Addressing m = statement_addressing(s, c_.location.at(s.tensor));
    if (c_.plan.store_neighbours > 0 && m.inside[size_t(vec_)] == c_.plan.store_neighbours) {
      store_interleaved(pending, m);
      continue;
    }
    for (const Point& p : points_) {
      if (p.offset[size_t(t)] % W_ != 0) continue;
      const int64_t along = std::min<int64_t>(W_, v_.size[size_t(t)] - p.offset[size_t(t)]);
      const bool integer = pending.by_point.at(p.number).integer;
      const int r = rows_along(t, p, W_, integer, [&](const Point& q) { return pending.by_point.at(q.number).arg; });
      effect(integer ? "vi_transpose" : "vf_transpose", {Reg{r}});
      point_ = &p;
      const Address where = address(m, c_.program[s.tensor].name);
      for (int l = 0; l < p.lanes; ++l) {
        const Address row{where.pointer, where.offset + Int(l * m.inside[size_t(vec_)])};
        store_first(s, integer, row, Reg{r, l}, along);
      }
    }
  }
}

void Tile::store_interleaved(const Pending& pending, const Addressing& m) {
  const Statement& s = *pending.statement;
  const int64_t n = c_.plan.store_neighbours;
  for (const Point& p : points_) {
    if (p.offset[size_t(c_.plan.store_transpose_axis)] != 0) continue;
    const bool integer = pending.by_point.at(p.number).integer;
    const int r =
        rows_along(c_.plan.store_transpose_axis, p, int(n), integer, [&](const Point& q) { return pending.by_point.at(q.number).arg; });
    effect(integer ? "vi_interleave" : "vf_interleave", {Reg{r}, Int(n)});
    point_ = &p;
    const Address where = address(m, c_.program[s.tensor].name);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t left = p.lanes * n - i * W_;
      const Address to{where.pointer, where.offset + Int(i * W_)};
      if (left > 0) store_first(s, integer, to, Reg{r, int(i)}, std::min<int64_t>(left, W_));
    }
  }
}

Body lower_epilogue(NestContext& context, const TileParams& params, const TileVariant& variant) {
  return Tile(context, params, variant).emit();
}

Proc tile_procedure(const NestContext& context, const TileParams& params, const TileVariant& variant, const std::string& name) {
  Proc p;
  p.name = name;
  for (size_t a = 0; a < context.nest.axes.size(); ++a)
    for (int v : {params.start[a], params.block[a], params.begin[a], params.end[a], params.base[a], context.origin[a]})
      if (v >= 0) p.params.push_back(v);
  for (int v : {variant.run ? params.run_from : -1, variant.run ? params.run_to : -1, variant.part ? params.part : -1, context.warp})
    if (v >= 0) p.params.push_back(v);
  return p;
}

Proc lower_tile(NestContext& context, const TileParams& params, const TileVariant& variant, const std::string& name) {
  Proc p = tile_procedure(context, params, variant, name);
  p.body = Tile(context, params, variant).emit();
  // inlined between the loops around it, a tile that goes on with sums from memory gets moves between registers in its own (GCC 12)
  p.apart = context.plan.apart || context.plan.chunked();
  return p;
}

}  // namespace rgen::lower
