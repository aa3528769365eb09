#include "rtile/accesses.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.h"

namespace rgen::rtile {

double Accesses::parts() const {
  const Blocking& t = plan_.tile[size_t(plan_.vec)];
  return t.tail() == t.unit ? 0 : 1 / double(t.units());
}

double Accesses::masked(size_t i) const {
  const auto& o = facts_.operands[i];
  if (!vector_masks() || o.coef[size_t(plan_.vec)] != 1 || plan_.operands[i].placement != Placement::direct) return 0;
  const bool leaves = std::any_of(o.guards.begin(), o.guards.end(), [&](int d) { return o.dim_coef[size_t(d)][size_t(plan_.vec)] != 0; });
  return std::min(1.0, (reads_on(i) ? 0 : parts()) + (leaves ? 1 / double(plan_.tile[size_t(plan_.vec)].units()) : 0));
}

double Accesses::masking(size_t i) const {
  const bool placed_at_run_time = plan_.tile[size_t(plan_.vec)].blocks > 1;
  return facts_.operands[i].coef[size_t(plan_.vec)] != 1 && placed_at_run_time && vector_masks() ? 8 : 2;
}

bool Accesses::reads_on(size_t i) const {
  return plan_.reads_on() && plan_.operands[i].placement == Placement::direct && c_.home[size_t(facts_.operands[i].tensor)] >= 0;
}

bool Accesses::in_place(const NestFacts::OperandFacts& store) const {
  return std::any_of(facts_.operands.begin(), facts_.operands.begin() + std::ptrdiff_t(facts_.reads),
                     [&](const NestFacts::OperandFacts& o) { return c_.program[o.tensor].within == store.tensor; });
}

double Accesses::points_inside(const NestFacts::OperandFacts& o) const {
  double inside = 1;
  if (plan_.taps)
    for (const PaddedTaps& t : *plan_.taps)
      if (o.coef[size_t(t.output)] != 0 && o.coef[size_t(t.reduced)] != 0 && plan_.left_out(t) == NestPlan::LeftOut::points)
        inside *= t.points_share(plan_.tile[size_t(t.output)].size());
  return inside;
}

double Accesses::distinct(const NestFacts::OperandFacts& o) const {
  double n = 1;
  for (const auto& dim : o.dim_coef) {
    double product = 1, span = 1, steps = 1;
    for (size_t a = 0; a < n_; ++a) {
      if (dim[a] == 0 || int(a) == plan_.vec) continue;
      const double size = reduced(a) ? double(axes_[a].unroll) : axes_[a].mean;
      if (reduced(a) && !plan_.window) {  // loaded again for every step
        steps *= size;
        continue;
      }
      product *= size;
      span += double(std::abs(dim[a])) * (size - 1);
    }
    n *= std::min(product, span) * steps;
  }
  if (o.coef[size_t(plan_.vec)] != 0)
    n *= reduced(size_t(plan_.vec)) ? double(axes_[size_t(plan_.vec)].unroll) : axes_[size_t(plan_.vec)].mean;
  return n;
}

double Accesses::split(size_t i, int along, int beside) const {
  const auto& o = facts_.operands[i];
  const int64_t line = c_.profile.levels[0].line_bytes, width = int64_t(plan_.lanes) * o.element_bytes;
  const bool placed = i < facts_.reads && plan_.operands[i].placement != Placement::direct;
  if (gpu() || width > line || (placed && plan_.operands[i].packed())) return 0;
  const std::vector<int64_t>& coef = placed_coef(i);
  int64_t step = line;
  for (size_t a = 0; a < n_; ++a) {
    const int64_t units = int(a) == along ? plan_.lanes : 1;
    if (int(a) == beside) continue;
    if (nest_.axes[a].extent > units) step = std::gcd(step, coef[a] * o.element_bytes * units);
  }
  const int64_t first = floor_mod((placed ? 0 : o.constant) * o.element_bytes, step);
  int64_t crossing = 0;
  for (int64_t at = first; at < line; at += step) crossing += at + width > line;
  return double(crossing) / double(line / step);
}

int64_t Accesses::merged(const NestFacts::OperandFacts& o) const {
  if (plan_.reduce_order.empty()) return 1;
  const size_t last = size_t(plan_.reduce_order.back());
  const int64_t most = 16 / o.element_bytes;
  if (o.coef[last] != 1 || !o.guards.empty() || axes_[last].unroll % most != 0) return 1;
  for (size_t a = 0; a < n_; ++a)
    if (a != last && o.coef[a] % most != 0) return 1;
  return most;
}

bool Accesses::checked(size_t i, bool by_lanes) const {
  const auto& o = facts_.operands[i];
  return plan_.operands[i].placement == Placement::direct &&
         std::any_of(o.guards.begin(), o.guards.end(), [&](int d) { return checked(o.dim_coef[size_t(d)], by_lanes); });
}

bool Accesses::by_step(size_t i) const {
  const auto& o = facts_.operands[i];
  return std::any_of(o.guards.begin(), o.guards.end(), [&](int d) {
    const std::vector<int64_t>& dim = o.dim_coef[size_t(d)];
    return checked(dim) && !unrolled(dim);
  });
}

double Accesses::inside(const NestFacts::OperandFacts& o, const std::function<double(const std::vector<int64_t>&, double)>& of) const {
  double all = 1;
  for (size_t g = 0; g < o.guards.size(); ++g)
    if (const std::vector<int64_t>& dim = o.dim_coef[size_t(o.guards[g])]; checked(dim)) all *= of(dim, o.outside[g]);
  return all;
}

double Accesses::border_share(size_t i) const {
  return 1 - inside(facts_.operands[i], [&](const std::vector<int64_t>& dim, double outside) {
           if (unrolled(dim)) return 1 - outside;
           double blocks = 1;
           for (size_t a = 0; a < n_; ++a)
             if (dim[a] != 0 && !reduced(a)) blocks *= double(plan_.tile[a].blocks);
           return std::max(0.0, 1 - 2 / blocks);
         });
}

double Accesses::in_body_inside(size_t i) const {
  return inside(facts_.operands[i], [&](const std::vector<int64_t>& dim, double outside) {
    if (!unrolled(dim)) return 0.0;
    double reach = 1, here = 1;  // of the dimension, by the nest and by a tile
    for (size_t a = 0; a < n_; ++a) {
      const double step = double(std::abs(dim[a])), extent = double(nest_.axes[a].extent);
      reach += step * (extent - 1), here += step * ((reduced(a) ? extent : double(plan_.tile[a].size())) - 1);
    }
    return std::max(0.0, 1 - outside * reach / here);
  });
}

bool Accesses::checked(const std::vector<int64_t>& dim, bool by_lanes) const {
  if (!by_lanes && dim[size_t(plan_.vec)] != 0) return false;
  if (plan_.taps)
    for (const PaddedTaps& t : *plan_.taps) {
      if (dim[size_t(t.reduced)] == 0 || dim[size_t(t.output)] == 0) continue;
      const NestPlan::LeftOut left_out = plan_.left_out(t);
      if (left_out == NestPlan::LeftOut::points) return false;
      if (left_out != NestPlan::LeftOut::nowhere && plan_.tile[size_t(t.output)].size() == 1) return false;
    }
  for (size_t a = 0; a < n_; ++a)
    if (dim[a] != 0 && (reduced(a) ? axes_[a].trips : double(plan_.tile[a].blocks)) > 1) return true;
  return false;
}

bool Accesses::unrolled(const std::vector<int64_t>& dim) const {
  if (gpu()) return false;
  for (size_t a = 0; a < n_; ++a)
    if (dim[a] != 0 && reduced(a) && axes_[a].trips > 1) return false;
  return true;
}

}  // namespace rgen::rtile
