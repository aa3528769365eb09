#include "ir/reference_block.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/element.h"
#include "base/math.h"
#include "ir/ir.h"

namespace rgen::ir::reference {

/// dst is a level; operands are the levels dst, dst + 1, dst + 2.
struct StageCode::Op {
  enum class Kind : uint8_t { constant, load, index, unary, binary, select, cast };
  Kind kind;
  int dst = 0;
  bool exact = false;  ///< the operands whose jumps matter are exact
  double value = 0;    ///< constant
  const Access* access = nullptr;
  Index linear;  ///< index; or the element offset of an access that is affine and inside
  bool is_linear = false;
  UnaryOp unary = UnaryOp::neg;
  BinaryOp binary = BinaryOp::add;
  DType dtype = DType::f32;
};

namespace {

constexpr double jump = 1 / unit_roundoff;  ///< the magnitude that says: off by 1
constexpr double doubt = 1024 * unit_roundoff;

template <class T>
T read_as(const void* data, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(data) + size_t(i) * sizeof(T), sizeof(T));
  return v;
}

template <class Decode>
void gather(Row& out, const IntRow& offsets, int n, Decode&& decode) {
  for (int i = 0; i < n; ++i) out[size_t(i)] = decode(offsets[size_t(i)]);
}

void gather_input(Row& out, const IntRow& offsets, int n, const Source& s) {
  const void* d = s.data;
  switch (s.dtype) {
    case DType::f32:
      return gather(out, offsets, n, [d](int64_t i) { return double(read_as<float>(d, i)); });
    case DType::bf16:
      return gather(out, offsets, n, [d](int64_t i) { return double(std::bit_cast<float>(uint32_t(read_as<uint16_t>(d, i)) << 16)); });
    case DType::f16:
      return gather(out, offsets, n, [d](int64_t i) { return decode_f16(read_as<uint16_t>(d, i)); });
    case DType::s8:
      return gather(out, offsets, n, [d](int64_t i) { return double(read_as<int8_t>(d, i)); });
    case DType::u8:
      return gather(out, offsets, n, [d](int64_t i) { return double(read_as<uint8_t>(d, i)); });
    case DType::s16:
      return gather(out, offsets, n, [d](int64_t i) { return double(read_as<int16_t>(d, i)); });
    case DType::s32:
      return gather(out, offsets, n, [d](int64_t i) { return double(read_as<int32_t>(d, i)); });
  }
}

/// The values of an index at all points of a block.
void evaluate(const Index& index, const Block& b, IntRow& out) {
  int64_t base = index.constant;
  for (const Index::Term& t : index.terms)
    if (b.fixed[size_t(t.axis)]) base += t.coef * b.axis[size_t(t.axis)][0];
  for (int i = 0; i < b.size; ++i) out[size_t(i)] = base;
  for (const Index::Term& t : index.terms) {
    if (b.fixed[size_t(t.axis)]) continue;
    const IntRow& x = b.axis[size_t(t.axis)];
    for (int i = 0; i < b.size; ++i) out[size_t(i)] += t.coef * x[size_t(i)];
  }
  IntRow inner;
  for (const Index::Floor& f : index.floors) {
    evaluate(f.inner, b, inner);
    for (int i = 0; i < b.size; ++i) out[size_t(i)] += f.coef * rgen::floor_div(inner[size_t(i)], f.divisor);
  }
}

double leaf_magnitude(double v) { return std::isfinite(v) ? std::abs(v) : 0; }
double guarded(double value, double magnitude) { return std::isfinite(value) ? magnitude : 0; }

double magnitude(UnaryOp op, double x, double mx, double f, bool exact) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::abs:
      return mx;
    case UnaryOp::exp:
      return f * (1 + mx);
    case UnaryOp::log:
      return std::abs(f) + mx / std::abs(x);
    case UnaryOp::sqrt:  // next to 0 the derivative bounds nothing: |√(x + d) − √x| ≤ √|d|
      return f + std::min(mx / (2 * f), std::sqrt(mx / unit_roundoff));
    case UnaryOp::rsqrt:
      return f + mx * f * f * f / 2;
    case UnaryOp::tanh:
      return std::abs(f) + mx * (1 - f * f);
    case UnaryOp::erf:
      return std::abs(f) + mx * 1.1283791670955126 * std::exp(-x * x);
    case UnaryOp::sigmoid:
      return f + mx * f * (1 - f);
    case UnaryOp::floor:
      return std::abs(f) + (!exact && std::abs(x - std::nearbyint(x)) <= doubt * mx ? jump : 0);
  }
  return mx;
}

bool compare(BinaryOp op, double x, double y) {
  switch (op) {
    case BinaryOp::lt:
      return x < y;
    case BinaryOp::le:
      return x <= y;
    case BinaryOp::gt:
      return x > y;
    case BinaryOp::ge:
      return x >= y;
    case BinaryOp::eq:
      return x == y;
    default:
      return x != y;
  }
}

