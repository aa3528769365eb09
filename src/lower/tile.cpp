// The register tile: every accumulator, load and multiply-add of one block, unrolled, around the loops of the reduced axes. Equal loads
// are made once (value numbering), so operand reuse inside the tile (broadcasts across n, vectors across m, sliding windows) needs no
// case of its own.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "lower/context.h"

namespace rgen::lower {

using ir::Access;
using ir::ExprPtr;
using rtile::AtomForm;
using rtile::Operand;
using rtile::Placement;
using rtile::Statement;

namespace {

/// A vector value: f32 or s32 lanes.
struct Value {
  Arg arg;
  bool integer = false;
};

/// One point of the register tile.
struct Point {
  std::vector<int64_t> offset;  ///< per output axis: elements inside the tile (vector axis: of the vector's first lane)
  int lanes = 0;                ///< active lanes
  int number = 0;               ///< position in the tile
};

std::string lower_case(DType t) { return std::string(to_string(t)); }

class Tile {
 public:
  Tile(NestContext& c, const TileParams& params, const TileVariant& v)
      : c_(c), b_(c.builder), params_(params), v_(v), n_axes_(int(c.nest.axes.size())), W_(c.plan.lanes), vec_(c.plan.vec) {
    vec_reduced_ = c.nest.axes[size_t(vec_)].reduced;
    reduced_.assign(size_t(n_axes_), Int(0));
    scopes_.emplace_back();
    enumerate_points();
  }

  Body emit() {
    start_accumulators();
    reduce(0);
    finishing_ = true;
    if (c_.nest.has_reduction()) finish_accumulators();
    if (v_.last)
      for (const Point& p : points_) {
        point_ = &p;
        for (const Statement& s : c_.nest.outer) define(s);
      }
    flush_transposed_stores();
    return std::move(scopes_[0].body);
  }

 private:
  struct Scope {
    Body body;
    std::map<std::string, Value> values;
    std::map<std::string, int> pointers;
    int var = -1;
  };

  NestContext& c_;
  Builder& b_;
  const TileParams& params_;
  const TileVariant& v_;
  const int n_axes_, W_, vec_;
  bool vec_reduced_ = false;
  int active_ = 0;  ///< active lanes of a reduced vector axis at this step (0 = all)
  std::vector<Point> points_;
  const Point* point_ = nullptr;
  std::vector<Int> reduced_;  ///< current value of each reduced axis
  int64_t unrolled_ = 0;      ///< which accumulator of a reduced vector axis
  std::vector<Scope> scopes_;
  std::map<std::tuple<int, int, int64_t>, int> accumulators_;  ///< (statement, point, copy) → register
  std::map<std::pair<int, int>, Value> made_;                  ///< (tensor, point) → value made in this nest
  struct Pending {
    const Statement* statement;
    std::map<int, Value> by_point;
  };
  std::vector<Pending> pending_;
  int64_t copies_ = 1;
  bool finishing_ = false;  ///< past the loops of the reduced axes

  // ---- points ----
  bool is_output(int a) const { return !c_.nest.axes[size_t(a)].reduced; }
  bool vector_code() const { return W_ > 1; }

  void enumerate_points() {
    std::vector<int64_t> offset(size_t(n_axes_), 0);
    const std::function<void(int)> walk = [&](int axis) {
      if (axis == n_axes_) {
        // the vector axis varies fastest
        const int64_t vectors = is_output(vec_) ? v_.size[size_t(vec_)] : 1;
        for (int64_t j = 0; j < vectors; ++j) {
          Point p{offset, W_, int(points_.size())};
          if (is_output(vec_)) {
            p.offset[size_t(vec_)] = j * W_;
            if (j + 1 == vectors) p.lanes = v_.tail;
          } else {
            p.lanes = 1;
          }
          points_.push_back(std::move(p));
        }
        return;
      }
      if (!is_output(axis) || axis == vec_) return walk(axis + 1);
      for (int64_t o = 0; o < v_.size[size_t(axis)]; ++o) {
        offset[size_t(axis)] = o;
        walk(axis + 1);
      }
      offset[size_t(axis)] = 0;
    };
    walk(0);
  }

  // ---- emission ----
  Scope& scope() { return scopes_.back(); }
  void put(Stmt s) { scope().body.push_back(std::move(s)); }
  void effect(std::string primitive, std::vector<Arg> args) { put({Op{std::move(primitive), -1, false, std::move(args)}}); }
  int define_reg(size_t depth, const std::string& name, bool integer, std::string primitive, std::vector<Arg> args) {
    const int r = b_.reg(name, integer);
    scopes_[depth].body.push_back({Op{std::move(primitive), r, false, std::move(args)}});
    return r;
  }
  void assign(int r, std::string primitive, std::vector<Arg> args) { put({Op{std::move(primitive), r, true, std::move(args)}}); }

  /// The outermost scope in which all variables of the expression are known.
  size_t depth_of(const Int& i) const {
    size_t depth = 0;
    for (const auto& [v, coef] : i.terms) {
      if (const auto it = let_depth_.find(v); it != let_depth_.end()) depth = std::max(depth, it->second);
      for (size_t d = 1; d < scopes_.size(); ++d)
        if (v == scopes_[d].var) depth = std::max(depth, d);
    }
    return depth;
  }
  std::map<int, size_t> let_depth_;  ///< variables defined by integer lets → scope

