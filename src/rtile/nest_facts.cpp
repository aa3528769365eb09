#include "rtile/nest_facts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rtile/layout.h"
#include "rtile/residence.h"

namespace rgen::rtile {

namespace {

std::string_view function_name(ir::UnaryOp op) {
  using O = ir::UnaryOp;
  switch (op) {
    case O::exp:
      return "exp";
    case O::log:
      return "log";
    case O::sqrt:
      return "sqrt";
    case O::rsqrt:
      return "div";
    case O::tanh:
      return "tanh";
    case O::erf:
      return "erf";
    case O::sigmoid:
      return "sigmoid";
    case O::floor:
      return "floor";
    case O::neg:
    case O::abs:
      return "add";
  }
  return "add";
}
std::string_view function_name(ir::BinaryOp op) {
  using O = ir::BinaryOp;
  switch (op) {
    case O::mul:
      return "mul";
    case O::div:
      return "div";
    case O::pow:
      return "pow";
    case O::min:
    case O::max:
      return "max";
    case O::add:
    case O::sub:
      return "add";
    default:
      return "compare";
  }
}

/// Registers that the coefficients of a polynomial take.
constexpr int64_t kCoefficients = 10;

/// The functions of an expression, each with the axes on which its value depends.
class FunctionCounter {
 public:
  FunctionCounter(size_t axes, std::vector<NestFacts::Function>& into) : n_(axes), into_(into) {}

  void count(std::string_view name, const std::vector<bool>& along, double instructions = 1) {
    auto f = std::find_if(into_.begin(), into_.end(), [&](const auto& x) { return x.name == name && x.along == along; });
    if (f == into_.end()) f = into_.insert(f, {name, along});
    f->times += 1, f->instructions += instructions;
  }

  /// The axes of `e`. `top`: the outermost product of a sum is part of the multiply-add.
  std::vector<bool> count(const ir::Expr& e, bool top = false) {
    std::vector<bool> along(n_, false);
    const auto part = [&](const ir::ExprPtr& x) {
      const std::vector<bool> its = count(*x);
      for (size_t a = 0; a < n_; ++a) along[a] = along[a] || its[a];
    };
    const auto index = [&](const ir::Index& i) {
      for (size_t a = 0; a < n_; ++a) along[a] = along[a] || i.uses(int(a));
    };
    constexpr double kPolynomial = 14;  // instructions
    std::visit(ir::overloaded{[](const ir::Const&) {}, [&](const ir::Access& a) { std::for_each(a.index.begin(), a.index.end(), index); },
                              [&](const ir::IndexValue& i) { index(i.index), count("add", along); },
                              [&](const ir::Unary& u) {
                                part(u.x);
                                const std::string_view name = function_name(u.op);
                                count(name, along, transcendental(name) ? kPolynomial : 1);
                              },
                              [&](const ir::Binary& b) {
                                part(b.x), part(b.y);
                                if (!top) count(function_name(b.op), along);
                              },
                              [&](const ir::Select& s) { part(s.condition), part(s.yes), part(s.no), count("select", along); },
                              [&](const ir::Cast& c) { part(c.x), count("convert", along); }},
               e.node);
    return along;
  }

