#include <algorithm>
#include <functional>
#include <optional>

#include "base/math.h"
#include "rtile/layout.h"
#include "rtile/nest.h"

namespace rgen::rtile {

using ir::Access;
using ir::Expr;
using ir::ExprPtr;
using ir::Index;

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
      if (a == b || n.axes[size_t(a)].reduced != n.axes[size_t(b)].reduced || n.axes[size_t(a)].apart || n.axes[size_t(b)].apart) continue;
      if (std::count(keep.begin(), keep.end(), a) || std::count(keep.begin(), keep.end(), b)) continue;
      const int64_t extent = n.axes[size_t(b)].extent;
      bool ok = true;
      const auto check = [&](int tensor, const std::vector<Index>& index, bool guarded) {
        for (const Index& i : index)
          if (i.uses(a) || i.uses(b)) ok &= i.is_affine() && !guarded && program[tensor].view.empty();  // a view is of single dimensions
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