  /// `name(args)`, computed once per scope. Pure operations only; hoisted to the outermost scope where its arguments exist.
  Value pure(const std::string& name, bool integer, std::vector<Arg> args, const std::string& hint) {
    std::ostringstream key;
    key << name;
    size_t depth = 0;
    for (const Arg& a : args) {
      key << '|';
      if (const Reg* r = std::get_if<Reg>(&a)) {
        key << 'r' << r->id << '.' << r->element;
        depth = std::max(depth, reg_depth(r->id));
      } else if (const Address* m = std::get_if<Address>(&a)) {
        key << 'm' << m->pointer;
        for (const auto& [v, k] : m->offset.terms) key << '+' << v << '*' << k;
        key << '+' << m->offset.constant;
        depth = std::max({depth, depth_of(m->offset), pointer_depth(m->pointer)});
      } else if (const Int* i = std::get_if<Int>(&a)) {
        for (const auto& [v, k] : i->terms) key << '+' << v << '*' << k;
        key << '+' << i->constant;
        depth = std::max(depth, depth_of(*i));
      } else {
        key << 'd';
        key.precision(17);
        key << std::get<double>(a);
      }
    }
    for (size_t d = 0; d < scopes_.size(); ++d)
      if (const auto it = scopes_[d].values.find(key.str()); it != scopes_[d].values.end()) return it->second;
    const int r = define_reg(depth, hint, integer, name, std::move(args));
    reg_depth_[r] = depth;
    const Value v{Reg{r}, integer};
    scopes_[depth].values.emplace(key.str(), v);
    return v;
  }
  std::map<int, size_t> reg_depth_, pointer_depth_;
  size_t reg_depth(int r) const {
    const auto it = reg_depth_.find(r);
    return it == reg_depth_.end() ? scopes_.size() - 1 : it->second;
  }
  size_t pointer_depth(int p) const {
    const auto it = pointer_depth_.find(p);
    return it == pointer_depth_.end() ? 0 : it->second;
  }

  // ---- addresses ----
  Int start(int a, bool tile_local) const {
    Int i(0);
    if (params_.start[size_t(a)] >= 0) i = Int::var(params_.start[size_t(a)]);
    if (!tile_local && c_.origin[size_t(a)] >= 0) i = i + Int::var(c_.origin[size_t(a)]);
    return i;
  }
  Int block(int a) const { return params_.block[size_t(a)] >= 0 ? Int::var(params_.block[size_t(a)]) : Int(0); }
  /// The axis value at the current point (lane 0), as seen by the program.
  Int axis_value(int a) const { return is_output(a) ? start(a, false) + Int(point_->offset[size_t(a)]) : reduced_[size_t(a)]; }

  Int offset_of(const Addressing& m) const {
    Int i(m.constant);
    for (int a = 0; a < n_axes_; ++a) {
      if (is_output(a)) {
        if (m.value[size_t(a)]) i = i + start(a, m.tile_local) * m.value[size_t(a)];
        if (m.block[size_t(a)]) i = i + block(a) * m.block[size_t(a)];
        i = i + Int(point_->offset[size_t(a)] * m.inside[size_t(a)]);
      } else {
        i = i + reduced_[size_t(a)] * m.value[size_t(a)];
      }
    }
    return i;
  }
  /// The address through a pointer that carries everything but the innermost loops' terms, so that the loop body sees short offsets.
  Address address(const Addressing& m, const std::string& name, int64_t extra = 0) {
    const Int whole = offset_of(m) + Int(extra);
    Int fixed(0), moving(whole.constant);
    for (const auto& [v, k] : whole.terms) {
      bool loop = false;
      for (size_t d = 1; d < scopes_.size(); ++d) loop |= scopes_[d].var == v;
      (loop ? moving : fixed) = (loop ? moving : fixed) + Int::var(v, k);
    }
    std::ostringstream key;
    key << m.buffer;
    for (const auto& [v, k] : fixed.terms) key << '+' << v << '*' << k;
    auto& known = scopes_[0].pointers;
    auto it = known.find(key.str());
    if (it == known.end()) {
      const int p = b_.pointer(m.buffer, name);
      scopes_[0].body.push_back({LetPtr{p, fixed}});
      it = known.emplace(key.str(), p).first;
    }
    return {it->second, moving};
  }