bool representable_in_f32(double v) { return !std::isfinite(v) || double(float(v)) == v; }

}  // namespace

StageCode::StageCode(const Expr& body, const std::vector<Source>& sources, const TensorProgram& program, bool keep_last_cast)
    : sources_(sources), program_(program) {
  const auto* last = std::get_if<Cast>(&body.node);
  compile(last && !keep_last_cast ? *last->x : body, 0);
}

StageCode::~StageCode() = default;

bool StageCode::exact() const { return ops_.back().exact; }

int64_t StageCode::operations() const {
  const auto computes = [](const Op& op) {
    return op.kind != Op::Kind::constant && op.kind != Op::Kind::load && op.kind != Op::Kind::index;
  };
  return std::max<int64_t>(1, std::count_if(ops_.begin(), ops_.end(), computes));
}

/// Appends the operations that leave `e` in row `depth`; returns the index of the last.
int StageCode::compile(const Expr& e, int depth) {
  while (value_.size() <= size_t(depth)) {
    value_.emplace_back();
    magnitude_.emplace_back();
  }
  Op op;
  op.dst = depth;
  const auto exact = [&](int at) { return ops_[size_t(at)].exact; };
  const bool integer = expr_dtype(program_, e) != DType::f32;
  std::visit(overloaded{[&](const Const& c) {
                          op.kind = Op::Kind::constant;
                          op.value = c.value;
                          op.exact = representable_in_f32(c.value);
                        },
                        [&](const Access& a) {
                          const Source& s = sources_[size_t(a.tensor)];
                          op.kind = Op::Kind::load;
                          op.access = &a;
                          op.exact = s.exact;
                          op.is_linear = !a.out_of_bounds;
                          for (size_t d = 0; d < a.index.size(); ++d) op.linear = op.linear + a.index[d] * s.strides[d];
                        },
                        [&](const IndexValue& i) {
                          op.kind = Op::Kind::index;
                          op.linear = i.index;
                          op.exact = true;
                        },
                        [&](const Unary& u) {
                          op.kind = Op::Kind::unary;
                          op.unary = u.op;
                          const bool x = exact(compile(*u.x, depth));
                          op.exact = x && (u.op == UnaryOp::neg || u.op == UnaryOp::abs || u.op == UnaryOp::floor);
                        },
                        [&](const Binary& b) {
                          op.kind = Op::Kind::binary;
                          op.binary = b.op;
                          const bool x = exact(compile(*b.x, depth)), y = exact(compile(*b.y, depth + 1));
                          op.exact = x && y && (integer || b.op == BinaryOp::min || b.op == BinaryOp::max || b.op >= BinaryOp::lt);
                        },
                        [&](const Select& s) {
                          op.kind = Op::Kind::select;
                          const bool c = exact(compile(*s.condition, depth)), y = exact(compile(*s.yes, depth + 1));
                          op.exact = exact(compile(*s.no, depth + 2)) && y && c;
                        },
                        [&](const Cast& c) {
                          op.kind = Op::Kind::cast;
                          op.dtype = c.dtype;
                          op.exact = exact(compile(*c.x, depth));
                        }},
             e.node);
  ops_.push_back(op);
  if (op.kind == Op::Kind::load && sources_[size_t(op.access->tensor)].round_on_read) {
    op.kind = Op::Kind::cast;
    op.dtype = sources_[size_t(op.access->tensor)].dtype;
    ops_.push_back(op);
  }
  return int(ops_.size()) - 1;
}

void StageCode::load(const Op& op, const Block& block) {
  const Access& a = *op.access;
  const Source& s = sources_[size_t(a.tensor)];
  Row &v = value_[size_t(op.dst)], &m = magnitude_[size_t(op.dst)];
  IntRow offsets;
  std::array<bool, block_size> outside{};
  if (op.is_linear) {
    evaluate(op.linear, block, offsets);
  } else {
    offsets.fill(0);
    IntRow index;
    for (size_t d = 0; d < a.index.size(); ++d) {
      evaluate(a.index[d], block, index);
      for (int i = 0; i < block.size; ++i) {
        outside[size_t(i)] |= index[size_t(i)] < 0 || index[size_t(i)] >= s.shape[d];
        offsets[size_t(i)] += index[size_t(i)] * s.strides[d];
      }
    }
    for (int i = 0; i < block.size; ++i) offsets[size_t(i)] = outside[size_t(i)] ? -1 : offsets[size_t(i)];
  }
  if (s.plane) {
    for (int i = 0; i < block.size; ++i) {
      if (outside[size_t(i)]) continue;
      const Plane::Page& page = s.plane->page(offsets[size_t(i)]);
      v[size_t(i)] = page.value[Plane::slot(offsets[size_t(i)])];
      m[size_t(i)] = page.magnitude[Plane::slot(offsets[size_t(i)])];
    }
  } else {
    for (int i = 0; i < block.size; ++i) offsets[size_t(i)] = std::max<int64_t>(offsets[size_t(i)], 0);
    gather_input(v, offsets, block.size, s);
    for (int i = 0; i < block.size; ++i) m[size_t(i)] = leaf_magnitude(v[size_t(i)]);
  }
  if (op.is_linear) return;
  for (int i = 0; i < block.size; ++i)
    if (outside[size_t(i)]) v[size_t(i)] = *a.out_of_bounds, m[size_t(i)] = leaf_magnitude(*a.out_of_bounds);
}

