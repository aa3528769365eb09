// Expressions of a tile as vector operations, each computed once where its operands are first known.
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "ir/nonpositive.h"
#include "lower/tile.h"

namespace rgen::lower {

int Tile::define_reg(size_t depth, const std::string& name, bool integer, std::string primitive, std::vector<Arg> args) {
  const int r = b_.reg(name, integer);
  scopes_[depth].body.push_back({Op{std::move(primitive), r, false, std::move(args)}});
  return r;
}

size_t Tile::depth_of(const Int& i) const {
  size_t depth = 0;
  for (const auto& [v, coef] : i.terms) {
    if (const auto it = let_depth_.find(v); it != let_depth_.end()) depth = std::max(depth, it->second);
    for (size_t d = 1; d < scopes_.size(); ++d)
      if (v == scopes_[d].var) depth = std::max(depth, d);
  }
  return depth;
}

void Tile::append(std::ostream& key, const Int& i) {
  key << i.constant;
  for (const auto& [v, k] : i.terms) key << '+' << v << '*' << k;
}

const Value* Tile::known(const std::string& key) const {
  for (const Scope& s : scopes_)
    if (const auto it = s.values.find(key); it != s.values.end()) return &it->second;
  return nullptr;
}

Value Tile::pure(const std::string& name, bool integer, std::vector<Arg> args, const std::string& hint) {
  std::ostringstream key;
  key << name;
  size_t depth = 0;
  for (const Arg& a : args) {
    key << '|';
    if (const Reg* r = std::get_if<Reg>(&a)) {
      key << 'r' << r->id << '.' << r->element;
      depth = std::max(depth, reg_depth(r->id));
    } else if (const Address* m = std::get_if<Address>(&a)) {
      key << 'm' << m->pointer << '+';
      append(key, m->offset);
      depth = std::max({depth, depth_of(m->offset), pointer_depth(m->pointer)});
    } else if (const Int* i = std::get_if<Int>(&a)) {
      append(key, *i);
      depth = std::max(depth, depth_of(*i));
    } else {
      key << 'd';
      key.precision(17);
      key << std::get<double>(a);
    }
  }
  if (const Value* value = known(key.str())) return *value;
  for (size_t d = 0; d < scopes_.size(); ++d)
    if (scopes_[d].conditional) depth = std::max(depth, d);
  const int r = define_reg(depth, hint, integer, name, std::move(args));
  reg_depth_[r] = depth;
  const Value v{Reg{r}, integer};
  scopes_[depth].values.emplace(key.str(), v);
  return v;
}

size_t Tile::reg_depth(int r) const {
  const auto it = reg_depth_.find(r);
  return it == reg_depth_.end() ? scopes_.size() - 1 : it->second;
}

size_t Tile::pointer_depth(int p) const {
  const auto it = pointer_depth_.find(p);
  return it == pointer_depth_.end() ? 0 : it->second;
}

Value Tile::as_float(Value v) {
  if (!v.integer) return v;
  if (const double* d = std::get_if<double>(&v.arg)) return {*d, false};
  return pure("vf_from_vi", false, {v.arg}, "f");
}

Value Tile::vectorised(Value v) {
  if (std::holds_alternative<double>(v.arg)) return pure(v.integer ? "vi_set" : "vf_set", v.integer, {v.arg}, "c");
  return v;
}

double Tile::identity(ir::ReduceOp op, bool integer) {
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

std::string Tile::combine(ir::ReduceOp op, bool integer) {
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

std::string Tile::horizontal(ir::ReduceOp op, bool integer) {
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

Value Tile::index_value(const ir::Index& i) {
  Int base(i.constant);
  int64_t lane = 0;
  for (const ir::Index::Term& t : i.terms) {
    base = base + axis_value(t.axis) * t.coef;
    if (t.axis == vec_) lane = t.coef;
  }
  for (const ir::Index::Floor& f : i.floors) base = base + quotient("q", affine(f.inner), f.divisor) * f.coef;
  Value v = pure("vi_set", true, {base}, "i");
  if (lane != 0 && vector_code()) {
    const Value iota = pure("vi_iota", true, {}, "iota");
    const Value scaled = lane == 1 ? iota : pure("mul", true, {iota.arg, pure("vi_set", true, {Int(lane)}, "c").arg}, "iota");
    v = pure("add", true, {v.arg, scaled.arg}, "i");
  }
  return v;
}

Int Tile::quotient(const std::string& name, const Int& x, int64_t divisor) {
  std::ostringstream key;
  key << "quotient|" << divisor << '|';
  append(key, x);
  if (const Value* value = known(key.str())) return std::get<Int>(value->arg);
  Body lets;
  const Int q = b_.quotient(lets, name, x, divisor);
  for (Stmt& s : lets) put(std::move(s));
  scope().values.emplace(key.str(), Value{q, true});
  return q;
}

Int Tile::affine(const ir::Index& i) {
  Int r(i.constant);
  for (const ir::Index::Term& t : i.terms) r = r + axis_value(t.axis) * t.coef;
  for (const ir::Index::Floor& f : i.floors) r = r + quotient("q", affine(f.inner), f.divisor) * f.coef;
  return r;
}

Value Tile::eval(const ExprPtr& e) {
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

Value Tile::eval_cast(DType to, Value v) {
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
    case DType::s16:
      break;
    case DType::s8:
    case DType::u8: {
      const IntegerRange range = range_of(to);
      const Value i = v.integer ? v : pure("vi_from_vf_rne", true, {v.arg}, "n");
      const Value upper = pure("vi_min", true, {i.arg, vectorised({range.most, true}).arg}, "n");
      return pure("vi_max", true, {upper.arg, vectorised({range.least, true}).arg}, "n");
    }
  }
  throw Error(ErrorCode::internal, "cast to an unknown type");
}

Value Tile::eval_unary(const ir::Unary& u) {
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
        return ir::never_positive(c_.program, *u.x) ? "vf_exp_nonpositive" : "vf_exp";
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

Value Tile::eval_binary(const ir::Binary& b) {
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

}  // namespace rgen::lower
