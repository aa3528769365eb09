#include "rtile/nest.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>

#include "rtile/layout.h"

namespace rgen::rtile {

using ir::Access;
using ir::Expr;
using ir::ExprPtr;
using ir::Index;

bool Nest::fused() const {
  return std::any_of(axes.begin(), axes.end(), [](const NestAxis& a) { return a.full > 0; });
}

bool Nest::has_reduction() const {
  return std::any_of(axes.begin(), axes.end(), [](const NestAxis& a) { return a.reduced; });
}
std::vector<int64_t> Nest::extents() const {
  std::vector<int64_t> e;
  for (const NestAxis& a : axes) e.push_back(a.extent);
  return e;
}
std::vector<int64_t> Nest::full_extents() const {
  std::vector<int64_t> e;
  for (const NestAxis& a : axes) e.push_back(a.full ? a.full : a.extent);
  return e;
}
int64_t Nest::points() const {
  int64_t n = 1;
  for (const NestAxis& a : axes) n *= a.extent;
  return n;
}

ExprPtr substitute_axes(const ExprPtr& e, const std::vector<Index>& with) {
  return ir::transform(e, [&](const ExprPtr& x) -> ExprPtr {
    if (const Access* a = std::get_if<Access>(&x->node)) {
      std::vector<Index> index;
      for (const Index& i : a->index) index.push_back(ir::substitute(i, with));
      return ir::access(a->tensor, std::move(index), a->out_of_bounds);
    }
    if (const ir::IndexValue* v = std::get_if<ir::IndexValue>(&x->node)) return ir::index_value(ir::substitute(v->index, with));
    return nullptr;
  });
}

std::string unused_name(const ir::TensorProgram& program, const std::string& base) {
  std::string name = base;
  while (std::any_of(program.tensors.begin(), program.tensors.end(), [&](const ir::Tensor& t) { return t.name == name; })) name += "_";
  return name;
}

namespace {

/// Weight of evaluating an expression once more: functions are dear, arithmetic is cheap.
int weight(const Expr& e) {
  return std::visit(
      ir::overloaded{[](const ir::Const&) { return 0; }, [](const Access&) { return 1; }, [](const ir::IndexValue&) { return 1; },
                     [](const ir::Unary& u) {
                       const bool cheap = u.op == ir::UnaryOp::neg || u.op == ir::UnaryOp::abs;
                       return (cheap ? 1 : 10) + weight(*u.x);
                     },
                     [](const ir::Binary& b) {
                       const int own = b.op == ir::BinaryOp::pow ? 20 : b.op == ir::BinaryOp::div ? 5 : 1;
                       return own + weight(*b.x) + weight(*b.y);
                     },
                     [](const ir::Select& s) { return 1 + weight(*s.condition) + weight(*s.yes) + weight(*s.no); },
                     [](const ir::Cast& c) { return weight(*c.x); }},
      e.node);
}

int64_t points(const ir::Stage& s) {
  int64_t n = 1;
  for (const ir::Axis& a : s.axes) n *= a.extent.value();
  return n;
}

/// Elementwise producers disappear into their readers when that repeats no dear work: one reader that visits each element about once,
/// or a body so cheap that reading a buffer would cost as much.
std::vector<ir::Stage> inline_elementwise(const ir::TensorProgram& program) {
  std::vector<ir::Stage> stages = program.stages;
  for (size_t p = 0; p < stages.size(); ++p) {
    const ir::Stage producer = stages[p];
    if (producer.reduce != ir::ReduceOp::none || program[producer.output].kind != ir::TensorKind::intermediate) continue;
    int64_t reads = 0, uses = 0;
    bool guarded = false;
    for (size_t c = p + 1; c < stages.size(); ++c)
      ir::for_each_access(*stages[c].body, [&](const Access& a) {
        if (a.tensor != producer.output) return;
        ++uses, reads += points(stages[c]);
        guarded |= a.out_of_bounds.has_value();
      });
    const int w = weight(*producer.body);
    const bool repeats_little = reads <= points(producer) && (uses <= 1 || w <= 3);
    const bool free = w <= 1 && !std::holds_alternative<ir::Cast>(producer.body->node);
    if (uses == 0 || guarded || !(repeats_little || free)) continue;
    const DType kept = program[producer.output].dtype;
    for (size_t c = p + 1; c < stages.size(); ++c)
      stages[c].body = ir::transform(stages[c].body, [&](const ExprPtr& x) -> ExprPtr {
        const Access* a = std::get_if<Access>(&x->node);
        if (!a || a->tensor != producer.output) return nullptr;
        ExprPtr body = substitute_axes(producer.body, a->index);
        // a buffer would have rounded to its type: so must the value
        const ir::Cast* outer = std::get_if<ir::Cast>(&body->node);
        return kept == accumulation(kept) || (outer && outer->dtype == kept) ? body : ir::cast(kept, body);
      });
    stages.erase(stages.begin() + std::ptrdiff_t(p));
    --p;
  }
  return stages;
}

Nest nest_of(const ir::Stage& s) {
  Nest n;
  for (size_t i = 0; i < s.axes.size(); ++i) n.axes.push_back({s.axes[i].name, s.axes[i].extent.value(), int(i) >= s.n_out});
  Statement st{s.output, {}, s.reduce, s.body, true};
  for (int i = 0; i < s.n_out; ++i) st.index.push_back(Index::axis(i));
  n.inner.push_back(std::move(st));
  return n;
}

const Statement* producer_in(const Nest& n, int tensor) {
  const Statement* found = nullptr;
  n.for_each_statement([&](const Statement& s) {
    if (s.tensor == tensor) found = &s;
  });
  return found;
}

/// Axes of `n` in the order of the stage's, if every read of n's results is at the same point; nothing otherwise.
std::optional<std::vector<int>> align(const Nest& n, const ir::Stage& s) {
  std::vector<int> to(s.axes.size(), -1);
  bool ok = true, reads = false;
  ir::for_each_access(*s.body, [&](const Access& a) {
    const Statement* p = producer_in(n, a.tensor);
    if (!p) return;
    reads = true;
    if (a.out_of_bounds) ok = false;
    for (size_t d = 0; ok && d < a.index.size(); ++d) {
      const int from = single_axis(a.index[d]), axis = single_axis(p->index[d]);
      if (from < 0 || axis < 0 || (to[size_t(from)] >= 0 && to[size_t(from)] != axis) ||
          s.axes[size_t(from)].extent.value() != n.axes[size_t(axis)].extent)
        ok = false;
      else
        to[size_t(from)] = axis;
    }
  });
  if (!ok || !reads) return {};
  std::vector<bool> taken(n.axes.size(), false);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] < 0 && s.axes[i].extent.value() == 1) continue;  // stands still
    if (to[i] < 0 || taken[size_t(to[i])]) return {};
    taken[size_t(to[i])] = true;
  }
  return to;
}