  // ---- values ----
  Value as_float(Value v) {
    if (!v.integer) return v;
    if (const double* d = std::get_if<double>(&v.arg)) return {*d, false};
    return pure("vf_from_vi", false, {v.arg}, "f");
  }
  Value vectorised(Value v) {  // literals become registers
    if (std::holds_alternative<double>(v.arg)) return pure(v.integer ? "vi_set" : "vf_set", v.integer, {v.arg}, "c");
    return v;
  }
  static double identity(ir::ReduceOp op, bool integer) {
    switch (op) {
      case ir::ReduceOp::prod:
        return 1;
      case ir::ReduceOp::max:
        return integer ? double(std::numeric_limits<int32_t>::min()) : -std::numeric_limits<double>::infinity();
      case ir::ReduceOp::min:
        return integer ? double(std::numeric_limits<int32_t>::max()) : std::numeric_limits<double>::infinity();
      default:
        return 0;
    }
  }
  static std::string combine(ir::ReduceOp op, bool integer) {
    switch (op) {
      case ir::ReduceOp::prod:
        return "mul";
      case ir::ReduceOp::max:
        return integer ? "vi_max" : "vf_max";
      case ir::ReduceOp::min:
        return integer ? "vi_min" : "vf_min";
      default:
        return "add";
    }
  }
  static std::string horizontal(ir::ReduceOp op, bool integer) {
    const std::string p = integer ? "vi_h" : "vf_h";
    switch (op) {
      case ir::ReduceOp::prod:
        return p + "prod";
      case ir::ReduceOp::max:
        return p + "max";
      case ir::ReduceOp::min:
        return p + "min";
      default:
        return p + "sum";
    }
  }

  Value index_value(const ir::Index& i) {
    Int base(i.constant);
    int64_t lane = 0;
    for (const ir::Index::Term& t : i.terms) {
      base = base + axis_value(t.axis) * t.coef;
      if (t.axis == vec_) lane = t.coef;
    }
    for (const ir::Index::Floor& f : i.floors) base = base + quasi(f.inner, f.divisor) * f.coef;
    Value v = pure("vi_set", true, {base}, "i");
    if (lane != 0 && vector_code()) {
      const Value iota = pure("vi_iota", true, {}, "lane");
      const Value scaled = lane == 1 ? iota : pure("mul", true, {iota.arg, pure("vi_set", true, {Int(lane)}, "c").arg}, "lane");
      v = pure("add", true, {v.arg, scaled.arg}, "i");
    }
    return v;
  }
  /// floor(index / divisor) as a variable (scalar code: no lane dependence).
  Int quasi(const ir::Index& index, int64_t divisor) {
    const Int inner = affine(index);
    const auto [lo, hi] = b_.range(inner);
    const int v = b_.variable("q", floor_div(lo, divisor), floor_div(hi, divisor));
    put({LetInt{LetInt::Op::floor_div, v, inner, Int(divisor)}});
    let_depth_[v] = scopes_.size() - 1;
    return Int::var(v);
  }
  Int affine(const ir::Index& i) {
    Int r(i.constant);
    for (const ir::Index::Term& t : i.terms) r = r + axis_value(t.axis) * t.coef;
    for (const ir::Index::Floor& f : i.floors) r = r + quasi(f.inner, f.divisor) * f.coef;
    return r;
  }

  Value load(const Access& a) {
    const int number = rtile::find_operand(c_.plan.operands, a);
    const Operand& o = c_.plan.operands[size_t(number)];
    const Addressing& m = c_.addressing[size_t(number)];
    const ir::Tensor& t = c_.program[a.tensor];
    const bool integer = !is_float(t.dtype);
    const std::string family = integer ? "vi_" : "vf_", type = lower_case(t.dtype);
    const std::string hint = t.name;
    if (!rtile::is_affine(a.index)) return load_quasi(a, m, family, type, integer);
    const int64_t stride = vector_code() ? m.inside[size_t(vec_)] : 0;
    const int lanes = vec_reduced_ ? (active_ ? active_ : W_) : point_->lanes;
    const std::vector<int> guards = v_.guarded && o.placement != Placement::box && o.placement != Placement::prepack
                                        ? rtile::guarded_dims(c_.program, a, c_.nest.full_extents())
                                        : std::vector<int>{};
    if (!guards.empty()) return load_guarded(a, m, guards, family, type, integer, stride, lanes);
    if (o.transposed) return load_transposed(o, m, family, type, integer, lanes);
    const Address where = address(m, t.name);
    if (stride == 0) return pure(family + "bcast_" + type, integer, {where}, hint);
    const bool whole = lanes == W_ || m.padded;
    if (stride == 1)
      return whole ? pure(family + "load_" + type, integer, {where}, hint)
                   : pure(family + "load_" + type + "_n", integer, {where, Int(lanes)}, hint);
    return whole ? pure(family + "gather_" + type, integer, {where, Int(stride)}, hint)
                 : pure(family + "gather_" + type + "_n", integer, {where, Int(stride), Int(lanes)}, hint);
  }

  /// Indices with floors: scalar code, the address computed by integer lets.
  Value load_quasi(const Access& a, const Addressing& m, const std::string& family, const std::string& type, bool integer) {
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
        const int64_t extent = c_.program[a.tensor].shape[d].value();
        const auto [lo, hi] = b_.range(i);
        if (lo < 0) conditions.push_back(i);
        if (hi >= extent) conditions.push_back(Int(extent - 1) - i);
      }
    }
    const int p = b_.pointer(m.buffer, c_.program[a.tensor].name);
    scopes_[0].body.push_back({LetPtr{p, Int(0)}});
    return conditional(conditions, family + "bcast_" + type, {Address{p, offset}}, integer, a.out_of_bounds.value_or(0));
  }

