// Operands of a tile: addresses, contiguous and strided vectors, broadcasts, guarded and transposed loads.
#include <algorithm>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/math.h"
#include "lower/tile.h"
#include "rtile/layout.h"
#include "rtile/nest_facts.h"

namespace rgen::lower {

static std::string lower_case(DType t) { return std::string(to_string(t)); }

/// An input that lies along the vectors, and is read where it lies.
static bool along_vectors(const NestContext& c, int operand) {
  const Operand& o = c.plan.operands[size_t(operand)];
  if (o.placement != Placement::direct || o.transposed || o.neighbours > 0 || !rtile::is_affine(o.access.index)) return false;
  const Addressing& m = c.addressing[size_t(operand)];
  return m.inside[size_t(c.plan.vec)] == 1 && c.builder.program.buffers[size_t(m.buffer)].kind == Buffer::Kind::input;
}

bool reads_on(const NestContext& c, int operand) { return c.plan.reads_on() && along_vectors(c, operand); }

bool masked_where_read(const NestContext& c, int operand) {
  if (!along_vectors(c, operand)) return false;
  const Operand& o = c.plan.operands[size_t(operand)];
  // a tile of one tap alone would bring lines of other rows, which it does not read
  const auto by_taps = [&](const ir::Index& i) {
    return std::any_of(c.plan.loops.begin(), c.plan.loops.end(),
                       [&](const rtile::Loop& l) { return c.nest.axes[size_t(l.axis)].reduced && i.uses(l.axis); });
  };
  const std::vector<int> guards = rtile::guarded_dims(c.program, o.access, c.nest.full_extents());
  return std::any_of(guards.begin(), guards.end(), [&](int d) {
    const ir::Index& i = o.access.index[size_t(d)];
    return i.uses(c.plan.vec) && !by_taps(i);
  });
}

Int Tile::start(int a, bool tile_local) const {
  Int i(0);
  if (params_.start[size_t(a)] >= 0) i = Int::var(params_.start[size_t(a)]);
  if (!tile_local && c_.origin[size_t(a)] >= 0) i = i + Int::var(c_.origin[size_t(a)]);
  return i;
}

std::pair<int64_t, int64_t> Tile::range(const Int& i) const {
  auto [lo, hi] = b_.range(i);
  for (int a = 0; a < n_axes_; ++a) {
    const int v = params_.start[size_t(a)];
    if (!is_output(a) || v < 0) continue;
    const int64_t unit = c_.plan.tile[size_t(a)].unit;
    const int64_t covered = (v_.size[size_t(a)] - 1) * unit + (a == c_.plan.vec ? v_.tail : unit);
    const int64_t excess = std::max<int64_t>(0, b_.program.variables[size_t(v)].hi - (c_.nest.axes[size_t(a)].extent - covered));
    for (const auto& [x, k] : i.terms)
      if (x == v) (k > 0 ? hi : lo) -= k * excess;
  }
  return {lo, hi};
}

bool Tile::holds(const Int& i) const {
  return range(i).first >= 0 ||
         std::any_of(known_.begin(), known_.end(), [&](const Int& k) { return k.terms == i.terms && k.constant <= i.constant; });
}

Int Tile::offset_of(const Addressing& m) const {
  Int i(m.constant);
  for (int a = 0; a < n_axes_; ++a) {
    if (is_output(a)) {
      if (m.value[size_t(a)]) i = i + start(a, m.tile_local) * m.value[size_t(a)];
      if (m.combined && params_.base[size_t(a)] >= 0) i = i - Int::var(params_.base[size_t(a)], m.value[size_t(a)]);
      if (m.block[size_t(a)]) i = i + block(a) * m.block[size_t(a)];
      const int64_t at = point_->offset[size_t(a)], within = a == c_.plan.vec && m.stream > 0 ? at % m.stream_columns : at;
      i = i + Int(within * m.inside[size_t(a)]);
      if (within != at) i = i + Int(at / m.stream_columns * m.stream);
    } else {
      i = i + reduced_[size_t(a)] * m.value[size_t(a)];
      if (m.chunk[size_t(a)]) i = i + Int::var(params_.begin[size_t(a)], m.chunk[size_t(a)]);
    }
  }
  return i;
}

Address Tile::address(const Addressing& m, const std::string& name, int64_t extra) {
  const Int whole = offset_of(m) + Int(extra);
  Int fixed(0), moving(whole.constant);
  for (const auto& [v, k] : whole.terms) {
    bool loop = false;
    for (size_t d = 1; d < scopes_.size(); ++d) loop |= scopes_[d].var == v;
    (loop ? moving : fixed) = (loop ? moving : fixed) + Int::var(v, k);
  }
  std::ostringstream key;
  key << m.buffer << '|';
  append(key, fixed);
  auto& pointers = scopes_[0].pointers;
  auto it = pointers.find(key.str());
  if (it == pointers.end()) {
    const int p = b_.pointer(m.buffer, name);
    scopes_[0].body.push_back({LetPtr{p, fixed}});
    it = pointers.emplace(key.str(), p).first;
  }
  return {it->second, moving};
}

Value Tile::load(const Access& a) {
  const int number = rtile::find_operand(c_.plan.operands, a);
  const Operand& o = c_.plan.operands[size_t(number)];
  const Addressing& m = c_.addressing[size_t(number)];
  if (!rtile::is_affine(a.index)) return load_quasi(a, m);
  if (v_.guarded && o.placement == Placement::direct)
    if (const auto guards = rtile::guarded_dims(c_.program, a, c_.nest.full_extents()); !guards.empty())
      return load_guarded(number, guards);
  return load_inside(number);
}

Op Tile::unguarded(int operand) {
  const Operand& o = c_.plan.operands[size_t(operand)];
  const Addressing& m = c_.addressing[size_t(operand)];
  const ir::Tensor& t = c_.program[o.access.tensor];
  const bool whole = (lanes() == W_ && !v_.part) || m.padded || reads_on(operand);
  const std::string family = is_float(t.dtype) ? "vf_" : "vi_", type = lower_case(t.dtype);
  const int64_t stride = vector_code() ? m.inside[size_t(vec_)] : 0;
  std::vector<Arg> args{address(m, t.name)};
  if (stride == 0) return {family + "bcast_" + type, -1, false, std::move(args)};
  if (stride != 1) args.push_back(Int(stride));
  if (!whole) args.push_back(v_.part ? Int::var(params_.part) : Int(lanes()));
  // nests of a GPU's tile read rows of an input again, which may wait in registers
  const bool in_group = std::any_of(c_.origin.begin(), c_.origin.end(), [](int from) { return from >= 0; });
  const bool again =
      b_.program.warps() && in_group && is_float(t.dtype) && b_.program.buffers[size_t(m.buffer)].kind == Buffer::Kind::input;
  return {family + (stride != 1 ? "gather_" : again ? "ldg_" : "load_") + type + (whole ? "" : "_n"), -1, false, std::move(args)};
}

bool Tile::reads_on(int operand) const { return lanes() < W_ && !v_.at_end && lower::reads_on(c_, operand); }

Value Tile::load_inside(int operand) {
  const Operand& o = c_.plan.operands[size_t(operand)];
  const Addressing& m = c_.addressing[size_t(operand)];
  if (o.neighbours > 0 && m.inside[size_t(vec_)] == o.neighbours) return load_separated(o, m);
  if (o.transposed && o.neighbours == 0) return load_transposed(o, m);
  const ir::Tensor& t = c_.program[o.access.tensor];
  Op load = unguarded(operand);
  const bool vector = vector_code() && m.inside[size_t(vec_)] == 1;
  if (vector) {
    const bool integer = !is_float(t.dtype);
    const Value v = shared_load(o, load.primitive, integer, std::move(load.args), t.name);
    // lanes past the end of a reduced axis are counted with the others
    return vec_reduced_ && reads_on(operand) ? pure(integer ? "vi_first" : "vf_first", integer, {v.arg, Int(lanes())}, "part") : v;
  }
  return broadcast(o, load.primitive, !is_float(t.dtype), std::move(load.args));
}

Value Tile::broadcast(const Operand& o, const std::string& primitive, bool integer, std::vector<Arg> args) {
  const size_t before = scope().values.size();
  const Address where = std::get<Address>(args.front());
  const Value v = pure(primitive, integer, std::move(args), c_.program[o.access.tensor].name);
  const bool fresh = scope().values.size() > before;
  if (fresh) ask_for_later(o, where);
  if (o.passes_by && fresh && reduced_[size_t(c_.plan.reduce_order.back())].constant == 0) fetch_row_ahead(o, where);
  if (o.slides >= 0 && fresh && first_read(o) && first_of_row(o))  // every other element of two vectors
    for (const int64_t vector : {int64_t{0}, int64_t(W_)}) fetch_ahead(o, {where.pointer, where.offset + Int(vector)});
  return v;
}

Value Tile::shared_load(const Operand& o, const std::string& primitive, bool integer, std::vector<Arg> args, const std::string& hint) {
  // GCC prefers a multiply-add's memory operand where a value has few uses, though the load ports are what binds then
  constexpr int64_t kFew = 4;
  const size_t before = scope().values.size();
  const Address where = std::get<Address>(args.front());
  const Value v = pure(primitive, integer, std::move(args), hint);
  if (scope().values.size() == before) return v;  // loaded before, or further out
  const bool few = c_.plan.window || (c_.contraction && uses(o.access) > 1 && uses(o.access) <= kFew);
  ask_for_later(o, where);
  if (!finishing_ && few) std::get<Op>(scope().body.back().node).keep = true;
  if (o.ahead > 0 && first_read(o) && begins_line(o, where)) fetch_ahead(o, where);
  if (o.in_order) effect("reload", {});
  return v;
}

int64_t Tile::uses(const Access& x) const {
  int64_t uses = 1;
  for (int a = 0; a < n_axes_; ++a)
    if (is_output(a) && !rtile::uses(x, a)) uses *= v_.size[size_t(a)];
  return uses;
}

Value Tile::load_quasi(const Access& a, const Addressing& m) {
  const ir::Tensor& tensor = c_.program[a.tensor];
  const bool integer = !is_float(tensor.dtype);
  const Location& at = c_.location.at(a.tensor);
  std::vector<Int> conditions;
  Int offset(0);
  for (size_t d = 0; d < a.index.size(); ++d) {
    Int i = affine(a.index[d]);
    if (at.tile_local)
      for (const ir::Index::Term& t : a.index[d].terms)
        if (c_.origin[size_t(t.axis)] >= 0) i = i - Int::var(c_.origin[size_t(t.axis)], t.coef);
    offset = offset + i * at.strides[d];
    if (a.out_of_bounds) {
      conditions.push_back(i);
      conditions.push_back(Int(tensor.shape[d].value() - 1) - i);
    }
  }
  const int p = b_.pointer(m.buffer, tensor.name);
  scopes_[0].body.push_back({LetPtr{p, Int(0)}});
  return conditional(std::move(conditions), (integer ? "vi_bcast_" : "vf_bcast_") + lower_case(tensor.dtype), {Address{p, offset}}, integer,
                     a.out_of_bounds.value_or(0));
}

Value Tile::conditional(std::vector<Int> conditions, const std::string& primitive, std::vector<Arg> args, bool integer, double fill) {
  const int r = b_.reg("x", integer);
  const bool never = std::any_of(conditions.begin(), conditions.end(), [&](const Int& i) { return range(i).second < 0; });
  std::erase_if(conditions, [&](const Int& i) { return holds(i); });
  if (never) return pure(integer ? "vi_set" : "vf_set", integer, {fill}, "c");
  if (conditions.empty()) {
    put({Op{primitive, r, false, std::move(args)}});
    return {Reg{r}, integer};
  }
  const bool warps = b_.program.warps();  // of a GPU: its lanes branch at little cost
  if (!warps && (primitive == "vf_bcast_f32" || primitive == "vf_load_f32")) {
    args.push_back(fill);
    args.insert(args.end(), conditions.begin(), conditions.end());
    put({Op{primitive + "_if", r, false, std::move(args)}});
    return {Reg{r}, integer};
  }
  put({Op{integer ? "vi_set" : "vf_set", r, false, {fill}}});
  auto then = std::make_shared<Body>();
  then->push_back({Op{primitive, r, true, std::move(args)}});
  put({If{conditions, std::move(then), std::make_shared<Body>()}});
  return {Reg{r}, integer};
}

Value Tile::load_guarded(int operand, const std::vector<int>& guards) {
  const Access& a = c_.plan.operands[size_t(operand)].access;
  const Addressing& m = c_.addressing[size_t(operand)];
  const ir::Tensor& tensor = c_.program[a.tensor];
  const bool integer = !is_float(tensor.dtype);
  const int64_t stride = vector_code() ? m.inside[size_t(vec_)] : 0;
  std::vector<Int> conditions;
  std::optional<std::pair<Int, Int>> lane_range;
  std::ostringstream key;
  const Address where = address(m, tensor.name);
  // two points may share an address though one of them is outside: the indices count, not the address
  key.precision(17);
  key << "guarded|" << where.pointer << '|' << lanes() << '|' << *a.out_of_bounds;
  for (int d : guards) {
    key << '|';
    append(key, affine(a.index[size_t(d)]));
  }
  key << '|';
  append(key, where.offset);
  if (const Value* value = known(key.str())) return *value;
  for (int d : guards) {
    const ir::Index& i = a.index[size_t(d)];
    const int64_t extent = tensor.shape[size_t(d)].value();
    const Int at = affine(i);
    const int64_t c = vector_code() ? i.coef(vec_) : 0;
    if (c == 0 && v_.sides) continue;  // rows inside
    if (c == 0) {
      conditions.push_back(at);
      conditions.push_back(Int(extent - 1) - at);
      continue;
    }
    // lanes l with 0 <= at + c·l < extent
    const Int below = c > 0 ? Int(c - 1) - at : at - Int(extent) + Int(-c);
    const Int above = c > 0 ? Int(extent + c - 1) - at : at + Int(-c);
    const int64_t by = std::abs(c);
    Int lo = range(below).second < by ? Int(0) : quotient("l", below, by);
    Int hi = range(above).first >= by * lanes() ? Int(lanes()) : quotient("l", above, by);
    if (lane_range) lo = chosen(LetInt::Op::max, lo, lane_range->first), hi = chosen(LetInt::Op::min, hi, lane_range->second);
    lane_range = {lo, hi};
  }
  if (lane_range && range(lane_range->first).second <= 0 && range(lane_range->second).first >= lanes()) lane_range.reset();
  std::erase_if(conditions, [&](const Int& i) { return holds(i); });
  if (conditions.empty() && !lane_range) return load_inside(operand);
  Op load = unguarded(operand);
  if (lane_range) {
    const Int hi = lanes() == W_ ? lane_range->second : chosen(LetInt::Op::min, lane_range->second, Int(lanes()));
    if (v_.sides && c_.plan.masks_are_vectors() && masked_where_read(c_, operand)) {
      const Value whole = pure((integer ? "vi_load_" : "vf_load_") + lower_case(tensor.dtype), integer, {where}, tensor.name);
      return pure(integer ? "vi_within" : "vf_within", integer, {whole.arg, lane_range->first, hi, *a.out_of_bounds}, "x");
    }
    load = {(integer ? "vi_" : "vf_") + std::string(stride == 1 ? "load_" : "gather_") + lower_case(tensor.dtype) + "_range",
            -1,
            false,
            {where}};
    if (stride != 1) load.args.push_back(Int(stride));
    load.args.insert(load.args.end(), {lane_range->first, hi, *a.out_of_bounds});
  }
  const Value v = conditional(conditions, load.primitive, std::move(load.args), integer, *a.out_of_bounds);
  scope().values.emplace(key.str(), v);
  return v;
}

Int Tile::chosen(LetInt::Op op, const Int& x, const Int& y) {
  const auto [xl, xh] = range(x);
  const auto [yl, yh] = range(y);
  const bool least = op == LetInt::Op::min;
  if (least ? xh <= yl : xl >= yh) return x;
  if (least ? yh <= xl : yl >= xh) return y;
  std::ostringstream key;
  key << (least ? "min|" : "max|");
  append(key, x);
  key << '|';
  append(key, y);
  if (const Value* value = known(key.str())) return std::get<Int>(value->arg);
  const int v = b_.variable("l", least ? std::min(xl, yl) : std::max(xl, yl), least ? std::min(xh, yh) : std::max(xh, yh));
  put({LetInt{op, v, x, y}});
  scope().values.emplace(key.str(), Value{Int::var(v), true});
  return Int::var(v);
}

Value Tile::load_transposed(const Operand& o, const Addressing& m) {
  const ir::Tensor& tensor = c_.program[o.access.tensor];
  const bool integer = !is_float(tensor.dtype);
  const std::string family = integer ? "vi_" : "vf_", type = lower_case(tensor.dtype);
  const int t = o.transpose_axis;
  const int64_t here = point_->offset[size_t(t)], group = here / W_ * W_;
  Point base = *point_;
  base.offset[size_t(t)] = group;
  const Point* saved = point_;
  point_ = &base;
  const Address where = address(m, c_.program[o.access.tensor].name);
  std::ostringstream key;
  key << "transposed|" << where.pointer << '|' << lanes() << '|';
  append(key, where.offset);
  Value array;
  if (const Value* value = known(key.str())) {
    array = *value;
  } else {
    const int r = b_.reg(c_.program[o.access.tensor].name, integer, W_);
    const int64_t along = std::min<int64_t>(W_, v_.size[size_t(t)] - group);
    for (int l = 0; l < W_; ++l) {
      if (l >= lanes()) {
        put({Op{family + "set", r, true, {Reg{r, l}, 0.0}}});
        continue;
      }
      const Address row{where.pointer, where.offset + Int(l * m.inside[size_t(vec_)])};
      std::vector<Arg> args{Reg{r, l}, row};
      if (along < W_) args.push_back(Int(along));
      put({Op{family + "load_" + type + (along < W_ ? "_n" : ""), r, true, std::move(args)}});
      if (o.ahead > 0 && begins_line(o, row)) fetch_ahead(o, row);
    }
    effect(family + "transpose", {Reg{r}});
    array = {Reg{r}, integer};
    scope().values.emplace(key.str(), array);
  }
  point_ = saved;
  return {Reg{std::get<Reg>(array.arg).id, int(here - group)}, integer};
}

Value Tile::load_separated(const Operand& o, const Addressing& m) {
  const ir::Tensor& tensor = c_.program[o.access.tensor];
  const bool integer = !is_float(tensor.dtype);
  const std::string family = integer ? "vi_" : "vf_", load = family + "load_" + lower_case(tensor.dtype);
  const size_t t = size_t(o.transpose_axis);
  const Int step = reduced_[t];
  Point base = *point_;
  const int64_t here = is_output(int(t)) ? base.offset[t] : step.constant;
  base.offset[t] = 0, reduced_[t] = Int(0);
  const Point* saved = point_;
  point_ = &base;
  const Address where = address(m, tensor.name);
  point_ = saved, reduced_[t] = step;
  std::ostringstream key;
  key << kSeparated << where.pointer << '|' << lanes() << '|';
  append(key, where.offset);
  if (const Value* value = known(key.str())) return {Reg{std::get<Reg>(value->arg).id, int(here)}, integer};
  const int r = b_.reg(tensor.name, integer, int(o.neighbours));
  for (int64_t i = 0; i < o.neighbours; ++i) {
    const int64_t left = lanes() * o.neighbours - i * W_;
    const Address from{where.pointer, where.offset + Int(i * W_)};
    if (left >= W_)
      put({Op{load, r, true, {Reg{r, int(i)}, from}}});
    else if (left > 0)
      put({Op{load + "_n", r, true, {Reg{r, int(i)}, from, Int(left)}}});
    else
      put({Op{family + "set", r, true, {Reg{r, int(i)}, 0.0}}});
  }
  effect(family + "deinterleave", {Reg{r}, Int(o.neighbours)});
  scope().values.emplace(key.str(), Value{Reg{r}, integer});
  return {Reg{r, int(here)}, integer};
}

}  // namespace rgen::lower
