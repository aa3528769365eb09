#include "rtile/nest.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/math.h"

namespace rgen::rtile {

using ir::Access;
using ir::Expr;
using ir::ExprPtr;
using ir::Index;

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

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> s(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) s[d - 1] = s[d] * shape[d];
  return s;
}
std::vector<int64_t> const_sizes(const std::vector<ir::Size>& sizes) {
  std::vector<int64_t> v;
  for (const ir::Size& s : sizes) v.push_back(s.value());
  return v;
}
bool is_affine(const std::vector<Index>& index) {
  return std::all_of(index.begin(), index.end(), [](const Index& i) { return i.is_affine(); });
}
Linear linearise(const std::vector<Index>& index, const std::vector<int64_t>& strides, int n_axes) {
  Linear l{std::vector<int64_t>(size_t(n_axes), 0), 0};
  for (size_t d = 0; d < index.size(); ++d) {
    l.constant += strides[d] * index[d].constant;
    for (const Index::Term& t : index[d].terms) l.coef[size_t(t.axis)] += strides[d] * t.coef;
  }
  return l;
}
BoxLayout box_layout(const ir::Tensor& tensor, const std::vector<Index>& index, const std::vector<int64_t>& extents) {
  const std::vector<int64_t> shape = const_sizes(tensor.shape), source = const_sizes(tensor.strides);
  const size_t rank = shape.size();
  BoxLayout b;
  b.lo.resize(rank), b.count.resize(rank), b.strides.resize(rank);
  for (size_t d = 0; d < rank; ++d) {
    const auto [first, last] = ir::bounds(index[d], extents);
    b.lo[d] = std::min<int64_t>(first, 0), b.count[d] = std::max(last + 1, shape[d]) - b.lo[d];
  }
  // trailing dimensions that lie one after the other in memory are copied as one run
  b.run = rank - 1;
  while (b.run > 0 && b.count[b.run] == shape[b.run] && source[b.run] == b.inner && source[b.run - 1] == b.inner * shape[b.run])
    b.inner *= shape[b.run--];
  for (size_t d = rank; d-- > 0;) {
    b.strides[d] = d + 1 == rank ? 1 : b.strides[d + 1] * b.count[d + 1];
    if (d + 1 == b.run && d < rank) {  // rows a power of two apart would share cache sets
      const int64_t line = 64 / size_of(tensor.dtype);
      int64_t row = round_up(b.inner * b.count[b.run], line);
      if (row * size_of(tensor.dtype) % 512 == 0) row += line;
      b.strides[d] = row;
    }
  }
  b.elements = b.run == 0 ? b.inner * b.count[0] : b.strides[0] * b.count[0];
  return b;
}
std::vector<int> guarded_dims(const ir::TensorProgram& program, const Access& access, const std::vector<int64_t>& extents) {
  std::vector<int> dims;
  if (!access.out_of_bounds) return dims;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const auto [lo, hi] = ir::bounds(access.index[d], extents);
    if (lo < 0 || hi >= program[access.tensor].shape[d].value()) dims.push_back(int(d));
  }
  return dims;
}

namespace {

/// The axis if `i` is exactly one axis with coefficient 1, else −1.
int single_axis(const Index& i) {
  return i.floors.empty() && i.constant == 0 && i.terms.size() == 1 && i.terms[0].coef == 1 ? i.terms[0].axis : -1;
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
      bool any = program[tensor].kind == ir::TensorKind::output;
      for (const Nest& m : nests)
        if (&m != &n)
          m.for_each_statement(
              [&](const Statement& s) { ir::for_each_access(*s.value, [&](const Access& a) { any |= a.tensor == tensor; }); });
      return any;
    };
    for (Statement& s : n.inner) s.store = read_elsewhere(s.tensor);
    for (Statement& s : n.outer) s.store = read_elsewhere(s.tensor);
  }
  return nests;
}