  /// `fill`, or the primitive's result where all conditions hold.
  Value conditional(std::vector<Int> conditions, const std::string& primitive, std::vector<Arg> args, bool integer, double fill) {
    const int r = b_.reg("x", integer);
    bool never = false;
    std::erase_if(conditions, [&](const Int& i) {
      never |= i.is_const() && i.constant < 0;
      return i.is_const();
    });
    if (never) return pure(integer ? "vi_set" : "vf_set", integer, {fill}, "c");
    if (conditions.empty()) {
      put({Op{primitive, r, false, std::move(args)}});
      return {Reg{r}, integer};
    }
    put({Op{integer ? "vi_set" : "vf_set", r, false, {fill}}});
    auto then = std::make_shared<Body>();
    then->push_back({Op{primitive, r, true, std::move(args)}});
    put({If{conditions, std::move(then), std::make_shared<Body>()}});
    return {Reg{r}, integer};
  }

  Value load_guarded(const Access& a, const Addressing& m, const std::vector<int>& guards, const std::string& family,
                     const std::string& type, bool integer, int64_t stride, int lanes) {
    std::vector<Int> conditions;
    std::optional<std::pair<Int, Int>> lane_range;
    std::ostringstream key;
    const Address where = address(m, c_.program[a.tensor].name);
    // two points may share an address though one of them is outside: the indices count, not the address
    key << "guarded|" << where.pointer << '|' << lanes;
    for (int d : guards) {
      const Int at = affine(a.index[size_t(d)]);
      key << '|' << at.constant;
      for (const auto& [v, k] : at.terms) key << '+' << v << '*' << k;
    }
    key << '|' << where.offset.constant;
    for (const auto& [v, k] : where.offset.terms) key << '+' << v << '*' << k;
    for (Scope& s : scopes_)
      if (const auto it = s.values.find(key.str()); it != s.values.end()) return it->second;
    for (int d : guards) {
      const ir::Index& i = a.index[size_t(d)];
      const int64_t extent = c_.program[a.tensor].shape[size_t(d)].value();
      const Int at = affine(i);
      const int64_t c = vector_code() ? i.coef(vec_) : 0;
      if (c == 0) {
        conditions.push_back(at);
        conditions.push_back(Int(extent - 1) - at);
        continue;
      }
      // lanes l with 0 <= at + c·l < extent
      const Int below = c > 0 ? Int(c - 1) - at : at - Int(extent) + Int(-c);
      const Int above = c > 0 ? Int(extent + c - 1) - at : at + Int(-c);
      Int lo = divided(below, std::abs(c)), hi = divided(above, std::abs(c));
      if (lane_range) lo = chosen(LetInt::Op::max, lo, lane_range->first), hi = chosen(LetInt::Op::min, hi, lane_range->second);
      lane_range = {lo, hi};
    }
    Value v;
    const double fill = *a.out_of_bounds;
    if (stride == 0) {
      v = conditional(conditions, family + "bcast_" + type, {where}, integer, fill);
    } else {
      Int lo(0), hi(lanes);
      if (lane_range)
        lo = lane_range->first, hi = lanes == W_ ? lane_range->second : chosen(LetInt::Op::min, lane_range->second, Int(lanes));
      std::vector<Arg> args{where};
      if (stride != 1) args.push_back(Int(stride));
      args.insert(args.end(), {lo, hi, fill});
      v = conditional(conditions, family + (stride == 1 ? "load_" : "gather_") + type + "_range", std::move(args), integer, fill);
    }
    scope().values.emplace(key.str(), v);
    return v;
  }
  Int divided(const Int& i, int64_t by) {
    if (by == 1) return i;
    const auto [lo, hi] = b_.range(i);
    const int v = b_.variable("l", floor_div(lo, by), floor_div(hi, by));
    put({LetInt{LetInt::Op::floor_div, v, i, Int(by)}});
    return Int::var(v);
  }
  Int chosen(LetInt::Op op, const Int& x, const Int& y) {
    const auto [xl, xh] = b_.range(x);
    const auto [yl, yh] = b_.range(y);
    const bool least = op == LetInt::Op::min;
    const int v = b_.variable("l", least ? std::min(xl, yl) : std::max(xl, yl), least ? std::min(xh, yh) : std::max(xh, yh));
    put({LetInt{op, v, x, y}});
    return Int::var(v);
  }