void append(Nest& n, const ir::Stage& s, const std::vector<int>& to, bool outer) {
  std::vector<Index> with;
  for (int t : to) with.push_back(t < 0 ? Index::number(0) : Index::axis(t));
  Statement st{s.output, {}, s.reduce, substitute_axes(s.body, with), true};
  for (int i = 0; i < s.n_out; ++i) st.index.push_back(with[size_t(i)]);
  (outer ? n.outer : n.inner).push_back(std::move(st));
}

bool reads_any(const ir::Stage& s, const std::vector<Nest>& nests, size_t from) {
  bool any = false;
  ir::for_each_access(*s.body, [&](const Access& a) {
    for (size_t i = from; i < nests.size(); ++i) any |= producer_in(nests[i], a.tensor) != nullptr;
  });
  return any;
}

/// Tries to run stage `s` inside nest `n`: as an epilogue over the unreduced axes, or at the same points.
bool merge(Nest& n, const ir::Stage& s) {
  const auto to = align(n, s);
  if (!to) return false;
  const auto reached = [&](int axis) { return std::count(to->begin(), to->end(), axis) != 0; };
  if (s.reduce == ir::ReduceOp::none) {  // over exactly the axes that are kept (those of extent 1 aside)
    for (int a = 0; a < int(n.axes.size()); ++a)
      if (n.axes[size_t(a)].reduced ? reached(a) : !reached(a) && n.axes[size_t(a)].extent != 1) return false;
    append(n, s, *to, n.has_reduction());
    return true;
  }
  // a reduction over the points of an elementwise nest
  if (n.has_reduction() || s.axes.size() != n.axes.size() || reached(-1)) return false;
  for (size_t i = size_t(s.n_out); i < s.axes.size(); ++i) n.axes[size_t((*to)[i])].reduced = true;
  append(n, s, *to, false);
  return true;
}

std::set<int> axes_of(const ir::ExprPtr& e, const Nest& n) {
  std::set<int> axes;
  const auto see = [&](const Index& i) {
    for (int a = 0; a < int(n.axes.size()); ++a)
      if (i.uses(a) && n.axes[size_t(a)].extent > 1) axes.insert(a);
  };
  ir::transform(e, [&](const ExprPtr& x) -> ExprPtr {
    if (const Access* a = std::get_if<Access>(&x->node)) std::for_each(a->index.begin(), a->index.end(), see);
    if (const ir::IndexValue* v = std::get_if<ir::IndexValue>(&x->node)) see(v->index);
    return nullptr;
  });
  return axes;
}

/// x / y as x · (1 / y) where y stays the same along an axis on which x depends: one division for all points there.
ExprPtr by_reciprocals(const ExprPtr& e, const Nest& n) {
  return ir::transform(e, [&](const ExprPtr& q) -> ExprPtr {
    const ir::Binary* b = std::get_if<ir::Binary>(&q->node);
    if (!b || b->op != ir::BinaryOp::div) return nullptr;
    const std::set<int> of_x = axes_of(b->x, n), of_y = axes_of(b->y, n);
    if (std::includes(of_y.begin(), of_y.end(), of_x.begin(), of_x.end())) return nullptr;
    const ExprPtr x = by_reciprocals(b->x, n), y = by_reciprocals(b->y, n);
    const ir::Const* c = std::get_if<ir::Const>(&y->node);
    if (c && !std::isnormal(float(1 / c->value))) return nullptr;
    return ir::binary(ir::BinaryOp::mul, x, c ? ir::constant(1 / c->value) : ir::binary(ir::BinaryOp::div, ir::constant(1), y));
  });
}

}  // namespace