 private:
  const size_t n_;
  std::vector<NestFacts::Function>& into_;
};

bool is_product(const Statement& s) {
  const ir::Binary* b = std::get_if<ir::Binary>(&s.value->node);
  return s.reduce == ir::ReduceOp::sum && b && b->op == ir::BinaryOp::mul;
}

const ir::Access* stripped_access(const ir::ExprPtr& e) {
  const ir::Expr* x = e.get();
  while (const ir::Cast* c = std::get_if<ir::Cast>(&x->node)) x = c->x.get();
  return std::get_if<ir::Access>(&x->node);
}

NestFacts::OperandFacts facts_of(const ir::TensorProgram& program, const Nest& nest, int tensor, const std::vector<ir::Index>& index) {
  const ir::Tensor& t = program[tensor];
  NestFacts::OperandFacts f;
  f.tensor = tensor;
  f.element_bytes = size_of(t.dtype);
  f.shape = const_sizes(t.shape), f.strides = const_sizes(t.strides);
  f.affine = is_affine(index);
  Linear l = linearise(index, f.strides, int(nest.axes.size()));
  f.coef = std::move(l.coef), f.constant = l.constant;
  for (const ir::Index& i : index) {
    std::vector<int64_t> c(nest.axes.size(), 0);
    for (const ir::Index::Term& x : i.terms) c[size_t(x.axis)] = x.coef;
    for (const ir::Index::Floor& fl : i.floors)
      for (size_t a = 0; a < c.size(); ++a)
        if (fl.inner.uses(int(a))) c[a] = std::max<int64_t>(1, std::abs(c[a]));
    f.dim_coef.push_back(std::move(c));
  }
  f.walks = walks_of(f.dim_coef);
  return f;
}

}  // namespace

bool transcendental(std::string_view f) { return f == "exp" || f == "log" || f == "tanh" || f == "erf" || f == "sigmoid"; }

std::optional<Contraction> contraction(const Nest& nest) {
  if (nest.inner.size() != 1 || nest.inner[0].reduce != ir::ReduceOp::sum) return {};
  const ir::Binary* b = std::get_if<ir::Binary>(&nest.inner[0].value->node);
  if (!b || b->op != ir::BinaryOp::mul) return {};
  Contraction c{stripped_access(b->x), stripped_access(b->y)};
  if (!c.x || !c.y || !is_affine(c.x->index) || !is_affine(c.y->index)) return {};
  return c;
}

std::vector<NestFacts::OperandFacts::Walk> walks_of(const std::vector<std::vector<int64_t>>& dim_coef) {
  std::vector<NestFacts::OperandFacts::Walk> walks;
  for (size_t d = dim_coef.size(); d-- > 0;)
    for (size_t a = 0; a < dim_coef[d].size(); ++a)
      if (dim_coef[d][a] != 0) walks.push_back({d, a, std::abs(dim_coef[d][a])});
  return walks;
}

NestFacts nest_facts(const ir::TensorProgram& program, const Nest& nest) {
  NestFacts f;
  f.extents = nest.extents(), f.full_extents = nest.full_extents();
  for (const Operand& o : collect_operands(nest)) {
    auto x = facts_of(program, nest, o.access.tensor, o.access.index);
    x.guards = guarded_dims(program, o.access, f.full_extents);
    const ir::Tensor& tensor = program[o.access.tensor];
    for (int d : x.guards) {
      const auto [lo, hi] = ir::bounds(o.access.index[size_t(d)], f.full_extents);
      const int64_t before = std::max<int64_t>(0, -lo), behind = std::max<int64_t>(0, hi + 1 - x.shape[size_t(d)]);
      x.outside.push_back(double(before + behind) / double(hi + 1 - lo));
    }
    if (x.affine && !x.shape.empty() && const_sizes(tensor.strides).back() == 1) {
      for (bool on_lines : {false, true}) {
        const BoxLayout box = box_layout(tensor, o.access, f.full_extents, on_lines);
        NestFacts::OperandFacts::Box& y = x.boxes[on_lines];
        y.coef = linearise(o.access.index, box.strides, int(nest.axes.size())).coef;
        y.row = box.inner * box.count[box.run], y.rows = 1, x.box_shape = box.shape;
        for (size_t d = 0; d < box.run; ++d) y.rows *= box.count[d];
        y.spread = double(box.elements) * x.element_bytes / tensor_bytes(tensor);
      }
    }
    bool inner = false;
    for (const Statement& s : nest.inner)
      ir::for_each_access(*s.value, [&](const ir::Access& a) { inner |= a.tensor == o.access.tensor && a.index == o.access.index; });
    x.inner = inner;
    for (const auto& dim : x.dim_coef) {
      bool by[2] = {false, false};
      for (size_t a = 0; a < dim.size(); ++a) by[nest.axes[a].reduced] |= dim[a] != 0;
      f.slides |= by[0] && by[1];
    }
    f.operands.push_back(std::move(x));
  }
  f.reads = f.operands.size();
  const auto stores = [&](const Statement& s, bool inner) {
    if (!s.store) return;
    auto x = facts_of(program, nest, s.tensor, s.index);
    x.is_store = true;
    x.inner = inner && s.reduce == ir::ReduceOp::none;
    f.operands.push_back(std::move(x));
  };
  FunctionCounter inner(nest.axes.size(), f.inner_functions), outer(nest.axes.size(), f.outer_functions);
  const std::vector<bool> every_axis(nest.axes.size(), true);
  for (const Statement& s : nest.inner) {
    if (is_product(s))
      ++f.products;
    else if (s.reduce != ir::ReduceOp::none)
      inner.count(s.reduce == ir::ReduceOp::sum ? "add" : "max", every_axis);
    inner.count(*s.value, is_product(s));
    stores(s, true);
  }
  for (const Statement& s : nest.outer) {
    outer.count(*s.value);
    stores(s, false);
  }
  const auto used_again = [&](const NestFacts::OperandFacts& o) {
    bool again = false;
    for (size_t a = 0; a < nest.axes.size(); ++a) again |= !nest.axes[a].reduced && nest.axes[a].extent > 1 && o.coef[a] == 0;
    return o.inner && again;
  };
  f.contracts = f.products > 0 && std::any_of(f.operands.begin(), f.operands.begin() + std::ptrdiff_t(f.reads), used_again);
  return f;
}

constexpr double kPage = 4096;  ///< over whose end prefetchers do not go: rows that are stepped over do not come

double footprint_bytes(const NestFacts::OperandFacts& o, std::span<const int64_t> extents, int line_bytes, Fetch fetch) {
  if (fetch == Fetch::packed) {
    double n = o.element_bytes;
    for (size_t a = 0; a < extents.size(); ++a)
      if (o.coef[a] != 0) n *= double(extents[a]);
    return n;
  }
  // one stretch per row; rows less than a line apart share their lines and form one stretch
  double stretch = o.element_bytes, rows = 1, stride = o.element_bytes;
  double reach = 0;             // from the first to the last of them
  int64_t places = line_bytes;  // all rows begin at multiples of it
  auto walk = o.walks.begin();
  for (size_t d = o.shape.size(); d-- > 0;) {
    int64_t span = 1, points = 1;
    for (; walk != o.walks.end() && walk->dimension == d; ++walk)
      span += walk->coef * (extents[walk->axis] - 1), points *= extents[walk->axis];
    const bool skips = fetch == Fetch::sectors || stride >= kPage;
    const double touched = double(skips ? std::min(span, points) : span);
    const double apart = touched > 1 ? stride * double(span - 1) / (touched - 1) : stride;
    const bool within = rows == 1 && apart - stretch < line_bytes;
    if ((!within || span == 1) && o.shape[d] > 1) places = std::gcd(places, int64_t(stride));
    if (within) {
      stretch += double(span - 1) * stride;
    } else if (reach > stride && touched > 1) {  // a fused axis leaves its dimension: rows of several places are the same
      rows *= std::min(touched, 1 + double(span - 1) * stride / reach);
    } else {
      rows *= touched;
      if (touched > 1) reach = double(span) * stride;
    }
    stride *= double(o.shape[d]);
  }
  // shared lines: half a line more where the end is ragged; else what a stretch touches on average that begins at any multiple of `places`
  // in a line, its own length among them
  if (fetch == Fetch::sectors)
    return rows *
           std::max(double(line_bytes), stretch + (int64_t(stretch) % line_bytes != 0 && stretch > line_bytes ? 0.5 * line_bytes : 0));
  return rows * (stretch + double(line_bytes - std::gcd(places, int64_t(stretch))));
}

int64_t shared_bytes(const NestPlan& plan) { return plan.form == AtomForm::warp ? plan.tile[size_t(plan.vec)].hi * kFragmentTile * 4 : 0; }

BlockMemory block_memory(const NestPlan& plan) {
  const Staging& s = *plan.staging;
  constexpr int64_t kRows = kFragmentTile * 4;
  BlockMemory m;
  m.stage = s.depth * (Staging::pitch(s.block_rows(), s.copies_a) + Staging::pitch(plan.block_columns(), s.copies_b)) * kStepBytes;
  m.barriers = s.stages * m.stage;
  if (s.producers() == 0) {
    m.bytes = std::max(m.barriers, s.warps() * plan.column_tiles() * kRows);
  } else {
    m.rows = round_up(m.barriers + (2 * s.stages + s.turns) * BlockMemory::kBarrier, 128);
    m.bytes = m.rows + s.warps() * kRows;
  }
  return m;
}

bool used_as_loaded(const Nest& nest, const NestFacts& facts, const NestPlan& plan) {
  const size_t vec = size_t(plan.vec);
  const bool warp = plan.lanes > 16;  // whose compiler decides by itself
  if (facts.products == 0 || plan.form != AtomForm::vector || nest.axes[vec].reduced || plan.store_transpose_axis >= 0 || warp)
    return false;
  for (size_t i = 0; i < facts.reads; ++i) {
    const auto& o = facts.operands[i];
    if (!o.inner) continue;
    const int64_t stride = o.coef[vec];
    const bool packed = plan.operands[i].placement != Placement::direct;
    const bool masked = !packed && (nest.axes[vec].extent % plan.lanes != 0 || !o.guards.empty());
    if (o.element_bytes < 4 || plan.operands[i].transposed || (stride != 0 && (masked || (stride != 1 && !packed)))) return false;
  }
  return true;
}

double rows_across_lines(const Nest& nest, const std::vector<int64_t>& coef, const NestPlan& plan, int element_bytes) {
  const int64_t length = int64_t(plan.k_step) * element_bytes;
  int64_t step = kStepBytes;  // rows begin at multiples of it
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const bool walked = int(a) != plan.k_axis ? nest.axes[a].extent > 1 : nest.axes[a].extent > plan.k_step;
    if (walked) step = std::gcd(step, (int(a) == plan.k_axis ? length : std::abs(coef[a]) * element_bytes));
  }
  return double(ceil_div(length, step) - 1) * double(step) / kStepBytes;
}