  /// W vectors along the axis that is contiguous in memory, transposed in registers into vectors along the vector axis.
  Value load_transposed(const Operand& o, const Addressing& m, const std::string& family, const std::string& type, bool integer,
                        int lanes) {
    const int t = o.transpose_axis;
    const int64_t here = point_->offset[size_t(t)], group = here / W_ * W_;
    Point base = *point_;
    base.offset[size_t(t)] = group;
    const Point* saved = point_;
    point_ = &base;
    const Address where = address(m, c_.program[o.access.tensor].name);
    std::ostringstream key;
    key << "transposed|" << where.pointer << '+' << where.offset.constant << '|' << lanes;
    for (const auto& [v, k] : where.offset.terms) key << '+' << v << '*' << k;
    Value array;
    bool known = false;
    for (Scope& s : scopes_)
      if (const auto it = s.values.find(key.str()); it != s.values.end()) array = it->second, known = true;
    if (!known) {
      const int r = b_.reg(c_.program[o.access.tensor].name, integer, W_);
      const int64_t along = std::min<int64_t>(W_, v_.size[size_t(t)] - group);
      for (int l = 0; l < W_; ++l) {
        if (l >= lanes) {
          put({Op{family + "set", r, true, {Reg{r, l}, 0.0}}});
          continue;
        }
        const Address row{where.pointer, where.offset + Int(l * m.inside[size_t(vec_)])};
        std::vector<Arg> args{Reg{r, l}, row};
        if (along < W_) args.push_back(Int(along));
        put({Op{family + "load_" + type + (along < W_ ? "_n" : ""), r, true, std::move(args)}});
      }
      effect(family + "transpose", {Reg{r}});
      array = {Reg{r}, integer};
      scope().values.emplace(key.str(), array);
    }
    point_ = saved;
    return {Reg{std::get<Reg>(array.arg).id, int(here - group)}, integer};
  }

  Value eval(const ExprPtr& e) {
    return std::visit(ir::overloaded{[&](const ir::Const& k) {
                                       return Value{k.value, false};
                                     },
                                     [&](const Access& a) {
                                       if (const auto it = made_.find({a.tensor, point_->number}); it != made_.end()) return it->second;
                                       return load(a);
                                     },
                                     [&](const ir::IndexValue& i) { return index_value(i.index); },
                                     [&](const ir::Unary& u) { return eval_unary(u); }, [&](const ir::Binary& b) { return eval_binary(b); },
                                     [&](const ir::Select& s) {
                                       const Value c = eval(s.condition);
                                       Value y = eval(s.yes), n = eval(s.no);
                                       if (!y.integer || !n.integer)
                                         y = literal_type(y, n) ? y : as_float(y), n = literal_type(n, y) ? n : as_float(n);
                                       const bool integer = y.integer && n.integer;
                                       Value mask;
                                       const auto& truth = c;
                                       if (truth.integer)
                                         mask = pure("vi_ne", true, {vectorised(truth).arg, pure("vi_set", true, {0.0}, "c").arg}, "is");
                                       else
                                         mask = pure("vf_ne", true, {vectorised(truth).arg, pure("vf_set", false, {0.0}, "c").arg}, "is");
                                       return pure(integer ? "vi_select" : "vf_select", integer,
                                                   {mask.arg, vectorised({y.arg, integer}).arg, vectorised({n.arg, integer}).arg}, "s");
                                     },
                                     [&](const ir::Cast& k) { return eval_cast(k.dtype, eval(k.x)); }},
                      e->node);
  }
  static bool literal_type(const Value& v, const Value&) { return std::holds_alternative<double>(v.arg); }

  Value eval_cast(DType to, Value v) {
    if (const double* d = std::get_if<double>(&v.arg)) v = vectorised({*d, false});
    switch (to) {
      case DType::f32:
        return as_float(v);
      case DType::bf16:
        return pure("vf_round_bf16", false, {as_float(v).arg}, "r");
      case DType::f16:
        return pure("vf_round_f16", false, {as_float(v).arg}, "r");
      case DType::s32:
        return v.integer ? v : pure("vi_from_vf_rne", true, {v.arg}, "n");
      case DType::s8:
      case DType::u8: {
        const double lo = to == DType::s8 ? -128 : 0, hi = to == DType::s8 ? 127 : 255;
        const Value i = v.integer ? v : pure("vi_from_vf_rne", true, {v.arg}, "n");
        const Value upper = pure("vi_min", true, {i.arg, vectorised({hi, true}).arg}, "n");
        return pure("vi_max", true, {upper.arg, vectorised({lo, true}).arg}, "n");
      }
    }
    throw Error(ErrorCode::internal, "cast to an unknown type");
  }

  Value eval_unary(const ir::Unary& u) {
    Value x = eval(u.x);
    using O = ir::UnaryOp;
    if (x.integer && u.op == O::floor) return x;
    if (x.integer && u.op == O::neg) return pure("sub", true, {vectorised({0.0, true}).arg, x.arg}, "n");
    if (x.integer && u.op == O::abs) return pure("vi_abs", true, {x.arg}, "n");
    x = vectorised(as_float(x));
    const auto name = [&]() -> std::string {
      switch (u.op) {
        case O::neg:
          return "vf_neg";
        case O::exp:
          return "vf_exp";
        case O::log:
          return "vf_log";
        case O::sqrt:
          return "vf_sqrt";
        case O::rsqrt:
          return "vf_rsqrt";
        case O::tanh:
          return "vf_tanh";
        case O::erf:
          return "vf_erf";
        case O::sigmoid:
          return "vf_sigmoid";
        case O::abs:
          return "vf_abs";
        case O::floor:
          return "vf_floor";
      }
      throw Error(ErrorCode::internal, "unknown function");
    };
    return pure(name(), false, {x.arg}, "v");
  }