namespace {

/// The axes along which nests [first, last) can run tile by tile: one axis number per nest for each.
std::vector<std::vector<int>> shared_axes(const std::vector<Nest>& nests, size_t first, size_t last) {
  std::vector<std::vector<int>> shared;
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

std::vector<Group> build_groups(const ir::TensorProgram& program, const std::vector<Nest>& nests, bool fuse) {
  std::vector<Group> groups;
  for (size_t first = 0; first < nests.size();) {
    size_t last = first + 1;
    std::vector<std::vector<int>> shared;
    while (fuse && last < nests.size()) {
      auto wider = shared_axes(nests, first, last + 1);
      if (wider.empty()) break;
      shared = std::move(wider);
      ++last;
    }
    Group g{{nests.begin() + std::ptrdiff_t(first), nests.begin() + std::ptrdiff_t(last)}, std::move(shared), {}};
    for (const Nest& n : g.nests)
      n.for_each_statement([&](const Statement& s) {
        if (!s.store || program[s.tensor].kind != ir::TensorKind::intermediate) return;
        for (size_t m = 0; m < nests.size(); ++m) {
          if (m >= first && m < last) continue;
          bool outside = false;
          nests[m].for_each_statement(
              [&](const Statement& o) { ir::for_each_access(*o.value, [&](const Access& a) { outside |= a.tensor == s.tensor; }); });
          if (outside) return;
        }
        g.local.push_back(s.tensor);
      });
    groups.push_back(std::move(g));
    first = last;
  }
  return groups;
}

namespace {

template <class F>
void for_each_index(const Nest& n, F&& f) {
  n.for_each_statement([&](const Statement& s) {
    for (const Index& i : s.index) f(i);
    const std::function<void(const Expr&)> walk = [&](const Expr& e) {
      std::visit(ir::overloaded{[](const ir::Const&) {},
                                [&](const Access& a) {
                                  for (const Index& i : a.index) f(i);
                                },
                                [&](const ir::IndexValue& v) { f(v.index); }, [&](const ir::Unary& u) { walk(*u.x); },
                                [&](const ir::Binary& b) { walk(*b.x), walk(*b.y); },
                                [&](const ir::Select& c) { walk(*c.condition), walk(*c.yes), walk(*c.no); },
                                [&](const ir::Cast& c) { walk(*c.x); }},
                 e.node);
    };
    walk(*s.value);
  });
}

/// floor((D·q + r) / D) = q when 0 <= r < D for all axis values.
Index simplify_floors(const Index& i, const std::vector<int64_t>& extents) {
  if (i.floors.empty()) return i;
  Index out{i.constant, i.terms, {}};
  for (const Index::Floor& f : i.floors) {
    const Index inner = simplify_floors(f.inner, extents);
    Index whole = Index::number(0), rest = Index::number(floor_mod(Index::number(inner.constant), f.divisor).constant);
    whole.constant = (inner.constant - rest.constant) / f.divisor;
    for (const Index::Term& t : inner.terms) {
      if (t.coef % f.divisor == 0)
        whole = whole + Index::axis(t.axis, t.coef / f.divisor);
      else
        rest = rest + Index::axis(t.axis, t.coef);
    }
    for (const Index::Floor& g : inner.floors) rest.floors.push_back(g);
    const auto [lo, hi] = ir::bounds(rest, extents);
    if (lo >= 0 && hi < f.divisor)
      out = out + whole * f.coef;
    else
      out = out + (whole + ir::floor_div(rest, f.divisor)) * f.coef;
  }
  return out;
}

void rewrite(Nest& n, const std::vector<Index>& with, std::vector<NestAxis> axes) {
  n.axes = std::move(axes);
  const std::vector<int64_t> extents = n.extents();
  const auto one = [&](const Index& i) { return simplify_floors(ir::substitute(i, with), extents); };
  const auto statement = [&](Statement& s) {
    for (Index& i : s.index) i = one(i);
    s.value = ir::transform(s.value, [&](const ExprPtr& x) -> ExprPtr {
      if (const Access* a = std::get_if<Access>(&x->node)) {
        std::vector<Index> index;
        for (const Index& i : a->index) index.push_back(one(i));
        return ir::access(a->tensor, std::move(index), a->out_of_bounds);
      }
      if (const ir::IndexValue* v = std::get_if<ir::IndexValue>(&x->node)) return ir::index_value(one(v->index));
      return nullptr;
    });
  };
  for (Statement& s : n.inner) statement(s);
  for (Statement& s : n.outer) statement(s);
}

/// A divisor D of the extent of an axis that occurs as floor(axis / D).
std::optional<std::pair<int, int64_t>> find_split(const Nest& n, const std::vector<int>& keep) {
  std::optional<std::pair<int, int64_t>> found;
  for_each_index(n, [&](const Index& i) {
    for (const Index::Floor& f : i.floors) {
      const int a = single_axis(f.inner);
      if (a < 0 || std::count(keep.begin(), keep.end(), a)) continue;
      const int64_t e = n.axes[size_t(a)].extent;
      if (f.divisor < e && e % f.divisor == 0 && (!found || f.divisor > found->second)) found = {a, f.divisor};
    }
  });
  return found;
}

/// Axes a, b that every access walks as the single axis a·extent(b) + b, so that they can be one.
std::optional<std::pair<int, int>> find_fusion(const ir::TensorProgram& program, const Nest& n, const std::vector<int>& keep) {
  const int count = int(n.axes.size());
  const std::vector<int64_t> extents = n.extents();
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < count; ++b) {
      if (a == b || n.axes[size_t(a)].reduced != n.axes[size_t(b)].reduced) continue;
      if (std::count(keep.begin(), keep.end(), a) || std::count(keep.begin(), keep.end(), b)) continue;
      const int64_t extent = n.axes[size_t(b)].extent;
      bool ok = true;
      const auto check = [&](int tensor, const std::vector<Index>& index, bool guarded) {
        for (const Index& i : index)
          if (i.uses(a) || i.uses(b)) ok &= i.is_affine() && !guarded;
        if (!ok) return;
        const Linear l = linearise(index, const_sizes(program[tensor].strides), count);
        ok &= l.coef[size_t(a)] == l.coef[size_t(b)] * extent;
      };
      n.for_each_statement([&](const Statement& s) {
        check(s.tensor, s.index, false);
        const std::function<void(const Expr&)> walk = [&](const Expr& e) {
          std::visit(ir::overloaded{[](const ir::Const&) {},
                                    [&](const Access& x) { check(x.tensor, x.index, !guarded_dims(program, x, extents).empty()); },
                                    [&](const ir::IndexValue& v) { ok &= !v.index.uses(a) && !v.index.uses(b); },
                                    [&](const ir::Unary& u) { walk(*u.x); }, [&](const ir::Binary& x) { walk(*x.x), walk(*x.y); },
                                    [&](const ir::Select& c) { walk(*c.condition), walk(*c.yes), walk(*c.no); },
                                    [&](const ir::Cast& c) { walk(*c.x); }},
                     e.node);
        };
        if (ok) walk(*s.value);
      });
      if (ok) return std::pair{a, b};
    }
  return {};
}

/// The same address walked by axis `a` scaled: a fused axis keeps per-dimension indices meaningful only as a sum, so the fused index
/// is put on the dimension of `b` (its coefficient carries over to the dimension of `a` through the strides).
void fuse(Nest& n, int a, int b, std::vector<int>& keep) {
  std::vector<Index> with;
  std::vector<NestAxis> axes;
  for (int i = 0; i < int(n.axes.size()); ++i) {
    if (i == a) {
      with.push_back(Index::number(0));
      continue;
    }
    with.push_back(Index::axis(int(axes.size())));
    axes.push_back(n.axes[size_t(i)]);
    if (i == b) axes.back().extent *= n.axes[size_t(a)].extent, axes.back().name = n.axes[size_t(a)].name + "_" + n.axes[size_t(b)].name;
  }
  for (int& k : keep) k -= k > a;
  rewrite(n, with, std::move(axes));
}

}  // namespace

Nest simplify_axes(const ir::TensorProgram& program, const Nest& nest, std::vector<int>& keep) {
  Nest n = nest;
  while (const auto split = find_split(n, keep)) {
    const auto [axis, divisor] = *split;
    std::vector<Index> with;
    std::vector<NestAxis> axes;
    std::vector<int> renamed = keep;
    for (int i = 0; i < int(n.axes.size()); ++i) {
      const NestAxis& x = n.axes[size_t(i)];
      for (size_t k = 0; k < keep.size(); ++k)
        if (keep[k] == i) renamed[k] = int(axes.size());
      if (i != axis) {
        with.push_back(Index::axis(int(axes.size())));
        axes.push_back(x);
        continue;
      }
      with.push_back(Index::axis(int(axes.size()), divisor) + Index::axis(int(axes.size()) + 1));
      axes.push_back({x.name + "o", x.extent / divisor, x.reduced});
      axes.push_back({x.name + "i", divisor, x.reduced});
    }
    keep = renamed;
    rewrite(n, with, std::move(axes));
  }
  std::vector<Index> with;
  std::vector<NestAxis> axes;
  std::vector<int> renamed = keep;
  for (int i = 0; i < int(n.axes.size()); ++i) {
    const bool kept = std::count(keep.begin(), keep.end(), i) != 0;
    const bool last = i + 1 == int(n.axes.size()) && axes.empty() && !n.axes[size_t(i)].reduced;
    if (n.axes[size_t(i)].extent == 1 && !kept && !last) {
      with.push_back(Index::number(0));
      continue;
    }
    for (size_t k = 0; k < keep.size(); ++k)
      if (keep[k] == i) renamed[k] = int(axes.size());
    with.push_back(Index::axis(int(axes.size())));
    axes.push_back(n.axes[size_t(i)]);
  }
  keep = renamed;
  if (std::all_of(axes.begin(), axes.end(), [](const NestAxis& a) { return a.reduced; })) axes.push_back({"one", 1, false});  // a scalar
  rewrite(n, with, std::move(axes));
  if (!n.has_reduction())  // over a single point: its value
    for (Statement& s : n.inner) s.reduce = ir::ReduceOp::none;
  while (const auto pair = find_fusion(program, n, keep)) fuse(n, pair->first, pair->second, keep);
  return n;
}

}  // namespace rgen::rtile