bool sums_columns(const Nest& nest, const NestFacts& facts, int vec) {
  return nest.has_reduction() && facts.products == 0 && !facts.slides && !nest.axes[size_t(vec)].reduced;
}

int registers_needed(const Nest& nest, const NestFacts& facts, const NestPlan& plan) {
  if (plan.form == AtomForm::warp) {
    const int rows = int(plan.row_tiles(nest).size()), columns = int(plan.tile[size_t(plan.vec)].hi);
    return 16 * rows * columns + 8 * rows + 16 * columns;
  }
  if (plan.form == AtomForm::matrix) return 8;  // accumulators are tiles; the epilogue needs a few vectors
  const bool vec_reduced = nest.axes[size_t(plan.vec)].reduced;
  int64_t points = 1;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (!nest.axes[a].reduced) points *= plan.tile[a].hi;
  int64_t accumulators = 0, copies = vec_reduced ? plan.tile[size_t(plan.vec)].hi : 1;
  for (const Statement& s : nest.inner) accumulators += s.reduce == ir::ReduceOp::none ? 0 : points * copies;
  // live at once: the vectors of an operand that is reused across the other unrolled axes, one value of a broadcast; in a sliding
  // window, everything that the innermost reduced axis passes over
  int64_t live = used_as_loaded(nest, facts, plan)   ? 0
                 : vec_reduced && facts.products > 0 ? 2
                                                     : 1;  // compilers that see every register taken load operands again instead
  // a tree of many rows begins while copies of their sums still wait (15 rows of two copies take 1.25 to 1.45 times as long as of one; Zen
  // 4)
  if (vec_reduced && points > 8 && copies > 1 && accumulators > 24) live += 4;
  const std::vector<int> order = plan.point_axes(nest);
  const bool as_it_comes =
      sums_columns(nest, facts, plan.vec) && std::none_of(facts.inner_functions.begin(), facts.inner_functions.end(),
                                                          [](const NestFacts::Function& f) { return transcendental(f.name); });
  for (size_t i = 0; i < facts.reads; ++i) {
    const auto& o = facts.operands[i];
    if (!o.inner) continue;
    int64_t mine = 1;  // vectors that an axis further out comes back to
    bool again = false;
    for (int a : order) {
      const int64_t size = plan.tile[size_t(a)].hi;
      if (o.coef[size_t(a)] == 0)
        again |= size > 1 && !plan.window;
      else if (again || a == plan.vec)
        mine *= size;
    }
    if (as_it_comes && !again) mine = 1;
    bool invariant = nest.has_reduction() && !o.is_store;  // read once before the reduction
    for (size_t a = 0; a < nest.axes.size(); ++a) invariant &= !nest.axes[a].reduced || o.coef[a] == 0;
    if (invariant) {
      mine = 1;
      for (size_t a = 0; a < nest.axes.size(); ++a)
        if (o.coef[a] != 0) mine *= plan.tile[a].hi;
    }
    if (plan.window) {
      const int last = plan.reduce_order.back();
      for (const auto& dim : o.dim_coef) {
        int64_t span = 1;
        for (size_t a = 0; a < nest.axes.size(); ++a)
          if (int(a) != plan.vec && (!nest.axes[a].reduced || int(a) == last)) span += std::abs(dim[a]) * (plan.tile[a].hi - 1);
        mine *= span;
      }
    }
    if (plan.operands[i].neighbours > 0) mine = std::max(mine, plan.operands[i].neighbours);
    live += mine;
  }
  // coefficients of polynomials, which compilers keep for the whole loop
  if (nest.has_reduction())
    for (const NestFacts::Function& f : facts.inner_functions) live += transcendental(f.name) ? kCoefficients : 0;
  return int(accumulators + live);
}

}  // namespace rgen::rtile