  Value eval_binary(const ir::Binary& b) {
    using O = ir::BinaryOp;
    Value x = eval(b.x), y = eval(b.y);
    const bool literal_x = std::holds_alternative<double>(x.arg), literal_y = std::holds_alternative<double>(y.arg);
    const auto whole = [](const Value& v) {
      const double d = std::get<double>(v.arg);
      return d == std::floor(d) && std::abs(d) < 2147483648.0;
    };
    if (literal_x && y.integer && whole(x)) x.integer = true;
    if (literal_y && x.integer && whole(y)) y.integer = true;
    bool integer = x.integer && y.integer && b.op != O::div && b.op != O::pow;
    if (!integer) x = as_float(x), y = as_float(y);
    x = vectorised(x), y = vectorised(y);
    const std::string p = integer ? "vi_" : "vf_";
    const auto compare = [&](const char* name) {
      const Value mask = pure(p + name, true, {x.arg, y.arg}, "is");
      return pure("vf_from_mask", false, {mask.arg}, "is");
    };
    switch (b.op) {
      case O::add:
        return pure("add", integer, {x.arg, y.arg}, "v");
      case O::sub:
        return pure("sub", integer, {x.arg, y.arg}, "v");
      case O::mul:
        return pure("mul", integer, {x.arg, y.arg}, "v");
      case O::div:
        return pure("div", false, {x.arg, y.arg}, "v");
      case O::min:
        return pure(p + "min", integer, {x.arg, y.arg}, "v");
      case O::max:
        return pure(p + "max", integer, {x.arg, y.arg}, "v");
      case O::pow:
        return pure("vf_pow", false, {x.arg, y.arg}, "v");
      case O::lt:
        return compare("lt");
      case O::le:
        return compare("le");
      case O::gt:
        return compare("gt");
      case O::ge:
        return compare("ge");
      case O::eq:
        return compare("eq");
      case O::ne:
        return compare("ne");
    }
    throw Error(ErrorCode::internal, "unknown operator");
  }

  // ---- statements ----
  bool integer_sum(const Statement& s) const {
    return !is_float(c_.program[s.tensor].dtype) && accumulation(c_.program[s.tensor].dtype) == DType::s32;
  }

  /// An elementwise statement: the value is known from here on, and stored if anyone else reads it.
  void define(const Statement& s) {
    Value v = vectorised(eval(s.value));
    const DType kept = c_.program[s.tensor].dtype;
    if (s.store) store(s, v);
    if (kept != DType::f32 && kept != DType::s32) v = eval_cast(kept, v);
    if (kept == DType::s32) v = eval_cast(DType::s32, v);
    if (kept == DType::f32) v = as_float(v);
    made_[{s.tensor, point_->number}] = v;
  }

  Addressing statement_addressing(const Statement& s, const Location& at) const {
    const rtile::Linear l = rtile::linearise(s.index, at.strides, n_axes_);
    return {at.buffer, l.coef, std::vector<int64_t>(size_t(n_axes_), 0), l.coef, l.constant, at.tile_local, false, -1};
  }

  void store(const Statement& s, const Value& v) {
    if (c_.plan.store_transpose_axis >= 0 && (finishing_ || !c_.nest.has_reduction()) && stores_transposed(s)) {
      for (Pending& p : pending_)
        if (p.statement == &s) {
          p.by_point[point_->number] = v;
          return;
        }
      pending_.push_back({&s, {{point_->number, v}}});
      return;
    }
    const Addressing m = statement_addressing(s, c_.location.at(s.tensor));
    const std::string family = v.integer ? "vi_" : "vf_", type = lower_case(c_.program[s.tensor].dtype);
    const int64_t stride = vector_code() ? m.inside[size_t(vec_)] : 0;
    int lanes = vec_reduced_ ? (stride == 0 ? 1 : active_ ? active_ : W_) : point_->lanes;
    if (!vector_code()) lanes = 1;
    const Address where = address(m, c_.program[s.tensor].name);
    const bool full = lanes == physical();
    if (stride == 0 || stride == 1) {
      if (full && c_.plan.stream && type == "f32" && family == "vf_")
        effect("vf_stream_f32", {where, v.arg});
      else if (full)
        effect(family + "store_" + type, {where, v.arg});
      else
        effect(family + "store_" + type + "_n", {where, v.arg, Int(stride == 0 ? 1 : lanes)});
      return;
    }
    if (full)
      effect(family + "scatter_" + type, {where, Int(stride), v.arg});
    else
      effect(family + "scatter_" + type + "_n", {where, Int(stride), v.arg, Int(lanes)});
  }
  int physical() const { return b_.program.lanes; }