void StageCode::run(const Block& block, const Row*& value, const Row*& magnitude_row) {
  const size_t n = size_t(block.size);
  for (const Op& op : ops_) {
    Row &v = value_[size_t(op.dst)], &m = magnitude_[size_t(op.dst)];
    switch (op.kind) {
      case Op::Kind::constant:
        v.fill(op.value);
        m.fill(leaf_magnitude(op.value));
        break;
      case Op::Kind::load:
        load(op, block);
        break;
      case Op::Kind::index: {
        IntRow index;
        evaluate(op.linear, block, index);
        for (size_t i = 0; i < n; ++i) v[i] = double(index[i]), m[i] = std::abs(v[i]);
        break;
      }
      case Op::Kind::unary:
        for (size_t i = 0; i < n; ++i) {
          const double f = ir::evaluate(op.unary, v[i]);
          m[i] = guarded(f, magnitude(op.unary, v[i], m[i], f, op.exact));
          v[i] = f;
        }
        break;
      case Op::Kind::binary: {
        const Row &y = value_[size_t(op.dst) + 1], &my = magnitude_[size_t(op.dst) + 1];
        switch (op.binary) {
          case BinaryOp::add:
            for (size_t i = 0; i < n; ++i) v[i] += y[i], m[i] += my[i];
            break;
          case BinaryOp::sub:
            for (size_t i = 0; i < n; ++i) v[i] -= y[i], m[i] += my[i];
            break;
          case BinaryOp::mul:
            for (size_t i = 0; i < n; ++i) {
              const double f = v[i] * y[i];
              m[i] = guarded(f, std::abs(v[i]) * my[i] + m[i] * std::abs(y[i]) - std::abs(f));
              v[i] = f;
            }
            break;
          case BinaryOp::div:
            for (size_t i = 0; i < n; ++i) {
              const double f = v[i] / y[i];
              m[i] = guarded(f, m[i] / std::abs(y[i]) + std::abs(f) * (my[i] / std::abs(y[i]) - 1));
              v[i] = f;
            }
            break;
          case BinaryOp::min:
          case BinaryOp::max:
            for (size_t i = 0; i < n; ++i) {
              v[i] = op.binary == BinaryOp::min ? std::min(v[i], y[i]) : std::max(v[i], y[i]);
              m[i] = std::max(m[i], my[i]);
            }
            break;
          case BinaryOp::pow:
            for (size_t i = 0; i < n; ++i) {
              const double f = std::pow(v[i], y[i]), x = std::abs(v[i]);
              m[i] = guarded(f, std::abs(f) * (1 + (x > 0 ? std::abs(y[i]) * m[i] / x + std::abs(std::log(x)) * my[i] : 0)));
              v[i] = f;
            }
            break;
          default:
            for (size_t i = 0; i < n; ++i) {
              const bool unsure = !op.exact && std::abs(v[i] - y[i]) <= doubt * (m[i] + my[i]);
              v[i] = compare(op.binary, v[i], y[i]);
              m[i] = unsure ? jump : v[i];
            }
        }
        break;
      }
      case Op::Kind::select: {
        const Row &yes = value_[size_t(op.dst) + 1], &my = magnitude_[size_t(op.dst) + 1];
        const Row &no = value_[size_t(op.dst) + 2], &mn = magnitude_[size_t(op.dst) + 2];
        for (size_t i = 0; i < n; ++i) {
          const bool unsure = !op.exact && m[i] > 0 && std::abs(v[i]) <= doubt * m[i], taken = v[i] != 0;
          v[i] = taken ? yes[i] : no[i];
          m[i] = unsure ? std::max(my[i], mn[i]) + std::abs(yes[i] - no[i]) * jump : taken ? my[i] : mn[i];
        }
        break;
      }
      case Op::Kind::cast:
        if (op.dtype == DType::f32) break;
        for (size_t i = 0; i < n; ++i) {
          const double r = round_to(v[i], op.dtype), step = is_float(op.dtype) ? ulp(v[i], op.dtype) : 1;
          const bool unsure = !op.exact && step / 2 - std::abs(v[i] - r) <= doubt * m[i] && std::abs(v[i] - r) <= step / 2;
          m[i] = leaf_magnitude(r) + (unsure ? step * jump : 0);
          v[i] = r;
        }
        break;
    }
  }
  value = &value_[0];
  magnitude_row = &magnitude_[0];
}

}  // namespace rgen::ir::reference
