#include "rtile/footprints.h"

#include <algorithm>
#include <cmath>

namespace rgen::rtile {

double Footprints::touched_by_worker() const {
  std::vector<int64_t> all(n_);
  for (size_t a = 0; a < n_; ++a) all[a] = axes_[a].covered;
  std::vector<double> each(facts_.operands.size());
  return footprint(all, each);
}

void Footprints::walk_depths() {
  loops_ = all_loops();
  const size_t depths = loops_.size() + 1, operands = facts_.operands.size();
  extents_.resize(depths * n_), touched_.resize(depths * operands);
  trips_.reserve(depths), total_.reserve(depths);
  for (size_t a = 0; a < n_; ++a) extents_[a] = axes_[a].covered;
  for (size_t d = 0; d < depths; ++d) {
    if (d > 0) {
      const Loop& l = loops_[d - 1];
      const size_t a = size_t(l.axis);
      std::copy_n(&extents_[(d - 1) * n_], n_, &extents_[d * n_]);
      int64_t& x = extents_[d * n_ + a];
      const int64_t inside = reduced(a) ? l.step : int64_t(std::ceil(double(l.step) * axes_[a].mean)) * plan_.tile[a].unit;
      trips_.push_back(std::ceil(double(x) / double(std::min(inside, x))));
      x = std::min(x, inside);
    }
    total_.push_back(footprint(covered(d), std::span(touched_).subspan(d * operands, operands)));
  }
}

std::vector<Loop> Footprints::all_loops() const {
  std::vector<Loop> loops = plan_.loops;
  if (facts_.slides)
    for (int a : plan_.reduce_order)
      if (axes_[size_t(a)].trips > 1)
        loops.push_back({a, axes_[size_t(a)].unroll * (a == plan_.k_axis ? plan_.k_step : plan_.tile[size_t(a)].unit)});
  return loops;
}

double Footprints::footprint(std::span<const int64_t> extents, std::span<double> each) const {
  double sum = 0;
  for (size_t i = 0; i < each.size(); ++i) {
    const auto& o = facts_.operands[i];
    each[i] = footprint_bytes(o, extents, c_.profile.levels[0].line_bytes, fetch_of(facts_, plan_, i, Fetch::rows));
    each[i] *= inside(i, extents);
    if (placed(i, Placement::box)) each[i] *= o.box(plan_.operands[i]).spread;
    if (packed(i)) each[i] *= made_up(i, extents);
    if (sums_apart(facts_.operands[i])) each[i] *= double(kSum) / o.element_bytes;
    sum += each[i];
  }
  return sum;
}

double Footprints::made_up(size_t operand, std::span<const int64_t> extents) const {
  const auto& o = facts_.operands[operand];
  const auto up = [&](int axis, int64_t unit) {
    if (axis < 0 || o.coef[size_t(axis)] == 0) return 1.0;
    return double(round_up(extents[size_t(axis)], unit)) / double(extents[size_t(axis)]);
  };
  return up(plan_.vec, plan_.tile[size_t(plan_.vec)].unit) * (int(operand) == plan_.operand_b ? up(plan_.k_axis, plan_.k_step) : 1);
}

double Footprints::inside(size_t operand, std::span<const int64_t> extents) const {
  const auto& o = facts_.operands[operand];
  double share = 1;
  if (!plan_.taps || !o.inner || o.is_store) return share;
  for (const PaddedTaps& t : *plan_.taps) {
    const size_t tap = size_t(t.reduced), place = size_t(t.output);
    const bool left_out = plan_.left_out(t) != NestPlan::LeftOut::nowhere;
    if (o.coef[tap] == 0) continue;
    if (o.coef[place] == 0)
      share *= left_out ? t.share(extents[place]) : 1;
    else if (left_out || placed(operand, Placement::direct))
      share *= t.inside(extents[tap], extents[place]);
  }
  return share;
}

double Footprints::sliding(size_t operand, std::span<const int64_t> around, std::span<const int64_t> within, int axis, double occupied,
                           double bytes, double together, double capacity) const {
  const size_t a = size_t(axis);
  std::vector<int64_t> extents(within.begin(), within.end());
  std::vector<double> each(facts_.operands.size());
  const auto of = [&](double iterations) {
    extents[a] = std::min(around[a], int64_t(iterations) * within[a]);
    return footprint(extents, each);
  };
  const double all = double(around[a]) / double(within[a]), next = of(2) - occupied;
  const double held = std::clamp(1 + std::floor((capacity - occupied) / std::max(1.0, next)), 1.0, std::max(1.0, std::floor(all) - 1));
  // of as many iterations more, since the lines of one depend on where it begins
  const double more = std::max(1.0, std::min(held, std::floor(all) - held));
  of(held);
  const double before = each[operand];
  of(held + more);
  return std::clamp(before + (all - held) * (each[operand] - before) / more, together, std::max(all * bytes, together));
}

}  // namespace rgen::rtile