  bool stores_transposed(const Statement& s) const {
    const rtile::Linear l = rtile::linearise(s.index, c_.location.at(s.tensor).strides, n_axes_);
    return l.coef[size_t(c_.plan.store_transpose_axis)] == 1 && l.coef[size_t(vec_)] != 1;
  }
  /// Vectors along the vector axis, transposed in registers so that they can be stored along the axis contiguous in memory.
  void flush_transposed_stores() {
    const int t = c_.plan.store_transpose_axis;
    for (const Pending& pending : pending_) {
      const Statement& s = *pending.statement;
      const Addressing m = statement_addressing(s, c_.location.at(s.tensor));
      const std::string type = lower_case(c_.program[s.tensor].dtype);
      for (const Point& p : points_) {
        if (p.offset[size_t(t)] % W_ != 0) continue;
        const int64_t along = std::min<int64_t>(W_, v_.size[size_t(t)] - p.offset[size_t(t)]);
        const bool integer = pending.by_point.at(p.number).integer;
        const std::string family = integer ? "vi_" : "vf_";
        const int r = b_.reg("rows", integer, W_);
        for (const Point& q : points_) {
          bool same = true;
          for (int a = 0; a < n_axes_; ++a) same &= a == t || q.offset[size_t(a)] == p.offset[size_t(a)];
          const int64_t i = q.offset[size_t(t)] - p.offset[size_t(t)];
          if (same && i >= 0 && i < W_) put({Op{"copy", r, true, {Reg{r, int(i)}, pending.by_point.at(q.number).arg}}});
        }
        for (int64_t i = along; i < W_; ++i) put({Op{family + "set", r, true, {Reg{r, int(i)}, 0.0}}});
        effect(family + "transpose", {Reg{r}});
        point_ = &p;
        const Address where = address(m, c_.program[s.tensor].name);
        for (int l = 0; l < p.lanes; ++l) {
          const Address row{where.pointer, where.offset + Int(l * m.inside[size_t(vec_)])};
          if (along == W_)
            effect(family + "store_" + type, {row, Reg{r, l}});
          else
            effect(family + "store_" + type + "_n", {row, Reg{r, l}, Int(along)});
        }
      }
    }
  }

