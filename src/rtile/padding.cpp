#include "rtile/padding.h"

#include <algorithm>
#include <limits>

#include "rtile/rprogram.h"

namespace rgen::rtile {

namespace {

/// Is the value neutral to the reduction wherever this access reads its `out_of_bounds`?
bool neutral(ir::ReduceOp reduce, const ir::Expr& value, const ir::Access& a) {
  if (const ir::Access* x = std::get_if<ir::Access>(&value.node)) {
    if (x->tensor != a.tensor || x->index != a.index || !x->out_of_bounds) return false;
    const double infinity = std::numeric_limits<double>::infinity();
    switch (reduce) {
      case ir::ReduceOp::sum:
        return *x->out_of_bounds == 0;
      case ir::ReduceOp::prod:
        return *x->out_of_bounds == 1;
      case ir::ReduceOp::max:
        return *x->out_of_bounds == -infinity;
      case ir::ReduceOp::min:
        return *x->out_of_bounds == infinity;
      case ir::ReduceOp::none:
        return false;
    }
  }
  if (const ir::Cast* c = std::get_if<ir::Cast>(&value.node)) {
    const bool kept = is_float(c->dtype) || reduce == ir::ReduceOp::sum || reduce == ir::ReduceOp::prod;
    return kept && neutral(reduce, *c->x, a);
  }
  const ir::Binary* b = std::get_if<ir::Binary>(&value.node);
  return b && b->op == ir::BinaryOp::mul && reduce == ir::ReduceOp::sum && (neutral(reduce, *b->x, a) || neutral(reduce, *b->y, a));
}

}  // namespace

int64_t PaddedTaps::front(int64_t r) const { return std::min(places, ceil_div(std::max<int64_t>(0, -offset - dilation * r), stride)); }
int64_t PaddedTaps::back(int64_t r) const {
  return std::max<int64_t>(0, places - ceil_div(std::max<int64_t>(0, extent - offset - dilation * r), stride));
}
double PaddedTaps::share(int64_t size) const {
  const Blocking b(places, 1, size);
  const int64_t larger = b.n_hi * b.hi, smaller = std::max<int64_t>(1, b.hi - 1);  // the first blocks together, the size of the others
  const auto first = [&](int64_t n) { return n < larger ? n / b.hi : b.n_hi + (n - larger) / smaller; };
  const auto last = [&](int64_t n) { return n < places - larger ? n / smaller : b.blocks - b.n_hi + (n - (places - larger)) / b.hi; };
  int64_t out = 0;
  for (int64_t r = 0; r < taps; ++r) out += std::min(first(front(r)) + last(back(r)), b.blocks);
  return 1 - double(out) / double(taps * b.blocks);
}
double PaddedTaps::whole(int64_t size) const {
  const Blocking b(places, 1, size);
  int64_t whole = 0;
  for (int64_t r = 0; r < taps; ++r)
    for (int64_t o = 0; o < b.blocks; ++o) whole += b.start(o) >= front(r) && b.start(o + 1) <= places - back(r);
  return double(whole) / double(taps * b.blocks);
}
double PaddedTaps::inside(int64_t steps, int64_t size) const {
  const Blocking b(places, 1, size);
  int64_t outside = 0, all = 0;
  for (int64_t r = 0; r < taps; r += steps) {
    const int64_t more = dilation * (std::min(steps, taps - r) - 1) + 1, first = dilation * r + offset;
    const auto begin = [&](int64_t block) { return stride * b.start(block) + first; };
    const auto end = [&](int64_t block) { return stride * (b.start(block + 1) - 1) + first + more; };
    for (int64_t o = 0; o < b.blocks && begin(o) < 0; ++o) outside += std::min<int64_t>(0, end(o)) - begin(o);
    for (int64_t o = b.blocks; o-- > 0 && end(o) > extent;) outside += end(o) - std::max(begin(o), extent);
    all += stride * (places - b.blocks) + more * b.blocks;
  }
  return 1 - double(outside) / double(all);
}

std::vector<PaddedTaps> padded_taps(const ir::TensorProgram& program, const Nest& nest) {
  std::vector<PaddedTaps> all;
  if (nest.inner.size() != 1 || nest.inner[0].reduce == ir::ReduceOp::none) return all;
  const std::vector<int64_t> extents = nest.full_extents();
  const Statement& s = nest.inner[0];
  ir::for_each_access(*s.value, [&](const ir::Access& a) {
    if (!a.out_of_bounds || !neutral(s.reduce, *s.value, a)) return;
    for (size_t d = 0; d < a.index.size(); ++d) {
      const ir::Index& i = a.index[d];
      if (!i.is_affine() || i.terms.size() != 2) continue;
      const bool first = nest.axes[size_t(i.terms[0].axis)].reduced;
      const ir::Index::Term &by_tap = i.terms[first ? 0 : 1], &by_place = i.terms[first ? 1 : 0];
      if (!nest.axes[size_t(by_tap.axis)].reduced || nest.axes[size_t(by_place.axis)].reduced || by_tap.coef <= 0 || by_place.coef <= 0)
        continue;
      PaddedTaps t{by_tap.axis,
                   by_place.axis,
                   by_place.coef,
                   by_tap.coef,
                   i.constant,
                   program[a.tensor].shape[d].value(),
                   extents[size_t(by_tap.axis)],
                   extents[size_t(by_place.axis)]};
      const auto [lo, hi] = ir::bounds(i, extents);
      const bool known = std::any_of(all.begin(), all.end(), [&](const PaddedTaps& x) { return x.reduced == t.reduced; });
      if ((lo < 0 || hi >= t.extent) && t.taps > 1 && !known) all.push_back(t);
    }
  });
  return all;
}

}  // namespace rgen::rtile
