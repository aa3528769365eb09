#include "rtile/rows_apart.h"

#include <algorithm>
#include <map>
#include <span>

#include "rtile/layout.h"
#include "rtile/rprogram.h"

namespace rgen::rtile {

namespace {

/// Parts of the rows, the first that divides them: where each row is reduced, four streams are the fastest, two faster than one, eight
/// slower than four; where columns are, whose sums are read and written once for all rows taken by turns, eight as fast as four or faster.
constexpr int64_t kParts[] = {4, 5, 3, 2}, kOfColumns[] = {8, 4, 5, 6, 7, 3, 2};

class RowsApart {
 public:
  RowsApart(const ir::TensorProgram& program, const std::vector<Nest>& nests, std::vector<bool> in_memory)
      : program_(program), nests_(nests), in_memory_(std::move(in_memory)), axis_(nests.size(), -1) {}

  std::optional<Rewritten> run() {
    if (!find() || !follow()) return {};
    const std::span<const int64_t> all = columns_ ? std::span<const int64_t>(kOfColumns) : kParts;
    const auto parts = std::find_if(all.begin(), all.end(), [&](int64_t n) { return rows_ % n == 0; });
    return parts == all.end() ? std::nullopt : std::optional(divided(*parts));
  }

 private:
  const ir::TensorProgram& program_;
  const std::vector<Nest>& nests_;
  const std::vector<bool> in_memory_;
  std::map<int, int> dimension_;  ///< of the tensors along the rows
  std::vector<int> axis_;         ///< over the rows, of every nest; −1: it has none
  int64_t rows_ = 1;
  bool columns_ = false;  ///< the rows are reduced

  bool find() {
    for (const Group& g : build_groups(program_, nests_, [](const Nest&) { return true; })) {
      if (!g.shared.empty()) continue;
      for (const Operand& o : collect_operands(g.nests[0])) {
        const int dimension = rows_of(g.nests[0], o.access);
        if (dimension < 0) continue;
        dimension_[o.access.tensor] = dimension;
        rows_ = program_[o.access.tensor].shape[size_t(dimension)].value();
        columns_ = g.nests[0].axes[size_t(single_axis(o.access.index[size_t(dimension)]))].reduced;
        return true;
      }
    }
    return false;
  }

  /// The tensor's outermost dimension, if the nest reduces contiguous rows of it that are in memory, each of them read once, or the columns
  /// of such rows; else −1.
  int rows_of(const Nest& n, const ir::Access& a) const {
    const ir::Tensor& t = program_[a.tensor];
    if (a.out_of_bounds || !is_affine(a.index) || !in_memory_[size_t(a.tensor)]) return -1;
    const Linear l = linearise(a.index, const_sizes(t.strides), int(n.axes.size()));
    int contiguous = -1;
    for (size_t x = 0; x < n.axes.size(); ++x) {
      if (n.axes[x].extent > 1 && l.coef[x] == 0) return -1;
      if (n.axes[x].extent > 1 && l.coef[x] == 1) contiguous = int(x);
    }
    const auto outermost = std::find_if(t.shape.begin(), t.shape.end(), [](const ir::Size& s) { return s.value() > 1; });
    if (contiguous < 0 || outermost == t.shape.end()) return -1;
    const int dimension = int(outermost - t.shape.begin()), axis = single_axis(a.index[size_t(dimension)]);
    const bool columns = axis >= 0 && n.axes[size_t(axis)].reduced;
    if (columns && t.constant) return -1;  // packed in the order in which it is read
    return axis >= 0 && columns != n.axes[size_t(contiguous)].reduced ? dimension : -1;
  }

  /// All tensors and nests that have the rows; false: one of them walks them in another way.
  bool follow() {
    for (bool more = true; more;) {
      more = false;
      bool same = true;
      for (size_t n = 0; n < nests_.size(); ++n)
        nests_[n].for_each_place([&](int tensor, const std::vector<ir::Index>& index, const ir::Access* read) {
          int& axis = axis_[n];
          if (const auto at = dimension_.find(tensor); at != dimension_.end()) {
            const int here = single_axis(index[size_t(at->second)]);
            more |= axis < 0;
            if (axis < 0) axis = here;
            same &= here >= 0 && here == axis && nests_[n].axes[size_t(here)].reduced == columns_;
          }
          if (axis < 0) return;
          for (size_t d = 0; d < index.size(); ++d) {
            if (!index[d].uses(axis)) continue;
            const auto [at, fresh] = dimension_.try_emplace(tensor, int(d));
            more |= fresh;
            same &= !(read && read->out_of_bounds) && at->second == int(d) && single_axis(index[d]) == axis &&
                    program_[tensor].shape[d].value() == rows_;
          }
        });
      if (!same) return false;
    }
    return true;
  }

  Rewritten divided(int64_t parts) const {
    const int64_t length = rows_ / parts;
    auto program = std::make_shared<ir::TensorProgram>(program_);
    for (const auto& [tensor, d] : dimension_) {
      ir::Tensor& t = program->tensors[size_t(tensor)];
      t.shape[size_t(d)] = ir::Size(length);
      t.shape.insert(t.shape.begin() + d, ir::Size(parts));
      t.strides.insert(t.strides.begin() + d, ir::Size(t.strides[size_t(d)].value() * length));
    }
    std::vector<Nest> nests = nests_;
    for (size_t n = 0; n < nests.size(); ++n)
      if (axis_[n] >= 0) divide(nests[n], axis_[n], parts, length);
    return {std::move(program), std::move(nests)};
  }

  void divide(Nest& n, int axis, int64_t parts, int64_t length) const {
    const int part = int(n.axes.size());
    n.axes[size_t(axis)].extent = length;
    n.axes.push_back({n.axes[size_t(axis)].name + "_part", parts, columns_});
    n.axes.back().apart = true;
    std::vector<ir::Index> with;
    for (int a = 0; a < part; ++a) with.push_back(a == axis ? ir::Index::axis(part, length) + ir::Index::axis(a) : ir::Index::axis(a));
    const auto places = [&](int tensor, std::vector<ir::Index> index) {
      if (const auto at = dimension_.find(tensor); at != dimension_.end()) index.insert(index.begin() + at->second, ir::Index::axis(part));
      return index;
    };
    const auto statement = [&](Statement& s) {
      s.index = places(s.tensor, std::move(s.index));
      s.value = ir::transform(s.value, [&](const ir::ExprPtr& x) -> ir::ExprPtr {
        if (const ir::Access* a = std::get_if<ir::Access>(&x->node))
          return ir::access(a->tensor, places(a->tensor, a->index), a->out_of_bounds);
        if (const ir::IndexValue* v = std::get_if<ir::IndexValue>(&x->node)) return ir::index_value(ir::substitute(v->index, with));
        return nullptr;
      });
    };
    for (Statement& s : n.inner) statement(s);
    for (Statement& s : n.outer) statement(s);
  }
};

}  // namespace

std::optional<Rewritten> rows_apart(const ir::TensorProgram& program, const std::vector<Nest>& nests, const Residence& residence,
                                    const hw::Profile& profile) {
  std::vector<bool> in_memory;
  for (const int home : residence.home) in_memory.push_back(home + 1 == int(profile.levels.size()));
  return RowsApart(program, nests, std::move(in_memory)).run();
}

}  // namespace rgen::rtile