  // ---- reductions ----
  void start_accumulators() {
    copies_ = vec_reduced_ && c_.plan.reduce_order.back() == vec_ ? c_.plan.tile[size_t(vec_)].hi : 1;
    for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
      const Statement& s = c_.nest.inner[i];
      if (s.reduce == ir::ReduceOp::none) continue;
      const bool integer = integer_sum(s);
      for (const Point& p : points_)
        for (int64_t u = 0; u < copies_; ++u) {
          const int r = b_.reg("acc", integer);
          accumulators_[{int(i), p.number, u}] = r;
          point_ = &p;
          if (!v_.first && u == 0) {
            const Addressing m = statement_addressing(s, c_.accumulator[i]);
            const Address where = address(m, "partial");
            const std::string load = integer ? "vi_load_s32" : "vf_load_f32";
            if (p.lanes == physical() || vec_reduced_)
              put({Op{vec_reduced_ ? (integer ? "vi_bcast_s32" : "vf_bcast_f32") : load, r, false, {where}}});
            else
              put({Op{load + "_n", r, false, {where, Int(p.lanes)}}});
          } else if (c_.plan.form == AtomForm::group && c_.addressing[size_t(c_.plan.operand_b)].correction >= 0) {
            // the block's sums follow its panel: 4 bytes a lane, as wide as a group of four bytes
            const Addressing& m = c_.addressing[size_t(c_.plan.operand_b)];
            Address where = address(m, "packed");
            where.offset = where.offset + Int(m.correction);
            put({Op{"vi_load_group", r, false, {where}}});
          } else {
            put({Op{integer ? "vi_set" : "vf_set", r, false, {identity(s.reduce, integer)}}});
          }
        }
    }
  }

  void reduce(size_t level) {
    if (!c_.nest.has_reduction() || level == c_.plan.reduce_order.size()) return body();
    const int a = c_.plan.reduce_order[level];
    const int64_t extent = c_.nest.axes[size_t(a)].extent;
    const rtile::Blocking& t = c_.plan.tile[size_t(a)];
    const bool chunked = params_.begin[size_t(a)] >= 0;
    const bool group = a == c_.plan.k_axis && c_.plan.form == AtomForm::group;
    const bool vectors = a == vec_;
    const int64_t unit = group ? c_.plan.k_group : vectors ? W_ : 1;
    const int64_t step = unit * t.hi;
    const auto at = [&](const Int& value, int64_t count) {  // `count` units from `value`
      for (int64_t u = 0; u < count; ++u) {
        reduced_[size_t(a)] = value + Int(u * unit);
        unrolled_ = vectors ? u : unrolled_;
        reduce(level + 1);
      }
    };
    const auto loop = [&](const Int& begin, const Int& end, int64_t stride, int64_t count, int64_t hi) {
      const int v = b_.variable(c_.nest.axes[size_t(a)].name, 0, hi);
      auto body = std::make_shared<Body>();
      scopes_.emplace_back();
      scopes_.back().var = v;
      at(Int::var(v), count);
      *body = std::move(scopes_.back().body);
      scopes_.pop_back();
      put({For{v, begin, end, stride, std::move(body)}});
    };
    const int64_t whole = extent / unit * unit;  // elements in whole units
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
      const int64_t main = whole / step * step;
      if (main > 0) loop(Int(0), Int(main), step, t.hi, main - step);
      if (main < whole) {
        if (whole - main <= 4 * unit)
          at(Int(main), (whole - main) / unit);
        else
          loop(Int(main), Int(whole), unit, 1, whole - unit);
      }
    }
    if (whole < extent) {
      active_ = int(extent - whole);
      reduced_[size_t(a)] = Int(whole);
      unrolled_ = vectors ? 0 : unrolled_;
      reduce(level + 1);
      active_ = 0;
    }
  }
  int64_t chunk_step(int axis) const {
    for (const rtile::Loop& l : c_.plan.loops)
      if (l.axis == axis) return l.step;
    return 1;
  }

  void body() {
    for (const Point& p : points_) {
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
  }

  static const ir::Binary* product(const ExprPtr& e) {
    const ir::Binary* b = std::get_if<ir::Binary>(&e->node);
    return b && b->op == ir::BinaryOp::mul ? b : nullptr;
  }

  void accumulate(const Statement& s, int acc) {
    const bool integer = integer_sum(s);
    if (c_.plan.form == AtomForm::group) return accumulate_group(acc, integer);
    const bool masked = vec_reduced_ && active_ != 0;
    if (const ir::Binary* p = s.reduce == ir::ReduceOp::sum && !integer && !masked ? product(s.value) : nullptr) {
      const Value x = vectorised(as_float(eval(p->x))), y = vectorised(as_float(eval(p->y)));
      return assign(acc, "vf_fma", {x.arg, y.arg, Reg{acc}});
    }
    Value v = vectorised(eval(s.value));
    if (!integer) v = as_float(v);
    if (integer && !v.integer) v = pure("vi_from_vf_rne", true, {v.arg}, "n");
    if (masked) {
      const Value iota = pure("vi_iota", true, {}, "lane"), n = pure("vi_set", true, {Int(active_)}, "c");
      const Value in = pure("vi_lt", true, {iota.arg, n.arg}, "in");
      const Value none = vectorised({identity(s.reduce, integer), integer});
      v = pure(integer ? "vi_select" : "vf_select", integer, {in.arg, v.arg, none.arg}, "v");
    }
    assign(acc, combine(s.reduce, integer), {Reg{acc}, v.arg});
  }

  void accumulate_group(int acc, bool integer) {
    const Operand& a = c_.plan.operands[size_t(c_.plan.operand_a)];
    const Operand& b = c_.plan.operands[size_t(c_.plan.operand_b)];
    const Addressing& ma = c_.addressing[size_t(c_.plan.operand_a)];
    const Addressing& mb = c_.addressing[size_t(c_.plan.operand_b)];
    const DType ta = c_.program[a.access.tensor].dtype, tb = c_.program[b.access.tensor].dtype;
    const Address pa = address(ma, c_.program[a.access.tensor].name), pb = address(mb, "packed");
    Value va = active_ ? pure("vi_bcast_group_n", true, {pa, Int(active_ * size_of(ta))}, c_.program[a.access.tensor].name)
                       : pure("vi_bcast_group", true, {pa}, c_.program[a.access.tensor].name);
    const Value vb = pure("vi_load_group", true, {pb}, "b");
    if (!integer) return assign(acc, "vf_dpbf16", {Reg{acc}, va.arg, vb.arg});
    if (ta == DType::s8 && mb.correction >= 0)
      va = pure("xor", true, {va.arg, pure("vi_set", true, {Int(int32_t(0x80808080u))}, "flip").arg}, c_.program[a.access.tensor].name);
    assign(acc, ta == DType::u8 && tb == DType::u8 ? "vi_dpbuud" : "vi_dpbusd", {Reg{acc}, va.arg, vb.arg});
  }

  void finish_accumulators() {
    for (const Point& p : points_) {
      point_ = &p;
      for (size_t i = 0; i < c_.nest.inner.size(); ++i) {
        const Statement& s = c_.nest.inner[i];
        if (s.reduce == ir::ReduceOp::none) continue;
        const bool integer = integer_sum(s);
        const int acc = accumulators_.at({int(i), p.number, 0});
        // pairwise over the independent copies, then across the lanes
        for (int64_t half = 1; half < copies_; half *= 2)
          for (int64_t u = 0; u + half < copies_; u += 2 * half) {
            const int x = accumulators_.at({int(i), p.number, u}), y = accumulators_.at({int(i), p.number, u + half});
            assign(x, combine(s.reduce, integer), {Reg{x}, Reg{y}});
          }
        if (vec_reduced_ && vector_code()) assign(acc, horizontal(s.reduce, integer), {Reg{acc}});
        Value v{Reg{acc}, integer};
        if (!v_.last) {
          const Addressing m = statement_addressing(s, c_.accumulator[i]);
          const Address where = address(m, "partial");
          const std::string primitive = integer ? "vi_store_s32" : "vf_store_f32";
          if (p.lanes == physical() && !vec_reduced_)
            effect(primitive, {where, v.arg});
          else
            effect(primitive + "_n", {where, v.arg, Int(p.lanes)});
          continue;
        }
        made_[{s.tensor, p.number}] = v;
        if (s.store) store(s, v);
      }
    }
  }
};

}  // namespace

Proc lower_tile(NestContext& context, const TileParams& params, const TileVariant& variant, const std::string& name) {
  Proc p;
  p.name = name;
  for (size_t a = 0; a < context.nest.axes.size(); ++a)
    for (int v : {params.start[a], params.block[a], params.begin[a], params.end[a], context.origin[a]})
      if (v >= 0) p.params.push_back(v);
  p.body = Tile(context, params, variant).emit();
  return p;
}

}  // namespace rgen::lower
