#include "rtile/in_place.h"

#include <algorithm>

namespace rgen::rtile {

namespace {

/// The nest reads the tensor where the statement writes, and nowhere else.
bool read_where_written(const Nest& nest, const Statement& s, int tensor) {
  bool same = true;
  nest.for_each_statement([&](const Statement& x) {
    ir::for_each_access(*x.value, [&](const ir::Access& a) { same &= a.tensor != tensor || (a.index == s.index && !a.out_of_bounds); });
  });
  return same;
}

}  // namespace

std::optional<Rewritten> in_place(const ir::TensorProgram& program, const std::vector<Nest>& nests) {
  ir::TensorProgram placed = program;
  std::vector<bool> taken(program.tensors.size(), false);
  bool any = false;
  const auto last_reader = [&](int tensor) {
    size_t last = 0;
    for (size_t n = 0; n < nests.size(); ++n)
      if (reads(nests[n], tensor)) last = n;
    return last;
  };
  const auto lies_as = [&](int x, int y) {
    const ir::Tensor &a = program[x], &b = program[y];
    return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
  };
  for (size_t writer = 0; writer < nests.size(); ++writer)
    nests[writer].for_each_statement([&](const Statement& made) {
      if (!made.store || program[made.tensor].kind != ir::TensorKind::intermediate || placed[made.tensor].within >= 0) return;
      const size_t reader = last_reader(made.tensor);
      if (reader <= writer || nests[reader].has_reduction() || nests[reader].copies) return;
      for (const Statement& s : nests[reader].inner)
        if (program[s.tensor].kind == ir::TensorKind::output && !taken[size_t(s.tensor)] && lies_as(made.tensor, s.tensor) &&
            reads(nests[reader], made.tensor) && read_where_written(nests[reader], s, made.tensor)) {
          placed.tensors[size_t(made.tensor)].within = s.tensor;
          any = taken[size_t(s.tensor)] = true;
          return;
        }
    });
  if (!any) return {};
  return Rewritten{std::make_shared<const ir::TensorProgram>(std::move(placed)), nests};
}

}  // namespace rgen::rtile