std::vector<Nest> build_nests(const ir::TensorProgram& program) {
  std::vector<Nest> nests;
  for (const ir::Stage& s : inline_elementwise(program)) {
    bool merged = false;
    for (size_t i = nests.size(); i-- > 0 && !merged;) {
      if (reads_any(s, nests, i + 1)) break;  // moving s before a nest it reads would be wrong
      merged = merge(nests[i], s);
    }
    if (!merged) nests.push_back(nest_of(s));
  }
  for (Nest& n : nests) {
    const auto read_elsewhere = [&](int tensor) {
      return program[tensor].kind == ir::TensorKind::output ||
             std::any_of(nests.begin(), nests.end(), [&](const Nest& m) { return &m != &n && reads(m, tensor); });
    };
    for (std::vector<Statement>* statements : {&n.inner, &n.outer})
      for (Statement& s : *statements) s.store = read_elsewhere(s.tensor), s.value = by_reciprocals(s.value, n);
  }
  return nests;
}

bool reads(const Nest& nest, int tensor) {
  bool any = false;
  nest.for_each_statement([&](const Statement& s) { ir::for_each_access(*s.value, [&](const Access& a) { any |= a.tensor == tensor; }); });
  return any;
}

std::vector<int> tensors_in_memory(const Nest& nest) {
  std::set<int> all, own;
  nest.for_each_statement([&](const Statement& s) {
    (s.store ? all : own).insert(s.tensor);
    ir::for_each_access(*s.value, [&](const Access& a) { all.insert(a.tensor); });
  });
  std::vector<int> in_memory;
  std::set_difference(all.begin(), all.end(), own.begin(), own.end(), std::back_inserter(in_memory));
  return in_memory;
}

namespace {

/// The axes along which nests [first, last) can run tile by tile: one axis number per nest for each.
std::vector<std::vector<int>> shared_axes(const std::vector<Nest>& nests, size_t first, size_t last) {
  std::vector<std::vector<int>> shared;
  if (std::any_of(nests.begin() + std::ptrdiff_t(first), nests.begin() + std::ptrdiff_t(last), [](const Nest& n) { return n.copies; }))
    return {};
  for (size_t a = 0; a < nests[first].axes.size(); ++a) {
    if (nests[first].axes[a].reduced) continue;
    std::vector<int> at(last - first, -1);
    at[0] = int(a);
    bool ok = true;
    for (size_t n = first + 1; n < last && ok; ++n) {
      int& mine = at[n - first];
      nests[n].for_each_statement([&](const Statement& s) {
        ir::for_each_access(*s.value, [&](const Access& acc) {
          for (size_t m = first; m < n; ++m) {
            const Statement* p = producer_in(nests[m], acc.tensor);
            if (!p) continue;
            bool found = false;
            for (size_t d = 0; d < acc.index.size(); ++d) {
              if (single_axis(p->index[d]) != at[m - first] || at[m - first] < 0) continue;
              const int c = single_axis(acc.index[d]);
              found = c >= 0 && !nests[n].axes[size_t(c)].reduced && (mine < 0 || mine == c);
              if (found) mine = c;
            }
            ok &= found && !acc.out_of_bounds;
          }
        });
      });
      ok &= mine >= 0 && nests[n].axes[size_t(mine)].extent == nests[first].axes[a].extent;
      // what the nest writes must be cut along the axis too
      nests[n].for_each_statement([&](const Statement& s) {
        ok &= std::any_of(s.index.begin(), s.index.end(), [&](const Index& i) { return single_axis(i) == mine; });
      });
    }
    if (ok) shared.push_back(std::move(at));
  }
  return shared;
}

}  // namespace

std::vector<Group> build_groups(const ir::TensorProgram& program, const std::vector<Nest>& nests,
                                const std::function<bool(const Nest&)>& may_join) {
  std::vector<Group> groups;
  for (size_t first = 0; first < nests.size();) {
    size_t last = first + 1;
    std::vector<std::vector<int>> shared;
    while (last < nests.size() && may_join(nests[last - 1]) && may_join(nests[last])) {
      auto wider = shared_axes(nests, first, last + 1);
      if (wider.empty()) break;
      shared = std::move(wider);
      ++last;
    }
    Group g{{nests.begin() + std::ptrdiff_t(first), nests.begin() + std::ptrdiff_t(last)}, std::move(shared), {}};
    for (const Nest& n : g.nests)
      n.for_each_statement([&](const Statement& s) {
        if (!s.store || program[s.tensor].kind != ir::TensorKind::intermediate || program[s.tensor].within >= 0) return;
        for (size_t m = 0; m < nests.size(); ++m) {
          if ((m < first || m >= last) && reads(nests[m], s.tensor)) return;
        }
        g.local.push_back(s.tensor);
      });
    groups.push_back(std::move(g));
    first = last;
  }
  return groups;
}

}  // namespace rgen::rtile
