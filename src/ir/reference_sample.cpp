#include "ir/reference_sample.h"

#include <algorithm>
#include <random>

namespace rgen::ir::reference {

namespace {

constexpr int run_length = 16, n_runs = 256;

Box whole(const std::vector<int64_t>& shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }

void grow(std::optional<Box>& box, const Box& more) {
  if (!box) {
    box = more;
    return;
  }
  for (size_t d = 0; d < more.lo.size(); ++d) {
    box->lo[d] = std::min(box->lo[d], more.lo[d]);
    box->hi[d] = std::max(box->hi[d], more.hi[d]);
  }
}

/// The elements of a tensor of shape `shape` that indices reach when the axes stay in `axes`; none if all lie outside.
std::optional<Box> image(const std::vector<Index>& index, const Box& axes, const std::vector<int64_t>& shape) {
  std::vector<Index> shifted;
  std::vector<int64_t> extents;
  for (size_t a = 0; a < axes.lo.size(); ++a) {
    shifted.push_back(Index::axis(int(a)) + Index::number(axes.lo[a]));
    extents.push_back(axes.hi[a] - axes.lo[a]);
  }
  Box r;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto [lo, hi] = bounds(substitute(index[d], shifted), extents);
    r.lo.push_back(std::max<int64_t>(lo, 0));
    r.hi.push_back(std::min(hi + 1, shape[d]));
    if (r.lo.back() >= r.hi.back()) return std::nullopt;
  }
  return r;
}

Box with_reduction(const Box& out, const std::vector<int64_t>& axes) {
  Box r = out;
  for (size_t a = out.lo.size(); a < axes.size(); ++a) {
    r.lo.push_back(0);
    r.hi.push_back(axes[a]);
  }
  return r;
}

}  // namespace

int64_t Box::volume() const {
  int64_t v = 1;
  for (size_t d = 0; d < lo.size(); ++d) v *= hi[d] - lo[d];
  return v;
}

Extents::Extents(const TensorProgram& program, const std::vector<int64_t>& dim_values) {
  const auto values = [&](const Size& s) { return s.eval(dim_values); };
  for (const Tensor& t : program.tensors) {
    tensor.emplace_back();
    std::transform(t.shape.begin(), t.shape.end(), std::back_inserter(tensor.back()), values);
  }
  for (const Stage& s : program.stages) {
    stage.emplace_back();
    for (const Axis& a : s.axes) stage.back().push_back(values(a.extent));
  }
}

std::vector<std::optional<Box>> demand(const TensorProgram& program, const Extents& extents, int output, const Box& out) {
  std::vector<std::optional<Box>> of_tensor(program.tensors.size()), of_stage(program.stages.size());
  of_tensor[size_t(output)] = out;
  for (size_t s = program.stages.size(); s-- > 0;) {
    const Stage& stage = program.stages[s];
    of_stage[s] = of_tensor[size_t(stage.output)];
    if (!of_stage[s]) continue;
    const Box axes = with_reduction(*of_stage[s], extents.stage[s]);
    for_each_access(*stage.body, [&](const Access& a) {
      if (program[a.tensor].kind == TensorKind::input) return;
      if (const auto box = image(a.index, axes, extents.tensor[size_t(a.tensor)])) grow(of_tensor[size_t(a.tensor)], *box);
    });
  }
  return of_stage;
}

double cost(const TensorProgram& program, const Extents& extents, const std::vector<std::optional<Box>>& demanded,
            const std::vector<int64_t>& operations) {
  double total = 0;
  for (size_t s = 0; s < program.stages.size(); ++s) {
    if (!demanded[s]) continue;
    double points = double(operations[s]);
    for (size_t d = 0; d < demanded[s]->lo.size(); ++d) points *= double(demanded[s]->hi[d] - demanded[s]->lo[d]);
    for (size_t a = size_t(program.stages[s].n_out); a < extents.stage[s].size(); ++a) points *= double(extents.stage[s][a]);
    total += points;
  }
  return total;
}

std::vector<Box> sample(const TensorProgram& program, const Extents& extents, int output, const std::vector<int64_t>& operations,
                        double budget) {
  const std::vector<int64_t>& shape = extents.tensor[size_t(output)];
  const size_t rank = shape.size();
  const auto price = [&](const Box& b) { return cost(program, extents, demand(program, extents, output, b), operations); };
  std::vector<Box> boxes;

  for (size_t corner = 0; corner < (size_t{1} << std::min<size_t>(rank, 6)); ++corner) {
    Box b = whole(shape);
    for (size_t d = 0; d < rank; ++d) {
      if (d < 6 && (corner >> d & 1)) b.lo[d] = shape[d] - 1;
      b.hi[d] = b.lo[d] + 1;
    }
    boxes.push_back(b);
  }

  // Seeded by the shape alone: the same program is always sampled the same way. Not a standard distribution, whose values differ
  // between libraries.
  std::mt19937_64 random(0x9e3779b97f4a7c15u);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  /// A run of neighbours along the last axis inside `region`.
  const auto random_run = [&](const Box& region) {
    Box b = region;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t length = d + 1 == rank ? std::min<int64_t>(run_length, region.hi[d] - region.lo[d]) : 1;
      b.lo[d] = region.lo[d] + below(region.hi[d] - region.lo[d] - length + 1);
      b.hi[d] = b.lo[d] + length;
    }
    return b;
  };
  /// At most `count` runs for at most `allowance`, at least one; what it spent.
  const auto add_runs = [&](const Box& region, int count, double allowance) {
    double spent = 0;
    for (int i = 0; i < count && (i == 0 || spent < allowance); ++i) {
      boxes.push_back(random_run(region));
      spent += price(boxes.back());
    }
    return spent;
  };

  budget -= add_runs(whole(shape), n_runs, budget / 2);
  for (size_t d = 0, left = 2 * rank; d < rank; ++d)
    for (int64_t at : {int64_t{0}, shape[d] - 1}) {
      Box face = whole(shape);
      face.lo[d] = at;
      face.hi[d] = at + 1;
      const double allowance = std::max(budget, 0.0) / double(left--);
      const double full = price(face);
      if (shape[d] > 1 && full <= allowance) {
        boxes.push_back(face);
        budget -= full;
      } else if (shape[d] > 1) {
        budget -= add_runs(face, n_runs, allowance);
      }
    }
  return boxes;
}

}  // namespace rgen::ir::reference
