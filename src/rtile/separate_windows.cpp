#include "rtile/separate_windows.h"

#include <algorithm>

#include "rtile/layout.h"
#include "rtile/relayout.h"
#include "rtile/rprogram.h"

namespace rgen::rtile {

namespace {

constexpr double kFewer = 0.5;  ///< of the steps: what passes between the nests is written and read

/// A dimension that a reduced axis walks from where an output axis is.
struct Side {
  size_t dimension;
  int place, step;
};
struct Window {
  ir::Access access;
  Side rows, columns;  ///< columns: of the later dimension
};

class Separating {
 public:
  Separating(const ir::TensorProgram& program, const std::vector<Nest>& nests)
      : given_(program), program_(std::make_shared<ir::TensorProgram>(program)), nests_(nests) {}

  std::optional<Rewritten> run() {
    bool any = false;
    for (size_t i = 0; i < nests_.size(); ++i)
      if (const auto w = window(nests_[i]); w && gains(nests_[i], *w)) separate(i++, *w), any = true;
    if (!any) return {};
    return Rewritten{std::move(program_), std::move(nests_)};
  }

 private:
  const ir::TensorProgram& given_;
  std::shared_ptr<ir::TensorProgram> program_;
  std::vector<Nest> nests_;

  static int64_t extent(const Nest& n, int axis) { return n.axes[size_t(axis)].extent; }

  /// Only the two dimensions of the window are walked in another way than from end to end, and a value outside stays what it is.
  std::optional<Window> window(const Nest& n) const {
    if (n.inner.size() != 1) return {};
    const Statement& s = n.inner[0];
    const ir::Access* a = std::get_if<ir::Access>(&s.value->node);
    const bool ordered = s.reduce == ir::ReduceOp::max || s.reduce == ir::ReduceOp::min;
    if (!a || !(ordered || s.reduce == ir::ReduceOp::sum) || !is_affine(a->index)) return {};
    if (!ordered && (a->out_of_bounds.value_or(0) != 0 || !is_float(given_[a->tensor].dtype))) return {};
    std::vector<Side> sides;
    for (size_t d = 0; d < a->index.size(); ++d) {
      const int axis = single_axis(a->index[d]);
      if (axis >= 0 && !n.axes[size_t(axis)].reduced && extent(n, axis) == given_[a->tensor].shape[d].value()) continue;
      const auto side = side_of(n, *a, d);
      if (!side) return {};
      sides.push_back(*side);
    }
    if (sides.size() != 2) return {};
    for (size_t x = 0; x < n.axes.size(); ++x)
      if (n.axes[x].reduced && n.axes[x].extent > 1 && int(x) != sides[0].step && int(x) != sides[1].step) return {};
    return Window{*a, sides[0], sides[1]};
  }

  static std::optional<Side> side_of(const Nest& n, const ir::Access& a, size_t dimension) {
    Side side{dimension, -1, -1};
    for (const ir::Index::Term& t : a.index[dimension].terms) {
      int& axis = n.axes[size_t(t.axis)].reduced ? side.step : side.place;
      if (axis >= 0 || t.coef <= 0) return {};
      axis = t.axis;
      for (size_t d = 0; d < a.index.size(); ++d)
        if (d != dimension && a.index[d].uses(axis)) return {};
    }
    return side.step >= 0 && side.place >= 0 ? std::optional(side) : std::nullopt;
  }

  bool gains(const Nest& n, const Window& w) const {
    const double rows = double(given_[w.access.tensor].shape[w.rows.dimension].value()) / double(extent(n, w.rows.place));
    const double r = double(extent(n, w.rows.step)), s = double(extent(n, w.columns.step));
    return s > 1 && rows * s + r <= kFewer * r * s;
  }

  /// Before the nest, one that reduces the rows of the windows at every place along them; the nest reduces what that leaves.
  void separate(size_t nest, const Window& w) {
    Nest& n = nests_[nest];
    const ir::Tensor& t = given_[w.access.tensor];
    const ir::ReduceOp reduce = n.inner[0].reduce;
    ir::Tensor between{unused_name(*program_, t.name + "_rows"), {}, t.dtype, ir::TensorKind::intermediate, {}, false};
    if (reduce == ir::ReduceOp::sum) between.dtype = DType::f32;
    const int to = int(program_->tensors.size());
    Nest first;
    const auto axis = [&](const std::string& name, int64_t size, bool reduced) {
      first.axes.push_back({name, size, reduced});
      return ir::Index::axis(int(first.axes.size()) - 1);
    };
    std::vector<ir::Index> from(w.access.index.size(), ir::Index::number(0)), with(n.axes.size(), ir::Index::number(0));
    Statement s{to, {}, reduce, nullptr, true};
    ir::Access left{to, w.access.index, w.access.out_of_bounds};
    for (size_t d = 0; d < from.size(); ++d) {
      const bool column = d == w.columns.dimension, row = d == w.rows.dimension;
      const int its = column ? w.columns.place : row ? w.rows.place : single_axis(w.access.index[d]);
      const int64_t size = column ? extent(n, its) : t.shape[d].value();
      const ir::Index x = axis(n.axes[size_t(its)].name + (row ? "_row" : ""), size, false);
      s.index.push_back(x), from[d] = x;
      if (column) with[size_t(its)] = x, left.index[d] = ir::Index::axis(its);
      between.shape.emplace_back(size);
    }
    with[size_t(w.columns.step)] = axis(n.axes[size_t(w.columns.step)].name, extent(n, w.columns.step), true);
    from[w.columns.dimension] = ir::substitute(w.access.index[w.columns.dimension], with);
    s.value = ir::access(w.access.tensor, std::move(from), w.access.out_of_bounds);
    first.inner.push_back(std::move(s));
    first.of_windows = true;
    between.strides = ir::row_major(between.shape);
    program_->tensors.push_back(std::move(between));
    replace_reads(n, w.access, left);
    n.axes[size_t(w.columns.step)].extent = 1;
    nests_.insert(nests_.begin() + std::ptrdiff_t(nest), std::move(first));
  }
};

}  // namespace

std::optional<Rewritten> separate_windows(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  return Separating(program, nests).run();
}

}  // namespace rgen::rtile
